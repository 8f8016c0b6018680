//! Numbers of issues that the index keeps, so that counting does not read the issues.

use std::collections::{BTreeMap, HashMap};

use foldhash::fast::RandomState;
use waypost_core::Result;
use waypost_core::ledger::ready::{Facts, Standing};
use waypost_core::time::Timestamp;

use super::Index;
use super::lines::label_to_text;

/// What a counter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// All issues, by status.
    Status,
    /// Open issues, by type.
    OpenType,
    /// Open issues, by priority.
    OpenPriority,
    /// Open issues, by label.
    OpenLabel,
    /// Ready issues, by the time from which they are ready; empty for any time.
    Ready,
    /// Issues that wait for others at any time.
    Blocked,
    /// Issues that only wait until some time, by that time.
    BlockedUntil,
}

impl Kind {
    const COUNT: usize = 7;

    pub(super) fn code(self) -> i64 {
        self as i64
    }
}

/// An issue, as far as counters depend on it.
pub(super) struct Counted<'a> {
    pub(super) ledger: i64,
    pub(super) issue_type: &'a str,
    pub(super) facts: &'a Facts,
    pub(super) standing: Standing,
}

/// Differences of counters: for each kind by value, then by ledger.
#[derive(Debug, Default)]
pub(super) struct Difference([HashMap<String, BTreeMap<i64, i64>, RandomState>; Kind::COUNT]);

impl Difference {
    pub(super) fn add(&mut self, issue: &Counted<'_>) {
        self.count(issue, 1);
    }

    pub(super) fn subtract(&mut self, issue: &Counted<'_>) {
        self.count(issue, -1);
    }

    fn count(&mut self, issue: &Counted<'_>, number: i64) {
        let Counted { ledger, issue_type, facts, standing } = issue;
        let mut count = |kind: Kind, value: &str| {
            let counters = &mut self.0[kind as usize];
            // Most values are known already.
            let counters = match counters.get_mut(value) {
                Some(known) => known,
                None => counters.entry(value.to_owned()).or_default(),
            };
            *counters.entry(*ledger).or_default() += number;
        };
        count(Kind::Status, &facts.status);
        if standing.is_ready && facts.not_work.is_none() {
            count(Kind::Ready, &standing.wakes_at.map(moment).unwrap_or_default());
        }
        if facts.category.is_over() {
            return;
        }
        count(Kind::OpenType, issue_type);
        count(Kind::OpenPriority, &facts.priority.to_string());
        for label in &facts.labels {
            count(Kind::OpenLabel, &label_to_text(label));
        }
        if standing.waits_for > 0 || standing.above.is_held {
            count(Kind::Blocked, "");
        } else if let Some(freed_at) = standing.above.freed_at {
            count(Kind::BlockedUntil, &moment(freed_at));
        }
    }
}

/// Returns a text for a time. Texts are ordered like their times, and the empty text comes first.
fn moment(time: Timestamp) -> String {
    format!("{:020}", time.as_millis().cast_unsigned() ^ (1 << 63))
}

impl Index {
    /// Adds differences to the counters. A counter of 0 has no row.
    pub(super) fn write_counters(&self, difference: &Difference) -> Result<()> {
        for (kind, counters) in (0_i64..).zip(&difference.0) {
            for (value, ledgers) in counters {
                for (ledger, number) in ledgers.iter().filter(|(_, number)| **number != 0) {
                    self.add_to_counter(kind, value, *ledger, *number)?;
                }
            }
        }
        Ok(())
    }

    fn add_to_counter(&self, kind: i64, value: &str, ledger: i64, number: i64) -> Result<()> {
        let now = self.one(
            "INSERT INTO counter (kind, value, ledger, number) VALUES (?1, ?2, ?3, ?4) \
             ON CONFLICT (kind, value, ledger) DO UPDATE SET number = number + excluded.number RETURNING number",
            (kind, value, ledger, number),
            |row| row.get::<_, i64>(0),
        )?;
        match now {
            Some(0) => {
                let sql = "DELETE FROM counter WHERE kind = ?1 AND value = ?2 AND ledger = ?3";
                self.execute(sql, (kind, value, ledger)).map(drop)
            }
            Some(1..) => Ok(()),
            _ => Err(self.inconsistent()),
        }
    }

    /// Returns the counters of a kind, by value.
    pub(super) fn counters(&self, kind: Kind) -> Result<Vec<(String, usize)>> {
        self.all(
            "SELECT value, sum(number) FROM counter WHERE kind = ?1 AND (?2 IS NULL OR ledger = ?2) GROUP BY value \
             ORDER BY value",
            (kind.code(), self.only_ledger.get()),
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
    }

    /// Returns the counter of one value.
    pub(super) fn counter(&self, kind: Kind, value: &str) -> Result<usize> {
        self.sum(kind, "= ?2", value)
    }

    /// Returns the number of issues that are ready.
    pub(super) fn ready_count(&self, now: Timestamp) -> Result<usize> {
        self.sum(Kind::Ready, "<= ?2", &moment(now))
    }

    /// Returns the number of issues that wait for others.
    pub(super) fn blocked_count(&self, now: Timestamp) -> Result<usize> {
        Ok(self.counter(Kind::Blocked, "")? + self.sum(Kind::BlockedUntil, "> ?2", &moment(now))?)
    }

    fn sum(&self, kind: Kind, condition: &str, value: &str) -> Result<usize> {
        let number = self.one(
            &format!(
                "SELECT sum(number) FROM counter WHERE kind = ?1 AND value {condition} AND (?3 IS NULL OR ledger = ?3)"
            ),
            (kind.code(), value, self.only_ledger.get()),
            |row| row.get::<_, Option<usize>>(0),
        )?;
        Ok(number.flatten().unwrap_or_default())
    }
}
