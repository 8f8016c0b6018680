//! Lets the store go on after a failover.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Audience, Effect, Operation};
use crate::context::OpContext;
use crate::error::{Error, Result};
use crate::model::kind;
use crate::work::expire_due;

/// How far epochs are raised: further than they could have risen in the writes that may be lost.
const EPOCH_STEP: u64 = 1_000_000;

/// The name of a server whose identifier cannot be read.
const UNKNOWN: &str = "unknown";

/// Lets the store go on, on a server that may lack acknowledged writes.
///
/// All leases end, and no epoch is issued again that the former server may have issued.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct AcceptFailover {}

/// The answer to [`AcceptFailover`].
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FailoverAccepted {
    /// The server as the store knew it: system identifier and timeline.
    pub before: String,
    /// The server as it is now.
    pub after: String,
    /// How many leases were ended.
    pub leases: u64,
    /// Every lease granted from here on has a higher epoch.
    pub epoch_floor: u64,
}

impl Operation for AcceptFailover {
    const NAME: &'static str = "accept_failover";
    const SUMMARY: &'static str = "Let the store go on after a failover";
    const EFFECT: Effect = Effect::Write;
    const AUDIENCE: Audience = Audience::Internal;
    type Answer = FailoverAccepted;

    fn run(self, cx: &mut OpContext<'_>) -> Result<FailoverAccepted> {
        let Some((before, after)) = cx.tx.server_accept()? else {
            return Err(Error::refused("the store is a file: there is no server that could fail over"));
        };
        if before == after && before != UNKNOWN {
            return Err(Error::conflict(format!("the store is on the server it knows, {after}: nothing to accept")));
        }
        let held = cx.tx.lease_list(None)?;
        let leases = held.len() as u64;
        for lease in held {
            expire_due::expire(cx, lease, "the store went on after a failover")?;
        }
        let epoch_floor = cx.tx.lease_max_epoch()?.max(cx.tx.epoch_floor()?) + EPOCH_STEP;
        cx.tx.epoch_floor_put(epoch_floor)?;
        let data = json!({ "before": before, "after": after, "leases": leases, "epoch_floor": epoch_floor });
        cx.event(kind::STORE_FAILOVER_ACCEPTED, "store", data)?;
        Ok(FailoverAccepted { before, after, leases, epoch_floor })
    }
}
