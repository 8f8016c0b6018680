//! Saved answers to requests with an idempotency key.

use serde_json::Value;

use crate::id::WorktreeId;
use crate::time::Timestamp;

/// A saved answer: repeating a request with the same key returns it and has no further effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedAnswer {
    /// The key that came with the request.
    pub key: String,
    /// The operation.
    pub operation: String,
    /// The digest of caller and arguments.
    pub request: String,
    /// The answer.
    pub answer: Value,
    /// The worktree of the caller.
    pub worktree_id: WorktreeId,
    /// When it was saved.
    pub created_at: Timestamp,
}
