//! The rows of repositories and worktrees.

use waypost_core::error::{Error, Result};
use waypost_core::id::{RepositoryId, WorktreeId};
use waypost_core::model::{Repository, Worktree};
use waypost_core::store::RepositoryTx;
use waypost_core::time::Timestamp;

use super::MemoryTx;

impl RepositoryTx for MemoryTx<'_> {
    fn repository_get(&mut self, id: &RepositoryId) -> Result<Option<Repository>> {
        Ok(self.rows.repositories.get(id).cloned())
    }

    fn repository_put(&mut self, repository: &Repository) -> Result<()> {
        self.rows.repositories.insert(repository.id.clone(), repository.clone());
        Ok(())
    }

    fn repository_list(&mut self) -> Result<Vec<Repository>> {
        let mut repositories: Vec<_> = self.rows.repositories.values().cloned().collect();
        repositories.sort_by(|a, b| (&a.name, &a.id).cmp(&(&b.name, &b.id)));
        Ok(repositories)
    }

    fn repository_remove(&mut self, id: &RepositoryId) -> Result<()> {
        let is_referenced = self.rows.worktrees.values().any(|worktree| worktree.repository_id == *id)
            || self.rows.workflow_repositories.iter().any(|(_, repository)| repository == id)
            || self.rows.tasks.values().any(|task| task.repository_id.as_ref() == Some(id))
            || self.rows.jobs.values().any(|job| job.repository_id == *id)
            || self.rows.workspaces.values().any(|workspace| workspace.repository_id == *id);
        if is_referenced {
            return Err(Error::internal(format!("a row refers to repository {id}")));
        }
        self.rows.repositories.remove(id);
        Ok(())
    }

    fn worktree_get(&mut self, id: &WorktreeId) -> Result<Option<Worktree>> {
        Ok(self.rows.worktrees.get(id).cloned())
    }

    fn worktree_put(&mut self, worktree: &Worktree) -> Result<()> {
        if !self.rows.repositories.contains_key(&worktree.repository_id) {
            return Err(Error::internal(format!("worktree {} names an unknown repository", worktree.id)));
        }
        self.rows.worktrees.insert(worktree.id.clone(), worktree.clone());
        Ok(())
    }

    fn worktree_touch(&mut self, id: &WorktreeId, last_seen: Timestamp) -> Result<()> {
        if let Some(worktree) = self.rows.worktrees.get_mut(id) {
            worktree.last_seen = last_seen;
        }
        Ok(())
    }

    fn worktree_list(&mut self) -> Result<Vec<Worktree>> {
        let mut worktrees: Vec<_> = self.rows.worktrees.values().cloned().collect();
        worktrees.sort_by(|a, b| (a.first_seen, &a.name, &a.id).cmp(&(b.first_seen, &b.name, &b.id)));
        Ok(worktrees)
    }
}
