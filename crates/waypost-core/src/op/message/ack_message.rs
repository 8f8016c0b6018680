//! Acknowledges messages.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::context::OpContext;
use crate::error::Result;
use crate::id::MessageId;
use crate::model::{MessageState, kind};
use crate::op::MessageView;
use crate::op::{Access, Effect, JobAccess, Operation, StoreOperation};
use crate::seeded::seeded_bug;
use crate::work::{agents, inbox};

/// Acknowledges messages. The inbox no longer shows them.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct AckMessage {
    /// The messages. If one of them is not addressed to the caller, none is acknowledged.
    pub messages: Vec<MessageId>,
}

/// The answer to [`AckMessage`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Acked {
    /// The messages after the change.
    pub messages: Vec<MessageView>,
    /// The number of messages that still wait.
    pub unread: u64,
}

impl Operation for AckMessage {
    const NAME: &'static str = "ack_message";
    const SUMMARY: &'static str = "Acknowledge messages";
    const EFFECT: Effect = Effect::Write;
    const ACCESS: Access = Access::AGENTS.with_jobs(JobAccess::All);
    type Answer = Acked;
}

impl StoreOperation for AckMessage {
    fn run(self, cx: &mut OpContext<'_>) -> Result<Acked> {
        let reader = agents::caller(cx)?;
        let mut messages = Vec::new();
        for (at, id) in self.messages.iter().enumerate() {
            if !self.messages[..at].contains(id) {
                messages.push(inbox::own(cx, &reader, id)?);
            }
        }
        if !seeded_bug("forget_ack") {
            inbox::advance(cx, &mut messages, MessageState::Acted, kind::MESSAGE_ACTED)?;
        }
        let messages = messages.into_iter().map(|message| MessageView::of(cx, message)).collect::<Result<_>>()?;
        Ok(Acked { messages, unread: cx.tx.message_count(&reader.id, cx.now)? })
    }
}
