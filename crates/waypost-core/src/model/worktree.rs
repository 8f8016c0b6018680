//! Worktrees: checkouts of a repository. Every record names the worktree it was written from.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::{RepositoryId, WorktreeId};
use crate::path_text;
use crate::time::Timestamp;

/// A worktree, as it was at its last write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Worktree {
    /// Its id, generated once and kept in the version control's directory for this worktree. It survives a move.
    pub id: WorktreeId,
    /// The repository it is a checkout of.
    pub repository_id: RepositoryId,
    /// Its name in the version control, or else the last component of its path.
    pub name: String,
    /// Its root directory.
    #[serde(with = "path_text::serde")]
    #[schemars(with = "String")]
    pub path: PathBuf,
    /// The branch checked out, if any.
    pub branch: Option<String>,
    /// When it was registered.
    pub first_seen: Timestamp,
    /// When it last wrote.
    pub last_seen: Timestamp,
    /// When `way worktree rm` removed it. If another program removed it, its path is missing.
    pub removed_at: Option<Timestamp>,
}
