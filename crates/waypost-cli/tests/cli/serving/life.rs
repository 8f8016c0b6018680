//! The same workflow by commands on the file, by commands on a server, and over HTTP ends in the same state.

use std::ffi::OsString;
use std::path::Path;

use serde_json::{Value, json};
use waypost_testkit::Sandbox;

use super::{Server, numbered, plan, state};
use crate::support::sandbox;

/// The steps of the workflow, as commands with their exit codes.
const LIFE: &[(&[&str], i32)] = &[
    (&["workflow", "create", "release", "--plan", "plan.json", "--start"], 0),
    (&["workflow", "create", "release", "--plan", "plan.json"], 4),
    (&["task", "claim", "--agent", "builder"], 0),
    (&["task", "claim", "release/test", "--agent", "checker"], 4),
    (&["task", "claim", "--agent", "checker"], 6),
    (
        &[
            "task",
            "checkpoint",
            "build",
            "--agent",
            "builder",
            "--epoch",
            "1",
            "--type",
            "progress",
            "--summary",
            "ü half",
        ],
        0,
    ),
    (&["task", "checkpoint", "build", "--agent", "builder", "--epoch", "9", "--summary", "stale"], 5),
    (&["agent", "heartbeat", "--agent", "builder"], 0),
    (&["agent", "register", "checker", "--runtime", "codex", "--capability", "sql"], 0),
    (&["msg", "send", "checker", "nearly there", "--agent", "builder"], 0),
    (&["task", "done", "build", "--agent", "builder", "--epoch", "1", "--outcome", "it links"], 0),
    (&["task", "done", "none such", "--agent", "builder", "--outcome", "x"], 3),
    (&["task", "claim", "release/test", "--agent", "checker"], 0),
    (&["msg", "inbox", "--agent", "checker"], 0),
    (&["task", "ask", "test", "--agent", "checker", "--epoch", "1", "--question", "which ones?"], 0),
    (&["task", "answer", "release/test", "all of them"], 0),
    (&["task", "claim", "release/test", "--agent", "checker"], 0),
    (&["task", "done", "test", "--agent", "checker", "--epoch", "2", "--outcome", "green", "--evidence", "log"], 0),
    (&["workflow", "show", "release"], 0),
    (&["context", "release/test"], 0),
    (&["prime", "--agent", "checker"], 0),
    (&["task", "list", "--workflow", "none such"], 3),
];

/// Runs the steps as commands, and returns their output.
fn live(sandbox: &Sandbox, repo: &Path, store: Option<&str>) -> Vec<String> {
    sandbox.write(repo.join("plan.json"), plan().to_string());
    let store: Option<OsString> = store.map(Into::into);
    let variables: Vec<_> = store.iter().map(|store| ("WAYPOST_DB", store.as_os_str())).collect();
    let mut said = Vec::new();
    for (args, code) in LIFE {
        for args in [args.to_vec(), [*args, &["--json"]].concat()].iter().take(if *code == 0 { 1 } else { 2 }) {
            let run = sandbox.way_with(repo, &variables, args);
            assert_eq!(run.code, *code, "{args:?}: {run:#?}");
            said.push(run.whole());
        }
    }
    said
}

/// Output without the name of the store.
fn comparable(sandbox: &Sandbox, said: &[String]) -> String {
    let lines = said.iter().flat_map(|text| text.lines());
    let lines = lines.map(|line| line.split(",\"store\":").next().unwrap());
    let text: Vec<&str> = lines.filter(|line| !line.starts_with("store: ")).collect();
    numbered(&text.join("\n").replace(&*sandbox.path("").to_string_lossy(), "/sandbox/"))
}

#[test]
fn c12_a_workflow_on_a_server_is_the_same_as_on_the_file() {
    let alone = sandbox();
    let repo = alone.git_repo("repo");
    let said = live(&alone, &repo, None);
    let expected = (comparable(&alone, &said), state(&alone, &repo));
    for way in ["http", "unix"] {
        let server = Server::start(&[]);
        let store = if way == "http" { server.url().to_owned() } else { format!("unix:{}", server.socket().display()) };
        let said = live(&server.sandbox, &server.repo, Some(&store));
        assert_eq!(comparable(&server.sandbox, &said), expected.0, "{way}");
        assert_eq!(state(&server.sandbox, &server.repo), expected.1, "{way}");
    }
}

#[test]
fn c12_a_workflow_over_http_ends_in_the_same_state() {
    let alone = sandbox();
    let repo = alone.git_repo("repo");
    let _ = live(&alone, &repo, None);
    let server = Server::start(&[]);
    let by = |agent: &str, path: &str, body: Value| {
        server.ask("POST", &format!("/api/v1/{path}")).with("Waypost-Agent", agent).json(&body).send()
    };
    let workflow = json!({ "name": "release", "plan": plan(), "start": true });
    let made = by("", "workflows", workflow).data();
    assert_eq!(by("", "workflows", json!({ "name": "release", "plan": plan() })).fails(409), "conflict");
    let claimed = by("builder", "tasks/claim", json!({})).data();
    assert_eq!((claimed["task"]["name"].as_str(), claimed["lease"]["epoch"].as_u64()), (Some("build"), Some(1)));
    assert_eq!(by("checker", "tasks/claim", json!({ "task": "release/test" })).fails(409), "conflict");
    assert_eq!(by("checker", "tasks/claim", json!({})).fails(404), "nothing_to_do");
    let half = json!({ "epoch": 1, "kind": "progress", "summary": "ü half" });
    by("builder", "tasks/build/checkpoint", half).data();
    let stale = json!({ "epoch": 9, "kind": "progress", "summary": "stale" });
    assert_eq!(by("builder", "tasks/build/checkpoint", stale).fails(409), "lease_lost");
    by("builder", "heartbeat", json!({})).data();
    by("", "agents/register", json!({ "name": "checker", "runtime": "codex", "capabilities": ["sql"] })).data();
    by("builder", "messages", json!({ "to": "checker", "body": "nearly there" })).data();
    by("builder", "tasks/build/finish", json!({ "epoch": 1, "outcome": "it links" })).data();
    assert_eq!(by("builder", "tasks/none%20such/finish", json!({ "outcome": "x" })).fails(404), "not_found");
    by("checker", "tasks/claim", json!({ "task": "release/test" })).data();
    let inbox = by("checker", "inbox/list", json!({ "limit": 20 })).data();
    assert_eq!(inbox["messages"][0]["body"], "nearly there", "{inbox}");
    by("checker", "tasks/release%2Ftest/ask-question", json!({ "epoch": 1, "question": "which ones?" })).data();
    by("", "tasks/release%2Ftest/answer-question", json!({ "answer": "all of them" })).data();
    by("checker", "tasks/claim", json!({ "task": "release/test" })).data();
    let done = json!({ "epoch": 2, "outcome": "green", "evidence": "log" });
    by("checker", "tasks/test/finish", done).data();
    let shown = server.get(&format!("/api/v1/workflows/{}", made["id"].as_str().unwrap())).data();
    assert_eq!(shown["status"], "completed");
    assert_eq!(state(&server.sandbox, &server.repo), state(&alone, &repo));
}

#[test]
fn records_name_the_worktree_that_a_request_came_from() {
    let server = Server::start(&[]);
    let elsewhere = server.sandbox.git_repo("elsewhere");
    let store = [("WAYPOST_DB", std::ffi::OsStr::new(server.url()))];
    let made = server.sandbox.way_with(&elsewhere, &store, ["workflow", "create", "far", "--json"]).data();
    let worktrees = server.way(&["worktree", "list", "--json"]).data();
    let there = worktrees.as_array().unwrap().iter().find(|one| one["id"] == made["worktree_id"]).unwrap();
    assert_eq!(there["path"].as_str(), elsewhere.to_str());
}

#[test]
fn the_same_key_runs_a_job_once_even_after_a_restart() {
    let mut server = Server::start(&[]);
    let ask = |server: &Server, command: &str| {
        let ask = server.ask("POST", "/api/v1/jobs").with("Idempotency-Key", "k");
        ask.json(&json!({ "command": [command] })).send()
    };
    let job = ask(&server, "true").data();
    for is_restarted in [false, true] {
        if is_restarted {
            server.restart();
        }
        assert_eq!(ask(&server, "true").data(), job);
        assert_eq!(ask(&server, "false").fails(409), "conflict");
    }
    assert_eq!(server.get("/api/v1/jobs").data().as_array().unwrap().len(), 1);
    let long = server.ask("POST", "/api/v1/jobs").with("Idempotency-Key", &"x".repeat(201));
    assert_eq!(long.json(&json!({ "command": ["true"] })).send().fails(400), "invalid");
}

#[test]
fn commands_about_the_stores_file_are_refused_on_a_server() {
    let server = Server::start(&[]);
    for args in [&["db", "vacuum"] as &[_], &["db", "check"], &["db", "info"], &["db", "backup", "copy.db"]] {
        let run = server.remote(args).fails(7);
        assert!(run.stderr.contains("on the server's machine"), "{args:?}: {run:#?}");
    }
    let run = server.remote(&["serve", "--port", "0"]).fails(7);
    assert!(run.stderr.contains("server"), "{run:#?}");
    let run = server.remote(&["token", "list"]).fails(7);
    assert!(run.stderr.contains("on the machine of the server"), "{run:#?}");
}

#[test]
fn an_unreachable_server_is_an_error_and_not_an_empty_answer() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    for store in ["http://127.0.0.1:9", "unix:nothing.sock"] {
        let run = sandbox.way_with(&repo, &[("WAYPOST_DB", store.as_ref())], ["workflow", "list"]).fails(8);
        assert!(run.stderr.contains("cannot reach the server") && run.stderr.contains("way serve"), "{run:#?}");
    }
}

#[test]
fn a_task_finished_from_another_clone_closes_the_issue_in_its_ledger() {
    let server = Server::start(&[]);
    let clone = server.sandbox.git_repo("clone");
    let store = [("WAYPOST_DB", std::ffi::OsStr::new(server.url()))];
    let way = |args: &[&str]| {
        let args: Vec<&str> = ["--json", "--agent", "ann"].iter().chain(args).copied().collect();
        server.sandbox.way_with(&clone, &store, args)
    };
    let issue = way(&["add", "Only in this clone"]).data()["id"].as_str().unwrap().to_owned();
    let _ = way(&["workflow", "create", "w"]).data();
    let _ = way(&["workflow", "add-task", "w", "fix", "--issue", &issue]).data();
    let _ = way(&["workflow", "start", "w"]).data();
    let _ = way(&["task", "claim", "fix"]).data();
    let finished = way(&["task", "done", "fix", "--outcome", "all of it"]).data();
    assert_eq!(finished["closed_issue"], json!(issue), "{finished}");
    assert_eq!(way(&["show", &issue]).data()["status"], "closed");
}
