//! Ends the local copy of a workflow that was moved to another store.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::context::OpContext;
use crate::error::{Error, Result};
use crate::id::WorkflowId;
use crate::model::{MessageState, TaskStatus, WorkflowStatus, kind};
use crate::op::{Audience, Effect, Operation, StoreOperation};
use crate::work::view::{self, WorkflowView};
use crate::work::{find, inbox, jobs, transfer};

/// Ends the local copy of a workflow that was moved to another store. Its rows and its history stay.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RetireWorkflow {
    /// The workflow.
    pub workflow: WorkflowId,
}

impl Operation for RetireWorkflow {
    const NAME: &'static str = "retire_workflow";
    const SUMMARY: &'static str = "End the local copy of a moved workflow";
    const EFFECT: Effect = Effect::Write;
    const AUDIENCE: Audience = Audience::Internal;
    type Answer = WorkflowView;
}

impl StoreOperation for RetireWorkflow {
    const CANCELS_JOBS: bool = true;

    fn run(self, cx: &mut OpContext<'_>) -> Result<WorkflowView> {
        let workflow = find::workflow(cx, self.workflow.as_str())?;
        if transfer::mark(&workflow).is_none() {
            return Err(Error::conflict(format!("workflow {} was not moved", workflow.name)));
        }
        if workflow.status.is_final() {
            return view::workflow(cx, workflow);
        }
        for task in cx.tx.task_list(&workflow.id)? {
            if !task.status.is_final() {
                let why = "its workflow was moved to another store";
                jobs::withdraw(cx, &task, TaskStatus::Cancelled, kind::TASK_CANCELLED, why)?;
            }
        }
        // The other store's inboxes have these messages now.
        let mut messages = cx.tx.message_list_about(&workflow.id)?;
        inbox::advance(cx, &mut messages, MessageState::Acted, kind::MESSAGE_ACTED)?;
        let mut after = workflow.clone();
        after.move_to(WorkflowStatus::Cancelled, cx.now)?;
        cx.change_workflow(kind::WORKFLOW_CANCELLED, &workflow, &after)?;
        view::workflow(cx, after)
    }
}
