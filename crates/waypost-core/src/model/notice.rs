//! What the ledger has still to be told.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::text_enum::text_enum;
use crate::id::{TaskId, WorktreeId};
use crate::time::Timestamp;

text_enum! {
    /// What became of an issue.
    News: "news of issues" {
        /// Its task is done: it can be closed.
        Finished = "finished",
        /// Whoever worked on it fell silent: it can be worked on again.
        Abandoned = "abandoned",
    }
}

/// News of an issue that its ledger does not have yet. Written with what happened; gone when the ledger was told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Notice {
    /// The issue.
    pub issue: String,
    /// What became of it.
    pub news: News,
    /// The outcome of its task, or why nobody works on it any more.
    pub reason: String,
    /// Who finished it, or who worked on it.
    pub actor: String,
    /// The task, if there is one.
    pub task_id: Option<TaskId>,
    /// The worktree from which it was claimed or planned: its ledger has the issue.
    pub worktree_id: WorktreeId,
    /// When it happened.
    pub created_at: Timestamp,
}
