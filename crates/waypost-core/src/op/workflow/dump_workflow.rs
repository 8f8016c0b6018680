//! Exports all data of a workflow, for import into another store.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::context::OpContext;
use crate::error::Result;
use crate::id::WorkflowId;
use crate::op::{Audience, Effect, Operation, StoreOperation};
use crate::work::find;
use crate::work::transfer::{self, WorkflowDump};

/// Exports all data of a workflow, for import into another store.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DumpWorkflow {
    /// The workflow.
    pub workflow: WorkflowId,
}

impl Operation for DumpWorkflow {
    const NAME: &'static str = "dump_workflow";
    const SUMMARY: &'static str = "Export all data of a workflow";
    const EFFECT: Effect = Effect::Read;
    const AUDIENCE: Audience = Audience::Internal;
    type Answer = WorkflowDump;
}

impl StoreOperation for DumpWorkflow {
    fn run(self, cx: &mut OpContext<'_>) -> Result<WorkflowDump> {
        let workflow = find::workflow(cx, self.workflow.as_str())?;
        transfer::dump(cx, &workflow)
    }
}
