//! The repositories that callers of a server may name, and where code comes from.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{Server, plan, schema};
use crate::support::sandbox;

/// A text that only the ledger of a repository contains that the server does not read.
const CANARY: &str = "canary-of-the-outside";

/// Returns all files below a directory with their content.
fn tree(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if entry.file_type().unwrap().is_dir() {
            found.extend(tree(&path));
        } else {
            found.insert(path.clone(), std::fs::read(&path).unwrap());
        }
    }
    found
}

/// A server that reads its own ledger and that of `planning`, with `outside` and `plain` beside them.
fn server_with_neighbours() -> Server {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    for (name, title) in [("planning", "Plan it"), ("outside", CANARY)] {
        let neighbour = sandbox.git_repo(name);
        let _ = sandbox.way(&neighbour, ["add", title]).ok();
        let _ = sandbox.way(&neighbour, ["workflow", "create", "x", "--json"]).data();
    }
    let _ = sandbox.dir("plain");
    let _ = sandbox.way(&repo, ["add", "Own"]).ok();
    let _ = sandbox.way(&repo, ["config", "--add-repo", "../planning"]).ok();
    Server::start_in(sandbox, repo, &[])
}

/// Returns a value that fits the schema of a field.
fn sample(schema: &Value) -> Value {
    if let Some(words) = schema["enum"].as_array() {
        return words[0].clone();
    }
    match schema["type"].as_str().or_else(|| schema["type"][0].as_str()) {
        Some("array") => json!(["x"]),
        Some("integer" | "number") => json!(1),
        Some("boolean") => json!(false),
        Some("object") => json!({}),
        _ => json!("x"),
    }
}

/// Returns the operations with a field `repo`, and arguments for each without it.
fn operations_with_repo() -> Vec<(&'static str, Value)> {
    let all = waypost::app::operations().map(|about| (about.name, schema(&about)));
    let found = all.filter(|(_, schema)| schema["properties"]["repo"].is_object()).map(|(name, schema)| {
        let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let arguments = required.map(|field| (field.to_owned(), sample(&schema["properties"][field])));
        (name, Value::Object(arguments.collect()))
    });
    let found: Vec<_> = found.collect();
    assert!(found.len() > 10, "{found:?}");
    found
}

fn call_tool(server: &Server, token: &str, tool: &str, arguments: &Value) -> Value {
    let call = server.ask("POST", "/mcp").by(token).with("Accept", "application/json, text/event-stream");
    let params = json!({ "name": tool, "arguments": arguments });
    let reply = call.json(&json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params })).send();
    serde_json::from_str::<Value>(&reply.body).unwrap_or_else(|error| panic!("{error}: {reply:?}"))["result"].take()
}

#[test]
fn callers_over_http_never_name_a_repository_by_path() {
    let server = server_with_neighbours();
    let tokens = [server.token.clone(), server.token(&["--agent", "ann"]), server.token(&["--role", "read-only"])];
    let path = |name: &str| server.sandbox.path(name).to_str().unwrap().to_owned();
    let before = (tree(&server.sandbox.path("outside")), tree(&server.sandbox.path("plain")));
    let paths = [path("outside"), "../outside".to_owned(), path("plain"), path("planning"), ".".to_owned()];
    for (operation, arguments) in operations_with_repo() {
        for token in &tokens {
            let ask = |repo: &str| {
                let mut arguments = arguments.clone();
                arguments["repo"] = json!(repo);
                server.ask("POST", &format!("/api/v1/op/{operation}")).by(token).json(&arguments).send()
            };
            let missing = ask("/no/such/place");
            for path in &paths {
                let reply = ask(path);
                assert!(!reply.body.contains(CANARY), "{operation} {path}: {reply:?}");
                // The introduction of an agent leaves out what it cannot read.
                assert!(reply.status >= 400 || operation == "prime", "{operation} {path}: {reply:?}");
                let same = (missing.status, missing.body.replace("/no/such/place", path));
                assert_eq!((reply.status, reply.body), same, "the answer tells whether a path exists");
            }
        }
    }
    for token in &tokens[..2] {
        for (tool, arguments) in [
            ("issues", json!({ "do": "list" })),
            ("issues", json!({ "do": "search", "words": "canary" })),
            ("issue", json!({ "do": "add", "title": "x", "agent": "ann" })),
        ] {
            for path in &paths {
                let mut arguments = arguments.clone();
                arguments["repo"] = json!(path);
                let result = call_tool(&server, token, tool, &arguments);
                assert_eq!(result["structuredContent"]["error"]["code"], "not_found", "{tool} {path}: {result}");
            }
        }
    }
    assert!((tree(&server.sandbox.path("outside")), tree(&server.sandbox.path("plain"))) == before, "files changed");
    // On the command line, a path names a repository as before.
    let listed = server.way(&["list", "--repo", "../outside", "--json"]).ok().stdout;
    assert!(listed.contains(CANARY), "{listed}");
}

#[test]
fn callers_over_http_name_configured_repositories_by_name_or_id() {
    let server = server_with_neighbours();
    let token = server.token(&["--agent", "ann"]);
    let private = server.sandbox.path("planning/.git/waypost");
    let ids = std::fs::read_dir(private).unwrap().map(|entry| std::fs::read(entry.unwrap().path()).unwrap_or_default());
    let is_id = |word: &str| word.starts_with("rp_") && word.len() == "rp_".len() + 12;
    let words = ids.filter_map(|content| String::from_utf8(content).ok()).collect::<Vec<_>>().join("\n");
    let id = words.split(|char: char| !char.is_ascii_alphanumeric() && char != '_').find(|word| is_id(word));
    for repo in ["planning", id.expect("the repository has an id")] {
        let titles = |answer: &Value| answer[0]["title"].clone();
        let listed = server.ask("GET", &format!("/api/v1/issues?repo={repo}")).by(&token).send().data();
        assert_eq!((listed.as_array().unwrap().len(), titles(&listed)), (1, json!("Plan it")), "{repo}");
        let result = call_tool(&server, &token, "issues", &json!({ "do": "list", "repo": repo }));
        assert_eq!(titles(&result["structuredContent"]["issues"]), "Plan it", "{repo}");
    }
    let added = json!({ "title": "Also this", "repo": "planning" });
    let added = server.ask("POST", "/api/v1/issues").by(&token).json(&added).send().data();
    let ledger = std::fs::read_to_string(server.sandbox.path("planning/.waypost/issues.jsonl")).unwrap();
    assert!(ledger.contains(added["id"].as_str().unwrap()), "{ledger}");
}

/// Returns what the store knows about repositories and worktrees, without counts and times.
fn known_places(server: &Server) -> Value {
    let list =
        |operation: &str, field: &str| server.post(&format!("/api/v1/op/{operation}"), &json!({})).data()[field].take();
    let mut places = json!([list("list_repositories", "repositories"), list("list_worktrees", "worktrees")]);
    for list in places.as_array_mut().unwrap() {
        for place in list.as_array_mut().unwrap() {
            place
                .as_object_mut()
                .unwrap()
                .retain(|field, _| !field.ends_with("_seen") && field != "live_workflows" && field != "worktrees");
        }
    }
    places
}

#[test]
fn an_agent_works_from_its_own_clone_and_sets_no_path_or_address() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let (clone, elsewhere) = (sandbox.git_repo("clone"), sandbox.git_repo("elsewhere"));
    for dir in [&repo, &clone] {
        sandbox.git(dir, ["remote", "add", "origin", "https://good.example/repo.git"]);
    }
    let server = Server::start_in(sandbox, repo, &[]);
    server.post("/api/v1/workflows", &json!({ "name": "w", "plan": plan(), "start": true })).data();
    let before = known_places(&server);
    let token = server.token(&["--agent", "ann"]);
    let run = |dir: &Path, args: &[&str]| {
        let variables =
            [("WAYPOST_DB", OsStr::new(server.url())), ("WAYPOST_TOKEN", OsStr::from_bytes(token.as_bytes()))];
        server.sandbox.way_with(dir, &variables, args)
    };
    let claimed = run(&clone, &["task", "claim", "--agent", "ann", "--json"]).data();
    assert_eq!((&claimed["task"]["name"], &claimed["task"]["holder"]), (&json!("build"), &json!("ann")));
    let done = ["task", "done", "build", "--agent", "ann", "--epoch", "1", "--outcome", "o"];
    let _ = run(&clone, &done).ok();
    let claimed = run(&elsewhere, &["task", "claim", "w/test", "--agent", "ann", "--json"]).data();
    assert_eq!(claimed["task"]["holder"], "ann");
    let after = known_places(&server);
    let of = |name: &str| after[0].as_array().unwrap().iter().find(|place| place["name"] == name).unwrap().clone();
    assert_eq!(of("repo"), before[0][0]);
    // A remote address that the store knows is known for the clone, too; nothing else is.
    assert_eq!(of("clone")["remote_url"], "https://good.example/repo.git");
    for name in ["clone", "elsewhere"] {
        assert!(of(name)["path"].as_str().unwrap().starts_with("/dev/null/rp_"), "{after}");
    }
    assert!(of("elsewhere")["remote_url"].is_null(), "{after}");
}
