//! Records that deferred changes reached their ledger.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::confirm_notice::Confirmed;
use crate::context::{Authority, OpContext};
use crate::error::{Error, Result};
use crate::model::kind;
use crate::op::{Access, Audience, Effect, JobAccess, Operation, StoreOperation};

/// Records that deferred changes reached their ledger, or that it refused them.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ConfirmChanges {
    /// The key of the changes.
    pub key: String,
    /// The effect on the ledger.
    pub result: String,
}

impl Operation for ConfirmChanges {
    const NAME: &'static str = "confirm_changes";
    const SUMMARY: &'static str = "Record that deferred changes reached their ledger";
    const EFFECT: Effect = Effect::Write;
    const ACCESS: Access = Access::AGENTS.with_jobs(JobAccess::All);
    const AUDIENCE: Audience = Audience::Client;
    type Answer = Confirmed;
}

impl StoreOperation for ConfirmChanges {
    fn run(self, cx: &mut OpContext<'_>) -> Result<Confirmed> {
        let Some(known) = cx.tx.deferred_list()?.into_iter().find(|known| known.key == self.key) else {
            return Ok(Confirmed { was_open: false });
        };
        // An agent delivers its own changes. Those of others reach the ledger through a process of the owner.
        if cx.caller.authority == Authority::Agent && known.actor != cx.caller.actor {
            return Err(Error::refused(format!(
                "these changes are {}'s, and {} cannot confirm them",
                known.actor, cx.caller.actor
            )));
        }
        cx.tx.deferred_remove(&self.key)?;
        let data = json!({ "changes": known.changes, "actor": known.actor, "result": self.result });
        cx.event(kind::ISSUES_DELIVERED, &self.key, data)?;
        Ok(Confirmed { was_open: true })
    }
}
