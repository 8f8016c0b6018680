//! One checkout of a repository. Every record names the one it came from.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::{RepositoryId, WorktreeId};
use crate::path_text;
use crate::time::Timestamp;

/// One worktree, as it was when it last wrote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Worktree {
    /// Made once, kept in the version control's own directory for this worktree: survives a move.
    pub id: WorktreeId,
    /// The repository it is a checkout of.
    pub repository_id: RepositoryId,
    /// What the version control calls it, else the last component of its path.
    pub name: String,
    /// Its root.
    #[serde(with = "path_text::serde")]
    #[schemars(with = "String")]
    pub path: PathBuf,
    /// The branch checked out, if any.
    pub branch: Option<String>,
    /// When it was first heard of.
    pub first_seen: Timestamp,
    /// When it last wrote.
    pub last_seen: Timestamp,
    /// When `way worktree rm` removed it. One removed by other means is found missing by looking.
    pub removed_at: Option<Timestamp>,
}
