//! The verbs of a transaction, over any SQL database.
//!
//! What a database has to know for itself, it says through [`Database`]; what a row looks like is here, once.

use waypost_core::clock::{Anchor, Doubt, Reading, Remembered};
use waypost_core::id::{AgentId, JobId, MessageId, RepositoryId, TaskId, WorkflowId, WorkspaceId, WorktreeId};
use waypost_core::model::{
    Agent, CandidateQuery, Checkpoint, Dependency, Event, EventQuery, Job, JobQuery, JobStatus, Lease, Message,
    NewEvent, Notice, Progress, Repository, SavedAnswer, Task, TaskStatus, Template, Workflow, WorkflowQuery,
    Workspace, WorkspaceQuery, Worktree,
};
use waypost_core::path_text;
use waypost_core::store::Tx;
use waypost_core::time::Timestamp;
use waypost_core::{Error, Result};

use crate::cell::{Cell, Row, cells, json};
use crate::rows::{
    agent, answer, checkpoint, dependency, event, job, lease, message, notice, repository, task, template, workflow,
    workspace, worktree,
};
use crate::sql;

/// A statement that reads, with its parameters.
pub(crate) type Question = (&'static str, Vec<Cell>);

/// What can be done with a part of a transaction that can be undone.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    /// Begins it.
    Set,
    /// Makes it one with the rest.
    Release,
    /// Undoes it, and begins it anew.
    Undo,
}

impl Mark {
    pub(crate) fn sql(self) -> &'static str {
        match self {
            Mark::Set => "SAVEPOINT mark",
            Mark::Release => "RELEASE SAVEPOINT mark",
            Mark::Undo => "ROLLBACK TO SAVEPOINT mark",
        }
    }
}

/// A transaction of a database that speaks SQL.
pub(crate) trait Database {
    /// Runs a statement that reads, and returns its rows.
    fn query(&mut self, sql: &'static str, parameters: &[Cell]) -> Result<Vec<Row>>;
    /// Tells whether it takes long to ask, so that several questions had better be asked at once.
    fn is_far(&self) -> bool {
        false
    }
    /// Fetches at once what is going to be asked.
    fn prefetch(&mut self, _: Vec<Question>) -> Result<()> {
        Ok(())
    }
    /// Runs a statement that writes. That it failed may be told by whatever comes next.
    fn run(&mut self, sql: &'static str, parameters: &[Cell]) -> Result<()>;
    /// Marks a moment, or goes back to it.
    fn mark(&mut self, mark: Mark) -> Result<()>;
    /// Returns what the clocks show that all who use the store go by.
    fn clock(&mut self) -> Result<Reading>;
    /// Makes the server that it is on the one that the store knows, and returns the one before and this one.
    fn accept_server(&mut self) -> Result<Option<(String, String)>> {
        Ok(None)
    }
    /// Makes everything last.
    fn commit(self: Box<Self>) -> Result<()>;
}

pub(crate) struct SqlTx<'a> {
    database: Box<dyn Database + 'a>,
    /// The store's state, once it was read. No other transaction can change it: writers take turns, and readers see one
    /// state.
    state: Option<State>,
    writes: u64,
    has_failed: bool,
    is_marked: bool,
    /// What `state` was at the moment that was marked.
    marked: Option<State>,
    /// What is going to be asked, while somebody tells that.
    prefetched: Option<Vec<Question>>,
}

/// What the store says of itself as a whole.
#[derive(Clone)]
struct State {
    /// The sequence of the last event; before the first one, 0.
    sequence: u64,
    clock: Remembered,
    epoch_floor: u64,
}

impl<'a> SqlTx<'a> {
    pub(crate) fn new(database: impl Database + 'a) -> SqlTx<'a> {
        SqlTx {
            database: Box::new(database),
            state: None,
            writes: 0,
            has_failed: false,
            is_marked: false,
            marked: None,
            prefetched: None,
        }
    }

    fn all<T>(&mut self, sql: &'static str, parameters: &[Cell], read: fn(&mut Row) -> Result<T>) -> Result<Vec<T>> {
        self.query(sql, parameters)?.iter_mut().map(read).collect()
    }

    fn one<T>(&mut self, sql: &'static str, parameters: &[Cell], read: fn(&mut Row) -> Result<T>) -> Result<Option<T>> {
        self.query(sql, parameters)?.first_mut().map(read).transpose()
    }

    fn run(&mut self, sql: &'static str, parameters: &[Cell]) -> Result<()> {
        self.writes += 1;
        let done = check(parameters).and_then(|()| self.database.run(sql, parameters));
        self.has_failed |= done.is_err();
        done
    }

    fn state(&mut self) -> Result<&mut State> {
        let state = match self.state.take() {
            Some(state) => state,
            // While reads are only collected there is no row.
            None => self.one(sql::STATE_GET, &[], state)?.unwrap_or_else(State::empty),
        };
        Ok(self.state.insert(state))
    }

    fn query(&mut self, sql: &'static str, parameters: &[Cell]) -> Result<Vec<Row>> {
        if let Some(prefetched) = &mut self.prefetched {
            prefetched.push((sql, parameters.to_vec()));
            return Ok(Vec::new());
        }
        let answer = check(parameters).and_then(|()| self.database.query(sql, parameters));
        self.has_failed |= answer.is_err();
        answer
    }

    fn move_mark(&mut self, mark: Mark) -> Result<()> {
        let moved = self.database.mark(mark);
        self.has_failed |= moved.is_err();
        moved
    }
}

impl State {
    fn empty() -> State {
        State { sequence: 0, clock: Remembered::default(), epoch_floor: 0 }
    }
}

fn state(row: &mut Row) -> Result<State> {
    let sequence = row.maybe_number()?.unwrap_or_default();
    let last = row.maybe_moment()?;
    let (boot, offset_ms, is_firm) = (row.text()?, row.int()?, row.flag()?);
    let (wall, since_ms) = (row.maybe_moment()?, row.maybe_int()?);
    let anchor = Anchor { boot, offset_ms, is_firm, doubt: wall.map(|wall| Doubt { wall, since_ms }) };
    Ok(State { sequence, clock: Remembered { anchor, last }, epoch_floor: row.number()? })
}

/// Refuses what PostgreSQL cannot keep, and SQLite's functions stop at: what works must work on both.
fn check(parameters: &[Cell]) -> Result<()> {
    if parameters.iter().any(|cell| matches!(cell, Cell::Text(text) if text.contains('\0'))) {
        return Err(Error::invalid("a text contains the character NUL, which cannot be stored"));
    }
    Ok(())
}

impl Tx for SqlTx<'_> {
    fn clock(&mut self) -> Result<Reading> {
        self.database.clock()
    }

    fn clock_get(&mut self) -> Result<Remembered> {
        Ok(self.state()?.clock.clone())
    }

    fn anchor_put(&mut self, anchor: &Anchor) -> Result<()> {
        let (wall, since_ms) = anchor.doubt.as_ref().map_or((None, None), |doubt| (Some(doubt.wall), doubt.since_ms));
        let parameters = cells![&anchor.boot, anchor.offset_ms, anchor.is_firm, wall, since_ms];
        self.run(sql::ANCHOR_PUT, parameters)?;
        self.state()?.clock.anchor = anchor.clone();
        Ok(())
    }

    fn server_accept(&mut self) -> Result<Option<(String, String)>> {
        self.writes += 1;
        let accepted = self.database.accept_server();
        self.has_failed |= accepted.is_err();
        accepted
    }

    fn deadlines_shift(&mut self, by_ms: i64, now: Timestamp) -> Result<()> {
        for shift in [sql::LEASE_SHIFT, sql::TASK_SHIFT, sql::AGENT_SHIFT, sql::MESSAGE_SHIFT] {
            self.run(shift, cells![by_ms])?;
        }
        for redate in [sql::TASK_REDATE, sql::ANSWER_REDATE] {
            self.run(redate, cells![by_ms.max(0), now])?;
        }
        Ok(())
    }

    fn prefetch(&mut self, questions: &mut dyn FnMut(&mut dyn Tx) -> Result<()>) -> Result<()> {
        if !self.database.is_far() {
            return Ok(());
        }
        let state = self.state.clone();
        self.prefetched = Some(Vec::new());
        let told = questions(self);
        let prefetched = self.prefetched.take().unwrap_or_default();
        self.state = state;
        told?;
        let done = self.database.prefetch(prefetched);
        self.has_failed |= done.is_err();
        done
    }

    fn writes(&self) -> u64 {
        self.writes
    }

    fn mark(&mut self) -> Result<()> {
        if self.is_marked {
            self.move_mark(Mark::Release)?;
        }
        self.move_mark(Mark::Set)?;
        (self.is_marked, self.marked) = (true, self.state.clone());
        Ok(())
    }

    fn undo(&mut self) -> Result<()> {
        if !self.is_marked {
            return Err(Error::internal("no moment was marked"));
        }
        self.move_mark(Mark::Undo)?;
        (self.state, self.has_failed) = (self.marked.clone(), false);
        Ok(())
    }

    fn repository_get(&mut self, id: &RepositoryId) -> Result<Option<Repository>> {
        self.one(sql::REPOSITORY_GET, cells![id.as_str()], repository)
    }

    fn repository_put(&mut self, repository: &Repository) -> Result<()> {
        let Repository { id, name, path, vcs, remote_url, default_branch } = repository;
        let path = path_text::to_text(path);
        let (remote_url, default_branch) = (remote_url.as_ref(), default_branch.as_ref());
        self.run(sql::REPOSITORY_PUT, cells![id.as_str(), name, path, vcs.as_str(), remote_url, default_branch])
    }

    fn repository_list(&mut self) -> Result<Vec<Repository>> {
        self.all(sql::REPOSITORY_LIST, &[], repository)
    }

    fn repository_remove(&mut self, id: &RepositoryId) -> Result<()> {
        self.run(sql::REPOSITORY_REMOVE, cells![id.as_str()])
    }

    fn worktree_get(&mut self, id: &WorktreeId) -> Result<Option<Worktree>> {
        self.one(sql::WORKTREE_GET, cells![id.as_str()], worktree)
    }

    fn worktree_put(&mut self, worktree: &Worktree) -> Result<()> {
        let Worktree { id, repository_id, name, path, branch, first_seen, last_seen, removed_at } = worktree;
        let path = path_text::to_text(path);
        self.run(
            sql::WORKTREE_PUT,
            cells![
                id.as_str(),
                repository_id.as_str(),
                name,
                path,
                branch.as_ref(),
                *first_seen,
                *last_seen,
                *removed_at,
            ],
        )
    }

    fn worktree_touch(&mut self, id: &WorktreeId, last_seen: Timestamp) -> Result<()> {
        self.run(sql::WORKTREE_TOUCH, cells![id.as_str(), last_seen])
    }

    fn worktree_list(&mut self) -> Result<Vec<Worktree>> {
        self.all(sql::WORKTREE_LIST, &[], worktree)
    }

    fn event_append(&mut self, event: &NewEvent) -> Result<u64> {
        let NewEvent { time, actor, worktree_id, kind, subject, data } = event;
        // One that was rolled back is used by the next.
        let sequence = self.state()?.sequence + 1;
        let parameters = &[
            Cell::from(sequence),
            Cell::from(*time),
            Cell::from(actor),
            Cell::from(worktree_id.as_str()),
            Cell::from(*kind),
            Cell::from(subject),
            json(data)?,
        ];
        self.run(sql::EVENT_APPEND, parameters)?;
        let state = self.state()?;
        (state.sequence, state.clock.last) = (sequence, Some(*time));
        Ok(sequence)
    }

    fn event_list(&mut self, query: &EventQuery) -> Result<Vec<Event>> {
        let EventQuery { since, worktree_id, kind, subject, limit } = query;
        let mut parameters = vec![Cell::from(*limit), Cell::from(kind.as_deref().unwrap_or(""))];
        parameters.extend(since.map(Cell::from));
        let sql = match (since, subject, worktree_id) {
            (None, None, None) => sql::EVENT_LIST,
            (None, Some(_), _) => sql::EVENT_LIST_OF_SUBJECT,
            (None, None, Some(_)) => sql::EVENT_LIST_OF_WORKTREE,
            (Some(_), None, None) => sql::EVENT_LIST_SINCE,
            (Some(_), Some(_), _) => sql::EVENT_LIST_SINCE_OF_SUBJECT,
            (Some(_), None, Some(_)) => sql::EVENT_LIST_SINCE_OF_WORKTREE,
        };
        parameters.extend(subject.as_deref().map(Cell::from));
        match (subject, worktree_id) {
            (None, None) => {}
            (_, Some(id)) => parameters.push(Cell::from(id.as_str())),
            (Some(_), None) => parameters.push(Cell::from("")),
        }
        self.all(sql, &parameters, event)
    }

    fn event_last(&mut self) -> Result<u64> {
        Ok(self.state()?.sequence)
    }

    fn due_count(&mut self, now: Timestamp) -> Result<u64> {
        Ok(self.one(sql::DUE_COUNT, cells![now], Row::number)?.unwrap_or_default())
    }

    fn workflow_put(&mut self, workflow: &Workflow) -> Result<()> {
        let w = workflow;
        self.run(
            sql::WORKFLOW_PUT,
            &[
                w.id.as_str().into(),
                (&w.name).into(),
                w.source.as_str().into(),
                w.source_ref.as_ref().into(),
                w.source_content.as_ref().into(),
                w.status.as_str().into(),
                w.summary.as_ref().into(),
                w.max_parallel.into(),
                json(&w.config)?,
                w.reason.as_ref().into(),
                w.worktree_id.as_str().into(),
                w.created_at.into(),
                w.updated_at.into(),
                w.started_at.into(),
                w.finished_at.into(),
            ],
        )
    }

    fn workflow_get(&mut self, id: &WorkflowId) -> Result<Option<Workflow>> {
        self.one(sql::WORKFLOW_GET, cells![id.as_str()], workflow)
    }

    fn workflow_list_by_id(&mut self, ids: &[WorkflowId]) -> Result<Vec<Workflow>> {
        self.all(sql::WORKFLOW_LIST_BY_ID, &[json(&ids)?], workflow)
    }

    fn workflow_list(&mut self, query: &WorkflowQuery) -> Result<Vec<Workflow>> {
        let WorkflowQuery { statuses, worktree_id, repository_id, name, limit } = query;
        let mut list = String::new();
        for status in statuses {
            list += if list.is_empty() { "," } else { "" };
            list += status.as_str();
            list += ",";
        }
        let worktree_id = worktree_id.as_ref().map_or("", WorktreeId::as_str);
        let repository_id = repository_id.as_ref().map_or("", RepositoryId::as_str);
        let parameters = cells![*limit, list, worktree_id, name.as_deref().unwrap_or(""), repository_id];
        self.all(sql::WORKFLOW_LIST, parameters, workflow)
    }

    fn workflow_repository_put(&mut self, workflow: &WorkflowId, repository: &RepositoryId) -> Result<()> {
        self.run(sql::WORKFLOW_REPOSITORY_PUT, cells![workflow.as_str(), repository.as_str()])
    }

    fn workflow_repository_list(&mut self, workflow: &WorkflowId) -> Result<Vec<RepositoryId>> {
        self.all(sql::WORKFLOW_REPOSITORY_LIST, cells![workflow.as_str()], Row::parsed)
    }

    fn workflow_repository_list_in(&mut self, workflows: &[WorkflowId]) -> Result<Vec<(WorkflowId, RepositoryId)>> {
        self.all(sql::WORKFLOW_REPOSITORY_LIST_IN, &[json(&workflows)?], |row| Ok((row.parsed()?, row.parsed()?)))
    }

    fn task_put(&mut self, task: &Task) -> Result<()> {
        let t = task;
        self.run(
            sql::TASK_PUT,
            &[
                t.id.as_str().into(),
                t.workflow_id.as_str().into(),
                (&t.name).into(),
                (&t.description).into(),
                t.status.as_str().into(),
                t.sequence.into(),
                t.parallel_group.as_ref().into(),
                t.priority.into(),
                json(&t.plan)?,
                json(&t.acceptance)?,
                json(&t.context)?,
                json(&t.context_from)?,
                json(&t.capabilities)?,
                json(&t.files)?,
                t.repository_id.as_ref().map(RepositoryId::as_str).into(),
                t.workspace_id.as_ref().map(WorkspaceId::as_str).into(),
                t.issue.as_ref().into(),
                t.assignee.as_ref().map(AgentId::as_str).into(),
                t.attempts.into(),
                t.max_attempts.into(),
                t.backoff_ms.into(),
                t.queue_timeout_ms.into(),
                t.run_timeout_ms.into(),
                t.stall_timeout_ms.into(),
                t.needs_evidence.into(),
                t.outcome.as_ref().into(),
                t.evidence.as_ref().into(),
                t.error.as_ref().into(),
                t.question.as_ref().into(),
                t.answer.as_ref().into(),
                t.worktree_id.as_str().into(),
                t.created_at.into(),
                t.updated_at.into(),
                t.queued_at.into(),
                t.started_at.into(),
                t.finished_at.into(),
                t.due_at.into(),
            ],
        )
    }

    fn task_advance(&mut self, id: &TaskId, progress: &Progress<'_>) -> Result<()> {
        let p = progress;
        self.run(
            sql::TASK_ADVANCE,
            cells![
                id.as_str(),
                p.status.as_str(),
                p.attempts,
                p.outcome,
                p.evidence,
                p.error,
                p.question,
                p.answer,
                p.updated_at,
                p.queued_at,
                p.started_at,
                p.finished_at,
                p.due_at,
            ],
        )
    }

    fn task_get(&mut self, id: &TaskId) -> Result<Option<Task>> {
        self.one(sql::TASK_GET, cells![id.as_str()], task)
    }

    fn task_remove(&mut self, id: &TaskId) -> Result<()> {
        self.run(sql::TASK_REMOVE, cells![id.as_str()])
    }

    fn task_list(&mut self, workflow: &WorkflowId) -> Result<Vec<Task>> {
        self.all(sql::TASK_LIST, cells![workflow.as_str()], task)
    }

    fn task_list_by_id(&mut self, ids: &[TaskId]) -> Result<Vec<Task>> {
        self.all(sql::TASK_LIST_BY_ID, &[json(&ids)?], task)
    }

    fn task_list_in_workflows(&mut self, workflows: &[WorkflowId]) -> Result<Vec<Task>> {
        self.all(sql::TASK_LIST_IN_WORKFLOWS, &[json(&workflows)?], task)
    }

    fn task_list_names(&mut self, workflow: &WorkflowId, limit: u32) -> Result<Vec<(TaskId, String, TaskStatus)>> {
        let name = |row: &mut Row| Ok((row.parsed()?, row.text()?, row.parsed()?));
        self.all(sql::TASK_LIST_NAMES, cells![limit, workflow.as_str()], name)
    }

    fn task_list_named(&mut self, name: &str, limit: u32) -> Result<Vec<Task>> {
        self.all(sql::TASK_LIST_NAMED, cells![limit, name], task)
    }

    fn task_list_in(&mut self, status: TaskStatus, limit: u32) -> Result<Vec<Task>> {
        self.all(sql::TASK_LIST_IN, cells![limit, status.as_str()], task)
    }

    fn task_list_claimable(&mut self, query: &CandidateQuery) -> Result<Vec<Task>> {
        let CandidateQuery { workflow_id, skip, limit } = query;
        match workflow_id {
            None => self.all(sql::TASK_LIST_CLAIMABLE, cells![*limit, *skip], task),
            Some(id) => self.all(sql::TASK_LIST_CLAIMABLE_OF_WORKFLOW, cells![*limit, *skip, id.as_str()], task),
        }
    }

    fn task_list_due(&mut self, now: Timestamp, limit: u32) -> Result<Vec<Task>> {
        self.all(sql::TASK_LIST_DUE, cells![limit, now], task)
    }

    fn task_count(&mut self, workflow: &WorkflowId) -> Result<Vec<(TaskStatus, u64)>> {
        let mut counts =
            self.all(sql::TASK_COUNT, cells![workflow.as_str()], |row| Ok((row.parsed()?, row.number()?)))?;
        counts.sort_unstable();
        Ok(counts)
    }

    fn task_count_in_workflows(&mut self, workflows: &[WorkflowId]) -> Result<Vec<(WorkflowId, TaskStatus, u64)>> {
        let count = |row: &mut Row| Ok((row.parsed()?, row.parsed()?, row.number()?));
        let mut counts = self.all(sql::TASK_COUNT_IN_WORKFLOWS, &[json(&workflows)?], count)?;
        counts.sort_unstable();
        Ok(counts)
    }

    fn task_list_statuses(&mut self, workflow: &WorkflowId) -> Result<Vec<TaskStatus>> {
        let mut statuses = self.all(sql::TASK_LIST_STATUSES, cells![workflow.as_str()], Row::parsed)?;
        statuses.sort_unstable();
        Ok(statuses)
    }

    fn dependency_put(&mut self, dependency: &Dependency) -> Result<()> {
        let Dependency { task_id, depends_on, kind } = dependency;
        self.run(sql::DEPENDENCY_PUT, cells![task_id.as_str(), depends_on.as_str(), kind.as_str()])
    }

    fn dependency_remove(&mut self, task: &TaskId, depends_on: &TaskId) -> Result<()> {
        self.run(sql::DEPENDENCY_REMOVE, cells![task.as_str(), depends_on.as_str()])
    }

    fn dependency_list(&mut self, workflow: &WorkflowId) -> Result<Vec<Dependency>> {
        self.all(sql::DEPENDENCY_LIST, cells![workflow.as_str()], dependency)
    }

    fn dependency_list_in_workflows(&mut self, workflows: &[WorkflowId]) -> Result<Vec<Dependency>> {
        self.all(sql::DEPENDENCY_LIST_IN_WORKFLOWS, &[json(&workflows)?], dependency)
    }

    fn dependency_list_by_task(&mut self, tasks: &[TaskId]) -> Result<Vec<Dependency>> {
        self.all(sql::DEPENDENCY_LIST_BY_TASK, &[json(&tasks)?], dependency)
    }

    fn dependency_list_of(&mut self, task: &TaskId) -> Result<Vec<Dependency>> {
        self.all(sql::DEPENDENCY_LIST_OF, cells![task.as_str()], dependency)
    }

    fn checkpoint_put(&mut self, checkpoint: &Checkpoint) -> Result<()> {
        let c = checkpoint;
        self.run(
            sql::CHECKPOINT_PUT,
            &[
                c.id.as_str().into(),
                c.task_id.as_str().into(),
                c.sequence.into(),
                c.kind.as_str().into(),
                (&c.summary).into(),
                json(&c.detail)?,
                json(&c.files)?,
                c.tokens.into(),
                c.cost.into(),
                c.agent_id.as_str().into(),
                c.epoch.into(),
                c.worktree_id.as_str().into(),
                c.created_at.into(),
            ],
        )
    }

    fn checkpoint_list(&mut self, task: &TaskId, before: Option<u32>, limit: u32) -> Result<Vec<Checkpoint>> {
        let before = before.map_or(i64::MAX.cast_unsigned(), u64::from);
        self.all(sql::CHECKPOINT_LIST, cells![limit, task.as_str(), before], checkpoint)
    }

    fn agent_put(&mut self, agent: &Agent) -> Result<()> {
        let a = agent;
        self.run(
            sql::AGENT_PUT,
            &[
                a.id.as_str().into(),
                (&a.name).into(),
                a.runtime.as_ref().into(),
                a.role.as_str().into(),
                a.status.as_str().into(),
                json(&a.capabilities)?,
                a.workspace_id.as_ref().map(WorkspaceId::as_str).into(),
                json(&a.metadata)?,
                a.process.as_ref().map(json).transpose()?.unwrap_or(Cell::Null),
                a.timeout_ms.into(),
                a.max_claims.into(),
                a.worktree_id.as_str().into(),
                a.registered_at.into(),
                a.last_heartbeat.into(),
                a.silent_at.into(),
                a.retired_at.into(),
            ],
        )
    }

    fn agent_touch(&mut self, agent: &Agent) -> Result<()> {
        let a = agent;
        self.run(sql::AGENT_TOUCH, cells![a.id.as_str(), a.status.as_str(), a.last_heartbeat, a.silent_at])
    }

    fn agent_get(&mut self, id: &AgentId) -> Result<Option<Agent>> {
        self.one(sql::AGENT_GET, cells![id.as_str()], agent)
    }

    fn agent_named(&mut self, name: &str) -> Result<Option<Agent>> {
        self.one(sql::AGENT_NAMED, cells![name], agent)
    }

    fn agent_list(&mut self) -> Result<Vec<Agent>> {
        self.all(sql::AGENT_LIST, &[], agent)
    }

    fn agent_list_silent(&mut self, now: Timestamp, limit: u32) -> Result<Vec<Agent>> {
        self.all(sql::AGENT_LIST_SILENT, cells![limit, now], agent)
    }

    fn lease_put(&mut self, lease: &Lease) -> Result<()> {
        let l = lease;
        self.run(
            sql::LEASE_PUT,
            cells![
                &l.subject,
                l.holder.as_ref().map(AgentId::as_str),
                l.epoch,
                l.granted_at,
                l.expires_at,
                l.ttl_ms,
                l.run_until,
                l.stall_at,
                l.deadline(),
                l.worktree_id.as_str(),
            ],
        )
    }

    fn lease_get(&mut self, subject: &str) -> Result<Option<Lease>> {
        self.one(sql::LEASE_GET, cells![subject], lease)
    }

    fn lease_list(&mut self, holder: Option<&AgentId>) -> Result<Vec<Lease>> {
        match holder {
            None => self.all(sql::LEASE_LIST, &[], lease),
            Some(holder) => self.all(sql::LEASE_LIST_OF_HOLDER, cells![holder.as_str()], lease),
        }
    }

    fn lease_list_by_task(&mut self, tasks: &[TaskId]) -> Result<Vec<Lease>> {
        self.all(sql::LEASE_LIST_BY_TASK, &[json(&tasks)?], lease)
    }

    fn lease_list_in_workflows(&mut self, workflows: &[WorkflowId]) -> Result<Vec<Lease>> {
        self.all(sql::LEASE_LIST_IN_WORKFLOWS, &[json(&workflows)?], lease)
    }

    fn lease_list_due(&mut self, now: Timestamp, limit: u32) -> Result<Vec<Lease>> {
        self.all(sql::LEASE_LIST_DUE, cells![limit, now], lease)
    }

    fn epoch_floor(&mut self) -> Result<u64> {
        Ok(self.state()?.epoch_floor)
    }

    fn epoch_floor_put(&mut self, epoch: u64) -> Result<()> {
        self.run(sql::EPOCH_FLOOR_PUT, cells![epoch])?;
        self.state()?.epoch_floor = epoch;
        Ok(())
    }

    fn lease_max_epoch(&mut self) -> Result<u64> {
        Ok(self.one(sql::LEASE_MAX_EPOCH, &[], Row::number)?.unwrap_or_default())
    }

    fn message_put(&mut self, message: &Message) -> Result<()> {
        let m = message;
        self.run(
            sql::MESSAGE_PUT,
            cells![
                m.id.as_str(),
                m.number,
                m.sender.as_str(),
                m.recipient.as_str(),
                m.thread.as_str(),
                m.reply_to.as_ref().map(MessageId::as_str),
                m.kind.as_str(),
                m.priority.as_str(),
                &m.subject,
                &m.body,
                m.workflow_id.as_ref().map(WorkflowId::as_str),
                m.task_id.as_ref().map(TaskId::as_str),
                m.expires_at,
                m.state.as_str(),
                m.worktree_id.as_str(),
                m.created_at,
                m.updated_at,
            ],
        )
    }

    fn message_get(&mut self, id: &MessageId) -> Result<Option<Message>> {
        self.one(sql::MESSAGE_GET, cells![id.as_str()], message)
    }

    fn message_last(&mut self) -> Result<u64> {
        Ok(self.one(sql::MESSAGE_LAST, &[], Row::number)?.unwrap_or_default())
    }

    fn message_list(&mut self, recipient: &AgentId, now: Timestamp, limit: u32) -> Result<Vec<Message>> {
        self.all(sql::MESSAGE_LIST, cells![limit, recipient.as_str(), now], message)
    }

    fn message_count(&mut self, recipient: &AgentId, now: Timestamp) -> Result<u64> {
        let count = self.one(sql::MESSAGE_COUNT, cells![recipient.as_str(), now], Row::number)?;
        Ok(count.unwrap_or_default())
    }

    fn message_count_by_recipient(&mut self, now: Timestamp) -> Result<Vec<(AgentId, u64)>> {
        let count = |row: &mut Row| Ok((row.parsed()?, row.number()?));
        let mut counts = self.all(sql::MESSAGE_COUNT_BY_RECIPIENT, cells![now], count)?;
        counts.sort_unstable();
        Ok(counts)
    }

    fn message_list_about(&mut self, workflow: &WorkflowId) -> Result<Vec<Message>> {
        self.all(sql::MESSAGE_LIST_ABOUT, cells![workflow.as_str()], message)
    }

    fn message_detach(&mut self, task: &TaskId) -> Result<()> {
        self.run(sql::MESSAGE_DETACH, cells![task.as_str()])
    }

    fn message_list_thread(&mut self, thread: &MessageId) -> Result<Vec<Message>> {
        self.all(sql::MESSAGE_LIST_THREAD, cells![thread.as_str()], message)
    }

    fn template_put(&mut self, template: &Template) -> Result<()> {
        let t = template;
        self.run(
            sql::TEMPLATE_PUT,
            &[
                t.id.as_str().into(),
                (&t.name).into(),
                t.version.into(),
                (&t.description).into(),
                json(&t.body)?,
                json(&t.variables)?,
                t.worktree_id.as_str().into(),
                t.created_at.into(),
            ],
        )
    }

    fn template_list(&mut self, name: Option<&str>) -> Result<Vec<Template>> {
        self.all(sql::TEMPLATE_LIST, cells![name.unwrap_or("")], template)
    }

    fn answer_put(&mut self, answer: &SavedAnswer) -> Result<()> {
        let SavedAnswer { key, operation, request, answer, worktree_id, created_at } = answer;
        let parameters = &[
            Cell::from(key),
            Cell::from(operation),
            Cell::from(request),
            json(answer)?,
            Cell::from(worktree_id.as_str()),
            Cell::from(*created_at),
        ];
        self.run(sql::ANSWER_PUT, parameters)
    }

    fn answer_get(&mut self, key: &str) -> Result<Option<SavedAnswer>> {
        self.one(sql::ANSWER_GET, cells![key], answer)
    }

    fn answer_forget(&mut self, before: Timestamp) -> Result<()> {
        self.run(sql::ANSWER_FORGET, cells![before])
    }

    fn notice_put(&mut self, notice: &Notice) -> Result<()> {
        let Notice { issue, news, reason, actor, task_id, worktree_id, created_at } = notice;
        let task_id = task_id.as_ref().map(TaskId::as_str);
        self.run(
            sql::NOTICE_PUT,
            cells![issue, news.as_str(), reason, actor, task_id, worktree_id.as_str(), *created_at],
        )
    }

    fn notice_list(&mut self) -> Result<Vec<Notice>> {
        self.all(sql::NOTICE_LIST, &[], notice)
    }

    fn notice_remove(&mut self, issue: &str) -> Result<()> {
        self.run(sql::NOTICE_REMOVE, cells![issue])
    }

    fn job_put(&mut self, job: &Job) -> Result<()> {
        let j = job;
        let path = |path: &Option<std::path::PathBuf>| Cell::from(path.as_deref().map(path_text::to_text));
        self.run(
            sql::JOB_PUT,
            &[
                j.id.as_str().into(),
                (&j.kind).into(),
                (&j.description).into(),
                json(&j.input)?,
                j.status.as_str().into(),
                json(&j.command)?,
                json(&j.settings)?,
                j.repository_id.as_str().into(),
                j.task_id.as_ref().map(TaskId::as_str).into(),
                j.epoch.into(),
                j.agent_id.as_ref().map(AgentId::as_str).into(),
                j.workspace_id.as_ref().map(WorkspaceId::as_str).into(),
                path_text::to_text(&j.work_dir).into(),
                path(&j.workspace_dir),
                path(&j.context_dir),
                path(&j.log),
                j.machine.as_ref().into(),
                j.supervisor.as_ref().map(json).transpose()?.unwrap_or(Cell::Null),
                j.process.as_ref().map(json).transpose()?.unwrap_or(Cell::Null),
                j.token_hash.as_ref().into(),
                json(&j.phases)?,
                j.output.as_ref().into(),
                j.exit_code.into(),
                j.error.as_ref().into(),
                json(&j.warnings)?,
                j.tokens.into(),
                j.cost.into(),
                j.retry_of.as_ref().map(JobId::as_str).into(),
                j.cancelled_at.into(),
                j.worktree_id.as_str().into(),
                j.created_at.into(),
                j.updated_at.into(),
                j.started_at.into(),
                j.finished_at.into(),
            ],
        )
    }

    fn job_get(&mut self, id: &JobId) -> Result<Option<Job>> {
        self.one(sql::JOB_GET, cells![id.as_str()], job)
    }

    fn job_list(&mut self, query: &JobQuery) -> Result<Vec<Job>> {
        let status = query.status.map_or("", JobStatus::as_str);
        match &query.task_id {
            Some(task) => {
                let live = if query.is_live { "live" } else { "" };
                self.all(sql::JOB_LIST_OF_TASK, cells![query.limit, status, live, task.as_str()], job)
            }
            None if query.is_live => self.all(sql::JOB_LIST_LIVE, cells![query.limit, status], job),
            None => self.all(sql::JOB_LIST, cells![query.limit, status], job),
        }
    }

    fn workspace_put(&mut self, workspace: &Workspace) -> Result<()> {
        let w = workspace;
        self.run(
            sql::WORKSPACE_PUT,
            &[
                w.id.as_str().into(),
                w.repository_id.as_str().into(),
                w.job_id.as_ref().map(JobId::as_str).into(),
                (&w.machine).into(),
                path_text::to_text(&w.path).into(),
                w.strategy.as_str().into(),
                w.branch.as_ref().into(),
                w.base.as_ref().into(),
                w.status.as_str().into(),
                w.size.into(),
                w.identity.as_ref().map(json).transpose()?.unwrap_or(Cell::Null),
                w.is_pinned.into(),
                w.snapshot.as_ref().into(),
                w.merge_commit.as_ref().into(),
                w.pr_url.as_ref().into(),
                w.note.as_ref().into(),
                json(&w.plan)?,
                w.worktree_id.as_str().into(),
                w.created_at.into(),
                w.updated_at.into(),
                w.removed_at.into(),
            ],
        )
    }

    fn workspace_get(&mut self, id: &WorkspaceId) -> Result<Option<Workspace>> {
        self.one(sql::WORKSPACE_GET, cells![id.as_str()], workspace)
    }

    fn workspace_list(&mut self, query: &WorkspaceQuery) -> Result<Vec<Workspace>> {
        let machine = query.machine.as_deref().unwrap_or("");
        let all = if query.all { "all" } else { "" };
        match &query.job_id {
            Some(job) => {
                self.all(sql::WORKSPACE_LIST_OF_JOB, cells![query.limit, machine, all, job.as_str()], workspace)
            }
            None if query.all => self.all(sql::WORKSPACE_LIST, cells![query.limit, machine], workspace),
            None => self.all(sql::WORKSPACE_LIST_LIVE, cells![query.limit, machine], workspace),
        }
    }

    fn commit(self: Box<Self>) -> Result<()> {
        // On PostgreSQL nothing of it would last; on SQLite what did not fail would.
        if self.has_failed {
            return Err(Error::internal("a transaction in which something failed cannot be committed"));
        }
        self.database.commit()
    }
}
