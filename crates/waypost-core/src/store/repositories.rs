//! The rows of repositories and worktrees.

use crate::error::Result;
use crate::id::{RepositoryId, WorktreeId};
use crate::model::{Repository, Worktree};
use crate::time::Timestamp;

/// The part of a transaction that is about repositories and worktrees.
pub trait RepositoryTx {
    /// Returns a repository.
    fn repository_get(&mut self, id: &RepositoryId) -> Result<Option<Repository>>;
    /// Inserts a repository, or replaces the one with its id.
    fn repository_put(&mut self, repository: &Repository) -> Result<()>;
    /// Returns all repositories, ordered by name, then id.
    fn repository_list(&mut self) -> Result<Vec<Repository>>;
    /// Deletes a repository without references.
    fn repository_remove(&mut self, id: &RepositoryId) -> Result<()>;

    /// Returns a worktree.
    fn worktree_get(&mut self, id: &WorktreeId) -> Result<Option<Worktree>>;
    /// Inserts a worktree, or replaces the one with its id. Its repository must exist.
    fn worktree_put(&mut self, worktree: &Worktree) -> Result<()>;
    /// Sets when a worktree last wrote.
    fn worktree_touch(&mut self, id: &WorktreeId, last_seen: Timestamp) -> Result<()>;
    /// Returns all worktrees, ordered by registration, then name and id.
    fn worktree_list(&mut self) -> Result<Vec<Worktree>>;
}
