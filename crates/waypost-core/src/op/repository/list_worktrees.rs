//! Lists the worktrees of the store.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::context::OpContext;
use crate::error::Result;
use crate::model::{Repository, Worktree};
use crate::op::{Effect, Operation, StoreOperation};

/// Lists every worktree that ever wrote to the store, including removed ones, with their repositories.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ListWorktrees {}

/// The answer to [`ListWorktrees`].
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorktreeList {
    /// The repositories, by name.
    pub repositories: Vec<Repository>,
    /// The worktrees, in the order in which they were first seen.
    pub worktrees: Vec<Worktree>,
}

impl Operation for ListWorktrees {
    const NAME: &'static str = "list_worktrees";
    const SUMMARY: &'static str = "List worktrees";
    const EFFECT: Effect = Effect::Read;
    type Answer = WorktreeList;
}

impl StoreOperation for ListWorktrees {
    fn run(self, cx: &mut OpContext<'_>) -> Result<WorktreeList> {
        Ok(WorktreeList { repositories: cx.tx.repository_list()?, worktrees: cx.tx.worktree_list()? })
    }
}
