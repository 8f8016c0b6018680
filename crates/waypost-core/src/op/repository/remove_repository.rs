//! Removes a repository from the store if nothing refers to it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::context::OpContext;
use crate::error::{Error, Result};
use crate::model::{Repository, WorkflowQuery, kind};
use crate::op::{Effect, Operation, StoreOperation};
use crate::work::find;

/// Removes a repository from the store if nothing refers to it. The repository itself does not change.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RemoveRepository {
    /// The repository: its id, name or path.
    pub repository: String,
}

impl Operation for RemoveRepository {
    const NAME: &'static str = "remove_repository";
    const SUMMARY: &'static str = "Remove a repository from the store";
    const EFFECT: Effect = Effect::Write;
    type Answer = Repository;
}

impl StoreOperation for RemoveRepository {
    fn run(self, cx: &mut OpContext<'_>) -> Result<Repository> {
        let id = find::repository(cx, &self.repository)?;
        let Some(repository) = cx.tx.repository_get(&id)? else {
            return Err(Error::not_found(format!("no repository {id}")));
        };
        let refused = |why: String| Error::refused(format!("repository {} is in use: {why}", repository.name));
        let worktrees = cx.tx.worktree_list()?;
        if let Some(one) = worktrees.iter().find(|worktree| worktree.repository_id == id) {
            return Err(refused(format!("its worktree {} is part of the history", one.name))
                .hint("history is never deleted, and neither are the records it refers to"));
        }
        let query = WorkflowQuery { repository_id: Some(id.clone()), limit: 1, ..WorkflowQuery::default() };
        if let Some(workflow) = cx.tx.workflow_list(&query)?.first() {
            return Err(refused(format!("workflow {} includes it", workflow.name))
                .hint(format!("way workflow show {}", workflow.id)));
        }
        cx.tx.repository_remove(&id)?;
        cx.event(kind::REPOSITORY_REMOVED, id.as_str(), json!({ "before": repository }))?;
        Ok(repository)
    }
}
