//! The interface of a transaction on an SQL database. Each backend implements it; [`SqlTx`](crate::tx::SqlTx) uses it.

use waypost_core::Result;
use waypost_core::clock::Reading;

use crate::cell::{Cell, Row};
use crate::sql::Query;

/// A step on the savepoint of a transaction.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Savepoint {
    /// Sets it.
    Set,
    /// Forgets it and keeps everything since.
    Release,
    /// Undoes everything since, and keeps it set.
    RollBack,
}

impl Savepoint {
    pub(crate) fn sql(self) -> &'static str {
        match self {
            Savepoint::Set => "SAVEPOINT mark",
            Savepoint::Release => "RELEASE SAVEPOINT mark",
            Savepoint::RollBack => "ROLLBACK TO SAVEPOINT mark",
        }
    }
}

/// Reads a row.
pub(crate) type ReadRow<'a> = dyn FnMut(&mut Row<'_>) -> Result<()> + 'a;

/// A transaction on an SQL database.
pub(crate) trait Database {
    /// Runs a statement that reads, and passes each row to a function.
    fn query(&mut self, sql: &'static str, parameters: &[Cell], read: &mut ReadRow<'_>) -> Result<()>;
    /// Returns whether round trips are slow, so that prefetching several queries at once pays off.
    fn is_remote(&self) -> bool {
        false
    }
    /// Runs queries in one round trip and caches their rows.
    fn prefetch(&mut self, _: Vec<Query>) -> Result<()> {
        Ok(())
    }
    /// Runs a statement that writes. A later call may report its failure.
    fn run(&mut self, sql: &'static str, parameters: &[Cell]) -> Result<()>;
    /// Sets, releases or rolls back to the savepoint.
    fn savepoint(&mut self, step: Savepoint) -> Result<()>;
    /// Reads the clocks that all users of the store share.
    fn clock(&mut self) -> Result<Reading>;
    /// Records the current server as the one that the store knows. Returns the previous one and the current one.
    fn accept_server(&mut self) -> Result<Option<(String, String)>> {
        Ok(None)
    }
    /// Commits durably.
    fn commit(self: Box<Self>) -> Result<()>;
}
