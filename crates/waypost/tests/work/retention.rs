//! Removal of old records from a store on disk.

use serde_json::{Value, json};
use waypost::Kind;
use waypost::op::{Maintenance, RecordMaintenance};
use waypost::work::{collect_garbage, find_garbage};

use crate::harness::{Office, PERSON, list, text, workflow};

const DAY: i64 = 86_400;
const DAY_MS: u64 = 86_400_000;

/// An office with a finished workflow, an acknowledged message, and an agent bob.
fn with_history() -> Office {
    let office = Office::with("a: one\nb: two\n  needs: a\n");
    for task in ["a", "b"] {
        let _ = office.data("ann", "claim_task", json!({}));
        let note = json!({ "task": task, "kind": "progress", "summary": "half" });
        let _ = office.data("ann", "add_checkpoint", note);
        let _ = office.data("ann", "finish_task", json!({ "task": task, "outcome": "done" }));
    }
    let _ = office.data(PERSON, "register_agent", json!({ "name": "bob" }));
    let sent = office.data("ann", "send_message", json!({ "to": "bob", "body": "look here" }));
    let _ = office.data("bob", "ack_message", json!({ "messages": [sent["id"]] }));
    office
}

/// The number of rows of some tables.
fn rows(office: &Office) -> [u64; 5] {
    let session = office.session("looker");
    let counts = session.sqlite().unwrap().info().unwrap().rows;
    let count = |table: &str| counts.iter().find(|(name, _)| name == table).unwrap().1;
    ["workflows", "tasks", "checkpoints", "dependencies", "messages"].map(count)
}

fn last_event(office: &Office) -> Value {
    office.data(PERSON, "list_events", json!({ "query": { "limit": 1 } }))["events"][0].take()
}

#[test]
fn gc_removes_what_its_dry_run_counts_and_keeps_summaries() {
    let office = with_history();
    let all = office.data(PERSON, "list_workflows", json!({ "query": { "limit": 9 } }));
    let old = text(&all["workflows"][0]["id"]);
    office.pass(100 * DAY);
    let live = office.session("planner").call(workflow("live", "c: three\n")).unwrap().workflow.id.to_string();
    let before = rows(&office);
    assert_eq!(before[0], 2);

    let plan = find_garbage(&mut office.session("ann"), 90 * DAY_MS).unwrap().removable;
    assert_eq!((plan.workflows, plan.tasks, plan.messages), (1, 2, 1), "{plan:?}");
    assert!(plan.events > 10, "{plan:?}");
    assert_eq!(rows(&office), before, "counting removes nothing");
    assert!(find_garbage(&mut office.session("ann"), 200 * DAY_MS).unwrap().removable.is_empty());

    let removed = collect_garbage(&mut office.session("ann"), 90 * DAY_MS).unwrap().removed;
    assert_eq!(removed, plan, "the count tells what is removed");
    assert_eq!(rows(&office), [1, 1, 0, 0, 0]);
    assert_eq!(office.session("looker").sqlite().unwrap().check().unwrap(), []);

    let gone = office.refused(Kind::NotFound, PERSON, "show_workflow", json!({ "workflow": old }));
    assert!(gone.to_string().contains("(w, completed) was removed from the store"), "{gone}");
    let summaries = office.data(PERSON, "list_summaries", json!({ "subjects": [], "limit": 1_000 }));
    let summaries = list(&summaries["summaries"]);
    let summary = summaries.iter().find(|summary| summary["subject"] == old.as_str()).unwrap();
    assert_eq!((&summary["name"], &summary["detail"]["tasks"]), (&json!("w"), &json!({ "completed": 2 })));
    // The live workflow works on, its history is complete, and numbers of events continue.
    let last = last_event(&office)["sequence"].as_u64().unwrap();
    let _ = office.data("ann", "claim_task", json!({}));
    assert!(last_event(&office)["sequence"].as_u64().unwrap() > last);
    let history = json!({ "query": { "since": 0, "subject": live, "limit": 9 } });
    assert_eq!(office.data(PERSON, "list_events", history)["events"][0]["kind"], "workflow.created");
    assert!(collect_garbage(&mut office.session("ann"), 90 * DAY_MS).unwrap().removed.is_empty());
}

#[test]
fn a_store_is_smaller_after_its_old_records_are_removed_and_it_is_vacuumed() {
    let office = Office::new();
    let text = "some long description ".repeat(40);
    let plan: Vec<String> = (0..300).map(|number| format!("t{number}: {text}\n")).collect();
    office.session("planner").call(workflow("big", &plan.concat())).unwrap();
    let _ = office.data(PERSON, "cancel_workflow", json!({ "workflow": "big" }));
    office.pass(40 * DAY);
    let mut session = office.session("ann");
    collect_garbage(&mut session, 30 * DAY_MS).unwrap();
    let (before, after) = session.sqlite().unwrap().vacuum().unwrap();
    assert!(after < before / 2, "{before} {after}");
    let detail = json!({ "bytes_before": before, "bytes_after": after });
    session.call(RecordMaintenance { what: Maintenance::Vacuumed, detail }).unwrap();
    assert_eq!(last_event(&office)["kind"], "store.vacuumed");
}
