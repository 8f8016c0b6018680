//! Claims an issue in the store, so that nobody else works on it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Effect, Operation};
use crate::engine::Cx;
use crate::error::{Error, Result};
use crate::model::{Lease, kind};
use crate::work::{agents, claim, lease};

/// Claims an issue in the store, so that nobody else works on it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ClaimIssue {
    /// The issue.
    pub issue: String,
    /// How long the lease lasts after each sign of life, in milliseconds.
    #[serde(default)]
    pub ttl_ms: Option<u64>,
}

impl Operation for ClaimIssue {
    const NAME: &'static str = "claim_issue";
    const SUMMARY: &'static str = "Claim an issue";
    const EFFECT: Effect = Effect::Write;
    type Answer = Lease;

    fn run(self, cx: &mut Cx<'_>) -> Result<Lease> {
        let mut agent = agents::asking(cx)?;
        let known = cx.tx.lease_get(&self.issue)?.filter(|lease| lease.holder.is_some());
        let lease = match known {
            Some(mut held) if held.holder.as_ref() == Some(&agent.id) => {
                lease::renew(cx, &mut held)?;
                held
            }
            Some(held) => {
                let holder = lease::holder_name(cx, &held)?;
                return Err(Error::conflict(format!(
                    "issue {} is held by {holder} until {}",
                    self.issue, held.expires_at
                ))
                .hint("way ready shows what is free"));
            }
            None => {
                claim::check_cap(cx, &agent)?;
                // Somebody works on it again, so that it was abandoned is no news any more.
                cx.tx.notice_remove(&self.issue)?;
                lease::grant(cx, &self.issue, &agent, self.ttl_ms)?
            }
        };
        let data = json!({ "agent": agent.id, "epoch": lease.epoch, "expires_at": lease.expires_at });
        cx.event(kind::ISSUE_CLAIMED, &self.issue, data)?;
        agents::touch(cx, &mut agent)?;
        Ok(lease)
    }
}
