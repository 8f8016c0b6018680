//! A desk: a directory in a sandbox, with the person or agent who works there and the time.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use serde_json::{Value, json};
use waypost::app::lazy_session::LazySession;
use waypost::app::session::{Session, Warnings};
use waypost::app::{App, Reply, Who};
use waypost::issues::ledger::{Change, Record};
use waypost::issues::record_chosen_role;
use waypost::machine::Variables;
use waypost::machine::config::{self, Layer, Value as Setting, key_named};
use waypost::machine::place::{Place, Request, Scope};
use waypost::ops::issue::batch::decode_line;
use waypost::ops::issue::{Changed, IssueContext};
use waypost::{Error, Kind, Result};
use waypost_testkit::Sandbox;
use waypost_workspace::surroundings::{Stream, Surroundings};

pub(crate) const LEDGER: &str = ".waypost/issues.jsonl";

pub(crate) const SAMPLE_LEDGER: &str = r#"{"id":"r-1","title":"Fix the API","status":"open","priority":0,"issue_type":"bug","labels":["api"],"created_at":"2025-12-01T00:00:00Z","updated_at":"2025-12-30T00:00:00Z","due_at":"2026-01-05T00:00:00Z"}
{"id":"r-2","title":"Draw the web","status":"open","priority":1,"issue_type":"feature","labels":["web","later"],"assignee":"ann","created_at":"2025-12-02T00:00:00Z","updated_at":"2025-12-02T00:00:00Z","parent_id":"r-5"}
{"id":"r-3","title":"api docs","status":"in_progress","priority":2,"labels":["api","web"],"assignee":"bob","created_at":"2025-12-03T00:00:00Z","updated_at":"2025-12-31T00:00:00Z","description":"Straße und ÄPFEL"}
{"id":"r-4","title":"Old thing","status":"closed","priority":3,"created_at":"2025-11-01T00:00:00Z","updated_at":"2025-12-20T00:00:00Z","closed_at":"2025-12-20T00:00:00Z"}
{"id":"r-5","title":"Everything","status":"open","priority":4,"issue_type":"epic","created_at":"2025-10-01T00:00:00Z"}
{"id":"r-6","title":"Gone","status":"tombstone","created_at":"2025-10-01T00:00:00Z"}
"#;

/// A directory in a sandbox, and who works there. Each call resolves the place again, as a command does.
#[derive(Clone)]
pub(crate) struct Desk {
    pub(crate) sandbox: Rc<Sandbox>,
    pub(crate) dir: PathBuf,
    variables: Vec<(OsString, OsString)>,
    db: Option<OsString>,
    scope: Option<(Scope, &'static str)>,
    flags: Vec<String>,
    actor: Option<String>,
    agent: Option<String>,
}

impl Desk {
    /// A git repository `repo` in a new sandbox. The time is the beginning of 2026.
    pub(crate) fn new() -> Desk {
        Desk::in_new_sandbox(|sandbox| sandbox.git_repo("repo"))
    }

    /// A git repository `repo` with six issues.
    pub(crate) fn with_issues() -> Desk {
        let desk = Desk::new();
        desk.write_ledger(SAMPLE_LEDGER);
        desk
    }

    /// A directory that a function makes in a new sandbox.
    pub(crate) fn in_new_sandbox(make: impl FnOnce(&Sandbox) -> PathBuf) -> Desk {
        let sandbox = Sandbox::new("");
        let dir = make(&sandbox);
        let (variables, db, scope, flags) = (Vec::new(), None, None, Vec::new());
        Desk { sandbox: Rc::new(sandbox), dir, variables, db, scope, flags, actor: None, agent: None }
    }

    /// The same person in another directory of the sandbox.
    pub(crate) fn in_dir(&self, dir: impl AsRef<Path>) -> Desk {
        Desk { dir: self.sandbox.path(dir), ..self.clone() }
    }

    /// The same person in another git repository, which is new.
    pub(crate) fn repository(&self, name: &str) -> Desk {
        self.in_dir(self.sandbox.git_repo(name))
    }

    /// The same person in another git repository, which has one issue.
    pub(crate) fn repository_with(&self, name: &str, line: &str) -> Desk {
        let desk = self.repository(name);
        desk.write_ledger(format!("{line}\n"));
        desk
    }

    /// An agent at the same desk.
    pub(crate) fn agent(&self, name: &str) -> Desk {
        Desk { agent: Some(name.to_owned()), ..self.clone() }
    }

    /// A person at the same desk.
    pub(crate) fn person(&self, name: &str) -> Desk {
        Desk { actor: Some(name.to_owned()), ..self.clone() }
    }

    /// The same desk at a minute of the first day of 2026.
    pub(crate) fn at(&self, minute: u32) -> Desk {
        self.at_time(&format!("2026-01-01T{:02}:{:02}:00Z", minute / 60, minute % 60))
    }

    pub(crate) fn at_time(&self, time: &str) -> Desk {
        self.with_variable("WAYPOST_TEST_CLOCK", time)
    }

    /// The same desk with an environment variable.
    pub(crate) fn with_variable(&self, name: &str, value: impl AsRef<OsStr>) -> Desk {
        let mut desk = self.clone();
        desk.variables.retain(|(known, _)| known != name);
        desk.variables.push((name.into(), value.as_ref().to_owned()));
        desk
    }

    /// The same desk with a setting that holds for its calls alone.
    pub(crate) fn with_flag(&self, setting: &str) -> Desk {
        let mut desk = self.clone();
        desk.flags.push(setting.to_owned());
        desk
    }

    /// The same desk with a store that the caller names.
    pub(crate) fn with_db(&self, db: impl AsRef<OsStr>) -> Desk {
        Desk { db: Some(db.as_ref().to_owned()), ..self.clone() }
    }

    pub(crate) fn with_scope(&self, scope: Scope) -> Desk {
        Desk { scope: Some((scope, "--scope")), ..self.clone() }
    }

    pub(crate) fn path(&self, relative: &str) -> PathBuf {
        self.dir.join(relative)
    }

    pub(crate) fn git<const N: usize>(&self, args: [&str; N]) -> String {
        self.sandbox.git(&self.dir, args)
    }

    /// Commits everything.
    pub(crate) fn commit(&self, message: &str) {
        self.git(["add", "--all"]);
        self.git(["commit", "-q", "-m", message]);
    }

    /// Writes a file of this directory, and the directories that it is in.
    pub(crate) fn write(&self, relative: &str, content: impl AsRef<[u8]>) {
        let path = self.path(relative);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        self.sandbox.write(path, content);
    }

    pub(crate) fn write_ledger(&self, content: impl AsRef<[u8]>) {
        self.write(LEDGER, content);
    }

    /// Writes these lines as the ledger.
    pub(crate) fn write_lines(&self, lines: &[&str]) {
        self.write_ledger(lines.iter().fold(String::new(), |file, line| file + line + "\n"));
    }

    /// The ledger's file; empty if there is none.
    pub(crate) fn file(&self) -> String {
        std::fs::read_to_string(self.path(LEDGER)).unwrap_or_default()
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.file().lines().map(str::to_owned).collect()
    }

    /// The copies of an issue in the ledger's file.
    pub(crate) fn copies(&self, id: &str) -> Vec<Value> {
        let records = self.lines().into_iter().map(|line| serde_json::from_str::<Value>(&line).unwrap());
        records.filter(|record| record["id"] == *id).collect()
    }

    /// Deletes the ledger on purpose, so that nothing brings it back.
    pub(crate) fn forget_ledger(&self) {
        std::fs::remove_file(self.path(LEDGER)).unwrap();
        self.drop_kept();
    }

    /// Discards what is kept until a commit has it.
    pub(crate) fn drop_kept(&self) {
        self.changing(|cx| cx.ledger.numbers().into_iter().try_for_each(|number| cx.ledger.drop_kept(number))).unwrap();
    }

    /// Resolves the place, with what the environment says.
    pub(crate) fn place(&self) -> Result<Place> {
        let command = self.sandbox.command("", &self.dir);
        let set = command.get_envs().filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())));
        let mut variables: Vec<(OsString, OsString)> = set.collect();
        variables.retain(|(name, _)| !self.variables.iter().any(|(known, _)| known == name));
        variables.extend(self.variables.iter().cloned());
        Place::resolve(Request {
            cwd: self.dir.clone(),
            variables: variables.into_iter().collect(),
            db: self.db.clone(),
            scope: self.scope,
            config: self.flags.clone(),
            actor: self.actor.clone(),
            agent: self.agent.clone(),
        })
    }

    /// Runs a function with the place, in its directory and with its environment.
    pub(crate) fn enter<T>(&self, run: impl FnOnce(Place) -> Result<T>) -> Result<T> {
        let place = self.place()?;
        let surroundings = Surroundings {
            directory: Some(self.dir.clone()),
            variables: Variables::changes(&place.variables),
            program: None,
            streams: Stream::of_process(),
            log_level: log::LevelFilter::Off,
        };
        surroundings.enter(|| run(place))
    }

    /// Runs a function with the ledgers, to change them.
    pub(crate) fn changing<T>(&self, run: impl FnOnce(&IssueContext) -> Result<T>) -> Result<T> {
        self.enter(|place| run(&IssueContext::open_to_change(LazySession::new(place, Warnings::default()), None, &[])?))
    }

    /// Runs a function with the ledgers and those of another repository, to change them.
    pub(crate) fn changing_with<T>(&self, named: &str, run: impl FnOnce(&IssueContext) -> Result<T>) -> Result<T> {
        self.enter(|place| {
            run(&IssueContext::open_to_change(LazySession::new(place, Warnings::default()), None, &[Some(named)])?)
        })
    }

    /// Runs a function with the ledgers, to read them.
    pub(crate) fn reading<T>(&self, run: impl FnOnce(&IssueContext) -> Result<T>) -> Result<T> {
        self.enter(|place| run(&IssueContext::open(LazySession::new(place, Warnings::default()), None, &[])?))
    }

    /// Opens the store, and runs a function with it.
    #[track_caller]
    pub(crate) fn session<T>(&self, run: impl FnOnce(&mut Session) -> Result<T>) -> T {
        self.enter(|place| run(&mut Session::create(place)?)).unwrap()
    }

    /// Runs an operation.
    pub(crate) fn request(&self, operation: &str, arguments: Value) -> Result<Reply> {
        self.enter(|place| {
            let who = Who { actor: place.actor(), agent: place.agent() };
            App::one_process(place).request(operation, arguments, &who)
        })
    }

    /// Runs an operation that must succeed.
    #[track_caller]
    pub(crate) fn run(&self, operation: &str, arguments: Value) -> Value {
        match self.request(operation, arguments) {
            Ok(reply) => reply.answer,
            Err(error) => panic!("{operation}: {}", message_and_hints(&error)),
        }
    }

    /// Runs an operation that must be refused with an error of a kind, and returns what it says.
    #[track_caller]
    pub(crate) fn refused(&self, kind: Kind, operation: &str, arguments: Value) -> String {
        refusal(kind, self.request(operation, arguments))
    }

    /// Adds an issue.
    #[track_caller]
    pub(crate) fn add(&self, title: &str) -> String {
        self.add_with(title, json!({}))
    }

    /// Adds an issue with further fields.
    #[track_caller]
    pub(crate) fn add_with(&self, title: &str, mut fields: Value) -> String {
        fields["title"] = title.into();
        id(&self.run("add_issue", fields))
    }

    #[track_caller]
    pub(crate) fn show(&self, id: &str) -> Value {
        self.run("show_issue", json!({ "issue": id }))
    }

    #[track_caller]
    pub(crate) fn update(&self, id: &str, mut fields: Value) -> Value {
        fields["issue"] = id.into();
        self.run("update_issue", fields)
    }

    #[track_caller]
    pub(crate) fn close(&self, id: &str) -> Value {
        self.run("close_issue", json!({ "issue": id }))
    }

    #[track_caller]
    pub(crate) fn comment(&self, id: &str, text: &str) {
        self.run("add_comment", json!({ "issue": id, "text": text }));
    }

    #[track_caller]
    pub(crate) fn depend(&self, issue: &str, on: &str) {
        self.run("add_dependency", json!({ "issue": issue, "on": on }));
    }

    /// Claims an issue, and returns the issue with its lease.
    #[track_caller]
    pub(crate) fn claim(&self, id: &str) -> Value {
        self.run("claim_issue", json!({ "issue": id }))
    }

    /// The ids of the issues that an operation lists.
    #[track_caller]
    pub(crate) fn ids(&self, operation: &str, arguments: Value) -> Vec<String> {
        ids(&self.run(operation, arguments)["issues"])
    }

    #[track_caller]
    pub(crate) fn ready(&self) -> Vec<String> {
        self.ids("list_ready_issues", json!({}))
    }

    /// The ids of all open issues, or of those that a filter selects.
    #[track_caller]
    pub(crate) fn list(&self, filter: Value) -> Vec<String> {
        self.ids("list_issues", filter)
    }

    /// Whether an issue is ready, with the reasons.
    #[track_caller]
    pub(crate) fn explain(&self, id: &str) -> Value {
        self.run("explain_issue", json!({ "issue": id }))
    }

    /// The warnings of a list of all issues.
    #[track_caller]
    pub(crate) fn warnings(&self) -> Vec<String> {
        self.request("list_issues", json!({})).unwrap().warnings
    }

    /// Makes several changes, all or none.
    pub(crate) fn batch(&self, changes: &[Value]) -> Result<Changed> {
        let changes: Vec<Change> = changes.iter().cloned().map(decode_line).collect::<Result<_>>()?;
        let placed: Vec<(&str, &Change)> = changes.iter().map(|change| ("", change)).collect();
        self.changing(|cx| cx.apply(&placed, false))
    }

    /// Writes a setting into the private file of the clone.
    #[track_caller]
    pub(crate) fn set(&self, name: &str, value: &str) {
        self.configure(Layer::Private, |file, lock| config::set(file, lock, key_named(name)?, &setting(name, value)?));
    }

    /// Writes a setting into the file of a layer.
    #[track_caller]
    pub(crate) fn set_in(&self, layer: Layer, name: &str, value: &str) {
        self.configure(layer, |file, lock| config::set(file, lock, key_named(name)?, &setting(name, value)?));
    }

    #[track_caller]
    pub(crate) fn unset(&self, name: &str) {
        self.configure(Layer::Private, |file, lock| config::unset(file, lock, key_named(name)?).map(drop));
    }

    /// Reads the ledger of another repository, too.
    #[track_caller]
    pub(crate) fn add_repo(&self, path: impl AsRef<Path>) {
        let path = self.dir.join(path).canonicalize().unwrap();
        let text = path.to_str().unwrap();
        self.configure(Layer::Private, |file, lock| {
            config::add_to_list(file, lock, key_named("repos.additional")?, text, |known| known == text).map(drop)
        });
    }

    #[track_caller]
    fn configure(&self, layer: Layer, edit: impl FnOnce(&Path, &Path) -> Result<()>) {
        self.enter(|place| {
            let home = place.home.as_ref().map(|(home, _)| home.join("lock"));
            let private = place.checkout.as_ref().map(|checkout| &checkout.private_dir);
            private.map_or(Ok(()), waypost_fs::PrivateDir::create)?;
            let file = match layer {
                Layer::User => place.files.user.clone(),
                Layer::Shared => place.files.shared.clone(),
                _ => place.files.private.clone(),
            };
            let file = file.unwrap();
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            edit(&file, &private.map(|dir| dir.join("lock")).or(home).unwrap())
        })
        .unwrap();
    }
}

fn setting(name: &str, value: &str) -> Result<Setting> {
    key_named(name)?.parse(value)
}

/// What an error tells: its message, its reason and its hints.
pub(crate) fn message_and_hints(error: &Error) -> String {
    std::iter::once(error.full_message()).chain(error.hints().iter().cloned()).collect::<Vec<_>>().join("\n")
}

/// Checks that something was refused with an error of a kind, and returns what it says.
#[track_caller]
pub(crate) fn refusal<T>(kind: Kind, result: Result<T>) -> String {
    let Err(error) = result else { panic!("it was not refused") };
    assert_eq!(error.kind(), kind, "{}", message_and_hints(&error));
    message_and_hints(&error)
}

/// The id of an issue.
pub(crate) fn id(issue: &Value) -> String {
    issue["id"].as_str().unwrap_or_else(|| panic!("{issue}")).to_owned()
}

/// The ids of a list of issues.
pub(crate) fn ids(issues: &Value) -> Vec<String> {
    issues.as_array().unwrap_or_else(|| panic!("{issues}")).iter().map(id).collect()
}

/// The texts of a copy's comments, in alphabetical order.
pub(crate) fn comments(copy: &Value) -> Vec<String> {
    let comments = copy["comments"].as_array().into_iter().flatten();
    let mut texts: Vec<String> = comments.map(|comment| comment["text"].as_str().unwrap().to_owned()).collect();
    texts.sort();
    texts
}

/// The id of a changed record.
pub(crate) fn id_of(record: &Record) -> String {
    record.text("id").unwrap()
}

/// A project, cloned by a contributor who plans elsewhere: the upstream, the fork and the planning.
pub(crate) fn contributor() -> (Desk, Desk, Desk) {
    let upstream = Desk::in_new_sandbox(|sandbox| sandbox.git_repo("upstream"));
    upstream.write_lines(&[r#"{"id":"up-1","title":"Theirs"}"#]);
    upstream.commit("ledger");
    upstream.in_dir("").git(["clone", "-q", "upstream", "fork"]);
    let fork = upstream.in_dir("fork");
    fork.git(["remote", "add", "upstream", "https://example.org/team/project"]);
    let planning = plan_apart(&fork, "planning");
    (upstream, fork, planning)
}

/// Makes the user of a clone a contributor, who plans in a repository of this name.
pub(crate) fn plan_apart(clone: &Desk, name: &str) -> Desk {
    let planning = clone.repository(name);
    std::fs::create_dir(planning.path(".waypost")).unwrap();
    clone.set("role", "contributor");
    clone.set("routing.mode", "auto");
    clone.set("routing.auto.contributor", planning.dir.to_str().unwrap());
    clone.add_repo(&planning.dir);
    clone.enter(|place| record_chosen_role(&place)).unwrap();
    planning
}

/// The person who maintains the project, in the same checkout.
pub(crate) fn maintainer(desk: &Desk) -> Desk {
    desk.with_flag("role=maintainer")
}
