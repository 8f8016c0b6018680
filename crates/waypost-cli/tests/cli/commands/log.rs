//! `way log`: the history of issues, with the real tools.
#![expect(clippy::needless_raw_string_hashes, reason = "that is how expect-test writes them")]

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use expect_test::expect;
use serde_json::Value;
use waypost_testkit::Run;

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
fn history_is_complete_across_merges_and_repeats_no_change() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    ledger(&sandbox, &repo, &[r#"{"id":"a-1","title":"Old","status":"open"}"#]);
    commit(&sandbox, &repo, "base");
    sandbox.git(&repo, ["checkout", "-q", "-b", "side"]);
    ledger(&sandbox, &repo, &[r#"{"id":"a-1","title":"Old","status":"closed"}"#, r#"{"id":"side-1","title":"Lost"}"#]);
    commit(&sandbox, &repo, "side");
    sandbox.git(&repo, ["checkout", "-q", "main"]);
    ledger(&sandbox, &repo, &[r#"{"id":"a-1","title":"New","status":"open"}"#]);
    commit(&sandbox, &repo, "main");
    let _ = sandbox.command("git", &repo).args(["merge", "-q", "side"]).output().unwrap();
    ledger(&sandbox, &repo, &[r#"{"id":"a-1","title":"New","status":"closed","notes":"n"}"#]);
    commit(&sandbox, &repo, "merge");
    let mut steps = timeline(&sandbox, &repo, "a-1");
    assert_eq!(steps.remove(0), "merge: notes added");
    steps.sort();
    assert_eq!(steps, ["base: added", "main: title: Old → New", "side: status: open → closed"]);
    assert_eq!(shown(&sandbox, &repo, "side-1"), "Lost", "the merge did not take it");

    // A merge that takes nothing from the other side does not change the file.
    sandbox.git(&repo, ["checkout", "-q", "-b", "other"]);
    ledger(&sandbox, &repo, &[r#"{"id":"other-1","title":"Dropped"}"#]);
    commit(&sandbox, &repo, "other");
    sandbox.git(&repo, ["checkout", "-q", "main"]);
    sandbox.git(&repo, ["merge", "-q", "-s", "ours", "-m", "ours", "other"]);
    assert_eq!(shown(&sandbox, &repo, "other-1"), "Dropped");
    assert_eq!(timeline(&sandbox, &repo, "a-1").last().unwrap(), "base: added");
}

#[test]
fn an_old_branch_does_not_hide_the_last_version_of_a_pruned_issue() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    ledger(&sandbox, &repo, &[r#"{"id":"a-1","title":"Old"}"#, "", "", "", ""]);
    commit(&sandbox, &repo, "base");
    sandbox.git(&repo, ["branch", "side"]);
    ledger(&sandbox, &repo, &[r#"{"id":"a-1","title":"Last"}"#, "", "", "", ""]);
    commit(&sandbox, &repo, "change");
    ledger(&sandbox, &repo, &["", "", "", ""]);
    commit(&sandbox, &repo, "prune");
    sandbox.git(&repo, ["checkout", "-q", "side"]);
    ledger(&sandbox, &repo, &[r#"{"id":"a-1","title":"Old"}"#, "", "", "", "", r#"{"id":"b-1"}"#]);
    sandbox.git(&repo, ["add", "--all"]);
    let mut later = sandbox.command("git", &repo);
    later.env("GIT_COMMITTER_DATE", "2026-01-05T00:00:00Z").args(["commit", "-q", "-m", "side"]);
    assert!(later.status().unwrap().success());
    sandbox.git(&repo, ["checkout", "-q", "main"]);
    sandbox.git(&repo, ["merge", "-q", "-m", "merge", "side"]);
    assert_eq!(shown(&sandbox, &repo, "a-1"), "Last");
}

#[test]
fn an_id_is_never_an_option_nor_a_pattern() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let hostile = ["--output=x", "-p", "HEAD", "a.*", "[(+?|^$\\{1}", ":(top)", "\"}\n", "\u{1b}[2Jé", "😀", "*"];
    let line = |id: &str| format!("{{\"id\":{},\"title\":{}}}", Value::from(id), Value::from(format!("T {id}")));
    let lines: Vec<String> = hostile.into_iter().map(line).collect();
    ledger(&sandbox, &repo, &lines.iter().map(String::as_str).collect::<Vec<_>>());
    commit(&sandbox, &repo, "all");
    ledger(&sandbox, &repo, &[r#"{"id":"axx","title":"Another"}"#]);
    commit(&sandbox, &repo, "none");
    for id in hostile {
        assert_eq!(shown(&sandbox, &repo, id), format!("T {id}"));
        assert_eq!(timeline(&sandbox, &repo, id), ["none: removed from the file", "all: added"], "{id:?}");
        let run = sandbox.way(&repo, ["show", "--", id]);
        assert!(!format!("{}{}", run.stdout, run.stderr).contains('\u{1b}'), "{run:?}");
    }
    for id in ["--output=y", ".*", "a.", "[", "\\", "all"] {
        let _ = sandbox.way(&repo, ["log", "--", id]).fails(3);
    }
    assert_eq!(sandbox.git(&repo, ["status", "--porcelain"]), "");
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
fn a_ledger_that_moved_keeps_its_history() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    sandbox.dir("repo/.beads");
    sandbox.write(
        repo.join(".beads/beads.jsonl"),
        "{\"id\":\"a-1\",\"title\":\"First\"}\n{\"id\":\"a-2\",\"title\":\"Gone\"}\n",
    );
    commit(&sandbox, &repo, "beads");
    sandbox.git(&repo, ["mv", ".beads/beads.jsonl", ".beads/issues.jsonl"]);
    commit(&sandbox, &repo, "beads renamed it");
    sandbox.write(repo.join(".beads/issues.jsonl"), "{\"id\":\"a-1\",\"title\":\"Second\"}\n");
    commit(&sandbox, &repo, "beads changed it");
    assert_eq!(timeline(&sandbox, &repo, "a-1"), ["beads changed it: title: First → Second", "beads: added"]);
    sandbox.dir("repo/.waypost");
    sandbox.git(&repo, ["mv", ".beads/issues.jsonl", LEDGER]);
    assert_eq!(
        timeline(&sandbox, &repo, "a-1")[0],
        "beads changed it: title: First → Second",
        "a moved ledger is not a change"
    );
    commit(&sandbox, &repo, "moved");
    sandbox.dir("repo/.beads");
    sandbox.write(repo.join(".beads/issues.jsonl"), "{\"id\":\"a-1\",\"title\":\"Not ours\"}\n");
    commit(&sandbox, &repo, "another tool goes on");
    assert_eq!(timeline(&sandbox, &repo, "a-1"), ["beads changed it: title: First → Second", "beads: added"]);
    assert_eq!(shown(&sandbox, &repo, "a-2"), "Gone");
}

#[test]
fn before_the_first_commit_every_change_is_uncommitted() {
    let sandbox = sandbox();
    let repo = sandbox.dir("repo");
    sandbox.git(&repo, ["init", "-q", "-b", "main"]);
    let id = sandbox.way(&repo, ["add", "New", "--json"]).data()["id"].as_str().unwrap().to_owned();
    assert_eq!(timeline(&sandbox, &repo, &id), ["-: added"]);
    let _ = sandbox.way(&repo, ["show", "none"]).fails(3);
}

#[test]
fn bare_and_shallow_repositories_show_the_history_they_have() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    for title in ["One", "Two", "Three"] {
        ledger(&sandbox, &repo, &[&format!(r#"{{"id":"a-1","title":"{title}"}}"#)]);
        commit(&sandbox, &repo, title);
    }
    sandbox.git(&repo, ["clone", "-q", "--bare", ".", "../bare.git"]);
    let bare = sandbox.path("bare.git");
    let _ = sandbox.way(&bare, ["log", "a-1"]).fails(2);
    sandbox.git(&bare, ["worktree", "add", "-q", "../tree", "main"]);
    assert_eq!(timeline(&sandbox, &sandbox.path("tree"), "a-1").len(), 3);
    sandbox.git(&repo, ["clone", "-q", "--depth", "2", &format!("file://{}", repo.display()), "../shallow"]);
    let run: Run = sandbox.way(&sandbox.path("shallow"), ["log", "a-1", "--json"]).ok();
    let answer: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(answer["data"].as_array().unwrap().len(), 2);
    assert!(answer["warnings"][0].as_str().unwrap().contains("is a shallow clone"), "{answer}");
}

#[test]
fn the_ledger_of_each_worktree_has_the_history_of_its_own_branch() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    ledger(&sandbox, &repo, &[r#"{"id":"a-1","title":"One"}"#]);
    commit(&sandbox, &repo, "base");
    sandbox.git(&repo, ["worktree", "add", "-q", "inside/tree"]);
    let tree = repo.join("inside/tree");
    ledger(&sandbox, &tree, &[r#"{"id":"a-1","title":"Two"}"#]);
    commit(&sandbox, &tree, "topic");
    let _ = sandbox.way(&repo, ["config", "set", "ledger.home", "branch"]).ok();
    assert_eq!(timeline(&sandbox, &tree, "a-1"), ["topic: title: One → Two", "base: added"]);
    assert_eq!(timeline(&sandbox, &repo, "a-1"), ["base: added"]);
}

#[test]
fn a_git_directory_elsewhere_is_read_as_well() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    ledger(&sandbox, &repo, &[r#"{"id":"a-1","title":"One"}"#]);
    commit(&sandbox, &repo, "base");
    let (elsewhere, inside) = (sandbox.path("elsewhere"), sandbox.dir("repo/inside"));
    std::fs::rename(repo.join(".git"), &elsewhere).unwrap();
    sandbox.git(&repo, ["--git-dir=../elsewhere", "config", "core.worktree", repo.to_str().unwrap()]);
    sandbox.git(&repo, ["--git-dir=../elsewhere", "config", "diff.relative", "true"]);
    // Another repository in the same directory is not read.
    sandbox.git(&repo, ["init", "-q"]);
    let variables = [("GIT_DIR", elsewhere.as_os_str()), ("GIT_WORK_TREE", repo.as_os_str())];
    let run = sandbox.way_with(&inside, &variables, ["log", "a-1"]).ok();
    assert!(run.stdout.ends_with("  base\n  added\n"), "{}", run.stdout);
}

#[test]
fn history_that_a_partial_clone_lacks_is_reported_and_not_fetched() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    for title in ["One", "Two"] {
        ledger(&sandbox, &repo, &[&format!(r#"{{"id":"a-1","title":"{title}"}}"#)]);
        commit(&sandbox, &repo, title);
    }
    sandbox.git(&repo, ["config", "uploadpack.allowFilter", "true"]);
    sandbox.git(&repo, ["clone", "-q", "--filter=blob:none", &format!("file://{}", repo.display()), "../partial"]);
    let partial = sandbox.path("partial");
    let canary = sandbox.path("canary");
    sandbox.git(&partial, ["config", "remote.origin.uploadpack", &format!("touch '{}';", canary.display())]);
    // Git itself runs it to fetch missing objects.
    let _ = sandbox.command("git", &partial).args(["cat-file", "blob", &format!("HEAD~1:{LEDGER}")]).output().unwrap();
    assert!(canary.exists());
    std::fs::remove_file(&canary).unwrap();
    let run = sandbox.way(&partial, ["log", "a-1"]).fails(8);
    assert!(run.stderr.contains("does not have object"), "{}", run.stderr);
    let run = sandbox.way(&partial, ["show", "none"]).fails(3);
    assert!(run.stderr.contains("its history cannot be searched"), "{}", run.stderr);
    assert!(!canary.exists());
}

#[test]
fn settings_of_a_repository_change_no_history_and_run_no_program() {
    let sandbox = sandbox();
    let repo = sandbox.dir("repo");
    sandbox.git(&repo, ["init", "-q", "-b", "main"]);
    let canary = sandbox.path("canary");
    let evil = format!("touch '{}';", canary.display());
    sandbox.write(repo.join(".gitattributes"), "*.jsonl diff=evil -text filter=evil\n");
    for title in ["One", "Two"] {
        ledger(&sandbox, &repo, &[&format!(r#"{{"id":"a-1","title":"{title}"}}"#)]);
        commit(&sandbox, &repo, title);
    }
    // Git runs a program to verify a signed commit, whatever the signature contains.
    let signature = "\ngpgsig -----BEGIN PGP SIGNATURE-----\n x\n -----END PGP SIGNATURE-----\n\n";
    let signed = sandbox.git(&repo, ["cat-file", "commit", "HEAD"]).replace("\n\n", signature);
    let program = sandbox.path("program");
    sandbox.write(&program, format!("#!/bin/sh\n{evil}\n"));
    sandbox.command("chmod", &repo).arg("+x").arg(&program).status().unwrap();
    sandbox.write("signed", signed);
    let signed = sandbox.git(&repo, ["hash-object", "-t", "commit", "-w", "../signed"]);
    sandbox.git(&repo, ["reset", "-q", "--hard", signed.trim()]);
    for (key, value) in [
        ("log.showSignature", "true"),
        ("log.showRoot", "false"),
        ("log.diffMerges", "off"),
        ("diff.relative", "true"),
        ("diff.renames", "copies"),
        ("color.ui", "always"),
        ("i18n.logOutputEncoding", "UTF-16"),
        ("gpg.program", program.to_str().unwrap()),
        ("diff.external", &evil),
        ("diff.evil.textconv", &evil),
        ("diff.evil.command", &evil),
        ("filter.evil.smudge", &evil),
        ("core.fsmonitor", &evil),
    ] {
        sandbox.git(&repo, ["config", key, value]);
    }
    // Git itself runs all of these programs.
    for args in [
        &["log", "-1"][..],
        &["-c", "core.fsmonitor=", "diff", "4b825dc642cb6eb9a060e54bf8d69288fbee4904", "HEAD", "--", ".gitattributes"],
        &["-c", "core.fsmonitor=", "diff", "--ext-diff", "HEAD~1", "HEAD", "--", LEDGER],
        &["-c", "core.fsmonitor=", "-c", "gpg.program=true", "diff", "--no-ext-diff", "HEAD~1", "HEAD", "--", LEDGER],
        &["cat-file", "--filters", &format!("HEAD:{LEDGER}")],
        &["status"],
    ] {
        let output = sandbox.command("git", &repo).args(args).output().unwrap();
        assert!(canary.exists(), "{args:?} runs nothing: {output:?}");
        std::fs::remove_file(&canary).unwrap();
    }
    assert_eq!(timeline(&sandbox, &repo, "a-1"), ["Two: title: One → Two", "One: added"]);
    assert!(!canary.exists());
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
fn without_the_tool_the_ledger_still_answers() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    ledger(&sandbox, &repo, &[r#"{"id":"a-1","title":"T"}"#]);
    let variables = [("PATH", "/nowhere".as_ref())];
    let _ = sandbox.way_with(&repo, &variables, ["show", "a-1"]).ok();
    let run = sandbox.way_with(&repo, &variables, ["show", "a-2"]).fails(3);
    assert!(run.stderr.contains("cannot run git"), "{}", run.stderr);
    let _ = sandbox.way_with(&repo, &variables, ["log", "a-1"]).fails(8);
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
