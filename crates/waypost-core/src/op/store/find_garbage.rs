//! Counts the old records that may be removed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::context::OpContext;
use crate::error::Result;
use crate::op::{Audience, Effect, Operation, StoreOperation};
use crate::time::Timestamp;
use crate::work::retention::{self, Garbage};

/// Counts the old records that may be removed.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct FindGarbage {
    /// Count records that ended this many milliseconds ago.
    pub older_than_ms: u64,
}

/// The answer to [`FindGarbage`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FoundGarbage {
    /// The moment before which the records ended, by the store's clock.
    pub before: Timestamp,
    /// The records that may be removed.
    pub removable: Garbage,
}

impl Operation for FindGarbage {
    const NAME: &'static str = "find_garbage";
    const SUMMARY: &'static str = "Count old records that may be removed";
    const EFFECT: Effect = Effect::Read;
    const AUDIENCE: Audience = Audience::Internal;
    type Answer = FoundGarbage;
}

impl StoreOperation for FindGarbage {
    fn run(self, cx: &mut OpContext<'_>) -> Result<FoundGarbage> {
        let before = cx.now.minus(self.older_than_ms);
        Ok(FoundGarbage { before, removable: retention::count(cx, before)? })
    }
}
