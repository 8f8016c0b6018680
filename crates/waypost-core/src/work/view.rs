//! Workflows and tasks as they are shown: with what they wait for and who holds them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{find, lease};
use crate::engine::Cx;
use crate::error::Result;
use crate::id::{RepositoryId, TaskId};
use crate::model::{DependencyKind, Task, TaskStatus, Workflow, WorkflowStatus};
use crate::time::Timestamp;

/// A task, and what is computed about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskView {
    /// The task.
    #[serde(flatten)]
    pub task: Task,
    /// The name of its workflow.
    pub workflow: String,
    /// The names of those it depends on.
    pub depends_on: Vec<String>,
    /// The names of those it waits for.
    pub blocked_by: Vec<String>,
    /// Whether it could be claimed now, by somebody.
    pub is_claimable: bool,
    /// Who alone may claim it.
    pub assigned_to: Option<String>,
    /// Who works on it.
    pub holder: Option<String>,
    /// The epoch of its lease, if it was ever claimed.
    pub epoch: Option<u64>,
    /// When the holder's lease ends.
    pub expires_at: Option<Timestamp>,
}

/// A workflow, and what is computed about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkflowView {
    /// The workflow.
    #[serde(flatten)]
    pub workflow: Workflow,
    /// The repositories it concerns.
    pub repositories: Vec<RepositoryId>,
    /// How many tasks are in each status.
    pub counts: BTreeMap<TaskStatus, u64>,
    /// How many tasks there are.
    pub total: u64,
    /// How many are completed or skipped.
    pub done: u64,
}

/// Shows a workflow.
pub(crate) fn workflow(cx: &mut Cx<'_>, workflow: Workflow) -> Result<WorkflowView> {
    let repositories = cx.tx.workflow_repository_list(&workflow.id)?;
    let counts: BTreeMap<_, _> = cx.tx.task_count(&workflow.id)?.into_iter().collect();
    let total = counts.values().sum();
    let done = counts.iter().filter(|(status, _)| status.satisfies()).map(|(_, count)| count).sum();
    Ok(WorkflowView { workflow, repositories, counts, total, done })
}

/// Shows all tasks of a workflow, in the order of the plan.
pub(crate) fn tasks(cx: &mut Cx<'_>, workflow: &Workflow) -> Result<Vec<TaskView>> {
    let tasks = cx.tx.task_list(&workflow.id)?;
    let known: BTreeMap<TaskId, (u32, String, TaskStatus)> =
        tasks.iter().map(|task| (task.id.clone(), (task.sequence, task.name.clone(), task.status))).collect();
    let mut dependencies: BTreeMap<TaskId, Vec<(TaskId, DependencyKind)>> = BTreeMap::new();
    for dependency in cx.tx.dependency_list(&workflow.id)? {
        dependencies.entry(dependency.task_id).or_default().push((dependency.depends_on, dependency.kind));
    }
    tasks
        .into_iter()
        .map(|task| {
            let on = dependencies
                .remove(&task.id)
                .unwrap_or_default()
                .into_iter()
                .filter_map(|(id, kind)| {
                    known.get(&id).map(|(sequence, name, status)| (*sequence, name.clone(), *status, kind))
                })
                .collect();
            shown(cx, task, workflow, on)
        })
        .collect()
}

/// Shows one task.
pub(crate) fn task(cx: &mut Cx<'_>, task: Task) -> Result<TaskView> {
    let workflow = find::workflow_of(cx, &task)?;
    let mut on = Vec::new();
    for dependency in cx.tx.dependency_list_of(&task.id)? {
        if let Some(other) = cx.tx.task_get(&dependency.depends_on)? {
            on.push((other.sequence, other.name, other.status, dependency.kind));
        }
    }
    shown(cx, task, &workflow, on)
}

fn shown(
    cx: &mut Cx<'_>,
    task: Task,
    workflow: &Workflow,
    mut on: Vec<(u32, String, TaskStatus, DependencyKind)>,
) -> Result<TaskView> {
    // In the order of the plan: that of the rows says nothing.
    on.sort();
    let blocks = |kind: &DependencyKind| *kind == DependencyKind::Blocks;
    let blocked_by: Vec<_> = on
        .iter()
        .filter(|(_, _, status, kind)| blocks(kind) && !status.satisfies() && !task.status.is_final())
        .map(|(_, name, ..)| name.clone())
        .collect();
    let lease = cx.tx.lease_get(task.id.as_str())?;
    let (holder, expires_at) = match lease.as_ref().and_then(|lease| lease.holder.clone().map(|by| (by, lease))) {
        Some((holder, lease)) => (Some(lease::name(cx, &holder)?), Some(lease.expires_at)),
        None => (None, None),
    };
    let assigned_to = task.assignee.as_ref().map(|assignee| lease::name(cx, assignee)).transpose()?;
    Ok(TaskView {
        assigned_to,
        workflow: workflow.name.clone(),
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
