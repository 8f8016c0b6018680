//! Indexes for lists with filters and other orders.
//!
//! They take a third of the time in which the rest of the index is built, and most commands need none of them. So the first
//! list that needs them creates them.

use waypost_core::Result;
use waypost_core::ledger::ready::Facts;
use waypost_core::time::Timestamp;

use super::Index;
use super::counters::Kind;
use super::lines::label_to_text;
use super::query::{Filter, Order, Sort};
use super::rows::labels_from_text;

/// With fewer issues, a list that reads all of them takes less than a millisecond.
const MIN_ISSUES: usize = 2_000;

impl Index {
    /// Returns whether it has the indexes for lists.
    pub(super) fn has_lists(&self) -> Result<bool> {
        Ok(self.one("SELECT has_lists FROM about", [], |row| row.get(0))?.unwrap_or_default())
    }

    /// Returns whether the indexes for lists are worth their cost and do not exist yet.
    pub(crate) fn needs_lists(&self) -> Result<bool> {
        let number: usize = self.counters(Kind::Status)?.into_iter().map(|(_, number)| number).sum();
        Ok(number >= MIN_ISSUES && !self.has_lists()?)
    }

    /// Creates the indexes for lists.
    pub(crate) fn create_lists(&self) -> Result<()> {
        self.sql(|connection| connection.execute_batch(include_str!("lists.sql")))?;
        let sql = "SELECT id, labels, category < 3, priority, created_at FROM issue WHERE labels != ''";
        let labelled = self.all(sql, [], |row| {
            let labels = labels_from_text(row.get_ref(1)?.as_str()?);
            Ok((row.get::<_, String>(0)?, labels, row.get(2)?, row.get(3)?, row.get(4)?))
        })?;
        for (id, labels, is_open, priority, created_at) in labelled {
            labels.iter().try_for_each(|label| self.add_label(label, &id, is_open, priority, created_at))?;
        }
        self.execute("UPDATE about SET has_lists = TRUE", []).map(drop)
    }

    /// Replaces the labels of an issue in the lists.
    pub(super) fn replace_labels(&self, before: Option<&Facts>, after: Option<&Facts>) -> Result<()> {
        if let Some(facts) = before {
            for label in &facts.labels {
                let sql = "DELETE FROM label WHERE label = ?1 AND issue_id = ?2";
                self.execute(sql, (label_to_text(label), &facts.id))?;
            }
        }
        if let Some(facts) = after {
            let (is_open, created_at) = (!facts.category.is_over(), facts.created_at.map(Timestamp::as_millis));
            for label in &facts.labels {
                self.add_label(label, &facts.id, is_open, facts.priority, created_at)?;
            }
        }
        Ok(())
    }

    fn add_label(&self, label: &str, id: &str, is_open: bool, priority: u8, created_at: Option<i64>) -> Result<()> {
        // A file may repeat a label.
        let sql = "INSERT OR IGNORE INTO label VALUES (?1, ?2, ?3, ?4, ?5)";
        self.execute(sql, (label_to_text(label), id, is_open, priority, created_at)).map(drop)
    }

    /// Returns the rarest label of a filter, if its open issues are to be listed in the order in which the lists have them.
    pub(super) fn label_in_order<'f>(&self, filter: &'f Filter, order: &Order) -> Result<Option<&'f str>> {
        let is_open = filter.statuses.is_empty() && !filter.closed && !filter.deleted;
        if !is_open || filter.labels.is_empty() || *order != Sort::Priority.order(false) || !self.has_lists()? {
            return Ok(None);
        }
        let mut rarest = None;
        for label in &filter.labels {
            let number = self.counter(Kind::OpenLabel, &label_to_text(label))?;
            if rarest.is_none_or(|(fewest, _)| number < fewest) {
                rarest = Some((number, label.as_str()));
            }
        }
        Ok(rarest.map(|(_, label)| label))
    }
}
