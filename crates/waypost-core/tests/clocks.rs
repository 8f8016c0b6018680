//! What becomes of leases and remembered answers when clocks are wrong, over the reference store.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;

use serde_json::json;
use waypost_core::clock::{BootClock, Clock, Reading};
use waypost_core::context::Caller;
use waypost_core::engine;
use waypost_core::id::{Entropy, RepositoryId, WorktreeId};
use waypost_core::memory::MemoryStore;
use waypost_core::model::{EventQuery, Lease, Repository, Vcs, Worktree};
use waypost_core::op::{
    ExpireDue, LeaseIssue, ListEvents, ListLeases, Maintenance, Operation, RecordMaintenance, RepairClock,
};
use waypost_core::time::Timestamp;
use waypost_core::{Kind, Result};

const MINUTE: i64 = 60_000;
const DAY: i64 = 24 * 60 * MINUTE;
const START: i64 = 1_767_225_600_000;

/// Clocks that the test sets.
#[derive(Clone)]
struct Clocks(Rc<RefCell<Reading>>);

impl Clock for Clocks {
    fn now(&self) -> Timestamp {
        self.0.borrow().wall()
    }

    fn reading(&self) -> Reading {
        self.0.borrow().clone()
    }
}

struct Counter(u8);

impl Entropy for Counter {
    fn fill(&mut self, bytes: &mut [u8]) {
        self.0 = self.0.wrapping_add(1);
        bytes.fill(self.0);
    }
}

/// A store, used in a boot.
struct Bench {
    store: MemoryStore,
    clocks: Clocks,
    entropy: Counter,
}

impl Bench {
    fn new() -> Bench {
        let clocks = Clocks(Rc::new(RefCell::new(Reading::Given(Timestamp::from_millis(START)))));
        Bench { store: MemoryStore::new(Box::new(clocks.clone())), clocks, entropy: Counter(0) }
    }

    /// Sets the clocks: the boot, the time since its start, and the wall clock after the start of the test.
    fn at(&mut self, boot: &str, since_ms: i64, wall: i64) -> &mut Bench {
        let boot = Some(BootClock { id: boot.to_owned(), since_ms });
        let wall = Timestamp::from_millis(START + wall);
        self.clocks.0.replace(Reading::Machine { wall, boot, second: None });
        self
    }

    fn write<O: Operation>(&mut self, key: Option<&str>, operation: O) -> Result<O::Answer> {
        engine::write(&mut self.store, &caller(), &mut self.entropy, key, operation)
    }

    fn claim(&mut self, issue: &str) -> Lease {
        self.write(None, LeaseIssue { issue: issue.to_owned(), ttl_ms: None }).unwrap()
    }

    /// Returns in how many minutes the held leases end, by the store's time, after everything due was done.
    fn left(&mut self) -> Vec<i64> {
        self.write(None, ExpireDue {}).unwrap();
        let leases = engine::read(&mut self.store, &caller(), &mut self.entropy, ListLeases {}).unwrap().leases;
        let now = waypost_core::store::Store::begin_read(&mut self.store).unwrap().now().unwrap();
        leases.iter().map(|view| (view.lease.expires_at.as_millis() - now.as_millis()) / MINUTE).collect()
    }

    /// Writes an event under a key, and returns its sequence.
    fn probe(&mut self, key: &str) -> u64 {
        let operation = RecordMaintenance { what: Maintenance::Probed, detail: json!({}) };
        self.write(Some(key), operation).unwrap().sequence
    }

    fn kinds(&mut self) -> Vec<String> {
        let query = ListEvents { query: EventQuery { since: Some(0), limit: 1_000, ..EventQuery::default() } };
        let events = engine::read(&mut self.store, &caller(), &mut self.entropy, query).unwrap().events;
        events.into_iter().map(|event| event.kind).collect()
    }
}

fn caller() -> Caller {
    let repository = Repository {
        id: RepositoryId::generate(&mut Counter(90)),
        name: "repository".to_owned(),
        path: PathBuf::from("/repository"),
        vcs: Vcs::Git,
        remote_url: None,
        default_branch: None,
    };
    let worktree = Worktree {
        id: WorktreeId::generate(&mut Counter(90)),
        repository_id: repository.id.clone(),
        name: "main".to_owned(),
        path: PathBuf::from("/repository"),
        branch: None,
        first_seen: Timestamp::from_millis(0),
        last_seen: Timestamp::from_millis(0),
        removed_at: None,
    };
    Caller { actor: "person".to_owned(), agent: None, repository, worktree, is_shared: false }
}

#[test]
fn a_wrong_clock_ends_no_lease_and_a_right_one_does_in_time() {
    let mut bench = Bench::new();
    bench.at("a", 0, 0).claim("one");
    for wrong in [DAY, 2_000 * DAY, -2_000 * DAY] {
        assert_eq!(bench.at("a", MINUTE, MINUTE + wrong).left(), [9]);
    }
    assert_eq!(bench.at("a", 5 * MINUTE, 5 * MINUTE).left(), [5]);
    assert!(bench.at("a", 11 * MINUTE, 11 * MINUTE).left().is_empty());
}

#[test]
fn a_lease_outlasts_the_time_that_the_machine_was_off_and_no_more() {
    for off in [DAY, 30 * DAY] {
        let mut bench = Bench::new();
        bench.at("a", 0, 0).claim("one");
        let _ = bench.at("b", 0, off).left();
        assert_eq!(bench.at("b", MINUTE, off + MINUTE).left(), [9]);
        assert!(bench.at("b", 11 * MINUTE, off + 11 * MINUTE).left().is_empty(), "off for {off} ms");
        assert!(bench.kinds().contains(&"store.clock_moved".to_owned()));
    }
}

#[test]
fn a_lease_granted_while_the_clock_was_doubted_does_not_end_when_it_is_believed() {
    let mut bench = Bench::new();
    bench.at("a", 0, 0).claim("one");
    bench.at("b", 0, 30 * DAY).claim("two");
    bench.at("b", 9 * MINUTE, 30 * DAY + 9 * MINUTE).claim("three");
    assert_eq!(bench.at("b", 10 * MINUTE, 30 * DAY + 10 * MINUTE).left(), [9], "of the third");
    let lease = bench.claim("four");
    assert_eq!(lease.granted_at.as_millis(), START + 30 * DAY + 10 * MINUTE, "by the right time");
}

#[test]
fn what_was_done_under_a_key_is_remembered_whatever_the_clocks_show() {
    let mut bench = Bench::new();
    let done = bench.at("a", 0, 0).probe("key");
    // Answers are forgotten every so many events.
    for number in 0..200 {
        bench.at("a", MINUTE, 8 * DAY).probe(&format!("wrong {number}"));
    }
    for number in 0..200 {
        bench.at("b", number, 6 * DAY + number).probe(&format!("after a start {number}"));
    }
    for number in 0..200 {
        bench.at("c", 11 * MINUTE * number, 100 * DAY + 11 * MINUTE * number).probe(&format!("after long {number}"));
    }
    assert_eq!(bench.probe("key"), done);
    for number in 0..200 {
        bench.at("c", 10 * DAY + number, 110 * DAY + number).probe(&format!("after a week {number}"));
    }
    assert_ne!(bench.probe("key"), done, "after a week that the machine was on it is forgotten");
}

#[test]
fn a_repair_sets_time_back_once_and_leases_have_their_length_again() {
    let mut bench = Bench::new();
    bench.at("a", 0, 0).claim("before");
    bench.clocks.0.replace(Reading::Given(Timestamp::from_millis(START + 2_000 * DAY)));
    bench.claim("poisoned");
    bench.at("a", MINUTE, MINUTE);
    assert_eq!(bench.claim("later").expires_at.as_millis(), START + 2_000 * DAY + 10 * MINUTE);
    let repaired = bench.write(None, RepairClock {}).unwrap();
    assert_eq!(repaired.after.as_millis(), START + MINUTE);
    assert_eq!(bench.left(), [10, 10]);
    assert_eq!(bench.claim("normal").expires_at.as_millis(), START + 11 * MINUTE);
    assert_eq!(bench.write(None, RepairClock {}).unwrap_err().kind(), Kind::Conflict);
    assert!(bench.at("a", 12 * MINUTE, 12 * MINUTE).left().is_empty());
}
