//! Shows the status of tasks, workflows, agents and issues. The parts that need a person come first.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::context::OpContext;
use crate::error::{Error, Result};
use crate::id::{AgentId, TaskId, WorkflowId, WorktreeId};
use crate::model::{
    Agent, AgentStatus, CandidateQuery, Candidates, DependencyKind, Lease, Task, TaskPlace, TaskStatus, Workflow,
    WorkflowQuery, WorkflowStatus, WorkspaceQuery,
};
use crate::op::{AgentView, LeaseView, MessageView};
use crate::op::{Audience, Effect, Operation, StoreOperation};
use crate::time::Timestamp;
use crate::work::attention::{self, Facts, Group};
use crate::work::lease::{self, Names};
use crate::work::view::{self, TaskView, WorkflowView};
use crate::work::{agents, find, transfer};

/// The maximum number of rows that are read of each part. A group that has more says so.
const MAX_SCAN: u32 = 1_000;

/// Shows the status of tasks, workflows, agents and issues. The parts that need a person come first.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct ShowWorkStatus {
    /// Only records of this worktree.
    #[serde(default)]
    pub worktree_id: Option<WorktreeId>,
    /// Only records of this repository: its id, name or path.
    #[serde(default)]
    pub repository: Option<String>,
    /// The maximum number of entries of each part.
    pub limit: u32,
}

/// The answer to [`ShowWorkStatus`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkStatus {
    /// Everything by who has to act next: a person first.
    #[serde(default)]
    pub groups: Vec<Group>,
    /// Tasks that wait for an answer from a person.
    pub questions: Vec<TaskView>,
    /// Tasks without attempts left.
    pub dead: Vec<TaskView>,
    /// Messages waiting for the caller.
    pub messages: Vec<MessageView>,
    /// Tasks whose holder has missed two heartbeats.
    pub stuck: Vec<TaskView>,
    /// Tasks that an agent works on.
    pub working: Vec<TaskView>,
    /// Tasks that can be claimed now, the most urgent first.
    pub ready: Vec<TaskView>,
    /// Tasks that wait for their next attempt, and paused tasks.
    pub waiting: Vec<TaskView>,
    /// Workflows that have not ended and were not moved to another store.
    pub workflows: Vec<WorkflowView>,
    /// Agents that are online, and offline agents that hold a lease.
    pub agents: Vec<AgentView>,
    /// Issues with a lease.
    #[serde(rename = "issues_in_work")]
    pub issues: Vec<LeaseView>,
    /// The total number of entries of each part, including those beyond the limit.
    pub totals: Totals,
    /// The sequence of the newest event.
    pub last: u64,
}

/// The total number of entries of each part of a [`WorkStatus`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Totals {
    /// As [`WorkStatus::questions`].
    pub questions: u64,
    /// As [`WorkStatus::dead`].
    pub dead: u64,
    /// As [`WorkStatus::messages`].
    pub messages: u64,
    /// As [`WorkStatus::stuck`].
    pub stuck: u64,
    /// As [`WorkStatus::working`].
    pub working: u64,
    /// As [`WorkStatus::ready`].
    pub ready: u64,
    /// As [`WorkStatus::waiting`].
    pub waiting: u64,
    /// As [`WorkStatus::workflows`].
    pub workflows: u64,
    /// As [`WorkStatus::agents`].
    pub agents: u64,
    /// As [`WorkStatus::issues`].
    pub issues: u64,
}

impl Operation for ShowWorkStatus {
    const NAME: &'static str = "show_work_status";
    const SUMMARY: &'static str = "Show the status of tasks, workflows and agents";
    const EFFECT: Effect = Effect::Read;
    const AUDIENCE: Audience = Audience::Client;
    type Answer = WorkStatus;
}

impl StoreOperation for ShowWorkStatus {
    fn run(self, cx: &mut OpContext<'_>) -> Result<WorkStatus> {
        if let Some(id) = &self.worktree_id
            && cx.tx.worktree_get(id)?.is_none()
        {
            return Err(Error::not_found(format!("no worktree {id}")));
        }
        let scope = Scope::of(cx, self.worktree_id.clone(), self.repository.as_deref())?;
        let is_here = |id: &WorktreeId| scope.has(id);
        let statuses = [
            TaskStatus::WaitingInput,
            TaskStatus::Dead,
            TaskStatus::InProgress,
            TaskStatus::Failed,
            TaskStatus::Paused,
        ];
        let mut in_status: [Vec<Task>; 5] = Default::default();
        for (tasks, status) in in_status.iter_mut().zip(statuses) {
            *tasks = cx.tx.task_list_in(status, &scope.place, MAX_SCAN)?;
        }
        let of = scope.place.worktree_id.clone().map_or(Candidates::All, Candidates::OfWorktree);
        let repositories = scope.place.repositories.clone();
        let mut ready = cx.tx.task_list_claimable(&CandidateQuery { of, repositories, skip: 0, limit: MAX_SCAN })?;
        let mut partly_read: Vec<TaskStatus> = statuses
            .into_iter()
            .zip(&in_status)
            .chain([(TaskStatus::Pending, &ready)])
            .filter(|(_, tasks)| tasks.len() >= MAX_SCAN as usize)
            .map(|(status, _)| status)
            .collect();
        let of_tasks = view::workflows_of(cx, in_status.iter().flatten().chain(&ready))?;
        for task in in_status.iter().flatten() {
            if !of_tasks.contains_key(&task.workflow_id) {
                return Err(find::lost_workflow_error(task));
            }
        }
        for (status, tasks) in statuses.into_iter().zip(&mut in_status) {
            tasks.retain(|task| needs_attention(status, &of_tasks[&task.workflow_id]));
        }
        let mut agents = cx.tx.agent_list()?;
        let names = Names::of(&agents);
        let held = cx.tx.lease_list(None)?;
        let reader = agents::known_caller(cx)?;
        let known =
            Known { scope: &scope, workflows: &of_tasks, names: &names, leases: &held, reader: reader.as_ref() };
        let live = in_status.iter().flatten().chain(&ready).cloned().collect();
        let groups = self.groups(cx, live, &mut partly_read, &known)?;
        let [mut questions, mut dead, in_progress, mut waiting, paused] = in_status;
        waiting.extend(paused);
        let (mut stuck, mut working) = split_silent(cx, in_progress)?;
        let live = WorkflowStatus::ALL.iter().copied().filter(|status| !status.is_final()).collect();
        let mut workflows = scope.workflows(cx, live)?;
        workflows.retain(|workflow| transfer::mark(workflow).is_none());
        let held_tasks = lease::tasks_of(cx, &held)?;
        let leases = LeaseView::all(cx.now, &held, &held_tasks, &names);
        let here: Vec<AgentId> = leases
            .iter()
            .filter(|seen| is_here(&seen.lease.worktree_id))
            .filter_map(|seen| seen.lease.holder.clone())
            .collect();
        agents.retain(|agent| agent.retired_at.is_none());
        let mut agents = AgentView::all(cx, agents, held, &held_tasks)?;
        agents.retain(|seen| {
            (seen.agent.status != AgentStatus::Offline || !seen.holds.is_empty())
                && (is_here(&seen.agent.worktree_id) || here.contains(&seen.agent.id))
        });
        let mut issues = leases;
        issues.retain(|seen| seen.lease.subject.parse::<TaskId>().is_err() && is_here(&seen.lease.worktree_id));
        let (messages, unread) = self.inbox(cx, reader.as_ref(), &names)?;
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        let totals = Totals {
            questions: truncate(&mut questions, limit),
            dead: truncate(&mut dead, limit),
            messages: unread,
            stuck: truncate(&mut stuck, limit),
            working: truncate(&mut working, limit),
            ready: truncate(&mut ready, limit),
            waiting: truncate(&mut waiting, limit),
            workflows: truncate(&mut workflows, limit),
            agents: truncate(&mut agents, limit),
            issues: truncate(&mut issues, limit),
        };
        let parts = [questions, dead, stuck, working, ready, waiting];
        let sizes = parts.each_ref().map(Vec::len);
        let mut shown = view::some_tasks(cx, parts.into_iter().flatten().collect(), &of_tasks, &names)?.into_iter();
        let [questions, dead, stuck, working, ready, waiting] = sizes.map(|size| shown.by_ref().take(size).collect());
        Ok(WorkStatus {
            groups,
            totals,
            questions,
            dead,
            messages,
            stuck,
            working,
            ready,
            waiting,
            workflows: view::workflows(cx, workflows)?,
            agents,
            issues,
            last: cx.tx.event_last()?,
        })
    }
}

/// The worktrees and repositories that the caller asks about.
struct Scope {
    place: TaskPlace,
    /// The worktrees of the repositories; None if any is meant.
    worktrees: Option<BTreeSet<WorktreeId>>,
}

impl Scope {
    fn of(cx: &mut OpContext<'_>, worktree_id: Option<WorktreeId>, repository: Option<&str>) -> Result<Scope> {
        let repositories = find::chosen_repositories(cx, repository)?;
        let worktrees = if repositories.is_empty() {
            None
        } else {
            let of_them = cx.tx.worktree_list()?.into_iter().filter(|one| repositories.contains(&one.repository_id));
            Some(of_them.map(|one| one.id).collect())
        };
        Ok(Scope { place: TaskPlace { worktree_id, repositories }, worktrees })
    }

    fn has(&self, worktree: &WorktreeId) -> bool {
        self.place.worktree_id.as_ref().is_none_or(|wanted| wanted == worktree)
            && self.worktrees.as_ref().is_none_or(|wanted| wanted.contains(worktree))
    }

    /// Returns the workflows with these statuses, newest first.
    fn workflows(&self, cx: &mut OpContext<'_>, statuses: Vec<WorkflowStatus>) -> Result<Vec<Workflow>> {
        let TaskPlace { worktree_id, repositories } = &self.place;
        let query =
            WorkflowQuery { statuses, worktree_id: worktree_id.clone(), limit: MAX_SCAN, ..WorkflowQuery::default() };
        if repositories.is_empty() {
            return cx.tx.workflow_list(&query);
        }
        let mut found = Vec::new();
        for repository in repositories {
            found.extend(
                cx.tx.workflow_list(&WorkflowQuery { repository_id: Some(repository.clone()), ..query.clone() })?,
            );
        }
        found.sort_by(|one, other| (other.created_at, &other.id).cmp(&(one.created_at, &one.id)));
        found.dedup_by(|one, other| one.id == other.id);
        Ok(found)
    }
}

/// What was read already when the groups are made.
struct Known<'a> {
    scope: &'a Scope,
    /// The workflows of the live tasks.
    workflows: &'a BTreeMap<WorkflowId, Workflow>,
    names: &'a Names,
    leases: &'a [Lease],
    /// The caller, if it is an agent of the store.
    reader: Option<&'a Agent>,
}

impl ShowWorkStatus {
    /// Returns the messages that wait for the caller, and how many there are.
    fn inbox(&self, cx: &mut OpContext<'_>, reader: Option<&Agent>, names: &Names) -> Result<(Vec<MessageView>, u64)> {
        let Some(reader) = reader else { return Ok((Vec::new(), 0)) };
        let waiting = cx.tx.message_list(&reader.id, cx.now, 0, self.limit)?;
        let messages = waiting.into_iter().map(|message| MessageView::named(message, names)).collect();
        Ok((messages, cx.tx.message_count(&reader.id, cx.now)?))
    }

    /// Sorts the live tasks, and what else needs a person, into groups. `partly_read` are the statuses that more tasks have
    /// than were read.
    fn groups(
        &self,
        cx: &mut OpContext<'_>,
        mut tasks: Vec<Task>,
        partly_read: &mut Vec<TaskStatus>,
        known: &Known<'_>,
    ) -> Result<Vec<Group>> {
        // A caller that wants no entries wants the totals alone, often.
        if self.limit == 0 {
            return Ok(Vec::new());
        }
        let scope = known.scope;
        let earliest = cx.now.minus(attention::RECENT_MS);
        let mut done = cx.tx.task_list_in(TaskStatus::Completed, &scope.place, MAX_SCAN)?;
        done.retain(|task| task.updated_at >= earliest);
        if done.len() >= MAX_SCAN as usize {
            partly_read.push(TaskStatus::Completed);
        }
        tasks.extend(done);
        let blocked = blocked_by_dead(cx, &mut tasks)?;
        let unfinished = vec![WorkflowStatus::AwaitingMerge, WorkflowStatus::Paused, WorkflowStatus::Ready];
        let mut workflows = known.workflows.clone();
        let others: Vec<&Task> = tasks.iter().filter(|task| !workflows.contains_key(&task.workflow_id)).collect();
        if !others.is_empty() {
            workflows.extend(view::workflows_of(cx, others)?);
        }
        workflows.extend(scope.workflows(cx, unfinished)?.into_iter().map(|one| (one.id.clone(), one)));
        workflows.retain(|_, workflow| transfer::mark(workflow).is_none());
        let leases = known.leases.iter().filter_map(|lease| {
            let holder = known.names.get(lease.holder.as_ref()?);
            Some((lease.subject.parse().ok()?, (lease.clone(), holder)))
        });
        let leases = leases.collect();
        let workspaces = cx.tx.workspace_list(&WorkspaceQuery {
            worktree_id: scope.place.worktree_id.clone(),
            repositories: scope.place.repositories.clone(),
            limit: MAX_SCAN,
            ..WorkspaceQuery::default()
        })?;
        let mut messages = match known.reader {
            Some(reader) => cx.tx.message_list(&reader.id, cx.now, 0, MAX_SCAN)?,
            None => Vec::new(),
        };
        messages.retain(|message| scope.worktrees.is_none() || scope.has(&message.worktree_id));
        let messages: Vec<_> = messages.into_iter().map(|message| MessageView::named(message, known.names)).collect();
        let facts = Facts {
            now: cx.now,
            tasks: &tasks,
            partly_read,
            workflows: &workflows,
            leases: &leases,
            blocked: &blocked,
            workspaces: &workspaces,
            messages: &messages,
        };
        Ok(attention::group(&facts, usize::try_from(self.limit).unwrap_or(usize::MAX)))
    }
}

/// Finds the pending tasks that wait for a dead one, directly or not, and adds them to the tasks. Returns the name of the
/// dead task for each, and when it died.
fn blocked_by_dead(cx: &mut OpContext<'_>, tasks: &mut Vec<Task>) -> Result<BTreeMap<TaskId, (String, Timestamp)>> {
    let dead = tasks.iter().filter(|task| task.status == TaskStatus::Dead);
    let mut blocked: BTreeMap<TaskId, (String, Timestamp)> =
        dead.clone().map(|task| (task.id.clone(), (task.name.clone(), task.updated_at))).collect();
    let workflows: BTreeSet<WorkflowId> = dead.map(|task| task.workflow_id.clone()).collect();
    if workflows.is_empty() {
        return Ok(blocked);
    }
    let workflows: Vec<_> = workflows.into_iter().collect();
    let pending: BTreeMap<TaskId, Task> = cx
        .tx
        .task_list_in_workflows(&workflows)?
        .into_iter()
        .filter(|task| task.status == TaskStatus::Pending)
        .map(|task| (task.id.clone(), task))
        .collect();
    let mut waiting: BTreeMap<TaskId, Vec<TaskId>> = BTreeMap::new();
    for edge in cx.tx.dependency_list_in_workflows(&workflows)? {
        if edge.kind == DependencyKind::Blocks {
            waiting.entry(edge.depends_on).or_default().push(edge.task_id);
        }
    }
    let mut reached: Vec<TaskId> = blocked.keys().cloned().collect();
    while let Some(id) = reached.pop() {
        let reason = blocked[&id].clone();
        for next in waiting.remove(&id).unwrap_or_default() {
            if let Some(task) = pending.get(&next)
                && !blocked.contains_key(&next)
            {
                blocked.insert(next.clone(), reason.clone());
                tasks.push(task.clone());
                reached.push(next);
            }
        }
    }
    Ok(blocked)
}

/// Returns whether a task in this status needs a person or an agent. Tasks of ended or moved workflows need none.
fn needs_attention(status: TaskStatus, of: &Workflow) -> bool {
    let is_live = !of.status.is_final() || status == TaskStatus::Dead && of.status == WorkflowStatus::Failed;
    is_live && transfer::mark(of).is_none()
}

/// Splits off the tasks whose holder has missed two of the three heartbeats that fit into its lease.
fn split_silent(cx: &mut OpContext<'_>, tasks: Vec<Task>) -> Result<(Vec<Task>, Vec<Task>)> {
    let ids: Vec<TaskId> = tasks.iter().map(|task| task.id.clone()).collect();
    let now = cx.now;
    let silent = cx.tx.lease_list_by_task(&ids)?.into_iter().filter(|lease| attention::is_silent(lease, now));
    let silent: BTreeSet<String> = silent.map(|lease| lease.subject).collect();
    Ok(tasks.into_iter().partition(|task| silent.contains(task.id.as_str())))
}

/// Truncates the list and returns its former length.
fn truncate<T>(all: &mut Vec<T>, limit: usize) -> u64 {
    let total = all.len() as u64;
    all.truncate(limit);
    total
}
