//! Says that the caller is done with messages.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Effect, Operation};
use crate::context::OpContext;
use crate::error::Result;
use crate::id::MessageId;
use crate::model::{MessageState, kind};
use crate::op::Letter;
use crate::work::{agents, inbox};

/// Says that the caller is done with messages. They are not shown again.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct AckMessage {
    /// Which ones. If one of them is not the caller's, none is marked.
    pub messages: Vec<MessageId>,
}

/// The answer to [`AckMessage`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Acked {
    /// The messages, as they are now.
    pub messages: Vec<Letter>,
    /// How many still wait.
    pub unread: u64,
}

impl Operation for AckMessage {
    const NAME: &'static str = "ack_message";
    const SUMMARY: &'static str = "Say that messages are dealt with";
    const EFFECT: Effect = Effect::Write;
    type Answer = Acked;

    fn run(self, cx: &mut OpContext<'_>) -> Result<Acked> {
        let reader = agents::caller(cx)?;
        let mut messages = Vec::new();
        for (at, id) in self.messages.iter().enumerate() {
            if !self.messages[..at].contains(id) {
                messages.push(inbox::own(cx, &reader, id)?);
            }
        }
        inbox::advance(cx, &mut messages, MessageState::Acted, kind::MESSAGE_ACTED)?;
        let messages = messages.into_iter().map(|message| Letter::of(cx, message)).collect::<Result<_>>()?;
        Ok(Acked { messages, unread: cx.tx.message_count(&reader.id, cx.now)? })
    }
}
