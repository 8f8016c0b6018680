//! Summaries: a short record of what was removed from the store because of its age.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::text_enum::text_enum;
use crate::id::WorktreeId;
use crate::time::Timestamp;

text_enum! {
    /// The kind of removed records.
    SummaryKind: "a kind of summaries" {
        /// A workflow with its tasks, checkpoints and jobs.
        Workflow = "workflow",
        /// A job.
        Job = "job",
        /// The messages of a month.
        Messages = "messages",
        /// The events of a month.
        Events = "events",
    }
}

/// What is left of a removed workflow or job, or of the removed messages or events of a month.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    /// The id of the workflow or job; the kind and the month of messages and events.
    pub subject: String,
    /// Its kind.
    pub kind: SummaryKind,
    /// The name of the workflow, the type of the job, or the month.
    pub name: String,
    /// The last status of the workflow or job.
    pub status: Option<String>,
    /// Counts and results.
    pub detail: Value,
    /// The worktree it came from; of messages and events, the one in which they were first removed.
    pub worktree_id: WorktreeId,
    /// When the first record was created.
    pub created_at: Timestamp,
    /// When the workflow or job ended, or the last of the messages or events was created.
    pub finished_at: Timestamp,
    /// When it was removed.
    pub removed_at: Timestamp,
}
