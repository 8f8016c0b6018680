//! An isolated directory, made for one job.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::text_enum::text_enum;
use crate::error::{Error, Result};
use crate::id::{JobId, RepositoryId, WorkspaceId, WorktreeId};
use crate::path_text;
use crate::time::Timestamp;

text_enum! {
    /// How a workspace is made.
    Strategy: "a strategy of workspaces" {
        /// A git directory of its own, objects borrowed from a mirror, files copied from a template.
        Clone = "clone",
        /// The same, with the files of a template laid under it. Needs the right to mount.
        Overlay = "overlay",
        /// A worktree of git, or a share of Mercurial.
        Worktree = "worktree",
        /// A workspace of jj.
        Jj = "jj",
        /// A copy of all files, without version control.
        Copy = "copy",
        /// The checkout itself: nothing is made, and nothing is cleaned up.
        InPlace = "in-place",
    }
}

impl Strategy {
    /// Tells whether it has a git directory of its own, with objects of a mirror.
    pub fn borrows(self) -> bool {
        matches!(self, Strategy::Clone | Strategy::Overlay)
    }
}

text_enum! {
    /// How far a workspace got.
    WorkspaceStatus: "a status of workspaces" {
        /// It is written down, and may be there in part.
        Creating = "creating",
        /// It is there, and somebody works in it.
        Active = "active",
        /// It is there, and nobody works in it.
        Kept = "kept",
        /// Its directory is gone, and what was in it is saved.
        Snapshotted = "snapshotted",
        /// It is gone, and nothing of it was worth saving.
        Removed = "removed",
        /// Its directory is not where it was.
        Lost = "lost",
    }
}

impl WorkspaceStatus {
    /// Returns where it can go from here.
    pub fn next(self) -> &'static [WorkspaceStatus] {
        use WorkspaceStatus::{Active, Creating, Kept, Lost, Removed, Snapshotted};
        match self {
            Creating | Lost => &[Active, Kept, Removed],
            Active => &[Kept, Snapshotted, Removed, Lost],
            Kept => &[Active, Snapshotted, Removed, Lost],
            // What is gone does not come back under the same name.
            Snapshotted | Removed => &[],
        }
    }

    /// Tells whether its directory is there, or should be.
    pub fn is_live(self) -> bool {
        matches!(self, WorkspaceStatus::Creating | WorkspaceStatus::Active | WorkspaceStatus::Kept)
    }
}

/// The device and inode of a workspace's directory. Only that directory is ever removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Identity {
    /// The device.
    pub device: u64,
    /// The inode on it.
    pub inode: u64,
}

/// An isolated directory, made for one job.
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
    /// How far it got.
    pub status: WorkspaceStatus,
    /// What it takes on disk, as last measured, in bytes.
    pub size: Option<u64>,
    /// Which directory it is.
    pub identity: Option<Identity>,
    /// Whether it stays until somebody says otherwise.
    pub is_pinned: bool,
    /// What its work was last saved as.
    pub snapshot: Option<String>,
    /// The commit with which its work arrived.
    pub merge_commit: Option<String>,
    /// Where its work is looked at by others.
    pub pr_url: Option<String>,
    /// What somebody should know: why it could not be removed, what is not in it.
    pub note: Option<String>,
    /// All that its maker wrote down before making it.
    pub plan: Value,
    /// The worktree it was asked for from.
    pub worktree_id: WorktreeId,
    /// When it was written down.
    pub created_at: Timestamp,
    /// When something last happened to it.
    pub updated_at: Timestamp,
    /// When it went.
    pub removed_at: Option<Timestamp>,
}

impl Workspace {
    /// Moves it to a status, if that is allowed.
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

/// Which workspaces to return.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkspaceQuery {
    /// Only those on this machine.
    pub machine: Option<String>,
    /// Only those made for this job.
    pub job_id: Option<JobId>,
    /// Those that are gone, too.
    pub all: bool,
    /// At most this many.
    pub limit: u32,
}
