//! The homes of a ledger: the main worktree, each worktree, and a branch of its own.

use serde_json::json;
use waypost::issues::{MovedHome, change_home};
use waypost::machine::place::LedgerHome;

use crate::desk::{Desk, LEDGER};

fn titles(desk: &Desk) -> Vec<String> {
    let issues = desk.run("list_issues", json!({ "closed": true, "limit": 1000 }))["issues"].clone();
    let titles = issues.as_array().unwrap().iter().map(|issue| issue["title"].as_str().unwrap().to_owned());
    let mut titles: Vec<String> = titles.collect();
    titles.sort();
    titles
}

fn move_to(desk: &Desk, home: LedgerHome) -> MovedHome {
    desk.enter(|place| change_home(&place, home, false)).unwrap()
}

#[test]
fn a_moved_ledger_keeps_its_issues_and_leaves_nothing_behind() {
    let desk = Desk::new();
    desk.add("Before");
    desk.commit("ledger");
    let dry = desk.enter(|place| change_home(&place, LedgerHome::Separate, true)).unwrap();
    assert_eq!((dry.from, dry.to, dry.issues), (LedgerHome::Main, LedgerHome::Separate, 1));
    assert_eq!(
        (desk.git(["status", "--porcelain"]).as_str(), desk.place().unwrap().ledger_home().0),
        ("", LedgerHome::Main)
    );
    move_to(&desk, LedgerHome::Separate);
    assert_eq!(titles(&desk), ["Before"]);
    assert_eq!(std::fs::read_to_string(desk.path(LEDGER)).unwrap(), "");
    // Moving it where it is changes nothing.
    assert_eq!(move_to(&desk, LedgerHome::Separate).removed, Vec::<std::path::PathBuf>::new());
    assert_eq!(titles(&desk), ["Before"]);
}

#[test]
fn each_worktree_has_its_own_issues_in_the_branch_home() {
    let desk = Desk::new();
    move_to(&desk, LedgerHome::Branch);
    desk.add("On main");
    desk.commit("ledger");
    desk.git(["worktree", "add", "-q", "-b", "topic", "../tree"]);
    let tree = desk.in_dir("tree");
    tree.add("On the topic");
    assert_eq!(titles(&desk), ["On main"]);
    assert_eq!(titles(&tree), ["On main", "On the topic"]);
    assert_eq!(tree.git(["status", "--porcelain", "-uall"]), format!(" M {LEDGER}\n"));
    // One home for all keeps the issues of every worktree, and leaves the files of linked ones alone.
    desk.git(["worktree", "add", "-q", "-b", "nested", "nested"]);
    let nested = desk.in_dir(desk.path("nested"));
    let before = [tree.file(), nested.file()];
    move_to(&desk, LedgerHome::Separate);
    for desk in [&desk, &tree, &nested] {
        assert_eq!(titles(desk), ["On main", "On the topic"]);
    }
    assert_eq!([tree.file(), nested.file()], before);
    assert_eq!(std::fs::read_to_string(desk.path(LEDGER)).unwrap(), "");
}

#[test]
fn a_branch_switch_that_hides_issues_is_noted_once_with_the_way_out() {
    let desk = Desk::new();
    desk.git(["branch", "old"]);
    desk.add("First");
    desk.add("Second");
    assert_eq!(desk.warnings(), Vec::<String>::new());
    desk.commit("ledger");
    desk.git(["switch", "-q", "-c", "topic"]);
    assert_eq!(desk.warnings(), Vec::<String>::new(), "nothing is hidden");
    desk.git(["switch", "-q", "old"]);
    let warnings = desk.warnings();
    let note = "2 issues of branch topic are not on old, which is checked out now";
    let is_noted = |line: &String| line.contains(note) && line.contains("way migrate --home separate");
    assert!(warnings.iter().any(is_noted), "{warnings:?}");
    assert_eq!(desk.warnings(), Vec::<String>::new(), "the note comes once");
    desk.git(["switch", "-q", "main"]);
    assert_eq!(desk.warnings(), Vec::<String>::new(), "all are back");
}
