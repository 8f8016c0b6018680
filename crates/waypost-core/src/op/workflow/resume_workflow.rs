//! Resumes a paused workflow.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::context::OpContext;
use crate::error::{Error, Result};
use crate::model::{WorkflowStatus, kind};
use crate::op::{Access, Effect, Operation, StoreOperation};
use crate::work::view::{self, WorkflowView};
use crate::work::{find, progress};

/// Resumes a paused workflow.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ResumeWorkflow {
    /// The workflow: its id or name.
    pub workflow: String,
}

impl Operation for ResumeWorkflow {
    const NAME: &'static str = "resume_workflow";
    const SUMMARY: &'static str = "Resume a paused workflow";
    const EFFECT: Effect = Effect::Write;
    const ACCESS: Access = Access::OWN_WORK;
    type Answer = WorkflowView;
}

impl StoreOperation for ResumeWorkflow {
    fn run(self, cx: &mut OpContext<'_>) -> Result<WorkflowView> {
        let workflow = find::workflow_to_change(cx, &self.workflow)?;
        if workflow.status != WorkflowStatus::Paused {
            return Err(Error::conflict(format!("workflow {} is {}, not paused", workflow.name, workflow.status)));
        }
        let mut after = workflow.clone();
        after.move_to(WorkflowStatus::InProgress, cx.now)?;
        cx.change_workflow(kind::WORKFLOW_RESUMED, &workflow, &after)?;
        progress::restart_queue_timeouts(cx, &after.id)?;
        progress::complete_or_fail_workflow(cx, &after.id)?;
        let after = find::workflow(cx, after.id.as_str())?;
        view::workflow(cx, after)
    }
}
