//! The store's time: how far the store trusts the clocks of a machine.
//!
//! A wall clock can be wrong by years, in one process or for a whole boot. Events, leases and saved answers all use the
//! store's time, so one wrong reading must not move it. The store therefore keeps an [`Anchor`]: the offset of its time
//! from the machine's boot clock, which includes sleep and is never set. [`store_time`] is the whole rule:
//!
//! - In the anchor's boot, the store trusts a wall clock within [`TOLERANCE_MS`] of the boot clock. Otherwise its time
//!   advances with the boot clock.
//! - In another boot, the store trusts a wall clock up to [`MAX_JUMP_MS`] after the last event. Otherwise its time
//!   advances from the last event with the boot clock.
//! - A wall clock that is ahead and not trusted is stored as a [`Doubt`]. The store trusts it after a second reading,
//!   at least [`CONFIRM_MS`] later and with the same offset from the boot clock, if no write saw another wall clock
//!   between.
//! - Time that no boot clock has measured never counts against a deadline: when the store's time jumps over it, the
//!   deadlines shift by the same amount.
//! - Without a boot clock, the store trusts the wall clock up to [`MAX_JUMP_MS`] after the last event. If the clock of
//!   a second machine agrees, it trusts a larger jump too, and deadlines do not shift.

use crate::seeded::seeded_bug;
use crate::time::Timestamp;

/// Maximum difference between a wall clock and a boot clock that agree.
pub const TOLERANCE_MS: i64 = 2_000;
/// Maximum jump of a wall clock after the last event that is trusted without a boot clock to compare with.
pub const MAX_JUMP_MS: i64 = 7 * 24 * 60 * 60 * 1000;
/// Time after which a doubted wall clock is trusted.
pub const CONFIRM_MS: i64 = 10 * 60 * 1000;
/// Maximum lead of the store's time over the wall clock before `way doctor` reports it.
pub const MAX_AHEAD_MS: i64 = 5 * 60 * 1000;
/// Maximum drift between wall clock and boot clock before the anchor is written again.
const MAX_DRIFT_MS: i64 = 1_000;
/// Maximum difference between the clocks of two machines that agree.
const MACHINE_TOLERANCE_MS: i64 = 60_000;

/// A source of the time; always an argument.
pub trait Clock {
    /// Returns the current moment.
    fn now(&self) -> Timestamp;

    /// Returns the readings of all clocks of the machine. By default the current moment is right by definition.
    fn reading(&self) -> Reading {
        Reading::Given(self.now())
    }
}

/// A clock that always shows the same time.
#[derive(Clone, Copy, Debug)]
pub struct FixedClock(pub Timestamp);

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        self.0
    }
}

/// The clock that counts from the boot of the machine, including sleep, and is never set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootClock {
    /// The id of the boot.
    pub id: String,
    /// Milliseconds since the boot.
    pub since_ms: i64,
}

/// A reading of the clocks at one moment.
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
    /// Returns the reading of the wall clock.
    pub fn wall(&self) -> Timestamp {
        match self {
            Reading::Given(wall) | Reading::Machine { wall, .. } => *wall,
        }
    }
}

/// The relation of the store's time to a boot clock. The default has none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anchor {
    /// The boot; empty if there is none.
    pub boot: String,
    /// The store's time minus the boot clock.
    pub offset_ms: i64,
    /// Whether the wall clock was trusted when this was set.
    pub is_firm: bool,
    /// A wall clock that was not trusted.
    pub doubt: Option<Doubt>,
}

impl Default for Anchor {
    fn default() -> Self {
        Anchor { boot: String::new(), offset_ms: 0, is_firm: true, doubt: None }
    }
}

/// A wall clock that was ahead and not trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doubt {
    /// Its first reading.
    pub wall: Timestamp,
    /// The reading of the anchor's boot clock at that moment; none in another boot or on another machine.
    pub since_ms: Option<i64>,
}

/// The clock state that a store keeps.
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
    /// The anchor to store, if it differs from the stored one.
    pub anchor: Anchor,
    /// The shift of all deadlines, because time jumped.
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

/// Returns the anchor of a store whose time is set to the wall clock.
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
    // The store has no anchor yet, or its time was given.
    let is_first = anchor.boot.is_empty() && anchor.doubt.is_none();
    let measured = anchor.offset_ms.saturating_add(boot.since_ms);
    let expected = match (is_same, remembered.last) {
        (true, _) => measured.max(last),
        (false, Some(_)) => last,
        (false, None) => wall,
    };
    let tolerance = match (is_same && anchor.is_firm, is_first) {
        (true, _) => TOLERANCE_MS,
        (false, true) => i64::MAX,
        (false, false) => MAX_JUMP_MS,
    };
    let ahead = wall.saturating_sub(expected);
    let is_confirmed = ahead > tolerance && is_confirmed(anchor, is_same, wall, boot.since_ms);
    if (-TOLERANCE_MS..=tolerance).contains(&ahead) || is_confirmed || seeded_bug("trust_wall_clock") {
        let shift_ms = if is_first || (tolerance == TOLERANCE_MS && !is_confirmed) { 0 } else { ahead.max(0) };
        return StoreTime { now: Timestamp::from_millis(wall.max(last)), anchor: firm(anchor, wall, boot), shift_ms };
    }
    let anchor = Anchor {
        boot: boot.id.clone(),
        // Time must not continue from a moment before the last event.
        offset_ms: if is_same && measured >= last { anchor.offset_ms } else { expected.saturating_sub(boot.since_ms) },
        is_firm: is_same && anchor.is_firm,
        doubt: (ahead > 0).then(|| doubt(anchor, is_same, wall, Some(boot.since_ms))),
    };
    StoreTime { now: Timestamp::from_millis(expected), anchor, shift_ms: 0 }
}

fn by_wall_clock(anchor: &Anchor, last: i64, wall: i64, second: Option<i64>) -> StoreTime {
    let ahead = if last == i64::MIN { 0 } else { wall.saturating_sub(last) };
    let is_agreed = second.is_some_and(|second| second.abs_diff(wall) <= MACHINE_TOLERANCE_MS.unsigned_abs());
    let is_confirmed = is_confirmed(anchor, false, wall, 0);
    if ahead <= MAX_JUMP_MS || is_agreed || is_confirmed {
        let shift_ms = if ahead > MAX_JUMP_MS && !is_agreed { ahead } else { 0 };
        let anchor = Anchor { doubt: None, ..anchor.clone() };
        return StoreTime { now: Timestamp::from_millis(wall.max(last)), anchor, shift_ms };
    }
    let anchor = Anchor { doubt: Some(doubt(anchor, false, wall, None)), ..anchor.clone() };
    StoreTime { now: Timestamp::from_millis(last), anchor, shift_ms: 0 }
}

/// Returns whether a doubted wall clock has advanced consistently for long enough.
fn is_confirmed(anchor: &Anchor, is_same: bool, wall: i64, since_ms: i64) -> bool {
    anchor.doubt.as_ref().is_some_and(|doubt| {
        continues(doubt, is_same, wall, since_ms) && wall.saturating_sub(doubt.wall.as_millis()) >= CONFIRM_MS
    })
}

/// Returns whether a reading continues the doubted wall clock: it advanced as the boot clock did, or, in another boot,
/// it advanced at all.
fn continues(doubt: &Doubt, is_same: bool, wall: i64, since_ms: i64) -> bool {
    let elapsed = wall.saturating_sub(doubt.wall.as_millis());
    match doubt.since_ms.filter(|_| is_same) {
        Some(first) => elapsed.abs_diff(since_ms.saturating_sub(first)) <= TOLERANCE_MS.unsigned_abs(),
        None => elapsed >= 0,
    }
}

/// Returns the existing doubt if it is about the same wall clock, or a new one.
fn doubt(anchor: &Anchor, is_same: bool, wall: i64, since_ms: Option<i64>) -> Doubt {
    match &anchor.doubt {
        Some(doubt) if continues(doubt, is_same, wall, since_ms.unwrap_or_default()) => {
            Doubt { wall: doubt.wall, since_ms: doubt.since_ms.filter(|_| is_same) }
        }
        _ => Doubt { wall: Timestamp::from_millis(wall), since_ms },
    }
}

/// Returns the anchor for a trusted wall clock: the old one while its drift is small, which saves a write.
fn firm(anchor: &Anchor, wall: i64, boot: &BootClock) -> Anchor {
    let new =
        Anchor { boot: boot.id.clone(), offset_ms: wall.saturating_sub(boot.since_ms), is_firm: true, doubt: None };
    let is_near = new.offset_ms.abs_diff(anchor.offset_ms) <= MAX_DRIFT_MS.unsigned_abs();
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
    /// The time at which the tests begin.
    const START: i64 = 1_767_225_600_000;

    /// A store with a write at every reading.
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

        /// Writes in a boot at a boot clock time, while the wall clock shows a time relative to [`START`].
        fn at(&mut self, boot: &str, since_ms: i64, wall: i64) -> (i64, i64) {
            self.write(&machine(boot, since_ms, wall))
        }

        /// Writes without a boot clock.
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
    fn a_right_clock_is_trusted_and_the_anchor_stays() {
        let mut store = Store::new();
        assert_eq!(store.at("a", 50 * SECOND, 0), (0, 0));
        let anchor = store.0.anchor.clone();
        for (since, wall) in [(51 * SECOND, SECOND), (HOUR, HOUR - 50 * SECOND + 700), (9 * DAY, 9 * DAY - 50 * SECOND)]
        {
            assert_eq!(store.at("a", since, wall), (wall, 0), "the boot clock counts while a laptop sleeps");
            assert_eq!(store.0.anchor, anchor);
        }
    }

    #[test]
    fn a_wrong_clock_does_not_move_time() {
        for wrong in [3 * SECOND, MINUTE, HOUR, 8 * DAY, 5 * YEAR, 80 * YEAR] {
            for wrong in [wrong, -wrong] {
                let mut store = Store::new();
                store.at("a", 0, 0);
                assert_eq!(store.at("a", 10 * SECOND, 10 * SECOND + wrong), (10 * SECOND, 0), "{wrong}");
                assert_eq!(store.at("a", 20 * SECOND, 20 * SECOND), (20 * SECOND, 0), "{wrong}");
                assert_eq!(store.0.anchor.doubt, None, "a right reading ends the doubt");
            }
        }
    }

    #[test]
    fn small_steps_of_the_clock_are_trusted() {
        let mut store = Store::new();
        store.at("a", 0, 0);
        for step in 1..10 {
            let wall = step * MINUTE + step * 1_500;
            assert_eq!(store.at("a", step * MINUTE, wall), (wall, 0));
        }
    }

    #[test]
    fn time_while_a_machine_is_off_does_not_count_against_deadlines() {
        let mut store = Store::new();
        store.at("a", 0, 0);
        assert_eq!(store.at("b", MINUTE, 3 * DAY), (3 * DAY, 3 * DAY));
        assert_eq!(store.at("b", 2 * MINUTE, 3 * DAY + MINUTE), (3 * DAY + MINUTE, 0));
    }

    #[test]
    fn a_month_off_is_trusted_after_ten_minutes() {
        let mut store = Store::new();
        store.at("a", 0, 0);
        assert_eq!(store.at("b", MINUTE, 30 * DAY), (0, 0), "not yet");
        assert_eq!(store.at("b", 9 * MINUTE, 30 * DAY + 8 * MINUTE), (8 * MINUTE, 0), "not yet, but time advances");
        assert_eq!(store.at("b", 12 * MINUTE, 30 * DAY + 11 * MINUTE), (30 * DAY + 11 * MINUTE, 30 * DAY));
        assert_eq!(store.at("b", 13 * MINUTE, 30 * DAY + 12 * MINUTE), (30 * DAY + 12 * MINUTE, 0));
    }

    #[test]
    fn a_month_off_is_trusted_in_the_next_boot_too() {
        let mut store = Store::new();
        store.at("a", 0, 0);
        assert_eq!(store.at("b", MINUTE, 30 * DAY), (0, 0));
        assert_eq!(store.at("c", MINUTE, 31 * DAY), (31 * DAY, 31 * DAY));
    }

    #[test]
    fn a_doubted_clock_that_deviates_from_the_boot_clock_starts_a_new_doubt() {
        let mut store = Store::new();
        store.at("a", 0, 0);
        assert_eq!(store.at("a", MINUTE, 5 * YEAR), (MINUTE, 0));
        assert_eq!(store.at("a", 12 * MINUTE, 6 * YEAR), (12 * MINUTE, 0));
        assert_eq!(store.at("a", 21 * MINUTE, 6 * YEAR + 9 * MINUTE), (21 * MINUTE, 0));
        assert_eq!(store.at("a", 22 * MINUTE, 22 * MINUTE), (22 * MINUTE, 0));
        assert_eq!(store.at("a", 32 * MINUTE, 6 * YEAR + 20 * MINUTE), (32 * MINUTE, 0), "the doubt had ended");
    }

    #[test]
    fn a_machine_that_starts_in_1970_is_right_as_soon_as_its_clock_is_set() {
        let mut store = Store::new();
        store.at("a", 0, 0);
        assert_eq!(store.at("b", 5 * SECOND, -START), (0, 0));
        assert_eq!(store.at("b", 35 * SECOND, 30 * SECOND - START), (30 * SECOND, 0), "time advances all the same");
        assert_eq!(store.at("b", MINUTE, DAY), (DAY, DAY - 55 * SECOND), "deadlines set meanwhile shift too");
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
    fn a_wrong_clock_of_the_first_process_after_a_boot_expires_nothing() {
        let mut store = Store::new();
        store.at("a", 0, 0);
        let (now, shift) = store.at("b", 0, MINUTE + 5 * DAY);
        assert_eq!(now, shift, "deadlines are as far away as before");
        let mut store = Store::new();
        store.at("a", 0, 0);
        assert_eq!(store.at("b", 0, 5 * YEAR), (0, 0));
        assert_eq!(store.at("b", MINUTE, HOUR), (HOUR, 59 * MINUTE), "a right clock is trusted at once");
    }

    #[test]
    fn without_a_boot_clock_a_large_jump_needs_a_second_clock_or_ten_minutes() {
        let mut store = Store::new();
        assert_eq!(store.wall(0, None), (0, 0));
        assert_eq!(store.wall(6 * DAY, None), (6 * DAY, 0));
        assert_eq!(store.wall(5 * YEAR, Some(6 * DAY)), (6 * DAY, 0), "the other machine's clock disagrees");
        assert_eq!(store.wall(6 * DAY + MINUTE, None), (6 * DAY + MINUTE, 0));
        assert_eq!(store.wall(20 * DAY, Some(20 * DAY + SECOND)), (20 * DAY, 0), "it agrees");
        assert_eq!(store.wall(50 * DAY, None), (20 * DAY, 0));
        assert_eq!(store.wall(50 * DAY + 10 * MINUTE, None), (50 * DAY + 10 * MINUTE, 30 * DAY + 10 * MINUTE));
        assert_eq!(store.wall(DAY, None), (50 * DAY + 10 * MINUTE, 0), "time never goes back");
    }

    #[test]
    fn a_given_time_is_trusted_and_so_is_the_next_clock() {
        let mut store = Store::new();
        store.at("a", 0, 0);
        let given = |millis| Reading::Given(Timestamp::from_millis(START + millis));
        assert_eq!(store.write(&given(YEAR)), (YEAR, 0));
        assert_eq!(store.write(&given(DAY)), (YEAR, 0));
        assert_eq!(store.at("a", MINUTE, 3 * YEAR), (3 * YEAR, 0));
    }

    #[test]
    fn extreme_readings_do_not_panic() {
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
