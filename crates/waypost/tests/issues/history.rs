//! The history of issues, read from the commits of their ledger.

use serde_json::{Value, json};
use waypost::issues::{Steps, steps};
use waypost::{Kind, Result};

use crate::desk::{Desk, LEDGER, message_and_hints, refusal};

/// The steps of an issue; none without version control.
fn read(desk: &Desk, id: &str) -> Result<Option<Steps>> {
    desk.reading(|cx| {
        let record = cx.with_index(|index| Ok(index.get(id)?.map(|entry| entry.record)))?;
        steps(&cx.place, id, record.as_ref(), usize::MAX)
    })
}

/// The history of an issue, as `subject: change; change`, newest first.
fn timeline(desk: &Desk, id: &str) -> Vec<String> {
    let steps = read(desk, id).unwrap_or_else(|error| panic!("{}", message_and_hints(&error))).unwrap();
    let line = |step: &waypost::issues::Step| {
        let changes: Vec<String> = step.changes.iter().map(ToString::to_string).collect();
        let subject = step.commit.as_ref().map_or("-", |commit| commit.subject.as_str());
        format!("{subject}: {}", changes.join("; "))
    };
    steps.steps.iter().map(line).collect()
}

/// Checks that a removed issue is still shown, and returns its title.
fn shown(desk: &Desk, id: &str) -> String {
    let reply = desk.request("show_issue", json!({ "issue": id })).unwrap();
    let warning = &reply.warnings[0];
    assert!(warning.contains(" is not in the ledger any more; last in commit "), "{warning}");
    reply.answer["title"].as_str().unwrap().to_owned()
}

#[test]
fn an_issue_whose_line_was_deleted_is_still_shown() {
    let desk = Desk::new();
    desk.write_lines(&[r#"{"id":"a-1","title":"First"}"#, r#"{"id":"a-2","title":"Second"}"#]);
    desk.commit("both");
    desk.write_lines(&[r#"{"id":"a-1","title":"Last words"}"#, r#"{"id":"a-2","title":"Second"}"#]);
    desk.commit("change");
    desk.write_lines(&[r#"{"id":"a-2","title":"Second"}"#]);
    assert_eq!(shown(&desk, "a-1"), "Last words", "its removal is not committed yet");
    assert_eq!(timeline(&desk, "a-1")[0], "-: removed from the file");
    desk.commit("prune");
    desk.write_lines(&[r#"{"id":"a-2","title":"Second, and on"}"#]);
    desk.commit("on");
    assert_eq!(shown(&desk, "a-1"), "Last words");
    assert_eq!(
        timeline(&desk, "a-1"),
        ["prune: removed from the file", "change: title: First → Last words", "both: added"]
    );
    let last = desk.git(["rev-parse", "--short=12", "HEAD~2"]);
    let page = desk.request("explain_issue", json!({ "issue": "a-1" })).unwrap();
    assert_eq!(page.warnings, [format!("a-1 is not in the ledger any more; last in commit {}", last.trim())]);
    assert_eq!(page.answer["ready"], false, "a removed issue is not ready");
    assert_eq!(desk.explain("a-2")["ready"], true);
    assert_eq!(desk.show("a-")["id"], "a-2");
    for wrong in ["a-3", "", "1"] {
        let said = desk.refused(Kind::NotFound, "show_issue", json!({ "issue": wrong }));
        assert!(said.contains("there is no issue"), "{said}");
    }
    let said = desk.refused(Kind::NotFound, "close_issue", json!({ "issue": "a-1" }));
    assert!(said.contains("there is no issue"), "what is gone is not changed: {said}");
}

#[test]
fn history_is_complete_across_merges_and_repeats_no_change() {
    let desk = Desk::new();
    desk.write_lines(&[r#"{"id":"a-1","title":"Old","status":"open"}"#]);
    desk.commit("base");
    desk.git(["checkout", "-q", "-b", "side"]);
    desk.write_lines(&[r#"{"id":"a-1","title":"Old","status":"closed"}"#, r#"{"id":"side-1","title":"Lost"}"#]);
    desk.commit("side");
    desk.git(["checkout", "-q", "main"]);
    desk.write_lines(&[r#"{"id":"a-1","title":"New","status":"open"}"#]);
    desk.commit("main");
    let _ = desk.sandbox.command("git", &desk.dir).args(["merge", "-q", "side"]).output().unwrap();
    desk.write_lines(&[r#"{"id":"a-1","title":"New","status":"closed","notes":"n"}"#]);
    desk.commit("merge");
    let mut steps = timeline(&desk, "a-1");
    assert_eq!(steps.remove(0), "merge: notes added");
    steps.sort();
    assert_eq!(steps, ["base: added", "main: title: Old → New", "side: status: open → closed"]);
    assert_eq!(shown(&desk, "side-1"), "Lost", "the merge did not take it");

    // A merge that takes nothing from the other side does not change the file.
    desk.git(["checkout", "-q", "-b", "other"]);
    desk.write_lines(&[r#"{"id":"other-1","title":"Dropped"}"#]);
    desk.commit("other");
    desk.git(["checkout", "-q", "main"]);
    desk.git(["merge", "-q", "-s", "ours", "-m", "ours", "other"]);
    assert_eq!(shown(&desk, "other-1"), "Dropped");
    assert_eq!(timeline(&desk, "a-1").last().unwrap(), "base: added");
}

#[test]
fn an_old_branch_does_not_hide_the_last_version_of_a_pruned_issue() {
    let desk = Desk::new();
    desk.write_lines(&[r#"{"id":"a-1","title":"Old"}"#, "", "", "", ""]);
    desk.commit("base");
    desk.git(["branch", "side"]);
    desk.write_lines(&[r#"{"id":"a-1","title":"Last"}"#, "", "", "", ""]);
    desk.commit("change");
    desk.write_lines(&["", "", "", ""]);
    desk.commit("prune");
    desk.git(["checkout", "-q", "side"]);
    desk.write_lines(&[r#"{"id":"a-1","title":"Old"}"#, "", "", "", "", r#"{"id":"b-1"}"#]);
    desk.git(["add", "--all"]);
    let mut later = desk.sandbox.command("git", &desk.dir);
    later.env("GIT_COMMITTER_DATE", "2026-01-05T00:00:00Z").args(["commit", "-q", "-m", "side"]);
    assert!(later.status().unwrap().success());
    desk.git(["checkout", "-q", "main"]);
    desk.git(["merge", "-q", "-m", "merge", "side"]);
    assert_eq!(shown(&desk, "a-1"), "Last");
}

#[test]
fn an_id_is_never_an_option_nor_a_pattern() {
    let desk = Desk::new();
    let hostile = ["--output=x", "-p", "HEAD", "a.*", "[(+?|^$\\{1}", ":(top)", "\"}\n", "\u{1b}[2Jé", "😀", "*"];
    let line = |id: &str| format!("{{\"id\":{},\"title\":{}}}\n", Value::from(id), Value::from(format!("T {id}")));
    desk.write_ledger(hostile.map(line).concat());
    desk.commit("all");
    desk.write_lines(&[r#"{"id":"axx","title":"Another"}"#]);
    desk.commit("none");
    for id in hostile {
        assert_eq!(shown(&desk, id), format!("T {id}"));
        assert_eq!(timeline(&desk, id), ["none: removed from the file", "all: added"], "{id:?}");
    }
    for id in ["--output=y", ".*", "a.", "[", "\\", "all"] {
        desk.refused(Kind::NotFound, "show_issue", json!({ "issue": id }));
    }
    assert_eq!(desk.git(["status", "--porcelain"]), "");
}

#[test]
fn a_ledger_that_moved_keeps_its_history() {
    let desk = Desk::new();
    let beads = ".beads/issues.jsonl";
    let first = "{\"id\":\"a-1\",\"title\":\"First\"}\n{\"id\":\"a-2\",\"title\":\"Gone\"}\n";
    desk.write(".beads/beads.jsonl", first);
    desk.commit("beads");
    desk.git(["mv", ".beads/beads.jsonl", beads]);
    desk.commit("beads renamed it");
    desk.write(beads, "{\"id\":\"a-1\",\"title\":\"Second\"}\n");
    desk.commit("beads changed it");
    let changes = ["beads changed it: title: First → Second", "beads: added"];
    assert_eq!(timeline(&desk, "a-1"), changes);
    std::fs::create_dir(desk.path(".waypost")).unwrap();
    desk.git(["mv", beads, LEDGER]);
    assert_eq!(timeline(&desk, "a-1")[0], changes[0], "a moved ledger is not a change");
    desk.commit("moved");
    desk.write(beads, "{\"id\":\"a-1\",\"title\":\"Not ours\"}\n");
    desk.commit("another tool goes on");
    assert_eq!(timeline(&desk, "a-1"), changes);
    assert_eq!(shown(&desk, "a-2"), "Gone");
}

#[test]
fn before_the_first_commit_every_change_is_uncommitted() {
    let desk = Desk::in_new_sandbox(|sandbox| {
        let repo = sandbox.dir("repo");
        sandbox.git(&repo, ["init", "-q", "-b", "main"]);
        repo
    });
    let id = desk.add("New");
    assert_eq!(timeline(&desk, &id), ["-: added"]);
    desk.refused(Kind::NotFound, "show_issue", json!({ "issue": "none" }));
}

/// A repository in which an issue got these titles, each with a commit.
fn retitled(titles: &[&str]) -> Desk {
    let desk = Desk::new();
    for title in titles {
        desk.write_lines(&[&format!(r#"{{"id":"a-1","title":"{title}"}}"#)]);
        desk.commit(title);
    }
    desk
}

#[test]
fn bare_and_shallow_repositories_show_the_history_they_have() {
    let desk = retitled(&["One", "Two", "Three"]);
    desk.git(["clone", "-q", "--bare", ".", "../bare.git"]);
    let bare = desk.in_dir("bare.git");
    refusal(Kind::Invalid, read(&bare, "a-1"));
    bare.git(["worktree", "add", "-q", "../tree", "main"]);
    assert_eq!(timeline(&desk.in_dir("tree"), "a-1").len(), 3);
    desk.git(["clone", "-q", "--depth", "2", &format!("file://{}", desk.dir.display()), "../shallow"]);
    let steps = read(&desk.in_dir("shallow"), "a-1").unwrap().unwrap();
    assert_eq!((steps.steps.len(), steps.is_shallow), (2, true));
}

#[test]
fn the_ledger_of_each_worktree_has_the_history_of_its_own_branch() {
    let desk = Desk::new();
    desk.write_lines(&[r#"{"id":"a-1","title":"One"}"#]);
    desk.commit("base");
    desk.git(["worktree", "add", "-q", "inside/tree"]);
    let tree = desk.in_dir(desk.path("inside/tree"));
    tree.write_lines(&[r#"{"id":"a-1","title":"Two"}"#]);
    tree.commit("topic");
    desk.set("ledger.home", "branch");
    assert_eq!(timeline(&tree, "a-1"), ["topic: title: One → Two", "base: added"]);
    assert_eq!(timeline(&desk, "a-1"), ["base: added"]);
}

#[test]
fn a_git_directory_elsewhere_is_read_as_well() {
    let desk = Desk::new();
    desk.write_lines(&[r#"{"id":"a-1","title":"One"}"#]);
    desk.commit("base");
    let elsewhere = desk.sandbox.path("elsewhere");
    std::fs::rename(desk.path(".git"), &elsewhere).unwrap();
    desk.git(["--git-dir=../elsewhere", "config", "core.worktree", desk.dir.to_str().unwrap()]);
    desk.git(["--git-dir=../elsewhere", "config", "diff.relative", "true"]);
    // Another repository in the same directory is not read.
    desk.git(["init", "-q"]);
    std::fs::create_dir(desk.path("inside")).unwrap();
    let inside = desk.in_dir(desk.path("inside"));
    let inside = inside.with_variable("GIT_DIR", elsewhere).with_variable("GIT_WORK_TREE", &desk.dir);
    assert_eq!(timeline(&inside, "a-1"), ["base: added"]);
}

#[test]
fn history_that_a_partial_clone_lacks_is_reported_and_not_fetched() {
    let desk = retitled(&["One", "Two"]);
    desk.git(["config", "uploadpack.allowFilter", "true"]);
    desk.git(["clone", "-q", "--filter=blob:none", &format!("file://{}", desk.dir.display()), "../partial"]);
    let (partial, canary) = (desk.in_dir("partial"), desk.sandbox.path("canary"));
    partial.git(["config", "remote.origin.uploadpack", &format!("touch '{}';", canary.display())]);
    // Git itself runs it to fetch missing objects.
    let object = format!("HEAD~1:{LEDGER}");
    let _ = desk.sandbox.command("git", &partial.dir).args(["cat-file", "blob", &object]).output().unwrap();
    assert!(canary.exists());
    std::fs::remove_file(&canary).unwrap();
    let said = refusal(Kind::Unavailable, read(&partial, "a-1"));
    assert!(said.contains("does not have object"), "{said}");
    let said = partial.refused(Kind::NotFound, "show_issue", json!({ "issue": "none" }));
    assert!(said.contains("its history cannot be searched"), "{said}");
    assert!(!canary.exists());
}

#[test]
fn settings_of_a_repository_change_no_history_and_run_no_program() {
    let desk = Desk::in_new_sandbox(|sandbox| {
        let repo = sandbox.dir("repo");
        sandbox.git(&repo, ["init", "-q", "-b", "main"]);
        repo
    });
    let canary = desk.sandbox.path("canary");
    let evil = format!("touch '{}';", canary.display());
    desk.write(".gitattributes", "*.jsonl diff=evil -text filter=evil\n");
    for title in ["One", "Two"] {
        desk.write_lines(&[&format!(r#"{{"id":"a-1","title":"{title}"}}"#)]);
        desk.commit(title);
    }
    // Git runs a program to verify a signed commit, whatever the signature contains.
    let signature = "\ngpgsig -----BEGIN PGP SIGNATURE-----\n x\n -----END PGP SIGNATURE-----\n\n";
    let signed = desk.git(["cat-file", "commit", "HEAD"]).replace("\n\n", signature);
    let program = desk.sandbox.path("program");
    desk.sandbox.write(&program, format!("#!/bin/sh\n{evil}\n"));
    desk.sandbox.command("chmod", &desk.dir).arg("+x").arg(&program).status().unwrap();
    desk.sandbox.write("signed", signed);
    let signed = desk.git(["hash-object", "-t", "commit", "-w", "../signed"]);
    desk.git(["reset", "-q", "--hard", signed.trim()]);
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
        desk.git(["config", key, value]);
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
        let output = desk.sandbox.command("git", &desk.dir).args(args).output().unwrap();
        assert!(canary.exists(), "{args:?} runs nothing: {output:?}");
        std::fs::remove_file(&canary).unwrap();
    }
    assert_eq!(timeline(&desk, "a-1"), ["Two: title: One → Two", "One: added"]);
    assert!(!canary.exists());
}

#[test]
fn without_the_tool_the_ledger_still_answers() {
    let desk = Desk::new().with_variable("PATH", "/nowhere");
    desk.write_lines(&[r#"{"id":"a-1","title":"T"}"#]);
    assert_eq!(desk.show("a-1")["title"], "T");
    let said = desk.refused(Kind::NotFound, "show_issue", json!({ "issue": "a-2" }));
    assert!(said.contains("cannot run git"), "{said}");
    refusal(Kind::Unavailable, read(&desk, "a-1"));
}
