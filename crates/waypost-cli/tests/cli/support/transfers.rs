//! Issues that are in two ledgers.

use std::path::Path;
use std::process::{Child, Stdio};

use serde_json::Value;
use waypost_testkit::{Run, Sandbox};

use crate::support::ledger::LEDGER;

/// Checks that a command succeeded, and ignores its notes.
pub(crate) fn done(run: &Run) {
    assert_eq!(run.code, 0, "{run:?}");
}

/// The copies of an issue in a ledger's file.
pub(crate) fn copies(repo: &Path, id: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(repo.join(LEDGER)).unwrap_or_default();
    let records = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    records.filter(|record| record["id"] == *id).collect()
}

/// The texts of a copy's comments, in alphabetical order.
pub(crate) fn comments(copy: &Value) -> Vec<String> {
    let comments = copy["comments"].as_array().into_iter().flatten();
    let mut texts: Vec<String> = comments.map(|comment| comment["text"].as_str().unwrap().to_owned()).collect();
    texts.sort();
    texts
}

/// Starts a command whose first fsync takes two seconds.
pub(crate) fn start_with_slow_fsync(sandbox: &Sandbox, repo: &Path, args: &[&str]) -> Child {
    let mut command = sandbox.command("strace", repo);
    command.args(["-f", "-o", "/dev/null", "-e", "trace=fsync", "-e", "inject=fsync:delay_enter=2000000:when=1"]);
    command.arg(env!("CARGO_BIN_EXE_way")).args(args);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Returns whether a new version of a ledger is being written.
pub(crate) fn is_being_written(repo: &Path) -> bool {
    let entries = std::fs::read_dir(repo.join(".waypost")).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| entry.path().extension().is_some_and(|end| end == "tmp"))
}

/// Runs a command at a minute of the first day of 2026, checks that it succeeds, and returns its notes.
pub(crate) fn at(sandbox: &Sandbox, repo: &Path, minute: u32, args: &[&str]) -> String {
    let clock = format!("2026-01-01T00:{minute:02}:00Z");
    let run = sandbox.way_with(repo, &[("WAYPOST_TEST_CLOCK", clock.as_ref())], args);
    done(&run);
    run.stderr
}
