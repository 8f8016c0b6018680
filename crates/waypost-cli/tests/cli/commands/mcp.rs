//! `way mcp`: the life of the process. The sessions are in `mcp/`.

use std::io::BufRead;
use std::time::Duration;

use serde_json::json;

use crate::mcp::{Client, team};

#[test]
fn the_server_ends_within_a_second_after_standard_input_is_closed() {
    let second = Duration::from_secs(1);
    let team = team();
    let (status, took) = Client::start(&team, "mcp").close();
    assert!(status.success() && took < second, "before the first request: {status}, {took:?}");
    let (status, took) = Client::connect(&team, "mcp").close();
    assert!(status.success() && took < second, "after the introduction: {status}, {took:?}");
    let mut client = Client::connect(&team, "mcp --agent ann");
    let _ = client.call("next", &json!({}));
    // A call that waits for a store that another process has locked.
    let db = rusqlite::Connection::open(team.repo.join(".git/waypost/state.db")).unwrap();
    db.execute_batch("BEGIN IMMEDIATE").unwrap();
    client.ask("tools/call", &json!({ "name": "heartbeat", "arguments": {} }));
    let (_, took) = client.close();
    assert!(took < second, "while a call waits: {took:?}");
    db.execute_batch("ROLLBACK").unwrap();
    let _ = team.way("db check").ok();
}

#[test]
fn a_client_that_asks_and_closes_at_once_gets_its_answer() {
    let team = team();
    let mut client = Client::connect(&team, "mcp --agent ann");
    client.ask("tools/call", &json!({ "name": "next", "arguments": { "task": "b" } }));
    drop(client.stdin.take());
    let mut line = String::new();
    client.stdout.read_line(&mut line).unwrap();
    assert!(line.contains("claimed tk_"), "{line}");
    assert!(client.child.wait().unwrap().success());
}
