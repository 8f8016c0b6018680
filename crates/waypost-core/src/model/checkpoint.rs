//! Notes on a task, from which another agent can go on.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::text_enum::text_enum;
use crate::id::{AgentId, CheckpointId, TaskId, WorktreeId};
use crate::time::Timestamp;

text_enum! {
    /// What a checkpoint is about.
    CheckpointKind: "a type of checkpoint" {
        /// How it will be done.
        Plan = "plan",
        /// How it will be done instead.
        Replan = "replan",
        /// How far it got.
        Progress = "progress",
        /// What was decided, and why.
        Decision = "decision",
        /// What went wrong.
        Error = "error",
        /// What was taken over from whoever worked on it before.
        Recovery = "recovery",
        /// What came out.
        Complete = "complete",
    }
}

/// One note. It is never changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Checkpoint {
    /// Its id.
    pub id: CheckpointId,
    /// The task it is about.
    pub task_id: TaskId,
    /// Its place among the task's checkpoints, from 1.
    pub sequence: u32,
    /// What it is about.
    #[serde(rename = "type")]
    pub kind: CheckpointKind,
    /// One line.
    pub summary: String,
    /// Everything else.
    pub detail: Value,
    /// Files that were changed.
    pub files: Vec<String>,
    /// Tokens used so far.
    pub tokens: Option<u64>,
    /// Money spent so far, in whatever the agents count in.
    pub cost: Option<f64>,
    /// Who wrote it.
    pub agent_id: AgentId,
    /// Under which lease.
    pub epoch: u64,
    /// From which worktree.
    pub worktree_id: WorktreeId,
    /// When.
    pub created_at: Timestamp,
}
