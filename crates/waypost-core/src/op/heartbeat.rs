//! Says that the caller is alive, and renews its leases.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Effect, Operation};
use crate::context::OpContext;
use crate::error::Result;
use crate::model::{Lease, TaskStatus, kind};
use crate::work::{agents, find, lease};

/// Says that the caller is alive, and renews its leases.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Heartbeat {
    /// Only this task's lease.
    #[serde(default)]
    pub task: Option<String>,
    /// The workflow it is in, if its name alone does not say.
    #[serde(default)]
    pub workflow: Option<String>,
    /// The epoch of the caller's lease.
    #[serde(default)]
    pub epoch: Option<u64>,
}

/// The answer to [`Heartbeat`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Alive {
    /// The caller's leases, as they are now.
    pub leases: Vec<Lease>,
    /// Whether the task was called off: stop working on it.
    pub is_cancelled: bool,
    /// How many messages wait.
    pub unread: u64,
    /// When to be heard of next, in milliseconds.
    pub next_ms: u64,
}

impl Operation for Heartbeat {
    const NAME: &'static str = "heartbeat";
    const SUMMARY: &'static str = "Say that the caller is alive";
    const EFFECT: Effect = Effect::Write;
    type Answer = Alive;

    fn run(self, cx: &mut OpContext<'_>) -> Result<Alive> {
        let mut agent = agents::find_or_register_caller(cx)?;
        let mut is_cancelled = false;
        let mut leases = match &self.task {
            None => cx.tx.lease_list(Some(&agent.id))?,
            Some(reference) => {
                let task = find::task(cx, reference, self.workflow.as_deref())?;
                match lease::require(cx, &task, &agent, self.epoch) {
                    Ok(held) => vec![held],
                    // Whoever held it last is told why it is gone.
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
        for held in &mut leases {
            lease::renew(cx, held)?;
        }
        agents::touch(cx, &mut agent)?;
        let renewed: Vec<_> =
            leases.iter().map(|lease| json!([lease.subject, lease.epoch, lease.expires_at])).collect();
        cx.event(kind::AGENT_HEARTBEAT, agent.id.as_str(), json!({ "renewed": renewed }))?;
        // Three signs of life fit into the shortest lease.
        let next_ms = leases.iter().map(|lease| lease.ttl_ms).fold(agent.timeout_ms, u64::min) / 3;
        Ok(Alive { leases, is_cancelled, unread: cx.tx.message_count(&agent.id, cx.now)?, next_ms })
    }
}
