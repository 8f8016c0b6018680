//! Records that the caller is alive and renews its leases.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::context::OpContext;
use crate::error::Result;
use crate::model::{Lease, TaskStatus, kind};
use crate::op::{Access, Effect, JobAccess, Operation, StoreOperation};
use crate::work::{agents, find, lease};

/// Records that the caller is alive and renews its leases.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Heartbeat {
    /// Renew only the lease of this task.
    #[serde(default)]
    pub task: Option<String>,
    /// The workflow of the task, if the task's name alone is ambiguous.
    #[serde(default)]
    pub workflow: Option<String>,
    /// The epoch of the caller's lease.
    #[serde(default)]
    pub epoch: Option<u64>,
}

/// The answer to [`Heartbeat`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Alive {
    /// The renewed leases of the caller. A lease on the task of a running job is renewed by the job alone.
    pub leases: Vec<Lease>,
    /// Whether the task was cancelled. If so, stop working on it.
    pub is_cancelled: bool,
    /// The number of waiting messages.
    pub unread: u64,
    /// The time until the next heartbeat is due, in milliseconds.
    pub next_ms: u64,
}

impl Operation for Heartbeat {
    const NAME: &'static str = "heartbeat";
    const SUMMARY: &'static str = "Send a heartbeat and renew leases";
    const EFFECT: Effect = Effect::Write;
    const ACCESS: Access = Access::AGENTS.with_jobs(JobAccess::OwnTask);
    type Answer = Alive;
}

impl StoreOperation for Heartbeat {
    fn run(self, cx: &mut OpContext<'_>) -> Result<Alive> {
        let mut agent = agents::find_or_register_caller(cx)?;
        let held = cx.tx.lease_list(Some(&agent.id))?;
        let mut is_cancelled = false;
        let leases = match &self.task {
            None => lease::renew_own(cx, &held, true)?,
            Some(reference) => {
                let task = find::task(cx, reference, self.workflow.as_deref())?;
                match lease::require_among(cx, &held, &task, &agent, self.epoch) {
                    Ok(mut required) => {
                        lease::renew(cx, &mut required)?;
                        vec![required]
                    }
                    // The last holder of a cancelled task learns that the task was cancelled.
                    Err(error) => {
                        let last = cx.tx.lease_get(task.id.as_str())?.map(|lease| lease.epoch);
                        if task.status != TaskStatus::Cancelled || self.epoch.is_none() || last != self.epoch {
                            return Err(error);
                        }
                        is_cancelled = true;
                        Vec::new()
                    }
                }
            }
        };
        if self.task.is_some() {
            lease::renew_own(cx, &held, false)?;
        }
        agents::record_heartbeat(cx, &mut agent, &held)?;
        let renewed: Vec<_> =
            leases.iter().map(|lease| json!([lease.subject, lease.epoch, lease.expires_at.unless_never()])).collect();
        cx.event(kind::AGENT_HEARTBEAT, agent.id.as_str(), json!({ "renewed": renewed }))?;
        // Three heartbeats fit into the shortest lease.
        let limited = leases.iter().filter(|lease| !lease.is_unlimited());
        let next_ms = limited.map(|lease| lease.ttl_ms).fold(agent.timeout_ms, u64::min) / 3;
        Ok(Alive { leases, is_cancelled, unread: cx.tx.message_count(&agent.id, cx.now)?, next_ms })
    }
}
