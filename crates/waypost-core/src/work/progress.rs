//! Completes or fails a workflow after one of its tasks changed.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use crate::context::OpContext;
use crate::error::Result;
use crate::id::{TaskId, WorkflowId};
use crate::model::{DependencyKind, TaskStatus, WorkflowStatus, kind};

/// Completes a workflow whose tasks are all done, or fails one in which no task can run any more.
pub(crate) fn complete_or_fail_workflow(cx: &mut OpContext<'_>, id: &WorkflowId) -> Result<()> {
    let Some(workflow) = cx.tx.workflow_get(id)? else { return Ok(()) };
    if !matches!(workflow.status, WorkflowStatus::InProgress | WorkflowStatus::Paused) {
        return Ok(());
    }
    let statuses = cx.tx.task_list_statuses(id)?;
    let mut after = workflow.clone();
    if !statuses.is_empty() && statuses.iter().all(|status| status.satisfies()) {
        let (status, event) = if workflow.awaits_merge() {
            (WorkflowStatus::AwaitingMerge, kind::WORKFLOW_AWAITS_MERGE)
        } else {
            (WorkflowStatus::Completed, kind::WORKFLOW_COMPLETED)
        };
        after.move_to(status, cx.now)?;
        return cx.change_workflow(event, &workflow, &after);
    }
    let unsettled = [TaskStatus::InProgress, TaskStatus::Paused, TaskStatus::WaitingInput, TaskStatus::Failed];
    if !statuses.contains(&TaskStatus::Dead) || unsettled.iter().any(|status| statuses.contains(status)) {
        return Ok(());
    }
    if let Some(dead) = dead_tasks_if_stuck(cx, id)? {
        after.move_to(WorkflowStatus::Failed, cx.now)?;
        after.reason = Some(format!("{dead} is dead, and nothing else can run"));
        cx.change_workflow(kind::WORKFLOW_FAILED, &workflow, &after)?;
    }
    Ok(())
}

/// Returns the names of the dead tasks, if no pending task can ever run.
fn dead_tasks_if_stuck(cx: &mut OpContext<'_>, id: &WorkflowId) -> Result<Option<String>> {
    let tasks = cx.tx.task_list(id)?;
    let mut stuck: BTreeSet<TaskId> = tasks
        .iter()
        .filter(|task| matches!(task.status, TaskStatus::Dead | TaskStatus::Cancelled))
        .map(|task| task.id.clone())
        .collect();
    let mut dependents: BTreeMap<TaskId, Vec<TaskId>> = BTreeMap::new();
    for dependency in cx.tx.dependency_list(id)? {
        if dependency.kind == DependencyKind::Blocks {
            dependents.entry(dependency.depends_on).or_default().push(dependency.task_id);
        }
    }
    // Tasks that were skipped or are completed no longer hold up those behind them.
    let done: BTreeSet<TaskId> =
        tasks.iter().filter(|task| task.status.satisfies()).map(|task| task.id.clone()).collect();
    let mut queue: Vec<_> = stuck.iter().cloned().collect();
    while let Some(task) = queue.pop() {
        for dependent in dependents.remove(&task).unwrap_or_default() {
            if !done.contains(&dependent) && stuck.insert(dependent.clone()) {
                queue.push(dependent);
            }
        }
    }
    let can_run = tasks.iter().any(|task| task.status == TaskStatus::Pending && !stuck.contains(&task.id));
    let dead: Vec<_> =
        tasks.iter().filter(|task| task.status == TaskStatus::Dead).map(|task| task.name.as_str()).collect();
    Ok((!can_run).then(|| dead.join(", ")))
}

/// Starts the time within which an agent must claim a task anew, for all tasks of a workflow that runs from now on.
pub(crate) fn restart_queue_timeouts(cx: &mut OpContext<'_>, id: &WorkflowId) -> Result<()> {
    for task in cx.tx.task_list(id)? {
        if task.status == TaskStatus::Pending && task.queue_timeout_ms.is_some() {
            let mut queued = task.clone();
            queued.queued_at = cx.now;
            queued.due_at = task.queue_timeout_ms.map(|timeout| cx.now.plus(timeout));
            cx.change_task(kind::TASK_CHANGED, &task, &queued, json!({}))?;
        }
    }
    Ok(())
}
