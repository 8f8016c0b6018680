//! The history.

use serde_json::Value;
use waypost_core::id::WorktreeId;
use waypost_core::model::{Event, EventQuery, NewEvent};
use waypost_core::page::Cursor;
use waypost_core::time::Timestamp;

use super::Query;
use crate::cell::Cell;

/// A new event with its place in the history.
pub(crate) struct AppendedEvent<'a> {
    sequence: u64,
    time: Timestamp,
    actor: &'a str,
    worktree_id: &'a WorktreeId,
    kind: &'a str,
    subject: &'a str,
    data: &'a Value,
}

impl<'a> AppendedEvent<'a> {
    pub(crate) fn new(sequence: u64, event: &'a NewEvent) -> AppendedEvent<'a> {
        let NewEvent { time, actor, worktree_id, kind, subject, data } = event;
        AppendedEvent { sequence, time: *time, actor, worktree_id, kind, subject, data }
    }
}

table! {
    struct Event as event, stored from AppendedEvent<'_>;
    /// Inserts only.
    pub(crate) const EVENT_APPEND: insert into events;
    key {
        sequence: number,
    }
    columns {
        time: timestamp,
        actor: text,
        worktree_id: parsed,
        kind: text,
        subject: text,
        data: json,
    }
}

/// Backwards along the primary key.
pub(crate) const EVENT_LIST: &str =
    select!(event, "events WHERE substr(kind, 1, length(?2)) = ?2 AND sequence < ?3 ORDER BY sequence DESC LIMIT ?1");
/// Backwards along `events_by_worktree`.
pub(crate) const EVENT_LIST_OF_WORKTREE: &str = select!(
    event,
    "events WHERE substr(kind, 1, length(?2)) = ?2 AND sequence < ?3 AND worktree_id = ?4
    ORDER BY sequence DESC LIMIT ?1"
);
/// Backwards along `events_by_subject`.
pub(crate) const EVENT_LIST_OF_SUBJECT: &str = select!(
    event,
    "events WHERE substr(kind, 1, length(?2)) = ?2 AND sequence < ?3 AND subject = ?4
        AND (?5 = '' OR worktree_id = ?5)
    ORDER BY sequence DESC LIMIT ?1"
);
/// Along the primary key.
pub(crate) const EVENT_LIST_SINCE: &str =
    select!(event, "events WHERE substr(kind, 1, length(?2)) = ?2 AND sequence > ?3 ORDER BY sequence LIMIT ?1");
/// Along `events_by_worktree`.
pub(crate) const EVENT_LIST_SINCE_OF_WORKTREE: &str = select!(
    event,
    "events WHERE substr(kind, 1, length(?2)) = ?2 AND sequence > ?3 AND worktree_id = ?4 ORDER BY sequence LIMIT ?1"
);
/// Along `events_by_subject`.
pub(crate) const EVENT_LIST_SINCE_OF_SUBJECT: &str = select!(
    event,
    "events WHERE substr(kind, 1, length(?2)) = ?2 AND sequence > ?3 AND subject = ?4
        AND (?5 = '' OR worktree_id = ?5)
    ORDER BY sequence LIMIT ?1"
);

/// No event has a higher sequence.
const LAST_SEQUENCE: u64 = i64::MAX.unsigned_abs();

/// Returns the statement for a list of events: one for each index.
pub(crate) fn event_list(query: &EventQuery) -> Query {
    let EventQuery { since, worktree_id, kind, subject, after, limit } = query;
    let after = after.as_ref().map(|Cursor(after)| *after);
    let bound = match since {
        Some(since) => after.map_or(*since, |after| after.max(*since)),
        None => after.unwrap_or(LAST_SEQUENCE),
    };
    let mut parameters = vec![Cell::from(*limit), Cell::from(kind.as_deref().unwrap_or("")), Cell::from(bound)];
    let sql = match (since, subject, worktree_id) {
        (None, None, None) => EVENT_LIST,
        (None, Some(_), _) => EVENT_LIST_OF_SUBJECT,
        (None, None, Some(_)) => EVENT_LIST_OF_WORKTREE,
        (Some(_), None, None) => EVENT_LIST_SINCE,
        (Some(_), Some(_), _) => EVENT_LIST_SINCE_OF_SUBJECT,
        (Some(_), None, Some(_)) => EVENT_LIST_SINCE_OF_WORKTREE,
    };
    parameters.extend(subject.as_deref().map(Cell::from));
    match (subject, worktree_id) {
        (None, None) => {}
        (_, Some(id)) => parameters.push(Cell::from(id.as_str())),
        (Some(_), None) => parameters.push(Cell::from("")),
    }
    (sql, parameters)
}
