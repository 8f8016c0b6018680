//! Keeps changes of issues whose ledger the caller cannot reach.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::context::OpContext;
use crate::error::{Error, Result};
use crate::model::{DeferredChanges, kind};
use crate::op::{Access, Audience, Effect, JobAccess, Operation, StoreOperation};
use crate::work::issue_rights;

/// Keeps changes of issues whose ledger the caller cannot reach. A command that reaches it makes them.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DeferChanges {
    /// The key of the changes.
    pub key: String,
    /// The changes.
    pub changes: Value,
}

impl Operation for DeferChanges {
    const NAME: &'static str = "defer_changes";
    const SUMMARY: &'static str = "Keep changes of issues until their ledger can be reached";
    const EFFECT: Effect = Effect::Write;
    const ACCESS: Access = Access::AGENTS.with_jobs(JobAccess::All);
    const AUDIENCE: Audience = Audience::Client;
    type Answer = DeferredChanges;
}

impl StoreOperation for DeferChanges {
    fn run(self, cx: &mut OpContext<'_>) -> Result<DeferredChanges> {
        if self.key.is_empty() || self.key.len() > 200 {
            return Err(Error::invalid("deferred changes need a key of at most 200 bytes"));
        }
        issue_rights::check_changes(cx, &self.changes)?;
        let known = cx.tx.deferred_list()?;
        if let Some(known) = known.iter().find(|known| known.key == self.key) {
            if known.actor != cx.caller.actor {
                return Err(Error::conflict(format!("the key {:?} was used for changes of another author", self.key)));
            }
            // A retry after a lost answer.
            return Ok(known.clone());
        }
        let deferred = DeferredChanges {
            key: self.key,
            number: known.last().map_or(1, |last| last.number + 1),
            actor: cx.caller.actor.clone(),
            changes: self.changes,
            worktree_id: cx.caller.worktree.id.clone(),
            created_at: cx.now,
        };
        cx.tx.deferred_put(&deferred)?;
        cx.event(kind::ISSUES_DEFERRED, &deferred.key, json!({ "changes": deferred.changes }))?;
        Ok(deferred)
    }
}
