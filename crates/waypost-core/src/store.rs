//! What the engine asks of a database.
//!
//! A backend is dumb: rows in, rows out, inside a transaction. All cleverness is above, once. Verbs are
//! noun_verb; each has a conformance case that every backend passes.

use crate::error::Result;
use crate::id::{RepositoryId, WorktreeId};
use crate::model::{Event, EventQuery, NewEvent, Repository, Worktree};
use crate::time::Timestamp;

/// A database of everything that is live.
pub trait Store {
    /// Begins a transaction that only reads, on one consistent state.
    fn begin_read(&mut self) -> Result<Box<dyn Tx + '_>>;

    /// Begins a transaction that may write. Waits its turn; there is one at a time.
    fn begin_write(&mut self) -> Result<Box<dyn Tx + '_>>;
}

/// A transaction. Dropping it undoes everything; only [`Tx::commit`] makes it last.
pub trait Tx {
    /// Returns the store's time: never earlier than that of any event already stored.
    fn now(&mut self) -> Result<Timestamp>;

    /// Returns a repository.
    fn repository_get(&mut self, id: &RepositoryId) -> Result<Option<Repository>>;
    /// Inserts a repository, or replaces the one with its id.
    fn repository_put(&mut self, repository: &Repository) -> Result<()>;
    /// Returns all repositories, ordered by name, then id.
    fn repository_list(&mut self) -> Result<Vec<Repository>>;

    /// Returns a worktree.
    fn worktree_get(&mut self, id: &WorktreeId) -> Result<Option<Worktree>>;
    /// Inserts a worktree, or replaces the one with its id. Its repository must be there.
    fn worktree_put(&mut self, worktree: &Worktree) -> Result<()>;
    /// Sets when a worktree last wrote.
    fn worktree_touch(&mut self, id: &WorktreeId, last_seen: Timestamp) -> Result<()>;
    /// Returns all worktrees, in the order in which they were first seen, then by name and id.
    fn worktree_list(&mut self) -> Result<Vec<Worktree>>;

    /// Appends to the history and returns the sequence. Its worktree must be there.
    fn event_append(&mut self, event: &NewEvent) -> Result<u64>;
    /// Returns the newest events, newest first.
    fn event_list(&mut self, query: &EventQuery) -> Result<Vec<Event>>;
    /// Returns the sequence of the newest event, 0 if there is none.
    fn event_last(&mut self) -> Result<u64>;

    /// Makes everything last. When this returns, it is on disk.
    fn commit(self: Box<Self>) -> Result<()>;
}
