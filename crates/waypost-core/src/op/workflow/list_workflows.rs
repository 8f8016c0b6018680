//! Lists workflows.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::context::OpContext;
use crate::error::Result;
use crate::id::WorkflowId;
use crate::model::WorkflowQuery;
use crate::op::{Effect, Operation, StoreOperation};
use crate::page::{self, Cursor};
use crate::time::Timestamp;
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
    /// The position of the next page: `after` of the next call. Null on the last page.
    #[serde(default)]
    pub next: Option<Cursor<(Timestamp, WorkflowId)>>,
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
        let limit = self.query.limit;
        let mut workflows = cx.tx.workflow_list(&WorkflowQuery { limit: page::fetched(limit)?, ..self.query })?;
        let next = page::cut(&mut workflows, limit, |workflow| (workflow.created_at, workflow.id.clone()));
        Ok(WorkflowList { workflows: view::workflows(cx, workflows)?, next })
    }
}
