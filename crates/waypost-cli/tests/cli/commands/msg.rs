//! Inboxes, written to by many processes, waited for, and shown on a terminal.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Stdio};

use serde_json::Value;
use waypost_testkit::{Run, Sandbox};

use crate::support::sandbox;

fn inbox(sandbox: &Sandbox, dir: &Path, agent: &str) -> Vec<Value> {
    let run = sandbox.way(dir, ["--agent", agent, "msg", "inbox", "--limit", "1000", "--json"]);
    run.data().as_array().unwrap().clone()
}

#[test]
fn twenty_senders_lose_nothing_and_each_keeps_its_order() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let _ = sandbox.way(&repo, ["agent", "register", "builder"]).ok();
    let rounds = 4;
    for round in 0..rounds {
        let children: Vec<Child> = (0..20)
            .map(|sender| {
                let mut command = sandbox.way_command(&repo);
                command.args(["--agent", &format!("agent{sender}"), "msg", "send", "builder", &format!("{round}")]);
                command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
            })
            .collect();
        for child in children {
            let _ = Run::of(&child.wait_with_output().unwrap()).ok();
        }
    }
    let mut by_sender: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for message in inbox(&sandbox, &repo, "builder") {
        let field = |key: &str| message[key].as_str().unwrap().to_owned();
        by_sender.entry(field("from")).or_default().push(field("body"));
    }
    assert_eq!(by_sender.len(), 20);
    for (sender, bodies) in by_sender {
        assert_eq!(bodies, (0..rounds).map(|round| round.to_string()).collect::<Vec<_>>(), "{sender}");
    }
}

#[test]
fn waiting_ends_with_the_message_or_with_the_time() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let _ = sandbox.way(&repo, ["agent", "register", "builder"]).ok();
    let _ = sandbox.way(&repo, ["--agent", "builder", "msg", "inbox", "--wait", "--timeout", "100ms"]).fails(6);
    let mut command = sandbox.way_command(&repo);
    command.args(["--agent", "builder", "msg", "inbox", "--wait", "--json"]);
    let waiting = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let _ = sandbox.way(&repo, ["--agent", "lead", "msg", "send", "builder", "go on"]).ok();
    let came = Run::of(&waiting.wait_with_output().unwrap()).data();
    assert_eq!(came[0]["body"], "go on");
    let run = sandbox.way(&repo, ["--agent", "builder", "msg", "inbox", "--timeout", "1s"]);
    assert_eq!(run.code, 2, "a timeout without --wait means nothing: {run:?}");
}

#[test]
fn control_characters_in_messages_are_escaped() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let _ = sandbox.way(&repo, ["agent", "register", "builder"]).ok();
    let body = "fine\n\u{1b}[2J\u{1b}]0;owned\u{7}\u{202e}\rmsg_x";
    let _ =
        sandbox.way(&repo, ["--agent", "lead\u{202e}", "msg", "send", "builder", body, "--subject", "\u{1b}[31m"]).ok();
    for args in [&["--agent", "builder", "msg", "inbox"][..], &["events"], &["status"], &["agent", "list"]] {
        let shown = sandbox.way(&repo, args).ok().stdout;
        assert!(!shown.contains(['\u{1b}', '\u{7}', '\u{202e}', '\r']), "{args:?}: {shown:?}");
    }
    assert_eq!(inbox(&sandbox, &repo, "builder")[0]["body"], body, "JSON output contains the text unchanged");
    let long = sandbox.path("long");
    sandbox.write(&long, "x".repeat(300 * 1024));
    let mut command = sandbox.way_command(&repo);
    command.args(["msg", "send", "builder", "-"]).stdin(std::fs::File::open(long).unwrap());
    let _ = Run::of(&command.output().unwrap()).fails(2);
}
