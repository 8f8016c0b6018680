//! Completes a claimed task.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::context::OpContext;
use crate::error::{Error, Result};
use crate::model::TaskStatus;
use crate::op::{Access, Effect, IssueEffect, IssuesOf, JobAccess, Operation, StoreOperation};
use crate::tree;
use crate::work::view::{self, TaskView};
use crate::work::{agents, attempt, find, lease};

/// Completes a claimed task.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct FinishTask {
    /// The task: its id, its name, or `workflow/name`.
    pub task: String,
    /// The workflow of the task, if the task's name alone is ambiguous.
    #[serde(default)]
    pub workflow: Option<String>,
    /// The epoch of the caller's lease.
    #[serde(default)]
    pub epoch: Option<u64>,
    /// The outcome.
    pub outcome: String,
    /// The evidence for the outcome.
    #[serde(default)]
    pub evidence: Option<String>,
}

/// The answer to [`FinishTask`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FinishedTask {
    /// The task.
    #[serde(flatten, deserialize_with = "tree::flattened")]
    pub task: TaskView,
    /// The issue of the task, if its ledger has closed it. The application sets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_issue: Option<String>,
}

impl From<TaskView> for FinishedTask {
    fn from(task: TaskView) -> FinishedTask {
        FinishedTask { task, closed_issue: None }
    }
}

impl Operation for FinishTask {
    const NAME: &'static str = "finish_task";
    const SUMMARY: &'static str = "Complete a claimed task";
    const EFFECT: Effect = Effect::Write;
    const ACCESS: Access = Access::AGENTS.with_jobs(JobAccess::OwnTask);
    type Answer = FinishedTask;
}

impl StoreOperation for FinishTask {
    const ISSUES: Option<IssuesOf<FinishedTask>> = Some(|finished| {
        let FinishedTask { task, closed_issue } = finished;
        task.task.issue.as_deref().map(|issue| IssueEffect::Finished { issue, closed: closed_issue })
    });
    const USES_RESERVE: bool = true;

    fn run(self, cx: &mut OpContext<'_>) -> Result<FinishedTask> {
        let mut agent = agents::find_or_register_caller(cx)?;
        let task = find::task(cx, &self.task, self.workflow.as_deref())?;
        // A retry after a lost answer: the task stays done.
        if task.status == TaskStatus::Completed && self.epoch.is_some() && task.outcome.as_ref() == Some(&self.outcome)
        {
            let last = cx.tx.lease_get(task.id.as_str())?.map(|lease| lease.epoch);
            if last == self.epoch {
                agents::touch(cx, &mut agent)?;
                return view::task(cx, task).map(FinishedTask::from);
            }
        }
        let held = lease::require(cx, &task, &agent, self.epoch)?;
        // Finishing the task closes its issue.
        if let Some(issue) = &task.issue {
            lease::require_issue(cx, issue, &agent)?;
        }
        if self.outcome.trim().is_empty() {
            return Err(
                Error::invalid(format!("completing task {} needs an outcome", task.name)).hint("--outcome TEXT")
            );
        }
        let evidence = self.evidence.filter(|evidence| !evidence.trim().is_empty());
        if task.needs_evidence && evidence.is_none() {
            return Err(Error::invalid(format!("completing task {} needs evidence", task.name))
                .hint("--evidence TEXT: proof that the task is done, for example a command and its output"));
        }
        let task = attempt::complete(cx, &task, held, &self.outcome, evidence)?;
        agents::touch(cx, &mut agent)?;
        view::task(cx, task).map(FinishedTask::from)
    }
}
