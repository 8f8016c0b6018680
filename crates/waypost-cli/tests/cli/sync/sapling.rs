//! Ledgers under Sapling, tested with a stand-in for it.

use std::path::{Path, PathBuf};

use waypost_testkit::Sandbox;

use super::*;
use crate::support::sandbox;

/// A stand-in for Sapling that records its arguments, and answers as if the remote had another ledger.
fn sapling(sandbox: &Sandbox) -> (PathBuf, PathBuf) {
    let repo = sandbox.dir("sapling");
    sandbox.dir("sapling/.sl");
    sandbox.dir("bin");
    sandbox.write(repo.join(".sl/config"), "[paths]\ndefault = https://example.org/r\n");
    sandbox.write("own", "");
    sandbox.write("unused", "");
    sandbox.write("theirs", "{\"id\":\"their-1\",\"title\":\"Theirs\"}\n");
    let script = r#"#!/bin/sh
state=$(dirname "$0")/..
shift 2
printf '%s\n' "$*" >> "$state/asked"
while [ "${1#--config=}" != "$1" ]; do shift; done
node() { printf '%040d' "$1"; }
at=$(cat "$state/at" 2>/dev/null || echo 1)
case "$*" in
    "log --rev=last(::. and remotebookmark()) "*) printf 'remote/main' ;;
    "log --rev=remote/main "*) node 2 ;;
    "log --rev=parents() "*) node "$at"; echo ;;
    "log --rev=. "*) node "$at" ;;
    "log --rev=ancestor("*) node 1 ;;
    "log --rev=only("*" - ::("*) cat "$state/unused" ;;
    "log --rev=only("*) cat "$state/own" ;;
    "cat --rev=$(node 2) "*) cat "$state/theirs" ;;
    "cat "*) exit 1 ;;
    "status --all "*) if [ "$at" = 3 ]; then echo C; else echo M; fi ;;
    "status --no-status "*) printf '.waypost/issues.jsonl\0' ;;
    "goto "*) echo 2 > "$state/at" ;;
    "commit "*) echo 3 > "$state/at" ;;
    "pull "*) test ! -e "$state/offline" ;;
esac
"#;
    sandbox.program("bin/sl", script);
    (repo, sandbox.path("asked"))
}

/// Runs `way` with the stand-in for Sapling, in a repository with one issue.
fn with_sapling<'a>(sandbox: &'a Sandbox, repo: &'a Path) -> impl Fn(&[&str]) -> waypost_testkit::Run + 'a {
    let path = format!("{}:{}", text(&sandbox.path("bin")), std::env::var("PATH").unwrap());
    let way = move |args: &[&str]| sandbox.way_with(repo, &[("PATH", path.as_ref())], args);
    let _ = way(&["config", "set", "prefix", "our"]).ok();
    let _ = way(&["config", "set", "role", "maintainer"]).ok();
    let _ = way(&["add", "Ours"]).ok();
    way
}

/// Returns the calls that asked Sapling to change something.
fn changes(asked: &Path) -> Vec<String> {
    let asked = std::fs::read_to_string(asked).unwrap();
    let is_look = |line: &&str| ["log ", "cat ", "files ", "status "].iter().any(|look| line.starts_with(look));
    asked.lines().filter(|line| !is_look(line)).map(str::to_owned).collect()
}

const PULL: &str = "--config=paths.default=https://example.org/r pull --quiet";

const GOTO: &str = "goto --quiet --merge --tool=:local --rev=0000000000000000000000000000000000000002";

const COMMIT: &str = "commit --message=Sync the issues -- path:.waypost/issues.jsonl";

const PUSH: &str = "--config=paths.default=https://example.org/r push --quiet \
                    --rev=0000000000000000000000000000000000000003 --to=main";

#[test]
fn b19_sapling_is_called_with_its_own_commands() {
    let sandbox = sandbox();
    let (repo, asked) = sapling(&sandbox);
    let way = with_sapling(&sandbox, &repo);
    sandbox.write("offline", "");
    let run = way(&["sync"]).fails(8);
    assert!(run.stderr.contains("cannot pull"), "{}", run.stderr);
    std::fs::remove_file(sandbox.path("offline")).unwrap();
    std::fs::remove_file(&asked).unwrap();
    let done = way(&["sync", "--json"]).data();
    assert!(done["pushed"].is_string() && done["merged"] == true && done["upstream"] == "remote/main", "{done}");
    assert!(ledger(&repo).contains("Ours") && ledger(&repo).contains("Theirs"));
    assert_eq!(changes(&asked), [PULL, GOTO, COMMIT, PUSH]);
}

#[test]
fn sapling_rebases_a_diverged_ledger_commit_onto_the_remotes() {
    let sandbox = sandbox();
    let (repo, asked) = sapling(&sandbox);
    let way = with_sapling(&sandbox, &repo);
    sandbox.write("own", format!("{LEDGER}\0\n{LEDGER}\0\n"));
    // One of the two commits has a bookmark, so only the other is hidden.
    sandbox.write("unused", "0000000000000000000000000000000000000001\n");
    let done = way(&["sync", "--json"]).data();
    assert!(done["pushed"].is_string() && done["merged"] == true, "{done}");
    assert!(ledger(&repo).contains("Ours") && ledger(&repo).contains("Theirs"));
    let hide = "hide --quiet --rev=0000000000000000000000000000000000000001";
    assert_eq!(changes(&asked), [PULL, GOTO, COMMIT, hide, PUSH]);
    let questions = std::fs::read_to_string(&asked).unwrap();
    let own = "only(0000000000000000000000000000000000000001, 0000000000000000000000000000000000000002)";
    let unused = format!("--rev={own} - ::(bookmark() + (descendants({own}) - {own}))");
    assert!(questions.contains(&unused), "{questions}");

    // Commits that touch other files stay where they are.
    sandbox.write("own", "other\0\n");
    sandbox.write("at", "1");
    let run = way(&["sync"]).fails(7);
    assert!(run.stderr.contains("there are unpushed commits of other files"), "{}", run.stderr);
}

#[test]
fn a_sapling_repository_that_configures_programs_is_refused() {
    let sandbox = sandbox();
    let (repo, asked) = sapling(&sandbox);
    let way = with_sapling(&sandbox, &repo);
    // The first issue asked whether the commit has a ledger.
    std::fs::remove_file(&asked).unwrap();
    let path = "[paths]\ndefault = https://example.org/r\n";
    for (hostile, what) in [
        ("[hooks]\npre-commit = evil\n", "hooks.pre-commit"),
        ("[extensions]\nx = evil.py\n", "extensions.x"),
        ("[ui]\nssh = evil\n", "ui.ssh"),
        ("[ui]\nmerge = evil\n", "ui.merge"),
        ("%include /evil\n", "%include"),
        (" [hooks]\n", "[hooks]"),
    ] {
        sandbox.write(repo.join(".sl/config"), format!("{path}{hostile}"));
        let before = ledger(&repo);
        let run = way(&["sync"]).fails(7);
        assert!(run.stderr.contains(what) && run.stderr.contains("hint: "), "{hostile}: {}", run.stderr);
        assert_eq!(ledger(&repo), before);
        assert!(!asked.exists(), "{hostile}: Sapling was run");
    }
    sandbox.write(repo.join(".sl/config"), format!("{path}[ui]\nusername = me\n"));
    assert_eq!(way(&["sync", "--dry-run"]).code, 0);
}
