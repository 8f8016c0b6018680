//! Indexes for lists with filters and other orders.
//!
//! They take a third of the time in which the rest of the index is built, and most commands need none of them. So the first
//! list that needs them creates them.

use waypost_core::Result;
use waypost_core::ledger::ready::Facts;

use super::Index;
use super::counters::Kind;
use super::lines::label_to_text;
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
        let labels = self.all("SELECT id, labels FROM issue WHERE labels != ''", [], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))
        })?;
        for (id, labels) in labels {
            labels_from_text(&labels).iter().try_for_each(|label| self.add_label(&id, label))?;
        }
        self.execute("UPDATE about SET has_lists = TRUE", []).map(drop)
    }

    /// Replaces the labels of an issue in the lists.
    pub(super) fn replace_labels(&self, before: Option<&Facts>, after: Option<&Facts>) -> Result<()> {
        if let Some(facts) = before {
            for label in &facts.labels {
                let sql = "DELETE FROM label WHERE label = ?1 AND id = ?2";
                self.execute(sql, (label_to_text(label), &facts.id))?;
            }
        }
        if let Some(facts) = after {
            facts.labels.iter().try_for_each(|label| self.add_label(&facts.id, label))?;
        }
        Ok(())
    }

    fn add_label(&self, id: &str, label: &str) -> Result<()> {
        // A file may repeat a label.
        let sql = "INSERT OR IGNORE INTO label (label, id) VALUES (?1, ?2)";
        self.execute(sql, (label_to_text(label), id)).map(drop)
    }
}
