//! Sets the store's time back to the current time.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::clock;
use crate::context::OpContext;
use crate::error::{Error, Result};
use crate::model::kind;
use crate::op::{Audience, Effect, Operation, StoreOperation};
use crate::time::Timestamp;

/// Sets the store's time back to the wall clock, after a wrong clock has put it ahead.
///
/// Deadlines move along, so that leases keep their remaining time. Events keep their times: the event of a repair is the
/// only one that may be earlier than the event before it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RepairClock {}

/// The answer to [`RepairClock`].
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClockRepaired {
    /// The store's time before the repair.
    pub before: Timestamp,
    /// The store's time after the repair.
    pub after: Timestamp,
}

impl Operation for RepairClock {
    const NAME: &'static str = "repair_clock";
    const SUMMARY: &'static str = "Set the store's time back to the current time";
    const EFFECT: Effect = Effect::Write;
    const AUDIENCE: Audience = Audience::Internal;
    type Answer = ClockRepaired;
}

impl StoreOperation for RepairClock {
    fn run(self, cx: &mut OpContext<'_>) -> Result<ClockRepaired> {
        let reading = cx.tx.clock()?;
        let (before, after) = (cx.now, reading.wall());
        let by_ms = after.as_millis().saturating_sub(before.as_millis());
        if by_ms > -clock::MAX_AHEAD_MS {
            return Err(Error::conflict("the store's time is not ahead of the clock"));
        }
        cx.tx.deadlines_shift(by_ms, after)?;
        cx.tx.anchor_put(&clock::anchored(&reading))?;
        cx.now = after;
        cx.event(kind::STORE_CLOCK_REPAIRED, "store", json!({ "before": before, "after": after }))?;
        Ok(ClockRepaired { before, after })
    }
}
