//! Changes of issues.

use serde_json::json;
use waypost::Kind;

use crate::desk::{Desk, LEDGER, refusal};

#[test]
fn the_life_of_an_issue() {
    let desk = Desk::new();
    let base = desk.add_with("Lay the base", json!({ "issue_type": "feature", "priority": 1, "labels": ["core"] }));
    let next = desk.add_with("Build on it", json!({ "blocked_by": [&base], "parent": &base }));
    assert_eq!(desk.ready(), std::slice::from_ref(&base));
    assert_eq!(desk.explain(&next)["reasons"], json!([format!("it is blocked by {base}")]));

    let robot = desk.person("robot");
    let claimed = robot.run("claim_issue", json!({}))["issue"].clone();
    assert_eq!(
        (claimed["id"].as_str(), claimed["assignee"].as_str(), claimed["status"].as_str()),
        (Some(base.as_str()), Some("robot"), Some("in_progress"))
    );
    robot.claim(&base);
    let said = desk.person("other").refused(Kind::Conflict, "claim_issue", json!({ "issue": &base }));
    assert!(said.contains("is held by robot until"), "{said}");
    let said = desk.refused(Kind::Conflict, "claim_issue", json!({ "issue": &next }));
    assert!(said.contains("is not ready"), "{said}");
    desk.refused(Kind::NothingToDo, "claim_issue", json!({}));
    assert!(desk.ready().is_empty());

    robot.comment(&base, "half done");
    let close = json!({ "issue": &base, "reason": "done" });
    let said = desk.refused(Kind::Conflict, "close_issue", close.clone());
    assert!(said.contains("is held by robot until"), "{said}");
    robot.run("close_issue", close);
    assert_eq!(desk.ready(), std::slice::from_ref(&next));
    assert_eq!(desk.list(json!({})), std::slice::from_ref(&next));
    assert_eq!(desk.list(json!({ "closed": true, "labels": ["core"] })), std::slice::from_ref(&base));
    desk.run("reopen_issue", json!({ "issue": &base }));
    assert_eq!(desk.ready(), std::slice::from_ref(&base));
    desk.run("remove_issue", json!({ "issue": &base, "reason": "mistake" }));
    assert_eq!(desk.list(json!({ "closed": true })), std::slice::from_ref(&next));
    assert_eq!(desk.ready(), [next], "a deleted issue does not block");
    let shown = desk.show(&base);
    assert_eq!((shown["status"].as_str(), shown["comments"][0]["author"].as_str()), (Some("tombstone"), Some("robot")));
    assert_eq!(shown["source_repo"], desk.dir.to_str().unwrap());
    assert!(!desk.file().contains("source_repo"), "shown, and never stored");
}

#[test]
fn b2_an_issue_is_one_line_in_a_fresh_repository_and_in_a_tracked_ledger() {
    let desk = Desk::new();
    let first = desk.add("First");
    assert!(first.starts_with("repo-") && first.len() == 13, "{first}");
    assert_eq!(desk.lines().len(), 1);
    desk.commit("ledger");
    assert_eq!(desk.git(["status", "--porcelain"]), "", "nothing but the ledger appeared");
    desk.add_with("Second", json!({ "description": "with\nlines" }));
    assert_eq!(desk.git(["diff", "--numstat"]), format!("1\t0\t{LEDGER}\n"));
    desk.close(&first);
    assert_eq!(desk.git(["diff", "--numstat"]), format!("2\t1\t{LEDGER}\n"));
}

#[test]
fn closing_a_closed_issue_is_reported_and_changes_nothing() {
    let desk = Desk::new();
    let [one, two] = ["One", "Two"].map(|title| desk.add(title));
    desk.run("close_issue", json!({ "issue": &one, "reason": "done" }));
    let before = desk.file();
    let again = desk.batch(&[json!({ "op": "close", "id": &one, "reason": "again" })]).unwrap();
    assert!(again.over.contains(&one), "{:?}", again.over);
    assert_eq!(desk.file(), before);
    let both = desk.batch(&[json!({ "op": "close", "id": &one }), json!({ "op": "close", "id": &two })]).unwrap();
    assert_eq!(both.over.iter().collect::<Vec<_>>(), [&one]);
    assert_eq!(desk.show(&two)["status"], "closed");
}

#[test]
fn several_issues_are_one_write_and_one_wrong_id_stops_all() {
    let desk = Desk::new();
    let all: Vec<String> = (0..3).map(|number| desk.add(&format!("Issue {number}"))).collect();
    let before = desk.file();
    let close = |id: &str| json!({ "op": "close", "id": id });
    let said = refusal(Kind::NotFound, desk.batch(&[close(&all[0]), close("nonsense"), close(&all[1])]));
    assert!(said.contains("there is no issue \"nonsense\""), "{said}");
    assert_eq!(desk.file(), before);
    let said = refusal(Kind::Ambiguous, desk.batch(&[close("repo-")]));
    assert!(said.contains("is a prefix of 3 issue ids") && said.contains(&all[2]), "{said}");
    desk.batch(&[close(&all[0]), close(&all[1]), close(&all[2])]).unwrap();
    assert!(desk.list(json!({})).is_empty());
}

#[test]
fn fields_are_set_and_cleared() {
    let desk = Desk::new();
    let id = desk.add("Old title");
    let data = desk.update(
        &id,
        json!({ "title": "New", "priority": 0, "notes": "n", "labels": ["x"], "defer_until": "2026-12-01" }),
    );
    assert_eq!(
        (data["title"].as_str(), data["priority"].as_u64(), data["notes"].as_str()),
        (Some("New"), Some(0), Some("n"))
    );
    assert_eq!(data["defer_until"], "2026-12-01T00:00:00.000Z");
    assert!(desk.ready().is_empty(), "it is deferred");
    let data = desk.update(&id, json!({ "notes": "", "remove_labels": ["x"], "defer_until": "" }));
    assert!(data.get("notes").is_none() && data.get("labels").is_none() && data.get("defer_until").is_none());
    assert_eq!(desk.ready(), std::slice::from_ref(&id));
    for (field, bad, kind) in [
        ("status", json!("opne"), Kind::Invalid),
        ("priority", json!(7), Kind::Invalid),
        ("title", json!(""), Kind::Invalid),
        ("parent", json!(&id), Kind::Conflict),
        ("defer_until", json!("soon"), Kind::Invalid),
    ] {
        desk.refused(kind, "update_issue", json!({ "issue": &id, field: bad }));
    }
}

#[test]
fn the_author_is_the_named_actor_then_gits_user_then_the_login_name() {
    let desk = Desk::new();
    let by = |desk: &Desk| desk.run("add_issue", json!({ "title": "x" }))["created_by"].as_str().unwrap().to_owned();
    assert_eq!(by(&desk), "tester");
    desk.git(["config", "user.name", "Git User"]);
    assert_eq!(by(&desk), "Git User");
    let robot = desk.with_variable("WAYPOST_ACTOR", "robot");
    assert_eq!(by(&robot), "robot");
    assert_eq!(by(&robot.person("me")), "me");
}
