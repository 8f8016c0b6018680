//! The store's time: how far the clocks of a machine are believed.
//!
//! A wall clock can be wrong by years, in one process or for a whole boot. Events, leases and remembered answers all go
//! by the store's time, so one wrong reading must not move it. The store therefore keeps an [`Anchor`]: how far its time
//! is from the machine's boot clock, which counts sleep and which nothing sets. [`store_time`] is the whole rule:
//!
//! - In the anchor's boot, a wall clock within [`TOLERANCE_MS`] of the boot clock is followed. Any other is not believed:
//!   time goes on by the boot clock.
//! - In another boot, a wall clock up to [`MAX_JUMP_MS`] after the last event is believed. Any other is not: time goes on
//!   from the last event by the boot clock.
//! - A wall clock that is ahead and not believed is remembered as a [`Doubt`]. It is believed once it was seen again, at
//!   least [`CONFIRM_MS`] later and with the same distance from the boot clock, while no write saw another wall clock.
//! - Time that no boot clock has measured never counts against a deadline: when the store's time jumps over it, deadlines
//!   move along.
//! - Without a boot clock, the wall clock alone is believed up to [`MAX_JUMP_MS`] after the last event, further if a second
//!   machine's clock agrees, and then deadlines do not move.

use crate::time::Timestamp;

/// How far wall clock and boot clock may be apart and still agree.
pub const TOLERANCE_MS: i64 = 2_000;
/// How far a wall clock may be ahead of the last event and still be believed, where there is no boot clock to compare with.
pub const MAX_JUMP_MS: i64 = 7 * 24 * 60 * 60 * 1000;
/// How long a wall clock must have been seen before it is believed in spite of a doubt.
pub const CONFIRM_MS: i64 = 10 * 60 * 1000;
/// How far the store's time may be ahead of the wall clock before `way doctor` calls it wrong.
pub const MAX_AHEAD_MS: i64 = 5 * 60 * 1000;
/// How far wall clock and boot clock drift apart before the anchor is written again.
const DRIFT_MS: i64 = 1_000;
/// How far the clocks of two machines may be apart and still agree.
const AGREEMENT_MS: i64 = 60_000;

/// A source of the time; always an argument.
pub trait Clock {
    /// Returns the current moment.
    fn now(&self) -> Timestamp;

    /// Returns the readings of all clocks of the machine. By default the current moment is right by definition.
    fn reading(&self) -> Reading {
        Reading::Given(self.now())
    }
}

/// A clock that stands still, for tests and for answering "as of".
#[derive(Clone, Copy, Debug)]
pub struct FixedClock(pub Timestamp);

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        self.0
    }
}

/// The clock that counts from the start of the machine, sleep included, and is never set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootClock {
    /// Names this run of the machine.
    pub id: String,
    /// Milliseconds since its start.
    pub since_ms: i64,
}

/// What the clocks show at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading {
    /// The time is an argument, and right by definition: simulations and tests.
    Given(Timestamp),
    /// The clocks of a machine.
    Machine {
        /// The wall clock.
        wall: Timestamp,
        /// The boot clock of the same machine, where it has one.
        boot: Option<BootClock>,
        /// The wall clock of another machine.
        second: Option<Timestamp>,
    },
}

impl Reading {
    /// Returns what the wall clock shows.
    pub fn wall(&self) -> Timestamp {
        match self {
            Reading::Given(wall) | Reading::Machine { wall, .. } => *wall,
        }
    }
}

/// How the store's time hangs on the boot clock. The default hangs on nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anchor {
    /// The boot; empty if there is none.
    pub boot: String,
    /// The store's time minus the boot clock.
    pub offset_ms: i64,
    /// Whether the wall clock was believed when this was set.
    pub is_firm: bool,
    /// A wall clock that was not believed.
    pub doubt: Option<Doubt>,
}

impl Default for Anchor {
    fn default() -> Self {
        Anchor { boot: String::new(), offset_ms: 0, is_firm: true, doubt: None }
    }
}

/// A wall clock that was ahead and not believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doubt {
    /// What it showed when it was first seen.
    pub wall: Timestamp,
    /// What the boot clock of the anchor showed then; nothing if it was another machine or boot.
    pub since_ms: Option<i64>,
}

/// What a store remembers of its time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remembered {
    /// The anchor.
    pub anchor: Anchor,
    /// The time of the last event, if there is one.
    pub last: Option<Timestamp>,
}

/// The store's time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreTime {
    /// The moment.
    pub now: Timestamp,
    /// What has to be remembered, if it is not yet.
    pub anchor: Anchor,
    /// By how much deadlines have to move, because time jumped.
    pub shift_ms: i64,
}

/// Returns the store's time.
pub fn store_time(remembered: &Remembered, reading: &Reading) -> StoreTime {
    let last = remembered.last.map_or(i64::MIN, Timestamp::as_millis);
    match reading {
        Reading::Given(wall) => {
            let now = Timestamp::from_millis(wall.as_millis().max(last));
            StoreTime { now, anchor: Anchor::default(), shift_ms: 0 }
        }
        Reading::Machine { wall, boot: Some(boot), .. } => by_boot_clock(remembered, last, wall.as_millis(), boot),
        Reading::Machine { wall, boot: None, second } => {
            let second = second.map(Timestamp::as_millis);
            by_wall_clock(&remembered.anchor, last, wall.as_millis(), second)
        }
    }
}

/// Returns the anchor of a store whose time was set to what the wall clock shows.
pub fn anchored(reading: &Reading) -> Anchor {
    match reading {
        Reading::Machine { wall, boot: Some(boot), .. } => Anchor {
            boot: boot.id.clone(),
            offset_ms: wall.as_millis().saturating_sub(boot.since_ms),
            ..Anchor::default()
        },
        _ => Anchor::default(),
    }
}

fn by_boot_clock(remembered: &Remembered, last: i64, wall: i64, boot: &BootClock) -> StoreTime {
    let Remembered { anchor, .. } = remembered;
    let is_same = anchor.boot == boot.id;
    // Nothing is known yet, or only that the time was given.
    let is_first = anchor.boot.is_empty() && anchor.doubt.is_none();
    let measured = anchor.offset_ms.saturating_add(boot.since_ms);
    let expected = match (is_same, remembered.last) {
        (true, _) => measured.max(last),
        (false, Some(_)) => last,
        (false, None) => wall,
    };
    let reach = match (is_same && anchor.is_firm, is_first) {
        (true, _) => TOLERANCE_MS,
        (false, true) => i64::MAX,
        (false, false) => MAX_JUMP_MS,
    };
    let ahead = wall.saturating_sub(expected);
    let is_confirmed = ahead > reach && is_confirmed(anchor, is_same, wall, boot.since_ms);
    if (-TOLERANCE_MS..=reach).contains(&ahead) || is_confirmed {
        let shift_ms = if is_first || (reach == TOLERANCE_MS && !is_confirmed) { 0 } else { ahead.max(0) };
        return StoreTime { now: Timestamp::from_millis(wall.max(last)), anchor: firm(anchor, wall, boot), shift_ms };
    }
    let anchor = Anchor {
        boot: boot.id.clone(),
        // A moment before the last event is none to go on from.
        offset_ms: if is_same && measured >= last { anchor.offset_ms } else { expected.saturating_sub(boot.since_ms) },
        is_firm: is_same && anchor.is_firm,
        doubt: (ahead > 0).then(|| doubt(anchor, is_same, wall, Some(boot.since_ms))),
    };
    StoreTime { now: Timestamp::from_millis(expected), anchor, shift_ms: 0 }
}

fn by_wall_clock(anchor: &Anchor, last: i64, wall: i64, second: Option<i64>) -> StoreTime {
    let ahead = if last == i64::MIN { 0 } else { wall.saturating_sub(last) };
    let is_agreed = second.is_some_and(|second| second.abs_diff(wall) <= AGREEMENT_MS.unsigned_abs());
    let is_confirmed = is_confirmed(anchor, false, wall, 0);
    if ahead <= MAX_JUMP_MS || is_agreed || is_confirmed {
        let shift_ms = if ahead > MAX_JUMP_MS && !is_agreed { ahead } else { 0 };
        let anchor = Anchor { doubt: None, ..anchor.clone() };
        return StoreTime { now: Timestamp::from_millis(wall.max(last)), anchor, shift_ms };
    }
    let anchor = Anchor { doubt: Some(doubt(anchor, false, wall, None)), ..anchor.clone() };
    StoreTime { now: Timestamp::from_millis(last), anchor, shift_ms: 0 }
}

/// Returns whether a wall clock that was doubted has gone on long enough since.
fn is_confirmed(anchor: &Anchor, is_same: bool, wall: i64, since_ms: i64) -> bool {
    anchor.doubt.as_ref().is_some_and(|doubt| {
        continues(doubt, is_same, wall, since_ms) && wall.saturating_sub(doubt.wall.as_millis()) >= CONFIRM_MS
    })
}

/// Returns whether a wall clock is the one that was doubted: it went on as the boot clock did, or in another boot it went on.
fn continues(doubt: &Doubt, is_same: bool, wall: i64, since_ms: i64) -> bool {
    let gone = wall.saturating_sub(doubt.wall.as_millis());
    match doubt.since_ms.filter(|_| is_same) {
        Some(first) => gone.abs_diff(since_ms.saturating_sub(first)) <= TOLERANCE_MS.unsigned_abs(),
        None => gone >= 0,
    }
}

/// Keeps a doubt about the same wall clock, or begins one.
fn doubt(anchor: &Anchor, is_same: bool, wall: i64, since_ms: Option<i64>) -> Doubt {
    match &anchor.doubt {
        Some(doubt) if continues(doubt, is_same, wall, since_ms.unwrap_or_default()) => {
            Doubt { wall: doubt.wall, since_ms: doubt.since_ms.filter(|_| is_same) }
        }
        _ => Doubt { wall: Timestamp::from_millis(wall), since_ms },
    }
}

/// Returns the anchor for a wall clock that is believed; the old one while it is good enough, which saves a write.
fn firm(anchor: &Anchor, wall: i64, boot: &BootClock) -> Anchor {
    let new =
        Anchor { boot: boot.id.clone(), offset_ms: wall.saturating_sub(boot.since_ms), is_firm: true, doubt: None };
    let is_near = new.offset_ms.abs_diff(anchor.offset_ms) <= DRIFT_MS.unsigned_abs();
    if new.boot == anchor.boot && anchor.is_firm && is_near { Anchor { doubt: None, ..anchor.clone() } } else { new }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000;
    const MINUTE: i64 = 60 * SECOND;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    const YEAR: i64 = 365 * DAY;
    /// When the tests begin.
    const START: i64 = 1_767_225_600_000;

    /// A store that is written to at every reading.
    struct Store(Remembered);

    impl Store {
        fn new() -> Store {
            Store(Remembered::default())
        }

        fn write(&mut self, reading: &Reading) -> (i64, i64) {
            let StoreTime { now, anchor, shift_ms } = store_time(&self.0, reading);
            assert!(self.0.last.is_none_or(|last| last <= now), "time went back");
            self.0 = Remembered { anchor, last: Some(now) };
            (now.as_millis() - START, shift_ms)
        }

        /// Writes in a boot, so long after its start, while the wall clock shows a time after [`START`].
        fn at(&mut self, boot: &str, since_ms: i64, wall: i64) -> (i64, i64) {
            self.write(&machine(boot, since_ms, wall))
        }

        /// Writes where there is no boot clock.
        fn wall(&mut self, wall: i64, second: Option<i64>) -> (i64, i64) {
            let moment = |millis| Timestamp::from_millis(START + millis);
            self.write(&Reading::Machine { wall: moment(wall), boot: None, second: second.map(moment) })
        }
    }

    fn machine(boot: &str, since_ms: i64, wall: i64) -> Reading {
        let boot = Some(BootClock { id: boot.to_owned(), since_ms });
        Reading::Machine { wall: Timestamp::from_millis(START + wall), boot, second: None }
    }

    #[test]
    fn a_right_clock_is_followed_and_nothing_has_to_be_written() {
        let mut store = Store::new();
        assert_eq!(store.at("a", 50 * SECOND, 0), (0, 0));
        let anchor = store.0.anchor.clone();
        for (since, wall) in [(51 * SECOND, SECOND), (HOUR, HOUR - 50 * SECOND + 700), (9 * DAY, 9 * DAY - 50 * SECOND)]
        {
            assert_eq!(store.at("a", since, wall), (wall, 0), "a laptop that sleeps goes on counting");
            assert_eq!(store.0.anchor, anchor);
        }
    }

    #[test]
    fn a_wrong_clock_does_not_move_time_whichever_way_and_however_far() {
        for wrong in [3 * SECOND, MINUTE, HOUR, 8 * DAY, 5 * YEAR, 80 * YEAR] {
            for wrong in [wrong, -wrong] {
                let mut store = Store::new();
                store.at("a", 0, 0);
                assert_eq!(store.at("a", 10 * SECOND, 10 * SECOND + wrong), (10 * SECOND, 0), "{wrong}");
                assert_eq!(store.at("a", 20 * SECOND, 20 * SECOND), (20 * SECOND, 0), "{wrong}");
                assert_eq!(store.0.anchor.doubt, None, "the right clock has contradicted it");
            }
        }
    }

    #[test]
    fn small_steps_of_the_clock_are_followed_one_after_the_other() {
        let mut store = Store::new();
        store.at("a", 0, 0);
        for step in 1..10 {
            let wall = step * MINUTE + step * 1_500;
            assert_eq!(store.at("a", step * MINUTE, wall), (wall, 0));
        }
    }

    #[test]
    fn time_that_a_machine_is_off_passes_without_counting_against_deadlines() {
        let mut store = Store::new();
        store.at("a", 0, 0);
        assert_eq!(store.at("b", MINUTE, 3 * DAY), (3 * DAY, 3 * DAY));
        assert_eq!(store.at("b", 2 * MINUTE, 3 * DAY + MINUTE), (3 * DAY + MINUTE, 0));
    }

    #[test]
    fn a_month_off_is_believed_after_ten_minutes() {
        let mut store = Store::new();
        store.at("a", 0, 0);
        assert_eq!(store.at("b", MINUTE, 30 * DAY), (0, 0), "not yet");
        assert_eq!(store.at("b", 9 * MINUTE, 30 * DAY + 8 * MINUTE), (8 * MINUTE, 0), "not yet, but time goes on");
        assert_eq!(store.at("b", 12 * MINUTE, 30 * DAY + 11 * MINUTE), (30 * DAY + 11 * MINUTE, 30 * DAY));
        assert_eq!(store.at("b", 13 * MINUTE, 30 * DAY + 12 * MINUTE), (30 * DAY + 12 * MINUTE, 0));
    }

    #[test]
    fn a_month_off_is_believed_in_the_next_boot_too() {
        let mut store = Store::new();
        store.at("a", 0, 0);
        assert_eq!(store.at("b", MINUTE, 30 * DAY), (0, 0));
        assert_eq!(store.at("c", MINUTE, 31 * DAY), (31 * DAY, 31 * DAY));
    }

    #[test]
    fn a_doubted_clock_that_does_not_go_on_as_the_boot_clock_does_is_doubted_anew() {
        let mut store = Store::new();
        store.at("a", 0, 0);
        assert_eq!(store.at("a", MINUTE, 5 * YEAR), (MINUTE, 0));
        assert_eq!(store.at("a", 12 * MINUTE, 6 * YEAR), (12 * MINUTE, 0));
        assert_eq!(store.at("a", 21 * MINUTE, 6 * YEAR + 9 * MINUTE), (21 * MINUTE, 0));
        assert_eq!(store.at("a", 22 * MINUTE, 22 * MINUTE), (22 * MINUTE, 0));
        assert_eq!(store.at("a", 32 * MINUTE, 6 * YEAR + 20 * MINUTE), (32 * MINUTE, 0), "the doubt was over");
    }

    #[test]
    fn a_machine_that_starts_in_1970_is_right_as_soon_as_its_clock_is_set() {
        let mut store = Store::new();
        store.at("a", 0, 0);
        assert_eq!(store.at("b", 5 * SECOND, -START), (0, 0));
        assert_eq!(store.at("b", 35 * SECOND, 30 * SECOND - START), (30 * SECOND, 0), "time goes on all the same");
        assert_eq!(store.at("b", MINUTE, DAY), (DAY, DAY - 55 * SECOND), "deadlines set meanwhile move along");
        assert_eq!(store.at("b", 2 * MINUTE, DAY + MINUTE), (DAY + MINUTE, 0));
    }

    #[test]
    fn a_machine_that_starts_in_1970_after_a_month_is_right_ten_minutes_after_its_clock_is_set() {
        let mut store = Store::new();
        store.at("a", 0, 0);
        store.at("b", 0, -START);
        assert_eq!(store.at("b", MINUTE, 30 * DAY), (MINUTE, 0));
        assert_eq!(store.at("b", 11 * MINUTE, 30 * DAY + 10 * MINUTE).0, 30 * DAY + 10 * MINUTE);
    }

    #[test]
    fn a_clock_that_is_set_back_does_not_stop_time() {
        let mut store = Store::new();
        store.at("a", 0, 2 * HOUR);
        assert_eq!(store.at("a", MINUTE, MINUTE), (2 * HOUR + MINUTE, 0));
        assert_eq!(store.at("b", 0, HOUR), (2 * HOUR + MINUTE, 0), "in the next boot, too");
        assert_eq!(store.at("b", MINUTE, HOUR + MINUTE), (2 * HOUR + 2 * MINUTE, 0));
        assert_eq!(store.at("c", 0, DAY).0, DAY, "until the clock has caught up");
    }

    #[test]
    fn a_virtual_machine_that_was_paused_is_right_ten_minutes_later() {
        let mut store = Store::new();
        store.at("a", 0, 0);
        assert_eq!(store.at("a", MINUTE, 40 * DAY), (MINUTE, 0));
        assert_eq!(store.at("a", 11 * MINUTE, 40 * DAY + 10 * MINUTE), (40 * DAY + 10 * MINUTE, 40 * DAY - MINUTE));
    }

    #[test]
    fn the_wrong_clock_of_the_first_process_after_a_start_ends_nothing() {
        let mut store = Store::new();
        store.at("a", 0, 0);
        let (now, shift) = store.at("b", 0, MINUTE + 5 * DAY);
        assert_eq!(now, shift, "deadlines are as far away as before");
        let mut store = Store::new();
        store.at("a", 0, 0);
        assert_eq!(store.at("b", 0, 5 * YEAR), (0, 0));
        assert_eq!(store.at("b", MINUTE, HOUR), (HOUR, 59 * MINUTE), "the right one is believed at once");
    }

    #[test]
    fn without_a_boot_clock_a_far_jump_waits_for_a_second_clock_or_ten_minutes() {
        let mut store = Store::new();
        assert_eq!(store.wall(0, None), (0, 0));
        assert_eq!(store.wall(6 * DAY, None), (6 * DAY, 0));
        assert_eq!(store.wall(5 * YEAR, Some(6 * DAY)), (6 * DAY, 0), "the other machine's clock disagrees");
        assert_eq!(store.wall(6 * DAY + MINUTE, None), (6 * DAY + MINUTE, 0));
        assert_eq!(store.wall(20 * DAY, Some(20 * DAY + SECOND)), (20 * DAY, 0), "it agrees");
        assert_eq!(store.wall(50 * DAY, None), (20 * DAY, 0));
        assert_eq!(store.wall(50 * DAY + 10 * MINUTE, None), (50 * DAY + 10 * MINUTE, 30 * DAY + 10 * MINUTE));
        assert_eq!(store.wall(DAY, None), (50 * DAY + 10 * MINUTE, 0), "and never back");
    }

    #[test]
    fn given_time_is_right_and_so_is_the_clock_after_it() {
        let mut store = Store::new();
        store.at("a", 0, 0);
        let given = |millis| Reading::Given(Timestamp::from_millis(START + millis));
        assert_eq!(store.write(&given(YEAR)), (YEAR, 0));
        assert_eq!(store.write(&given(DAY)), (YEAR, 0));
        assert_eq!(store.at("a", MINUTE, 3 * YEAR), (3 * YEAR, 0));
    }

    #[test]
    fn a_reading_of_any_number_is_survived() {
        let extremes = [i64::MIN, -1, 0, 1, i64::MAX / 2, i64::MAX];
        for last in extremes {
            for wall in extremes {
                for since_ms in [0, i64::MAX / 2] {
                    let anchor = Anchor { boot: "a".to_owned(), offset_ms: last, is_firm: false, doubt: None };
                    let last = Some(Timestamp::from_millis(last));
                    let boot = Some(BootClock { id: "b".to_owned(), since_ms });
                    let wall = Timestamp::from_millis(wall);
                    let time = store_time(&Remembered { anchor, last }, &Reading::Machine { wall, boot, second: None });
                    assert!(Some(time.now) >= last);
                }
            }
        }
    }
}
