//! Ends the lease on an issue, because the issue was released or closed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::context::OpContext;
use crate::error::{Error, Result};
use crate::model::kind;
use crate::op::{Access, Audience, Effect, IssueEffect, IssuesOf, JobAccess, Operation, StoreOperation};
use crate::work::{agents, issue_rights, lease};

/// Ends the lease on an issue, because the issue was released or closed.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct EndIssueLease {
    /// The issue.
    pub issue: String,
    /// End the lease even if another agent holds it.
    #[serde(default)]
    pub force: bool,
    /// The reason.
    #[serde(default)]
    pub reason: Option<String>,
}

/// The answer to [`EndIssueLease`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EndedIssueLease {
    /// Whether an agent held the lease.
    pub was_held: bool,
}

impl Operation for EndIssueLease {
    const NAME: &'static str = "end_issue_lease";
    const SUMMARY: &'static str = "End the lease on an issue";
    const EFFECT: Effect = Effect::Write;
    const ACCESS: Access = Access::AGENTS_WITHOUT_FORCE.with_jobs(JobAccess::WithoutForce);
    const AUDIENCE: Audience = Audience::Client;
    type Answer = EndedIssueLease;
}

impl StoreOperation for EndIssueLease {
    const ISSUES: Option<IssuesOf<EndedIssueLease>> = Some(|_| Some(IssueEffect::Released));
    const USES_RESERVE: bool = true;

    fn run(self, cx: &mut OpContext<'_>) -> Result<EndedIssueLease> {
        issue_rights::check_id(&self.issue)?;
        let mut agent = agents::find_or_register_caller(cx)?;
        let Some(held) = cx.tx.lease_get(&self.issue)?.filter(|lease| lease.holder.is_some()) else {
            agents::touch(cx, &mut agent)?;
            return Ok(EndedIssueLease { was_held: false });
        };
        let holder = held.holder.clone();
        if holder.as_ref() != Some(&agent.id) && !self.force {
            let name = lease::holder_name(cx, &held)?;
            return Err(Error::conflict(format!("issue {} is held by {name} until {}", self.issue, held.end()))
                .hint("--force ends the lease"));
        }
        let epoch = held.epoch;
        lease::end(cx, held)?;
        let data = json!({ "agent": holder, "epoch": epoch, "reason": self.reason });
        cx.event(kind::ISSUE_RELEASED, &self.issue, data)?;
        agents::touch(cx, &mut agent)?;
        Ok(EndedIssueLease { was_held: true })
    }
}
