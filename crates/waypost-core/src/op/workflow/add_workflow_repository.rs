//! Adds a repository to a workflow.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::context::OpContext;
use crate::error::Result;
use crate::model::kind;
use crate::op::workflow::add_workflow;
use crate::op::{Access, Effect, Operation, StoreOperation};
use crate::work::find;
use crate::work::view::{self, WorkflowView};

/// Adds a repository to a workflow.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct AddWorkflowRepository {
    /// The workflow: its id or name.
    pub workflow: String,
    /// The repository: its id, name or path.
    pub repository: String,
}

impl Operation for AddWorkflowRepository {
    const NAME: &'static str = "add_workflow_repository";
    const SUMMARY: &'static str = "Add a repository to a workflow";
    const EFFECT: Effect = Effect::Write;
    const ACCESS: Access = Access::OWN_WORK;
    type Answer = WorkflowView;
}

impl StoreOperation for AddWorkflowRepository {
    fn run(self, cx: &mut OpContext<'_>) -> Result<WorkflowView> {
        let workflow = find::workflow_to_change(cx, &self.workflow)?;
        let repository = find::repository(cx, &self.repository)?;
        let mut all = cx.tx.workflow_repository_list(&workflow.id)?;
        if !all.contains(&repository) {
            all.push(repository.clone());
            add_workflow::check_several(cx.caller, &all)?;
            cx.tx.workflow_repository_put(&workflow.id, &repository)?;
            cx.event(kind::WORKFLOW_REPOSITORY_ADDED, workflow.id.as_str(), json!({ "repository": repository }))?;
        }
        view::workflow(cx, workflow)
    }
}
