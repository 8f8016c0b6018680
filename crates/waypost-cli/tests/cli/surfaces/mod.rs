//! One operation gives one answer: over the command line, over HTTP and over MCP.
//!
//! The cases in `cases.rs` are one story. Reads are asked over all surfaces on one store. Writes are made on three stores
//! with the same history, one per surface; then the answers, the new events and the ledgers are compared. `differences.rs`
//! lists where surfaces differ today and which surface lacks an operation: both tables may only shrink. `arguments.rs`
//! compares the arguments of operations with those of commands.

mod arguments;
mod cases;
mod defects;
mod differences;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use cases::{Case, plans, story, story_of_a_shared_store};
use differences::{ABSENT, KNOWN_DIFFERENCES};
use serde_json::{Map, Value, json};
use waypost::app::session::Session;
use waypost::machine::place::{Place, Request};
use waypost_core::model::EventQuery;
use waypost_core::op::ListEvents;
use waypost_testkit::Sandbox;

use crate::across::check_ids;
use crate::mcp::Client;
use crate::serving::Server;
use crate::support::sandbox;
use crate::support::work::words;

/// Where an answer comes from. HTTP carries an operation's own answer, so the others are compared with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Surface {
    Cli,
    Http,
    Mcp,
}

/// Fields that differ between any two runs of the same command.
const VOLATILE: &[&str] =
    &["process", "supervisor", "launcher", "token_hash", "machine", "identity", "maker", "work_dir"];

/// Prefixes of ids. The last twelve characters of an id are random.
const PREFIXES: &[&str] = &["wf_", "tk_", "cp_", "ws_", "rp_", "tmpl_", "ag_", "msg_", "jb_", "wt_"];

const RANDOM_CHARS: usize = 12;

/// A repository with a store, and short names for the ids in it: `$tk2` is its second task, `$i1` its first issue.
struct Stage {
    repo: PathBuf,
    root: String,
    names: BTreeMap<String, String>,
    counts: BTreeMap<String, u32>,
    session: Session,
    /// The number of the last event that was compared.
    last: u64,
}

impl Stage {
    fn seed(sandbox: &Sandbox, is_shared: bool) -> Stage {
        let repo = sandbox.git_repo("repo");
        sandbox.git_repo("other");
        if is_shared {
            let _ = sandbox.way(&repo, ["config", "set", "scope", "global"]).ok();
        }
        sandbox.write("home/.gitconfig", "[user]\n\tname = A\n\temail = a@example.org\n");
        sandbox.git(&repo, ["worktree", "add", "--quiet", "-b", "topic", "../topic"]);
        for (name, plan) in plans() {
            sandbox.write(name, plan.to_string());
        }
        let _ = sandbox.way(&repo, ["status"]).ok();
        let _ = sandbox.way(&sandbox.path("topic"), ["status"]).ok();
        let root = sandbox.path("").to_str().unwrap().trim_end_matches('/').to_owned();
        let clock = "2026-01-01T00:00:00Z".into();
        let variables = [("HOME", sandbox.path("home").into_os_string()), ("WAYPOST_TEST_CLOCK", clock)];
        let variables = variables.into_iter().collect();
        let request = Request { cwd: repo.clone(), variables, ..Request::default() };
        let session = Session::open(Place::resolve(request).unwrap()).unwrap();
        Stage { repo, root, session, names: BTreeMap::new(), counts: BTreeMap::new(), last: 0 }
    }

    /// Gives a new id a short name.
    fn name(&mut self, kind: &str, id: &str) {
        if !self.names.values().any(|known| known == id) {
            let count = self.counts.entry(kind.to_owned()).or_default();
            *count += 1;
            self.names.insert(format!("${kind}{count}"), id.to_owned());
        }
    }

    fn name_all_in(&mut self, text: &str) {
        for prefix in PREFIXES {
            for (at, _) in text.match_indices(prefix) {
                let (from, to) = (at + prefix.len(), at + prefix.len() + RANDOM_CHARS);
                let is_whole = at == 0 || !text.as_bytes()[at - 1].is_ascii_alphanumeric();
                let random = text.get(from..to).filter(|id| id.bytes().all(|byte| byte.is_ascii_alphanumeric()));
                if let (true, Some(_)) = (is_whole, random) {
                    self.name(prefix.trim_end_matches('_'), &text[at..to]);
                }
            }
        }
    }

    /// Puts ids in the place of their short names.
    fn filled(&self, text: &str) -> String {
        let names = self.names.iter().rev();
        names.fold(text.replace("$root", &self.root), |text, (name, id)| text.replace(name.as_str(), id))
    }

    fn filled_json(&self, value: &Value) -> Value {
        serde_json::from_str(&self.filled(&value.to_string())).unwrap()
    }

    /// Puts short names in the place of ids, and leaves out what differs between any two runs.
    fn normal(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => {
                check_ids(value);
                let text = text.replace(&self.root, "/sandbox");
                self.names.iter().fold(text, |text, (name, id)| text.replace(id.as_str(), name)).into()
            }
            Value::Array(items) => items.iter().map(|item| self.normal(item)).collect(),
            Value::Object(fields) => {
                let normal = |(key, value): (&String, &Value)| {
                    let is_volatile = VOLATILE.contains(&key.as_str()) && !value.is_null();
                    let value = if is_volatile { json!("volatile") } else { self.normal(value) };
                    (self.normal(&json!(key)).as_str().unwrap().to_owned(), value)
                };
                Value::Object(fields.iter().map(normal).collect())
            }
            other => other.clone(),
        }
    }

    fn ledger(&self) -> String {
        let ledgers = [".waypost/issues.jsonl", "../other/.waypost/issues.jsonl"];
        ledgers.map(|path| std::fs::read_to_string(self.repo.join(path)).unwrap_or_default()).concat()
    }

    /// Returns what a step left behind: the new events, and the ledger. Names the ids that are new in them.
    fn left_behind(&mut self) -> Value {
        let query = EventQuery { since: Some(self.last), limit: 1_000, ..EventQuery::default() };
        let events = serde_json::to_value(self.session.call(ListEvents { query }).unwrap().events).unwrap();
        for event in events.as_array().unwrap() {
            self.last = self.last.max(event["sequence"].as_u64().unwrap());
            self.name_all_in(event["subject"].as_str().unwrap());
        }
        self.name_all_in(&events.to_string());
        let ledger: Vec<Value> = self.ledger().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        for issue in &ledger {
            self.name("i", issue["id"].as_str().unwrap());
            for comment in issue["comments"].as_array().into_iter().flatten() {
                self.name("c", comment["id"].as_str().unwrap());
            }
        }
        let mut ledger: Vec<Value> = ledger.iter().map(|issue| self.normal(issue)).collect();
        ledger.sort_by_key(|issue| issue["id"].to_string());
        json!({ "events": self.normal(&events), "ledger": ledger })
    }
}

/// Asks over the command line, and returns the envelope without its schema.
fn over_cli(sandbox: &Sandbox, stage: &Stage, case: &Case) -> Value {
    let mut command = sandbox.way_command(&stage.repo);
    command.args(["--json", "--quiet"]);
    if let Some(agent) = case.agent {
        command.args(["--agent", agent]);
    }
    let run = sandbox.run(command.args(words(&stage.filled(case.cli))), "");
    envelope(&run.stdout).unwrap_or_else(|| panic!("{}: {}: {run:#?}", case.operation, case.cli))
}

fn envelope(text: &str) -> Option<Value> {
    let mut envelope: Value = serde_json::from_str(text).ok()?;
    envelope.as_object_mut()?.remove("schema")?;
    envelope.get("data").is_some().then_some(envelope)
}

/// The operations of a server, with their address each.
struct Routes(BTreeMap<String, Route>);

/// The address of an operation, and whether it only reads.
struct Route {
    method: String,
    path: String,
    is_read: bool,
}

impl Routes {
    fn of(server: &Server) -> Routes {
        let document: Value = serde_json::from_str(&server.get("/openapi.json").body).unwrap();
        let mut routes = BTreeMap::new();
        for (path, methods) in document["paths"].as_object().unwrap() {
            for (method, route) in methods.as_object().unwrap() {
                let name = route["operationId"].as_str().unwrap().to_owned();
                // Streams, health checks and the like are not operations.
                if server.post(&format!("/api/v1/op/{name}"), &json!({ "no such argument": 0 })).status != 404 {
                    let is_read = route["x-effect"] == "read";
                    routes.insert(name, Route { method: method.to_uppercase(), path: path.clone(), is_read });
                }
            }
        }
        Routes(routes)
    }

    fn is_read(&self, operation: &str) -> bool {
        self.0[operation].is_read
    }

    /// Calls the operation at its REST address.
    fn ask(&self, server: &Server, stage: &Stage, case: &Case) -> Value {
        let Route { method, path, .. } = &self.0[case.operation];
        let has_query = method == "GET" || method == "DELETE";
        let Value::Object(mut arguments) = stage.filled_json(&case.arguments) else { panic!("no object") };
        let mut path = path.clone();
        while let Some((_, key)) = path.clone().split_once('{') {
            let key = key.split('}').next().unwrap();
            let value = arguments.remove(key).unwrap_or_else(|| panic!("{} needs {key}", case.operation));
            path = path.replace(&format!("{{{key}}}"), &value.as_str().unwrap().replace('/', "%2F"));
        }
        if has_query && !arguments.is_empty() {
            let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let pairs = arguments.iter().flat_map(|(name, value)| {
                // A list is a parameter that is given several times.
                let values = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
                values.iter().map(move |value| format!("{name}={}", text(value).replace(' ', "%20")))
            });
            path = format!("{path}?{}", pairs.collect::<Vec<_>>().join("&"));
            arguments = Map::new();
        }
        let ask = server.ask(method, &path);
        let ask = if has_query { ask } else { ask.json(&Value::Object(arguments)) };
        self.send(case, ask)
    }

    /// Calls the operation by its name, for its unchanged answer.
    fn ask_by_name(&self, server: &Server, stage: &Stage, case: &Case) -> Value {
        let path = format!("/api/v1/op/{}", case.operation);
        let arguments = stage.filled_json(&case.arguments);
        self.send(case, server.ask("POST", &path).json(&arguments))
    }

    #[expect(clippy::unused_self, reason = "as the other two")]
    fn send(&self, case: &Case, ask: crate::serving::Ask<'_>) -> Value {
        let reply = ask.with("Waypost-Agent", case.agent.unwrap_or_default()).send();
        assert_eq!(reply.status, 200, "{}: {reply:?}", case.operation);
        envelope(&reply.body).unwrap()
    }
}

fn over_mcp(client: &mut Client, stage: &Stage, case: &Case, tool: &str, arguments: &Value) -> Value {
    let mut arguments = stage.filled_json(arguments);
    if let Some(agent) = case.agent {
        arguments["agent"] = json!(agent);
    }
    let mut answer = client.request("tools/call", &json!({ "name": tool, "arguments": arguments }));
    assert_eq!(answer["result"]["isError"], false, "{}: {answer}", case.operation);
    answer["result"]["structuredContent"].take()
}

/// Finds where `said` differs from `expected`. Where it may choose fields, only those that it has count.
fn differing(pointer: &str, expected: &Value, said: &Value, may_choose: bool, found: &mut BTreeSet<String>) {
    match (expected, said) {
        (Value::Object(expected), Value::Object(said)) => {
            let keys: BTreeSet<&String> = expected.keys().chain(said.keys()).collect();
            for key in keys {
                let pointer = format!("{pointer}/{key}");
                match (expected.get(key), said.get(key)) {
                    (Some(expected), Some(said)) => differing(&pointer, expected, said, may_choose, found),
                    (Some(_), None) if may_choose => {}
                    _ => drop(found.insert(pointer)),
                }
            }
        }
        (Value::Array(expected), Value::Array(said)) if expected.len() == said.len() => {
            for (expected, said) in expected.iter().zip(said) {
                differing(&format!("{pointer}/*"), expected, said, may_choose, found);
            }
        }
        (expected, said) if expected == said => {}
        _ => drop(found.insert(pointer.to_owned())),
    }
}

/// The differences: operation, surface, and JSON pointer.
type Differences = BTreeMap<(String, Surface, String), String>;

fn note(differences: &mut Differences, case: &Case, surface: Surface, expected: &Value, said: &Value) {
    let mut found = BTreeSet::new();
    differing("", expected, said, surface == Surface::Mcp && said.get("events").is_none(), &mut found);
    insert(differences, case.operation, surface, found, expected, said);
}

fn insert(
    differences: &mut Differences,
    operation: &str,
    surface: Surface,
    found: BTreeSet<String>,
    expected: &Value,
    said: &Value,
) {
    for pointer in found {
        let at = |value: &Value| value.pointer(&pointer.replace('*', "0")).cloned().unwrap_or_default().to_string();
        let both = format!("http {:.300}\n      it {:.300}", at(expected), at(said));
        differences.insert((operation.to_owned(), surface, pointer), both);
    }
}

/// Returns every use of a tool in the story, once: the operation, the tool, and its arguments.
pub(crate) fn tools_of_operations() -> Vec<(&'static str, &'static str, Value)> {
    let mut known = BTreeSet::new();
    let tools =
        story().into_iter().filter_map(|case| case.mcp.map(|(tool, arguments)| (case.operation, tool, arguments)));
    tools.filter(|(operation, tool, _)| known.insert((*operation, *tool))).collect()
}

#[test]
fn every_operation_answers_the_same_on_every_surface() {
    let (mut differences, mut asked) = (Differences::new(), Asked::new());
    let routes = run_story(&story(), false, &mut differences, &mut asked);
    let _ = run_story(&story_of_a_shared_store(), true, &mut differences, &mut asked);
    check_that_all_were_asked(&routes, &asked);
    check_differences(&differences);
}

/// The fields that differ in a store that several repositories share: the store, and a context that names the repository.
const SHARED_ALONE: [&str; 10] = [
    "claim_task /data/context/text",
    "claim_task /data/context/tokens",
    // Each of the two has its own home, which is a machine of its own.
    "list_machines /data/*/name",
    "show_context /data/text",
    "show_context /data/tokens",
    "show_status /data/store/because",
    "show_status /data/store/path",
    "show_status /data/store/scope",
    "show_status /data/store/source",
    // Its message names the job.
    "snapshot_workspace /data/commit",
];

#[test]
fn c6_every_command_answers_the_same_with_a_store_per_repository_and_a_shared_one() {
    let sandboxes = [sandbox(), sandbox()];
    let mut stages = [Stage::seed(&sandboxes[0], false), Stage::seed(&sandboxes[1], true)];
    for stage in &mut stages {
        let _ = stage.left_behind();
    }
    let mut found = BTreeSet::new();
    for case in story() {
        let said = [0, 1].map(|at| over_cli(&sandboxes[at], &stages[at], &case));
        if let Some(then) = case.then {
            for (stage, sandbox) in stages.iter().zip(&sandboxes) {
                then(sandbox, &|text| stage.filled(text), &stage.repo);
            }
        }
        let left = [0, 1].map(|at| stages[at].left_behind());
        let [one, other] = [0, 1].map(|at| stages[at].normal(&said[at]));
        let mut pointers = BTreeSet::new();
        differing("", &one, &other, false, &mut pointers);
        differing("/left", &left[0], &left[1], false, &mut pointers);
        found.extend(pointers.into_iter().map(|pointer| format!("{} {pointer}", case.operation)));
    }
    // Commits with other messages may have the same size, or not.
    found.remove("snapshot_workspace /data/size");
    assert_eq!(found.into_iter().collect::<Vec<_>>(), SHARED_ALONE);
}

/// Operations, and over which surface each was asked for.
type Asked = BTreeSet<(&'static str, Surface)>;

/// Runs every case of a story over all surfaces, and records the differences.
fn run_story(story: &[Case], is_shared: bool, differences: &mut Differences, asked: &mut Asked) -> Routes {
    let (cli_sandbox, mcp_sandbox, http_sandbox) = (sandbox(), sandbox(), sandbox());
    let mut stages = [&cli_sandbox, &mcp_sandbox, &http_sandbox].map(|sandbox| Stage::seed(sandbox, is_shared));
    if is_shared {
        for (stage, sandbox) in stages.iter().zip([&cli_sandbox, &mcp_sandbox, &http_sandbox]) {
            // The other repository is where issues are planned.
            let _ = sandbox.way(&stage.repo, ["config", "--add-repo", "../other"]).ok();
        }
    }
    let repo = stages[2].repo.clone();
    let server = Server::start_in(http_sandbox, repo, &[]);
    let sandboxes = [&cli_sandbox, &mcp_sandbox, &server.sandbox];
    // One client writes in its own store, one reads where the server is.
    let mut writer = connect(sandboxes[1], &stages[1]);
    let mut reader = connect(sandboxes[2], &stages[2]);
    for stage in &mut stages {
        let _ = stage.left_behind();
    }
    let routes = Routes::of(&server);
    for case in story {
        asked.insert((case.operation, Surface::Http));
        asked.insert((case.operation, Surface::Cli));
        if case.mcp.is_some() {
            asked.insert((case.operation, Surface::Mcp));
        }
        let expected = routes.ask(&server, &stages[2], case);
        if routes.is_read(case.operation) {
            let stage = &stages[2];
            let said = over_cli(sandboxes[2], stage, case);
            note(differences, case, Surface::Cli, &stage.normal(&expected), &stage.normal(&said));
            if let Some((tool, arguments)) = &case.mcp {
                let expected = routes.ask_by_name(&server, stage, case)["data"].take();
                let said = over_mcp(&mut reader, stage, case, tool, arguments);
                note(differences, case, Surface::Mcp, &stage.normal(&expected), &stage.normal(&said));
            }
            continue;
        }
        let by_command = over_cli(sandboxes[0], &stages[0], case);
        let by_tool =
            case.mcp.as_ref().map(|(tool, arguments)| over_mcp(&mut writer, &stages[1], case, tool, arguments));
        if by_tool.is_none() {
            // The story continues in this store, too.
            over_cli(sandboxes[1], &stages[1], case);
        }
        if let Some(then) = case.then {
            for (stage, sandbox) in stages.iter().zip(sandboxes) {
                then(sandbox, &|text| stage.filled(text), &stage.repo);
            }
        }
        let [left_cli, left_mcp, left_http] = [0, 1, 2].map(|at| stages[at].left_behind());
        let expected = stages[2].normal(&expected);
        note(differences, case, Surface::Cli, &expected, &stages[0].normal(&by_command));
        note(differences, case, Surface::Cli, &left_http, &left_cli);
        if let Some(said) = by_tool {
            note(differences, case, Surface::Mcp, &expected["data"], &stages[1].normal(&said));
            note(differences, case, Surface::Mcp, &left_http, &left_mcp);
        }
    }
    compare_final_states(differences, &stages, &sandboxes);
    routes
}

fn connect(sandbox: &Sandbox, stage: &Stage) -> Client {
    let mut command = sandbox.way_command(&stage.repo);
    command.arg("mcp");
    let mut client = Client::of(command);
    client.introduce();
    client
}

/// Every operation has a case on every surface, or a row that says why not; and no row is without need.
fn check_that_all_were_asked(routes: &Routes, asked: &Asked) {
    let mut wrong = Vec::new();
    for operation in routes.0.keys() {
        for surface in [Surface::Cli, Surface::Http, Surface::Mcp] {
            let is_absent = ABSENT.iter().any(|(name, lacking, _)| name == operation && *lacking == surface);
            match (is_absent, asked.iter().any(|asked| *asked == (operation.as_str(), surface))) {
                (false, false) => wrong.push(format!("{operation} has no case over {surface:?}, and no row in ABSENT")),
                (true, true) => {
                    wrong.push(format!("{operation} exists over {surface:?}: remove the row from ABSENT"));
                }
                _ => {}
            }
        }
    }
    for (operation, surface, _) in ABSENT {
        if !routes.0.contains_key(*operation) {
            wrong.push(format!("{operation} ({surface:?}) stands in ABSENT and is no operation"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Returns whether a row covers this JSON pointer. `/data/**` covers everything below `/data`, where the shape differs.
fn is_below(pointer: &str, row: &str) -> bool {
    match row.strip_suffix("**") {
        Some(above) => pointer.starts_with(above),
        None => pointer == row,
    }
}

/// The table of known differences says exactly what differs.
fn check_differences(differences: &Differences) {
    let known: BTreeSet<(String, Surface, String)> = KNOWN_DIFFERENCES
        .iter()
        .map(|(operation, surface, pointer, _)| ((*operation).to_owned(), *surface, (*pointer).to_owned()))
        .collect();
    assert_eq!(known.len(), KNOWN_DIFFERENCES.len(), "a row stands twice in KNOWN_DIFFERENCES");
    let new = differences
        .iter()
        .filter(|(what, _)| !known.iter().any(|row| what.0 == row.0 && what.1 == row.1 && is_below(&what.2, &row.2)));
    let new = new.map(|((operation, surface, pointer), both)| {
        format!("    (\"{operation}\", {surface:?}, \"{pointer}\", \"\"),\n    {both}\n")
    });
    let gone = known.iter().filter(|(operation, surface, pointer)| {
        let covers = |what: &&(String, Surface, String)| {
            what.0 == *operation && what.1 == *surface && is_below(&what.2, pointer)
        };
        differences.keys().find(covers).is_none()
    });
    let gone = gone.map(|what| format!("no longer differs, so its row goes: {what:?}\n"));
    let wrong: String = new.chain(gone).collect();
    assert!(wrong.is_empty(), "surfaces differ from what KNOWN_DIFFERENCES says:\n{wrong}");
}

/// Records where the three stores differ in the end, as the command line shows them.
fn compare_final_states(differences: &mut Differences, stages: &[Stage; 3], sandboxes: &[&Sandbox; 3]) {
    for (operation, args) in
        [("(final status)", &["status", "--limit", "100"][..]), ("(final list)", &["list", "--all"])]
    {
        let said =
            |at: usize| stages[at].normal(&sandboxes[at].way(&stages[at].repo, [args, &["--json"]].concat()).data());
        for (at, surface) in [(0, Surface::Cli), (1, Surface::Mcp)] {
            let mut found = BTreeSet::new();
            let (expected, said) = (said(2), said(at));
            differing("", &expected, &said, false, &mut found);
            insert(differences, operation, surface, found, &expected, &said);
        }
    }
}
