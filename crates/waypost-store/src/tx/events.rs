//! The rows of events, and summaries of removed records.

use waypost_core::Result;
use waypost_core::model::{Event, EventQuery, NewEvent, Summary};
use waypost_core::store::EventTx;
use waypost_core::time::Timestamp;

use super::SqlTx;
use crate::cell::{Row, cells, json};
use crate::sql::{self, AppendedEvent};

impl EventTx for SqlTx<'_> {
    fn event_append(&mut self, event: &NewEvent) -> Result<u64> {
        // A sequence that was rolled back is used again, so the history has no gaps.
        let sequence = self.state()?.sequence + 1;
        self.put(&AppendedEvent::new(sequence, event))?;
        let state = self.state()?;
        (state.sequence, state.clock.last) = (sequence, Some(event.time));
        Ok(sequence)
    }

    fn event_list(&mut self, query: &EventQuery) -> Result<Vec<Event>> {
        self.listed(sql::event_list(query))
    }

    fn event_last(&mut self) -> Result<u64> {
        Ok(self.state()?.sequence)
    }

    fn event_list_removable(&mut self, before: Timestamp, limit: u32) -> Result<Vec<(u64, Timestamp, String)>> {
        let event = |row: &mut Row<'_>| Ok((row.number()?, row.timestamp()?, row.text()?));
        self.read(sql::EVENT_LIST_REMOVABLE, cells!["[]", before, limit], event)
    }

    fn event_count_removable(&mut self, before: Timestamp, without: &[String]) -> Result<u64> {
        self.number(sql::EVENT_COUNT_REMOVABLE, &[json(&without)?, before.into()])
    }

    fn event_remove(&mut self, before: Timestamp, sequences: &[u64]) -> Result<()> {
        self.run(sql::EVENTS_KEPT_PUT, cells![before])?;
        self.run(sql::EVENT_REMOVE, &[json(&sequences)?])?;
        self.run(sql::EVENTS_KEPT_PUT, cells![i64::MIN])
    }

    fn summary_put(&mut self, summary: &Summary) -> Result<()> {
        self.put(summary)
    }

    fn summary_get(&mut self, subject: &str) -> Result<Option<Summary>> {
        self.one(sql::SUMMARY_GET, cells![subject])
    }

    fn summary_list_by_subject(&mut self, subjects: &[String]) -> Result<Vec<Summary>> {
        self.all_in(sql::SUMMARY_LIST_BY_SUBJECT, &subjects)
    }

    fn summary_list(&mut self, limit: u32) -> Result<Vec<Summary>> {
        self.all(sql::SUMMARY_LIST, cells![limit])
    }
}
