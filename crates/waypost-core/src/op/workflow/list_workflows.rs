//! Lists workflows.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::context::OpContext;
use crate::error::Result;
use crate::model::WorkflowQuery;
use crate::op::{Effect, Operation, StoreOperation};
use crate::work::find;
use crate::work::view::{self, WorkflowView};

/// Lists workflows.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ListWorkflows {
    /// The filter.
    pub query: WorkflowQuery,
}

/// The answer to [`ListWorkflows`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkflowList {
    /// The workflows, newest first.
    pub workflows: Vec<WorkflowView>,
}

impl Operation for ListWorkflows {
    const NAME: &'static str = "list_workflows";
    const SUMMARY: &'static str = "List workflows";
    const EFFECT: Effect = Effect::Read;
    type Answer = WorkflowList;
}

impl StoreOperation for ListWorkflows {
    fn run(self, cx: &mut OpContext<'_>) -> Result<WorkflowList> {
        find::check_worktree(cx, self.query.worktree_id.as_ref())?;
        let workflows = cx.tx.workflow_list(&self.query)?;
        Ok(WorkflowList { workflows: view::workflows(cx, workflows)? })
    }
}
