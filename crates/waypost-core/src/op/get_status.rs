//! Shows how everything stands, what needs a person first.

use serde::{Deserialize, Serialize};

use super::{Effect, Operation};
use crate::engine::Cx;
use crate::error::{Error, Result};
use crate::id::{TaskId, WorktreeId};
use crate::model::{AgentStatus, CandidateQuery, Task, TaskStatus, WorkflowQuery, WorkflowStatus};
use crate::op::{AgentView, LeaseView, ListAgents, ListLeases};
use crate::work::find;
use crate::work::view::{self, TaskView, WorkflowView};

/// Shows how everything stands, what needs a person first.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GetStatus {
    /// Only what was made in this worktree.
    #[serde(default)]
    pub worktree_id: Option<WorktreeId>,
    /// At most this many of each.
    pub limit: u32,
}

/// The answer to [`GetStatus`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Tasks that ask a person something.
    pub questions: Vec<TaskView>,
    /// Tasks that are out of attempts.
    pub dead: Vec<TaskView>,
    /// Tasks that somebody works on.
    pub working: Vec<TaskView>,
    /// Tasks that pause before their next attempt, or were set aside.
    pub waiting: Vec<TaskView>,
    /// Tasks that could be claimed now, the most urgent first.
    pub ready: Vec<TaskView>,
    /// Workflows that are not over.
    pub workflows: Vec<WorkflowView>,
    /// Agents that are there, and those that are silent but hold something.
    pub agents: Vec<AgentView>,
    /// Issues that somebody holds.
    pub issues: Vec<LeaseView>,
    /// The sequence of the newest event.
    pub last: u64,
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
        let is_wanted = |task: &Task| self.worktree_id.as_ref().is_none_or(|id| *id == task.worktree_id);
        let in_status = |cx: &mut Cx<'_>, status: TaskStatus| -> Result<Vec<TaskView>> {
            let tasks = cx.tx.task_list_in(status, self.limit)?;
            let mut seen = Vec::new();
            for task in tasks.into_iter().filter(is_wanted) {
                let workflow = find::workflow_of(cx, &task)?;
                // What is over needs nobody.
                if !workflow.status.is_final()
                    || status == TaskStatus::Dead && workflow.status == WorkflowStatus::Failed
                {
                    seen.push(view::task(cx, task)?);
                }
            }
            Ok(seen)
        };
        let questions = in_status(cx, TaskStatus::WaitingInput)?;
        let dead = in_status(cx, TaskStatus::Dead)?;
        let working = in_status(cx, TaskStatus::InProgress)?;
        let mut waiting = in_status(cx, TaskStatus::Failed)?;
        waiting.extend(in_status(cx, TaskStatus::Paused)?);
        let candidates =
            cx.tx.task_list_claimable(&CandidateQuery { workflow_id: None, skip: 0, limit: self.limit })?;
        let ready =
            candidates.into_iter().filter(is_wanted).map(|task| view::task(cx, task)).collect::<Result<Vec<_>>>()?;
        let live = cx.tx.workflow_list(&WorkflowQuery {
            statuses: WorkflowStatus::ALL.iter().copied().filter(|status| !status.is_final()).collect(),
            worktree_id: self.worktree_id.clone(),
            limit: self.limit,
            ..WorkflowQuery::default()
        })?;
        let workflows = live.into_iter().map(|workflow| view::workflow(cx, workflow)).collect::<Result<_>>()?;
        let agents = ListAgents { role: None, capability: None, status: None, retired: false }.run(cx)?.agents;
        let agents = agents
            .into_iter()
            .filter(|seen| seen.agent.status != AgentStatus::Offline || !seen.holds.is_empty())
            .collect();
        let leases = ListLeases {}.run(cx)?.leases;
        let issues = leases.into_iter().filter(|seen| seen.lease.subject.parse::<TaskId>().is_err()).collect();
        Ok(Status { questions, dead, working, waiting, ready, workflows, agents, issues, last: cx.tx.event_last()? })
    }
}
