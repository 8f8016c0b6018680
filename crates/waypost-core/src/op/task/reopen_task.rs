//! Reopens a task that has ended.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::context::OpContext;
use crate::error::{Error, Result};
use crate::model::{TaskStatus, WorkflowStatus, kind};
use crate::op::{Access, Effect, Operation, StoreOperation};
use crate::work::view::{self, TaskView};
use crate::work::{find, progress};

/// Reopens a task that has ended.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct ReopenTask {
    /// The task: its id, its name, or `workflow/name`.
    pub task: String,
    /// The workflow of the task, if the task's name alone is ambiguous.
    #[serde(default)]
    pub workflow: Option<String>,
    /// The reason.
    #[serde(default)]
    pub reason: Option<String>,
}

impl Operation for ReopenTask {
    const NAME: &'static str = "reopen_task";
    const SUMMARY: &'static str = "Reopen a task";
    const EFFECT: Effect = Effect::Write;
    const ACCESS: Access = Access::OWN_WORK;
    type Answer = TaskView;
}

impl StoreOperation for ReopenTask {
    fn run(self, cx: &mut OpContext<'_>) -> Result<TaskView> {
        let task = find::task_to_change(cx, &self.task, self.workflow.as_deref())?;
        if !task.status.is_final() {
            return Err(Error::conflict(format!("task {} is {} and has not ended", task.name, task.status)));
        }
        let workflow = find::workflow_of(cx, &task)?;
        if workflow.status == WorkflowStatus::Cancelled {
            return Err(Error::conflict(format!("workflow {} was cancelled", workflow.name)));
        }
        let mut after = task.clone();
        after.move_to(TaskStatus::Pending, cx.now)?;
        after.attempts = 0;
        (after.outcome, after.evidence) = (None, None);
        cx.change_task(kind::TASK_REOPENED, &task, &after, json!({ "reason": self.reason }))?;
        if let Some(issue) = &task.issue {
            cx.tx.notice_remove(issue)?;
        }
        // The former holder must not be able to finish the task now.
        if let Some(mut lease) = cx.tx.lease_get(task.id.as_str())? {
            lease.epoch += 1;
            cx.tx.lease_put(&lease)?;
        }
        if workflow.status.is_final() || workflow.status == WorkflowStatus::AwaitingMerge {
            let mut reopened = workflow.clone();
            reopened.move_to(WorkflowStatus::InProgress, cx.now)?;
            reopened.reason = None;
            cx.change_workflow(kind::WORKFLOW_REOPENED, &workflow, &reopened)?;
            progress::restart_queue_timeouts(cx, &reopened.id)?;
        }
        view::task(cx, after)
    }
}
