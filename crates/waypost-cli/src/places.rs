//! Columns and lines that say where a record comes from: its worktree, and in a shared store its repository.

use waypost::app::session::Session;
use waypost_core::id::RepositoryId;
use waypost_core::op::{AgentView, CheckpointView, JobView, WorkspaceView};
use waypost_core::work::places::WorktreeSummary;
use waypost_core::work::view::{TaskView, WorkflowView};

use super::ui::{Cell, DIM, styled};

/// A record with a place.
pub(crate) trait Placed {
    /// Returns its worktree.
    fn worktree(&self) -> Option<&WorktreeSummary>;

    /// Returns the repositories it is about, with their names.
    fn repositories(&self) -> Vec<(&RepositoryId, &str)> {
        self.worktree().map(|worktree| (&worktree.repository_id, worktree.repository.as_str())).into_iter().collect()
    }
}

impl Placed for TaskView {
    fn worktree(&self) -> Option<&WorktreeSummary> {
        self.worktree.as_ref()
    }

    fn repositories(&self) -> Vec<(&RepositoryId, &str)> {
        self.repository_id().zip(self.repository.as_deref()).into_iter().collect()
    }
}

impl Placed for WorkflowView {
    fn worktree(&self) -> Option<&WorktreeSummary> {
        self.worktree.as_ref()
    }

    fn repositories(&self) -> Vec<(&RepositoryId, &str)> {
        self.repositories.iter().zip(self.repository_names.iter().map(String::as_str)).collect()
    }
}

impl Placed for JobView {
    fn worktree(&self) -> Option<&WorktreeSummary> {
        self.worktree.as_ref()
    }

    fn repositories(&self) -> Vec<(&RepositoryId, &str)> {
        vec![(&self.job.repository_id, &self.repository)]
    }
}

impl Placed for WorkspaceView {
    fn worktree(&self) -> Option<&WorktreeSummary> {
        self.worktree.as_ref()
    }

    fn repositories(&self) -> Vec<(&RepositoryId, &str)> {
        vec![(&self.workspace.repository_id, &self.repository)]
    }
}

impl Placed for AgentView {
    fn worktree(&self) -> Option<&WorktreeSummary> {
        self.worktree.as_ref()
    }
}

impl Placed for CheckpointView {
    fn worktree(&self) -> Option<&WorktreeSummary> {
        self.worktree.as_ref()
    }
}

/// The columns of a list that say where its rows come from. A list has them if not all rows come from the caller's
/// worktree, or repository.
#[derive(Clone, Copy, Default)]
pub(crate) struct PlaceColumns {
    has_worktree: bool,
    has_repository: bool,
}

impl PlaceColumns {
    /// Returns the columns that a list needs.
    pub(crate) fn of<T: Placed>(session: &Session, rows: &[T]) -> PlaceColumns {
        let (here, own) = (&session.worktree().id, &session.repository().id);
        let mut worktrees = rows.iter().filter_map(Placed::worktree);
        let mut repositories = rows.iter().flat_map(Placed::repositories);
        PlaceColumns {
            has_worktree: worktrees.any(|worktree| worktree.id != *here),
            has_repository: session.caller().is_shared && repositories.any(|(id, _)| id != own),
        }
    }

    /// Adds the repository.
    pub(crate) fn with_repository(self) -> PlaceColumns {
        PlaceColumns { has_repository: true, ..self }
    }

    /// Leaves out the worktree.
    pub(crate) fn without_worktree(self) -> PlaceColumns {
        PlaceColumns { has_worktree: false, ..self }
    }

    /// Returns their titles.
    pub(crate) fn titles(self) -> impl Iterator<Item = Cell> {
        let titles = [("REPOSITORY", self.has_repository), ("WORKTREE", self.has_worktree)];
        titles.into_iter().filter(|(_, is_shown)| *is_shown).map(|(title, _)| styled(DIM, title))
    }

    /// Returns the cells of a row.
    pub(crate) fn cells(self, row: &impl Placed) -> impl Iterator<Item = Cell> {
        let repositories: Vec<_> = row.repositories().into_iter().map(|(_, name)| name).collect();
        let repository = self.has_repository.then(|| repositories.join(", "));
        let worktree = self.has_worktree.then(|| row.worktree().map_or_else(|| "-".to_owned(), name));
        repository.into_iter().chain(worktree).map(|text| styled(DIM, text))
    }
}

/// Returns the name of a worktree in a list.
fn name(worktree: &WorktreeSummary) -> String {
    let removed = if worktree.removed_at.is_some() { " (removed)" } else { "" };
    format!("{}{removed}", worktree.name)
}

/// Describes the worktree of a record in one line.
pub(crate) fn describe_worktree(row: &impl Placed) -> Option<String> {
    let worktree = row.worktree()?;
    let branch = worktree.branch.as_ref().map_or_else(String::new, |branch| format!(", branch {branch}"));
    Some(format!("{}{branch}, {}", name(worktree), worktree.path.display()))
}

/// Describes the repositories of a record, in a store that several share.
pub(crate) fn describe_repositories(session: &Session, row: &impl Placed) -> Option<String> {
    let repositories = row.repositories();
    // A client does not know whether repositories share the store of a server.
    let is_own = repositories.iter().all(|(id, _)| **id == session.repository().id);
    if !session.caller().is_shared || repositories.is_empty() || (is_own && session.is_served()) {
        return None;
    }
    let names: Vec<_> = repositories.into_iter().map(|(_, name)| name).collect();
    Some(names.join(", "))
}
