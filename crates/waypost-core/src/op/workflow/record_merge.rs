//! Records that the work of a workflow awaits its merge, or is merged.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::context::OpContext;
use crate::error::{Error, Result};
use crate::model::{WorkflowStatus, kind};
use crate::op::{Access, Effect, Operation, StoreOperation};
use crate::words::count;
use crate::work::find;
use crate::work::view::{self, WorkflowView};

/// Records that the work of a workflow awaits its merge, or is merged.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RecordMerge {
    /// The workflow: its id or name.
    pub workflow: String,
    /// Whether the work is already merged.
    #[serde(default)]
    pub merged: bool,
}

impl Operation for RecordMerge {
    const NAME: &'static str = "record_merge";
    const SUMMARY: &'static str = "Record that a workflow awaits its merge or is merged";
    const EFFECT: Effect = Effect::Write;
    const ACCESS: Access = Access::OWN_WORK;
    type Answer = WorkflowView;
}

impl StoreOperation for RecordMerge {
    fn run(self, cx: &mut OpContext<'_>) -> Result<WorkflowView> {
        let workflow = find::workflow_to_change(cx, &self.workflow)?;
        let mut after = workflow.clone();
        let (status, event) = if self.merged {
            (WorkflowStatus::Completed, kind::WORKFLOW_COMPLETED)
        } else {
            (WorkflowStatus::AwaitingMerge, kind::WORKFLOW_AWAITS_MERGE)
        };
        let open = cx.tx.task_list(&workflow.id)?.into_iter().filter(|task| !task.status.satisfies()).count();
        if open > 0 {
            let verb = if open == 1 { "is" } else { "are" };
            return Err(Error::conflict(format!(
                "{} of workflow {} {verb} not done",
                count(open, "task"),
                workflow.name
            ))
            .hint(format!("way workflow show {}", workflow.id)));
        }
        after.move_to(status, cx.now)?;
        cx.change_workflow(event, &workflow, &after)?;
        view::workflow(cx, after)
    }
}
