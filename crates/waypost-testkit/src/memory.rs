//! The reference store in memory, for tests of rules and as the specification of the databases.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use waypost_core::clock::{Anchor, Clock, Reading, Remembered};
use waypost_core::error::{Error, Result};
use waypost_core::id::{
    AgentId, CheckpointId, JobId, MessageId, RepositoryId, TaskId, TemplateId, WorkflowId, WorkspaceId, WorktreeId,
};
use waypost_core::model::{
    Agent, AgentStatus, CandidateQuery, Candidates, Checkpoint, DeferredChanges, Dependency, DependencyKind, Event,
    EventQuery, Job, JobQuery, Lease, LogPiece, Machine, Message, MessageState, NewEvent, Notice, PlanPart, Progress,
    Reach, Repository, SavedAnswer, Summary, Task, TaskPlace, TaskStatus, Template, Workflow, WorkflowQuery,
    WorkflowStatus, Workspace, WorkspaceQuery, Worktree,
};
use waypost_core::page::Cursor;
use waypost_core::store::{Store, Tx};
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

    fn repository_get(&mut self, id: &RepositoryId) -> Result<Option<Repository>> {
        Ok(self.rows.repositories.get(id).cloned())
    }

    fn repository_put(&mut self, repository: &Repository) -> Result<()> {
        self.rows.repositories.insert(repository.id.clone(), repository.clone());
        Ok(())
    }

    fn repository_list(&mut self) -> Result<Vec<Repository>> {
        let mut repositories: Vec<_> = self.rows.repositories.values().cloned().collect();
        repositories.sort_by(|a, b| (&a.name, &a.id).cmp(&(&b.name, &b.id)));
        Ok(repositories)
    }

    fn repository_remove(&mut self, id: &RepositoryId) -> Result<()> {
        let is_referenced = self.rows.worktrees.values().any(|worktree| worktree.repository_id == *id)
            || self.rows.workflow_repositories.iter().any(|(_, repository)| repository == id)
            || self.rows.tasks.values().any(|task| task.repository_id.as_ref() == Some(id))
            || self.rows.jobs.values().any(|job| job.repository_id == *id)
            || self.rows.workspaces.values().any(|workspace| workspace.repository_id == *id);
        if is_referenced {
            return Err(Error::internal(format!("a row refers to repository {id}")));
        }
        self.rows.repositories.remove(id);
        Ok(())
    }

    fn worktree_get(&mut self, id: &WorktreeId) -> Result<Option<Worktree>> {
        Ok(self.rows.worktrees.get(id).cloned())
    }

    fn worktree_put(&mut self, worktree: &Worktree) -> Result<()> {
        if !self.rows.repositories.contains_key(&worktree.repository_id) {
            return Err(Error::internal(format!("worktree {} names an unknown repository", worktree.id)));
        }
        self.rows.worktrees.insert(worktree.id.clone(), worktree.clone());
        Ok(())
    }

    fn worktree_touch(&mut self, id: &WorktreeId, last_seen: Timestamp) -> Result<()> {
        if let Some(worktree) = self.rows.worktrees.get_mut(id) {
            worktree.last_seen = last_seen;
        }
        Ok(())
    }

    fn worktree_list(&mut self) -> Result<Vec<Worktree>> {
        let mut worktrees: Vec<_> = self.rows.worktrees.values().cloned().collect();
        worktrees.sort_by(|a, b| (a.first_seen, &a.name, &a.id).cmp(&(b.first_seen, &b.name, &b.id)));
        Ok(worktrees)
    }

    fn event_append(&mut self, event: &NewEvent) -> Result<u64> {
        if !self.rows.worktrees.contains_key(&event.worktree_id) {
            return Err(Error::internal(format!("an event names the unknown worktree {}", event.worktree_id)));
        }
        let sequence = self.event_last()? + 1;
        self.rows.events.push(Event {
            sequence,
            time: event.time,
            actor: event.actor.clone(),
            worktree_id: event.worktree_id.clone(),
            kind: event.kind.to_owned(),
            subject: event.subject.clone(),
            data: event.data.clone(),
        });
        Ok(sequence)
    }

    fn event_list(&mut self, query: &EventQuery) -> Result<Vec<Event>> {
        let matches = |event: &&Event| {
            query.worktree_id.as_ref().is_none_or(|id| *id == event.worktree_id)
                && query.kind.as_ref().is_none_or(|kind| event.kind.starts_with(kind.as_str()))
                && query.subject.as_ref().is_none_or(|subject| *subject == event.subject)
                && query.after.as_ref().is_none_or(|Cursor(after)| match query.since {
                    Some(_) => event.sequence > *after,
                    None => event.sequence < *after,
                })
        };
        let limit = size(query.limit);
        Ok(match query.since {
            Some(since) => {
                let later = self.rows.events.iter().skip_while(|event| event.sequence <= since);
                later.filter(matches).take(limit).cloned().collect()
            }
            None => self.rows.events.iter().rev().filter(matches).take(limit).cloned().collect(),
        })
    }

    fn event_last(&mut self) -> Result<u64> {
        Ok(self.rows.events.last().map_or(0, |last| last.sequence))
    }

    fn due_count(&mut self, now: Timestamp) -> Result<u64> {
        let due = self.lease_list_due(now, u32::MAX)?.len()
            + self.task_list_due(now, u32::MAX)?.len()
            + self.agent_list_silent(now, u32::MAX)?.len();
        Ok(due as u64)
    }

    fn workflow_put(&mut self, workflow: &Workflow) -> Result<()> {
        self.need_worktree(&workflow.worktree_id)?;
        self.rows.workflows.insert(workflow.id.clone(), workflow.clone());
        Ok(())
    }

    fn workflow_get(&mut self, id: &WorkflowId) -> Result<Option<Workflow>> {
        Ok(self.rows.workflows.get(id).cloned())
    }

    fn workflow_list_by_id(&mut self, ids: &[WorkflowId]) -> Result<Vec<Workflow>> {
        Ok(self.rows.workflows.values().filter(|workflow| ids.contains(&workflow.id)).cloned().collect())
    }

    fn workflow_list(&mut self, query: &WorkflowQuery) -> Result<Vec<Workflow>> {
        let links = &self.rows.workflow_repositories;
        let matches = |workflow: &&Workflow| {
            (query.statuses.is_empty() || query.statuses.contains(&workflow.status))
                && query.worktree_id.as_ref().is_none_or(|id| *id == workflow.worktree_id)
                && query.repository_id.as_ref().is_none_or(|id| links.contains(&(workflow.id.clone(), id.clone())))
                && query.name.as_ref().is_none_or(|name| *name == workflow.name)
                && is_older(query.after.as_ref(), workflow.created_at, &workflow.id)
        };
        let mut workflows: Vec<_> = self.rows.workflows.values().filter(matches).cloned().collect();
        workflows.sort_by(|a, b| (b.created_at, &b.id).cmp(&(a.created_at, &a.id)));
        workflows.truncate(size(query.limit));
        Ok(workflows)
    }

    fn workflow_repository_put(&mut self, workflow: &WorkflowId, repository: &RepositoryId) -> Result<()> {
        if !self.rows.workflows.contains_key(workflow) || !self.rows.repositories.contains_key(repository) {
            return Err(unknown("workflow or repository", workflow));
        }
        self.rows.workflow_repositories.insert((workflow.clone(), repository.clone()));
        Ok(())
    }

    fn workflow_repository_remove(&mut self, workflow: &WorkflowId, repository: &RepositoryId) -> Result<()> {
        self.rows.workflow_repositories.remove(&(workflow.clone(), repository.clone()));
        Ok(())
    }

    fn workflow_repository_list(&mut self, workflow: &WorkflowId) -> Result<Vec<RepositoryId>> {
        let links = self.rows.workflow_repositories.iter();
        Ok(links.filter(|(of, _)| of == workflow).map(|(_, repository)| repository.clone()).collect())
    }

    fn workflow_repository_list_in(&mut self, workflows: &[WorkflowId]) -> Result<Vec<(WorkflowId, RepositoryId)>> {
        let links = self.rows.workflow_repositories.iter();
        Ok(links.filter(|(of, _)| workflows.contains(of)).cloned().collect())
    }

    fn task_put(&mut self, task: &Task) -> Result<()> {
        self.need_worktree(&task.worktree_id)?;
        if !self.rows.workflows.contains_key(&task.workflow_id) {
            return Err(unknown("workflow", &task.workflow_id));
        }
        let is_twin =
            |other: &&Task| other.workflow_id == task.workflow_id && other.name == task.name && other.id != task.id;
        if self.rows.tasks.values().find(is_twin).is_some() {
            return Err(Error::internal(format!("there is a task {} already", task.name)));
        }
        if let Some(id) = task.repository_id.as_ref().filter(|id| !self.rows.repositories.contains_key(*id)) {
            return Err(unknown("repository", id));
        }
        task.assignee.as_ref().map_or(Ok(()), |agent| self.need_agent(agent))?;
        self.rows.tasks.insert(task.id.clone(), task.clone());
        Ok(())
    }

    fn task_advance(&mut self, id: &TaskId, progress: &Progress<'_>) -> Result<()> {
        let Some(task) = self.rows.tasks.get(id) else { return Ok(()) };
        let Progress { status, attempts, outcome, evidence, error, question, answer, .. } = *progress;
        let Progress { updated_at, queued_at, started_at, finished_at, due_at, .. } = *progress;
        let [outcome, evidence, error, question, answer] =
            [outcome, evidence, error, question, answer].map(|text| text.map(str::to_owned));
        let times = Task { updated_at, queued_at, started_at, finished_at, due_at, ..task.clone() };
        self.task_put(&Task { status, attempts, outcome, evidence, error, question, answer, ..times })
    }

    fn task_get(&mut self, id: &TaskId) -> Result<Option<Task>> {
        Ok(self.rows.tasks.get(id).cloned())
    }

    fn task_remove(&mut self, id: &TaskId) -> Result<()> {
        let is_referenced = self.rows.dependencies.keys().any(|(task, on)| task == id || on == id)
            || self.rows.checkpoints.values().any(|checkpoint| checkpoint.task_id == *id)
            || self.rows.messages.values().any(|message| message.task_id.as_ref() == Some(id))
            || self.rows.notices.values().any(|notice| notice.task_id.as_ref() == Some(id));
        if is_referenced {
            return Err(Error::internal(format!("a row refers to task {id}")));
        }
        self.rows.tasks.remove(id);
        Ok(())
    }

    fn task_list(&mut self, workflow: &WorkflowId) -> Result<Vec<Task>> {
        let mut tasks: Vec<_> =
            self.rows.tasks.values().filter(|task| task.workflow_id == *workflow).cloned().collect();
        tasks.sort_by(|a, b| (a.sequence, &a.id).cmp(&(b.sequence, &b.id)));
        Ok(tasks)
    }

    fn task_list_by_id(&mut self, ids: &[TaskId]) -> Result<Vec<Task>> {
        Ok(self.rows.tasks.values().filter(|task| ids.contains(&task.id)).cloned().collect())
    }

    fn task_list_part(&mut self, part: &PlanPart) -> Result<Vec<Task>> {
        let PlanPart { workflow_id, statuses, after, limit } = part;
        let mut tasks = self.task_list(workflow_id)?;
        tasks.retain(|task| {
            after.as_ref().is_none_or(|after| (task.sequence, task.id.clone()) > *after)
                && (statuses.is_empty() || statuses.contains(&task.status))
        });
        tasks.truncate(usize::try_from(*limit).unwrap_or(usize::MAX));
        Ok(tasks)
    }

    fn task_count_part(&mut self, part: &PlanPart) -> Result<u64> {
        Ok(self.task_list_part(&PlanPart { limit: u32::MAX, ..part.clone() })?.len() as u64)
    }

    fn task_list_in_workflows(&mut self, workflows: &[WorkflowId]) -> Result<Vec<Task>> {
        let tasks = self.rows.tasks.values().filter(|task| workflows.contains(&task.workflow_id));
        let mut tasks: Vec<_> = tasks.cloned().collect();
        tasks.sort_by(|a, b| (&a.workflow_id, a.sequence, &a.id).cmp(&(&b.workflow_id, b.sequence, &b.id)));
        Ok(tasks)
    }

    fn task_list_names(&mut self, workflow: &WorkflowId, limit: u32) -> Result<Vec<(TaskId, String, TaskStatus)>> {
        let tasks = self.task_list(workflow)?.into_iter().take(size(limit));
        Ok(tasks.map(|task| (task.id, task.name, task.status)).collect())
    }

    fn task_list_named(&mut self, name: &str, limit: u32) -> Result<Vec<Task>> {
        let mut tasks: Vec<_> = self.rows.tasks.values().filter(|task| task.name == name).cloned().collect();
        tasks.sort_by(|a, b| (b.created_at, &b.id).cmp(&(a.created_at, &a.id)));
        tasks.truncate(size(limit));
        Ok(tasks)
    }

    fn task_list_in(&mut self, status: TaskStatus, place: &TaskPlace, limit: u32) -> Result<Vec<Task>> {
        let Rows { tasks, worktrees, .. } = &self.rows;
        let is_there = |task: &&Task| {
            let repository = task.repository_id.as_ref().unwrap_or(&worktrees[&task.worktree_id].repository_id);
            task.status == status
                && place.worktree_id.as_ref().is_none_or(|wanted| *wanted == task.worktree_id)
                && (place.repositories.is_empty() || place.repositories.contains(repository))
        };
        let mut tasks: Vec<_> = tasks.values().filter(is_there).cloned().collect();
        tasks.sort_by(|a, b| (b.updated_at, &b.id).cmp(&(a.updated_at, &a.id)));
        tasks.truncate(size(limit));
        Ok(tasks)
    }

    fn task_list_claimable(&mut self, query: &CandidateQuery) -> Result<Vec<Task>> {
        let Rows { workflows, tasks, dependencies, worktrees, .. } = &self.rows;
        let is_considered = |task: &Task| match &query.of {
            Candidates::All => true,
            Candidates::OfWorkflow(id) => *id == task.workflow_id,
            Candidates::OfWorktree(id) => *id == task.worktree_id,
            Candidates::SharedWith(id) => {
                *id != task.worktree_id && workflows[&task.workflow_id].reach == Reach::Repository
            }
        };
        let is_of_repositories = |task: &Task| {
            let repository = task.repository_id.as_ref().unwrap_or(&worktrees[&task.worktree_id].repository_id);
            query.repositories.is_empty() || query.repositories.contains(repository)
        };
        let is_blocked = |task: &Task| {
            dependencies.iter().any(|((waiting, on), kind)| {
                *waiting == task.id && *kind == DependencyKind::Blocks && !tasks[on].status.satisfies()
            })
        };
        let mut claimable: Vec<_> = tasks
            .values()
            .filter(|task| {
                task.status == TaskStatus::Pending
                    && workflows[&task.workflow_id].status == WorkflowStatus::InProgress
                    && is_considered(task)
                    && is_of_repositories(task)
                    && !is_blocked(task)
            })
            .cloned()
            .collect();
        claimable.sort_by(|a, b| {
            (a.priority, a.queued_at, a.sequence, &a.id).cmp(&(b.priority, b.queued_at, b.sequence, &b.id))
        });
        Ok(claimable.into_iter().skip(size(query.skip)).take(size(query.limit)).collect())
    }

    fn task_list_due(&mut self, now: Timestamp, limit: u32) -> Result<Vec<Task>> {
        let is_due = |task: &&Task| task.due_at.is_some_and(|due| due <= now);
        let mut due: Vec<_> = self.rows.tasks.values().filter(is_due).cloned().collect();
        due.sort_by(|a, b| (a.due_at, &a.id).cmp(&(b.due_at, &b.id)));
        due.truncate(size(limit));
        Ok(due)
    }

    fn task_list_statuses(&mut self, workflow: &WorkflowId) -> Result<Vec<TaskStatus>> {
        Ok(self.task_count(workflow)?.into_iter().map(|(status, _)| status).collect())
    }

    fn task_count(&mut self, workflow: &WorkflowId) -> Result<Vec<(TaskStatus, u64)>> {
        let mut counts = BTreeMap::new();
        for task in self.rows.tasks.values().filter(|task| task.workflow_id == *workflow) {
            *counts.entry(task.status).or_default() += 1;
        }
        Ok(counts.into_iter().collect())
    }

    fn task_count_in_workflows(&mut self, workflows: &[WorkflowId]) -> Result<Vec<(WorkflowId, TaskStatus, u64)>> {
        let mut counts = BTreeMap::new();
        for task in self.rows.tasks.values().filter(|task| workflows.contains(&task.workflow_id)) {
            *counts.entry((task.workflow_id.clone(), task.status)).or_default() += 1;
        }
        Ok(counts.into_iter().map(|((workflow, status), count)| (workflow, status, count)).collect())
    }

    fn dependency_put(&mut self, dependency: &Dependency) -> Result<()> {
        self.need_task(&dependency.task_id)?;
        self.need_task(&dependency.depends_on)?;
        let key = (dependency.task_id.clone(), dependency.depends_on.clone());
        self.rows.dependencies.insert(key, dependency.kind);
        Ok(())
    }

    fn dependency_remove(&mut self, task: &TaskId, depends_on: &TaskId) -> Result<()> {
        self.rows.dependencies.remove(&(task.clone(), depends_on.clone()));
        Ok(())
    }

    fn dependency_list(&mut self, workflow: &WorkflowId) -> Result<Vec<Dependency>> {
        let tasks = &self.rows.tasks;
        Ok(self.dependencies(|task| tasks[task].workflow_id == *workflow))
    }

    fn dependency_list_in_workflows(&mut self, workflows: &[WorkflowId]) -> Result<Vec<Dependency>> {
        let tasks = &self.rows.tasks;
        Ok(self.dependencies(|task| workflows.contains(&tasks[task].workflow_id)))
    }

    fn dependency_list_of(&mut self, task: &TaskId) -> Result<Vec<Dependency>> {
        Ok(self.dependencies(|of| of == task))
    }

    fn dependency_list_by_task(&mut self, tasks: &[TaskId]) -> Result<Vec<Dependency>> {
        Ok(self.dependencies(|of| tasks.contains(of)))
    }

    fn checkpoint_put(&mut self, checkpoint: &Checkpoint) -> Result<()> {
        self.need_worktree(&checkpoint.worktree_id)?;
        self.need_task(&checkpoint.task_id)?;
        self.need_agent(&checkpoint.agent_id)?;
        let is_twin = |other: &Checkpoint| {
            other.id == checkpoint.id || (other.task_id == checkpoint.task_id && other.sequence == checkpoint.sequence)
        };
        if self.rows.checkpoints.values().any(is_twin) {
            return Err(Error::internal(format!("there is a checkpoint {} already", checkpoint.sequence)));
        }
        self.rows.checkpoints.insert(checkpoint.id.clone(), checkpoint.clone());
        Ok(())
    }

    fn checkpoint_list(&mut self, task: &TaskId, before: Option<u32>, limit: u32) -> Result<Vec<Checkpoint>> {
        let matches = |checkpoint: &&Checkpoint| {
            checkpoint.task_id == *task && before.is_none_or(|before| checkpoint.sequence < before)
        };
        let mut checkpoints: Vec<_> = self.rows.checkpoints.values().filter(matches).cloned().collect();
        checkpoints.sort_by_key(|checkpoint| std::cmp::Reverse(checkpoint.sequence));
        checkpoints.truncate(size(limit));
        Ok(checkpoints)
    }

    fn checkpoint_last(&mut self, task: &TaskId) -> Result<u32> {
        Ok(self.checkpoint_list(task, None, 1)?.first().map_or(0, |last| last.sequence))
    }

    fn agent_put(&mut self, agent: &Agent) -> Result<()> {
        self.need_worktree(&agent.worktree_id)?;
        if self.rows.agents.values().any(|other| other.name == agent.name && other.id != agent.id) {
            return Err(Error::internal(format!("there is an agent {} already", agent.name)));
        }
        self.rows.agents.insert(agent.id.clone(), agent.clone());
        Ok(())
    }

    fn agent_touch(&mut self, agent: &Agent) -> Result<()> {
        if let Some(known) = self.rows.agents.get_mut(&agent.id) {
            (known.last_heartbeat, known.silent_at) = (agent.last_heartbeat, agent.silent_at);
        }
        Ok(())
    }

    fn agent_get(&mut self, id: &AgentId) -> Result<Option<Agent>> {
        Ok(self.rows.agents.get(id).cloned())
    }

    fn agent_named(&mut self, name: &str) -> Result<Option<Agent>> {
        Ok(self.rows.agents.values().find(|agent| agent.name == name).cloned())
    }

    fn agent_list(&mut self) -> Result<Vec<Agent>> {
        let mut agents: Vec<_> = self.rows.agents.values().cloned().collect();
        agents.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(agents)
    }

    fn agent_list_silent(&mut self, now: Timestamp, limit: u32) -> Result<Vec<Agent>> {
        let is_silent = |agent: &&Agent| {
            agent.status != AgentStatus::Offline && agent.silent_at.is_some_and(|silent_at| silent_at <= now)
        };
        let mut silent: Vec<_> = self.rows.agents.values().filter(is_silent).cloned().collect();
        silent.sort_by(|a, b| (a.silent_at, &a.id).cmp(&(b.silent_at, &b.id)));
        silent.truncate(size(limit));
        Ok(silent)
    }

    fn lease_put(&mut self, lease: &Lease) -> Result<()> {
        self.need_worktree(&lease.worktree_id)?;
        lease.holder.as_ref().map_or(Ok(()), |holder| self.need_agent(holder))?;
        self.rows.leases.insert(lease.subject.clone(), lease.clone());
        Ok(())
    }

    fn lease_renew(&mut self, lease: &Lease) -> Result<()> {
        if let Some(known) = self.rows.leases.get_mut(&lease.subject) {
            let Lease { expires_at, ttl_ms, run_until, stall_at, .. } = *lease;
            (known.expires_at, known.ttl_ms) = (expires_at, ttl_ms);
            (known.run_until, known.stall_at) = (run_until, stall_at);
        }
        Ok(())
    }

    fn lease_get(&mut self, subject: &str) -> Result<Option<Lease>> {
        Ok(self.rows.leases.get(subject).cloned())
    }

    fn lease_list(&mut self, holder: Option<&AgentId>) -> Result<Vec<Lease>> {
        let matches = |lease: &&Lease| match holder {
            Some(holder) => lease.holder.as_ref() == Some(holder),
            None => lease.holder.is_some(),
        };
        Ok(self.rows.leases.values().filter(matches).cloned().collect())
    }

    fn lease_list_by_task(&mut self, tasks: &[TaskId]) -> Result<Vec<Lease>> {
        let matches = |lease: &&Lease| tasks.iter().any(|task| task.as_str() == lease.subject);
        Ok(self.rows.leases.values().filter(matches).cloned().collect())
    }

    fn lease_list_in_workflows(&mut self, workflows: &[WorkflowId]) -> Result<Vec<Lease>> {
        let tasks = &self.rows.tasks;
        let matches = |lease: &&Lease| {
            let task = lease.subject.parse::<TaskId>().ok().and_then(|id| tasks.get(&id));
            task.is_some_and(|task| workflows.contains(&task.workflow_id))
        };
        Ok(self.rows.leases.values().filter(matches).cloned().collect())
    }

    fn lease_list_due(&mut self, now: Timestamp, limit: u32) -> Result<Vec<Lease>> {
        let is_due = |lease: &&Lease| lease.holder.is_some() && lease.deadline() <= now;
        let mut due: Vec<_> = self.rows.leases.values().filter(is_due).cloned().collect();
        due.sort_by(|a, b| (a.deadline(), &a.subject).cmp(&(b.deadline(), &b.subject)));
        due.truncate(size(limit));
        Ok(due)
    }

    fn epoch_floor(&mut self) -> Result<u64> {
        Ok(self.rows.epoch_floor)
    }

    fn epoch_floor_put(&mut self, epoch: u64) -> Result<()> {
        self.rows.epoch_floor = epoch;
        Ok(())
    }

    fn lease_max_epoch(&mut self) -> Result<u64> {
        Ok(self.rows.leases.values().map(|lease| lease.epoch).max().unwrap_or_default())
    }

    fn message_put(&mut self, message: &Message) -> Result<()> {
        self.need_worktree(&message.worktree_id)?;
        self.need_agent(&message.sender)?;
        self.need_agent(&message.recipient)?;
        message.task_id.as_ref().map_or(Ok(()), |task| self.need_task(task))?;
        if let Some(id) = message.workflow_id.as_ref().filter(|id| !self.rows.workflows.contains_key(*id)) {
            return Err(unknown("workflow", id));
        }
        if let Some(id) = message.reply_to.as_ref().filter(|id| !self.rows.messages.contains_key(*id)) {
            return Err(unknown("message", id));
        }
        if self.rows.messages.values().any(|other| other.number == message.number && other.id != message.id) {
            return Err(Error::internal(format!("there is a message number {} already", message.number)));
        }
        self.rows.messages.insert(message.id.clone(), message.clone());
        Ok(())
    }

    fn message_get(&mut self, id: &MessageId) -> Result<Option<Message>> {
        Ok(self.rows.messages.get(id).cloned())
    }

    fn message_last(&mut self) -> Result<u64> {
        Ok(self.rows.messages.values().map(|message| message.number).max().unwrap_or(0))
    }

    fn message_list(&mut self, recipient: &AgentId, now: Timestamp, after: u64, limit: u32) -> Result<Vec<Message>> {
        let mut inbox = self.inbox(recipient, now);
        inbox.retain(|message| message.number > after);
        inbox.truncate(size(limit));
        Ok(inbox)
    }

    fn message_count(&mut self, recipient: &AgentId, now: Timestamp) -> Result<u64> {
        Ok(self.inbox(recipient, now).len() as u64)
    }

    fn message_count_by_recipient(&mut self, now: Timestamp) -> Result<Vec<(AgentId, u64)>> {
        let counts = self.rows.agents.keys().map(|id| (id.clone(), self.inbox(id, now).len() as u64));
        Ok(counts.filter(|(_, count)| *count > 0).collect())
    }

    fn message_list_about(&mut self, workflow: &WorkflowId) -> Result<Vec<Message>> {
        let is_about = |message: &&Message| message.workflow_id.as_ref() == Some(workflow);
        let mut messages: Vec<_> = self.rows.messages.values().filter(is_about).cloned().collect();
        messages.sort_by_key(|message| message.number);
        Ok(messages)
    }

    fn message_detach(&mut self, task: &TaskId) -> Result<()> {
        for message in self.rows.messages.values_mut().filter(|message| message.task_id.as_ref() == Some(task)) {
            message.task_id = None;
        }
        Ok(())
    }

    fn message_list_thread(&mut self, thread: &MessageId) -> Result<Vec<Message>> {
        let mut messages: Vec<_> =
            self.rows.messages.values().filter(|message| message.thread == *thread).cloned().collect();
        messages.sort_by_key(|message| message.number);
        Ok(messages)
    }

    fn template_put(&mut self, template: &Template) -> Result<()> {
        self.need_worktree(&template.worktree_id)?;
        let is_twin = |other: &Template| {
            other.id == template.id || (other.name == template.name && other.version == template.version)
        };
        if self.rows.templates.values().any(is_twin) {
            return Err(Error::internal(format!("there is a template {} {} already", template.name, template.version)));
        }
        self.rows.templates.insert(template.id.clone(), template.clone());
        Ok(())
    }

    fn template_list(&mut self, name: Option<&str>) -> Result<Vec<Template>> {
        let mut latest: BTreeMap<&str, &Template> = BTreeMap::new();
        for template in self.rows.templates.values().filter(|template| name.is_none_or(|name| template.name == name)) {
            let known = latest.entry(&template.name).or_insert(template);
            if known.version < template.version {
                *known = template;
            }
        }
        Ok(latest.into_values().cloned().collect())
    }

    fn answer_put(&mut self, answer: &SavedAnswer) -> Result<()> {
        self.need_worktree(&answer.worktree_id)?;
        if self.rows.answers.insert(answer.key.clone(), answer.clone()).is_some() {
            return Err(Error::internal(format!("there is an answer to {} already", answer.key)));
        }
        Ok(())
    }

    fn answer_get(&mut self, key: &str) -> Result<Option<SavedAnswer>> {
        Ok(self.rows.answers.get(key).cloned())
    }

    fn answer_forget(&mut self, before: Timestamp) -> Result<()> {
        self.rows.answers.retain(|_, answer| answer.created_at >= before);
        Ok(())
    }

    fn notice_put(&mut self, notice: &Notice) -> Result<()> {
        self.need_worktree(&notice.worktree_id)?;
        notice.task_id.as_ref().map_or(Ok(()), |task| self.need_task(task))?;
        self.rows.notices.insert(notice.issue.clone(), notice.clone());
        Ok(())
    }

    fn notice_list(&mut self) -> Result<Vec<Notice>> {
        let mut notices: Vec<_> = self.rows.notices.values().cloned().collect();
        notices.sort_by(|a, b| (a.created_at, &a.issue).cmp(&(b.created_at, &b.issue)));
        Ok(notices)
    }

    fn notice_remove(&mut self, issue: &str) -> Result<()> {
        self.rows.notices.remove(issue);
        Ok(())
    }

    fn deferred_put(&mut self, deferred: &DeferredChanges) -> Result<()> {
        self.need_worktree(&deferred.worktree_id)?;
        self.rows.deferred.insert(deferred.key.clone(), deferred.clone());
        Ok(())
    }

    fn deferred_list(&mut self) -> Result<Vec<DeferredChanges>> {
        let mut deferred: Vec<_> = self.rows.deferred.values().cloned().collect();
        deferred.sort_by(|a, b| (a.number, &a.key).cmp(&(b.number, &b.key)));
        Ok(deferred)
    }

    fn deferred_remove(&mut self, key: &str) -> Result<()> {
        self.rows.deferred.remove(key);
        Ok(())
    }

    fn job_put(&mut self, job: &Job) -> Result<()> {
        self.need_worktree(&job.worktree_id)?;
        self.need_repository(&job.repository_id)?;
        job.agent_id.as_ref().map_or(Ok(()), |agent| self.need_agent(agent))?;
        self.rows.jobs.insert(job.id.clone(), job.clone());
        Ok(())
    }

    fn job_get(&mut self, id: &JobId) -> Result<Option<Job>> {
        Ok(self.rows.jobs.get(id).cloned())
    }

    fn job_list(&mut self, query: &JobQuery) -> Result<Vec<Job>> {
        let matches = |job: &&Job| {
            query.worktree_id.as_ref().is_none_or(|id| job.worktree_id == *id || self.is_work_of(job, id))
                && (query.repositories.is_empty() || query.repositories.contains(&job.repository_id))
                && query.task_id.as_ref().is_none_or(|task| job.task_id.as_ref() == Some(task))
                && query.status.is_none_or(|status| job.status == status)
                && !(query.is_live && job.status.is_final())
                && is_older(query.after.as_ref(), job.created_at, &job.id)
        };
        let mut jobs: Vec<_> = self.rows.jobs.values().filter(matches).cloned().collect();
        jobs.sort_by(|a, b| (b.created_at, &b.id).cmp(&(a.created_at, &a.id)));
        jobs.truncate(query.limit as usize);
        Ok(jobs)
    }

    fn log_put(&mut self, piece: &LogPiece) -> Result<()> {
        if !self.rows.jobs.contains_key(&piece.job_id) {
            return Err(Error::internal(format!("there is no job {}", piece.job_id)));
        }
        self.rows.logs.insert((piece.job_id.clone(), piece.first_byte), piece.clone());
        Ok(())
    }

    fn log_list(&mut self, job: &JobId, after: u64, limit: u32) -> Result<Vec<LogPiece>> {
        let of_job = self.rows.logs.values().filter(|piece| piece.job_id == *job && piece.next_byte() > after);
        Ok(of_job.take(limit as usize).cloned().collect())
    }

    fn log_last(&mut self, job: &JobId) -> Result<Option<LogPiece>> {
        Ok(self.rows.logs.values().rfind(|piece| piece.job_id == *job).cloned())
    }

    fn log_trim(&mut self, job: &JobId, before: u64) -> Result<()> {
        self.rows.logs.retain(|_, piece| piece.job_id != *job || piece.next_byte() > before);
        Ok(())
    }

    fn machine_put(&mut self, machine: &Machine) -> Result<()> {
        self.rows.machines.insert(machine.name.clone(), machine.clone());
        Ok(())
    }

    fn machine_get(&mut self, name: &str) -> Result<Option<Machine>> {
        Ok(self.rows.machines.get(name).cloned())
    }

    fn machine_list(&mut self) -> Result<Vec<Machine>> {
        Ok(self.rows.machines.values().cloned().collect())
    }

    fn workspace_put(&mut self, workspace: &Workspace) -> Result<()> {
        self.need_worktree(&workspace.worktree_id)?;
        self.need_repository(&workspace.repository_id)?;
        self.rows.workspaces.insert(workspace.id.clone(), workspace.clone());
        Ok(())
    }

    fn workspace_get(&mut self, id: &WorkspaceId) -> Result<Option<Workspace>> {
        Ok(self.rows.workspaces.get(id).cloned())
    }

    fn workspace_list(&mut self, query: &WorkspaceQuery) -> Result<Vec<Workspace>> {
        let is_work_of = |workspace: &Workspace, id: &WorktreeId| {
            let job = workspace.job_id.as_ref().and_then(|job| self.rows.jobs.get(job));
            workspace.worktree_id == *id || job.is_some_and(|job| self.is_work_of(job, id))
        };
        let matches = |workspace: &&Workspace| {
            query.worktree_id.as_ref().is_none_or(|id| is_work_of(workspace, id))
                && (query.repositories.is_empty() || query.repositories.contains(&workspace.repository_id))
                && query.machine.as_ref().is_none_or(|machine| workspace.machine == *machine)
                && query.job_id.as_ref().is_none_or(|job| workspace.job_id.as_ref() == Some(job))
                && (query.all || workspace.removed_at.is_none())
                && is_older(query.after.as_ref(), workspace.created_at, &workspace.id)
        };
        let mut workspaces: Vec<_> = self.rows.workspaces.values().filter(matches).cloned().collect();
        workspaces.sort_by(|a, b| (b.created_at, &b.id).cmp(&(a.created_at, &a.id)));
        workspaces.truncate(query.limit as usize);
        Ok(workspaces)
    }

    fn message_list_handled(&mut self, before: Timestamp, limit: u32) -> Result<Vec<(MessageId, Timestamp)>> {
        let mut threads: BTreeMap<&MessageId, Vec<&Message>> = BTreeMap::new();
        for message in self.rows.messages.values() {
            threads.entry(&message.thread).or_default().push(message);
        }
        threads.retain(|_, messages| messages.iter().all(|message| is_handled(message, before)));
        let mut handled = Vec::new();
        for (_, mut messages) in threads.into_iter().take(size(limit)) {
            messages.sort_by_key(|message| message.number);
            handled.extend(messages.into_iter().map(|message| (message.id.clone(), message.created_at)));
        }
        Ok(handled)
    }

    fn message_remove(&mut self, ids: &[MessageId]) -> Result<()> {
        self.rows.messages.retain(|id, _| !ids.contains(id));
        let answered = self.rows.messages.values().filter_map(|message| message.reply_to.as_ref());
        match answered.into_iter().find(|id| ids.contains(id)) {
            Some(id) => Err(Error::internal(format!("a row refers to message {id}"))),
            None => Ok(()),
        }
    }

    fn workflow_list_removable(&mut self, before: Timestamp, limit: u32) -> Result<Vec<Workflow>> {
        let is_removable = |workflow: &&Workflow| {
            workflow.status.is_final()
                && workflow.finished_at.is_some_and(|finished_at| finished_at < before)
                && !self.is_in_use(&workflow.id, before)
        };
        let mut workflows: Vec<_> = self.rows.workflows.values().filter(is_removable).cloned().collect();
        workflows.sort_by(|a, b| (a.finished_at, &a.id).cmp(&(b.finished_at, &b.id)));
        workflows.truncate(size(limit));
        Ok(workflows)
    }

    fn workflow_remove(&mut self, ids: &[WorkflowId]) -> Result<()> {
        let tasks: BTreeSet<TaskId> = self.task_list_in_workflows(ids)?.into_iter().map(|task| task.id).collect();
        for message in self.rows.messages.values_mut() {
            message.workflow_id = message.workflow_id.take().filter(|id| !ids.contains(id));
            message.task_id = message.task_id.take().filter(|id| !tasks.contains(id));
        }
        self.rows.dependencies.retain(|(task, _), _| !tasks.contains(task));
        self.rows.checkpoints.retain(|_, checkpoint| !tasks.contains(&checkpoint.task_id));
        self.rows.leases.retain(|subject, _| !tasks.iter().any(|task| task.as_str() == subject));
        for task in &tasks {
            self.task_remove(task)?;
        }
        self.rows.workflow_repositories.retain(|(workflow, _)| !ids.contains(workflow));
        self.rows.workflows.retain(|id, _| !ids.contains(id));
        Ok(())
    }

    fn job_list_in_workflows(&mut self, workflows: &[WorkflowId]) -> Result<Vec<Job>> {
        let is_of = |job: &&Job| self.workflow_of(job).is_some_and(|workflow| workflows.contains(workflow));
        Ok(self.rows.jobs.values().filter(is_of).cloned().collect())
    }

    fn job_list_removable(&mut self, before: Timestamp, limit: u32) -> Result<Vec<Job>> {
        let is_removable = |job: &&Job| self.workflow_of(job).is_none() && self.is_over(job, before);
        let mut jobs: Vec<_> = self.rows.jobs.values().filter(is_removable).cloned().collect();
        jobs.sort_by(|a, b| (a.finished_at, &a.id).cmp(&(b.finished_at, &b.id)));
        jobs.truncate(size(limit));
        Ok(jobs)
    }

    fn job_remove(&mut self, ids: &[JobId]) -> Result<()> {
        self.rows.jobs.retain(|id, _| !ids.contains(id));
        self.rows.logs.retain(|(id, _), _| !ids.contains(id));
        Ok(())
    }

    fn workspace_list_by_job(&mut self, jobs: &[JobId]) -> Result<Vec<WorkspaceId>> {
        let is_of = |workspace: &&Workspace| workspace.job_id.as_ref().is_some_and(|job| jobs.contains(job));
        Ok(self.rows.workspaces.values().filter(is_of).map(|workspace| workspace.id.clone()).collect())
    }

    fn workspace_list_removable(&mut self, before: Timestamp, limit: u32) -> Result<Vec<WorkspaceId>> {
        let is_removable = |workspace: &&Workspace| {
            workspace.removed_at.is_some_and(|removed_at| removed_at < before)
                && !workspace.job_id.as_ref().is_some_and(|job| self.rows.jobs.contains_key(job))
        };
        let mut workspaces: Vec<_> = self.rows.workspaces.values().filter(is_removable).collect();
        workspaces.sort_by(|a, b| (a.removed_at, &a.id).cmp(&(b.removed_at, &b.id)));
        Ok(workspaces.into_iter().take(size(limit)).map(|workspace| workspace.id.clone()).collect())
    }

    fn workspace_remove(&mut self, ids: &[WorkspaceId]) -> Result<()> {
        self.rows.workspaces.retain(|id, _| !ids.contains(id));
        Ok(())
    }

    fn event_list_removable(&mut self, before: Timestamp, limit: u32) -> Result<Vec<(u64, Timestamp, String)>> {
        let is_removable = |event: &&Event| event.time < before && !self.is_kept(&event.subject, &[]);
        let events = self.rows.events.iter().filter(is_removable).take(size(limit));
        Ok(events.map(|event| (event.sequence, event.time, event.kind.clone())).collect())
    }

    fn event_count_removable(&mut self, before: Timestamp, without: &[String]) -> Result<u64> {
        let is_removable = |event: &&Event| event.time < before && !self.is_kept(&event.subject, without);
        Ok(self.rows.events.iter().filter(is_removable).count() as u64)
    }

    fn event_remove(&mut self, before: Timestamp, sequences: &[u64]) -> Result<()> {
        let newest = self.event_last()?;
        let is_removed = |event: &Event| sequences.contains(&event.sequence) && event.sequence < newest;
        if self.rows.events.iter().any(|event| is_removed(event) && event.time >= before) {
            return Err(Error::internal("events that are kept are never deleted"));
        }
        self.rows.events.retain(|event| !is_removed(event));
        Ok(())
    }

    fn summary_put(&mut self, summary: &Summary) -> Result<()> {
        self.need_worktree(&summary.worktree_id)?;
        self.rows.summaries.insert(summary.subject.clone(), summary.clone());
        Ok(())
    }

    fn summary_get(&mut self, subject: &str) -> Result<Option<Summary>> {
        Ok(self.rows.summaries.get(subject).cloned())
    }

    fn summary_list_by_subject(&mut self, subjects: &[String]) -> Result<Vec<Summary>> {
        Ok(self.rows.summaries.values().filter(|summary| subjects.contains(&summary.subject)).cloned().collect())
    }

    fn summary_list(&mut self, limit: u32) -> Result<Vec<Summary>> {
        let mut all: Vec<Summary> = self.rows.summaries.values().cloned().collect();
        all.sort_by(|a, b| (b.removed_at, &b.subject).cmp(&(a.removed_at, &a.subject)));
        all.truncate(size(limit));
        Ok(all)
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
