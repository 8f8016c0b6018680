//! Leases and saved answers when clocks are wrong.

use serde_json::json;
use waypost_core::Kind;
use waypost_core::clock::{BootClock, Reading};
use waypost_core::model::Lease;
use waypost_core::op::{ExpireDue, LeaseIssue, ListLeases, Maintenance, RecordMaintenance, RepairClock};
use waypost_core::store::Store;
use waypost_core::time::Timestamp;

use crate::harness::{PERSON, TestStore, person_in};

const MINUTE: i64 = 60_000;
const DAY: i64 = 24 * 60 * MINUTE;
const START: i64 = 1_767_225_600_000;

/// A store on a machine whose clocks the test sets.
struct Machine(TestStore);

impl Machine {
    fn new() -> Machine {
        Machine(TestStore::new())
    }

    /// Sets the clocks: the boot, the time since the boot, and the wall clock relative to the start of the test.
    fn at(&mut self, boot: &str, since_ms: i64, wall: i64) -> &mut Machine {
        let boot = Some(BootClock { id: boot.to_owned(), since_ms });
        let wall = Timestamp::from_millis(START + wall);
        self.0.set_reading(Reading::Machine { wall, boot, second: None });
        self
    }

    fn claim(&mut self, issue: &str) -> Lease {
        // Each issue has its own agent: a write of an agent renews its other leases.
        self.0.write(issue, LeaseIssue { issue: issue.to_owned(), ttl_ms: Some(10 * 60_000) }).unwrap()
    }

    /// Expires due leases, and returns the minutes until the others expire, by the store's time.
    fn minutes_left(&mut self) -> Vec<i64> {
        self.0.write(PERSON, ExpireDue {}).unwrap();
        let leases = self.0.read(PERSON, ListLeases {}).unwrap().leases;
        let now = self.0.store.begin_read().unwrap().now().unwrap();
        leases.iter().map(|view| (view.lease.expires_at.as_millis() - now.as_millis()) / MINUTE).collect()
    }

    /// Writes an event with a key, and returns its sequence.
    fn probe(&mut self, key: &str) -> u64 {
        let operation = RecordMaintenance { what: Maintenance::Probed, detail: json!({}) };
        self.0.write_as(&person_in(1), Some(key), operation).unwrap().sequence
    }
}

#[test]
fn a_wrong_clock_expires_no_lease_and_a_right_one_does() {
    let mut machine = Machine::new();
    machine.at("a", 0, 0).claim("one");
    for wrong in [DAY, 2_000 * DAY, -2_000 * DAY] {
        assert_eq!(machine.at("a", MINUTE, MINUTE + wrong).minutes_left(), [9]);
    }
    assert_eq!(machine.at("a", 5 * MINUTE, 5 * MINUTE).minutes_left(), [5]);
    assert!(machine.at("a", 11 * MINUTE, 11 * MINUTE).minutes_left().is_empty());
}

#[test]
fn time_while_the_machine_is_off_does_not_count_against_a_lease() {
    for off in [DAY, 30 * DAY] {
        let mut machine = Machine::new();
        machine.at("a", 0, 0).claim("one");
        let _ = machine.at("b", 0, off).minutes_left();
        assert_eq!(machine.at("b", MINUTE, off + MINUTE).minutes_left(), [9]);
        assert!(machine.at("b", 11 * MINUTE, off + 11 * MINUTE).minutes_left().is_empty(), "off for {off} ms");
        assert!(machine.0.event_kinds().contains(&"store.clock_moved".to_owned()));
    }
}

#[test]
fn a_lease_granted_under_a_doubted_clock_stays_when_the_clock_is_trusted() {
    let mut machine = Machine::new();
    machine.at("a", 0, 0).claim("one");
    machine.at("b", 0, 30 * DAY).claim("two");
    machine.at("b", 9 * MINUTE, 30 * DAY + 9 * MINUTE).claim("three");
    assert_eq!(machine.at("b", 10 * MINUTE, 30 * DAY + 10 * MINUTE).minutes_left(), [9], "of the third");
    let lease = machine.claim("four");
    assert_eq!(lease.granted_at.as_millis(), START + 30 * DAY + 10 * MINUTE, "by the trusted clock");
}

#[test]
fn a_saved_answer_survives_wrong_clocks_and_expires_after_a_week() {
    let mut machine = Machine::new();
    let done = machine.at("a", 0, 0).probe("key");
    // The engine deletes expired answers after a number of events.
    for number in 0..200 {
        machine.at("a", MINUTE, 8 * DAY).probe(&format!("wrong {number}"));
    }
    for number in 0..200 {
        machine.at("b", number, 6 * DAY + number).probe(&format!("after a start {number}"));
    }
    for number in 0..200 {
        machine.at("c", 11 * MINUTE * number, 100 * DAY + 11 * MINUTE * number).probe(&format!("after long {number}"));
    }
    assert_eq!(machine.probe("key"), done);
    for number in 0..200 {
        machine.at("c", 10 * DAY + number, 110 * DAY + number).probe(&format!("after a week {number}"));
    }
    assert_ne!(machine.probe("key"), done, "it expires after a week of uptime");
}

#[test]
fn a_repair_sets_time_back_once_and_leases_last_as_granted() {
    let mut machine = Machine::new();
    machine.at("a", 0, 0).claim("before");
    machine.0.set_now(START + 2_000 * DAY);
    machine.claim("poisoned");
    machine.at("a", MINUTE, MINUTE);
    assert_eq!(machine.claim("later").expires_at.as_millis(), START + 2_000 * DAY + 10 * MINUTE);
    let repaired = machine.0.write(PERSON, RepairClock {}).unwrap();
    assert_eq!(repaired.after.as_millis(), START + MINUTE);
    assert_eq!(machine.minutes_left(), [10, 10]);
    assert_eq!(machine.claim("normal").expires_at.as_millis(), START + 11 * MINUTE);
    assert_eq!(machine.0.write(PERSON, RepairClock {}).unwrap_err().kind(), Kind::Conflict);
    assert!(machine.at("a", 12 * MINUTE, 12 * MINUTE).minutes_left().is_empty());
}
