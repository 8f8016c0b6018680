//! What was answered to a request with a key of its own.

use serde_json::Value;

use crate::id::WorktreeId;
use crate::time::Timestamp;

/// A remembered answer: the same key gives the same answer, and one effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedAnswer {
    /// The key that came with the request.
    pub key: String,
    /// The operation.
    pub operation: String,
    /// The arguments, as a digest.
    pub request: String,
    /// What was answered.
    pub answer: Value,
    /// The worktree it was asked from.
    pub worktree_id: WorktreeId,
    /// When.
    pub created_at: Timestamp,
}
