//! Lists the checkpoints of a task, latest first.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::context::OpContext;
use crate::error::Result;
use crate::model::Checkpoint;
use crate::op::{Effect, Operation, StoreOperation};
use crate::page::{self, Cursor};
use crate::tree;
use crate::work::find;
use crate::work::places::{Places, WorktreeSummary};

/// Lists the checkpoints of a task, latest first.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ListCheckpoints {
    /// The task: its id, its name, or `workflow/name`.
    pub task: String,
    /// The workflow of the task, if the task's name alone is ambiguous.
    #[serde(default)]
    pub workflow: Option<String>,
    /// Only a task of this repository: its id, name or path.
    #[serde(default)]
    pub repository: Option<String>,
    /// Only checkpoints before this sequence.
    #[serde(default)]
    pub before: Option<u32>,
    /// The position after which the page begins: `next` of the page before.
    #[serde(default)]
    pub after: Option<Cursor<u32>>,
    /// The maximum number of results.
    #[serde(default = "page::default_limit")]
    #[schemars(range(min = 1))]
    pub limit: u32,
}

/// The answer to [`ListCheckpoints`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CheckpointList {
    /// The checkpoints, latest first.
    pub checkpoints: Vec<CheckpointView>,
    /// The total number of checkpoints.
    pub total: u32,
    /// The position of the next page: `after` of the next call. Null on the last page.
    #[serde(default)]
    pub next: Option<Cursor<u32>>,
}

/// A checkpoint, with its worktree.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CheckpointView {
    /// The checkpoint.
    #[serde(flatten, deserialize_with = "tree::flattened")]
    pub checkpoint: Checkpoint,
    /// The worktree it was written from.
    #[serde(default)]
    pub worktree: Option<WorktreeSummary>,
}

impl CheckpointView {
    pub(crate) fn all(cx: &mut OpContext<'_>, checkpoints: Vec<Checkpoint>) -> Result<Vec<CheckpointView>> {
        if checkpoints.is_empty() {
            return Ok(Vec::new());
        }
        let places = Places::all(cx)?;
        let view =
            |checkpoint: Checkpoint| CheckpointView { worktree: places.worktree(&checkpoint.worktree_id), checkpoint };
        Ok(checkpoints.into_iter().map(view).collect())
    }
}

impl Operation for ListCheckpoints {
    const NAME: &'static str = "list_checkpoints";
    const SUMMARY: &'static str = "List the checkpoints of a task";
    const EFFECT: Effect = Effect::Read;
    type Answer = CheckpointList;
}

impl StoreOperation for ListCheckpoints {
    fn run(self, cx: &mut OpContext<'_>) -> Result<CheckpointList> {
        let repositories = find::chosen_repositories(cx, self.repository.as_deref())?;
        let task = find::task_in(cx, &self.task, self.workflow.as_deref(), &repositories)?;
        let total = cx.tx.checkpoint_last(&task.id)?;
        let before = self.before.into_iter().chain(self.after.map(|Cursor(sequence)| sequence)).min();
        let mut checkpoints = cx.tx.checkpoint_list(&task.id, before, page::fetched(self.limit)?)?;
        let next = page::cut(&mut checkpoints, self.limit, |checkpoint| checkpoint.sequence);
        Ok(CheckpointList { checkpoints: CheckpointView::all(cx, checkpoints)?, total, next })
    }
}
