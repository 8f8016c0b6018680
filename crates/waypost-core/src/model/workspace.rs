//! Workspaces: isolated directories, each made for one job.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::text_enum::text_enum;
use crate::error::{Error, Result};
use crate::id::{JobId, RepositoryId, WorkspaceId, WorktreeId};
use crate::page::Cursor;
use crate::path_text;
use crate::time::Timestamp;

text_enum! {
    /// How a workspace is made.
    Strategy: "a strategy of workspaces" {
        /// A git directory of its own, objects borrowed from a mirror, files copied from a template.
        Clone = "clone",
        /// A clone with an overlay mount over the files of a template. Needs permission to mount.
        Overlay = "overlay",
        /// A git worktree or a Mercurial share.
        Worktree = "worktree",
        /// A jj workspace.
        Jj = "jj",
        /// A copy of all files, without version control.
        Copy = "copy",
        /// The checkout itself: nothing is created or removed.
        InPlace = "in-place",
    }
}

impl Strategy {
    /// Returns whether it has a git directory of its own that borrows objects from a mirror.
    pub fn borrows(self) -> bool {
        matches!(self, Strategy::Clone | Strategy::Overlay)
    }
}

text_enum! {
    /// The status of a workspace.
    WorkspaceStatus: "a status of workspaces" {
        /// Recorded; its directory may exist in part.
        Creating = "creating",
        /// Its directory exists, and a job uses it.
        Active = "active",
        /// Its directory exists, and no job uses it.
        Kept = "kept",
        /// Its directory is removed, and its work is saved in a snapshot.
        Snapshotted = "snapshotted",
        /// Its directory is removed, and there was nothing to save.
        Removed = "removed",
        /// Its directory is missing.
        Lost = "lost",
    }
}

impl WorkspaceStatus {
    /// Returns the statuses it can change to.
    pub fn next(self) -> &'static [WorkspaceStatus] {
        use WorkspaceStatus::{Active, Creating, Kept, Lost, Removed, Snapshotted};
        match self {
            Creating | Lost => &[Active, Kept, Removed],
            Active => &[Kept, Snapshotted, Removed, Lost],
            Kept => &[Active, Snapshotted, Removed, Lost],
            // A removed workspace is never restored under the same id.
            Snapshotted | Removed => &[],
        }
    }

    /// Returns whether its directory exists, or should.
    pub fn is_live(self) -> bool {
        matches!(self, WorkspaceStatus::Creating | WorkspaceStatus::Active | WorkspaceStatus::Kept)
    }
}

/// The device and inode of a workspace's directory. Removal deletes only a directory with this identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Identity {
    /// The device.
    pub device: u64,
    /// The inode on it.
    pub inode: u64,
}

/// An isolated directory that was made for one job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Workspace {
    /// Its id.
    pub id: WorkspaceId,
    /// The repository it comes from.
    pub repository_id: RepositoryId,
    /// The job it was made for.
    pub job_id: Option<JobId>,
    /// The machine it is on.
    pub machine: String,
    /// The directory to work in.
    #[serde(with = "path_text::serde")]
    #[schemars(with = "String")]
    pub path: PathBuf,
    /// How it is made.
    pub strategy: Strategy,
    /// The branch to work on.
    pub branch: Option<String>,
    /// The commit it starts from.
    pub base: Option<String>,
    /// Its status.
    pub status: WorkspaceStatus,
    /// Its size on disk in bytes, as last measured.
    pub size: Option<u64>,
    /// The identity of its directory.
    pub identity: Option<Identity>,
    /// Whether it is kept until it is unpinned.
    pub is_pinned: bool,
    /// The reference of its last snapshot.
    pub snapshot: Option<String>,
    /// The commit that merged its work.
    pub merge_commit: Option<String>,
    /// The URL of its pull request.
    pub pr_url: Option<String>,
    /// A note for the user: why it could not be removed, which files it lacks.
    pub note: Option<String>,
    /// The plan that was recorded before it was made.
    pub plan: Value,
    /// The worktree it was requested from.
    pub worktree_id: WorktreeId,
    /// When it was recorded.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// When it was removed.
    pub removed_at: Option<Timestamp>,
}

impl Workspace {
    /// Changes its status, if the transition is allowed.
    pub fn move_to(&mut self, status: WorkspaceStatus, now: Timestamp) -> Result<()> {
        if !self.status.next().contains(&status) {
            let allowed: Vec<_> = self.status.next().iter().map(|status| status.as_str()).collect();
            let error = Error::conflict(format!("workspace {} is {} and cannot become {status}", self.id, self.status));
            let hint = format!("from {} it can become: {}", self.status, allowed.join(", "));
            return Err(if allowed.is_empty() { error } else { error.hint(hint) });
        }
        self.status = status;
        self.updated_at = now;
        let is_gone = matches!(status, WorkspaceStatus::Removed | WorkspaceStatus::Snapshotted);
        self.removed_at = is_gone.then_some(now);
        Ok(())
    }
}

/// A filter of workspaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkspaceQuery {
    /// Only workspaces on this machine.
    pub machine: Option<String>,
    /// Only workspaces made for this job.
    pub job_id: Option<JobId>,
    /// Only workspaces that were requested from this worktree, or whose job works on its tasks.
    pub worktree_id: Option<WorktreeId>,
    /// Only workspaces of these repositories; of all if empty.
    pub repositories: Vec<RepositoryId>,
    /// Removed ones too.
    pub all: bool,
    /// Only workspaces after this one in the list: older ones.
    pub after: Option<Cursor<(Timestamp, WorkspaceId)>>,
    /// Maximum number of results.
    pub limit: u32,
}
