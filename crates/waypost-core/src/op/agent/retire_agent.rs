//! Retires an agent for good and releases everything it holds.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::context::OpContext;
use crate::error::Result;
use crate::model::{Agent, AgentStatus, TaskStatus, kind};
use crate::op::{Access, Effect, IssueEffect, IssuesOf, Operation, StoreOperation};
use crate::work::{agents, changes, described, expire_due, find, jobs, lease};

/// Retires an agent for good and releases everything it holds.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RetireAgent {
    /// The agent: its id or name [default: the caller].
    #[serde(default)]
    pub agent: Option<String>,
}

impl Operation for RetireAgent {
    const NAME: &'static str = "retire_agent";
    const SUMMARY: &'static str = "Retire an agent";
    const EFFECT: Effect = Effect::Write;
    const ACCESS: Access = Access::own_name("agent", &[]);
    type Answer = Agent;
}

impl StoreOperation for RetireAgent {
    const CANCELS_JOBS: bool = true;
    const ISSUES: Option<IssuesOf<Agent>> = Some(|_| Some(IssueEffect::Released));

    fn run(self, cx: &mut OpContext<'_>) -> Result<Agent> {
        let caller = agents::caller(cx)?;
        let mut agent = match &self.agent {
            Some(reference) => find::agent(cx, reference)?,
            None => caller.clone(),
        };
        if agent.id != caller.id {
            agents::require_coordinator(&caller, "retiring other agents")?;
        }
        if agent.retired_at.is_some() {
            return Ok(agent);
        }
        for held in cx.tx.lease_list(Some(&agent.id))? {
            let task = held.subject.parse().ok().map(|id| cx.tx.task_get(&id)).transpose()?.flatten();
            match task {
                Some(task) if task.status == TaskStatus::InProgress => {
                    jobs::withdraw(cx, &task, TaskStatus::Pending, kind::TASK_RELEASED, "its agent retired")?;
                }
                Some(_) => lease::end(cx, held)?,
                None => expire_due::abandon_issue(cx, held, "its agent retired")?,
            }
        }
        let before = agent.clone();
        agent.status = AgentStatus::Offline;
        agent.silent_at = None;
        agent.retired_at = Some(cx.now);
        cx.tx.agent_put(&agent)?;
        cx.event(kind::AGENT_RETIRED, agent.id.as_str(), described(changes(&before, &agent), json!({})))?;
        Ok(agent)
    }
}
