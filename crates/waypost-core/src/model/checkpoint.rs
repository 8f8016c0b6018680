//! Checkpoints: notes on a task from which another agent can continue.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::text_enum::text_enum;
use crate::id::{AgentId, CheckpointId, TaskId, WorktreeId};
use crate::time::Timestamp;

text_enum! {
    /// The type of a checkpoint.
    CheckpointKind: "a type of checkpoint" {
        /// The approach.
        Plan = "plan",
        /// A changed approach.
        Replan = "replan",
        /// Progress.
        Progress = "progress",
        /// A decision and its reason.
        Decision = "decision",
        /// An error.
        Error = "error",
        /// The state taken over from the previous holder.
        Recovery = "recovery",
        /// The outcome.
        Complete = "complete",
    }
}

/// A note on a task. It never changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Checkpoint {
    /// Its id.
    pub id: CheckpointId,
    /// The task it is about.
    pub task_id: TaskId,
    /// Its number among the task's checkpoints, from 1.
    pub sequence: u32,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: CheckpointKind,
    /// A summary of one line.
    pub summary: String,
    /// Details.
    pub detail: Value,
    /// The changed files.
    pub files: Vec<String>,
    /// Tokens used so far.
    pub tokens: Option<u64>,
    /// Cost so far, in the unit that the agents use.
    pub cost: Option<f64>,
    /// The agent that wrote it.
    pub agent_id: AgentId,
    /// The epoch of the agent's lease.
    pub epoch: u64,
    /// The worktree it was written from.
    pub worktree_id: WorktreeId,
    /// When it was written.
    pub created_at: Timestamp,
}
