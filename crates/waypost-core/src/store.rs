//! The traits that a database implements.
//!
//! A backend only reads and writes rows inside a transaction. The rules are in the operations, the same for every
//! backend. The methods of [`Tx`] are named `noun_verb`; each has a conformance case that every backend passes.

use std::time::Duration;

use crate::clock::{self, Anchor, Reading, Remembered};
use crate::error::Result;
use crate::id::{AgentId, JobId, MessageId, RepositoryId, TaskId, WorkflowId, WorkspaceId, WorktreeId};
use crate::model::{
    Agent, CandidateQuery, Checkpoint, DeferredChanges, Dependency, Event, EventQuery, Job, JobQuery, Lease, LogPiece,
    Machine, Message, NewEvent, Notice, PlanPart, Progress, Repository, SavedAnswer, Summary, Task, TaskPlace,
    TaskStatus, Template, Workflow, WorkflowQuery, Workspace, WorkspaceQuery, Worktree,
};
use crate::time::Timestamp;

/// A database of live records.
pub trait Store {
    /// Begins a read transaction on one consistent snapshot.
    fn begin_read(&mut self) -> Result<Box<dyn Tx + '_>>;

    /// Begins a write transaction. Waits for other writers: there is one at a time.
    fn begin_write(&mut self) -> Result<Box<dyn Tx + '_>>;

    /// Waits until a writer may have appended an event after this sequence, or until the timeout. It may return too
    /// early, so the caller has to check again.
    fn wait(&mut self, last: u64, timeout: Duration) -> Result<()>;

    /// Starts the timeout of one request. Until [`Store::end_request`], connecting, waiting for other writers and
    /// retries all share it.
    fn begin_request(&mut self) {}

    /// Ends the timeout of the request.
    fn end_request(&mut self) {}

    /// Pauses before a retry of a failed request. Returns false after the request's timeout.
    fn may_retry(&mut self) -> bool {
        false
    }

    /// Frees the disk space that the store keeps for operations with `USES_RESERVE`. Returns whether there was any.
    fn free_reserve(&mut self) -> bool {
        false
    }

    /// Returns whether an acknowledgement can get lost, so that a request has to be retried with its key.
    fn is_remote(&self) -> bool {
        false
    }
}

/// A transaction. Dropping it rolls everything back; only [`Tx::commit`] makes it durable.
///
/// Writes may be pipelined: a constraint violation surfaces on the next read or at commit.
pub trait Tx {
    /// Returns a reading of the clocks that the store uses.
    fn clock(&mut self) -> Result<Reading>;
    /// Returns the stored clock state.
    fn clock_get(&mut self) -> Result<Remembered>;
    /// Replaces the anchor of the store's time.
    fn anchor_put(&mut self, anchor: &Anchor) -> Result<()>;
    /// Shifts the deadlines of held leases, tasks, agents and messages. The times of saved answers and pending tasks
    /// shift too, but never back, and never beyond `now`.
    fn deadlines_shift(&mut self, by_ms: i64, now: Timestamp) -> Result<()>;

    /// Returns the store's time, never earlier than the last event.
    fn now(&mut self) -> Result<Timestamp> {
        Ok(clock::store_time(&self.clock_get()?, &self.clock()?).now)
    }

    /// Prefetches the reads that the closure issues; they return empty results for now. A remote database fetches all
    /// of them in one round trip. The closure must not depend on a result and must not write.
    fn prefetch(&mut self, reads: &mut dyn FnMut(&mut dyn Tx) -> Result<()>) -> Result<()> {
        let _ = reads;
        Ok(())
    }

    /// Returns the number of writes so far. It may be too high.
    fn writes(&self) -> u64;

    /// Sets a savepoint, in place of an earlier one.
    fn mark(&mut self) -> Result<()>;
    /// Rolls back to the savepoint, even after a failure. The transaction continues from there.
    fn undo(&mut self) -> Result<()>;

    /// Returns a repository.
    fn repository_get(&mut self, id: &RepositoryId) -> Result<Option<Repository>>;
    /// Inserts a repository, or replaces the one with its id.
    fn repository_put(&mut self, repository: &Repository) -> Result<()>;
    /// Returns all repositories, ordered by name, then id.
    fn repository_list(&mut self) -> Result<Vec<Repository>>;
    /// Deletes a repository without references.
    fn repository_remove(&mut self, id: &RepositoryId) -> Result<()>;

    /// Returns a worktree.
    fn worktree_get(&mut self, id: &WorktreeId) -> Result<Option<Worktree>>;
    /// Inserts a worktree, or replaces the one with its id. Its repository must exist.
    fn worktree_put(&mut self, worktree: &Worktree) -> Result<()>;
    /// Sets when a worktree last wrote.
    fn worktree_touch(&mut self, id: &WorktreeId, last_seen: Timestamp) -> Result<()>;
    /// Returns all worktrees, ordered by registration, then name and id.
    fn worktree_list(&mut self) -> Result<Vec<Worktree>>;

    /// Appends to the history and returns the sequence. Its worktree must exist.
    fn event_append(&mut self, event: &NewEvent) -> Result<u64>;
    /// Returns events.
    fn event_list(&mut self, query: &EventQuery) -> Result<Vec<Event>>;
    /// Returns the sequence of the newest event, 0 if there is none.
    fn event_last(&mut self) -> Result<u64>;

    /// Returns how many leases, tasks and agents have a due transition at a moment.
    fn due_count(&mut self, now: Timestamp) -> Result<u64>;

    /// Inserts a workflow, or replaces the one with its id.
    fn workflow_put(&mut self, workflow: &Workflow) -> Result<()>;
    /// Returns a workflow.
    fn workflow_get(&mut self, id: &WorkflowId) -> Result<Option<Workflow>>;
    /// Returns the workflows with these ids, by id.
    fn workflow_list_by_id(&mut self, ids: &[WorkflowId]) -> Result<Vec<Workflow>>;
    /// Returns workflows, newest first.
    fn workflow_list(&mut self, query: &WorkflowQuery) -> Result<Vec<Workflow>>;
    /// Adds a repository to a workflow.
    fn workflow_repository_put(&mut self, workflow: &WorkflowId, repository: &RepositoryId) -> Result<()>;
    /// Removes a repository from a workflow.
    fn workflow_repository_remove(&mut self, workflow: &WorkflowId, repository: &RepositoryId) -> Result<()>;
    /// Returns the repositories of a workflow, by id.
    fn workflow_repository_list(&mut self, workflow: &WorkflowId) -> Result<Vec<RepositoryId>>;
    /// Returns the repositories of several workflows, by workflow id and repository id.
    fn workflow_repository_list_in(&mut self, workflows: &[WorkflowId]) -> Result<Vec<(WorkflowId, RepositoryId)>>;

    /// Inserts a task, or replaces the one with its id.
    fn task_put(&mut self, task: &Task) -> Result<()>;
    /// Replaces the progress of a task, which is much less to write than the whole task.
    fn task_advance(&mut self, id: &TaskId, progress: &Progress<'_>) -> Result<()>;
    /// Returns a task.
    fn task_get(&mut self, id: &TaskId) -> Result<Option<Task>>;
    /// Returns the tasks with these ids, by id.
    fn task_list_by_id(&mut self, ids: &[TaskId]) -> Result<Vec<Task>>;
    /// Deletes a task that has no dependencies and no checkpoints.
    fn task_remove(&mut self, id: &TaskId) -> Result<()>;
    /// Returns the tasks of a workflow, in plan order.
    fn task_list(&mut self, workflow: &WorkflowId) -> Result<Vec<Task>>;
    /// Returns a part of the tasks of a workflow, in plan order. The time taken does not depend on the tasks after it.
    fn task_list_part(&mut self, part: &PlanPart) -> Result<Vec<Task>>;
    /// Returns the number of tasks of such a part, regardless of its limit.
    fn task_count_part(&mut self, part: &PlanPart) -> Result<u64>;
    /// Returns the tasks of several workflows, by workflow id and then in plan order.
    fn task_list_in_workflows(&mut self, workflows: &[WorkflowId]) -> Result<Vec<Task>>;
    /// Returns the id, name and status of the first tasks of a workflow, in plan order.
    fn task_list_names(&mut self, workflow: &WorkflowId, limit: u32) -> Result<Vec<(TaskId, String, TaskStatus)>>;
    /// Returns the tasks with a name in all workflows, newest first.
    fn task_list_named(&mut self, name: &str, limit: u32) -> Result<Vec<Task>>;
    /// Returns the tasks with a status in all workflows, of a place, last changed first.
    fn task_list_in(&mut self, status: TaskStatus, place: &TaskPlace, limit: u32) -> Result<Vec<Task>>;
    /// Returns claimable tasks: pending, not blocked, in a running workflow. Ordered by priority, then queue time, then
    /// plan order.
    fn task_list_claimable(&mut self, query: &CandidateQuery) -> Result<Vec<Task>>;
    /// Returns the tasks with a due transition at a moment, the earliest first.
    fn task_list_due(&mut self, now: Timestamp, limit: u32) -> Result<Vec<Task>>;
    /// Returns the number of tasks of a workflow by status.
    fn task_count(&mut self, workflow: &WorkflowId) -> Result<Vec<(TaskStatus, u64)>>;
    /// Returns the number of tasks of several workflows, by workflow id and status.
    fn task_count_in_workflows(&mut self, workflows: &[WorkflowId]) -> Result<Vec<(WorkflowId, TaskStatus, u64)>>;
    /// Returns the distinct statuses of a workflow's tasks. The time taken does not depend on the number of tasks.
    fn task_list_statuses(&mut self, workflow: &WorkflowId) -> Result<Vec<TaskStatus>>;

    /// Inserts a dependency, or replaces the one between the same tasks.
    fn dependency_put(&mut self, dependency: &Dependency) -> Result<()>;
    /// Deletes a dependency.
    fn dependency_remove(&mut self, task: &TaskId, depends_on: &TaskId) -> Result<()>;
    /// Returns all dependencies of a workflow's tasks, by id.
    fn dependency_list(&mut self, workflow: &WorkflowId) -> Result<Vec<Dependency>>;
    /// Returns all dependencies of the tasks of several workflows, by id.
    fn dependency_list_in_workflows(&mut self, workflows: &[WorkflowId]) -> Result<Vec<Dependency>>;
    /// Returns the dependencies of a task, by id.
    fn dependency_list_of(&mut self, task: &TaskId) -> Result<Vec<Dependency>>;
    /// Returns the dependencies of these tasks, by id.
    fn dependency_list_by_task(&mut self, tasks: &[TaskId]) -> Result<Vec<Dependency>>;

    /// Inserts a checkpoint.
    fn checkpoint_put(&mut self, checkpoint: &Checkpoint) -> Result<()>;
    /// Returns the checkpoints of a task before a sequence, the latest first.
    fn checkpoint_list(&mut self, task: &TaskId, before: Option<u32>, limit: u32) -> Result<Vec<Checkpoint>>;
    /// Returns the sequence of the latest checkpoint of a task; 0 if there is none.
    fn checkpoint_last(&mut self, task: &TaskId) -> Result<u32>;

    /// Inserts an agent, or replaces the one with its id.
    fn agent_put(&mut self, agent: &Agent) -> Result<()>;
    /// Replaces the times of an agent that a heartbeat changes: the last heartbeat, and when the agent is silent.
    fn agent_touch(&mut self, agent: &Agent) -> Result<()>;
    /// Returns an agent.
    fn agent_get(&mut self, id: &AgentId) -> Result<Option<Agent>>;
    /// Returns the agent with a name.
    fn agent_named(&mut self, name: &str) -> Result<Option<Agent>>;
    /// Returns all agents, by name.
    fn agent_list(&mut self) -> Result<Vec<Agent>>;
    /// Returns the agents whose heartbeat timed out at a moment, the earliest first.
    fn agent_list_silent(&mut self, now: Timestamp, limit: u32) -> Result<Vec<Agent>>;

    /// Inserts a lease, or replaces the one on the same subject.
    fn lease_put(&mut self, lease: &Lease) -> Result<()>;
    /// Replaces the fields of a lease that a renewal changes: when it ends, its duration, and the deadlines of its task.
    fn lease_renew(&mut self, lease: &Lease) -> Result<()>;
    /// Returns the lease on a subject, held or not.
    fn lease_get(&mut self, subject: &str) -> Result<Option<Lease>>;
    /// Returns the held leases of one agent or of all, by subject.
    fn lease_list(&mut self, holder: Option<&AgentId>) -> Result<Vec<Lease>>;
    /// Returns the leases on the tasks of several workflows, held or not, by subject.
    fn lease_list_in_workflows(&mut self, workflows: &[WorkflowId]) -> Result<Vec<Lease>>;
    /// Returns the leases on these tasks, held or not, by subject.
    fn lease_list_by_task(&mut self, tasks: &[TaskId]) -> Result<Vec<Lease>>;
    /// Returns the held leases whose deadline has passed at a moment, the earliest first.
    fn lease_list_due(&mut self, now: Timestamp, limit: u32) -> Result<Vec<Lease>>;

    /// Records the current database server as the accepted one. Returns the previous and the current server, or none if
    /// the store is not on a server.
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
    /// Returns the messages of an inbox with a higher number that are neither acknowledged nor expired at a moment, in order.
    fn message_list(&mut self, recipient: &AgentId, now: Timestamp, after: u64, limit: u32) -> Result<Vec<Message>>;
    /// Returns how many messages [`Tx::message_list`] would return from the first one without a limit.
    fn message_count(&mut self, recipient: &AgentId, now: Timestamp) -> Result<u64>;
    /// Returns the [`Tx::message_count`] of each agent, by id, without agents that have no messages.
    fn message_count_by_recipient(&mut self, now: Timestamp) -> Result<Vec<(AgentId, u64)>>;
    /// Returns the messages about a workflow, in order.
    fn message_list_about(&mut self, workflow: &WorkflowId) -> Result<Vec<Message>>;
    /// Removes the reference to a task from its messages, before the task is deleted.
    fn message_detach(&mut self, task: &TaskId) -> Result<()>;
    /// Returns the messages of a thread, in order.
    fn message_list_thread(&mut self, thread: &MessageId) -> Result<Vec<Message>>;

    /// Inserts a template.
    fn template_put(&mut self, template: &Template) -> Result<()>;
    /// Returns the latest version of each template, by name; of one name, or of all.
    fn template_list(&mut self, name: Option<&str>) -> Result<Vec<Template>>;

    /// Saves an answer.
    fn answer_put(&mut self, answer: &SavedAnswer) -> Result<()>;
    /// Returns the answer saved under a key.
    fn answer_get(&mut self, key: &str) -> Result<Option<SavedAnswer>>;
    /// Deletes answers that were saved before a moment.
    fn answer_forget(&mut self, before: Timestamp) -> Result<()>;

    /// Inserts a notice, or replaces the one for the same issue.
    fn notice_put(&mut self, notice: &Notice) -> Result<()>;
    /// Returns all undelivered notices, the oldest first.
    fn notice_list(&mut self) -> Result<Vec<Notice>>;
    /// Deletes the delivered notice for an issue.
    fn notice_remove(&mut self, issue: &str) -> Result<()>;

    /// Inserts deferred changes, or replaces those with the same key.
    fn deferred_put(&mut self, deferred: &DeferredChanges) -> Result<()>;
    /// Returns all deferred changes in the order of delivery.
    fn deferred_list(&mut self) -> Result<Vec<DeferredChanges>>;
    /// Deletes deferred changes by their key.
    fn deferred_remove(&mut self, key: &str) -> Result<()>;

    /// Inserts a job, or replaces the one with its id.
    fn job_put(&mut self, job: &Job) -> Result<()>;
    /// Returns a job.
    fn job_get(&mut self, id: &JobId) -> Result<Option<Job>>;
    /// Returns jobs, newest first.
    fn job_list(&mut self, query: &JobQuery) -> Result<Vec<Job>>;

    /// Inserts a piece of a job's output, or replaces the one with the same first byte.
    fn log_put(&mut self, piece: &LogPiece) -> Result<()>;
    /// Returns the pieces of a job's output that end after a position, in order.
    fn log_list(&mut self, job: &JobId, after: u64, limit: u32) -> Result<Vec<LogPiece>>;
    /// Returns the last piece of a job's output.
    fn log_last(&mut self, job: &JobId) -> Result<Option<LogPiece>>;
    /// Deletes the pieces of a job's output that end at or before a position.
    fn log_trim(&mut self, job: &JobId, before: u64) -> Result<()>;

    /// Inserts a machine, or replaces the one with its name.
    fn machine_put(&mut self, machine: &Machine) -> Result<()>;
    /// Returns a machine.
    fn machine_get(&mut self, name: &str) -> Result<Option<Machine>>;
    /// Returns all machines, by name.
    fn machine_list(&mut self) -> Result<Vec<Machine>>;

    /// Inserts a workspace, or replaces the one with its id.
    fn workspace_put(&mut self, workspace: &Workspace) -> Result<()>;
    /// Returns a workspace.
    fn workspace_get(&mut self, id: &WorkspaceId) -> Result<Option<Workspace>>;
    /// Returns workspaces, newest first.
    fn workspace_list(&mut self, query: &WorkspaceQuery) -> Result<Vec<Workspace>>;

    /// Returns the ids of messages that were handled before a moment, with their times of creation, by thread: acknowledged
    /// or expired, and not changed since. A thread is returned as a whole or not at all; the limit counts threads.
    fn message_list_handled(&mut self, before: Timestamp, limit: u32) -> Result<Vec<(MessageId, Timestamp)>>;
    /// Deletes messages that no other message answers.
    fn message_remove(&mut self, ids: &[MessageId]) -> Result<()>;
    /// Returns workflows that ended before a moment and that nothing live refers to, the earliest first: no notice, held
    /// lease, queued message or task of another workflow, and none of its jobs is kept by [`Tx::job_list_removable`].
    fn workflow_list_removable(&mut self, before: Timestamp, limit: u32) -> Result<Vec<Workflow>>;
    /// Deletes workflows with their tasks, dependencies, checkpoints and leases. Messages about them stay, without the
    /// reference.
    fn workflow_remove(&mut self, ids: &[WorkflowId]) -> Result<()>;
    /// Returns the jobs of the tasks of several workflows, by id.
    fn job_list_in_workflows(&mut self, workflows: &[WorkflowId]) -> Result<Vec<Job>>;
    /// Returns jobs of no existing task that may be removed, the earliest first: they ended before a moment, their
    /// workspaces were removed before it, and no live job retries them.
    fn job_list_removable(&mut self, before: Timestamp, limit: u32) -> Result<Vec<Job>>;
    /// Deletes jobs.
    fn job_remove(&mut self, ids: &[JobId]) -> Result<()>;
    /// Returns the ids of the workspaces of several jobs.
    fn workspace_list_by_job(&mut self, jobs: &[JobId]) -> Result<Vec<WorkspaceId>>;
    /// Returns the ids of workspaces of no existing job that were removed before a moment, the earliest first.
    fn workspace_list_removable(&mut self, before: Timestamp, limit: u32) -> Result<Vec<WorkspaceId>>;
    /// Deletes the records of workspaces.
    fn workspace_remove(&mut self, ids: &[WorkspaceId]) -> Result<()>;
    /// Returns sequence, time and kind of events before a moment that may be removed, the oldest first: they are about no
    /// existing workflow, task, job, workspace or message, and not about a leased issue.
    fn event_list_removable(&mut self, before: Timestamp, limit: u32) -> Result<Vec<(u64, Timestamp, String)>>;
    /// Returns how many events [`Tx::event_list_removable`] would return without a limit if the workflows, jobs, workspaces
    /// and messages with these ids did not exist.
    fn event_count_removable(&mut self, before: Timestamp, without: &[String]) -> Result<u64>;
    /// Deletes events before a moment by their sequence. The newest event always stays.
    fn event_remove(&mut self, before: Timestamp, sequences: &[u64]) -> Result<()>;
    /// Inserts a summary, or replaces the one of the same subject.
    fn summary_put(&mut self, summary: &Summary) -> Result<()>;
    /// Returns the summary of a subject.
    fn summary_get(&mut self, subject: &str) -> Result<Option<Summary>>;
    /// Returns the summaries of these subjects, by subject.
    fn summary_list_by_subject(&mut self, subjects: &[String]) -> Result<Vec<Summary>>;
    /// Returns summaries, the last removed first.
    fn summary_list(&mut self, limit: u32) -> Result<Vec<Summary>>;

    /// Commits. When this returns, everything is on disk. Fails if an earlier call in this transaction failed.
    fn commit(self: Box<Self>) -> Result<()>;
}
