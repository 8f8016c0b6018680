//! Other programs that take back changes of the ledger: no acknowledged change is lost, and none comes back after it was
//! removed.

use serde_json::{Value, json};

use crate::desk::{Desk, LEDGER};

/// A repository with a committed ledger of two issues.
fn repository() -> (Desk, String, String) {
    let desk = Desk::new();
    let (one, two) = (desk.at(1).add("One"), desk.at(2).add("Two"));
    desk.commit("ledger");
    (desk, one, two)
}

fn status(desk: &Desk) -> String {
    desk.git(["status", "--porcelain"])
}

/// The titles of all open issues.
fn titles(desk: &Desk) -> Vec<String> {
    let list = desk.run("list_issues", json!({}));
    let mut titles: Vec<String> =
        list["issues"].as_array().unwrap().iter().map(|issue| issue["title"].as_str().unwrap().to_owned()).collect();
    titles.sort();
    titles
}

fn taken_back(desk: &Desk) -> Vec<String> {
    desk.reading(|cx| cx.ledger.taken_back(0)).unwrap().into_iter().map(|(id, _)| id).collect()
}

fn is_empty(value: &Value) -> bool {
    value.is_null() || *value == json!([]) || *value == ""
}

#[test]
fn a_change_that_git_takes_back_is_shown_and_written_again_by_the_next_change() {
    for take_back in [["checkout", "--", "."], ["reset", "-q", "--hard"], ["restore", "--worktree", "."]] {
        let (desk, one, two) = repository();
        let new = desk.at(10).add("New");
        desk.at(11).run("close_issue", json!({ "issue": &one, "reason": "done" }));
        desk.git(take_back);
        assert_eq!(titles(&desk), ["New", "Two"]);
        let warnings = desk.warnings();
        assert!(warnings.iter().any(|warning| warning.contains("took back changes of 2 issues")), "{warnings:?}");
        assert_eq!(desk.show(&one)["close_reason"], "done");
        assert_eq!((status(&desk).as_str(), desk.file().contains(&new)), ("", false));
        let said = desk.at(13).request("add_comment", json!({ "issue": &two, "text": "Said" })).unwrap().warnings;
        assert!(said.iter().any(|warning| warning.contains("wrote changes of 2 issues again")), "{said:?}");
        assert!(desk.file().contains(&new) && desk.file().contains("\"done\""));
        assert_eq!(desk.warnings(), Vec::<String>::new());
        // What is committed stays taken back.
        desk.commit("changes");
        desk.git(["reset", "-q", "--hard", "HEAD~1"]);
        assert_eq!(titles(&desk), ["One", "Two"]);
    }
}

#[test]
fn what_was_removed_on_purpose_does_not_come_back_with_a_checkout() {
    let (desk, one, two) = repository();
    desk.at(10).update(&one, json!({ "labels": ["l"], "assignee": "kim", "description": "text" }));
    desk.at(11).depend(&one, &two);
    desk.commit("with fields");
    desk.at(12).update(&one, json!({ "remove_labels": ["l"], "assignee": "", "description": "" }));
    desk.at(13).run("remove_dependency", json!({ "issue": &one, "on": &two }));
    desk.at(14).run("remove_issue", json!({ "issue": &two }));
    desk.git(["checkout", "--", "."]);
    let check = || {
        let issue = desk.show(&one);
        for field in ["labels", "assignee", "description", "dependencies"] {
            assert!(is_empty(&issue[field]), "{field}: {issue}");
        }
        assert_eq!(titles(&desk), ["One"]);
    };
    check();
    desk.at(15).changing(|cx| cx.ledger.put_back(0)).unwrap();
    check();
    assert!(desk.file().contains("tombstone") && !desk.file().contains("kim"));
    assert!(taken_back(&desk).is_empty());
}

#[test]
fn an_editor_that_saves_an_old_buffer_takes_nothing_back_and_brings_nothing_back() {
    let (desk, one, _) = repository();
    desk.at(10).update(&one, json!({ "labels": ["l"] }));
    let buffer = desk.file();
    desk.at(11).update(&one, json!({ "remove_labels": ["l"] }));
    let new = desk.at(12).add("New");
    // The person changed a title in the old buffer.
    desk.write_ledger(buffer.replace("\"Two\"", "\"Two, edited\""));
    assert_eq!(titles(&desk), ["New", "One", "Two, edited"]);
    assert!(is_empty(&desk.show(&one)["labels"]), "{}", desk.show(&one));
    desk.at(13).changing(|cx| cx.ledger.put_back(0)).unwrap();
    assert!(desk.file().contains(&new) && desk.file().contains("Two, edited"));
    // An edit of the newest version stays as it is.
    desk.write_ledger(desk.file().replace("\"New\"", "\"New, edited\""));
    assert_eq!((titles(&desk)[0].as_str(), desk.warnings()), ("New, edited", Vec::new()));
}

/// A name, and what a program makes of a line.
type Program<'a> = (&'a str, &'a dyn Fn(&str) -> String);

#[test]
fn a_program_that_writes_every_line_in_its_own_spelling_takes_nothing_back() {
    let (desk, one, _) = repository();
    desk.at(10).update(&one, json!({ "labels": ["l", "m"] }));
    desk.at(11).update(&one, json!({ "remove_labels": ["l"] }));
    desk.at(12).add("New");
    // As Python's json.dumps, sed and jq write them.
    let spaced = |line: &str| line.replace("\":", "\": ").replace(",\"", ", \"");
    let sorted = |line: &str| {
        let fields: std::collections::BTreeMap<String, Value> = serde_json::from_str(line).unwrap();
        serde_json::to_string(&fields).unwrap()
    };
    let one_space = |line: &str| line.replacen(':', ": ", 1);
    let renamed = |line: &str| line.replace("\"New\"", "\"Renamed\"");
    let programs: [Program<'_>; 4] =
        [("spaced", &spaced), ("one space", &one_space), ("sorted", &sorted), ("renamed", &renamed)];
    for (name, program) in programs {
        let written: String = desk.lines().iter().map(|line| program(line) + "\n").collect();
        desk.write_ledger(&written);
        assert_eq!(desk.warnings(), Vec::<String>::new(), "{name}");
        assert_eq!(desk.show(&one)["labels"], json!(["m"]), "{name}");
        assert_eq!(desk.file(), written, "{name}");
    }
    assert_eq!(titles(&desk), ["One", "Renamed", "Two"]);
    desk.at(14).close(&one);
    assert_eq!(desk.lines().len(), 3);
}

#[test]
fn what_a_stash_or_another_branch_has_is_safe_and_does_not_stay() {
    let (desk, one, _) = repository();
    desk.at(10).add("Stashed");
    desk.git(["stash", "-q"]);
    assert_eq!((titles(&desk), desk.warnings()), (vec!["One".to_owned(), "Two".to_owned()], Vec::new()));
    assert_eq!(status(&desk), "");
    desk.git(["stash", "drop", "-q"]);
    desk.at(12).comment(&one, "Said");
    assert_eq!(titles(&desk), ["One", "Two"]);
    desk.git(["switch", "-q", "-c", "topic"]);
    desk.at(13).add("Of topic");
    desk.commit("topic");
    desk.git(["switch", "-q", "main"]);
    assert_eq!(titles(&desk), ["One", "Two"]);
    desk.git(["switch", "-q", "topic"]);
    assert_eq!(titles(&desk), ["Of topic", "One", "Two"]);
    // A rebase and an amended commit write the file, too.
    desk.git(["commit", "-q", "--amend", "-m", "amended"]);
    desk.git(["rebase", "-q", "main"]);
    assert_eq!((titles(&desk).len(), status(&desk).as_str()), (3, ""));
}

#[test]
fn dropping_discards_what_was_taken_back_and_nothing_else() {
    let (desk, one, two) = repository();
    assert!(taken_back(&desk).is_empty());
    let new = desk.at(11).add("New");
    desk.at(12).close(&two);
    desk.git(["checkout", "--", "."]);
    assert_eq!(titles(&desk), ["New", "One"]);
    let mut dropped = taken_back(&desk);
    desk.drop_kept();
    dropped.sort();
    let mut expected = vec![new.clone(), two];
    expected.sort();
    assert_eq!(dropped, expected);
    assert_eq!((titles(&desk), status(&desk)), (vec!["One".to_owned(), "Two".to_owned()], String::new()));
    desk.at(14).close(&one);
    assert!(!desk.file().contains(&new));
}

#[test]
fn another_filter_that_arrives_later_decides_what_is_committed() {
    let (desk, one, _) = repository();
    desk.git(["config", "filter.upper.clean", "tr a-z A-Z"]);
    desk.git(["config", "filter.upper.smudge", "cat"]);
    desk.write(".gitattributes", format!("/{LEDGER} filter=upper\n"));
    desk.at(10).update(&one, json!({ "title": "secret" }));
    desk.commit("filtered");
    assert!(desk.git(["show", &format!("HEAD:{LEDGER}")]).contains("SECRET"));
    assert_eq!((desk.show(&one)["title"].as_str(), status(&desk).as_str()), (Some("secret"), ""));
}

#[test]
fn a_ledger_that_a_former_version_appended_to_is_read_and_its_filter_is_removed() {
    let (desk, one, _) = repository();
    desk.write(".git/info/attributes", format!("*.png binary\n/{LEDGER} filter=waypost\n"));
    desk.git(["config", "filter.waypost.clean", "'/nowhere/way' clean-ledger"]);
    let appended = "{\"_changes\":[{\"to\":{\"id\":\"z-1\",\"title\":\"Appended\",\"status\":\"open\"}}]}\n";
    desk.write_ledger(desk.file() + appended);
    assert_eq!(titles(&desk), ["Appended", "One", "Two"]);
    desk.at(10).close(&one);
    assert!(!desk.file().contains("_changes") && desk.lines().len() == 3);
    let attributes = std::fs::read_to_string(desk.path(".git/info/attributes")).unwrap();
    assert_eq!(attributes, "*.png binary\n");
    assert!(!std::fs::read_to_string(desk.path(".git/config")).unwrap().contains("clean-ledger"));
    assert_eq!(status(&desk), format!(" M {LEDGER}\n"));
}

#[test]
fn a_worktree_with_its_ledger_elsewhere_keeps_changes_too() {
    let (desk, ..) = repository();
    desk.git(["worktree", "add", "-q", "../linked", "-b", "linked"]);
    let linked = desk.in_dir("linked");
    let new = linked.at(10).add("From the worktree");
    desk.git(["checkout", "--", "."]);
    assert_eq!(titles(&linked), ["From the worktree", "One", "Two"]);
    linked.at(11).close(&new);
    assert!(desk.file().contains(&new));
}
