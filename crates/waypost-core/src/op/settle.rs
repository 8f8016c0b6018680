//! Lets happen what time has brought about.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Effect, Operation};
use crate::engine::Cx;
use crate::error::Result;

/// Lets happen what time has brought about.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Settle {}

/// The answer to [`Settle`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Settled {
    /// The sequence of the newest event.
    pub last: u64,
}

impl Operation for Settle {
    const NAME: &'static str = "settle";
    const SUMMARY: &'static str = "Let happen what time has brought about";
    const EFFECT: Effect = Effect::Write;
    type Answer = Settled;

    fn run(self, cx: &mut Cx<'_>) -> Result<Settled> {
        // The engine has done it already, as before every write.
        Ok(Settled { last: cx.tx.event_last()? })
    }
}
