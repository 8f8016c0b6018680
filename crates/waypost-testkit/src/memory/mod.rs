//! The reference store in memory, for tests of rules and as the specification of the databases.

mod agents;
mod answers;
mod events;
mod jobs;
mod messages;
mod repositories;
mod tasks;
mod workflows;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use waypost_core::clock::{Anchor, Clock, Reading, Remembered};
use waypost_core::error::{Error, Result};
use waypost_core::id::{
    AgentId, CheckpointId, JobId, MessageId, RepositoryId, TaskId, TemplateId, WorkflowId, WorkspaceId, WorktreeId,
};
use waypost_core::model::{
    Agent, Checkpoint, DeferredChanges, Dependency, DependencyKind, Event, Job, Lease, LogPiece, Machine, Message,
    MessageState, Notice, Repository, SavedAnswer, Summary, Task, TaskStatus, Template, Workflow, Workspace, Worktree,
};
use waypost_core::page::Cursor;
use waypost_core::store::{AgentTx, Store, TaskTx, Tx};
use waypost_core::time::Timestamp;

/// A store in memory.
pub struct MemoryStore {
    clock: Box<dyn Clock>,
    rows: Rows,
}

#[derive(Clone, Default)]
struct Rows {
    repositories: BTreeMap<RepositoryId, Repository>,
    worktrees: BTreeMap<WorktreeId, Worktree>,
    events: Vec<Event>,
    workflows: BTreeMap<WorkflowId, Workflow>,
    workflow_repositories: BTreeSet<(WorkflowId, RepositoryId)>,
    tasks: BTreeMap<TaskId, Task>,
    dependencies: BTreeMap<(TaskId, TaskId), DependencyKind>,
    checkpoints: BTreeMap<CheckpointId, Checkpoint>,
    agents: BTreeMap<AgentId, Agent>,
    leases: BTreeMap<String, Lease>,
    messages: BTreeMap<MessageId, Message>,
    templates: BTreeMap<TemplateId, Template>,
    answers: BTreeMap<String, SavedAnswer>,
    notices: BTreeMap<String, Notice>,
    deferred: BTreeMap<String, DeferredChanges>,
    jobs: BTreeMap<JobId, Job>,
    logs: BTreeMap<(JobId, u64), LogPiece>,
    machines: BTreeMap<String, Machine>,
    workspaces: BTreeMap<WorkspaceId, Workspace>,
    summaries: BTreeMap<String, Summary>,
    anchor: Anchor,
    epoch_floor: u64,
}

impl MemoryStore {
    /// Makes an empty store.
    pub fn new(clock: Box<dyn Clock>) -> Self {
        MemoryStore { clock, rows: Rows::default() }
    }
}

impl Store for MemoryStore {
    fn begin_read(&mut self) -> Result<Box<dyn Tx + '_>> {
        self.begin_write()
    }

    fn begin_write(&mut self) -> Result<Box<dyn Tx + '_>> {
        let rows = self.rows.clone();
        Ok(Box::new(MemoryTx { store: self, rows, savepoint: None, writes_calls: Cell::new(0) }))
    }

    fn wait(&mut self, _last: u64, _timeout: Duration) -> Result<()> {
        // No other process can write to it.
        Ok(())
    }
}

struct MemoryTx<'a> {
    store: &'a mut MemoryStore,
    rows: Rows,
    savepoint: Option<Rows>,
    /// Number of calls of [`Tx::writes`]. Writes are not counted, so every call reports one more.
    writes_calls: Cell<u64>,
}

impl Tx for MemoryTx<'_> {
    fn clock(&mut self) -> Result<Reading> {
        Ok(self.store.clock.reading())
    }

    fn clock_get(&mut self) -> Result<Remembered> {
        let last = self.rows.events.last().map(|last| last.time);
        Ok(Remembered { anchor: self.rows.anchor.clone(), last })
    }

    fn anchor_put(&mut self, anchor: &Anchor) -> Result<()> {
        self.rows.anchor = anchor.clone();
        Ok(())
    }

    fn deadlines_shift(&mut self, by_ms: i64, now: Timestamp) -> Result<()> {
        // A deadline beyond this means never, and stays.
        let shifted = |moment: Timestamp| match moment.as_millis() {
            never @ 0x4000_0000_0000_0000.. => Timestamp::from_millis(never),
            millis => Timestamp::from_millis(millis.saturating_add(by_ms)),
        };
        let redated = |moment: Timestamp| moment.plus(by_ms.max(0).unsigned_abs()).min(now);
        for lease in self.rows.leases.values_mut().filter(|lease| lease.holder.is_some()) {
            lease.expires_at = shifted(lease.expires_at);
            (lease.run_until, lease.stall_at) = (lease.run_until.map(shifted), lease.stall_at.map(shifted));
        }
        for task in self.rows.tasks.values_mut() {
            task.due_at = task.due_at.map(shifted);
            if task.status == TaskStatus::Pending {
                task.queued_at = redated(task.queued_at);
            }
        }
        for agent in self.rows.agents.values_mut() {
            agent.silent_at = agent.silent_at.map(shifted);
        }
        for message in self.rows.messages.values_mut().filter(|message| message.state != MessageState::Acted) {
            message.expires_at = message.expires_at.map(shifted);
        }
        for answer in self.rows.answers.values_mut() {
            answer.created_at = redated(answer.created_at);
        }
        Ok(())
    }

    fn writes(&self) -> u64 {
        self.writes_calls.set(self.writes_calls.get() + 1);
        self.writes_calls.get()
    }

    fn mark(&mut self) -> Result<()> {
        self.savepoint = Some(self.rows.clone());
        Ok(())
    }

    fn undo(&mut self) -> Result<()> {
        self.rows = self.savepoint.clone().ok_or_else(|| Error::internal("the transaction has no savepoint"))?;
        Ok(())
    }

    fn due_count(&mut self, now: Timestamp) -> Result<u64> {
        let due = self.lease_list_due(now, u32::MAX)?.len()
            + self.task_list_due(now, u32::MAX)?.len()
            + self.agent_list_silent(now, u32::MAX)?.len();
        Ok(due as u64)
    }

    fn commit(self: Box<Self>) -> Result<()> {
        self.store.rows = self.rows;
        Ok(())
    }
}

impl MemoryTx<'_> {
    /// Returns whether a job works on a task that was planned in a worktree.
    fn is_work_of(&self, job: &Job, worktree: &WorktreeId) -> bool {
        let task = job.task_id.as_ref().and_then(|task| self.rows.tasks.get(task));
        task.is_some_and(|task| task.worktree_id == *worktree)
    }

    /// Returns the workflow of a job's task, if the task exists.
    fn workflow_of(&self, job: &Job) -> Option<&WorkflowId> {
        job.task_id.as_ref().and_then(|task| self.rows.tasks.get(task)).map(|task| &task.workflow_id)
    }

    /// Returns whether a job and its workspaces ended before a moment, and no live job retries it.
    fn is_over(&self, job: &Job, before: Timestamp) -> bool {
        let is_old = |moment: Option<Timestamp>| moment.is_some_and(|moment| moment < before);
        let mut workspaces = self.rows.workspaces.values().filter(|one| one.job_id.as_ref() == Some(&job.id));
        let is_retry = |other: &Job| other.retry_of.as_ref() == Some(&job.id) && other.finished_at.is_none();
        is_old(job.finished_at)
            && workspaces.all(|workspace| is_old(workspace.removed_at))
            && !self.rows.jobs.values().any(is_retry)
    }

    /// Returns whether something that is kept refers to a finished workflow.
    fn is_in_use(&self, id: &WorkflowId, before: Timestamp) -> bool {
        let is_own = |task: &TaskId| self.rows.tasks.get(task).is_some_and(|task| task.workflow_id == *id);
        let is_waiting = |message: &Message| {
            message.workflow_id.as_ref() == Some(id)
                && message.state == MessageState::Queued
                && message.expires_at.is_none_or(|expires_at| expires_at >= before)
        };
        self.rows.notices.values().any(|notice| notice.task_id.as_ref().is_some_and(is_own))
            || self
                .rows
                .leases
                .values()
                .any(|lease| lease.holder.is_some() && lease.subject.parse::<TaskId>().is_ok_and(|task| is_own(&task)))
            || self.rows.dependencies.keys().any(|(task, on)| is_own(on) && !is_own(task))
            || self.rows.messages.values().any(is_waiting)
            || self.rows.jobs.values().any(|job| self.workflow_of(job) == Some(id) && !self.is_over(job, before))
    }

    /// Returns whether the events of a subject are kept, if the records with certain ids did not exist.
    fn is_kept(&self, subject: &str, without: &[String]) -> bool {
        let rows = &self.rows;
        let exists = |id: &str| !without.iter().any(|other| other == id);
        let task = subject.parse::<TaskId>().ok().and_then(|id| rows.tasks.get(&id));
        let is_record = subject.parse().is_ok_and(|id| rows.workflows.contains_key(&id))
            || subject.parse().is_ok_and(|id| rows.jobs.contains_key(&id))
            || subject.parse().is_ok_and(|id| rows.workspaces.contains_key(&id))
            || subject.parse().is_ok_and(|id| rows.messages.contains_key(&id));
        (is_record && exists(subject))
            || task.is_some_and(|task| exists(task.workflow_id.as_str()))
            || rows.leases.get(subject).is_some_and(|lease| lease.holder.is_some())
    }

    fn need_worktree(&self, id: &WorktreeId) -> Result<()> {
        if self.rows.worktrees.contains_key(id) { Ok(()) } else { Err(unknown("worktree", id)) }
    }

    fn need_repository(&self, id: &RepositoryId) -> Result<()> {
        if self.rows.repositories.contains_key(id) { Ok(()) } else { Err(unknown("repository", id)) }
    }

    fn need_task(&self, id: &TaskId) -> Result<()> {
        if self.rows.tasks.contains_key(id) { Ok(()) } else { Err(unknown("task", id)) }
    }

    fn need_agent(&self, id: &AgentId) -> Result<()> {
        if self.rows.agents.contains_key(id) { Ok(()) } else { Err(unknown("agent", id)) }
    }

    fn dependencies(&self, matches: impl Fn(&TaskId) -> bool) -> Vec<Dependency> {
        let all = self.rows.dependencies.iter().filter(|((task, _), _)| matches(task));
        all.map(|((task, on), kind)| Dependency { task_id: task.clone(), depends_on: on.clone(), kind: *kind })
            .collect()
    }

    fn inbox(&self, recipient: &AgentId, now: Timestamp) -> Vec<Message> {
        let is_there = |message: &&Message| {
            message.recipient == *recipient
                && message.state != MessageState::Acted
                && message.expires_at.is_none_or(|expires_at| expires_at > now)
        };
        let mut inbox: Vec<_> = self.rows.messages.values().filter(is_there).cloned().collect();
        inbox.sort_by_key(|message| message.number);
        inbox
    }
}

fn size(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn unknown(what: &str, id: impl std::fmt::Display) -> Error {
    Error::internal(format!("a row names the unknown {what} {id}"))
}

/// Returns whether a message was acknowledged or expired before a moment, and not changed since.
fn is_handled(message: &Message, before: Timestamp) -> bool {
    let is_expired = message.expires_at.is_some_and(|expires_at| expires_at < before);
    message.updated_at < before && (message.state == MessageState::Acted || is_expired)
}

/// Returns whether a record comes after a position of a list, newest first.
fn is_older<I: Ord>(after: Option<&Cursor<(Timestamp, I)>>, created_at: Timestamp, id: &I) -> bool {
    after.is_none_or(|Cursor((last, last_id))| (created_at, id) < (*last, last_id))
}
