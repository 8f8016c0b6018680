//! The time-limited right to work on something.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::{AgentId, WorktreeId};
use crate::time::Timestamp;

/// The right to work on one task or issue. The row stays when nobody holds it, because the epoch must never go back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Lease {
    /// The id of the task or issue.
    pub subject: String,
    /// Who holds it.
    pub holder: Option<AgentId>,
    /// Grows with every grant, for ever. What a former holder writes is known by it.
    pub epoch: u64,
    /// When it was granted.
    pub granted_at: Timestamp,
    /// When it ends unless it is renewed.
    pub expires_at: Timestamp,
    /// How long it lasts after each sign of life, in milliseconds.
    pub ttl_ms: u64,
    /// When it is taken away in any case, however alive its holder is.
    pub run_until: Option<Timestamp>,
    /// When it is taken away unless there is a checkpoint.
    pub stall_at: Option<Timestamp>,
    /// The worktree it was granted in.
    pub worktree_id: WorktreeId,
}

impl Lease {
    /// Returns when it ends if nothing more is heard.
    pub fn deadline(&self) -> Timestamp {
        [self.run_until, self.stall_at].into_iter().flatten().fold(self.expires_at, Timestamp::min)
    }
}
