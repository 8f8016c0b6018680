//! The rows of repositories and worktrees.

use waypost_core::Result;
use waypost_core::id::{RepositoryId, WorktreeId};
use waypost_core::model::{Repository, Worktree};
use waypost_core::store::RepositoryTx;
use waypost_core::time::Timestamp;

use super::SqlTx;
use crate::cell::cells;
use crate::sql;

impl RepositoryTx for SqlTx<'_> {
    fn repository_get(&mut self, id: &RepositoryId) -> Result<Option<Repository>> {
        self.one(sql::REPOSITORY_GET, cells![id.as_str()])
    }

    fn repository_put(&mut self, repository: &Repository) -> Result<()> {
        self.put(repository)
    }

    fn repository_list(&mut self) -> Result<Vec<Repository>> {
        self.all(sql::REPOSITORY_LIST, &[])
    }

    fn repository_remove(&mut self, id: &RepositoryId) -> Result<()> {
        self.run(sql::REPOSITORY_REMOVE, cells![id.as_str()])
    }

    fn worktree_get(&mut self, id: &WorktreeId) -> Result<Option<Worktree>> {
        self.one(sql::WORKTREE_GET, cells![id.as_str()])
    }

    fn worktree_put(&mut self, worktree: &Worktree) -> Result<()> {
        self.put(worktree)
    }

    fn worktree_touch(&mut self, id: &WorktreeId, last_seen: Timestamp) -> Result<()> {
        self.run(sql::WORKTREE_TOUCH, cells![id.as_str(), last_seen])
    }

    fn worktree_list(&mut self) -> Result<Vec<Worktree>> {
        self.all(sql::WORKTREE_LIST, &[])
    }
}
