//! Removes old records, and keeps summaries of them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::context::OpContext;
use crate::error::Result;
use crate::op::{Audience, Effect, Operation, StoreOperation};
use crate::time::Timestamp;
use crate::work::retention::{self, Garbage};

/// Removes a part of the old records that may be removed, and keeps summaries of them. The caller repeats it until nothing
/// is left: each part is complete in itself, so that a caller may also stop.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CollectGarbage {
    /// Remove records that ended this many milliseconds ago.
    pub older_than_ms: u64,
}

/// The answer to [`CollectGarbage`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Collected {
    /// The moment before which the records ended, by the store's clock.
    pub before: Timestamp,
    /// The removed records.
    pub removed: Garbage,
    /// Whether another call may remove more.
    pub has_more: bool,
}

impl Operation for CollectGarbage {
    const NAME: &'static str = "collect_garbage";
    const SUMMARY: &'static str = "Remove old records";
    const EFFECT: Effect = Effect::Write;
    const AUDIENCE: Audience = Audience::Internal;
    type Answer = Collected;
}

impl StoreOperation for CollectGarbage {
    const USES_RESERVE: bool = true;

    fn run(self, cx: &mut OpContext<'_>) -> Result<Collected> {
        let before = cx.now.minus(self.older_than_ms);
        let (removed, has_more) = retention::collect(cx, before)?;
        Ok(Collected { before, removed, has_more })
    }
}
