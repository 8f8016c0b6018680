//! Removes a repository from a workflow.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::context::OpContext;
use crate::error::{Error, Result};
use crate::model::kind;
use crate::op::{Access, Effect, Operation, StoreOperation};
use crate::work::find;
use crate::work::view::{self, WorkflowView};

/// Removes a repository from a workflow, if none of its tasks works there.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RemoveWorkflowRepository {
    /// The workflow: its id or name.
    pub workflow: String,
    /// The repository: its id, name or path.
    pub repository: String,
}

impl Operation for RemoveWorkflowRepository {
    const NAME: &'static str = "remove_workflow_repository";
    const SUMMARY: &'static str = "Remove a repository from a workflow";
    const EFFECT: Effect = Effect::Write;
    const ACCESS: Access = Access::OWN_WORK;
    type Answer = WorkflowView;
}

impl StoreOperation for RemoveWorkflowRepository {
    fn run(self, cx: &mut OpContext<'_>) -> Result<WorkflowView> {
        let workflow = find::workflow_to_change(cx, &self.workflow)?;
        let repository = find::repository(cx, &self.repository)?;
        let all = cx.tx.workflow_repository_list(&workflow.id)?;
        let refused = |why: String| Error::refused(format!("workflow {} needs the repository: {why}", workflow.name));
        if !all.contains(&repository) {
            return Err(Error::not_found(format!("workflow {} does not have {:?}", workflow.name, self.repository))
                .hint(format!("way workflow repos {}", workflow.id)));
        }
        if all.len() == 1 {
            return Err(refused("it has no other".to_owned()));
        }
        for task in cx.tx.task_list(&workflow.id)? {
            if find::repository_of(cx, &task)?.as_ref() == Some(&repository) {
                return Err(refused(format!("task {} works there", task.name))
                    .hint(format!("way workflow remove-task {}, or way workflow replan", task.id)));
            }
        }
        cx.tx.workflow_repository_remove(&workflow.id, &repository)?;
        cx.event(kind::WORKFLOW_REPOSITORY_REMOVED, workflow.id.as_str(), json!({ "repository": repository }))?;
        view::workflow(cx, workflow)
    }
}
