//! Cancels a workflow with all its unfinished tasks.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::context::OpContext;
use crate::error::Result;
use crate::model::{TaskStatus, WorkflowStatus, kind};
use crate::op::{Access, Effect, Operation, StoreOperation};
use crate::work::view::{self, WorkflowView};
use crate::work::{find, jobs};

/// Cancels a workflow with all its unfinished tasks.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CancelWorkflow {
    /// The workflow: its id or name.
    pub workflow: String,
    /// The reason.
    #[serde(default)]
    pub reason: Option<String>,
}

impl Operation for CancelWorkflow {
    const NAME: &'static str = "cancel_workflow";
    const SUMMARY: &'static str = "Cancel a workflow";
    const EFFECT: Effect = Effect::Write;
    const ACCESS: Access = Access::OWN_WORK;
    type Answer = WorkflowView;
}

impl StoreOperation for CancelWorkflow {
    const CANCELS_JOBS: bool = true;

    fn run(self, cx: &mut OpContext<'_>) -> Result<WorkflowView> {
        let workflow = find::workflow_to_change(cx, &self.workflow)?;
        let mut after = workflow.clone();
        after.move_to(WorkflowStatus::Cancelled, cx.now)?;
        after.reason = self.reason;
        for task in cx.tx.task_list(&workflow.id)? {
            if !task.status.is_final() {
                jobs::withdraw(cx, &task, TaskStatus::Cancelled, kind::TASK_CANCELLED, "its workflow was cancelled")?;
            }
        }
        cx.change_workflow(kind::WORKFLOW_CANCELLED, &workflow, &after)?;
        view::workflow(cx, after)
    }
}
