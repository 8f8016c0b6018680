//! Workflows: executions of plans.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::text_enum::text_enum;
use crate::error::{Error, Result};
use crate::id::{RepositoryId, WorkflowId, WorktreeId};
use crate::page::{self, Cursor};
use crate::time::Timestamp;

text_enum! {
    /// The status of a workflow.
    WorkflowStatus: "a status of workflows" {
        /// It has no tasks yet.
        Planning = "planning",
        /// It has tasks and is not started.
        Ready = "ready",
        /// Its tasks can be claimed.
        InProgress = "in_progress",
        /// Its tasks cannot be claimed until it is resumed.
        Paused = "paused",
        /// All tasks are done and delivered, but not merged.
        AwaitingMerge = "awaiting_merge",
        /// Every task is completed or skipped.
        Completed = "completed",
        /// A task is dead, and no other task can run.
        Failed = "failed",
        /// It was cancelled.
        Cancelled = "cancelled",
    }
}

impl WorkflowStatus {
    /// Returns the statuses it can change to.
    pub fn next(self) -> &'static [WorkflowStatus] {
        use WorkflowStatus::{AwaitingMerge, Cancelled, Completed, Failed, InProgress, Paused, Planning, Ready};
        match self {
            Planning => &[Ready, Cancelled],
            Ready => &[InProgress, Cancelled],
            InProgress => &[Paused, AwaitingMerge, Completed, Failed, Cancelled],
            Paused => &[InProgress, AwaitingMerge, Completed, Failed, Cancelled],
            AwaitingMerge => &[Completed, InProgress, Cancelled],
            // Reopening one of its tasks resumes it.
            Completed | Failed => &[InProgress],
            Cancelled => &[],
        }
    }

    /// Returns whether it has ended.
    pub fn is_final(self) -> bool {
        matches!(self, WorkflowStatus::Completed | WorkflowStatus::Failed | WorkflowStatus::Cancelled)
    }
}

text_enum! {
    /// The source of a workflow.
    Source: "a source of workflows" {
        /// A prompt.
        Prompt = "prompt",
        /// An issue of a ledger.
        Issue = "issue",
        /// A template.
        Template = "template",
        /// An issue or pull request on GitHub.
        Github = "github",
        /// Anything else.
        Custom = "custom",
    }
}

text_enum! {
    /// The worktrees in which a claim without a name takes the tasks of a workflow.
    Reach: "a reach of workflows" {
        /// Only the worktree it was created in.
        Worktree = "worktree",
        /// All worktrees of its repositories.
        Repository = "repository",
    }
}

impl Default for Reach {
    /// The reach of workflows that were recorded without one.
    fn default() -> Self {
        Reach::Repository
    }
}

/// One execution of a plan: tasks with dependencies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Workflow {
    /// Its id.
    pub id: WorkflowId,
    /// Its name, unique among the live workflows of a worktree.
    pub name: String,
    /// Its source.
    pub source: Source,
    /// The reference of the issue, template or page.
    pub source_ref: Option<String>,
    /// The text of the source.
    pub source_content: Option<String>,
    /// Its status.
    pub status: WorkflowStatus,
    /// A short summary of the plan.
    pub summary: Option<String>,
    /// Maximum number of tasks in progress at once.
    pub max_parallel: Option<u32>,
    /// What jobs of its tasks start from, unless a task says otherwise: `plan` (the default: the work of the tasks that a
    /// task depends on), `head` or a revision.
    #[serde(default)]
    pub base: Option<String>,
    /// Settings for the program that drives it.
    pub config: Value,
    /// Why it failed or was cancelled.
    pub reason: Option<String>,
    /// The worktree it was created in.
    pub worktree_id: WorktreeId,
    /// The worktrees in which a claim without a name takes its tasks.
    #[serde(default)]
    pub reach: Reach,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// When it was first started.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
}

impl Workflow {
    /// Returns whether it completes only after its work is merged: its configuration has `"awaits_merge": true`.
    pub fn awaits_merge(&self) -> bool {
        self.config.get("awaits_merge").and_then(Value::as_bool) == Some(true)
    }

    /// Changes its status, if the transition is allowed.
    pub fn move_to(&mut self, status: WorkflowStatus, now: Timestamp) -> Result<()> {
        if !self.status.next().contains(&status) {
            let allowed: Vec<_> = self.status.next().iter().map(|status| status.as_str()).collect();
            return Err(Error::conflict(format!(
                "workflow {} is {} and cannot become {status}",
                self.name, self.status
            ))
            .hint(if allowed.is_empty() {
                format!("{} is final", self.status)
            } else {
                format!("from {} it can become: {}", self.status, allowed.join(", "))
            }));
        }
        self.status = status;
        self.updated_at = now;
        self.finished_at = status.is_final().then_some(now);
        if status == WorkflowStatus::InProgress {
            self.started_at = self.started_at.or(Some(now));
        }
        Ok(())
    }
}

/// A filter of workflows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WorkflowQuery {
    /// Only workflows with one of these statuses; all if empty.
    pub statuses: Vec<WorkflowStatus>,
    /// Only workflows created in this worktree.
    pub worktree_id: Option<WorktreeId>,
    /// Only workflows that span this repository.
    pub repository_id: Option<RepositoryId>,
    /// Only workflows with this name.
    pub name: Option<String>,
    /// The position after which the page begins: `next` of the page before.
    pub after: Option<Cursor<(Timestamp, WorkflowId)>>,
    /// Maximum number of results.
    #[serde(default = "page::default_limit")]
    #[schemars(range(min = 1))]
    pub limit: u32,
}
