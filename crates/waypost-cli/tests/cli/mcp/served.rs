//! Agents whose store is behind a server: the tools run beside the agent, and the store elsewhere.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};

use serde_json::{Value, json};
use waypost_testkit::Run;

use super::{Client, life, state, team, typed};
use crate::serving::resident_kib;
use crate::support::work::Team;

/// A server on a team's store. It is killed when the test ends.
pub(super) struct Served(Child);

impl Served {
    /// Starts a server, and returns it with its first line.
    pub(super) fn start(team: &Team) -> (Served, Value) {
        let mut child =
            team.command("serve --port 0 --json").stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let mut said: Value = serde_json::from_str(&line).unwrap();
        (Served(child), said["data"].take())
    }
}

impl Served {
    pub(super) fn resident_kib(&self) -> u64 {
        resident_kib(&self.0)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn c12_a_session_with_a_store_behind_a_server_ends_in_the_same_state() {
    let expected = typed();
    for way in ["url", "socket"] {
        let team = team();
        let (_served, said) = Served::start(&team);
        let store = said[way].as_str().unwrap();
        let store = if way == "socket" { format!("unix:{store}") } else { store.to_owned() };
        let mut client = Client::connect(&team, &format!("mcp --db {store}"));
        for (_, tool, arguments) in life() {
            let answer = client.call(tool, &arguments);
            let is_of_issue = arguments["text"] == "went well";
            assert_eq!(answer["closed_issue"].is_string(), is_of_issue, "{way}: its issue is closed at once: {answer}");
        }
        assert!(client.close().0.success());
        let found = state(&team);
        for (part, expected) in expected.as_object().unwrap() {
            assert_eq!(&found[part], expected, "{way}: {part}");
        }
    }
}

#[test]
fn an_agent_on_another_machine_works_with_its_own_token() {
    let team = team();
    let (served, said) = Served::start(&team);
    let token = team.data("token create --agent ann")["token"].as_str().unwrap().to_owned();
    // Another home, and a repository unrelated to the first one.
    let (home, repo) = (team.sandbox.dir("far"), team.sandbox.git_repo("far/repo"));
    let command = |args: &[&str]| {
        let mut command = team.sandbox.way_command(&repo);
        command.env("HOME", &home).env("WAYPOST_DB", said["url"].as_str().unwrap()).env("WAYPOST_TOKEN", &token);
        command.args(args);
        command
    };
    let mut client = Client::of(command(&["mcp", "--agent", "ann"]));
    client.introduce();
    assert_eq!(client.call("next", &json!({ "task": "b" }))["epoch"], 1);
    let _ = client.call("checkpoint", &json!({ "task": "b", "epoch": 1, "summary": "half", "key": "k" }));
    assert_eq!(client.refused("next", &json!({ "agent": "bob", "task": "c" }))["code"], "refused", "it is ann's token");
    let found = json!({ "do": "add", "title": "Found there", "key": "found" });
    let mine = client.call("issue", &found);
    assert_eq!(client.call("issue", &found), mine);
    assert_eq!(client.call("issue", &json!({ "do": "claim", "id": mine["issue"]["id"] }))["issue"]["assignee"], "ann");
    let _ = client.call("finish", &json!({ "task": "b", "epoch": 1, "how": "done", "text": "all" }));
    let done = team.data("task show w/b");
    assert_eq!((&done["status"], &done["outcome"]), (&json!("completed"), &json!("all")));
    let from = Run::of(&command(&["where", "--json"]).output().unwrap()).data();
    assert_eq!(team.data("checkpoint list w/b")[0]["worktree_id"], from["worktree"]["id"], "{from}");
    // The server stops: the agent gets an error, and still ends on request.
    drop(served);
    assert_eq!(client.refused("heartbeat", &json!({}))["code"], "unavailable");
    assert!(client.close().0.success());
}
