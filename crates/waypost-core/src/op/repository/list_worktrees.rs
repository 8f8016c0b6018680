//! Lists the worktrees of the store.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::context::OpContext;
use crate::error::Result;
use crate::id::WorktreeId;
use crate::model::{Repository, Worktree};
use crate::op::{Effect, Operation, StoreOperation};
use crate::page::{self, Cursor};
use crate::time::Timestamp;

/// Lists every worktree that ever wrote to the store, including removed ones, with their repositories.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ListWorktrees {
    /// The position after which the page begins: `next` of the page before.
    #[serde(default)]
    pub after: Option<Cursor<(Timestamp, String, WorktreeId)>>,
    /// The maximum number of results.
    #[serde(default = "page::default_limit")]
    #[schemars(range(min = 1))]
    pub limit: u32,
}

impl ListWorktrees {
    /// Lists all of them on one page.
    pub fn all() -> ListWorktrees {
        ListWorktrees { after: None, limit: u32::MAX }
    }
}

/// The answer to [`ListWorktrees`].
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorktreeList {
    /// All repositories, by name.
    pub repositories: Vec<Repository>,
    /// The worktrees, in the order in which they were first seen.
    pub worktrees: Vec<Worktree>,
    /// The position of the next page: `after` of the next call. Null on the last page.
    #[serde(default)]
    pub next: Option<Cursor<(Timestamp, String, WorktreeId)>>,
}

impl Operation for ListWorktrees {
    const NAME: &'static str = "list_worktrees";
    const SUMMARY: &'static str = "List worktrees";
    const EFFECT: Effect = Effect::Read;
    type Answer = WorktreeList;
}

impl StoreOperation for ListWorktrees {
    fn run(self, cx: &mut OpContext<'_>) -> Result<WorktreeList> {
        page::fetched(self.limit)?;
        let mut worktrees = cx.tx.worktree_list()?;
        let key = |worktree: &Worktree| (worktree.first_seen, worktree.name.clone(), worktree.id.clone());
        page::skip(&mut worktrees, self.after.as_ref(), key);
        let next = page::cut(&mut worktrees, self.limit, key);
        Ok(WorktreeList { repositories: cx.tx.repository_list()?, worktrees, next })
    }
}
