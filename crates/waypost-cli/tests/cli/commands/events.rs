//! The history, read page by page and followed while it is written.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};

use rustix::process::{Pid, kill_process};
use serde_json::Value;
use waypost_testkit::{Run, Sandbox};

use crate::support::{interruption, sandbox};

fn follow(sandbox: &Sandbox, dir: &Path, args: &[&str]) -> (Child, BufReader<ChildStdout>) {
    let mut command = sandbox.way_command(dir);
    command.args(["events", "--follow"]).args(args).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    (child, out)
}

fn probe(sandbox: &Sandbox, dir: &Path, writes: u32) -> Child {
    let mut command = sandbox.way_command(dir);
    command.args(["db", "probe", "--writes", &writes.to_string(), "--quiet"]);
    command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Reads the sequences of followed events up to one of them.
fn sequences(out: &mut impl BufRead, last: u64) -> Vec<u64> {
    let mut seen = Vec::new();
    while seen.last() != Some(&last) {
        let mut line = String::new();
        assert!(out.read_line(&mut line).unwrap() > 0, "the stream ended after {seen:?}");
        let event: Value = serde_json::from_str(&line).unwrap();
        seen.push(event["sequence"].as_u64().unwrap());
        assert!(*seen.last().unwrap() <= last, "{seen:?} goes beyond {last}");
    }
    seen
}

#[test]
fn twenty_writers_are_followed_without_missing_or_repeating_an_event() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let _ = sandbox.way(&repo, ["status"]).ok();
    let mut readers: Vec<_> = (0..3).map(|_| follow(&sandbox, &repo, &["--since", "0", "--json"])).collect();
    let writers: Vec<Child> = (0..20).map(|_| probe(&sandbox, &repo, 15)).collect();
    // More writers, which are killed at any point.
    let mut doomed: Vec<Child> = (0..5).map(|_| probe(&sandbox, &repo, 100_000)).collect();
    for writer in writers {
        let output = writer.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    for writer in &mut doomed {
        writer.kill().unwrap();
        writer.wait().unwrap();
    }
    let page = sandbox.way(&repo, ["events", "--limit", "1", "--json"]).data();
    let last = page[0]["sequence"].as_u64().unwrap();
    assert!(last >= 302, "{last}");
    for (child, out) in &mut readers {
        assert_eq!(sequences(out, last), (1..=last).collect::<Vec<_>>());
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

#[test]
fn following_starts_now_and_applies_its_filters() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let _ = sandbox.way(&repo, ["worktree", "add", "topic"]).ok();
    let topic = sandbox.path("repo-topic");
    let (mut child, mut out) =
        follow(&sandbox, &repo, &["--since", "1", "--kind", "agent.registered", "--worktree", "topic"]);
    let _ = sandbox.way(&repo, ["agent", "register", "elsewhere"]).ok();
    let _ = sandbox.way(&topic, ["agent", "register", "here"]).ok();
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert!(line.contains("agent.registered") && line.contains("here") && line.contains("in repo-topic"), "{line}");
    child.kill().unwrap();
    child.wait().unwrap();

    let before = sandbox.way(&repo, ["events", "--limit", "1", "--json"]).data()[0]["sequence"].as_u64().unwrap();
    let (mut child, mut out) = follow(&sandbox, &repo, &["--json"]);
    // The first event that it prints shows that it has started; all later events must follow.
    let mut last = before;
    let mut first = String::new();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut line = String::new();
            out.read_line(&mut line).unwrap();
            line
        });
        while !reader.is_finished() {
            let _ = sandbox.way(&repo, ["db", "probe", "--writes", "1", "--quiet"]).ok();
            last += 1;
        }
        first = reader.join().unwrap();
    });
    let first: u64 = serde_json::from_str::<Value>(&first).unwrap()["sequence"].as_u64().unwrap();
    assert!(first > before);
    if first < last {
        assert_eq!(sequences(&mut out, last), (first + 1..=last).collect::<Vec<_>>());
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn following_ends_quietly_when_its_output_is_closed_and_at_once_when_interrupted() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let _ = sandbox.way(&repo, ["status"]).ok();
    let (child, mut out) = follow(&sandbox, &repo, &["--since", "0"]);
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    drop(out);
    let _ = Run::of(&child.wait_with_output().unwrap()).ok();

    let (mut child, mut out) = follow(&sandbox, &repo, &["--since", "0"]);
    out.read_line(&mut line).unwrap();
    kill_process(Pid::from_child(&child), interruption()).unwrap();
    assert_eq!(child.wait().unwrap().code(), None, "the signal ended it");
}

#[test]
fn a_page_is_a_table_whose_json_says_where_the_next_one_begins() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let _ = sandbox.way(&repo, ["status"]).ok();
    let text = sandbox.way(&repo, ["events", "--kind", "repository.", "--since", "0"]).ok().stdout;
    assert_eq!(
        text,
        "NUMBER  TIME                      EVENT                  SUBJECT  DETAIL  BY      WORKTREE\n     \
         1  2026-01-01T00:00:00.000Z  repository.registered  repo     repo    tester  repo\n"
    );
    let run = sandbox.way(&repo, ["events", "--since", "0", "--limit", "1", "--worktree", "repo", "--json"]).ok();
    let page: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!((page["data"].as_array().unwrap().len(), &page["next"]), (1, &1.into()));
    let wrong = sandbox.way(&repo, ["events", "--kind", "task.clamed"]).fails(2);
    assert!(wrong.stderr.contains("did you mean task.claimed?"), "{}", wrong.stderr);
    let _ = sandbox.way(&repo, ["events", "--worktree", "nowhere"]).fails(3);
    let _ = sandbox.way(&repo, ["events", "--limit", "0"]).fails(2);
}
