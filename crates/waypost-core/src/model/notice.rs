//! Notices and deferred changes: changes of issues that are not in the ledger yet.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::text_enum::text_enum;
use crate::id::{TaskId, WorktreeId};
use crate::time::Timestamp;

text_enum! {
    /// The change of an issue.
    News: "news of issues" {
        /// Its task is done: the ledger can close it.
        Finished = "finished",
        /// The lease of its holder expired: the ledger can reopen it.
        Abandoned = "abandoned",
    }
}

/// A change of an issue that its ledger does not have yet. The transaction of the change writes it; delivery to the
/// ledger removes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Notice {
    /// The issue.
    pub issue: String,
    /// The change.
    pub news: News,
    /// The outcome of its task, or why its lease expired.
    pub reason: String,
    /// The author who finished it, or the agent that held it.
    pub actor: String,
    /// The task, if there is one.
    pub task_id: Option<TaskId>,
    /// The worktree from which it was claimed or planned; its ledger has the issue.
    pub worktree_id: WorktreeId,
    /// When it happened.
    pub created_at: Timestamp,
}

/// Changes of issues that a caller made without reaching their ledger, as one command made them. Delivery to the ledger
/// removes them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeferredChanges {
    /// Their key. The ids of new issues and comments derive from it, so a second delivery adds nothing.
    pub key: String,
    /// Their place in the order of delivery.
    pub number: u64,
    /// The author.
    pub actor: String,
    /// The changes, as the application encodes them.
    pub changes: Value,
    /// The worktree of the caller. The ledger of its repository gets the changes.
    pub worktree_id: WorktreeId,
    /// When the caller made them.
    pub created_at: Timestamp,
}
