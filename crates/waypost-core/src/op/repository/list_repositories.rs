//! Lists the repositories of the store.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::context::OpContext;
use crate::error::Result;
use crate::id::RepositoryId;
use crate::model::{Repository, WorkflowQuery, WorkflowStatus};
use crate::op::{Effect, Operation, StoreOperation};
use crate::page::{self, Cursor};
use crate::tree;

/// Lists the repositories of the store.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ListRepositories {
    /// The position after which the page begins: `next` of the page before.
    #[serde(default)]
    pub after: Option<Cursor<(String, RepositoryId)>>,
    /// The maximum number of results.
    #[serde(default = "page::default_limit")]
    #[schemars(range(min = 1))]
    pub limit: u32,
}

impl ListRepositories {
    /// Lists all of them on one page.
    pub fn all() -> ListRepositories {
        ListRepositories { after: None, limit: u32::MAX }
    }
}

/// The answer to [`ListRepositories`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RepositoryList {
    /// The repositories, by name.
    pub repositories: Vec<RepositoryView>,
    /// The position of the next page: `after` of the next call. Null on the last page.
    #[serde(default)]
    pub next: Option<Cursor<(String, RepositoryId)>>,
}

/// A repository, with the number of worktrees and workflows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RepositoryView {
    /// The repository.
    #[serde(flatten, deserialize_with = "tree::flattened")]
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
        page::fetched(self.limit)?;
        let mut page = cx.tx.repository_list()?;
        let key = |repository: &Repository| (repository.name.clone(), repository.id.clone());
        page::skip(&mut page, self.after.as_ref(), key);
        let next = page::cut(&mut page, self.limit, key);
        let mut repositories = Vec::new();
        for repository in page {
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
        Ok(RepositoryList { repositories, next })
    }
}
