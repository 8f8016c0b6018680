//! The store's append-only history.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::WorktreeId;
use crate::time::Timestamp;

/// One line of history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// Its place in the order of all events of the store, without gaps.
    pub sequence: u64,
    /// When, by the store's clock; never earlier than the event before, unless this one says that the clock was repaired.
    pub time: Timestamp,
    /// Who did it.
    pub actor: String,
    /// The worktree it was done from.
    pub worktree_id: WorktreeId,
    /// What happened, for example `worktree.registered`.
    pub kind: String,
    /// The id of the thing it happened to.
    pub subject: String,
    /// What changed: before and after.
    pub data: Value,
}

/// An event about to be appended; the store adds its sequence.
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

/// Which events to return.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct EventQuery {
    /// Only those after this sequence, oldest first. Without it: the newest ones, newest first.
    pub since: Option<u64>,
    /// Only those of this worktree.
    pub worktree_id: Option<WorktreeId>,
    /// Only those whose kind begins so: `task.` has all of tasks.
    pub kind: Option<String>,
    /// Only those that happened to this.
    pub subject: Option<String>,
    /// At most this many.
    pub limit: u32,
}

/// The kinds of events.
pub mod kind {
    macro_rules! kinds {
        ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
            $($(#[$doc])* pub const $name: &str = $text;)*

            /// All of them.
            pub const ALL: &[&str] = &[$($text),*];
        };
    }

    kinds! {
        /// A repository was seen for the first time.
        REPOSITORY_REGISTERED = "repository.registered";
        /// A repository's path, name, remote or default branch is another.
        REPOSITORY_CHANGED = "repository.changed";
        /// A repository that nothing refers to was forgotten.
        REPOSITORY_REMOVED = "repository.removed";
        /// A worktree was seen for the first time.
        WORKTREE_REGISTERED = "worktree.registered";
        /// A worktree's path, name or branch is another.
        WORKTREE_CHANGED = "worktree.changed";
        /// A worktree was removed by us.
        WORKTREE_REMOVED = "worktree.removed";
        /// The store was compacted.
        STORE_VACUUMED = "store.vacuumed";
        /// A write was made only to see how long it takes.
        STORE_PROBED = "store.probed";
        /// The store's time jumped, and deadlines moved along.
        STORE_CLOCK_MOVED = "store.clock_moved";
        /// The store's time was ahead of the real one, and was set back.
        STORE_CLOCK_REPAIRED = "store.clock_repaired";
        /// A person confirmed that the store goes on, on a server that may lack acknowledged writes.
        STORE_FAILOVER_ACCEPTED = "store.failover_accepted";
        /// A workflow was made.
        WORKFLOW_CREATED = "workflow.created";
        /// A workflow got its tasks.
        WORKFLOW_PLANNED = "workflow.planned";
        /// A workflow's remaining tasks were planned anew.
        WORKFLOW_REPLANNED = "workflow.replanned";
        /// A workflow's tasks can be claimed from now on.
        WORKFLOW_STARTED = "workflow.started";
        /// Nothing of a workflow can be claimed.
        WORKFLOW_PAUSED = "workflow.paused";
        /// A paused workflow goes on.
        WORKFLOW_RESUMED = "workflow.resumed";
        /// Everything is done and delivered, but not merged.
        WORKFLOW_AWAITS_MERGE = "workflow.awaits_merge";
        /// Every task is completed or skipped.
        WORKFLOW_COMPLETED = "workflow.completed";
        /// A task is dead and nothing else can run.
        WORKFLOW_FAILED = "workflow.failed";
        /// Somebody called it off.
        WORKFLOW_CANCELLED = "workflow.cancelled";
        /// One of its tasks was reopened after its end.
        WORKFLOW_REOPENED = "workflow.reopened";
        /// It concerns one more repository.
        WORKFLOW_REPOSITORY_ADDED = "workflow.repository_added";
        /// A task was planned.
        TASK_ADDED = "task.added";
        /// A task's plan was changed.
        TASK_CHANGED = "task.changed";
        /// A task was taken out of the plan.
        TASK_REMOVED = "task.removed";
        /// A task waits for another.
        TASK_DEPENDENCY_ADDED = "task.dependency_added";
        /// A task does not wait for another any more.
        TASK_DEPENDENCY_REMOVED = "task.dependency_removed";
        /// Somebody works on a task.
        TASK_CLAIMED = "task.claimed";
        /// Whoever held it gave it back.
        TASK_RELEASED = "task.released";
        /// Whoever held it set it aside.
        TASK_PAUSED = "task.paused";
        /// Nothing was heard of whoever held it.
        TASK_EXPIRED = "task.expired";
        /// A note was made.
        TASK_CHECKPOINTED = "task.checkpointed";
        /// It is done.
        TASK_COMPLETED = "task.completed";
        /// An attempt failed.
        TASK_FAILED = "task.failed";
        /// It can be tried again.
        TASK_REQUEUED = "task.requeued";
        /// No attempts remain.
        TASK_DIED = "task.died";
        /// It is not needed.
        TASK_SKIPPED = "task.skipped";
        /// It was called off.
        TASK_CANCELLED = "task.cancelled";
        /// It is to be done once more.
        TASK_REOPENED = "task.reopened";
        /// It has a question for a person.
        TASK_ASKED = "task.asked";
        /// The person answered.
        TASK_ANSWERED = "task.answered";
        /// Only one agent may claim it.
        TASK_ASSIGNED = "task.assigned";
        /// An agent was heard of for the first time, or says something new of itself.
        AGENT_REGISTERED = "agent.registered";
        /// An agent is alive.
        AGENT_HEARTBEAT = "agent.heartbeat";
        /// An agent was silent for too long.
        AGENT_OFFLINE = "agent.offline";
        /// An agent left for good.
        AGENT_RETIRED = "agent.retired";
        /// A message is in an inbox.
        MESSAGE_SENT = "message.sent";
        /// An inbox was shown.
        MESSAGE_PRESENTED = "message.presented";
        /// A message was opened.
        MESSAGE_READ = "message.read";
        /// Its recipient is done with it.
        MESSAGE_ACTED = "message.acted";
        /// A template was saved.
        TEMPLATE_SAVED = "template.saved";
        /// A workspace was written down, about to be made.
        WORKSPACE_CREATED = "workspace.created";
        /// A workspace is another: its status, its size, whether it is pinned.
        WORKSPACE_CHANGED = "workspace.changed";
        /// A job was asked for.
        JOB_CREATED = "job.created";
        /// Somebody watches over a job from now on.
        JOB_TAKEN = "job.taken";
        /// The command of a job was started.
        JOB_STARTED = "job.started";
        /// A job said how far it is.
        JOB_NOTED = "job.noted";
        /// Somebody called a job off.
        JOB_CANCELLED = "job.cancelled";
        /// A job ended.
        JOB_FINISHED = "job.finished";
        /// Somebody works on an issue.
        ISSUE_CLAIMED = "issue.claimed";
        /// Whoever worked on it gave it back.
        ISSUE_RELEASED = "issue.released";
        /// Nothing was heard of whoever worked on it.
        ISSUE_EXPIRED = "issue.expired";
        /// Its task is done, and the ledger has to be told.
        ISSUE_FINISHED = "issue.finished";
        /// The ledger was told.
        ISSUE_CLOSED = "issue.closed";
        /// A workflow went to another store; nothing happens to it here any more.
        WORKFLOW_MOVED = "workflow.moved";
        /// A workflow of another store was brought here.
        WORKFLOW_IMPORTED = "workflow.imported";
    }
}
