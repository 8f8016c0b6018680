//! The store's append-only history.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::WorktreeId;
use crate::time::Timestamp;

/// One line of history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Its place in the order of all events of the store, without gaps.
    pub sequence: u64,
    /// When, by the store's clock; never earlier than the event before.
    pub time: Timestamp,
    /// Who did it.
    pub actor: String,
    /// The worktree it was done from.
    pub worktree_id: WorktreeId,
    /// What happened, for example `worktree.registered`.
    pub kind: String,
    /// The id of the thing it happened to.
    pub subject: String,
    /// What changed: before and after.
    pub data: Value,
}

/// An event about to be appended; the store adds its sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEvent {
    /// As in [`Event`].
    pub time: Timestamp,
    /// As in [`Event`].
    pub actor: String,
    /// As in [`Event`].
    pub worktree_id: WorktreeId,
    /// As in [`Event`].
    pub kind: &'static str,
    /// As in [`Event`].
    pub subject: String,
    /// As in [`Event`].
    pub data: Value,
}

/// Which events to return: the newest ones, newest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventQuery {
    /// Only those of this worktree.
    pub worktree_id: Option<WorktreeId>,
    /// At most this many.
    pub limit: u32,
}

/// The kinds of events.
pub mod kind {
    /// A repository was seen for the first time.
    pub const REPOSITORY_REGISTERED: &str = "repository.registered";
    /// A repository's path, name, remote or default branch is another.
    pub const REPOSITORY_CHANGED: &str = "repository.changed";
    /// A worktree was seen for the first time.
    pub const WORKTREE_REGISTERED: &str = "worktree.registered";
    /// A worktree's path, name or branch is another.
    pub const WORKTREE_CHANGED: &str = "worktree.changed";
    /// A worktree was removed by us.
    pub const WORKTREE_REMOVED: &str = "worktree.removed";
    /// The store was compacted.
    pub const STORE_VACUUMED: &str = "store.vacuumed";
    /// A write was made only to see how long it takes.
    pub const STORE_PROBED: &str = "store.probed";
}
