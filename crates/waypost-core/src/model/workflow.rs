//! One execution of a plan.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::text_enum::text_enum;
use crate::error::{Error, Result};
use crate::id::{RepositoryId, WorkflowId, WorktreeId};
use crate::time::Timestamp;

text_enum! {
    /// How far a workflow got.
    WorkflowStatus: "a status of workflows" {
        /// It has no tasks yet.
        Planning = "planning",
        /// It has tasks and waits for its start.
        Ready = "ready",
        /// Its tasks can be claimed.
        InProgress = "in_progress",
        /// Nothing of it can be claimed until it is resumed.
        Paused = "paused",
        /// All is done and delivered, but not merged yet.
        AwaitingMerge = "awaiting_merge",
        /// Every task is completed or skipped.
        Completed = "completed",
        /// A task is dead, and nothing else can run.
        Failed = "failed",
        /// Somebody called it off.
        Cancelled = "cancelled",
    }
}

impl WorkflowStatus {
    /// Returns where it can go from here.
    pub fn next(self) -> &'static [WorkflowStatus] {
        use WorkflowStatus::{AwaitingMerge, Cancelled, Completed, Failed, InProgress, Paused, Planning, Ready};
        match self {
            Planning => &[Ready, Cancelled],
            Ready => &[InProgress, Cancelled],
            InProgress => &[Paused, AwaitingMerge, Completed, Failed, Cancelled],
            Paused => &[InProgress, AwaitingMerge, Completed, Failed, Cancelled],
            AwaitingMerge => &[Completed, InProgress, Cancelled],
            // Reopening one of its tasks takes it back to work.
            Completed | Failed => &[InProgress],
            Cancelled => &[],
        }
    }

    /// Tells whether it is over.
    pub fn is_final(self) -> bool {
        matches!(self, WorkflowStatus::Completed | WorkflowStatus::Failed | WorkflowStatus::Cancelled)
    }
}

text_enum! {
    /// What a workflow was made from.
    Source: "a source of workflows" {
        /// Somebody's words.
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

/// One execution of a plan: tasks with dependencies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Workflow {
    /// Its id.
    pub id: WorkflowId,
    /// What people call it; unique among the live ones of a worktree.
    pub name: String,
    /// What it was made from.
    pub source: Source,
    /// Which issue, template or page that was.
    pub source_ref: Option<String>,
    /// What it said there.
    pub source_content: Option<String>,
    /// How far it got.
    pub status: WorkflowStatus,
    /// The plan in a few words.
    pub summary: Option<String>,
    /// How many of its tasks may be worked on at once.
    pub max_parallel: Option<u32>,
    /// Settings of its own, for whoever drives it.
    pub config: Value,
    /// Why it failed or was called off.
    pub reason: Option<String>,
    /// The worktree it was made in.
    pub worktree_id: WorktreeId,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// When it was first started.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
}

impl Workflow {
    /// Tells whether it is over only when what it delivers is merged: its configuration has `"awaits_merge": true`.
    pub fn awaits_merge(&self) -> bool {
        self.config.get("awaits_merge").and_then(Value::as_bool) == Some(true)
    }

    /// Moves it to a status, if that is allowed.
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

/// Which workflows to return.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WorkflowQuery {
    /// Only those with one of these; all if empty.
    pub statuses: Vec<WorkflowStatus>,
    /// Only those made in this worktree.
    pub worktree_id: Option<WorktreeId>,
    /// Only those that concern this repository.
    pub repository_id: Option<RepositoryId>,
    /// Only those of this name.
    pub name: Option<String>,
    /// At most this many.
    pub limit: u32,
}
