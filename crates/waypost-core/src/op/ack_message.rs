//! Says that the caller is done with a message. It is not shown again.

use serde::{Deserialize, Serialize};

use super::{Effect, Operation};
use crate::engine::Cx;
use crate::error::Result;
use crate::id::MessageId;
use crate::model::{MessageState, kind};
use crate::op::Letter;
use crate::work::{agents, inbox};

/// Says that the caller is done with a message. It is not shown again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AckMessage {
    /// Which one.
    pub message: MessageId,
}

impl Operation for AckMessage {
    const NAME: &'static str = "ack_message";
    const SUMMARY: &'static str = "Say that a message is dealt with";
    const EFFECT: Effect = Effect::Write;
    type Answer = Letter;

    fn run(self, cx: &mut Cx<'_>) -> Result<Letter> {
        let reader = agents::caller(cx)?;
        let mut messages = [inbox::own(cx, &reader, &self.message)?];
        inbox::advance(cx, &mut messages, MessageState::Acted, kind::MESSAGE_ACTED)?;
        let [message] = messages;
        Letter::of(cx, message)
    }
}
