//! The operations of a transaction, in the order of the tables.

use waypost_core::clock::{Anchor, Reading, Remembered};
use waypost_core::id::{AgentId, JobId, MessageId, RepositoryId, TaskId, WorkflowId, WorkspaceId, WorktreeId};
use waypost_core::model::{
    Agent, CandidateQuery, Checkpoint, DeferredChanges, Dependency, Event, EventQuery, Job, JobQuery, Lease, LogPiece,
    Machine, Message, NewEvent, Notice, PlanPart, Progress, Repository, SavedAnswer, Summary, Task, TaskPlace,
    TaskStatus, Template, Workflow, WorkflowQuery, Workspace, WorkspaceQuery, Worktree,
};
use waypost_core::store::Tx;
use waypost_core::time::Timestamp;
use waypost_core::{Error, Result};

use super::SqlTx;
use crate::cell::{Row, cells, json, one_number, one_parsed};
use crate::database::Savepoint;
use crate::sql::{self, AppendedEvent};

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

    fn prefetch(&mut self, reads: &mut dyn FnMut(&mut dyn Tx) -> Result<()>) -> Result<()> {
        if !self.database.is_remote() {
            return Ok(());
        }
        let state = self.state.clone();
        self.collected = Some(Vec::new());
        let outcome = reads(self);
        let collected = self.collected.take().unwrap_or_default();
        self.state = state;
        outcome?;
        let done = self.database.prefetch(collected);
        self.has_failed |= done.is_err();
        done
    }

    fn writes(&self) -> u64 {
        self.writes
    }

    fn mark(&mut self) -> Result<()> {
        if self.has_savepoint {
            self.savepoint(Savepoint::Release)?;
        }
        self.savepoint(Savepoint::Set)?;
        (self.has_savepoint, self.saved_state) = (true, self.state.clone());
        Ok(())
    }

    fn undo(&mut self) -> Result<()> {
        if !self.has_savepoint {
            return Err(Error::internal("the transaction has no savepoint"));
        }
        self.savepoint(Savepoint::RollBack)?;
        (self.state, self.has_failed) = (self.saved_state.clone(), false);
        Ok(())
    }

    fn repository_get(&mut self, id: &RepositoryId) -> Result<Option<Repository>> {
        self.one(sql::REPOSITORY_GET, cells![id.as_str()])
    }

    fn repository_put(&mut self, repository: &Repository) -> Result<()> {
        self.put(repository)
    }

    fn repository_list(&mut self) -> Result<Vec<Repository>> {
        self.all(sql::REPOSITORY_LIST, &[])
    }

    fn repository_remove(&mut self, id: &RepositoryId) -> Result<()> {
        self.run(sql::REPOSITORY_REMOVE, cells![id.as_str()])
    }

    fn worktree_get(&mut self, id: &WorktreeId) -> Result<Option<Worktree>> {
        self.one(sql::WORKTREE_GET, cells![id.as_str()])
    }

    fn worktree_put(&mut self, worktree: &Worktree) -> Result<()> {
        self.put(worktree)
    }

    fn worktree_touch(&mut self, id: &WorktreeId, last_seen: Timestamp) -> Result<()> {
        self.run(sql::WORKTREE_TOUCH, cells![id.as_str(), last_seen])
    }

    fn worktree_list(&mut self) -> Result<Vec<Worktree>> {
        self.all(sql::WORKTREE_LIST, &[])
    }

    fn event_append(&mut self, event: &NewEvent) -> Result<u64> {
        // A sequence that was rolled back is used again, so the history has no gaps.
        let sequence = self.state()?.sequence + 1;
        self.put(&AppendedEvent::new(sequence, event))?;
        let state = self.state()?;
        (state.sequence, state.clock.last) = (sequence, Some(event.time));
        Ok(sequence)
    }

    fn event_list(&mut self, query: &EventQuery) -> Result<Vec<Event>> {
        self.listed(sql::event_list(query))
    }

    fn event_last(&mut self) -> Result<u64> {
        Ok(self.state()?.sequence)
    }

    fn due_count(&mut self, now: Timestamp) -> Result<u64> {
        self.number(sql::DUE_COUNT, cells![now])
    }

    fn workflow_put(&mut self, workflow: &Workflow) -> Result<()> {
        self.put(workflow)
    }

    fn workflow_get(&mut self, id: &WorkflowId) -> Result<Option<Workflow>> {
        self.one(sql::WORKFLOW_GET, cells![id.as_str()])
    }

    fn workflow_list_by_id(&mut self, ids: &[WorkflowId]) -> Result<Vec<Workflow>> {
        self.all_in(sql::WORKFLOW_LIST_BY_ID, &ids)
    }

    fn workflow_list(&mut self, query: &WorkflowQuery) -> Result<Vec<Workflow>> {
        self.listed(sql::workflow_list(query))
    }

    fn workflow_repository_put(&mut self, workflow: &WorkflowId, repository: &RepositoryId) -> Result<()> {
        self.run(sql::WORKFLOW_REPOSITORY_PUT, cells![workflow.as_str(), repository.as_str()])
    }

    fn workflow_repository_remove(&mut self, workflow: &WorkflowId, repository: &RepositoryId) -> Result<()> {
        self.run(sql::WORKFLOW_REPOSITORY_REMOVE, cells![workflow.as_str(), repository.as_str()])
    }

    fn workflow_repository_list(&mut self, workflow: &WorkflowId) -> Result<Vec<RepositoryId>> {
        self.read(sql::WORKFLOW_REPOSITORY_LIST, cells![workflow.as_str()], one_parsed)
    }

    fn workflow_repository_list_in(&mut self, workflows: &[WorkflowId]) -> Result<Vec<(WorkflowId, RepositoryId)>> {
        let pair = |row: &mut Row<'_>| Ok((row.parsed()?, row.parsed()?));
        self.read(sql::WORKFLOW_REPOSITORY_LIST_IN, &[json(&workflows)?], pair)
    }

    fn task_put(&mut self, task: &Task) -> Result<()> {
        self.put(task)
    }

    fn task_advance(&mut self, id: &TaskId, progress: &Progress<'_>) -> Result<()> {
        self.update(id.as_str(), progress)
    }

    fn task_get(&mut self, id: &TaskId) -> Result<Option<Task>> {
        self.one(sql::TASK_GET, cells![id.as_str()])
    }

    fn task_remove(&mut self, id: &TaskId) -> Result<()> {
        self.run(sql::TASK_REMOVE, cells![id.as_str()])
    }

    fn task_list(&mut self, workflow: &WorkflowId) -> Result<Vec<Task>> {
        self.all(sql::TASK_LIST, cells![workflow.as_str()])
    }

    fn task_list_by_id(&mut self, ids: &[TaskId]) -> Result<Vec<Task>> {
        self.all_in(sql::TASK_LIST_BY_ID, &ids)
    }

    fn task_list_part(&mut self, part: &PlanPart) -> Result<Vec<Task>> {
        self.all(sql::TASK_LIST_PART, &sql::plan_part(part))
    }

    fn task_count_part(&mut self, part: &PlanPart) -> Result<u64> {
        let [of_part @ .., _] = sql::plan_part(part);
        self.number(sql::TASK_COUNT_PART, &of_part)
    }

    fn task_list_in_workflows(&mut self, workflows: &[WorkflowId]) -> Result<Vec<Task>> {
        self.all_in(sql::TASK_LIST_IN_WORKFLOWS, &workflows)
    }

    fn task_list_names(&mut self, workflow: &WorkflowId, limit: u32) -> Result<Vec<(TaskId, String, TaskStatus)>> {
        let name = |row: &mut Row<'_>| Ok((row.parsed()?, row.text()?, row.parsed()?));
        self.read(sql::TASK_LIST_NAMES, cells![limit, workflow.as_str()], name)
    }

    fn task_list_named(&mut self, name: &str, limit: u32) -> Result<Vec<Task>> {
        self.all(sql::TASK_LIST_NAMED, cells![limit, name])
    }

    fn task_list_in(&mut self, status: TaskStatus, place: &TaskPlace, limit: u32) -> Result<Vec<Task>> {
        self.listed(sql::task_list_in(status, place, limit))
    }

    fn task_list_claimable(&mut self, query: &CandidateQuery) -> Result<Vec<Task>> {
        self.listed(sql::task_list_claimable(query))
    }

    fn task_list_due(&mut self, now: Timestamp, limit: u32) -> Result<Vec<Task>> {
        self.all(sql::TASK_LIST_DUE, cells![limit, now])
    }

    fn task_count(&mut self, workflow: &WorkflowId) -> Result<Vec<(TaskStatus, u64)>> {
        let count = |row: &mut Row<'_>| Ok((row.parsed()?, row.number()?));
        let mut counts = self.read(sql::TASK_COUNT, cells![workflow.as_str()], count)?;
        counts.sort_unstable();
        Ok(counts)
    }

    fn task_count_in_workflows(&mut self, workflows: &[WorkflowId]) -> Result<Vec<(WorkflowId, TaskStatus, u64)>> {
        let count = |row: &mut Row<'_>| Ok((row.parsed()?, row.parsed()?, row.number()?));
        let mut counts = self.read(sql::TASK_COUNT_IN_WORKFLOWS, &[json(&workflows)?], count)?;
        counts.sort_unstable();
        Ok(counts)
    }

    fn task_list_statuses(&mut self, workflow: &WorkflowId) -> Result<Vec<TaskStatus>> {
        let mut statuses = self.read(sql::TASK_LIST_STATUSES, cells![workflow.as_str()], one_parsed)?;
        statuses.sort_unstable();
        Ok(statuses)
    }

    fn dependency_put(&mut self, dependency: &Dependency) -> Result<()> {
        self.put(dependency)
    }

    fn dependency_remove(&mut self, task: &TaskId, depends_on: &TaskId) -> Result<()> {
        self.run(sql::DEPENDENCY_REMOVE, cells![task.as_str(), depends_on.as_str()])
    }

    fn dependency_list(&mut self, workflow: &WorkflowId) -> Result<Vec<Dependency>> {
        self.all(sql::DEPENDENCY_LIST, cells![workflow.as_str()])
    }

    fn dependency_list_in_workflows(&mut self, workflows: &[WorkflowId]) -> Result<Vec<Dependency>> {
        self.all_in(sql::DEPENDENCY_LIST_IN_WORKFLOWS, &workflows)
    }

    fn dependency_list_by_task(&mut self, tasks: &[TaskId]) -> Result<Vec<Dependency>> {
        self.all_in(sql::DEPENDENCY_LIST_BY_TASK, &tasks)
    }

    fn dependency_list_of(&mut self, task: &TaskId) -> Result<Vec<Dependency>> {
        self.all(sql::DEPENDENCY_LIST_OF, cells![task.as_str()])
    }

    fn checkpoint_put(&mut self, checkpoint: &Checkpoint) -> Result<()> {
        self.put(checkpoint)
    }

    fn checkpoint_list(&mut self, task: &TaskId, before: Option<u32>, limit: u32) -> Result<Vec<Checkpoint>> {
        let before = before.map_or(i64::MAX.cast_unsigned(), u64::from);
        self.all(sql::CHECKPOINT_LIST, cells![limit, task.as_str(), before])
    }

    fn checkpoint_last(&mut self, task: &TaskId) -> Result<u32> {
        Ok(self.first(sql::CHECKPOINT_LAST, cells![task.as_str()], one_number)?.unwrap_or_default())
    }

    fn agent_put(&mut self, agent: &Agent) -> Result<()> {
        self.put(agent)
    }

    fn agent_touch(&mut self, agent: &Agent) -> Result<()> {
        self.update(agent.id.as_str(), agent)
    }

    fn agent_get(&mut self, id: &AgentId) -> Result<Option<Agent>> {
        self.one(sql::AGENT_GET, cells![id.as_str()])
    }

    fn agent_named(&mut self, name: &str) -> Result<Option<Agent>> {
        self.one(sql::AGENT_NAMED, cells![name])
    }

    fn agent_list(&mut self) -> Result<Vec<Agent>> {
        self.all(sql::AGENT_LIST, &[])
    }

    fn agent_list_silent(&mut self, now: Timestamp, limit: u32) -> Result<Vec<Agent>> {
        self.all(sql::AGENT_LIST_SILENT, cells![limit, now])
    }

    fn lease_put(&mut self, lease: &Lease) -> Result<()> {
        self.put(lease)
    }

    fn lease_renew(&mut self, lease: &Lease) -> Result<()> {
        self.update(&lease.subject, lease)
    }

    fn lease_get(&mut self, subject: &str) -> Result<Option<Lease>> {
        self.one(sql::LEASE_GET, cells![subject])
    }

    fn lease_list(&mut self, holder: Option<&AgentId>) -> Result<Vec<Lease>> {
        match holder {
            None => self.all(sql::LEASE_LIST, &[]),
            Some(holder) => self.all(sql::LEASE_LIST_OF_HOLDER, cells![holder.as_str()]),
        }
    }

    fn lease_list_by_task(&mut self, tasks: &[TaskId]) -> Result<Vec<Lease>> {
        self.all_in(sql::LEASE_LIST_BY_TASK, &tasks)
    }

    fn lease_list_in_workflows(&mut self, workflows: &[WorkflowId]) -> Result<Vec<Lease>> {
        self.all_in(sql::LEASE_LIST_IN_WORKFLOWS, &workflows)
    }

    fn lease_list_due(&mut self, now: Timestamp, limit: u32) -> Result<Vec<Lease>> {
        self.all(sql::LEASE_LIST_DUE, cells![limit, now])
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
        self.number(sql::LEASE_MAX_EPOCH, &[])
    }

    fn message_put(&mut self, message: &Message) -> Result<()> {
        self.put(message)
    }

    fn message_get(&mut self, id: &MessageId) -> Result<Option<Message>> {
        self.one(sql::MESSAGE_GET, cells![id.as_str()])
    }

    fn message_last(&mut self) -> Result<u64> {
        self.number(sql::MESSAGE_LAST, &[])
    }

    fn message_list(&mut self, recipient: &AgentId, now: Timestamp, after: u64, limit: u32) -> Result<Vec<Message>> {
        self.all(sql::MESSAGE_LIST, cells![limit, recipient.as_str(), now, after])
    }

    fn message_count(&mut self, recipient: &AgentId, now: Timestamp) -> Result<u64> {
        self.number(sql::MESSAGE_COUNT, cells![recipient.as_str(), now])
    }

    fn message_count_by_recipient(&mut self, now: Timestamp) -> Result<Vec<(AgentId, u64)>> {
        let count = |row: &mut Row<'_>| Ok((row.parsed()?, row.number()?));
        let mut counts = self.read(sql::MESSAGE_COUNT_BY_RECIPIENT, cells![now], count)?;
        counts.sort_unstable();
        Ok(counts)
    }

    fn message_list_about(&mut self, workflow: &WorkflowId) -> Result<Vec<Message>> {
        self.all(sql::MESSAGE_LIST_ABOUT, cells![workflow.as_str()])
    }

    fn message_detach(&mut self, task: &TaskId) -> Result<()> {
        self.run(sql::MESSAGE_DETACH, cells![task.as_str()])
    }

    fn message_list_thread(&mut self, thread: &MessageId) -> Result<Vec<Message>> {
        self.all(sql::MESSAGE_LIST_THREAD, cells![thread.as_str()])
    }

    fn template_put(&mut self, template: &Template) -> Result<()> {
        self.put(template)
    }

    fn template_list(&mut self, name: Option<&str>) -> Result<Vec<Template>> {
        self.all(sql::TEMPLATE_LIST, cells![name.unwrap_or("")])
    }

    fn answer_put(&mut self, answer: &SavedAnswer) -> Result<()> {
        self.put(answer)
    }

    fn answer_get(&mut self, key: &str) -> Result<Option<SavedAnswer>> {
        self.one(sql::ANSWER_GET, cells![key])
    }

    fn answer_forget(&mut self, before: Timestamp) -> Result<()> {
        self.run(sql::ANSWER_FORGET, cells![before])
    }

    fn notice_put(&mut self, notice: &Notice) -> Result<()> {
        self.put(notice)
    }

    fn notice_list(&mut self) -> Result<Vec<Notice>> {
        self.all(sql::NOTICE_LIST, &[])
    }

    fn notice_remove(&mut self, issue: &str) -> Result<()> {
        self.run(sql::NOTICE_REMOVE, cells![issue])
    }

    fn deferred_put(&mut self, deferred: &DeferredChanges) -> Result<()> {
        self.put(deferred)
    }

    fn deferred_list(&mut self) -> Result<Vec<DeferredChanges>> {
        self.all(sql::DEFERRED_LIST, &[])
    }

    fn deferred_remove(&mut self, key: &str) -> Result<()> {
        self.run(sql::DEFERRED_REMOVE, cells![key])
    }

    fn job_put(&mut self, job: &Job) -> Result<()> {
        self.put(job)
    }

    fn job_get(&mut self, id: &JobId) -> Result<Option<Job>> {
        self.one(sql::JOB_GET, cells![id.as_str()])
    }

    fn job_list(&mut self, query: &JobQuery) -> Result<Vec<Job>> {
        self.listed(sql::job_list(query))
    }

    fn log_put(&mut self, piece: &LogPiece) -> Result<()> {
        self.put(piece)
    }

    fn log_list(&mut self, job: &JobId, after: u64, limit: u32) -> Result<Vec<LogPiece>> {
        self.all(sql::LOG_LIST, cells![job.as_str(), after, limit])
    }

    fn log_last(&mut self, job: &JobId) -> Result<Option<LogPiece>> {
        self.one(sql::LOG_LAST, cells![job.as_str()])
    }

    fn log_trim(&mut self, job: &JobId, before: u64) -> Result<()> {
        self.run(sql::LOG_TRIM, cells![job.as_str(), before])
    }

    fn machine_put(&mut self, machine: &Machine) -> Result<()> {
        self.put(machine)
    }

    fn machine_get(&mut self, name: &str) -> Result<Option<Machine>> {
        self.one(sql::MACHINE_GET, cells![name])
    }

    fn machine_list(&mut self) -> Result<Vec<Machine>> {
        self.all(sql::MACHINE_LIST, &[])
    }

    fn workspace_put(&mut self, workspace: &Workspace) -> Result<()> {
        self.put(workspace)
    }

    fn workspace_get(&mut self, id: &WorkspaceId) -> Result<Option<Workspace>> {
        self.one(sql::WORKSPACE_GET, cells![id.as_str()])
    }

    fn workspace_list(&mut self, query: &WorkspaceQuery) -> Result<Vec<Workspace>> {
        self.listed(sql::workspace_list(query))
    }

    fn message_list_handled(&mut self, before: Timestamp, limit: u32) -> Result<Vec<(MessageId, Timestamp)>> {
        let message = |row: &mut Row<'_>| Ok((row.parsed()?, row.timestamp()?));
        self.read(sql::MESSAGE_LIST_HANDLED, cells![limit, before], message)
    }

    fn message_remove(&mut self, ids: &[MessageId]) -> Result<()> {
        self.run(sql::MESSAGE_REMOVE, &[json(&ids)?])
    }

    fn workflow_list_removable(&mut self, before: Timestamp, limit: u32) -> Result<Vec<Workflow>> {
        self.all(sql::WORKFLOW_LIST_REMOVABLE, cells![limit, before])
    }

    fn workflow_remove(&mut self, ids: &[WorkflowId]) -> Result<()> {
        let ids = json(&ids)?;
        for statement in [
            sql::MESSAGE_DETACH_OF_WORKFLOWS,
            sql::MESSAGE_DETACH_OF_TASKS,
            sql::DEPENDENCY_REMOVE_OF_WORKFLOWS,
            sql::CHECKPOINT_REMOVE_OF_WORKFLOWS,
            sql::LEASE_REMOVE_OF_WORKFLOWS,
            sql::TASK_REMOVE_OF_WORKFLOWS,
            sql::WORKFLOW_REPOSITORY_REMOVE_OF_WORKFLOWS,
            sql::WORKFLOW_REMOVE,
        ] {
            self.run(statement, std::slice::from_ref(&ids))?;
        }
        Ok(())
    }

    fn job_list_in_workflows(&mut self, workflows: &[WorkflowId]) -> Result<Vec<Job>> {
        self.all_in(sql::JOB_LIST_IN_WORKFLOWS, &workflows)
    }

    fn job_list_removable(&mut self, before: Timestamp, limit: u32) -> Result<Vec<Job>> {
        self.all(sql::JOB_LIST_REMOVABLE, cells![limit, before])
    }

    fn job_remove(&mut self, ids: &[JobId]) -> Result<()> {
        self.run(sql::JOB_REMOVE, &[json(&ids)?])
    }

    fn workspace_list_by_job(&mut self, jobs: &[JobId]) -> Result<Vec<WorkspaceId>> {
        self.read(sql::WORKSPACE_LIST_BY_JOB, &[json(&jobs)?], one_parsed)
    }

    fn workspace_list_removable(&mut self, before: Timestamp, limit: u32) -> Result<Vec<WorkspaceId>> {
        self.read(sql::WORKSPACE_LIST_REMOVABLE, cells![limit, before], one_parsed)
    }

    fn workspace_remove(&mut self, ids: &[WorkspaceId]) -> Result<()> {
        self.run(sql::WORKSPACE_REMOVE, &[json(&ids)?])
    }

    fn event_list_removable(&mut self, before: Timestamp, limit: u32) -> Result<Vec<(u64, Timestamp, String)>> {
        let event = |row: &mut Row<'_>| Ok((row.number()?, row.timestamp()?, row.text()?));
        self.read(sql::EVENT_LIST_REMOVABLE, cells!["[]", before, limit], event)
    }

    fn event_count_removable(&mut self, before: Timestamp, without: &[String]) -> Result<u64> {
        self.number(sql::EVENT_COUNT_REMOVABLE, &[json(&without)?, before.into()])
    }

    fn event_remove(&mut self, before: Timestamp, sequences: &[u64]) -> Result<()> {
        self.run(sql::EVENTS_KEPT_PUT, cells![before])?;
        self.run(sql::EVENT_REMOVE, &[json(&sequences)?])?;
        self.run(sql::EVENTS_KEPT_PUT, cells![i64::MIN])
    }

    fn summary_put(&mut self, summary: &Summary) -> Result<()> {
        self.put(summary)
    }

    fn summary_get(&mut self, subject: &str) -> Result<Option<Summary>> {
        self.one(sql::SUMMARY_GET, cells![subject])
    }

    fn summary_list_by_subject(&mut self, subjects: &[String]) -> Result<Vec<Summary>> {
        self.all_in(sql::SUMMARY_LIST_BY_SUBJECT, &subjects)
    }

    fn summary_list(&mut self, limit: u32) -> Result<Vec<Summary>> {
        self.all(sql::SUMMARY_LIST, cells![limit])
    }

    fn commit(self: Box<Self>) -> Result<()> {
        // PostgreSQL would roll everything back; SQLite would commit the statements that did not fail.
        if self.has_failed {
            return Err(Error::internal("a transaction in which a statement failed cannot be committed"));
        }
        self.database.commit()
    }
}
