//! Pauses a workflow: no further task of it can be claimed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::context::OpContext;
use crate::error::Result;
use crate::model::{WorkflowStatus, kind};
use crate::op::{Access, Effect, Operation, StoreOperation};
use crate::work::find;
use crate::work::view::{self, WorkflowView};

/// Pauses a workflow: no further task of it can be claimed.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PauseWorkflow {
    /// The workflow: its id or name.
    pub workflow: String,
}

impl Operation for PauseWorkflow {
    const NAME: &'static str = "pause_workflow";
    const SUMMARY: &'static str = "Pause a workflow";
    const EFFECT: Effect = Effect::Write;
    const ACCESS: Access = Access::OWN_WORK;
    type Answer = WorkflowView;
}

impl StoreOperation for PauseWorkflow {
    fn run(self, cx: &mut OpContext<'_>) -> Result<WorkflowView> {
        let workflow = find::workflow_to_change(cx, &self.workflow)?;
        let mut after = workflow.clone();
        after.move_to(WorkflowStatus::Paused, cx.now)?;
        cx.change_workflow(kind::WORKFLOW_PAUSED, &workflow, &after)?;
        view::workflow(cx, after)
    }
}
