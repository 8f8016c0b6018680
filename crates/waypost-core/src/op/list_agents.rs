//! Lists agents.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Effect, Operation};
use crate::engine::Cx;
use crate::error::Result;
use crate::model::{Agent, AgentStatus, Role};
use crate::time::Timestamp;

/// Lists agents.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ListAgents {
    /// Only those with this role.
    #[serde(default)]
    pub role: Option<Role>,
    /// Only those that can do this.
    #[serde(default)]
    pub capability: Option<String>,
    /// Only those with this status.
    #[serde(default)]
    pub status: Option<AgentStatus>,
    /// Those that left, too.
    #[serde(default)]
    pub retired: bool,
}

/// The answer to [`ListAgents`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgentList {
    /// The agents, by name.
    pub agents: Vec<AgentView>,
}

impl Operation for ListAgents {
    const NAME: &'static str = "list_agents";
    const SUMMARY: &'static str = "List agents";
    const EFFECT: Effect = Effect::Read;
    type Answer = AgentList;

    fn run(self, cx: &mut Cx<'_>) -> Result<AgentList> {
        let mut agents = Vec::new();
        for agent in cx.tx.agent_list()? {
            let is_wanted = self.role.is_none_or(|role| agent.role == role)
                && self.capability.as_ref().is_none_or(|capability| agent.capabilities.contains(capability))
                && self.status.is_none_or(|status| agent.status == status)
                && (self.retired || agent.retired_at.is_none());
            if is_wanted {
                agents.push(AgentView::of(cx, agent)?);
            }
        }
        Ok(AgentList { agents })
    }
}

/// An agent, and what it is doing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgentView {
    /// The agent.
    #[serde(flatten)]
    pub agent: Agent,
    /// What it holds.
    pub holds: Vec<Held>,
    /// How many messages wait for it.
    pub unread: u64,
}

/// Something an agent holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Held {
    /// The id of the task or issue.
    pub subject: String,
    /// What people call it.
    pub name: String,
    /// The epoch of the lease.
    pub epoch: u64,
    /// When the lease ends.
    pub expires_at: Timestamp,
}

impl AgentView {
    pub(crate) fn of(cx: &mut Cx<'_>, agent: Agent) -> Result<AgentView> {
        let mut holds = Vec::new();
        for lease in cx.tx.lease_list(Some(&agent.id))? {
            let task = lease.subject.parse().ok().map(|id| cx.tx.task_get(&id)).transpose()?.flatten();
            let name = task.map_or_else(|| lease.subject.clone(), |task| task.name);
            holds.push(Held { subject: lease.subject, name, epoch: lease.epoch, expires_at: lease.expires_at });
        }
        let unread = cx.tx.message_count(&agent.id, cx.now)?;
        Ok(AgentView { agent, holds, unread })
    }
}
