//! Reads the history.

use serde::{Deserialize, Serialize};

use super::{Effect, Operation};
use crate::engine::Cx;
use crate::error::{Error, Result};
use crate::model::{Event, EventQuery};

/// Reads the newest part of the history.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ListEvents {
    /// Which events.
    pub query: EventQuery,
}

/// The answer to [`ListEvents`].
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventList {
    /// The events, newest first.
    pub events: Vec<Event>,
    /// The sequence of the store's newest event, which is also how many there are.
    pub last: u64,
}

impl Operation for ListEvents {
    const NAME: &'static str = "list_events";
    const SUMMARY: &'static str = "Read the newest part of the history";
    const EFFECT: Effect = Effect::Read;
    type Answer = EventList;

    fn run(self, cx: &mut Cx<'_>) -> Result<EventList> {
        if let Some(id) = &self.query.worktree_id
            && cx.tx.worktree_get(id)?.is_none()
        {
            return Err(Error::not_found(format!("no worktree {id}")));
        }
        Ok(EventList { events: cx.tx.event_list(&self.query)?, last: cx.tx.event_last()? })
    }
}
