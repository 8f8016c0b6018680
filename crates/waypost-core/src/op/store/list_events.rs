//! Lists events.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::context::{Authority, OpContext};
use crate::error::{Error, Result};
use crate::model::{Event, EventQuery};
use crate::op::{Effect, Operation, StoreOperation};
use crate::page::{self, Cursor};

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
    /// The position of the next page: `after` of the next call. Null on the last page.
    #[serde(default)]
    pub next: Option<Cursor<u64>>,
    /// The value of `since` for a later call, which continues with newer events without gap or repetition.
    pub position: u64,
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
        let (since, limit) = (self.query.since, self.query.limit);
        let query = EventQuery { limit: page::fetched(limit)?, ..self.query };
        let (mut events, last) = (cx.tx.event_list(&query)?, cx.tx.event_last()?);
        let next = page::cut(&mut events, limit, |event| event.sequence);
        if cx.caller.authority == Authority::Agent {
            events.iter_mut().for_each(Event::hide_text);
        }
        // The last page reaches up to the newest event.
        let position = match (since, &next) {
            (Some(_), Some(Cursor(newest))) => *newest,
            _ => last,
        };
        Ok(EventList { events, next, position, last })
    }
}
