//! Lists events.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::context::OpContext;
use crate::error::{Error, Result};
use crate::model::{Event, EventQuery};
use crate::op::{Effect, Operation, StoreOperation};

/// Lists events.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ListEvents {
    /// The filter.
    pub query: EventQuery,
}

/// The answer to [`ListEvents`].
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EventList {
    /// The events: newest first, or oldest first after [`EventQuery::since`].
    pub events: Vec<Event>,
    /// The value of `since` for the next call, which continues without gap or repetition.
    pub next: u64,
    /// The sequence of the store's newest event.
    pub last: u64,
}

impl Operation for ListEvents {
    const NAME: &'static str = "list_events";
    const SUMMARY: &'static str = "List events";
    const EFFECT: Effect = Effect::Read;
    type Answer = EventList;
}

impl StoreOperation for ListEvents {
    fn run(self, cx: &mut OpContext<'_>) -> Result<EventList> {
        if let Some(id) = &self.query.worktree_id
            && cx.tx.worktree_get(id)?.is_none()
        {
            return Err(Error::not_found(format!("no worktree {id}")));
        }
        let (events, last) = (cx.tx.event_list(&self.query)?, cx.tx.event_last()?);
        let is_full = events.len() >= usize::try_from(self.query.limit).unwrap_or(usize::MAX);
        // A page that is not full reaches up to the newest event.
        let next = match (self.query.since, events.last()) {
            (Some(_), Some(newest)) if is_full => newest.sequence,
            _ => last,
        };
        Ok(EventList { events, next, last })
    }
}
