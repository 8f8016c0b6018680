//! Tasks and leases that stand for issues: what happens in the store reaches the ledger once.

use serde_json::{Value, json};
use waypost::machine::SystemEntropy;
use waypost::op::FinishTask;
use waypost_core::engine;

use crate::harness::{Office, PERSON, call, data};

#[test]
fn a_finished_task_closes_its_issue_even_after_a_crash_in_between() {
    let office = Office::new();
    let (first, second) = (office.issue("one", json!({})), office.issue("two", json!({})));
    let tasks: Vec<Value> = [("a", first.as_str()), ("b", &second), ("c", "repo-none")]
        .map(|(name, issue)| json!({ "name": name, "issue": issue }))
        .into();
    let _ = office.data(PERSON, "add_workflow", json!({ "name": "w", "plan": { "tasks": tasks }, "start": true }));
    let claim = |task: &str| office.data("ann", "claim_task", json!({ "task": task }));
    let _ = claim("a");
    let done = office.data("ann", "finish_task", json!({ "task": "a", "outcome": "all of it" }));
    assert_eq!(done["closed_issue"], json!(first));
    let shown = |issue: &str| office.data(PERSON, "show_issue", json!({ "issue": issue }));
    let closed = shown(&first);
    assert_eq!((&closed["status"], &closed["close_reason"]), (&json!("closed"), &json!("all of it")));

    // The process died after it wrote the store and before it wrote the ledger.
    let _ = claim("b");
    let operation = FinishTask { task: "b".to_owned(), outcome: "later".to_owned(), ..FinishTask::default() };
    let mut session = office.session("ann");
    let caller = session.caller().clone();
    engine::write(session.store().unwrap(), &caller, &mut SystemEntropy, None, operation).unwrap();
    assert!(!office.ledger().contains("later"));
    let _ = office.data(PERSON, "list_workflows", json!({ "query": { "limit": 9 } }));
    assert_eq!(shown(&second)["status"], "closed");
    assert!(!office.ledger().contains("later"), "reading does not change the ledger: {}", office.ledger());
    let _ = office.data("ann", "heartbeat", json!({}));
    assert!(office.ledger().contains(r#""close_reason":"later""#), "{}", office.ledger());
    assert_eq!(shown(&second)["status"], "closed");

    // Only the call that finishes the task warns that its issue could not be closed.
    let _ = claim("c");
    let done = office.call("ann", "finish_task", json!({ "task": "c", "outcome": "x" })).unwrap();
    assert!(done.warnings.join("\n").contains("issue repo-none was not closed"), "{:?}", done.warnings);
    let after = office.call(PERSON, "list_workflows", json!({ "query": { "limit": 9 } })).unwrap();
    assert!(after.warnings.is_empty(), "{:?}", after.warnings);
}

#[test]
fn a_read_shows_an_expired_claim_as_free_and_leaves_the_ledger_as_it_is() {
    let office = Office::new();
    let id = office.issue("Fix it", json!({}));
    let _ = office.data("ada", "claim_issue", json!({ "issue": id }));
    let before = office.ledger();
    assert!(before.contains("in_progress"), "{before}");
    office.pass(3_600);
    let place = office.place(&office.repo);
    for list in ["list_issues", "list_ready_issues"] {
        let issues = data(&place, PERSON, list, json!({}));
        assert_eq!(issues["issues"][0]["status"], "open", "{list}: {issues}");
    }
    assert_eq!(data(&place, PERSON, "show_issue", json!({ "issue": id }))["assignee"], Value::Null);
    assert_eq!(call(&place, PERSON, "show_status", json!({})).unwrap().answer["issues"]["in_progress"], 0);
    assert_eq!(office.ledger(), before);
    // A write brings the file up to date first.
    let _ = office.issue("Another", json!({}));
    assert!(!office.ledger().contains("in_progress"), "{}", office.ledger());
}
