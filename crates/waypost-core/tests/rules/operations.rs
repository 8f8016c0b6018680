//! Registration, events and the table of operations.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};
use waypost_core::Kind;
use waypost_core::context::OpContext;
use waypost_core::model::EventQuery;
use waypost_core::op::{
    Effect, ListEvents, ListWorktrees, Maintenance, RecordMaintenance, Register, RemoveWorktree, TABLE,
};
use waypost_core::store::Store;
use waypost_core::time::Timestamp;

use crate::harness::{PERSON, SeededEntropy, TestStore, person_in};

fn probe() -> RecordMaintenance {
    RecordMaintenance { what: Maintenance::Probed, detail: json!({}) }
}

#[test]
fn registering_is_idempotent() {
    let mut store = TestStore::new();
    let first = store.write_as(&person_in(1), None, Register {}).unwrap();
    store.set_now(9_000);
    let second = store.write_as(&person_in(1), None, Register {}).unwrap();
    assert_eq!(first, second);
    assert_eq!(first.worktree.first_seen, Timestamp::from_millis(1_000), "by the store's clock");
    assert_eq!(store.event_kinds(), ["repository.registered", "worktree.registered"]);
}

#[test]
fn every_write_registers_its_worktree_and_records_its_changes() {
    let mut store = TestStore::new();
    store.write_as(&person_in(1), None, probe()).unwrap();
    let mut moved = person_in(1);
    let worktree = Arc::make_mut(&mut moved.worktree);
    worktree.path = PathBuf::from("/elsewhere");
    worktree.branch = Some("topic".to_owned());
    store.set_now(2_000);
    store.write_as(&moved, None, probe()).unwrap();
    assert_eq!(
        store.event_kinds(),
        ["repository.registered", "worktree.registered", "store.probed", "worktree.changed", "store.probed"]
    );
    let change = &store.events()[3];
    assert_eq!(
        (&change.data["before"]["path"], &change.data["after"]["path"]),
        (&json!("/tree1"), &json!("/elsewhere"))
    );
    let list = store.read(PERSON, ListWorktrees::all()).unwrap();
    let row = &list.worktrees[0];
    assert_eq!((row.first_seen.as_millis(), row.last_seen.as_millis()), (1_000, 2_000));
}

#[test]
fn every_event_names_its_actor_and_worktree() {
    let mut store = TestStore::new();
    for number in [1, 2] {
        store.write_as(&person_in(number), None, probe()).unwrap();
    }
    for event in store.events() {
        assert_eq!(event.actor, PERSON);
        assert!(event.worktree_id == person_in(1).worktree.id || event.worktree_id == person_in(2).worktree.id);
    }
    let query = EventQuery { worktree_id: Some(person_in(2).worktree.id.clone()), limit: 10, ..EventQuery::default() };
    let second = store.read(PERSON, ListEvents { query }).unwrap();
    assert_eq!(second.events.len(), 2, "its registration and its write");
    assert_eq!(second.last, 5);
}

#[test]
fn events_of_an_unknown_worktree_are_an_error_and_not_an_empty_list() {
    let mut store = TestStore::new();
    let query = EventQuery { worktree_id: Some(person_in(9).worktree.id.clone()), limit: 10, ..EventQuery::default() };
    let error = store.read(PERSON, ListEvents { query }).unwrap_err();
    assert_eq!(error.kind(), Kind::NotFound);
}

#[test]
fn removing_a_worktree_keeps_the_row_and_is_idempotent() {
    let mut store = TestStore::new();
    store.write_as(&person_in(1), None, Register {}).unwrap();
    store.write_as(&person_in(2), None, Register {}).unwrap();
    store.set_now(5_000);
    for _ in 0..2 {
        let removed =
            store.write_as(&person_in(1), None, RemoveWorktree { id: person_in(2).worktree.id.clone() }).unwrap();
        assert_eq!(removed.worktree.removed_at, Some(Timestamp::from_millis(5_000)));
        store.set_now(6_000);
    }
    assert_eq!(store.event_kinds().iter().filter(|kind| *kind == "worktree.removed").count(), 1);
    assert_eq!(store.read(PERSON, ListWorktrees::all()).unwrap().worktrees.len(), 2);
    // A write from a removed worktree registers it again.
    store.write_as(&person_in(2), None, probe()).unwrap();
    assert!(store.read(PERSON, ListWorktrees::all()).unwrap().worktrees.iter().all(|row| row.removed_at.is_none()));
}

#[test]
fn removing_the_own_or_an_unknown_worktree_is_refused_and_writes_nothing() {
    let mut store = TestStore::new();
    let error =
        store.write_as(&person_in(1), None, RemoveWorktree { id: person_in(1).worktree.id.clone() }).unwrap_err();
    assert_eq!(error.kind(), Kind::Refused);
    let error =
        store.write_as(&person_in(1), None, RemoveWorktree { id: person_in(9).worktree.id.clone() }).unwrap_err();
    assert_eq!(error.kind(), Kind::NotFound);
    assert_eq!(store.event_kinds(), Vec::<String>::new(), "a refused write registers nothing");
}

#[test]
fn time_does_not_go_back_with_the_clock() {
    let mut store = TestStore::new();
    store.write_as(&person_in(1), None, probe()).unwrap();
    store.set_now(10);
    store.write_as(&person_in(1), None, probe()).unwrap();
    assert!(store.events().is_sorted_by_key(|event| event.time));
}

#[test]
fn operations_run_with_json_and_errors_name_the_operation() {
    let mut store = TestStore::new();
    let caller = person_in(1);
    store.write_as(&caller, None, Register {}).unwrap();
    let mut run = |name: &str, arguments: Value| {
        let entry = TABLE.iter().find(|entry| entry.about.name == name).unwrap();
        let mut tx = store.store.begin_write().unwrap();
        let now = tx.now().unwrap();
        let mut cx = OpContext { tx: &mut *tx, caller: &caller, entropy: &mut SeededEntropy(0), now };
        (entry.decode)(&arguments)?.run_any(&mut cx)?.into_tree()
    };
    let list = run("list_worktrees", json!({})).unwrap();
    assert_eq!(list["worktrees"][0]["name"], "tree 1");
    let error = run("remove_worktree", json!({ "id": "tk_0123456789ab" })).unwrap_err();
    assert_eq!(error.kind(), Kind::Invalid);
    assert!(error.full_message().contains("remove_worktree"), "{}", error.full_message());
    assert!(TABLE.iter().all(|entry| !entry.about.summary.is_empty()));
    assert!(TABLE.iter().any(|entry| entry.about.effect == Effect::Read));
}
