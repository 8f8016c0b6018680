//! What the engine asks of a database.
//!
//! A backend is dumb: rows in, rows out, inside a transaction. All cleverness is above, once. Verbs are
//! noun_verb; each has a conformance case that every backend passes.

use std::time::Duration;

use crate::clock::{self, Anchor, Reading, Remembered};
use crate::error::Result;
use crate::id::{AgentId, JobId, MessageId, RepositoryId, TaskId, WorkflowId, WorkspaceId, WorktreeId};
use crate::model::{
    Agent, CandidateQuery, Checkpoint, Dependency, Event, EventQuery, Job, JobQuery, Lease, Message, NewEvent, Notice,
    Progress, Repository, SavedAnswer, Task, TaskStatus, Template, Workflow, WorkflowQuery, Workspace, WorkspaceQuery,
    Worktree,
};
use crate::time::Timestamp;

/// A database of everything that is live.
pub trait Store {
    /// Begins a transaction that only reads, on one consistent state.
    fn begin_read(&mut self) -> Result<Box<dyn Tx + '_>>;

    /// Begins a transaction that may write. Waits its turn; there is one at a time.
    fn begin_write(&mut self) -> Result<Box<dyn Tx + '_>>;

    /// Waits until somebody may have written after the event with this sequence, or until time is up. Only a hint: it
    /// may return too early, and whoever waits looks again.
    fn wait(&mut self, last: u64, at_most: Duration) -> Result<()>;

    /// Starts the timeout of one request. Until [`Store::end_request`], connecting, waiting for other writers and sending
    /// the request again all share it.
    fn begin_request(&mut self) {}

    /// Ends the timeout of the request.
    fn end_request(&mut self) {}

    /// Returns whether a request that did not get through may be sent again, after a short pause. Not after its timeout.
    fn may_retry(&mut self) -> bool {
        false
    }

    /// Frees the disk space that the store keeps for operations with `USES_RESERVE`. Returns whether there was any.
    fn free_reserve(&mut self) -> bool {
        false
    }

    /// Tells whether an acknowledgement can get lost on its way, so that a request has to be asked again under its key.
    fn is_remote(&self) -> bool {
        false
    }
}

/// A transaction. Dropping it undoes everything; only [`Tx::commit`] makes it last.
///
/// What fails for a rule of the database may say so later: a verb that writes need not wait for what becomes of it, but
/// the next that reads fails then, and so does the commit.
pub trait Tx {
    /// Returns what the clocks show that the store goes by.
    fn clock(&mut self) -> Result<Reading>;
    /// Returns what the store remembers of its time.
    fn clock_get(&mut self) -> Result<Remembered>;
    /// Replaces how the store's time hangs on a boot clock.
    fn anchor_put(&mut self, anchor: &Anchor) -> Result<()>;
    /// Moves the deadlines of held leases, tasks, agents and messages by a time. Remembered answers and the places of
    /// waiting tasks move too, but never back, and never beyond a moment.
    fn deadlines_shift(&mut self, by_ms: i64, now: Timestamp) -> Result<()>;

    /// Returns the store's time: never earlier than that of the last event.
    fn now(&mut self) -> Result<Timestamp> {
        Ok(clock::store_time(&self.clock_get()?, &self.clock()?).now)
    }

    /// Is told what will be asked next, by asking it: nothing is answered yet, but a database on another machine fetches
    /// all of it at once. Nothing may depend on an answer, and nothing may be written.
    fn prefetch(&mut self, questions: &mut dyn FnMut(&mut dyn Tx) -> Result<()>) -> Result<()> {
        let _ = questions;
        Ok(())
    }

    /// Returns how often it has written so far, or seems to have.
    fn writes(&self) -> u64;

    /// Marks this moment, in place of an earlier one.
    fn mark(&mut self) -> Result<()>;
    /// Undoes everything since the marked moment, a failure too. The transaction goes on from there.
    fn undo(&mut self) -> Result<()>;

    /// Returns a repository.
    fn repository_get(&mut self, id: &RepositoryId) -> Result<Option<Repository>>;
    /// Inserts a repository, or replaces the one with its id.
    fn repository_put(&mut self, repository: &Repository) -> Result<()>;
    /// Returns all repositories, ordered by name, then id.
    fn repository_list(&mut self) -> Result<Vec<Repository>>;
    /// Deletes a repository that nothing refers to.
    fn repository_remove(&mut self, id: &RepositoryId) -> Result<()>;

    /// Returns a worktree.
    fn worktree_get(&mut self, id: &WorktreeId) -> Result<Option<Worktree>>;
    /// Inserts a worktree, or replaces the one with its id. Its repository must be there.
    fn worktree_put(&mut self, worktree: &Worktree) -> Result<()>;
    /// Sets when a worktree last wrote.
    fn worktree_touch(&mut self, id: &WorktreeId, last_seen: Timestamp) -> Result<()>;
    /// Returns all worktrees, in the order in which they were first seen, then by name and id.
    fn worktree_list(&mut self) -> Result<Vec<Worktree>>;

    /// Appends to the history and returns the sequence. Its worktree must be there.
    fn event_append(&mut self, event: &NewEvent) -> Result<u64>;
    /// Returns events.
    fn event_list(&mut self, query: &EventQuery) -> Result<Vec<Event>>;
    /// Returns the sequence of the newest event, 0 if there is none.
    fn event_last(&mut self) -> Result<u64>;

    /// Returns how many leases, tasks and agents something happens to by itself at a moment.
    fn due_count(&mut self, now: Timestamp) -> Result<u64>;

    /// Inserts a workflow, or replaces the one with its id.
    fn workflow_put(&mut self, workflow: &Workflow) -> Result<()>;
    /// Returns a workflow.
    fn workflow_get(&mut self, id: &WorkflowId) -> Result<Option<Workflow>>;
    /// Returns the workflows with these ids, by id.
    fn workflow_list_by_id(&mut self, ids: &[WorkflowId]) -> Result<Vec<Workflow>>;
    /// Returns workflows, newest first.
    fn workflow_list(&mut self, query: &WorkflowQuery) -> Result<Vec<Workflow>>;
    /// Notes that a workflow concerns a repository.
    fn workflow_repository_put(&mut self, workflow: &WorkflowId, repository: &RepositoryId) -> Result<()>;
    /// Returns the repositories that a workflow concerns, by id.
    fn workflow_repository_list(&mut self, workflow: &WorkflowId) -> Result<Vec<RepositoryId>>;
    /// Returns the repositories that several workflows concern, by workflow id and repository id.
    fn workflow_repository_list_in(&mut self, workflows: &[WorkflowId]) -> Result<Vec<(WorkflowId, RepositoryId)>>;

    /// Inserts a task, or replaces the one with its id.
    fn task_put(&mut self, task: &Task) -> Result<()>;
    /// Replaces how far a task got, which is much less to write than all of it.
    fn task_advance(&mut self, id: &TaskId, progress: &Progress<'_>) -> Result<()>;
    /// Returns a task.
    fn task_get(&mut self, id: &TaskId) -> Result<Option<Task>>;
    /// Returns the tasks with these ids, by id.
    fn task_list_by_id(&mut self, ids: &[TaskId]) -> Result<Vec<Task>>;
    /// Deletes a task that has no dependencies and no checkpoints.
    fn task_remove(&mut self, id: &TaskId) -> Result<()>;
    /// Returns the tasks of a workflow, in the order of the plan.
    fn task_list(&mut self, workflow: &WorkflowId) -> Result<Vec<Task>>;
    /// Returns the tasks of several workflows, by workflow id and then in the order of the plan.
    fn task_list_in_workflows(&mut self, workflows: &[WorkflowId]) -> Result<Vec<Task>>;
    /// Returns the first tasks of a workflow in the order of the plan: what they are called, and how far they got.
    fn task_list_names(&mut self, workflow: &WorkflowId, limit: u32) -> Result<Vec<(TaskId, String, TaskStatus)>>;
    /// Returns the tasks of one name in all workflows, newest first.
    fn task_list_named(&mut self, name: &str, limit: u32) -> Result<Vec<Task>>;
    /// Returns the tasks in one status in all workflows, last changed first.
    fn task_list_in(&mut self, status: TaskStatus, limit: u32) -> Result<Vec<Task>>;
    /// Returns tasks that can be claimed: pending, in a running workflow, waiting for nothing. The most urgent first,
    /// then those that were queued first, then in the order of the plan.
    fn task_list_claimable(&mut self, query: &CandidateQuery) -> Result<Vec<Task>>;
    /// Returns the tasks to which something happens by itself at a moment, the earliest first.
    fn task_list_due(&mut self, now: Timestamp, limit: u32) -> Result<Vec<Task>>;
    /// Returns how many tasks of a workflow are in each status.
    fn task_count(&mut self, workflow: &WorkflowId) -> Result<Vec<(TaskStatus, u64)>>;

    /// Returns how many tasks of several workflows are in each status, by workflow id and status.
    fn task_count_in_workflows(&mut self, workflows: &[WorkflowId]) -> Result<Vec<(WorkflowId, TaskStatus, u64)>>;

    /// Returns the statuses that tasks of a workflow are in, which takes no longer for many tasks than for few.
    fn task_list_statuses(&mut self, workflow: &WorkflowId) -> Result<Vec<TaskStatus>>;

    /// Inserts a dependency, or replaces the one between the same tasks.
    fn dependency_put(&mut self, dependency: &Dependency) -> Result<()>;
    /// Deletes a dependency.
    fn dependency_remove(&mut self, task: &TaskId, depends_on: &TaskId) -> Result<()>;
    /// Returns all dependencies of a workflow's tasks, by id.
    fn dependency_list(&mut self, workflow: &WorkflowId) -> Result<Vec<Dependency>>;
    /// Returns all dependencies of the tasks of several workflows, by id.
    fn dependency_list_in_workflows(&mut self, workflows: &[WorkflowId]) -> Result<Vec<Dependency>>;
    /// Returns what a task depends on, by id.
    fn dependency_list_of(&mut self, task: &TaskId) -> Result<Vec<Dependency>>;
    /// Returns what each of these tasks depends on, by id.
    fn dependency_list_by_task(&mut self, tasks: &[TaskId]) -> Result<Vec<Dependency>>;

    /// Inserts a checkpoint.
    fn checkpoint_put(&mut self, checkpoint: &Checkpoint) -> Result<()>;
    /// Returns the checkpoints of a task before a sequence, the latest first.
    fn checkpoint_list(&mut self, task: &TaskId, before: Option<u32>, limit: u32) -> Result<Vec<Checkpoint>>;

    /// Inserts an agent, or replaces the one with its id.
    fn agent_put(&mut self, agent: &Agent) -> Result<()>;
    /// Replaces what a sign of life changes of an agent: its status, when it came, and until when the next must.
    fn agent_touch(&mut self, agent: &Agent) -> Result<()>;
    /// Returns an agent.
    fn agent_get(&mut self, id: &AgentId) -> Result<Option<Agent>>;
    /// Returns the agent of a name.
    fn agent_named(&mut self, name: &str) -> Result<Option<Agent>>;
    /// Returns all agents, by name.
    fn agent_list(&mut self) -> Result<Vec<Agent>>;
    /// Returns the agents that have been silent for too long at a moment, the longest first.
    fn agent_list_silent(&mut self, now: Timestamp, limit: u32) -> Result<Vec<Agent>>;

    /// Inserts a lease, or replaces the one on the same subject.
    fn lease_put(&mut self, lease: &Lease) -> Result<()>;
    /// Returns the lease on a subject, held or not.
    fn lease_get(&mut self, subject: &str) -> Result<Option<Lease>>;
    /// Returns the leases that somebody holds, by subject; of one agent, or of all.
    fn lease_list(&mut self, holder: Option<&AgentId>) -> Result<Vec<Lease>>;
    /// Returns the leases on the tasks of several workflows, held or not, by subject.
    fn lease_list_in_workflows(&mut self, workflows: &[WorkflowId]) -> Result<Vec<Lease>>;
    /// Returns the leases on these tasks, held or not, by subject.
    fn lease_list_by_task(&mut self, tasks: &[TaskId]) -> Result<Vec<Lease>>;
    /// Returns the held leases whose deadline has passed at a moment, the earliest first.
    fn lease_list_due(&mut self, now: Timestamp, limit: u32) -> Result<Vec<Lease>>;

    /// Makes the server that the store is on the one that it knows, and returns the one before and this one. None if the
    /// store is not on a server.
    fn server_accept(&mut self) -> Result<Option<(String, String)>> {
        Ok(None)
    }

    /// Returns the epoch that every new lease must exceed.
    fn epoch_floor(&mut self) -> Result<u64>;
    /// Replaces the epoch that every new lease must exceed.
    fn epoch_floor_put(&mut self, epoch: u64) -> Result<()>;
    /// Returns the highest epoch of all leases, held or not, 0 if there is none.
    fn lease_max_epoch(&mut self) -> Result<u64>;

    /// Inserts a message, or replaces the one with its id.
    fn message_put(&mut self, message: &Message) -> Result<()>;
    /// Returns a message.
    fn message_get(&mut self, id: &MessageId) -> Result<Option<Message>>;
    /// Returns the number of the newest message, 0 if there is none.
    fn message_last(&mut self) -> Result<u64>;
    /// Returns what is in an inbox at a moment, in order: not acted on, not expired.
    fn message_list(&mut self, recipient: &AgentId, now: Timestamp, limit: u32) -> Result<Vec<Message>>;
    /// Returns how many messages [`Tx::message_list`] would return without a limit.
    fn message_count(&mut self, recipient: &AgentId, now: Timestamp) -> Result<u64>;
    /// Returns what [`Tx::message_count`] would return for each agent, by id; agents without messages are left out.
    fn message_count_by_recipient(&mut self, now: Timestamp) -> Result<Vec<(AgentId, u64)>>;
    /// Returns the messages about a workflow, in order.
    fn message_list_about(&mut self, workflow: &WorkflowId) -> Result<Vec<Message>>;
    /// Lets messages about a task be about its workflow alone: the task is about to go.
    fn message_detach(&mut self, task: &TaskId) -> Result<()>;
    /// Returns a conversation, in order.
    fn message_list_thread(&mut self, thread: &MessageId) -> Result<Vec<Message>>;

    /// Inserts a template.
    fn template_put(&mut self, template: &Template) -> Result<()>;
    /// Returns the latest version of each template, by name; of one name, or of all.
    fn template_list(&mut self, name: Option<&str>) -> Result<Vec<Template>>;

    /// Remembers an answer.
    fn answer_put(&mut self, answer: &SavedAnswer) -> Result<()>;
    /// Returns the answer that was given under a key.
    fn answer_get(&mut self, key: &str) -> Result<Option<SavedAnswer>>;
    /// Forgets answers that were given before a moment.
    fn answer_forget(&mut self, before: Timestamp) -> Result<()>;

    /// Inserts what the ledger has to be told, or replaces the news of the same issue.
    fn notice_put(&mut self, notice: &Notice) -> Result<()>;
    /// Returns what the ledger has still to be told, the oldest first.
    fn notice_list(&mut self) -> Result<Vec<Notice>>;
    /// Deletes what the ledger was told.
    fn notice_remove(&mut self, issue: &str) -> Result<()>;

    /// Inserts a job, or replaces the one with its id.
    fn job_put(&mut self, job: &Job) -> Result<()>;
    /// Returns a job.
    fn job_get(&mut self, id: &JobId) -> Result<Option<Job>>;
    /// Returns jobs, newest first.
    fn job_list(&mut self, query: &JobQuery) -> Result<Vec<Job>>;

    /// Inserts a workspace, or replaces the one with its id.
    fn workspace_put(&mut self, workspace: &Workspace) -> Result<()>;
    /// Returns a workspace.
    fn workspace_get(&mut self, id: &WorkspaceId) -> Result<Option<Workspace>>;
    /// Returns workspaces, newest first.
    fn workspace_list(&mut self, query: &WorkspaceQuery) -> Result<Vec<Workspace>>;

    /// Makes everything last. When this returns, it is on disk. After a verb has failed, databases refuse it.
    fn commit(self: Box<Self>) -> Result<()>;
}
