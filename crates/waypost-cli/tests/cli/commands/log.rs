//! `way log`: the history of issues, with the real tools.
#![expect(clippy::needless_raw_string_hashes, reason = "that is how expect-test writes them")]

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use expect_test::expect;

use crate::support::claims::at;
use crate::support::history::{commit, ledger, shown, timeline};
use crate::support::ledger::{LEDGER, add};
use crate::support::sandbox;

#[test]
fn the_history_of_an_issue_is_listed_newest_first() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let other = r#"{"id":"a-2","title":"Other"}"#;
    let versions = [
        r#"{"id":"a-1","title":"Fix it","status":"open","priority":2}"#,
        r#"{"id":"a-1","title":"Fix it","status":"open","priority":2,"labels":["later"],"description":"long","x-tool":1}"#,
        r#"{"id":"a-1","title":"Fix it","status":"open","priority":2,"labels":["urgent"],"description":"longer","x-tool":2,"comments":[{"id":"c-1","author":"robot","text":"half\ndone"}]}"#,
        r#"{"id":"a-1","title":"Fix it","status":"closed","closed_at":"2026-01-01T00:00:00Z","priority":2,"labels":["urgent"],"description":"longer","x-tool":2,"comments":[{"id":"c-1","author":"robot","text":"half\ndone"}]}"#,
    ];
    for (number, version) in versions.iter().enumerate() {
        ledger(&sandbox, &repo, &[version, other]);
        commit(&sandbox, &repo, &format!("version {number}"));
        ledger(&sandbox, &repo, &[version, other, &format!(r#"{{"id":"b-{number}"}}"#)]);
        commit(&sandbox, &repo, "another issue");
    }
    ledger(&sandbox, &repo, &[r#"{"id":"a-1","title":"Fix it","status":"tombstone","delete_reason":"twice"}"#]);
    expect![[r#"
        not committed
          description removed
          deleted
          priority: 2 → -
          labels: -urgent
          comment by robot removed: half done
          delete_reason: - → twice
          x-tool: 2 → -
        d66323561f21  2026-01-01T00:00:00.000Z  tester  version 3
          status: open → closed
        4bd30b93a961  2026-01-01T00:00:00.000Z  tester  version 2
          description changed
          labels: +urgent -later
          comment by robot: half done
          x-tool: 1 → 2
        fe3c51601d61  2026-01-01T00:00:00.000Z  tester  version 1
          description added
          labels: +later
          x-tool: - → 1
        5817e6ac1d76  2026-01-01T00:00:00.000Z  tester  version 0
          added
    "#]]
    .assert_eq(&sandbox.way(&repo, ["log", "a-1"]).ok().stdout);
    expect![[r#"
        {"schema":"waypost/1","data":[{"commit":null,"when":null,"who":null,"subject":null,"changes":[{"field":"description","from":"longer","to":null},{"field":"status","from":"closed","to":"tombstone"},{"field":"priority","from":2,"to":null},{"field":"labels","from":["urgent"],"to":null},{"field":"comments","from":{"id":"c-1","author":"robot","text":"half\ndone"},"to":null},{"field":"delete_reason","from":null,"to":"twice"},{"field":"x-tool","from":2,"to":null}]},{"commit":"d66323561f21cfa294eeaf0b7e0685ba4b3b927e","when":"2026-01-01T00:00:00.000Z","who":"tester","subject":"version 3","changes":[{"field":"status","from":"open","to":"closed"}]}],"warnings":[]}
    "#]].assert_eq(&sandbox.way(&repo, ["log", "a-", "--limit", "2", "--json"]).ok().stdout);
    // From any worktree, and with git's own variables and flags for the repository.
    sandbox.git(&repo, ["worktree", "add", "-q", "../tree"]);
    let here = sandbox.way(&repo, ["log", "a-1"]).ok().stdout;
    assert_eq!(sandbox.way(&sandbox.path("tree"), ["log", "a-1"]).ok().stdout, here);
    assert_eq!(sandbox.way_with(&repo, &[("GIT_DIR", ".git".as_ref())], ["log", "a-1"]).ok().stdout, here);
}

#[test]
fn three_hundred_commits_of_a_large_ledger_are_read_quickly() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let mut stream = Vec::new();
    for number in 0..300 {
        let mut file = String::new();
        for line in 0..500 {
            let changes = (number + 1 + line) / 500;
            writeln!(file, r#"{{"id":"a-{line:04}","title":"T","description":"{}","n":{changes}}}"#, "x".repeat(200))
                .unwrap();
        }
        let head = format!("commit refs/heads/main\ncommitter t <t@t> {} +0000\ndata 1\nx\n", 1_700_000_000 + number);
        let from = if number == 0 { "from refs/heads/main^0\n" } else { "" };
        write!(stream, "{head}{from}M 100644 inline {LEDGER}\ndata {}\n{file}\n", file.len()).unwrap();
    }
    let mut import = sandbox.command("git", &repo);
    let mut import = import.args(["fast-import", "--quiet"]).stdin(Stdio::piped()).spawn().unwrap();
    import.stdin.take().unwrap().write_all(&stream).unwrap();
    assert!(import.wait().unwrap().success());
    sandbox.git(&repo, ["reset", "-q", "--hard"]);
    let start = Instant::now();
    assert_eq!(sandbox.way(&repo, ["log", "a-0300", "--json"]).data().as_array().unwrap().len(), 2);
    let _ = sandbox.way(&repo, ["show", "a-9999"]).fails(3);
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
}

#[test]
fn jj_shows_the_history_of_an_issue_colocated_with_git_and_alone() {
    let sandbox = sandbox();
    for (name, colocated) in [("shared", true), ("alone", false)] {
        let repo = sandbox.jj_repo(name, colocated);
        ledger(&sandbox, &repo, &[r#"{"id":"a-1","title":"One"}"#]);
        assert_eq!(timeline(&sandbox, &repo, "a-1"), ["-: added"], "{name}");
        sandbox.jj(&repo, ["commit", "-m", "first"]);
        ledger(&sandbox, &repo, &[r#"{"id":"a-1","title":"Two"}"#]);
        sandbox.jj(&repo, ["commit", "-m", "second"]);
        ledger(&sandbox, &repo, &[r#"{"id":"a-2","title":"Other"}"#]);
        sandbox.jj(&repo, ["commit", "-m", "third"]);
        assert_eq!(
            timeline(&sandbox, &repo, "a-1"),
            ["third: removed from the file", "second: title: One → Two", "first: added"],
            "{name}"
        );
        ledger(&sandbox, &repo, &[r#"{"id":"a-2","title":"Changed"}"#]);
        assert_eq!(timeline(&sandbox, &repo, "a-2"), ["-: title: Other → Changed", "third: added"], "{name}");
        sandbox.jj(&repo, ["workspace", "add", &format!("../{name}-space")]);
        let space = sandbox.path(format!("{name}-space"));
        assert_eq!(shown(&sandbox, &space, "a-1"), "Two", "{name}");
        let operations = || sandbox.jj(&repo, ["operation", "log", "--ignore-working-copy", "--no-graph", "-T", "id"]);
        let before = operations();
        ledger(&sandbox, &repo, &[r#"{"id":"a-2","title":"Changed again"}"#]);
        assert_eq!(timeline(&sandbox, &repo, "a-2").len(), 2);
        assert_eq!(operations(), before, "reading writes nothing");
    }
}

#[test]
fn jj_shows_history_when_the_worktree_has_two_parents() {
    let sandbox = sandbox();
    let repo = sandbox.jj_repo("repo", false);
    ledger(&sandbox, &repo, &[r#"{"id":"a-1","title":"One"}"#]);
    sandbox.jj(&repo, ["commit", "-m", "base"]);
    sandbox.jj(&repo, ["bookmark", "create", "base", "-r", "@-"]);
    ledger(&sandbox, &repo, &[r#"{"id":"a-1","title":"Two"}"#]);
    sandbox.jj(&repo, ["commit", "-m", "left"]);
    sandbox.jj(&repo, ["bookmark", "create", "left", "-r", "@-"]);
    sandbox.jj(&repo, ["new", "base", "-m", "right"]);
    sandbox.write(repo.join("file"), "x");
    sandbox.jj(&repo, ["new", "left", "@"]);
    assert_eq!(timeline(&sandbox, &repo, "a-1"), ["left: title: One → Two", "base: added"]);
}

#[test]
fn mercurial_shows_the_history_of_an_issue() {
    let sandbox = sandbox();
    let repo = sandbox.hg_repo("repo");
    let commit = |message: &str| sandbox.hg(&repo, ["commit", "-q", "-A", "-m", message]);
    let blank = sandbox.dir("blank");
    sandbox.hg(&blank, ["init"]);
    ledger(&sandbox, &blank, &[r#"{"id":"a-1"}"#]);
    assert_eq!(timeline(&sandbox, &blank, "a-1"), ["-: added"]);
    ledger(&sandbox, &repo, &[r#"{"id":"a-1","title":"One"}"#]);
    commit("first");
    sandbox.write(repo.join("file"), "another file\n");
    commit("nothing to do with it");
    ledger(&sandbox, &repo, &[r#"{"id":"a-1","title":"Two"}"#, r#"{"id":"--config=x","title":"Odd"}"#]);
    commit("second");
    sandbox.hg(&repo, ["update", "-q", "0"]);
    ledger(&sandbox, &repo, &[r#"{"id":"side-1","title":"Side"}"#]);
    commit("side");
    sandbox.hg(&repo, ["update", "-q", "3"]);
    sandbox.hg(&repo, ["merge", "-q", "--tool", ":local"]);
    commit("merge");
    ledger(&sandbox, &repo, &[r#"{"id":"a-2","title":"Other"}"#]);
    commit("third");
    sandbox.hg(&repo, ["remove", LEDGER]);
    commit("no ledger at all");
    let steps = ["third: removed from the file", "second: title: One → Two", "first: added"];
    assert_eq!(timeline(&sandbox, &repo, "a-1"), steps);
    ledger(&sandbox, &repo, &[r#"{"id":"a-2","title":"Again"}"#]);
    assert_eq!(
        timeline(&sandbox, &repo, "a-2"),
        ["-: added", "no ledger at all: removed from the file", "third: added"]
    );
    assert_eq!(shown(&sandbox, &repo, "a-1"), "Two");
    assert_eq!(shown(&sandbox, &repo, "--config=x"), "Odd");
    assert_eq!(shown(&sandbox, &repo, "side-1"), "Side");
    let _ = sandbox.way(&repo, ["show", "none"]).fails(3);
    let canary = sandbox.path("canary");
    let evil = format!("touch '{}'", canary.display());
    sandbox.write(
        repo.join(".hg/hgrc"),
        format!("[hooks]\npre-log = {evil}\npre-cat = {evil}\npre-serve = {evil}\n[alias]\nlog = !{evil}\ncat = !{evil}\nserve = !{evil}\n"),
    );
    for (command, plain) in [("log", "1"), ("cat", "1"), ("log", ""), ("cat", ""), ("serve", "")] {
        // As a hook or as an alias.
        let _ = sandbox.command("hg", &repo).args([command, "file"]).env("HGPLAIN", plain).output().unwrap();
        assert!(canary.exists(), "hg {command} runs nothing");
        std::fs::remove_file(&canary).unwrap();
    }
    assert_eq!(timeline(&sandbox, &repo, "a-1"), steps);
    assert!(!canary.exists());
}

#[test]
fn without_version_control_the_ledger_shows_its_own_records() {
    let sandbox = sandbox();
    let repo = sandbox.dir("plain");
    ledger(
        &sandbox,
        &repo,
        &[
            r#"{"id":"a-1","title":"T","status":"closed","created_at":"2026-01-01T00:00:00Z","created_by":"me","closed_at":"2026-01-02T00:00:00Z","close_reason":"done"}"#,
        ],
    );
    expect![[r#"
        -  2026-01-02T00:00:00.000Z
          status: - → closed
          close_reason: - → done
        -  2026-01-01T00:00:00.000Z  me
          added
        --- stderr
        note: without version control, only the creation and closing of the issue are known
    "#]]
    .assert_eq(&sandbox.way(&repo, ["log", "a-1"]).whole());
    let _ = sandbox.way(&repo, ["show", "a-2"]).fails(3);
    let _ = sandbox.way(&repo, ["log", "a-2"]).fails(3);
    ledger(&sandbox, &repo, &[r#"{"id":"a-1"}"#]);
    assert_eq!(sandbox.way(&repo, ["log", "a-1"]).stdout, "-\n  added\n", "no change is uncommitted");
}

#[test]
fn the_log_shows_commits_and_events_of_the_store() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let id = add(&sandbox, &repo, &["Fix it"]);
    commit(&sandbox, &repo, "the issue");
    let before = sandbox.way(&repo, ["log", &id, "--json"]).data();
    assert!(!repo.join(".git/waypost/state.db").exists(), "it creates no store: {before}");
    let _ = at(&sandbox, &repo, 5, "ada", &["claim", &id, "--ttl", "10m"]).ok();
    let _ = at(&sandbox, &repo, 18, "bob", &["claim", &id]).ok();
    commit(&sandbox, &repo, "work");
    let log = at(&sandbox, &repo, 21, "bob", &["log", &id, "--json"]).data();
    let kinds: Vec<&str> = log.as_array().unwrap().iter().filter_map(|row| row["event"]["kind"].as_str()).collect();
    assert_eq!(kinds, ["issue.claimed", "issue.released", "issue.expired", "issue.claimed"], "newest first: {log}");
    assert_eq!(log.as_array().unwrap().iter().filter(|row| row["commit"].is_string()).count(), 2, "{log}");
    let text = at(&sandbox, &repo, 21, "bob", &["log", &id]).ok().stdout;
    assert!(text.contains("claimed") && text.contains("expired: the lease of ada expired"), "{text}");
    assert_eq!(
        at(&sandbox, &repo, 21, "bob", &["log", &id, "--limit", "2", "--json"]).data().as_array().unwrap().len(),
        2
    );
}
