//! Skips a task that is not needed. It no longer blocks its dependents.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::context::OpContext;
use crate::error::Result;
use crate::model::{Task, TaskStatus, WorkflowStatus, kind};
use crate::op::{Access, Effect, Operation, StoreOperation};
use crate::work::view::{self, TaskView};
use crate::work::{agents, find, jobs, progress};

/// Skips a task that is not needed. It no longer blocks its dependents.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct SkipTask {
    /// The task: its id, its name, or `workflow/name`.
    pub task: String,
    /// The workflow of the task, if the task's name alone is ambiguous.
    #[serde(default)]
    pub workflow: Option<String>,
    /// The reason.
    #[serde(default)]
    pub reason: Option<String>,
}

impl Operation for SkipTask {
    const NAME: &'static str = "skip_task";
    const SUMMARY: &'static str = "Skip a task";
    const EFFECT: Effect = Effect::Write;
    const ACCESS: Access = Access::OWN_WORK;
    type Answer = TaskView;
}

impl StoreOperation for SkipTask {
    const CANCELS_JOBS: bool = true;

    fn run(self, cx: &mut OpContext<'_>) -> Result<TaskView> {
        let agent = agents::caller(cx)?;
        let task = find::task_to_change(cx, &self.task, self.workflow.as_deref())?;
        let held = cx.tx.lease_get(task.id.as_str())?.and_then(|lease| lease.holder);
        if held.is_some_and(|holder| holder != agent.id) {
            agents::require_coordinator(&agent, "skipping a task of another agent")?;
        }
        let reason = self.reason.unwrap_or_default();
        let task = jobs::withdraw(cx, &task, TaskStatus::Skipped, kind::TASK_SKIPPED, &reason)?;
        revive(cx, &task)?;
        progress::complete_or_fail_workflow(cx, &task.workflow_id)?;
        view::task(cx, task)
    }
}

/// Reopens a workflow that failed because of this task. If another task is still dead, the workflow fails again.
fn revive(cx: &mut OpContext<'_>, task: &Task) -> Result<()> {
    let workflow = find::workflow_of(cx, task)?;
    if workflow.status != WorkflowStatus::Failed {
        return Ok(());
    }
    let mut after = workflow.clone();
    after.move_to(WorkflowStatus::InProgress, cx.now)?;
    after.reason = None;
    cx.change_workflow(kind::WORKFLOW_REOPENED, &workflow, &after)?;
    progress::restart_queue_timeouts(cx, &after.id)
}
