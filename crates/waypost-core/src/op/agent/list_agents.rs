//! Lists agents.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::context::OpContext;
use crate::error::Result;
use crate::id::{AgentId, TaskId, WorktreeId};
use crate::model::{Agent, AgentStatus, Lease, Role, Task};
use crate::op::{Effect, Operation, StoreOperation};
use crate::page::{self, Cursor};
use crate::time::{Timestamp, never_as_null};
use crate::tree;
use crate::work::places::{Places, WorktreeSummary};
use crate::work::{find, lease};

/// Lists agents.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ListAgents {
    /// Only agents with this role.
    #[serde(default)]
    pub role: Option<Role>,
    /// Only agents with this capability.
    #[serde(default)]
    pub capability: Option<String>,
    /// Only agents with this status.
    #[serde(default)]
    pub status: Option<AgentStatus>,
    /// Include retired agents.
    #[serde(default)]
    pub retired: bool,
    /// Only agents that registered in this worktree, or hold a lease that was granted there.
    #[serde(default)]
    pub worktree_id: Option<WorktreeId>,
    /// Only agents of worktrees of this repository: its id, name or path.
    #[serde(default)]
    pub repository: Option<String>,
    /// The position after which the page begins: `next` of the page before.
    #[serde(default)]
    pub after: Option<Cursor<(String, AgentId)>>,
    /// The maximum number of results.
    #[serde(default = "page::default_limit")]
    #[schemars(range(min = 1))]
    pub limit: u32,
}

/// The answer to [`ListAgents`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgentList {
    /// The agents, by name.
    pub agents: Vec<AgentView>,
    /// The position of the next page: `after` of the next call. Null on the last page.
    #[serde(default)]
    pub next: Option<Cursor<(String, AgentId)>>,
}

impl Operation for ListAgents {
    const NAME: &'static str = "list_agents";
    const SUMMARY: &'static str = "List agents";
    const EFFECT: Effect = Effect::Read;
    type Answer = AgentList;
}

impl StoreOperation for ListAgents {
    fn run(self, cx: &mut OpContext<'_>) -> Result<AgentList> {
        page::fetched(self.limit)?;
        let is_wanted = |agent: &Agent| {
            self.role.is_none_or(|role| agent.role == role)
                && self.capability.as_ref().is_none_or(|capability| agent.capabilities.contains(capability))
                && self.status.is_none_or(|status| agent.status == status)
                && (self.retired || agent.retired_at.is_none())
        };
        find::check_worktree(cx, self.worktree_id.as_ref())?;
        let repositories = find::chosen_repositories(cx, self.repository.as_deref())?;
        let (leases, places) = (cx.tx.lease_list(None)?, Places::all(cx)?);
        let is_there = |id: &WorktreeId| {
            let repository = places.worktree(id).map(|worktree| worktree.repository_id);
            self.worktree_id.as_ref().is_none_or(|wanted| wanted == id)
                && (repositories.is_empty() || repository.is_some_and(|id| repositories.contains(&id)))
        };
        let works_there = |agent: &Agent| {
            let held = leases.iter().filter(|lease| lease.holder.as_ref() == Some(&agent.id));
            is_there(&agent.worktree_id) || held.into_iter().any(|lease| is_there(&lease.worktree_id))
        };
        let all = cx.tx.agent_list()?.into_iter();
        let mut agents: Vec<_> = all.filter(|agent| is_wanted(agent) && works_there(agent)).collect();
        let key = |agent: &Agent| (agent.name.clone(), agent.id.clone());
        page::skip(&mut agents, self.after.as_ref(), key);
        let next = page::cut(&mut agents, self.limit, key);
        let tasks = lease::tasks_of(cx, &leases)?;
        Ok(AgentList { agents: AgentView::all(cx, agents, leases, &tasks)?, next })
    }
}

/// An agent, with its leases, its messages and its worktree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgentView {
    /// The agent.
    #[serde(flatten, deserialize_with = "tree::flattened")]
    pub agent: Agent,
    /// The leases that it holds.
    pub holds: Vec<Held>,
    /// The number of messages waiting for it.
    pub unread: u64,
    /// The worktree it registered from.
    #[serde(default)]
    pub worktree: Option<WorktreeSummary>,
}

/// A lease that an agent holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Held {
    /// The id of the task or issue.
    pub subject: String,
    /// The name of the task, or the id of the issue.
    pub name: String,
    /// The epoch of the lease.
    pub epoch: u64,
    /// The time when the lease expires.
    #[serde(with = "never_as_null")]
    #[schemars(with = "Option<Timestamp>")]
    pub expires_at: Timestamp,
}

impl AgentView {
    pub(crate) fn of(cx: &mut OpContext<'_>, agent: Agent) -> Result<AgentView> {
        let leases = cx.tx.lease_list(Some(&agent.id))?;
        let tasks = lease::tasks_of(cx, &leases)?;
        let holds = leases.into_iter().map(|lease| Held::of(lease, &tasks)).collect();
        let unread = cx.tx.message_count(&agent.id, cx.now)?;
        let worktree = Places::of(cx, &agent.worktree_id, None)?.worktree(&agent.worktree_id);
        Ok(AgentView { agent, holds, unread, worktree })
    }

    /// Builds the views of agents from all leases and their tasks.
    pub(crate) fn all(
        cx: &mut OpContext<'_>,
        agents: Vec<Agent>,
        leases: Vec<Lease>,
        tasks: &BTreeMap<TaskId, Task>,
    ) -> Result<Vec<AgentView>> {
        let mut holds: BTreeMap<AgentId, Vec<Held>> = BTreeMap::new();
        for lease in leases {
            if let Some(holder) = lease.holder.clone() {
                holds.entry(holder).or_default().push(Held::of(lease, tasks));
            }
        }
        let unread: BTreeMap<AgentId, u64> = cx.tx.message_count_by_recipient(cx.now)?.into_iter().collect();
        let places = Places::all(cx)?;
        let view = |agent: Agent| AgentView {
            worktree: places.worktree(&agent.worktree_id),
            holds: holds.remove(&agent.id).unwrap_or_default(),
            unread: unread.get(&agent.id).copied().unwrap_or_default(),
            agent,
        };
        Ok(agents.into_iter().map(view).collect())
    }
}

impl Held {
    fn of(lease: Lease, tasks: &BTreeMap<TaskId, Task>) -> Held {
        let task = lease.subject.parse::<TaskId>().ok().and_then(|id| tasks.get(&id));
        let name = task.map_or_else(|| lease.subject.clone(), |task| task.name.clone());
        Held { subject: lease.subject, name, epoch: lease.epoch, expires_at: lease.expires_at }
    }
}
