//! Issues that move from one ledger to another.

use serde_json::json;
use waypost::issues::{Which, migrate_issues};
use waypost::{Kind, Result};

use crate::desk::{Desk, LEDGER, comments, contributor, refusal};

/// Moves the issues that a filter selects to another ledger. Returns their ids.
fn moved(desk: &Desk, to: &str, filter: &str, dry_run: bool) -> Result<Vec<String>> {
    desk.changing_with(to, |cx| {
        let which = Which::parse(filter, cx.ledger.actor())?;
        let moved = migrate_issues(&cx.ledger, None, cx.target(Some(to))?, &which, dry_run)?;
        Ok(moved.into_iter().map(|entry| entry.issue.id).collect())
    })
}

#[test]
fn b20_issues_move_between_ledgers_and_a_crash_in_between_is_repaired() {
    let one = Desk::in_new_sandbox(|sandbox| sandbox.git_repo("one"));
    let two = one.repository("two");
    let labelled = json!({ "labels": ["x"] });
    let mine = one.person("me").add_with("Mine", labelled.clone());
    let theirs = one.person("you").add_with("Theirs", labelled);
    let line = one.lines().into_iter().find(|line| line.contains(&mine)).unwrap();
    let me = one.person("me");
    let migrate = |filter: &str| moved(&me, "../two", filter, false);
    assert_eq!(moved(&me, "../two", "author=me label=x", true).unwrap(), [mine.as_str()]);
    assert!(!two.path(LEDGER).exists());
    let before = one.file();
    assert_eq!(migrate("author=me label=x").unwrap(), [mine.as_str()]);
    assert_eq!(two.lines(), [line], "byte for byte");
    assert_eq!(one.list(json!({})), [theirs]);
    // Killed after the target was written.
    let after = one.file();
    one.write_ledger(&before);
    one.drop_kept();
    migrate("author=me").unwrap();
    assert_eq!(one.file(), after);
    assert_eq!(two.lines().len(), 1);
    assert!(migrate("author=me").unwrap().is_empty());
    refusal(Kind::Invalid, migrate("writer=me"));
    refusal(Kind::Invalid, migrate("me"));
    // Two different copies are merged, and the losing value is kept in a comment.
    one.write_ledger(before.replace("Mine", "Changed"));
    migrate("author=me").unwrap();
    assert_eq!(one.file(), after);
    let [merged] = two.lines().try_into().unwrap();
    assert!(merged.contains("Mine") && merged.contains("Changed"), "{merged}");
}

/// Two repositories that read each other's ledgers, with an issue in the first.
fn neighbours() -> (Desk, Desk, String) {
    let one = Desk::in_new_sandbox(|sandbox| sandbox.git_repo("one"));
    let two = one.repository("two");
    let id = one.add("Moves");
    one.add_repo("../two");
    two.add_repo("../one");
    (one, two, id)
}

#[test]
fn an_issue_that_is_in_two_ledgers_is_merged_by_moving_it() {
    let (one, two, id) = neighbours();
    let filter = format!("id={id}");
    let migrate = |to: &str| assert_eq!(moved(&one, to, &filter, false).unwrap(), [id.as_str()]);
    let before = one.file();
    migrate("../two");
    // As after a kill between the two writes, with edits of both copies by commands that read one ledger only.
    let undo = || {
        one.write_ledger(&before);
        one.drop_kept();
    };
    undo();
    one.run("update_issue", json!({ "issue": &id, "labels": ["blue"], "repo": "." }));
    two.run("add_comment", json!({ "issue": &id, "text": "said in two", "repo": "." }));
    one.comment(&id, "said in either");
    migrate("../two");
    let merged = two.copies(&id);
    assert!(one.copies(&id).is_empty() && merged.len() == 1, "{merged:?}");
    assert_eq!(comments(&merged[0]), ["said in either", "said in two"]);
    assert_eq!(merged[0]["labels"], json!(["blue"]));
    // Back again, into a ledger that still has an old copy.
    undo();
    migrate(".");
    assert!(two.copies(&id).is_empty());
    assert_eq!(comments(&one.copies(&id)[0]), ["said in either", "said in two"]);
}

#[test]
fn an_empty_filter_is_refused_and_moves_nothing() {
    let (one, two, id) = neighbours();
    for filter in ["", "  "] {
        let said = refusal(Kind::Invalid, moved(&one, "../two", filter, false));
        assert!(said.contains("an empty filter would move every issue"), "{said}");
    }
    assert!(one.file().contains(&id) && !two.path(LEDGER).exists());
}

#[test]
fn an_issue_that_moves_to_the_project_is_not_local_any_more() {
    let (_, fork, planning) = contributor();
    let id = fork.add("Planned");
    assert!(planning.file().contains(r#""visibility":"local""#));
    fork.set("role", "maintainer");
    assert_eq!(moved(&fork, ".", &format!("id={id}"), false).unwrap(), [id.as_str()]);
    let line = fork.lines().into_iter().find(|line| line.contains(&id)).unwrap();
    assert!(!line.contains("visibility"), "{line}");
    // And the contributor's private planning keeps what moves into it to itself.
    let public = fork.repository("other").add("Public");
    fork.add_repo("../other");
    fork.set("role", "contributor");
    moved(&fork, planning.dir.to_str().unwrap(), &format!("id={public}"), false).unwrap();
    let line = planning.lines().into_iter().find(|line| line.contains(&public)).unwrap();
    assert!(line.contains(r#""visibility":"local""#), "{line}");
}
