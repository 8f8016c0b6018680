//! The rows of events, and summaries of removed records.

use waypost_core::error::{Error, Result};
use waypost_core::model::{Event, EventQuery, NewEvent, Summary};
use waypost_core::page::Cursor;
use waypost_core::store::EventTx;
use waypost_core::time::Timestamp;

use super::{MemoryTx, size};

impl EventTx for MemoryTx<'_> {
    fn event_append(&mut self, event: &NewEvent) -> Result<u64> {
        if !self.rows.worktrees.contains_key(&event.worktree_id) {
            return Err(Error::internal(format!("an event names the unknown worktree {}", event.worktree_id)));
        }
        let sequence = self.event_last()? + 1;
        self.rows.events.push(Event {
            sequence,
            time: event.time,
            actor: event.actor.clone(),
            worktree_id: event.worktree_id.clone(),
            kind: event.kind.to_owned(),
            subject: event.subject.clone(),
            data: event.data.clone(),
        });
        Ok(sequence)
    }

    fn event_list(&mut self, query: &EventQuery) -> Result<Vec<Event>> {
        let matches = |event: &&Event| {
            query.worktree_id.as_ref().is_none_or(|id| *id == event.worktree_id)
                && query.kind.as_ref().is_none_or(|kind| event.kind.starts_with(kind.as_str()))
                && query.subject.as_ref().is_none_or(|subject| *subject == event.subject)
                && query.after.as_ref().is_none_or(|Cursor(after)| match query.since {
                    Some(_) => event.sequence > *after,
                    None => event.sequence < *after,
                })
        };
        let limit = size(query.limit);
        Ok(match query.since {
            Some(since) => {
                let later = self.rows.events.iter().skip_while(|event| event.sequence <= since);
                later.filter(matches).take(limit).cloned().collect()
            }
            None => self.rows.events.iter().rev().filter(matches).take(limit).cloned().collect(),
        })
    }

    fn event_last(&mut self) -> Result<u64> {
        Ok(self.rows.events.last().map_or(0, |last| last.sequence))
    }

    fn event_list_removable(&mut self, before: Timestamp, limit: u32) -> Result<Vec<(u64, Timestamp, String)>> {
        let is_removable = |event: &&Event| event.time < before && !self.is_kept(&event.subject, &[]);
        let events = self.rows.events.iter().filter(is_removable).take(size(limit));
        Ok(events.map(|event| (event.sequence, event.time, event.kind.clone())).collect())
    }

    fn event_count_removable(&mut self, before: Timestamp, without: &[String]) -> Result<u64> {
        let is_removable = |event: &&Event| event.time < before && !self.is_kept(&event.subject, without);
        Ok(self.rows.events.iter().filter(is_removable).count() as u64)
    }

    fn event_remove(&mut self, before: Timestamp, sequences: &[u64]) -> Result<()> {
        let newest = self.event_last()?;
        let is_removed = |event: &Event| sequences.contains(&event.sequence) && event.sequence < newest;
        if self.rows.events.iter().any(|event| is_removed(event) && event.time >= before) {
            return Err(Error::internal("events that are kept are never deleted"));
        }
        self.rows.events.retain(|event| !is_removed(event));
        Ok(())
    }

    fn summary_put(&mut self, summary: &Summary) -> Result<()> {
        self.need_worktree(&summary.worktree_id)?;
        self.rows.summaries.insert(summary.subject.clone(), summary.clone());
        Ok(())
    }

    fn summary_get(&mut self, subject: &str) -> Result<Option<Summary>> {
        Ok(self.rows.summaries.get(subject).cloned())
    }

    fn summary_list_by_subject(&mut self, subjects: &[String]) -> Result<Vec<Summary>> {
        Ok(self.rows.summaries.values().filter(|summary| subjects.contains(&summary.subject)).cloned().collect())
    }

    fn summary_list(&mut self, limit: u32) -> Result<Vec<Summary>> {
        let mut all: Vec<Summary> = self.rows.summaries.values().cloned().collect();
        all.sort_by(|a, b| (b.removed_at, &b.subject).cmp(&(a.removed_at, &a.subject)));
        all.truncate(size(limit));
        Ok(all)
    }
}
