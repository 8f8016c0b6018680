//! `way resolve`: conflicts that a merge without the driver left.

use std::path::PathBuf;

use serde_json::Value;
use waypost_testkit::Sandbox;

use crate::support::ledger::LEDGER;
use crate::support::merge_driver::{check_merged, clone, command, commit, diverge, git, run, show, way};
use crate::support::sandbox;

/// A repository in which git left conflict markers, because no merge driver was configured.
fn conflicted(sandbox: &Sandbox, style: &str) -> (PathBuf, [String; 4]) {
    let (clone, one, two) = clone(sandbox);
    let (main, topic) = diverge(sandbox, &clone, &one, &two);
    git(sandbox, &clone, &["config", "--remove-section", "merge.waypost"]);
    git(sandbox, &clone, &["config", "merge.conflictStyle", style]);
    let run = run(&mut command(sandbox, "git", &clone), &["merge", "-q", "topic"]);
    assert_eq!(run.code, 1, "{run:#?}");
    assert!(std::fs::read_to_string(clone.join(LEDGER)).unwrap().contains("<<<<<<<"));
    (clone, [one, two, main, topic])
}

#[test]
fn b28_resolve_merges_the_conflict_left_without_the_driver() {
    for style in ["merge", "diff3", "zdiff3"] {
        let sandbox = sandbox();
        let (clone, [one, two, main, topic]) = conflicted(&sandbox, style);
        let answer = way(&sandbox, &clone, 30, &["resolve", "--json"]).data();
        assert_eq!((&answer["merged"], &answer["staged"]), (&4.into(), &false.into()));
        assert_eq!(answer["next"], format!("git add {LEDGER}"));
        assert!(!git(&sandbox, &clone, &["ls-files", "-u"]).is_empty());
        check_merged(&sandbox, &clone, [&one, &two, &main, &topic]);
        // The file is resolved, but git does not know.
        let said = way(&sandbox, &clone, 31, &["resolve"]).ok();
        assert!(said.stdout.ends_with(&format!("To continue: git add {LEDGER}\n")), "{said:#?}");
        let staged = way(&sandbox, &clone, 31, &["resolve", "--stage", "--json"]).data();
        assert_eq!((&staged["merged"], &staged["staged"], &staged["next"]), (&Value::Null, &true.into(), &Value::Null));
        git(&sandbox, &clone, &["commit", "-q", "--no-edit"]);
        let _ = way(&sandbox, &clone, 32, &["resolve"]).fails(6);
    }
}

#[test]
fn resolve_stages_the_ledger_and_nothing_else() {
    let sandbox = sandbox();
    let (clone, _) = conflicted(&sandbox, "merge");
    let doctor = way(&sandbox, &clone, 30, &["doctor"]);
    assert!(doctor.stdout.contains("conflict marker") && doctor.stdout.contains("way resolve"), "{doctor:#?}");
    sandbox.write("clone/file", "changed\n");
    sandbox.write("clone/other", "new\n");
    let said = way(&sandbox, &clone, 30, &["resolve", "--stage"]).ok();
    assert!(said.stdout.starts_with("Merged 4 issues in "), "{said:#?}");
    let status = git(&sandbox, &clone, &["status", "--porcelain", "-uall"]);
    assert_eq!(status, format!("M  {LEDGER}\n M file\n?? other\n"));
}

#[test]
fn committed_conflict_markers_are_resolved_too() {
    let sandbox = sandbox();
    let (clone, [one, .., main, topic]) = conflicted(&sandbox, "merge");
    commit(&sandbox, &clone, "with markers");
    let said = way(&sandbox, &clone, 30, &["resolve"]).ok();
    assert_eq!(said.stdout.lines().count(), 1, "{said:#?}");
    assert_eq!(show(&sandbox, &clone, &one)["title"], "One of topic");
    for id in [&main, &topic] {
        assert_eq!(show(&sandbox, &clone, id)["status"], "open");
    }
}
