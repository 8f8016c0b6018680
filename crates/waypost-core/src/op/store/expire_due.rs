//! Expires leases and applies other due transitions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::context::OpContext;
use crate::error::Result;
use crate::op::{Audience, Effect, Operation, StoreOperation};

/// Expires leases and applies other due transitions.
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
    const SUMMARY: &'static str = "Expire leases and apply other due transitions";
    const EFFECT: Effect = Effect::Write;
    const AUDIENCE: Audience = Audience::Internal;
    type Answer = ExpiredDue;
}

impl StoreOperation for ExpireDue {
    fn run(self, cx: &mut OpContext<'_>) -> Result<ExpiredDue> {
        // The engine expires due leases before every write, so this operation has nothing left to do.
        Ok(ExpiredDue { last: cx.tx.event_last()? })
    }
}
