//! The rows of events, and summaries of removed records.

use crate::error::Result;
use crate::model::{Event, EventQuery, NewEvent, Summary};
use crate::time::Timestamp;

/// The part of a transaction that is about events, and summaries of removed records.
pub trait EventTx {
    /// Appends to the history and returns the sequence. Its worktree must exist.
    fn event_append(&mut self, event: &NewEvent) -> Result<u64>;
    /// Returns events.
    fn event_list(&mut self, query: &EventQuery) -> Result<Vec<Event>>;
    /// Returns the sequence of the newest event, 0 if there is none.
    fn event_last(&mut self) -> Result<u64>;
    /// Returns sequence, time and kind of events before a moment that may be removed, the oldest first: they are about no
    /// existing workflow, task, job, workspace or message, and not about a leased issue.
    fn event_list_removable(&mut self, before: Timestamp, limit: u32) -> Result<Vec<(u64, Timestamp, String)>>;
    /// Returns how many events [`Self::event_list_removable`] would return without a limit if the workflows, jobs, workspaces
    /// and messages with these ids did not exist.
    fn event_count_removable(&mut self, before: Timestamp, without: &[String]) -> Result<u64>;
    /// Deletes events before a moment by their sequence. The newest event always stays.
    fn event_remove(&mut self, before: Timestamp, sequences: &[u64]) -> Result<()>;

    /// Inserts a summary, or replaces the one of the same subject.
    fn summary_put(&mut self, summary: &Summary) -> Result<()>;
    /// Returns the summary of a subject.
    fn summary_get(&mut self, subject: &str) -> Result<Option<Summary>>;
    /// Returns the summaries of these subjects, by subject.
    fn summary_list_by_subject(&mut self, subjects: &[String]) -> Result<Vec<Summary>>;
    /// Returns summaries, the last removed first.
    fn summary_list(&mut self, limit: u32) -> Result<Vec<Summary>>;
}
