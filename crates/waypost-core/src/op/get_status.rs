//! Shows how everything stands, what needs a person first.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Effect, Operation};
use crate::engine::Cx;
use crate::error::{Error, Result};
use crate::id::{AgentId, TaskId, WorktreeId};
use crate::model::{AgentStatus, CandidateQuery, Task, TaskStatus, WorkflowQuery, WorkflowStatus};
use crate::op::{AgentView, LeaseView, Letter, ListAgents, ListLeases};
use crate::work::view::{self, TaskView, WorkflowView};
use crate::work::{agents, find, moving};

/// How many of each are looked at, before those that are not wanted are left out.
const SCAN: u32 = 1_000;

/// Shows how everything stands, what needs a person first.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct GetStatus {
    /// Only what was made in this worktree.
    #[serde(default)]
    pub worktree_id: Option<WorktreeId>,
    /// At most this many of each.
    pub limit: u32,
}

/// The answer to [`GetStatus`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Status {
    /// Tasks that ask a person something.
    pub questions: Vec<TaskView>,
    /// Tasks that are out of attempts.
    pub dead: Vec<TaskView>,
    /// Messages that wait for the caller.
    pub messages: Vec<Letter>,
    /// Tasks whose holder has missed two signs of life.
    pub stuck: Vec<TaskView>,
    /// Tasks that somebody works on.
    pub working: Vec<TaskView>,
    /// Tasks that could be claimed now, the most urgent first.
    pub ready: Vec<TaskView>,
    /// Tasks that pause before their next attempt, or were set aside.
    pub waiting: Vec<TaskView>,
    /// Workflows that are not over, and not moved to another store.
    pub workflows: Vec<WorkflowView>,
    /// Agents that are there, and those that are silent but hold something.
    pub agents: Vec<AgentView>,
    /// Issues that somebody holds.
    pub issues: Vec<LeaseView>,
    /// How many there are of each, also of those that are not shown.
    pub totals: Totals,
    /// The sequence of the newest event.
    pub last: u64,
}

/// How many there are of each part of a [`Status`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Totals {
    /// As [`Status::questions`].
    pub questions: u64,
    /// As [`Status::dead`].
    pub dead: u64,
    /// As [`Status::messages`].
    pub messages: u64,
    /// As [`Status::stuck`].
    pub stuck: u64,
    /// As [`Status::working`].
    pub working: u64,
    /// As [`Status::ready`].
    pub ready: u64,
    /// As [`Status::waiting`].
    pub waiting: u64,
    /// As [`Status::workflows`].
    pub workflows: u64,
    /// As [`Status::agents`].
    pub agents: u64,
    /// As [`Status::issues`].
    pub issues: u64,
}

impl Operation for GetStatus {
    const NAME: &'static str = "get_status";
    const SUMMARY: &'static str = "Show how everything stands";
    const EFFECT: Effect = Effect::Read;
    type Answer = Status;

    fn run(self, cx: &mut Cx<'_>) -> Result<Status> {
        if let Some(id) = &self.worktree_id
            && cx.tx.worktree_get(id)?.is_none()
        {
            return Err(Error::not_found(format!("no worktree {id}")));
        }
        let is_here = |id: &WorktreeId| self.worktree_id.as_ref().is_none_or(|wanted| wanted == id);
        let mut questions = self.tasks_in(cx, TaskStatus::WaitingInput)?;
        let mut dead = self.tasks_in(cx, TaskStatus::Dead)?;
        let (mut stuck, mut working) = (Vec::new(), Vec::new());
        for task in self.tasks_in(cx, TaskStatus::InProgress)? {
            let is_silent = is_silent(cx, &task.id)?;
            if is_silent { stuck.push(task) } else { working.push(task) }
        }
        let mut waiting = self.tasks_in(cx, TaskStatus::Failed)?;
        waiting.extend(self.tasks_in(cx, TaskStatus::Paused)?);
        let candidates = cx.tx.task_list_claimable(&CandidateQuery { workflow_id: None, skip: 0, limit: SCAN })?;
        let mut ready: Vec<Task> = candidates.into_iter().filter(|task| is_here(&task.worktree_id)).collect();
        let mut workflows = cx.tx.workflow_list(&WorkflowQuery {
            statuses: WorkflowStatus::ALL.iter().copied().filter(|status| !status.is_final()).collect(),
            worktree_id: self.worktree_id.clone(),
            limit: SCAN,
            ..WorkflowQuery::default()
        })?;
        workflows.retain(|workflow| moving::mark(workflow).is_none());
        let leases = ListLeases {}.run(cx)?.leases;
        let here: Vec<AgentId> = leases
            .iter()
            .filter(|seen| is_here(&seen.lease.worktree_id))
            .filter_map(|seen| seen.lease.holder.clone())
            .collect();
        let mut agents = ListAgents { role: None, capability: None, status: None, retired: false }.run(cx)?.agents;
        agents.retain(|seen| {
            (seen.agent.status != AgentStatus::Offline || !seen.holds.is_empty())
                && (is_here(&seen.agent.worktree_id) || here.contains(&seen.agent.id))
        });
        let mut issues = leases;
        issues.retain(|seen| seen.lease.subject.parse::<TaskId>().is_err() && is_here(&seen.lease.worktree_id));
        let (messages, unread) = match agents::known_caller(cx)? {
            Some(reader) => {
                let waiting = cx.tx.message_list(&reader.id, cx.now, self.limit)?;
                let letters = waiting.into_iter().map(|message| Letter::of(cx, message)).collect::<Result<_>>()?;
                (letters, cx.tx.message_count(&reader.id, cx.now)?)
            }
            None => (Vec::new(), 0),
        };
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        Ok(Status {
            totals: Totals {
                questions: cut(&mut questions, limit),
                dead: cut(&mut dead, limit),
                messages: unread,
                stuck: cut(&mut stuck, limit),
                working: cut(&mut working, limit),
                ready: cut(&mut ready, limit),
                waiting: cut(&mut waiting, limit),
                workflows: cut(&mut workflows, limit),
                agents: cut(&mut agents, limit),
                issues: cut(&mut issues, limit),
            },
            questions: seen(cx, questions)?,
            dead: seen(cx, dead)?,
            messages,
            stuck: seen(cx, stuck)?,
            working: seen(cx, working)?,
            ready: seen(cx, ready)?,
            waiting: seen(cx, waiting)?,
            workflows: view::workflows(cx, workflows)?,
            agents,
            issues,
            last: cx.tx.event_last()?,
        })
    }
}

impl GetStatus {
    /// Returns the wanted tasks in a status, last changed first. What is over needs nobody, nor what went elsewhere.
    fn tasks_in(&self, cx: &mut Cx<'_>, status: TaskStatus) -> Result<Vec<Task>> {
        let mut wanted = Vec::new();
        for task in cx.tx.task_list_in(status, SCAN)? {
            if self.worktree_id.as_ref().is_some_and(|id| *id != task.worktree_id) {
                continue;
            }
            let of = find::workflow_of(cx, &task)?;
            let needs_somebody =
                !of.status.is_final() || status == TaskStatus::Dead && of.status == WorkflowStatus::Failed;
            if needs_somebody && moving::mark(&of).is_none() {
                wanted.push(task);
            }
        }
        Ok(wanted)
    }
}

/// Tells whether the holder of a task has missed two of the three signs of life that fit into its lease.
fn is_silent(cx: &mut Cx<'_>, task: &TaskId) -> Result<bool> {
    let lease = cx.tx.lease_get(task.as_str())?;
    Ok(lease.is_some_and(|lease| lease.holder.is_some() && lease.expires_at.since(cx.now) < lease.ttl_ms / 3))
}

/// Leaves the first ones, and returns how many there were.
fn cut<T>(all: &mut Vec<T>, limit: usize) -> u64 {
    let total = all.len() as u64;
    all.truncate(limit);
    total
}

fn seen(cx: &mut Cx<'_>, tasks: Vec<Task>) -> Result<Vec<TaskView>> {
    tasks.into_iter().map(|task| view::task(cx, task)).collect()
}
