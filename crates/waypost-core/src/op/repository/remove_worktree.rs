//! Records that a worktree was removed. Its history stays.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::context::OpContext;
use crate::error::{Error, Result};
use crate::id::WorktreeId;
use crate::model::{Worktree, kind};
use crate::op::{Effect, Operation, StoreOperation};

/// Records that a worktree was removed.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RemoveWorktree {
    /// The worktree.
    pub id: WorktreeId,
}

/// The answer to [`RemoveWorktree`].
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Removed {
    /// The stored worktree.
    pub worktree: Worktree,
}

impl Operation for RemoveWorktree {
    const NAME: &'static str = "remove_worktree";
    const SUMMARY: &'static str = "Record that a worktree was removed";
    const EFFECT: Effect = Effect::Write;
    type Answer = Removed;
}

impl StoreOperation for RemoveWorktree {
    fn run(self, cx: &mut OpContext<'_>) -> Result<Removed> {
        let Some(known) = cx.tx.worktree_get(&self.id)? else {
            return Err(Error::not_found(format!("no worktree {}", self.id)));
        };
        if known.id == cx.caller.worktree.id {
            return Err(Error::refused(format!("worktree {} is the one you are in", known.id)));
        }
        if known.removed_at.is_some() {
            return Ok(Removed { worktree: known });
        }
        let worktree = Worktree { removed_at: Some(cx.now), ..known };
        cx.tx.worktree_put(&worktree)?;
        cx.event(kind::WORKTREE_REMOVED, worktree.id.as_str(), json!({ "after": worktree }))?;
        Ok(Removed { worktree })
    }
}
