//! Workflows and tasks with computed fields: blockers, holder, counts.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::lease::Names;
use super::places::{Places, WorktreeSummary};
use super::{find, lease};
use crate::context::OpContext;
use crate::error::Result;
use crate::id::{AgentId, RepositoryId, TaskId, WorkflowId};
use crate::model::{DependencyKind, Lease, Reach, Task, TaskStatus, Workflow, WorkflowStatus};
use crate::time::Timestamp;
use crate::tree;

/// A task with computed fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskView {
    /// The task.
    #[serde(flatten, deserialize_with = "tree::flattened")]
    pub task: Task,
    /// The name of its workflow.
    pub workflow: String,
    /// The worktrees in which a claim without a name takes it.
    #[serde(default)]
    pub reach: Reach,
    /// The worktree its workflow was created in.
    #[serde(default)]
    pub worktree: Option<WorktreeSummary>,
    /// The name of the repository to work in.
    #[serde(default)]
    pub repository: Option<String>,
    /// The names of the tasks it depends on.
    pub depends_on: Vec<String>,
    /// The names of the unfinished tasks it waits for.
    pub blocked_by: Vec<String>,
    /// Whether an agent could claim it now.
    pub is_claimable: bool,
    /// The only agent that may claim it.
    pub assigned_to: Option<String>,
    /// The agent that holds its lease.
    pub holder: Option<String>,
    /// The epoch of its lease, if it was ever claimed.
    pub epoch: Option<u64>,
    /// When the holder's lease expires.
    pub expires_at: Option<Timestamp>,
}

impl TaskView {
    /// Returns the repository to work in: its own, or else that of the worktree in which its workflow was created.
    pub fn repository_id(&self) -> Option<&RepositoryId> {
        let of_worktree = self.worktree.as_ref().map(|worktree| &worktree.repository_id);
        self.task.repository_id.as_ref().or(of_worktree)
    }
}

/// A workflow with computed fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkflowView {
    /// The workflow.
    #[serde(flatten, deserialize_with = "tree::flattened")]
    pub workflow: Workflow,
    /// The worktree it was created in.
    #[serde(default)]
    pub worktree: Option<WorktreeSummary>,
    /// The repositories it spans.
    pub repositories: Vec<RepositoryId>,
    /// The names of these repositories, in the same order.
    #[serde(default)]
    pub repository_names: Vec<String>,
    /// How many tasks are in each status.
    #[schemars(with = "TaskCounts")]
    pub counts: BTreeMap<TaskStatus, u64>,
    /// How many tasks there are.
    pub total: u64,
    /// How many are completed or skipped.
    pub done: u64,
}

/// The number of tasks by status, as the description of answers names it.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct TaskCounts(BTreeMap<TaskStatus, u64>);

/// Returns the view of a workflow.
pub(crate) fn workflow(cx: &mut OpContext<'_>, workflow: Workflow) -> Result<WorkflowView> {
    let repositories = cx.tx.workflow_repository_list(&workflow.id)?;
    let counts = cx.tx.task_count(&workflow.id)?.into_iter().collect();
    let places = match repositories.as_slice() {
        [] => Places::of(cx, &workflow.worktree_id, None)?,
        [one] => Places::of(cx, &workflow.worktree_id, Some(one))?,
        _ => Places::all(cx)?,
    };
    Ok(counted(workflow, repositories, counts, &places))
}

/// Returns the views of workflows. The number of statements does not depend on the number of workflows.
pub(crate) fn workflows(cx: &mut OpContext<'_>, workflows: Vec<Workflow>) -> Result<Vec<WorkflowView>> {
    let ids: Vec<_> = workflows.iter().map(|workflow| workflow.id.clone()).collect();
    let mut repositories: BTreeMap<WorkflowId, Vec<RepositoryId>> = BTreeMap::new();
    for (workflow, repository) in cx.tx.workflow_repository_list_in(&ids)? {
        repositories.entry(workflow).or_default().push(repository);
    }
    let mut counts: BTreeMap<WorkflowId, BTreeMap<TaskStatus, u64>> = BTreeMap::new();
    for (workflow, status, count) in cx.tx.task_count_in_workflows(&ids)? {
        counts.entry(workflow).or_default().insert(status, count);
    }
    let places = Places::all(cx)?;
    let views = workflows.into_iter().map(|workflow| {
        let repositories = repositories.remove(&workflow.id).unwrap_or_default();
        let counts = counts.remove(&workflow.id).unwrap_or_default();
        counted(workflow, repositories, counts, &places)
    });
    Ok(views.collect())
}

fn counted(
    workflow: Workflow,
    repositories: Vec<RepositoryId>,
    counts: BTreeMap<TaskStatus, u64>,
    places: &Places,
) -> WorkflowView {
    let total = counts.values().sum();
    let done = counts.iter().filter(|(status, _)| status.satisfies()).map(|(_, count)| count).sum();
    let worktree = places.worktree(&workflow.worktree_id);
    let repository_names = repositories.iter().map(|id| places.repository(id)).collect();
    WorkflowView { workflow, worktree, repositories, repository_names, counts, total, done }
}

/// Returns the views of all tasks of a workflow, in plan order.
pub(crate) fn tasks(cx: &mut OpContext<'_>, workflow: &Workflow) -> Result<Vec<TaskView>> {
    tasks_in(cx, std::slice::from_ref(workflow))
}

/// Returns the views of all tasks of several workflows, in their order and in plan order. The number of statements does
/// not depend on the number of workflows.
pub(crate) fn tasks_in(cx: &mut OpContext<'_>, workflows: &[Workflow]) -> Result<Vec<TaskView>> {
    let ids: Vec<_> = workflows.iter().map(|workflow| workflow.id.clone()).collect();
    cx.tx.prefetch(&mut |tx| {
        tx.task_list_in_workflows(&ids)?;
        tx.dependency_list_in_workflows(&ids)?;
        tx.lease_list_in_workflows(&ids)?;
        tx.worktree_list()?;
        tx.repository_list()?;
        tx.agent_list().map(drop)
    })?;
    let tasks = cx.tx.task_list_in_workflows(&ids)?;
    let known: BTreeMap<TaskId, (u32, String, TaskStatus)> =
        tasks.iter().map(|task| (task.id.clone(), (task.sequence, task.name.clone(), task.status))).collect();
    let mut dependencies: BTreeMap<TaskId, Vec<Edge>> = BTreeMap::new();
    for dependency in cx.tx.dependency_list_in_workflows(&ids)? {
        if let Some((sequence, name, status)) = known.get(&dependency.depends_on).cloned() {
            dependencies.entry(dependency.task_id).or_default().push((sequence, name, status, dependency.kind));
        }
    }
    let mut leases: BTreeMap<String, Lease> =
        cx.tx.lease_list_in_workflows(&ids)?.into_iter().map(|lease| (lease.subject.clone(), lease)).collect();
    let names = Names::of(&cx.tx.agent_list()?);
    let places = Places::all(cx)?;
    let mut of_workflow: BTreeMap<WorkflowId, Vec<Task>> = BTreeMap::new();
    for task in tasks {
        of_workflow.entry(task.workflow_id.clone()).or_default().push(task);
    }
    let mut views = Vec::new();
    for workflow in workflows {
        for task in of_workflow.remove(&workflow.id).unwrap_or_default() {
            let on = dependencies.remove(&task.id).unwrap_or_default();
            let lease = leases.remove(task.id.as_str());
            views.push(shown(task, workflow, on, lease, &places, |id| Ok(names.get(id)))?);
        }
    }
    Ok(views)
}

/// Returns the views of tasks, in the same order. The number of statements does not depend on the number of tasks.
pub(crate) fn some_tasks(
    cx: &mut OpContext<'_>,
    tasks: Vec<Task>,
    workflows: &BTreeMap<WorkflowId, Workflow>,
    names: &Names,
) -> Result<Vec<TaskView>> {
    let ids: Vec<TaskId> = tasks.iter().map(|task| task.id.clone()).collect();
    let edges = cx.tx.dependency_list_by_task(&ids)?;
    let others: BTreeSet<TaskId> = edges.iter().map(|edge| edge.depends_on.clone()).collect();
    let others = cx.tx.task_list_by_id(&others.into_iter().collect::<Vec<_>>())?;
    let others: BTreeMap<TaskId, Task> = others.into_iter().map(|task| (task.id.clone(), task)).collect();
    let mut dependencies: BTreeMap<TaskId, Vec<Edge>> = BTreeMap::new();
    for edge in edges {
        if let Some(on) = others.get(&edge.depends_on) {
            let on = (on.sequence, on.name.clone(), on.status, edge.kind);
            dependencies.entry(edge.task_id).or_default().push(on);
        }
    }
    let mut leases: BTreeMap<String, Lease> =
        cx.tx.lease_list_by_task(&ids)?.into_iter().map(|lease| (lease.subject.clone(), lease)).collect();
    let places = Places::all(cx)?;
    let show = |task: Task| {
        let workflow = workflows.get(&task.workflow_id).ok_or_else(|| find::lost_workflow_error(&task))?;
        let on = dependencies.remove(&task.id).unwrap_or_default();
        let lease = leases.remove(task.id.as_str());
        shown(task, workflow, on, lease, &places, |id| Ok(names.get(id)))
    };
    tasks.into_iter().map(show).collect()
}

/// Returns the workflows of tasks.
pub(crate) fn workflows_of<'t>(
    cx: &mut OpContext<'_>,
    tasks: impl IntoIterator<Item = &'t Task>,
) -> Result<BTreeMap<WorkflowId, Workflow>> {
    let ids: BTreeSet<WorkflowId> = tasks.into_iter().map(|task| task.workflow_id.clone()).collect();
    let workflows = cx.tx.workflow_list_by_id(&ids.into_iter().collect::<Vec<_>>())?;
    Ok(workflows.into_iter().map(|workflow| (workflow.id.clone(), workflow)).collect())
}

/// Returns the view of one task.
pub(crate) fn task(cx: &mut OpContext<'_>, task: Task) -> Result<TaskView> {
    let workflow = find::workflow_of(cx, &task)?;
    let mut on = Vec::new();
    for dependency in cx.tx.dependency_list_of(&task.id)? {
        if let Some(other) = cx.tx.task_get(&dependency.depends_on)? {
            on.push((other.sequence, other.name, other.status, dependency.kind));
        }
    }
    let held = cx.tx.lease_get(task.id.as_str())?;
    let places = Places::of(cx, &task.worktree_id, task.repository_id.as_ref())?;
    shown(task, &workflow, on, held, &places, |id| lease::name(cx, id))
}

/// A task that another depends on: its sequence in the plan, its name, its status, and the kind of dependency.
type Edge = (u32, String, TaskStatus, DependencyKind);

fn shown(
    task: Task,
    workflow: &Workflow,
    mut on: Vec<Edge>,
    lease: Option<Lease>,
    places: &Places,
    mut name_of: impl FnMut(&AgentId) -> Result<String>,
) -> Result<TaskView> {
    // Sort by plan order: the order of the rows is arbitrary.
    on.sort();
    let blocks = |kind: &DependencyKind| *kind == DependencyKind::Blocks;
    let blocked_by: Vec<_> = on
        .iter()
        .filter(|(_, _, status, kind)| blocks(kind) && !status.satisfies() && !task.status.is_final())
        .map(|(_, name, ..)| name.clone())
        .collect();
    let (holder, expires_at) = match lease.as_ref().and_then(|lease| lease.holder.as_ref().map(|by| (by, lease))) {
        Some((holder, lease)) => (Some(name_of(holder)?), lease.expires_at.unless_never()),
        None => (None, None),
    };
    let assigned_to = task.assignee.as_ref().map(&mut name_of).transpose()?;
    Ok(TaskView {
        assigned_to,
        workflow: workflow.name.clone(),
        reach: workflow.reach,
        worktree: places.worktree(&task.worktree_id),
        repository: places.repository_of(&task).map(|id| places.repository(&id)),
        depends_on: on.into_iter().filter(|(.., kind)| blocks(kind)).map(|(_, name, ..)| name).collect(),
        is_claimable: task.status == TaskStatus::Pending
            && workflow.status == WorkflowStatus::InProgress
            && blocked_by.is_empty(),
        blocked_by,
        holder,
        epoch: lease.map(|lease| lease.epoch),
        expires_at,
        task,
    })
}
