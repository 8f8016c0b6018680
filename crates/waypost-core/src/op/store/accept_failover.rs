//! Accepts a failover, so that the store can be used again.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::context::OpContext;
use crate::error::{Error, Result};
use crate::model::kind;
use crate::op::{Audience, Effect, Operation, StoreOperation};
use crate::work::expire_due;

/// The amount by which epochs are raised: more than the writes that may be lost can have raised them.
const EPOCH_STEP: u64 = 1_000_000;

/// The name of a server whose identifier cannot be read.
const UNKNOWN: &str = "unknown";

/// Accepts a server that may lack acknowledged writes, so that the store can be used again.
///
/// All leases end. The store never issues an epoch again that the former server may have issued.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct AcceptFailover {}

/// The answer to [`AcceptFailover`].
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FailoverAccepted {
    /// The server that the store knew before: system identifier and timeline.
    pub before: String,
    /// The current server.
    pub after: String,
    /// The number of leases that were ended.
    pub leases: u64,
    /// The epoch floor: every later lease has a higher epoch.
    pub epoch_floor: u64,
}

impl Operation for AcceptFailover {
    const NAME: &'static str = "accept_failover";
    const SUMMARY: &'static str = "Accept a failover of the store's server";
    const EFFECT: Effect = Effect::Write;
    const AUDIENCE: Audience = Audience::Internal;
    type Answer = FailoverAccepted;
}

impl StoreOperation for AcceptFailover {
    fn run(self, cx: &mut OpContext<'_>) -> Result<FailoverAccepted> {
        let Some((before, after)) = cx.tx.server_accept()? else {
            return Err(Error::refused("the store is a file and has no server that could fail over"));
        };
        if before == after && before != UNKNOWN {
            return Err(Error::conflict(format!("nothing to accept: the store is still on its known server, {after}")));
        }
        let held = cx.tx.lease_list(None)?;
        let leases = held.len() as u64;
        for lease in held {
            expire_due::expire(cx, lease, "a failover was accepted")?;
        }
        let epoch_floor = cx.tx.lease_max_epoch()?.max(cx.tx.epoch_floor()?) + EPOCH_STEP;
        cx.tx.epoch_floor_put(epoch_floor)?;
        let data = json!({ "before": before, "after": after, "leases": leases, "epoch_floor": epoch_floor });
        cx.event(kind::STORE_FAILOVER_ACCEPTED, "store", data)?;
        Ok(FailoverAccepted { before, after, leases, epoch_floor })
    }
}
