//! Groups of the status: who has to act next, why, and since when.

use serde_json::json;
use waypost_core::op::{AddWorkflow, AskQuestion, ClaimTask, FailTask, PauseWorkflow, ShowWorkStatus};
use waypost_core::time::Timestamp;
use waypost_core::work::attention::{Group, GroupKind, Row};
use waypost_core::work::plan::Plan;

use crate::harness::{PERSON, TestStore, claim, finish, message, registration, workflow};

const HOUR: i64 = 60 * 60 * 1000;

fn store() -> TestStore {
    let mut store = TestStore::new();
    let plan = json!({ "tasks": [
        { "name": "a", "max_attempts": 1 },
        { "name": "b", "depends_on": ["a"] },
        { "name": "c", "depends_on": ["b"] },
        { "name": "d" },
        { "name": "e" },
        { "name": "f" },
    ] });
    let plan = Plan::from_value(plan).unwrap();
    store.write(PERSON, AddWorkflow { start: true, ..workflow("w", plan) }).unwrap();
    store
}

fn groups(store: &mut TestStore, limit: u32) -> Vec<Group> {
    store.read(PERSON, ShowWorkStatus { limit, ..ShowWorkStatus::default() }).unwrap().groups
}

fn rows(store: &mut TestStore, kind: GroupKind) -> Vec<(String, String)> {
    let group = groups(store, 100).into_iter().find(|group| group.group == kind).unwrap();
    assert_eq!(group.total, group.rows.len() as u64);
    group.rows.into_iter().map(|row| (row.name, row.chip)).collect()
}

fn named(names: &[(&str, &str)]) -> Vec<(String, String)> {
    names.iter().map(|(name, chip)| ((*name).to_owned(), (*chip).to_owned())).collect()
}

fn fail(task: &str) -> FailTask {
    FailTask { task: task.to_owned(), error: "it broke\nbadly".to_owned(), ..FailTask::default() }
}

#[test]
fn each_task_is_in_the_group_of_who_acts_next() {
    let mut store = store();
    assert_eq!(rows(&mut store, GroupKind::Queued).len(), 4, "b and c wait for others");
    store.write("ann", claim(Some("d"))).unwrap();
    store.set_now(2_000);
    let ask = AskQuestion { task: "d".to_owned(), question: "Which?".to_owned(), ..AskQuestion::default() };
    store.write("ann", ask).unwrap();
    store.set_now(3_000);
    store.write("ann", claim(Some("a"))).unwrap();
    store.write("ann", fail("a")).unwrap();
    store.write("ann", claim(Some("e"))).unwrap();
    store.set_now(4_000);
    store.write("ann", finish("e")).unwrap();
    store.write("ann", claim(Some("f"))).unwrap();
    assert_eq!(rows(&mut store, GroupKind::NeedsYou), named(&[("w/d", "asks"), ("w/a", "dead")]));
    assert_eq!(rows(&mut store, GroupKind::Stuck).len(), 2, "b waits for a, and c for b");
    assert_eq!(rows(&mut store, GroupKind::Working), named(&[("w/f", "working")]));
    assert_eq!(rows(&mut store, GroupKind::Queued), []);
    assert_eq!(rows(&mut store, GroupKind::Done), named(&[("w/e", "done")]));
    let all = groups(&mut store, 1);
    assert_eq!(all.iter().map(|group| group.group).collect::<Vec<_>>(), GroupKind::ALL);
    let Row { reason, since, .. } = &all[0].rows[0];
    assert_eq!((reason.as_str(), *since), ("Which?", Timestamp::from_millis(2_000)));
    assert_eq!((all[0].total, all[0].rows.len()), (2, 1), "the total counts what the limit leaves out");
    let Row { reason, since, .. } = &all[1].rows[0];
    assert_eq!((reason.as_str(), *since), ("it waits for a, which is dead", Timestamp::from_millis(3_000)));
    store.set_now(4_000 + 25 * HOUR);
    assert_eq!(rows(&mut store, GroupKind::Done), [], "only the last day is recent");
}

#[test]
fn a_silent_holder_is_stuck_and_an_expired_lease_needs_a_person() {
    let mut store = store();
    store.write("ann", ClaimTask { ttl_ms: Some(30_000), ..claim(Some("d")) }).unwrap();
    store.set_now(21_001);
    assert_eq!(rows(&mut store, GroupKind::Stuck), named(&[("w/d", "silent")]));
    store.set_now(40_000);
    assert_eq!(rows(&mut store, GroupKind::NeedsYou), named(&[("w/d", "expired")]));
}

#[test]
fn paused_workflows_are_queued_and_messages_need_their_reader() {
    let mut store = store();
    store.write("bob", registration(Some("bob"), None)).unwrap();
    store.write("ann", registration(Some("ann"), None)).unwrap();
    store.write("ann", message("bob", "hello")).unwrap();
    store.write(PERSON, PauseWorkflow { workflow: "w".to_owned() }).unwrap();
    assert_eq!(rows(&mut store, GroupKind::Queued), named(&[("w", "paused")]));
    assert_eq!(rows(&mut store, GroupKind::NeedsYou), [], "the message is not for this caller");
    let seen = store.read("bob", ShowWorkStatus { limit: 9, ..ShowWorkStatus::default() }).unwrap();
    assert_eq!(seen.groups[0].rows[0].chip, "message");
}
