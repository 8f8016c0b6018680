//! Shows a workflow with its tasks.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::context::OpContext;
use crate::error::Result;
use crate::op::{Effect, Operation, StoreOperation};
use crate::tree;
use crate::work::find;
use crate::work::view::{self, TaskView, WorkflowView};

/// Shows a workflow with its tasks.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ShowWorkflow {
    /// The workflow: its id or name.
    pub workflow: String,
}

/// The answer to [`ShowWorkflow`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkflowPage {
    /// The workflow.
    #[serde(flatten, deserialize_with = "tree::flattened")]
    pub workflow: WorkflowView,
    /// Its tasks, in plan order.
    pub tasks: Vec<TaskView>,
}

impl Operation for ShowWorkflow {
    const NAME: &'static str = "show_workflow";
    const SUMMARY: &'static str = "Show a workflow with its tasks";
    const EFFECT: Effect = Effect::Read;
    type Answer = WorkflowPage;
}

impl StoreOperation for ShowWorkflow {
    fn run(self, cx: &mut OpContext<'_>) -> Result<WorkflowPage> {
        let workflow = find::workflow(cx, &self.workflow)?;
        let tasks = view::tasks(cx, &workflow)?;
        Ok(WorkflowPage { workflow: view::workflow(cx, workflow)?, tasks })
    }
}
