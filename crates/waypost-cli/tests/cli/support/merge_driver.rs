//! Clones whose ledgers diverge.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use waypost_testkit::{Run, Sandbox};

use crate::support::ledger::LEDGER;

/// A command that finds `way` on its search path.
pub(crate) fn command(sandbox: &Sandbox, program: &str, dir: &Path) -> Command {
    let mut command = sandbox.command(program, dir);
    let path = command.get_envs().find(|(name, _)| *name == "PATH").unwrap().1.unwrap().to_owned();
    command.env("PATH", with_way(&path));
    command
}

pub(crate) fn with_way(path: &OsString) -> OsString {
    let own = Path::new(env!("CARGO_BIN_EXE_way")).parent().unwrap().to_owned();
    std::env::join_paths(std::iter::once(own).chain(std::env::split_paths(path))).unwrap()
}

pub(crate) fn run(command: &mut Command, args: &[&str]) -> Run {
    Run::of(&command.args(args).output().unwrap())
}

/// Runs git where `way` is found, which must succeed.
#[track_caller]
pub(crate) fn git(sandbox: &Sandbox, dir: &Path, args: &[&str]) -> String {
    let run = run(&mut command(sandbox, "git", dir), args);
    assert_eq!(run.code, 0, "{run:#?}");
    run.stdout
}

/// Runs `way` as found on the search path, at a moment of the year 2026.
#[track_caller]
pub(crate) fn way(sandbox: &Sandbox, dir: &Path, minute: u8, args: &[&str]) -> Run {
    let mut command = command(sandbox, "way", dir);
    command.env("WAYPOST_TEST_CLOCK", format!("2026-01-01T00:{minute:02}:00Z"));
    run(&mut command, args)
}

#[track_caller]
pub(crate) fn add(sandbox: &Sandbox, dir: &Path, minute: u8, title: &str) -> String {
    way(sandbox, dir, minute, &["add", "--json", title]).data()["id"].as_str().unwrap().to_owned()
}

#[track_caller]
pub(crate) fn show(sandbox: &Sandbox, dir: &Path, id: &str) -> Value {
    way(sandbox, dir, 59, &["show", "--json", id]).data()
}

pub(crate) fn commit(sandbox: &Sandbox, dir: &Path, message: &str) {
    git(sandbox, dir, &["add", "--all"]);
    git(sandbox, dir, &["commit", "-q", "-m", message]);
}

/// A clone of a repository whose ledger has two issues. Nothing was set up in it by hand.
pub(crate) fn clone(sandbox: &Sandbox) -> (PathBuf, String, String) {
    let origin = sandbox.git_repo("origin");
    let _ = way(sandbox, &origin, 0, &["init"]).ok();
    let (one, two) = (add(sandbox, &origin, 1, "One"), add(sandbox, &origin, 2, "Two"));
    commit(sandbox, &origin, "ledger");
    git(sandbox, &sandbox.path(""), &["clone", "-q", "origin", "clone"]);
    (sandbox.path("clone"), one, two)
}

/// Changes the ledger on `main` and on `topic`: the same issues, and new ones. `main` is checked out in the end.
pub(crate) fn diverge(sandbox: &Sandbox, repo: &Path, one: &str, two: &str) -> (String, String) {
    git(sandbox, repo, &["branch", "topic"]);
    let _ = way(sandbox, repo, 10, &["update", one, "--title", "One of main", "--priority", "0"]).ok();
    let _ = way(sandbox, repo, 11, &["close", two, "--reason", "done"]).ok();
    let main = add(sandbox, repo, 12, "Of main");
    commit(sandbox, repo, "on main");
    git(sandbox, repo, &["switch", "-q", "topic"]);
    // The first command after the switch says that an issue of main is not here.
    let run = way(sandbox, repo, 20, &["update", one, "--title", "One of topic", "--add-label", "l"]);
    assert_eq!(run.code, 0, "{run:?}");
    let _ = way(sandbox, repo, 21, &["comment", two, "Said on topic"]).ok();
    let topic = add(sandbox, repo, 22, "Of topic");
    commit(sandbox, repo, "on topic");
    git(sandbox, repo, &["switch", "-q", "main"]);
    assert_eq!(way(sandbox, repo, 22, &["list"]).code, 0);
    (main, topic)
}

/// Checks that the changes of both sides are present.
#[track_caller]
pub(crate) fn check_merged(sandbox: &Sandbox, repo: &Path, ids: [&str; 4]) {
    let [one, two, main, topic] = ids;
    let file = std::fs::read_to_string(repo.join(LEDGER)).unwrap();
    assert!(!file.contains("<<<<<<<"), "{file}");
    assert_eq!(file.lines().count(), 4, "{file}");
    let issue = show(sandbox, repo, one);
    assert_eq!((&issue["title"], &issue["priority"]), (&"One of topic".into(), &0.into()));
    assert_eq!(issue["labels"], serde_json::json!(["l"]));
    assert_eq!(issue["comments"][0]["text"], "title in another version: One of main");
    let issue = show(sandbox, repo, two);
    assert_eq!((&issue["status"], &issue["close_reason"]), (&"closed".into(), &"done".into()));
    assert_eq!(issue["comments"][0]["text"], "Said on topic");
    assert_eq!(issue["comments"].as_array().unwrap().len(), 1);
    assert_eq!(
        (&show(sandbox, repo, main)["title"], &show(sandbox, repo, topic)["title"]),
        (&"Of main".into(), &"Of topic".into())
    );
}
