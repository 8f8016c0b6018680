//! What the ledger has still to be told.

use serde::{Deserialize, Serialize};

use crate::id::{TaskId, WorktreeId};
use crate::time::Timestamp;

/// A finished task whose issue is not closed yet. Written with the finish; gone when the ledger has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Closing {
    /// The task.
    pub task_id: TaskId,
    /// Its issue.
    pub issue: String,
    /// Why it can be closed.
    pub reason: String,
    /// Who finished it.
    pub actor: String,
    /// The worktree the workflow was made in, whose ledger has the issue.
    pub worktree_id: WorktreeId,
    /// When it was finished.
    pub created_at: Timestamp,
}
