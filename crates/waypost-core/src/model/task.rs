//! Tasks: the units of a workflow.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Workflow;
use super::text_enum::text_enum;
use crate::error::{Error, Result};
use crate::id::{AgentId, RepositoryId, TaskId, WorkflowId, WorkspaceId, WorktreeId};
use crate::time::Timestamp;

text_enum! {
    /// The status of a task. Whether it is blocked is computed, never stored.
    TaskStatus: "a status of tasks" {
        /// No agent works on it.
        Pending = "pending",
        /// An agent holds its lease.
        InProgress = "in_progress",
        /// Paused until an agent claims it by name.
        Paused = "paused",
        /// It waits for a person's answer.
        WaitingInput = "waiting_input",
        /// Done, with an outcome.
        Completed = "completed",
        /// An attempt failed; it waits for the next one.
        Failed = "failed",
        /// No attempts remain.
        Dead = "dead",
        /// Not needed. Satisfies the tasks that depend on it.
        Skipped = "skipped",
        /// Cancelled with its workflow.
        Cancelled = "cancelled",
    }
}

impl TaskStatus {
    /// Returns the statuses it can change to.
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

    /// Returns whether it has ended; only a caller can reopen it.
    pub fn is_final(self) -> bool {
        matches!(self, TaskStatus::Completed | TaskStatus::Skipped | TaskStatus::Cancelled | TaskStatus::Dead)
    }

    /// Returns whether it satisfies the tasks that depend on it.
    pub fn satisfies(self) -> bool {
        matches!(self, TaskStatus::Completed | TaskStatus::Skipped)
    }
}

/// A unit of a workflow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Task {
    /// Its id.
    pub id: TaskId,
    /// Its workflow.
    pub workflow_id: WorkflowId,
    /// Its name, unique in its workflow.
    pub name: String,
    /// The work to do.
    pub description: String,
    /// Its status.
    pub status: TaskStatus,
    /// Its position in the plan.
    pub sequence: u32,
    /// The name of a group of tasks that are meant to run at the same time.
    pub parallel_group: Option<String>,
    /// 0 is the most urgent, 4 the least.
    pub priority: u32,
    /// How to do it.
    pub plan: Value,
    /// Conditions under which it is done.
    pub acceptance: Vec<String>,
    /// Background for the agent that works on it.
    pub context: Value,
    /// The names of tasks whose outcomes belong in its context.
    pub context_from: Vec<String>,
    /// Capabilities that the agent must have registered.
    pub capabilities: Vec<String>,
    /// Files that the task probably changes.
    pub files: Vec<String>,
    /// The repository to work in.
    pub repository_id: Option<RepositoryId>,
    /// What its jobs start from: `plan` (the work of the tasks it depends on), `head` or a revision; none if the workflow
    /// decides.
    #[serde(default)]
    pub base: Option<String>,
    /// The workspace of its last job.
    pub workspace_id: Option<WorkspaceId>,
    /// The issue to close when it is done.
    pub issue: Option<String>,
    /// The only agent that may claim it.
    pub assignee: Option<AgentId>,
    /// Number of failed attempts.
    pub attempts: u32,
    /// Maximum number of attempts.
    pub max_attempts: u32,
    /// Pause before the second attempt in milliseconds, doubled for each further one.
    pub backoff_ms: u64,
    /// Maximum time it may wait to be claimed, in milliseconds.
    pub queue_timeout_ms: Option<u64>,
    /// Maximum duration of one attempt, in milliseconds.
    pub run_timeout_ms: Option<u64>,
    /// Maximum time between two checkpoints of an attempt, in milliseconds.
    pub stall_timeout_ms: Option<u64>,
    /// Whether completing it requires evidence.
    pub needs_evidence: bool,
    /// Its outcome.
    pub outcome: Option<String>,
    /// Evidence of the outcome.
    pub evidence: Option<String>,
    /// The last error.
    pub error: Option<String>,
    /// The question to a person.
    pub question: Option<String>,
    /// The person's answer.
    pub answer: Option<String>,
    /// The worktree its workflow was created in.
    pub worktree_id: WorktreeId,
    /// When it was planned.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// When it last became pending.
    pub queued_at: Timestamp,
    /// When its current or last attempt began.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// When its next attempt or its queue timeout is due.
    pub due_at: Option<Timestamp>,
}

/// The fields of a task that change while an agent works on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "the fields of Task are documented")]
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

/// How often a task is attempted, unless its plan says otherwise.
const DEFAULT_MAX_ATTEMPTS: u32 = 3;
/// The priority of a task whose plan names none.
const DEFAULT_PRIORITY: u32 = 2;

impl Task {
    /// Returns a task of a workflow that is not started and has only a name.
    pub fn new(id: TaskId, workflow: &Workflow, name: String, sequence: u32, now: Timestamp) -> Task {
        Task {
            id,
            workflow_id: workflow.id.clone(),
            name,
            description: String::new(),
            status: TaskStatus::Pending,
            sequence,
            parallel_group: None,
            priority: DEFAULT_PRIORITY,
            plan: json!({}),
            acceptance: Vec::new(),
            context: json!({}),
            context_from: Vec::new(),
            capabilities: Vec::new(),
            files: Vec::new(),
            repository_id: None,
            base: None,
            workspace_id: None,
            issue: None,
            assignee: None,
            attempts: 0,
            max_attempts: DEFAULT_MAX_ATTEMPTS,
            backoff_ms: 0,
            queue_timeout_ms: None,
            run_timeout_ms: None,
            stall_timeout_ms: None,
            needs_evidence: false,
            outcome: None,
            evidence: None,
            error: None,
            question: None,
            answer: None,
            worktree_id: workflow.worktree_id.clone(),
            created_at: now,
            updated_at: now,
            queued_at: now,
            started_at: None,
            finished_at: None,
            due_at: None,
        }
    }

    /// Returns the fields that change while an agent works on it.
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

    /// Returns whether all fields but those of [`Progress`] equal those of another task.
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
            base,
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
            && *base == other.base
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

    /// Changes its status, if the transition is allowed.
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
            self.due_at = self.queue_timeout_ms.map(|timeout| now.plus(timeout));
        }
        Ok(())
    }
}

text_enum! {
    /// The kind of a dependency.
    DependencyKind: "a kind of dependency" {
        /// The other task must be completed or skipped first.
        Blocks = "blocks",
        /// The outcome of the other task is useful.
        Informs = "informs",
    }
}

/// A dependency of one task on another task of its workflow.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Dependency {
    /// The dependent task.
    pub task_id: TaskId,
    /// The task it depends on.
    pub depends_on: TaskId,
    /// The kind of dependency.
    pub kind: DependencyKind,
}

/// A filter of tasks by the place they belong to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskPlace {
    /// Only tasks that were planned in this worktree.
    pub worktree_id: Option<WorktreeId>,
    /// Only tasks of these repositories; of all repositories if empty. A task without a repository belongs to that of its
    /// worktree.
    pub repositories: Vec<RepositoryId>,
}

/// A part of the tasks of a workflow, in plan order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanPart {
    /// The workflow.
    pub workflow_id: WorkflowId,
    /// Only tasks with one of these statuses; with any if empty.
    pub statuses: Vec<TaskStatus>,
    /// Only tasks after this one: its place in the plan, and its id.
    pub after: Option<(u32, TaskId)>,
    /// The maximum number of tasks.
    pub limit: u32,
}

/// The tasks that a search for claimable ones considers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Candidates {
    /// All tasks.
    All,
    /// The tasks of a workflow.
    OfWorkflow(WorkflowId),
    /// The tasks that were planned in a worktree.
    OfWorktree(WorktreeId),
    /// The tasks that were planned in other worktrees, and not for these alone.
    SharedWith(WorktreeId),
}

/// A filter and page of claimable tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CandidateQuery {
    /// The tasks to consider.
    pub of: Candidates,
    /// Only tasks of these repositories; of all repositories if empty. A task without a repository belongs to that of its
    /// worktree.
    pub repositories: Vec<RepositoryId>,
    /// Number of results to skip.
    pub skip: u32,
    /// Maximum number of results.
    pub limit: u32,
}
