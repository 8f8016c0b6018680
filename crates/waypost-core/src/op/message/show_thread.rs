//! Shows a thread of messages that the caller takes part in.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::context::OpContext;
use crate::error::{Error, Result};
use crate::id::MessageId;
use crate::model::{Message, Role};
use crate::op::MessageView;
use crate::op::{Access, Effect, JobAccess, Operation, StoreOperation};
use crate::work::agents;

/// Shows a thread of messages that the caller takes part in.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ShowThread {
    /// Any message of the thread.
    pub message: MessageId,
}

/// The answer to [`ShowThread`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Thread {
    /// The messages, in order.
    pub messages: Vec<MessageView>,
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
        let Some(message) = cx.tx.message_get(&self.message)? else {
            return Err(Error::not_found(format!("no message {}", self.message)));
        };
        let reader = agents::known_caller(cx)?;
        let messages = cx.tx.message_list_thread(&message.thread)?;
        let is_own = |message: &Message| {
            reader.as_ref().is_some_and(|reader| message.sender == reader.id || message.recipient == reader.id)
        };
        let is_person = reader.as_ref().is_none_or(|reader| reader.role == Role::Human) && cx.caller.agent.is_none();
        let messages: Vec<_> = messages.into_iter().filter(|message| is_person || is_own(message)).collect();
        if messages.is_empty() {
            return Err(Error::refused(format!("message {} is between other agents", self.message)));
        }
        let messages = messages.into_iter().map(|message| MessageView::of(cx, message)).collect::<Result<_>>()?;
        Ok(Thread { messages })
    }
}
