//! Lets nothing more of a workflow be claimed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Effect, Operation};
use crate::context::OpContext;
use crate::error::Result;
use crate::model::{WorkflowStatus, kind};
use crate::work::find;
use crate::work::view::{self, WorkflowView};

/// Lets nothing more of a workflow be claimed.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PauseWorkflow {
    /// Which one: its id or name.
    pub workflow: String,
}

impl Operation for PauseWorkflow {
    const NAME: &'static str = "pause_workflow";
    const SUMMARY: &'static str = "Let nothing more of a workflow be claimed";
    const EFFECT: Effect = Effect::Write;
    type Answer = WorkflowView;

    fn run(self, cx: &mut OpContext<'_>) -> Result<WorkflowView> {
        let workflow = find::workflow_to_change(cx, &self.workflow)?;
        let mut after = workflow.clone();
        after.move_to(WorkflowStatus::Paused, cx.now)?;
        cx.change_workflow(kind::WORKFLOW_PAUSED, &workflow, &after)?;
        view::workflow(cx, after)
    }
}
