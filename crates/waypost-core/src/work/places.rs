//! Worktrees and repositories as other records show them: by name, also after they were removed.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::context::OpContext;
use crate::error::Result;
use crate::id::{RepositoryId, WorktreeId};
use crate::model::{Task, Worktree};
use crate::path_text;
use crate::time::Timestamp;

/// The worktree of a record, as it was at its last write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorktreeSummary {
    /// Its id.
    pub id: WorktreeId,
    /// Its name.
    pub name: String,
    /// Its root directory.
    #[serde(with = "path_text::serde")]
    #[schemars(with = "String")]
    pub path: PathBuf,
    /// The branch checked out, if any.
    pub branch: Option<String>,
    /// The id of its repository.
    pub repository_id: RepositoryId,
    /// The name of its repository.
    pub repository: String,
    /// When `way worktree rm` removed it.
    pub removed_at: Option<Timestamp>,
}

/// The worktrees and repositories of a store.
pub(crate) struct Places {
    worktrees: BTreeMap<WorktreeId, Worktree>,
    repositories: BTreeMap<RepositoryId, String>,
}

impl Places {
    /// Reads all of them, for lists.
    pub(crate) fn all(cx: &mut OpContext<'_>) -> Result<Places> {
        let worktrees = cx.tx.worktree_list()?.into_iter().map(|one| (one.id.clone(), one)).collect();
        let repositories = cx.tx.repository_list()?.into_iter().map(|one| (one.id, one.name)).collect();
        Ok(Places { worktrees, repositories })
    }

    /// Reads those that one record names.
    pub(crate) fn of(
        cx: &mut OpContext<'_>,
        worktree: &WorktreeId,
        repository: Option<&RepositoryId>,
    ) -> Result<Places> {
        let worktree = cx.tx.worktree_get(worktree)?;
        let mut repositories = BTreeMap::new();
        for id in worktree.iter().map(|worktree| &worktree.repository_id).chain(repository) {
            repositories.extend(cx.tx.repository_get(id)?.map(|repository| (repository.id, repository.name)));
        }
        Ok(Places { worktrees: worktree.into_iter().map(|one| (one.id.clone(), one)).collect(), repositories })
    }

    /// Returns a worktree.
    pub(crate) fn worktree(&self, id: &WorktreeId) -> Option<WorktreeSummary> {
        let Worktree { id, repository_id, name, path, branch, removed_at, .. } = self.worktrees.get(id)?.clone();
        let repository = self.repository(&repository_id);
        Some(WorktreeSummary { id, name, path, branch, repository_id, repository, removed_at })
    }

    /// Returns the name of a repository, or its id if the store does not know it.
    pub(crate) fn repository(&self, id: &RepositoryId) -> String {
        self.repositories.get(id).cloned().unwrap_or_else(|| id.to_string())
    }

    /// Returns the repository of a task: its own, or else that of the worktree in which its workflow was created.
    pub(crate) fn repository_of(&self, task: &Task) -> Option<RepositoryId> {
        let of_worktree = || self.worktrees.get(&task.worktree_id).map(|worktree| worktree.repository_id.clone());
        task.repository_id.clone().or_else(of_worktree)
    }
}
