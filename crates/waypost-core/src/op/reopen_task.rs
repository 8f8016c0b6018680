//! Lets a task that is over be done once more.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Effect, Operation};
use crate::context::OpContext;
use crate::error::{Error, Result};
use crate::model::{TaskStatus, WorkflowStatus, kind};
use crate::work::find;
use crate::work::view::{self, TaskView};

/// Lets a task that is over be done once more.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ReopenTask {
    /// Which one: its id, its name, or `workflow/name`.
    pub task: String,
    /// The workflow it is in, if its name alone does not say.
    #[serde(default)]
    pub workflow: Option<String>,
    /// Why.
    #[serde(default)]
    pub reason: Option<String>,
}

impl Operation for ReopenTask {
    const NAME: &'static str = "reopen_task";
    const SUMMARY: &'static str = "Let a task be done once more";
    const EFFECT: Effect = Effect::Write;
    type Answer = TaskView;

    fn run(self, cx: &mut OpContext<'_>) -> Result<TaskView> {
        let task = find::task_to_change(cx, &self.task, self.workflow.as_deref())?;
        if !task.status.is_final() {
            return Err(Error::conflict(format!("task {} is {}, and not over", task.name, task.status)));
        }
        let workflow = find::workflow_of(cx, &task)?;
        if workflow.status == WorkflowStatus::Cancelled {
            return Err(Error::conflict(format!("workflow {} was called off", workflow.name)));
        }
        let mut after = task.clone();
        after.move_to(TaskStatus::Pending, cx.now)?;
        after.attempts = 0;
        (after.outcome, after.evidence) = (None, None);
        cx.change_task(kind::TASK_REOPENED, &task, &after, json!({ "reason": self.reason }))?;
        if let Some(issue) = &task.issue {
            cx.tx.notice_remove(issue)?;
        }
        // Whoever held it before must not be able to finish it now.
        if let Some(mut lease) = cx.tx.lease_get(task.id.as_str())? {
            lease.epoch += 1;
            cx.tx.lease_put(&lease)?;
        }
        if workflow.status.is_final() || workflow.status == WorkflowStatus::AwaitingMerge {
            let mut reopened = workflow.clone();
            reopened.move_to(WorkflowStatus::InProgress, cx.now)?;
            reopened.reason = None;
            cx.change_workflow(kind::WORKFLOW_REOPENED, &workflow, &reopened)?;
        }
        view::task(cx, after)
    }
}
