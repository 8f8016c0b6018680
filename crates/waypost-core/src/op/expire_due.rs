//! Lets happen what time has brought about.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Audience, Effect, Operation};
use crate::context::OpContext;
use crate::error::Result;

/// Lets happen what time has brought about.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ExpireDue {}

/// The answer to [`ExpireDue`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExpiredDue {
    /// The sequence of the newest event.
    pub last: u64,
}

impl Operation for ExpireDue {
    const NAME: &'static str = "expire_due";
    const SUMMARY: &'static str = "Let happen what time has brought about";
    const EFFECT: Effect = Effect::Write;
    const AUDIENCE: Audience = Audience::Internal;
    type Answer = ExpiredDue;

    fn run(self, cx: &mut OpContext<'_>) -> Result<ExpiredDue> {
        // The engine has done it already, as before every write.
        Ok(ExpiredDue { last: cx.tx.event_last()? })
    }
}
