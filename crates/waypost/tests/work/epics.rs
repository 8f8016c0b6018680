//! Plans made from issues: an epic gives a workflow of its open parts.

use serde_json::{Value, json};
use waypost::app::lazy_session::LazySession;
use waypost::app::session::Warnings;
use waypost::issues::{FromIssue, plan_epic};
use waypost::op::AddWorkflow;
use waypost::ops::issue::IssueContext;
use waypost::{Kind, Result};

use crate::harness::{Office, PERSON, list, text, workflow};

/// Makes a plan from an issue of the repository.
fn plan(office: &Office, issue: &str) -> Result<FromIssue> {
    let session = LazySession::new(office.place(&office.repo), Warnings::default());
    let issues = IssueContext::open(session, None, &[])?;
    issues.with_index(|index| plan_epic(index, issues.ledger.terms(), issue, issues.now))
}

/// Makes a workflow from an issue, and returns it as it is shown.
fn create(office: &Office, issue: &str) -> Value {
    let made = plan(office, issue).unwrap();
    let description = Some(made.issue.description.clone());
    let operation = AddWorkflow {
        source_ref: Some(made.issue.id.clone()),
        source_content: description,
        plan: Some(made.plan),
        ..workflow(&made.issue.id, "x: y\n")
    };
    let _ = office.session("planner").call(operation).unwrap();
    office.data(PERSON, "show_workflow", json!({ "workflow": issue }))
}

fn task<'a>(tasks: &'a Value, name: &str) -> &'a Value {
    let found = tasks.as_array().unwrap().iter().find(|task| task["name"] == name);
    found.unwrap_or_else(|| panic!("no task {name} in {tasks}"))
}

#[test]
fn an_epic_becomes_a_workflow_of_its_open_issues() {
    let office = Office::new();
    let epic = office.issue("The whole", json!({ "issue_type": "epic", "description": "All of it" }));
    let part = |title: &str, mut fields: Value| {
        fields["parent"] = json!(epic);
        office.issue(title, fields)
    };
    let first = part("First", json!({ "priority": 1, "description": "do it" }));
    let second = part("Second", json!({}));
    let inner = part("Inner", json!({ "issue_type": "epic" }));
    let nested = office.issue("Nested", json!({ "parent": inner }));
    let deeper = office.issue("Deeper", json!({ "parent": nested }));
    let (closed, aside) = (part("Closed", json!({})), part("Later", json!({})));
    let outside = office.issue("Outside", json!({}));
    let _ = office.data(PERSON, "close_issue", json!({ "issue": closed }));
    let _ = office.data(PERSON, "update_issue", json!({ "issue": aside, "status": "deferred" }));
    for (waiting, blocker) in
        [(&second, &first), (&inner, &first), (&second, &inner), (&second, &closed), (&first, &outside)]
    {
        let _ = office.data(PERSON, "add_dependency", json!({ "issue": waiting, "on": blocker }));
    }
    assert_eq!(
        plan(&office, &epic).unwrap().warnings,
        [
            format!("left out, because deferred or frozen: {aside} (deferred)"),
            format!("{first} waits for {outside}, which is open and not part of this workflow"),
        ]
    );
    let workflow = create(&office, &epic);
    assert_eq!((&workflow["status"], &workflow["summary"]), (&json!("in_progress"), &json!("The whole")));
    assert_eq!((&workflow["source_ref"], &workflow["source_content"]), (&json!(epic), &json!("All of it")));
    let tasks = &workflow["tasks"];
    assert_eq!(list(tasks).len(), 4, "{tasks}");
    let sorted = |names: &[&String]| {
        let mut names: Vec<String> = names.iter().map(|name| (*name).clone()).collect();
        names.sort();
        names
    };
    let waits = |name: &str| {
        let mut names: Vec<String> = list(&task(tasks, name)["depends_on"]).iter().map(text).collect();
        names.sort();
        names
    };
    assert_eq!(waits(&first), sorted(&[]));
    assert_eq!(waits(&deeper), sorted(&[&first]), "the parts of an epic wait for the epic's blockers");
    assert_eq!(waits(&nested), sorted(&[&first]), "an issue that is not an epic does not wait for its parts");
    assert_eq!(
        waits(&second),
        sorted(&[&first, &nested, &deeper]),
        "an issue that waits for an epic waits for its parts"
    );
    let first_task = task(tasks, &first);
    assert_eq!((&first_task["issue"], &first_task["priority"]), (&json!(first), &json!(1)));
    assert_eq!(first_task["description"], "First\n\ndo it");

    let _ = office.data("ann", "claim_task", json!({}));
    let _ = office.data("ann", "finish_task", json!({ "task": first, "outcome": "as it should be" }));
    let closed = office.data(PERSON, "show_issue", json!({ "issue": first }));
    assert_eq!((&closed["close_reason"], &closed["status"]), (&json!("as it should be"), &json!("closed")));
}

#[test]
fn a_single_issue_becomes_one_task() {
    let office = Office::new();
    let fields = json!({ "acceptance_criteria": "* it works\n* it lasts", "design": "with care" });
    let one = office.issue("Fix it", fields);
    let made = create(&office, &one);
    assert_eq!(made["total"], 1);
    let task = &made["tasks"][0];
    assert_eq!((&task["name"], &task["plan"]), (&json!(one), &json!("with care")));
    assert_eq!(task["acceptance"], json!(["it works", "it lasts"]));
    let _ = office.data(PERSON, "close_issue", json!({ "issue": one }));
    assert_eq!(plan(&office, &one).unwrap_err().kind(), Kind::Conflict);
    assert_eq!(plan(&office, "repo-nothing").unwrap_err().kind(), Kind::NotFound);
    let empty = plan(&office, &office.issue("Empty", json!({ "issue_type": "epic" }))).unwrap_err();
    assert_eq!(empty.kind(), Kind::Conflict);
    assert!(empty.to_string().contains("no part"), "{empty}");
}
