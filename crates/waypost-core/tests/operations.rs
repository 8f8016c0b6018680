//! The rules of every operation, over the reference store.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::cell::Cell;
use std::path::PathBuf;
use std::rc::Rc;

use serde_json::{Value, json};
use waypost_core::clock::Clock;
use waypost_core::context::{Caller, OpContext};
use waypost_core::engine;
use waypost_core::id::{Entropy, RepositoryId, WorktreeId};
use waypost_core::memory::MemoryStore;
use waypost_core::model::{Event, EventQuery, Repository, Vcs, Worktree};
use waypost_core::op::{
    Effect, ListEvents, ListWorktrees, Maintenance, Operation, RecordMaintenance, Register, RemoveWorktree, TABLE,
};
use waypost_core::store::Store;
use waypost_core::time::Timestamp;
use waypost_core::{Kind, Result};

/// A store with a clock that tests set.
struct Bench {
    store: MemoryStore,
    now: Rc<Cell<i64>>,
}

struct SetClock(Rc<Cell<i64>>);

impl Clock for SetClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.get())
    }
}

/// Always the same byte: ids are told apart by it.
struct Byte(u8);

impl Entropy for Byte {
    fn fill(&mut self, bytes: &mut [u8]) {
        bytes.fill(self.0);
    }
}

impl Bench {
    fn new() -> Self {
        let now = Rc::new(Cell::new(1_000));
        Bench { store: MemoryStore::new(Box::new(SetClock(Rc::clone(&now)))), now }
    }

    fn write<O: Operation>(&mut self, caller: &Caller, operation: O) -> Result<O::Answer> {
        engine::write(&mut self.store, caller, &mut Byte(0), None, operation)
    }

    fn read<O: Operation>(&mut self, caller: &Caller, operation: O) -> Result<O::Answer> {
        engine::read(&mut self.store, caller, &mut Byte(0), operation)
    }

    /// All events, oldest first.
    fn events(&mut self) -> Vec<Event> {
        let query = EventQuery { limit: 1000, ..EventQuery::default() };
        let mut events = self.store.begin_read().unwrap().event_list(&query).unwrap();
        events.reverse();
        events
    }

    fn kinds(&mut self) -> Vec<String> {
        self.events().into_iter().map(|event| event.kind).collect()
    }
}

fn caller(number: u8) -> Caller {
    let repository = Repository {
        id: RepositoryId::generate(&mut Byte(0)),
        name: "repository".to_owned(),
        path: PathBuf::from("/repository"),
        vcs: Vcs::Git,
        remote_url: None,
        default_branch: None,
    };
    let worktree = Worktree {
        id: WorktreeId::generate(&mut Byte(number)),
        repository_id: repository.id.clone(),
        name: format!("tree {number}"),
        path: PathBuf::from(format!("/tree{number}")),
        branch: None,
        first_seen: Timestamp::from_millis(0),
        last_seen: Timestamp::from_millis(0),
        removed_at: None,
    };
    Caller { actor: "somebody".to_owned(), agent: None, repository, worktree, is_shared: false }
}

fn probe() -> RecordMaintenance {
    RecordMaintenance { what: Maintenance::Probed, detail: json!({}) }
}

#[test]
fn registering_twice_is_registering_once() {
    let mut bench = Bench::new();
    let first = bench.write(&caller(1), Register {}).unwrap();
    bench.now.set(9_000);
    let second = bench.write(&caller(1), Register {}).unwrap();
    assert_eq!(first, second);
    assert_eq!(first.worktree.first_seen, Timestamp::from_millis(1_000), "by the store's clock");
    assert_eq!(bench.kinds(), ["repository.registered", "worktree.registered"]);
}

#[test]
fn any_write_makes_its_worktree_known_and_says_what_changed_about_it() {
    let mut bench = Bench::new();
    bench.write(&caller(1), probe()).unwrap();
    let mut moved = caller(1);
    moved.worktree.path = PathBuf::from("/elsewhere");
    moved.worktree.branch = Some("topic".to_owned());
    bench.now.set(2_000);
    bench.write(&moved, probe()).unwrap();
    assert_eq!(
        bench.kinds(),
        ["repository.registered", "worktree.registered", "store.probed", "worktree.changed", "store.probed"]
    );
    let change = &bench.events()[3];
    assert_eq!(
        (&change.data["before"]["path"], &change.data["after"]["path"]),
        (&json!("/tree1"), &json!("/elsewhere"))
    );
    let list = bench.read(&moved, ListWorktrees {}).unwrap();
    let row = &list.worktrees[0];
    assert_eq!((row.first_seen.as_millis(), row.last_seen.as_millis()), (1_000, 2_000));
}

#[test]
fn every_event_names_who_and_from_where() {
    let mut bench = Bench::new();
    for number in [1, 2] {
        bench.write(&caller(number), probe()).unwrap();
    }
    for event in bench.events() {
        assert_eq!(event.actor, "somebody");
        assert!(event.worktree_id == caller(1).worktree.id || event.worktree_id == caller(2).worktree.id);
    }
    let query = EventQuery { worktree_id: Some(caller(2).worktree.id), limit: 10, ..EventQuery::default() };
    let second = bench.read(&caller(1), ListEvents { query }).unwrap();
    assert_eq!(second.events.len(), 2, "its registration and its write");
    assert_eq!(second.last, 5);
}

#[test]
fn events_of_an_unknown_worktree_are_an_error_and_not_an_empty_list() {
    let mut bench = Bench::new();
    let query = EventQuery { worktree_id: Some(caller(9).worktree.id), limit: 10, ..EventQuery::default() };
    let error = bench.read(&caller(1), ListEvents { query }).unwrap_err();
    assert_eq!(error.kind(), Kind::NotFound);
}

#[test]
fn removing_keeps_the_row_and_happens_once() {
    let mut bench = Bench::new();
    bench.write(&caller(1), Register {}).unwrap();
    bench.write(&caller(2), Register {}).unwrap();
    bench.now.set(5_000);
    for _ in 0..2 {
        let removed = bench.write(&caller(1), RemoveWorktree { id: caller(2).worktree.id }).unwrap();
        assert_eq!(removed.worktree.removed_at, Some(Timestamp::from_millis(5_000)));
        bench.now.set(6_000);
    }
    assert_eq!(bench.kinds().iter().filter(|kind| *kind == "worktree.removed").count(), 1);
    assert_eq!(bench.read(&caller(1), ListWorktrees {}).unwrap().worktrees.len(), 2);
    // A worktree that writes again is there again.
    bench.write(&caller(2), probe()).unwrap();
    assert!(bench.read(&caller(1), ListWorktrees {}).unwrap().worktrees.iter().all(|row| row.removed_at.is_none()));
}

#[test]
fn removing_oneself_or_a_stranger_is_refused_and_leaves_no_trace() {
    let mut bench = Bench::new();
    let error = bench.write(&caller(1), RemoveWorktree { id: caller(1).worktree.id }).unwrap_err();
    assert_eq!(error.kind(), Kind::Refused);
    let error = bench.write(&caller(1), RemoveWorktree { id: caller(9).worktree.id }).unwrap_err();
    assert_eq!(error.kind(), Kind::NotFound);
    assert_eq!(bench.kinds(), Vec::<String>::new(), "a refused write registers nobody");
}

#[test]
fn time_does_not_go_back_with_the_clock() {
    let mut bench = Bench::new();
    bench.write(&caller(1), probe()).unwrap();
    bench.now.set(10);
    bench.write(&caller(1), probe()).unwrap();
    assert!(bench.events().is_sorted_by_key(|event| event.time));
}

#[test]
fn operations_can_be_asked_as_json_and_wrong_arguments_are_named() {
    let mut bench = Bench::new();
    let caller = caller(1);
    bench.write(&caller, Register {}).unwrap();
    let mut ask = |name: &str, arguments: Value| {
        let entry = TABLE.iter().find(|entry| entry.name == name).unwrap();
        let mut tx = bench.store.begin_write().unwrap();
        let now = tx.now().unwrap();
        (entry.run)(&mut OpContext { tx: &mut *tx, caller: &caller, entropy: &mut Byte(0), now }, arguments)
    };
    let list = ask("list_worktrees", json!({})).unwrap();
    assert_eq!(list["worktrees"][0]["name"], "tree 1");
    let error = ask("remove_worktree", json!({ "id": "tk_0123456789ab" })).unwrap_err();
    assert_eq!(error.kind(), Kind::Invalid);
    assert!(error.full_message().contains("remove_worktree"), "{}", error.full_message());
    assert!(TABLE.iter().all(|entry| !entry.summary.is_empty()));
    assert!(TABLE.iter().any(|entry| entry.effect == Effect::Read));
}
