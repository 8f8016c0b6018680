//! Starts a workflow, so that its tasks can be claimed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::context::OpContext;
use crate::error::{Error, Result};
use crate::model::{Workflow, WorkflowStatus, kind};
use crate::op::{Access, Effect, Operation, StoreOperation};
use crate::work::view::{self, WorkflowView};
use crate::work::{find, progress};

/// Starts a workflow, so that its tasks can be claimed.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct StartWorkflow {
    /// The workflow: its id or name.
    pub workflow: String,
}

impl Operation for StartWorkflow {
    const NAME: &'static str = "start_workflow";
    const SUMMARY: &'static str = "Start a workflow";
    const EFFECT: Effect = Effect::Write;
    const ACCESS: Access = Access::OWN_WORK;
    type Answer = WorkflowView;
}

impl StoreOperation for StartWorkflow {
    fn run(self, cx: &mut OpContext<'_>) -> Result<WorkflowView> {
        let workflow = find::workflow_to_change(cx, &self.workflow)?;
        let workflow = start(cx, &workflow)?;
        view::workflow(cx, workflow)
    }
}

/// Starts a workflow. The queue time of its tasks begins now.
pub(crate) fn start(cx: &mut OpContext<'_>, workflow: &Workflow) -> Result<Workflow> {
    if workflow.status == WorkflowStatus::Planning {
        return Err(Error::conflict(format!("workflow {} has no plan yet", workflow.name))
            .hint(format!("way workflow plan {} --plan FILE", workflow.id)));
    }
    if workflow.status != WorkflowStatus::Ready {
        return Err(Error::conflict(format!(
            "workflow {} is {} and cannot be started",
            workflow.name, workflow.status
        ))
        .hint(format!("way workflow show {}", workflow.id)));
    }
    let mut after = workflow.clone();
    after.move_to(WorkflowStatus::InProgress, cx.now)?;
    cx.change_workflow(kind::WORKFLOW_STARTED, workflow, &after)?;
    progress::restart_queue_timeouts(cx, &workflow.id)?;
    // All tasks may have been skipped before the start.
    progress::complete_or_fail_workflow(cx, &after.id)?;
    find::workflow(cx, after.id.as_str())
}
