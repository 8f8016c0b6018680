//! Lists the repositories of the store.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::context::OpContext;
use crate::error::Result;
use crate::model::{Repository, WorkflowQuery, WorkflowStatus};
use crate::op::{Effect, Operation, StoreOperation};

/// Lists the repositories of the store.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ListRepositories {}

/// The answer to [`ListRepositories`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RepositoryList {
    /// The repositories, by name.
    pub repositories: Vec<RepositoryView>,
}

/// A repository, with the number of worktrees and workflows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RepositoryView {
    /// The repository.
    #[serde(flatten)]
    pub repository: Repository,
    /// The number of its worktrees in the store, without removed ones.
    pub worktrees: u64,
    /// The number of its workflows that have not ended.
    pub live_workflows: u64,
}

impl Operation for ListRepositories {
    const NAME: &'static str = "list_repositories";
    const SUMMARY: &'static str = "List repositories";
    const EFFECT: Effect = Effect::Read;
    type Answer = RepositoryList;
}

impl StoreOperation for ListRepositories {
    fn run(self, cx: &mut OpContext<'_>) -> Result<RepositoryList> {
        let worktrees = cx.tx.worktree_list()?;
        let live: Vec<_> = WorkflowStatus::ALL.iter().copied().filter(|status| !status.is_final()).collect();
        let mut repositories = Vec::new();
        for repository in cx.tx.repository_list()? {
            let workflows = cx.tx.workflow_list(&WorkflowQuery {
                statuses: live.clone(),
                repository_id: Some(repository.id.clone()),
                limit: u32::MAX,
                ..WorkflowQuery::default()
            })?;
            let present = worktrees.iter().filter(|one| one.removed_at.is_none() && one.repository_id == repository.id);
            repositories.push(RepositoryView {
                worktrees: present.count() as u64,
                live_workflows: workflows.len() as u64,
                repository,
            });
        }
        Ok(RepositoryList { repositories })
    }
}
