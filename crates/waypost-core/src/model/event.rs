//! The store's append-only history.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::WorktreeId;
use crate::page::{self, Cursor};
use crate::time::Timestamp;

/// One event of the history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// Its number in the order of all events of the store. There are no gaps, except where old events were removed.
    pub sequence: u64,
    /// The time by the store's clock. It never goes back, except at an event that records a repair of the clock.
    pub time: Timestamp,
    /// The agent or person that caused it.
    pub actor: String,
    /// The worktree of the caller.
    pub worktree_id: WorktreeId,
    /// Its kind, for example `worktree.registered`.
    pub kind: String,
    /// The id of the record that changed.
    pub subject: String,
    /// The changes: values before and after.
    pub data: Value,
}

impl Event {
    /// Hides the subject of a message, which only its sender and its recipient read, in their inboxes.
    pub fn hide_text(&mut self) {
        if self.kind == kind::MESSAGE_SENT
            && let Some(data) = self.data.as_object_mut()
        {
            data.shift_remove("subject");
            data.shift_remove("body");
        }
    }
}

/// An event to append; the store adds its sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEvent {
    /// As in [`Event`].
    pub time: Timestamp,
    /// As in [`Event`].
    pub actor: String,
    /// As in [`Event`].
    pub worktree_id: WorktreeId,
    /// As in [`Event`].
    pub kind: &'static str,
    /// As in [`Event`].
    pub subject: String,
    /// As in [`Event`].
    pub data: Value,
}

/// A filter of events.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct EventQuery {
    /// Only events after this sequence, oldest first. Without it: the newest events, newest first.
    pub since: Option<u64>,
    /// Only events of this worktree.
    pub worktree_id: Option<WorktreeId>,
    /// Only kinds with this prefix: `task.` selects all events of tasks.
    pub kind: Option<String>,
    /// Only events of the record with this id.
    pub subject: Option<String>,
    /// The position after which the page begins: `next` of the page before.
    pub after: Option<Cursor<u64>>,
    /// Maximum number of results.
    #[serde(default = "page::default_limit")]
    #[schemars(range(min = 1))]
    pub limit: u32,
}

/// The kinds of events.
pub mod kind {
    macro_rules! kinds {
        ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
            $($(#[$doc])* pub const $name: &str = $text;)*

            /// All kinds.
            pub const ALL: &[&str] = &[$($text),*];
        };
    }

    kinds! {
        /// A repository was registered.
        REPOSITORY_REGISTERED = "repository.registered";
        /// A repository's path, name, remote or default branch changed.
        REPOSITORY_CHANGED = "repository.changed";
        /// A repository without references was removed.
        REPOSITORY_REMOVED = "repository.removed";
        /// A worktree was registered.
        WORKTREE_REGISTERED = "worktree.registered";
        /// A worktree's path, name or branch changed.
        WORKTREE_CHANGED = "worktree.changed";
        /// `way worktree rm` removed a worktree.
        WORKTREE_REMOVED = "worktree.removed";
        /// The store was compacted.
        STORE_VACUUMED = "store.vacuumed";
        /// A write measured the latency of the store.
        STORE_PROBED = "store.probed";
        /// The store's time jumped, and deadlines were shifted.
        STORE_CLOCK_MOVED = "store.clock_moved";
        /// The store's time was ahead of the real time and was set back.
        STORE_CLOCK_REPAIRED = "store.clock_repaired";
        /// A person accepted a server that may lack acknowledged writes.
        STORE_FAILOVER_ACCEPTED = "store.failover_accepted";
        /// A workflow was created.
        WORKFLOW_CREATED = "workflow.created";
        /// A workflow got its tasks.
        WORKFLOW_PLANNED = "workflow.planned";
        /// A workflow's remaining tasks were replanned.
        WORKFLOW_REPLANNED = "workflow.replanned";
        /// A workflow started: its tasks can be claimed.
        WORKFLOW_STARTED = "workflow.started";
        /// A workflow was paused: its tasks cannot be claimed.
        WORKFLOW_PAUSED = "workflow.paused";
        /// A paused workflow was resumed.
        WORKFLOW_RESUMED = "workflow.resumed";
        /// All tasks are done and delivered, but not merged.
        WORKFLOW_AWAITS_MERGE = "workflow.awaits_merge";
        /// Every task is completed or skipped.
        WORKFLOW_COMPLETED = "workflow.completed";
        /// A task is dead and no other task can run.
        WORKFLOW_FAILED = "workflow.failed";
        /// A workflow was cancelled.
        WORKFLOW_CANCELLED = "workflow.cancelled";
        /// A task of a finished workflow was reopened.
        WORKFLOW_REOPENED = "workflow.reopened";
        /// A repository was added to a workflow.
        WORKFLOW_REPOSITORY_ADDED = "workflow.repository_added";
        /// A repository was removed from a workflow.
        WORKFLOW_REPOSITORY_REMOVED = "workflow.repository_removed";
        /// A task was planned.
        TASK_ADDED = "task.added";
        /// A task's plan was changed.
        TASK_CHANGED = "task.changed";
        /// A task was taken out of the plan.
        TASK_REMOVED = "task.removed";
        /// A dependency was added to a task.
        TASK_DEPENDENCY_ADDED = "task.dependency_added";
        /// A dependency was removed from a task.
        TASK_DEPENDENCY_REMOVED = "task.dependency_removed";
        /// An agent claimed a task.
        TASK_CLAIMED = "task.claimed";
        /// The holder released a task.
        TASK_RELEASED = "task.released";
        /// The holder paused a task.
        TASK_PAUSED = "task.paused";
        /// The lease on a task expired.
        TASK_EXPIRED = "task.expired";
        /// The holder wrote a checkpoint.
        TASK_CHECKPOINTED = "task.checkpointed";
        /// A task was completed.
        TASK_COMPLETED = "task.completed";
        /// An attempt failed.
        TASK_FAILED = "task.failed";
        /// A failed task can be claimed again.
        TASK_REQUEUED = "task.requeued";
        /// A task has no attempts left.
        TASK_DIED = "task.died";
        /// A task was skipped.
        TASK_SKIPPED = "task.skipped";
        /// A task was cancelled.
        TASK_CANCELLED = "task.cancelled";
        /// A finished task was reopened.
        TASK_REOPENED = "task.reopened";
        /// The holder asked a person a question.
        TASK_ASKED = "task.asked";
        /// The question of a task was answered.
        TASK_ANSWERED = "task.answered";
        /// A task was assigned to an agent.
        TASK_ASSIGNED = "task.assigned";
        /// An agent was registered or changed its registration.
        AGENT_REGISTERED = "agent.registered";
        /// An agent sent a heartbeat.
        AGENT_HEARTBEAT = "agent.heartbeat";
        /// The heartbeat of an agent timed out.
        AGENT_OFFLINE = "agent.offline";
        /// An agent retired.
        AGENT_RETIRED = "agent.retired";
        /// A message was sent.
        MESSAGE_SENT = "message.sent";
        /// A message was listed with its inbox.
        MESSAGE_PRESENTED = "message.presented";
        /// A message was opened.
        MESSAGE_READ = "message.read";
        /// The recipient acknowledged a message.
        MESSAGE_ACTED = "message.acted";
        /// A template was saved.
        TEMPLATE_SAVED = "template.saved";
        /// A workspace was recorded before its directory is made.
        WORKSPACE_CREATED = "workspace.created";
        /// A workspace's status, size or pin changed.
        WORKSPACE_CHANGED = "workspace.changed";
        /// A job was requested.
        JOB_CREATED = "job.created";
        /// A supervisor took over a job.
        JOB_TAKEN = "job.taken";
        /// The command of a job was started.
        JOB_STARTED = "job.started";
        /// A job reported progress.
        JOB_NOTED = "job.noted";
        /// A job was cancelled.
        JOB_CANCELLED = "job.cancelled";
        /// A job ended.
        JOB_FINISHED = "job.finished";
        /// An agent claimed an issue.
        ISSUE_CLAIMED = "issue.claimed";
        /// The holder released an issue.
        ISSUE_RELEASED = "issue.released";
        /// The lease on an issue expired.
        ISSUE_EXPIRED = "issue.expired";
        /// The task of an issue is done; the ledger gets a notice.
        ISSUE_FINISHED = "issue.finished";
        /// The notice reached the ledger.
        ISSUE_CLOSED = "issue.closed";
        /// A caller changed issues without reaching their ledger; the store keeps the changes.
        ISSUES_DEFERRED = "issues.deferred";
        /// Deferred changes reached their ledger, or it refused them.
        ISSUES_DELIVERED = "issues.delivered";
        /// A workflow was moved to another store; this store does not change it any more.
        WORKFLOW_MOVED = "workflow.moved";
        /// A workflow was imported from another store.
        WORKFLOW_IMPORTED = "workflow.imported";
        /// Old records were removed from the store.
        STORE_COLLECTED = "store.collected";
    }
}
