//! Shows what waits in the inbox of the caller.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Effect, Operation};
use crate::context::OpContext;
use crate::error::Result;
use crate::model::{Message, MessageState, kind};
use crate::work::lease::Names;
use crate::work::{agents, inbox, lease};

/// Shows what waits in the inbox of the caller.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ListInbox {
    /// At most this many.
    pub limit: u32,
    /// Only look: what is shown does not count as presented.
    #[serde(default)]
    pub peek: bool,
}

/// The answer to [`ListInbox`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Inbox {
    /// The messages, in order.
    pub messages: Vec<Letter>,
    /// How many wait in all.
    pub unread: u64,
}

impl Operation for ListInbox {
    const NAME: &'static str = "list_inbox";
    const SUMMARY: &'static str = "Show the inbox";
    const EFFECT: Effect = Effect::Write;
    type Answer = Inbox;

    fn run(self, cx: &mut OpContext<'_>) -> Result<Inbox> {
        let reader = agents::caller(cx)?;
        let mut messages = cx.tx.message_list(&reader.id, cx.now, self.limit)?;
        if !self.peek {
            inbox::advance(cx, &mut messages, MessageState::Presented, kind::MESSAGE_PRESENTED)?;
        }
        let unread = cx.tx.message_count(&reader.id, cx.now)?;
        let messages = messages.into_iter().map(|message| Letter::of(cx, message)).collect::<Result<_>>()?;
        Ok(Inbox { messages, unread })
    }
}

/// A message, with names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Letter {
    /// The message.
    #[serde(flatten)]
    pub message: Message,
    /// What its sender is called.
    pub from: String,
    /// What its recipient is called.
    pub to: String,
}

impl Letter {
    pub(crate) fn of(cx: &mut OpContext<'_>, message: Message) -> Result<Letter> {
        let from = lease::name(cx, &message.sender)?;
        let to = lease::name(cx, &message.recipient)?;
        Ok(Letter { message, from, to })
    }

    /// Shows a message, where the names of all agents are known.
    pub(crate) fn named(message: Message, names: &Names) -> Letter {
        let (from, to) = (names.get(&message.sender), names.get(&message.recipient));
        Letter { message, from, to }
    }
}
