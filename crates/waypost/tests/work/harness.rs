//! A sandbox with a git repository, whose store is opened through the library. No process of `way` runs.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};

use serde_json::{Value, json};
use waypost::app::session::Session;
use waypost::app::{App, Call, Reply, Who};
use waypost::machine::Variables;
use waypost::machine::place::{Place, Request, Scope};
use waypost::op::AddWorkflow;
use waypost::serving::{Grant, TokenRequest, Tokens};
use waypost::{Error, Kind, Result};
use waypost_core::work::plan::Plan;
use waypost_testkit::Sandbox;

/// 2026-01-01T00:00:00Z, in seconds.
const START: i64 = 1_767_225_600;

/// The caller that is a person; all other names are agents.
pub(crate) const PERSON: &str = "tester";

/// A repository with a home of its own, and a clock that the test controls.
pub(crate) struct Office {
    pub(crate) sandbox: Sandbox,
    pub(crate) repo: PathBuf,
    seconds: AtomicI64,
}

impl Office {
    pub(crate) fn new() -> Office {
        let sandbox = Sandbox::new("way");
        let repo = sandbox.git_repo("repo");
        Office { sandbox, repo, seconds: AtomicI64::new(0) }
    }

    /// An office whose workflow `w` has started. The plan is in the short form.
    pub(crate) fn with(plan: &str) -> Office {
        let office = Office::new();
        let _ = office.session("planner").call(workflow("w", plan)).unwrap();
        office
    }

    /// Advances the clock.
    pub(crate) fn pass(&self, seconds: i64) {
        self.seconds.fetch_add(seconds, Ordering::Relaxed);
    }

    pub(crate) fn variables(&self) -> Variables {
        let clock = jiff::Timestamp::from_second(START + self.seconds.load(Ordering::Relaxed)).unwrap().to_string();
        let home = self.sandbox.path("home").into_os_string();
        let variables: [(&str, OsString); 3] =
            [("HOME", home), ("USER", PERSON.into()), ("WAYPOST_TEST_CLOCK", clock.into())];
        variables.into_iter().collect()
    }

    /// Returns a request to resolve the place of a directory.
    pub(crate) fn request(&self, dir: &Path) -> Request {
        Request { cwd: dir.to_owned(), variables: self.variables(), ..Request::default() }
    }

    pub(crate) fn place(&self, dir: &Path) -> Place {
        Place::resolve(self.request(dir)).unwrap()
    }

    /// The place of a directory with the store that all repositories of the user share.
    pub(crate) fn shared(&self, dir: &Path) -> Place {
        let scope = Some((Scope::Global, "--global"));
        Place::resolve(Request { scope, ..self.request(dir) }).unwrap()
    }

    /// The place of a directory with a store that the caller names.
    pub(crate) fn with_store(&self, dir: &Path, file: &Path) -> Place {
        let db = Some(file.as_os_str().to_owned());
        Place::resolve(Request { db, ..self.request(dir) }).unwrap()
    }

    /// Opens the store of the repository as an agent.
    pub(crate) fn session(&self, agent: &str) -> Session {
        open(&self.place(&self.repo), agent)
    }

    /// Runs an operation in the repository.
    pub(crate) fn call(&self, who: &str, operation: &str, arguments: Value) -> Result<Reply> {
        call(&self.place(&self.repo), who, operation, arguments)
    }

    /// Runs an operation that must succeed, and returns its answer.
    #[track_caller]
    pub(crate) fn data(&self, who: &str, operation: &str, arguments: Value) -> Value {
        data(&self.place(&self.repo), who, operation, arguments)
    }

    /// Runs an operation that must be refused for a reason of this kind.
    #[track_caller]
    pub(crate) fn refused(&self, kind: Kind, who: &str, operation: &str, arguments: Value) -> Error {
        refused(&self.place(&self.repo), kind, who, operation, arguments)
    }

    /// Adds an issue with these fields, and returns its id.
    #[track_caller]
    pub(crate) fn issue(&self, title: &str, mut fields: Value) -> String {
        fields["title"] = json!(title);
        text(&self.data(PERSON, "add_issue", fields)["id"])
    }

    /// Makes a linked worktree with git.
    pub(crate) fn worktree(&self, name: &str) -> PathBuf {
        let path = self.sandbox.path(name);
        self.sandbox.git(&self.repo, ["worktree", "add", "-q", "-b", name, path.to_str().unwrap()]);
        path
    }

    /// Returns the file of the repository's ledger.
    pub(crate) fn ledger(&self) -> String {
        std::fs::read_to_string(self.repo.join(".waypost/issues.jsonl")).unwrap_or_default()
    }
}

/// Opens the store of a place as an agent.
pub(crate) fn open(place: &Place, agent: &str) -> Session {
    Session::open(place.used_by(agent, Some(agent))).unwrap()
}

fn who(name: &str) -> Who {
    if name == PERSON { Who::person(name) } else { Who::agent(name) }
}

/// Runs an operation in a place.
pub(crate) fn call(place: &Place, name: &str, operation: &str, arguments: Value) -> Result<Reply> {
    App::one_process(place.clone()).request(operation, arguments, &who(name))
}

/// Runs an operation in a place. It must succeed.
#[track_caller]
pub(crate) fn data(place: &Place, name: &str, operation: &str, arguments: Value) -> Value {
    let shown = arguments.to_string();
    call(place, name, operation, arguments).unwrap_or_else(|error| panic!("{operation} {shown}: {error:?}")).answer
}

/// Runs an operation in a place. It must be refused for a reason of this kind.
#[track_caller]
pub(crate) fn refused(place: &Place, kind: Kind, name: &str, operation: &str, arguments: Value) -> Error {
    let shown = arguments.to_string();
    let error = call(place, name, operation, arguments).expect_err(&format!("{operation} {shown} is refused"));
    assert_eq!(error.kind(), kind, "{operation} {shown}: {error:?}");
    error
}

/// A running workflow. The plan is in the short form.
pub(crate) fn workflow(name: &str, plan: &str) -> AddWorkflow {
    let plan = serde_json::to_value(Plan::from_text(plan).unwrap()).unwrap();
    serde_json::from_value(json!({ "name": name, "plan": plan, "start": true })).unwrap()
}

/// An application with many clients, as a server runs it, and the tokens of its store.
pub(crate) struct Desk {
    pub(crate) office: Office,
    pub(crate) app: App,
    tokens: Tokens,
}

impl Desk {
    pub(crate) fn open(office: Office) -> Desk {
        let place = office.place(&office.repo).for_remote_callers();
        let app = App::group_commit(&place).unwrap();
        Desk { tokens: Tokens::of(&place).unwrap(), app, office }
    }

    #[expect(clippy::unused_self, reason = "the owner of the desk")]
    pub(crate) fn owner(&self) -> Grant {
        Grant::owner("own")
    }

    /// Creates a token, and returns what its secret permits.
    pub(crate) fn token(&self, role: &str, agent: Option<&str>, task: Option<&str>) -> Grant {
        let (agent, task) = (agent.map(str::to_owned), task.map(str::to_owned));
        let request = TokenRequest { role: role.parse().unwrap(), agent, task, ttl_ms: None };
        let (_, secret) = self.tokens.create(request).unwrap();
        self.tokens.lookup(&secret).unwrap()
    }

    pub(crate) fn agent(&self, name: &str) -> Grant {
        self.token("agent", Some(name), None)
    }

    /// Returns a call of the bearer of a token.
    #[expect(clippy::unused_self, reason = "a request at the desk")]
    pub(crate) fn request(&self, grant: &Grant, operation: &str, arguments: Value) -> Call {
        let who = match &grant.agent {
            Some(agent) => Who::agent(agent),
            None => Who::person(PERSON),
        };
        Call { operation: operation.to_owned(), arguments, who, grant: grant.clone(), from: None, key: None }
    }

    pub(crate) fn call(&self, grant: &Grant, operation: &str, arguments: Value) -> Result<Reply> {
        self.app.call(self.request(grant, operation, arguments))
    }

    #[track_caller]
    pub(crate) fn data(&self, grant: &Grant, operation: &str, arguments: Value) -> Value {
        let shown = arguments.to_string();
        self.call(grant, operation, arguments).unwrap_or_else(|error| panic!("{operation} {shown}: {error:?}")).answer
    }

    #[track_caller]
    pub(crate) fn refused(&self, kind: Kind, grant: &Grant, operation: &str, arguments: Value) -> Error {
        let shown = arguments.to_string();
        let error = self.call(grant, operation, arguments).expect_err(&format!("{operation} {shown} is refused"));
        assert_eq!(error.kind(), kind, "{operation} {shown}: {error:?}");
        error
    }

    /// Adds an issue as the owner, and returns its id.
    #[track_caller]
    pub(crate) fn issue(&self, title: &str) -> String {
        text(&self.data(&self.owner(), "add_issue", json!({ "title": title }))["id"])
    }
}

/// Returns the elements of an array.
#[track_caller]
pub(crate) fn list(value: &Value) -> Vec<Value> {
    value.as_array().unwrap_or_else(|| panic!("{value} is no list")).clone()
}

/// Returns the names of the records in a list.
#[track_caller]
pub(crate) fn names(value: &Value) -> Vec<String> {
    list(value).iter().map(|one| text(&one["name"])).collect()
}

#[track_caller]
pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text")).to_owned()
}
