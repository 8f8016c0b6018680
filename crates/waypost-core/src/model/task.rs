//! A unit of a workflow.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::text_enum::text_enum;
use crate::error::{Error, Result};
use crate::id::{AgentId, RepositoryId, TaskId, WorkflowId, WorkspaceId, WorktreeId};
use crate::time::Timestamp;

text_enum! {
    /// How far a task got. That it waits for others is computed, never stored.
    TaskStatus: "a status of tasks" {
        /// Nobody works on it.
        Pending = "pending",
        /// Somebody holds its lease.
        InProgress = "in_progress",
        /// Set aside until somebody claims it by name.
        Paused = "paused",
        /// It has a question for a person.
        WaitingInput = "waiting_input",
        /// Done, with an outcome.
        Completed = "completed",
        /// An attempt failed; it waits for the next one.
        Failed = "failed",
        /// No attempts remain.
        Dead = "dead",
        /// Not needed. Satisfies those that wait for it.
        Skipped = "skipped",
        /// Called off with its workflow.
        Cancelled = "cancelled",
    }
}

impl TaskStatus {
    /// Returns where it can go from here.
    pub fn next(self) -> &'static [TaskStatus] {
        use TaskStatus::{Cancelled, Completed, Dead, Failed, InProgress, Paused, Pending, Skipped, WaitingInput};
        match self {
            Pending => &[InProgress, Failed, Skipped, Cancelled],
            InProgress => &[Pending, Paused, WaitingInput, Completed, Failed, Skipped, Cancelled],
            Paused => &[InProgress, Pending, Skipped, Cancelled],
            WaitingInput | Dead => &[Pending, Skipped, Cancelled],
            Failed => &[Pending, Dead, Skipped, Cancelled],
            // Only by reopening.
            Completed | Skipped | Cancelled => &[Pending],
        }
    }

    /// Tells whether nothing happens to it any more by itself.
    pub fn is_final(self) -> bool {
        matches!(self, TaskStatus::Completed | TaskStatus::Skipped | TaskStatus::Cancelled | TaskStatus::Dead)
    }

    /// Tells whether those that wait for it may go on.
    pub fn satisfies(self) -> bool {
        matches!(self, TaskStatus::Completed | TaskStatus::Skipped)
    }
}

/// A unit of a workflow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Task {
    /// Its id.
    pub id: TaskId,
    /// The workflow it is a part of.
    pub workflow_id: WorkflowId,
    /// What people call it; unique in its workflow.
    pub name: String,
    /// What is to be done.
    pub description: String,
    /// How far it got.
    pub status: TaskStatus,
    /// Its place in the plan.
    pub sequence: u32,
    /// What is meant to run at the same time.
    pub parallel_group: Option<String>,
    /// 0 is the most urgent, 4 the least.
    pub priority: u32,
    /// How it is meant to be done.
    pub plan: Value,
    /// When it is done.
    pub acceptance: Vec<String>,
    /// What its worker should know.
    pub context: Value,
    /// Names of tasks whose outcomes its worker should know.
    pub context_from: Vec<String>,
    /// What its worker must be able to do.
    pub capabilities: Vec<String>,
    /// Files that will probably be touched.
    pub files: Vec<String>,
    /// The repository to work in.
    pub repository_id: Option<RepositoryId>,
    /// The workspace it was last worked on in.
    pub workspace_id: Option<WorkspaceId>,
    /// The issue that is closed when it is done.
    pub issue: Option<String>,
    /// The only agent who may claim it.
    pub assignee: Option<AgentId>,
    /// How many attempts were begun and did not succeed.
    pub attempts: u32,
    /// How many are allowed.
    pub max_attempts: u32,
    /// How long to wait before the second attempt, in milliseconds; doubled for each further one.
    pub backoff_ms: u64,
    /// How long it may wait to be claimed, in milliseconds.
    pub queue_timeout_ms: Option<u64>,
    /// How long one attempt may take, in milliseconds.
    pub run_timeout_ms: Option<u64>,
    /// How long an attempt may go without a checkpoint, in milliseconds.
    pub stall_timeout_ms: Option<u64>,
    /// Whether completing it needs evidence.
    pub needs_evidence: bool,
    /// What came out.
    pub outcome: Option<String>,
    /// What shows that it did.
    pub evidence: Option<String>,
    /// What went wrong last.
    pub error: Option<String>,
    /// What it needs to know from a person.
    pub question: Option<String>,
    /// What the person said.
    pub answer: Option<String>,
    /// The worktree its workflow was made in.
    pub worktree_id: WorktreeId,
    /// When it was planned.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// When it last became claimable in principle.
    pub queued_at: Timestamp,
    /// When its running or last attempt began.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// When something happens to it by itself: its next attempt, or the end of its patience.
    pub due_at: Option<Timestamp>,
}

/// How far a task got: all that changes while it is worked on. The fields are the task's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "the task says what they are")]
pub struct Progress<'a> {
    pub status: TaskStatus,
    pub attempts: u32,
    pub outcome: Option<&'a str>,
    pub evidence: Option<&'a str>,
    pub error: Option<&'a str>,
    pub question: Option<&'a str>,
    pub answer: Option<&'a str>,
    pub updated_at: Timestamp,
    pub queued_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
    pub due_at: Option<Timestamp>,
}

impl Task {
    /// Returns how far it got.
    pub fn progress(&self) -> Progress<'_> {
        Progress {
            status: self.status,
            attempts: self.attempts,
            outcome: self.outcome.as_deref(),
            evidence: self.evidence.as_deref(),
            error: self.error.as_deref(),
            question: self.question.as_deref(),
            answer: self.answer.as_deref(),
            updated_at: self.updated_at,
            queued_at: self.queued_at,
            started_at: self.started_at,
            finished_at: self.finished_at,
            due_at: self.due_at,
        }
    }

    /// Tells whether another is the same in all but how far it got.
    pub fn has_plan_of(&self, other: &Task) -> bool {
        let Task {
            id,
            workflow_id,
            name,
            description,
            sequence,
            parallel_group,
            priority,
            plan,
            acceptance,
            context,
            context_from,
            capabilities,
            files,
            repository_id,
            workspace_id,
            issue,
            assignee,
            max_attempts,
            backoff_ms,
            queue_timeout_ms,
            run_timeout_ms,
            stall_timeout_ms,
            needs_evidence,
            worktree_id,
            created_at,
            status: _,
            attempts: _,
            outcome: _,
            evidence: _,
            error: _,
            question: _,
            answer: _,
            updated_at: _,
            queued_at: _,
            started_at: _,
            finished_at: _,
            due_at: _,
        } = self;
        *id == other.id
            && *workflow_id == other.workflow_id
            && *name == other.name
            && *description == other.description
            && *sequence == other.sequence
            && *parallel_group == other.parallel_group
            && *priority == other.priority
            && *plan == other.plan
            && *acceptance == other.acceptance
            && *context == other.context
            && *context_from == other.context_from
            && *capabilities == other.capabilities
            && *files == other.files
            && *repository_id == other.repository_id
            && *workspace_id == other.workspace_id
            && *issue == other.issue
            && *assignee == other.assignee
            && *max_attempts == other.max_attempts
            && *backoff_ms == other.backoff_ms
            && *queue_timeout_ms == other.queue_timeout_ms
            && *run_timeout_ms == other.run_timeout_ms
            && *stall_timeout_ms == other.stall_timeout_ms
            && *needs_evidence == other.needs_evidence
            && *worktree_id == other.worktree_id
            && *created_at == other.created_at
    }

    /// Moves it to a status, if that is allowed.
    pub fn move_to(&mut self, status: TaskStatus, now: Timestamp) -> Result<()> {
        if !self.status.next().contains(&status) {
            let allowed: Vec<_> = self.status.next().iter().map(|status| status.as_str()).collect();
            return Err(Error::conflict(format!("task {} is {} and cannot become {status}", self.name, self.status))
                .hint(format!("from {} it can become: {}", self.status, allowed.join(", "))));
        }
        self.status = status;
        self.updated_at = now;
        self.finished_at = status.is_final().then_some(now);
        self.due_at = None;
        if status == TaskStatus::Pending {
            self.queued_at = now;
            self.due_at = self.queue_timeout_ms.map(|patience| now.plus(patience));
        }
        Ok(())
    }
}

text_enum! {
    /// What one task is to another.
    DependencyKind: "a kind of dependency" {
        /// It must be completed or skipped first.
        Blocks = "blocks",
        /// Its outcome is worth knowing.
        Informs = "informs",
    }
}

/// One task depends on another of its workflow.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Dependency {
    /// The one that depends.
    pub task_id: TaskId,
    /// The one it depends on.
    pub depends_on: TaskId,
    /// How.
    pub kind: DependencyKind,
}

/// Which tasks can be claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CandidateQuery {
    /// Only those of this workflow.
    pub workflow_id: Option<WorkflowId>,
    /// Leave out this many.
    pub skip: u32,
    /// At most this many.
    pub limit: u32,
}
