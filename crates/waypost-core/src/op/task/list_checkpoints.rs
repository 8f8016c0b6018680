//! Lists the checkpoints of a task, latest first.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::context::OpContext;
use crate::error::Result;
use crate::model::Checkpoint;
use crate::op::{Access, Effect, JobAccess, Operation, StoreOperation};
use crate::work::find;

/// Lists the checkpoints of a task, latest first.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ListCheckpoints {
    /// The task: its id, its name, or `workflow/name`.
    pub task: String,
    /// The workflow of the task, if the task's name alone is ambiguous.
    #[serde(default)]
    pub workflow: Option<String>,
    /// Only checkpoints before this sequence.
    #[serde(default)]
    pub before: Option<u32>,
    /// The maximum number of results.
    pub limit: u32,
}

/// The answer to [`ListCheckpoints`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CheckpointList {
    /// The checkpoints, latest first.
    pub checkpoints: Vec<Checkpoint>,
    /// The total number of checkpoints.
    pub total: u32,
}

impl Operation for ListCheckpoints {
    const NAME: &'static str = "list_checkpoints";
    const SUMMARY: &'static str = "List the checkpoints of a task";
    const EFFECT: Effect = Effect::Read;
    const ACCESS: Access = Access::AGENTS.with_jobs(JobAccess::OwnTask);
    type Answer = CheckpointList;
}

impl StoreOperation for ListCheckpoints {
    fn run(self, cx: &mut OpContext<'_>) -> Result<CheckpointList> {
        let task = find::task(cx, &self.task, self.workflow.as_deref())?;
        let total = cx.tx.checkpoint_list(&task.id, None, 1)?.first().map_or(0, |last| last.sequence);
        Ok(CheckpointList { checkpoints: cx.tx.checkpoint_list(&task.id, self.before, self.limit)?, total })
    }
}
