//! Lists the messages waiting in the inbox of the caller.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::context::OpContext;
use crate::error::Result;
use crate::model::{Message, MessageState, kind};
use crate::op::{Access, Effect, JobAccess, Operation, StoreOperation};
use crate::page::{self, Cursor};
use crate::tree;
use crate::work::lease::Names;
use crate::work::{agents, inbox, lease};

/// Lists the messages waiting in the inbox of the caller.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ListInbox {
    /// The position after which the page begins: `next` of the page before.
    #[serde(default)]
    pub after: Option<Cursor<u64>>,
    /// The maximum number of results.
    #[serde(default = "page::default_limit")]
    #[schemars(range(min = 1))]
    pub limit: u32,
    /// Do not mark the messages as presented.
    #[serde(default)]
    pub peek: bool,
}

/// The answer to [`ListInbox`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Inbox {
    /// The messages, in order.
    pub messages: Vec<MessageView>,
    /// The total number of waiting messages.
    pub unread: u64,
    /// The position of the next page: `after` of the next call. Null on the last page.
    #[serde(default)]
    pub next: Option<Cursor<u64>>,
}

impl Operation for ListInbox {
    const NAME: &'static str = "list_inbox";
    const SUMMARY: &'static str = "List the messages in the inbox";
    const EFFECT: Effect = Effect::Write;
    const ACCESS: Access = Access::AGENTS.with_jobs(JobAccess::All);
    type Answer = Inbox;
}

impl StoreOperation for ListInbox {
    fn run(self, cx: &mut OpContext<'_>) -> Result<Inbox> {
        let reader = agents::caller(cx)?;
        let after = self.after.map_or(0, |Cursor(number)| number);
        let mut messages = cx.tx.message_list(&reader.id, cx.now, after, page::fetched(self.limit)?)?;
        let next = page::cut(&mut messages, self.limit, |message| message.number);
        if !self.peek {
            inbox::advance(cx, &mut messages, MessageState::Presented, kind::MESSAGE_PRESENTED)?;
        }
        let unread = cx.tx.message_count(&reader.id, cx.now)?;
        let messages = messages.into_iter().map(|message| MessageView::of(cx, message)).collect::<Result<_>>()?;
        Ok(Inbox { messages, unread, next })
    }
}

/// A message, with the names of sender and recipient.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MessageView {
    /// The message.
    #[serde(flatten, deserialize_with = "tree::flattened")]
    pub message: Message,
    /// The name of the sender.
    pub from: String,
    /// The name of the recipient.
    pub to: String,
}

impl MessageView {
    pub(crate) fn of(cx: &mut OpContext<'_>, message: Message) -> Result<MessageView> {
        let from = lease::name(cx, &message.sender)?;
        let to = lease::name(cx, &message.recipient)?;
        Ok(MessageView { message, from, to })
    }

    /// Builds the view of a message from the names of all agents.
    pub(crate) fn named(message: Message, names: &Names) -> MessageView {
        let (from, to) = (names.get(&message.sender), names.get(&message.recipient));
        MessageView { message, from, to }
    }
}
