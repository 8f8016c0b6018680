//! The traits that a database implements.
//!
//! A backend only reads and writes rows inside a transaction. The rules are in the operations, the same for every
//! backend. [`Tx`] has a part per noun, in a file of the noun. Their methods are named `noun_verb`; each has a conformance case
//! that every backend passes.

mod agents;
mod answers;
mod events;
mod jobs;
mod messages;
mod repositories;
mod tasks;
mod workflows;

use std::time::Duration;

pub use agents::AgentTx;
pub use answers::AnswerTx;
pub use events::EventTx;
pub use jobs::JobTx;
pub use messages::MessageTx;
pub use repositories::RepositoryTx;
pub use tasks::TaskTx;
pub use workflows::WorkflowTx;

use crate::clock::{self, Anchor, Reading, Remembered};
use crate::error::Result;
use crate::time::Timestamp;

/// A database of live records.
pub trait Store {
    /// Begins a read transaction on one consistent snapshot.
    fn begin_read(&mut self) -> Result<Box<dyn Tx + '_>>;

    /// Begins a write transaction. Waits for other writers: there is one at a time.
    fn begin_write(&mut self) -> Result<Box<dyn Tx + '_>>;

    /// Waits until a writer may have appended an event after this sequence, or until the timeout. It may return too
    /// early, so the caller has to check again.
    fn wait(&mut self, last: u64, timeout: Duration) -> Result<()>;

    /// Starts the timeout of one request. Until [`Store::end_request`], connecting, waiting for other writers and
    /// retries all share it.
    fn begin_request(&mut self) {}

    /// Ends the timeout of the request.
    fn end_request(&mut self) {}

    /// Pauses before a retry of a failed request. Returns false after the request's timeout.
    fn may_retry(&mut self) -> bool {
        false
    }

    /// Frees the disk space that the store keeps for operations with `USES_RESERVE`. Returns whether there was any.
    fn free_reserve(&mut self) -> bool {
        false
    }

    /// Returns whether an acknowledgement can get lost, so that a request has to be retried with its key.
    fn is_remote(&self) -> bool {
        false
    }
}

/// A transaction. Dropping it rolls everything back; only [`Tx::commit`] makes it durable.
///
/// Writes may be pipelined: a constraint violation surfaces on the next read or at commit.
pub trait Tx: RepositoryTx + EventTx + WorkflowTx + TaskTx + AgentTx + MessageTx + AnswerTx + JobTx {
    /// Returns a reading of the clocks that the store uses.
    fn clock(&mut self) -> Result<Reading>;

    /// Returns the stored clock state.
    fn clock_get(&mut self) -> Result<Remembered>;

    /// Replaces the anchor of the store's time.
    fn anchor_put(&mut self, anchor: &Anchor) -> Result<()>;

    /// Shifts the deadlines of held leases, tasks, agents and messages. The times of saved answers and pending tasks
    /// shift too, but never back, and never beyond `now`.
    fn deadlines_shift(&mut self, by_ms: i64, now: Timestamp) -> Result<()>;

    /// Returns the store's time, never earlier than the last event.
    fn now(&mut self) -> Result<Timestamp> {
        Ok(clock::store_time(&self.clock_get()?, &self.clock()?).now)
    }

    /// Prefetches the reads that the closure issues; they return empty results for now. A remote database fetches all
    /// of them in one round trip. The closure must not depend on a result and must not write.
    fn prefetch(&mut self, reads: &mut dyn FnMut(&mut dyn Tx) -> Result<()>) -> Result<()> {
        let _ = reads;
        Ok(())
    }

    /// Returns the number of writes so far. It may be too high.
    fn writes(&self) -> u64;

    /// Sets a savepoint, in place of an earlier one.
    fn mark(&mut self) -> Result<()>;

    /// Rolls back to the savepoint, even after a failure. The transaction continues from there.
    fn undo(&mut self) -> Result<()>;

    /// Returns how many leases, tasks and agents have a due transition at a moment.
    fn due_count(&mut self, now: Timestamp) -> Result<u64>;

    /// Records the current database server as the accepted one. Returns the previous and the current server, or none if
    /// the store is not on a server.
    fn server_accept(&mut self) -> Result<Option<(String, String)>> {
        Ok(None)
    }

    /// Commits. When this returns, everything is on disk. Fails if an earlier call in this transaction failed.
    fn commit(self: Box<Self>) -> Result<()>;
}
