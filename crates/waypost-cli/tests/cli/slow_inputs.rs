//! Inputs that would take minutes: each ends at once, with an answer or with an error that names the limit. Only the time of the
//! processor counts, which is the same on a busy machine.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use waypost_testkit::{Run, Sandbox};

use crate::serving::Server;
use crate::support::graphs::{KB, MAX_CPU_SECONDS, Pulled, blocked_by, id};
use crate::support::sandbox;

/// Runs `way`, which the kernel kills when it has taken the processor for too long.
fn limited(sandbox: &Sandbox, dir: &Path, args: &[&str], input: &str) -> Run {
    let limited = format!("ulimit -t {MAX_CPU_SECONDS}; exec \"$0\" \"$@\"");
    let file = sandbox.path("input");
    sandbox.write(&file, input);
    let mut command = sandbox.command("sh", dir);
    command.args(["-c", &limited, env!("CARGO_BIN_EXE_way")]).args(args).stdin(fs::File::open(file).unwrap());
    Run::of(&command.output().unwrap())
}

/// Fails if a server has taken the processor for longer than one command may.
#[track_caller]
fn check_time_of(server: &Server) {
    let stat = fs::read_to_string(format!("/proc/{}/stat", server.child.id())).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    let ticks: u64 = fields[11..13].iter().map(|field| field.parse::<u64>().unwrap()).sum();
    // Linux counts hundredths of a second there.
    let seconds = ticks / 100;
    assert!(seconds < MAX_CPU_SECONDS as u64, "the server has worked for {seconds} seconds");
}

fn texts(number: usize) -> Vec<String> {
    (0..number).map(|number| format!("l{number}")).collect()
}

#[test]
fn a_list_beyond_its_limit_is_refused_on_every_surface() {
    let server = Server::start(&[]);
    let expected = "labels has 200000 entries, and at most 1000 are allowed";
    let add = json!({ "title": "Many", "labels": texts(200_000) });
    for path in ["/api/v1/issues", "/api/v1/op/add_issue"] {
        let reply = server.post(path, &add);
        assert_eq!(reply.fails(400), "invalid");
        assert!(reply.body.contains(expected), "{}", reply.body);
    }
    let call = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "name": "issue", "arguments": { "do": "add", "title": "Many", "labels": texts(200_000), "agent": "ann" } },
    });
    let reply = server.ask("POST", "/mcp").with("Accept", "application/json, text/event-stream").json(&call).send();
    assert!(reply.body.contains(expected), "{}", &reply.body[..reply.body.len().min(1_000)]);
    let line = json!({ "op": "add", "title": "Many", "labels": texts(200_000) }).to_string();
    for input in [line.clone(), format!("[{line}]"), line.replace("\"labels\"", "\"add_labels\"")] {
        let run = limited(&server.sandbox, &server.repo, &["batch", "-"], &input).fails(2);
        assert!(run.stderr.contains(expected), "{}", run.stderr);
    }
    let labels: Vec<String> = texts(1_001).iter().map(|label| format!("--label={label}")).collect();
    let args: Vec<&str> = ["add", "Many"].into_iter().chain(labels.iter().map(String::as_str)).collect();
    let run = limited(&server.sandbox, &server.repo, &args, "").fails(2);
    assert!(run.stderr.contains("has 1001 entries, and at most 1000 are allowed"), "{}", run.stderr);
    assert_eq!(server.get("/api/v1/issues").data().as_array().unwrap().len(), 0, "nothing was added");
    check_time_of(&server);
}

#[test]
fn other_lists_and_texts_beyond_their_limit_are_refused() {
    let server = Server::start(&[]);
    let first = server.post("/api/v1/issues", &json!({ "title": "First" })).data()["id"].clone();
    let refused = |operation: &str, arguments: Value, expected: &str| {
        let reply = server.post(&format!("/api/v1/op/{operation}"), &arguments);
        assert_eq!(reply.fails(400), "invalid", "{operation}");
        assert!(reply.body.contains(expected), "{operation}: {}", &reply.body[..reply.body.len().min(500)]);
        assert!(reply.body.len() < 2_000, "{operation} repeats its input");
    };
    refused("add_issue", json!({ "title": "x", "blocked_by": vec![&first; 20_000] }), "blocked_by has 20000 entries");
    refused("add_issue", json!({ "title": "x".repeat(20_000) }), "title has 20000 characters");
    refused("add_issue", json!({ "title": "x", "labels": ["y".repeat(20_000)] }), "labels has 20000 characters");
    refused("add_comment", json!({ "issue": first, "text": "x".repeat(2 << 20) }), "text has 2097152 characters");
    refused("update_issue", json!({ "issue": first, "remove_labels": texts(5_000) }), "remove_labels has 5000 entries");
    refused("list_issues", json!({ "any_label": texts(5_000) }), "any_label has 5000 entries");
    refused("register_agent", json!({ "name": "ann", "capabilities": texts(5_000) }), "capabilities has 5000 entries");
    refused("show_task", json!({ "task": "t".repeat(50_000) }), "task has 50000 characters");
    let deep = json!({ "name": "w", "plan": { "tasks": [{ "name": "a", "context": { "list": vec![0; 20_000] } }] } });
    refused("add_workflow", deep, "list has 20000 entries");
    let added = server.post("/api/v1/issues", &json!({ "title": "x", "blocked_by": vec![&first; 1_000] })).data();
    assert_eq!(added["dependencies"].as_array().unwrap().len(), 1, "a repeated blocker counts once");
    check_time_of(&server);
}

#[test]
fn a_plan_in_which_every_task_needs_all_before_it_is_refused_at_once() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let names = texts(600);
    let tasks: Vec<Value> = (0..600).map(|at| json!({ "name": names[at], "depends_on": names[..at] })).collect();
    sandbox.write(repo.join("plan"), json!({ "tasks": tasks }).to_string());
    let run = limited(&sandbox, &repo, &["workflow", "create", "w", "--plan", "plan"], "").fails(2);
    assert!(run.stderr.contains("a plan with 179700 dependencies is too large"), "{}", run.stderr);
    assert!(run.stderr.contains("at most 20000"), "{}", run.stderr);
}

#[test]
fn a_configuration_with_many_keys_or_values_stops_no_command() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let mut keys = String::new();
    (0..30_000).for_each(|number| writeln!(keys, "k{number} = \"x\"").unwrap());
    sandbox.dir("repo/.waypost");
    sandbox.write(repo.join(".waypost/config.toml"), keys);
    let run = limited(&sandbox, &repo, &["list"], "");
    assert_eq!(run.code, 0, "{}", &run.stderr[..run.stderr.len().min(500)]);
    assert!(run.stderr.contains("has more unknown keys") && run.stderr.len() < 4_000, "{} bytes", run.stderr.len());
}

#[test]
fn a_graph_of_too_many_issues_and_a_search_for_too_much_are_refused() {
    const LONG: usize = 10_010;
    let chain = Pulled::new(LONG, |number| blocked_by(number, (number + 1 < LONG).then_some(number + 1)));
    let run = chain.run(&format!("graph {}", id(0)), 2, KB);
    assert!(run.stderr.contains("waits for more than 10000 issues"), "{}", run.stderr);
    let run = limited(&chain.sandbox, &chain.repo, &["search", &"a.".repeat(50_000)], "").fails(2);
    assert!(run.stderr.contains("a search has 100000 characters, and at most 1000 are allowed"), "{}", run.stderr);
}

/// A matcher that tries every way to divide a name among the stars would take centuries.
#[test]
fn a_pattern_of_many_stars_in_tracked_attributes_delays_no_command() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let patterns = format!("{}b text\n{}x text\n{}b text\n", "*s*".repeat(30), "**/".repeat(60), "[!b]*".repeat(30));
    sandbox.write(repo.join(".gitattributes"), patterns);
    sandbox.write(repo.join("s".repeat(200)), "");
    sandbox.git(&repo, ["add", "--all"]);
    sandbox.git(&repo, ["commit", "-q", "-m", "x"]);
    for args in [&["add", "One"][..], &["status"], &["doctor"], &["sync"], &["ws", "new"]] {
        let run = limited(&sandbox, &repo, args, "");
        assert!((0..100).contains(&run.code), "{args:?}: {}", run.whole());
    }
}
