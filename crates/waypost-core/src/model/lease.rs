//! Leases: time-limited rights to work on a task or issue.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::{AgentId, WorktreeId};
use crate::time::Timestamp;

/// The right to work on one task or issue. The row stays after the lease ends, because the epoch must never go back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Lease {
    /// The id of the task or issue.
    pub subject: String,
    /// The agent that holds it.
    pub holder: Option<AgentId>,
    /// Incremented with every grant. It fences writes of former holders.
    pub epoch: u64,
    /// When it was granted.
    pub granted_at: Timestamp,
    /// When it expires unless it is renewed.
    pub expires_at: Timestamp,
    /// Its duration after each renewal, in milliseconds.
    pub ttl_ms: u64,
    /// When the attempt times out, even if the holder renews the lease.
    pub run_until: Option<Timestamp>,
    /// When the attempt times out unless the holder writes a checkpoint.
    pub stall_at: Option<Timestamp>,
    /// The worktree it was granted in.
    pub worktree_id: WorktreeId,
}

impl Lease {
    /// Returns the earliest of its deadlines.
    pub fn deadline(&self) -> Timestamp {
        [self.run_until, self.stall_at].into_iter().flatten().fold(self.expires_at, Timestamp::min)
    }
}
