//! Leases: time-limited rights to work on a task or issue.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::{AgentId, TaskId, WorktreeId};
use crate::time::{Timestamp, never_as_null};

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
    /// When it expires unless it is renewed. Null, and [`Timestamp::NEVER`] in code, if it lasts until it is released.
    #[serde(with = "never_as_null")]
    #[schemars(with = "Option<Timestamp>")]
    pub expires_at: Timestamp,
    /// Its duration after each renewal, in milliseconds; 0 if it lasts until it is released.
    pub ttl_ms: u64,
    /// When the attempt times out, even if the holder renews the lease.
    pub run_until: Option<Timestamp>,
    /// When the attempt times out unless the holder writes a checkpoint.
    pub stall_at: Option<Timestamp>,
    /// The worktree it was granted in.
    pub worktree_id: WorktreeId,
}

impl Lease {
    /// Returns whether it lasts until it is released, as a person's does.
    pub fn is_unlimited(&self) -> bool {
        self.ttl_ms == 0
    }

    /// Returns whether it is on a task, and not on an issue.
    pub fn is_on_task(&self) -> bool {
        self.subject.parse::<TaskId>().is_ok()
    }

    /// Returns whether it has used up a third of its time since it was last renewed.
    pub fn is_renewal_due(&self, now: Timestamp) -> bool {
        self.expires_at.since(now) < self.ttl_ms - self.ttl_ms / 3
    }

    /// Describes its end, after "until".
    pub fn end(&self) -> String {
        describe_end(self.expires_at)
    }

    /// Returns the earliest of its deadlines.
    pub fn deadline(&self) -> Timestamp {
        [self.run_until, self.stall_at].into_iter().flatten().fold(self.expires_at, Timestamp::min)
    }
}

/// Describes the end of a lease, after "until".
pub fn describe_end(expires_at: Timestamp) -> String {
    expires_at.unless_never().map_or_else(|| "it is released".to_owned(), |moment| moment.to_string())
}
