//! Reads a message of the caller's inbox and marks it as read.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::context::OpContext;
use crate::error::{Error, Result};
use crate::id::MessageId;
use crate::model::{MessageState, kind};
use crate::op::MessageView;
use crate::op::{Access, Effect, JobAccess, Operation, StoreOperation};
use crate::work::{agents, inbox};

/// Reads a message of the caller's inbox and marks it as read.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ReadMessage {
    /// The message.
    pub message: MessageId,
}

impl Operation for ReadMessage {
    const NAME: &'static str = "read_message";
    const SUMMARY: &'static str = "Read a message";
    const EFFECT: Effect = Effect::Write;
    const ACCESS: Access = Access::AGENTS.with_jobs(JobAccess::All);
    type Answer = MessageView;
}

impl StoreOperation for ReadMessage {
    fn run(self, cx: &mut OpContext<'_>) -> Result<MessageView> {
        let reader = agents::caller(cx)?;
        let message = inbox::own(cx, &reader, &self.message)?;
        if let Some(expires_at) = message.expires_at.filter(|moment| *moment <= cx.now)
            && message.state < MessageState::Read
        {
            return Err(Error::not_found(format!("message {} expired at {expires_at}", message.id))
                .hint("ask its sender again"));
        }
        let mut messages = [message];
        inbox::advance(cx, &mut messages, MessageState::Read, kind::MESSAGE_READ)?;
        let [message] = messages;
        MessageView::of(cx, message)
    }
}
