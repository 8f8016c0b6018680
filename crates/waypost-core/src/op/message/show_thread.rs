//! Shows a thread of messages that the caller takes part in.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::context::{Authority, OpContext};
use crate::error::{Error, Result};
use crate::id::MessageId;
use crate::model::{Message, Role};
use crate::op::MessageView;
use crate::op::{Access, Effect, JobAccess, Operation, StoreOperation};
use crate::page::{self, Cursor};
use crate::work::agents;

/// Shows a thread of messages that the caller takes part in.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ShowThread {
    /// Any message of the thread.
    pub message: MessageId,
    /// The position after which the page begins: `next` of the page before.
    #[serde(default)]
    pub after: Option<Cursor<u64>>,
    /// The maximum number of results.
    #[serde(default = "page::default_limit")]
    #[schemars(range(min = 1))]
    pub limit: u32,
}

/// The answer to [`ShowThread`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Thread {
    /// The messages, in order.
    pub messages: Vec<MessageView>,
    /// The position of the next page: `after` of the next call. Null on the last page.
    #[serde(default)]
    pub next: Option<Cursor<u64>>,
}

impl Operation for ShowThread {
    const NAME: &'static str = "show_thread";
    const SUMMARY: &'static str = "Show a thread of messages";
    const EFFECT: Effect = Effect::Read;
    const ACCESS: Access = Access::AGENTS.with_jobs(JobAccess::All);
    type Answer = Thread;
}

impl StoreOperation for ShowThread {
    fn run(self, cx: &mut OpContext<'_>) -> Result<Thread> {
        page::fetched(self.limit)?;
        let Some(message) = cx.tx.message_get(&self.message)? else {
            return Err(Error::not_found(format!("no message {}", self.message)));
        };
        let reader = agents::known_caller(cx)?;
        let messages = cx.tx.message_list_thread(&message.thread)?;
        let is_own = |message: &Message| {
            reader.as_ref().is_some_and(|reader| message.sender == reader.id || message.recipient == reader.id)
        };
        let is_person = reader.as_ref().is_none_or(|reader| reader.role == Role::Human)
            && cx.caller.agent.is_none()
            && cx.caller.authority == Authority::User;
        let mut messages: Vec<_> = messages.into_iter().filter(|message| is_person || is_own(message)).collect();
        if messages.is_empty() {
            return Err(Error::refused(format!("message {} is between other agents", self.message)));
        }
        page::skip(&mut messages, self.after.as_ref(), |message| message.number);
        let next = page::cut(&mut messages, self.limit, |message| message.number);
        let messages = messages.into_iter().map(|message| MessageView::of(cx, message)).collect::<Result<_>>()?;
        Ok(Thread { messages, next })
    }
}
