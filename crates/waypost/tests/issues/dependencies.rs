//! Dependencies between issues, and contradictions that are refused.

use serde_json::json;
use waypost::Kind;

use crate::desk::Desk;

#[test]
fn an_issue_cannot_wait_for_its_own_parts() {
    let desk = Desk::with_issues();
    let said = desk.refused(Kind::Conflict, "add_dependency", json!({ "issue": "r-5", "on": "r-2" }));
    assert!(said.contains("r-2 is a part of r-5"), "{said}");
    desk.depend("r-3", "r-1");
    let said = desk.refused(Kind::Conflict, "update_issue", json!({ "issue": "r-1", "parent": "r-3" }));
    assert!(said.contains("r-3 waits for r-1"), "{said}");
}

#[test]
fn a_cycle_of_dependencies_is_refused_and_shown() {
    let desk = Desk::new();
    let [a, b, c] = ["A", "B", "C"].map(|title| desk.add(title));
    desk.depend(&a, &b);
    desk.depend(&b, &c);
    let before = desk.file();
    let said = desk.refused(Kind::Conflict, "add_dependency", json!({ "issue": &c, "on": &a }));
    assert!(said.contains(&format!("{c} → {a} → {b} → {c}")), "{said}");
    desk.refused(Kind::Invalid, "add_dependency", json!({ "issue": &a, "on": &a }));
    let said = desk.refused(Kind::Invalid, "add_dependency", json!({ "issue": &a, "on": &c, "kind": "relatd" }));
    assert!(said.contains("did you mean related?"), "{said}");
    assert_eq!(desk.file(), before);
    let remove = json!({ "issue": &a, "on": &b });
    desk.run("remove_dependency", remove.clone());
    desk.refused(Kind::NotFound, "remove_dependency", remove);
    desk.depend(&c, &a);
}

#[test]
fn parts_of_each_other_and_other_contradictions_are_refused() {
    let desk = Desk::new();
    let [a, b] = ["A", "B"].map(|title| desk.add(title));
    desk.update(&a, json!({ "parent": &b }));
    let said = desk.refused(Kind::Conflict, "update_issue", json!({ "issue": &b, "parent": &a }));
    assert!(said.contains(&format!("{b} → {a} → {b}")), "{said}");
    desk.refused(Kind::Conflict, "add_dependency", json!({ "issue": &b, "on": &a, "kind": "parent-child" }));
    desk.refused(Kind::Invalid, "update_issue", json!({ "issue": &a }));
    desk.refused(Kind::Invalid, "update_issue", json!({ "issue": &a, "status": "tombstone" }));
    // The holder keeps an issue that becomes blocked, and a refused claim names the holder.
    let (me, you) = (desk.person("me"), desk.person("you"));
    me.claim(&a);
    desk.depend(&a, &b);
    me.claim(&a);
    let said = you.refused(Kind::Conflict, "claim_issue", json!({ "issue": &a }));
    assert!(said.contains("is held by me until"), "{said}");
    // An empty actor name falls back to the default.
    assert_eq!(desk.person(" ").claim(&b)["issue"]["assignee"], "tester");
}
