//! The store as one SQLite file.
//!
//! Every promise rests on four settings: write-ahead log, `synchronous=FULL`, `BEGIN IMMEDIATE`, and a lock
//! file in front of it. SQLite alone lets whoever just committed win again, so that of many writers some
//! starve; a queue before the gate keeps their order.

mod confirm;
mod error;
mod migrate;
mod open;
#[cfg(test)]
mod plans;
mod reserve;
mod tx;
mod upkeep;
mod wait;

use std::cell::Cell;
use std::cmp::Ordering;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;
use waypost_core::clock::Clock;
use waypost_core::store::{Store, Tx};
use waypost_core::{Error, Result};
use waypost_fs::{FileIdentity, FileLock};

use crate::tx::SqlTx;

pub use migrate::SCHEMA_VERSION;
pub use upkeep::{Damage, Info};

/// From here on the log is written back: 64 pages, about 15 writes, which are read in a tenth of a millisecond.
const LONG_LOG: u64 = 64 * 4096;
/// Whoever has written so often keeps the file open.
const OFTEN: u32 = 64;
/// From here on the log of those is written back, in pages.
const LONG_LOG_OF_OFTEN: u32 = 256;

/// How often a write starts over because the file was replaced while it waited for the gate.
const MAX_REPLACEMENTS: u32 = 5;

/// How to open a store.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How long to wait for others before giving up.
    pub patience: Duration,
    /// Open it even where locks may not work.
    pub allow_network: bool,
    /// Make the file if there is none. A process that already used the store says no: a missing file means that the
    /// store was moved or deleted, and an empty one in its place would hide that.
    pub create: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options { patience: Duration::from_secs(30), allow_network: false, create: true }
    }
}

/// An open store.
pub struct SqliteStore {
    connection: Connection,
    /// The path that the caller named, absolute. It may lead through links.
    named: PathBuf,
    /// The real path of the open file.
    path: PathBuf,
    identity: FileIdentity,
    gate: PathBuf,
    options: Options,
    patience: Duration,
    clock: Box<dyn Clock + Send>,
    /// How many transactions that wrote it has seen.
    commits: Cell<u32>,
}

impl SqliteStore {
    /// Opens the store, making it first if there is none.
    ///
    /// Either the whole store is there afterwards or, on an error, nothing that was not there before.
    pub fn open(path: &Path, options: Options, clock: Box<dyn Clock + Send>) -> Result<SqliteStore> {
        open::open(path, options, clock)
    }

    /// Returns the real path of the file, links resolved.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Sets how long to wait for others, and returns how long it was.
    pub fn set_patience(&mut self, patience: Duration) -> Duration {
        // SQLite refuses nothing here; if it did, the old wait would go on to hold.
        let _ = self.connection.busy_timeout(patience);
        std::mem::replace(&mut self.patience, patience)
    }

    /// Tells whether the file can only be read.
    pub fn is_read_only(&self) -> bool {
        self.connection.is_readonly("main").unwrap_or(false)
    }

    /// Empties the write-ahead log when it has grown, unless somebody is reading from it.
    ///
    /// SQLite would do this by itself only while connections overlap: a command that opens the file alone
    /// has to read the whole log first, and what it then knows of it is lost when it ends. Called after a
    /// commit, by the holder of the gate. The commit is on disk already, so whatever happens here is not
    /// the caller's concern.
    ///
    /// While the file is kept open, nobody has to read the log first. It is left to SQLite then, which writes it back in
    /// larger pieces and goes on at its beginning: to empty it each time takes as long as the writes themselves.
    fn keep_log_short(&self) {
        self.commits.set(self.commits.get().saturating_add(1));
        match self.commits.get().cmp(&OFTEN) {
            Ordering::Less => {}
            Ordering::Equal => {
                let _ = self.connection.pragma_update(None, "wal_autocheckpoint", LONG_LOG_OF_OFTEN);
            }
            Ordering::Greater => return,
        }
        let log = open::with_suffix(&self.path, "-wal");
        if std::fs::metadata(log).is_ok_and(|log| log.len() > LONG_LOG) {
            self.empty_log();
        }
    }

    /// Writes the log back into the file and empties it, unless somebody is reading from it. Does not wait.
    fn empty_log(&self) {
        let _ = self.connection.busy_timeout(Duration::ZERO);
        let _ = self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        let _ = self.connection.busy_timeout(self.patience);
    }

    fn tx<'a>(&'a self, transaction: rusqlite::Transaction<'a>, gate: Option<FileLock>) -> Box<dyn Tx + 'a> {
        let tx = tx::SqliteTx { transaction, gate, store: self, path: &self.path, clock: &*self.clock };
        Box::new(SqlTx::new(tx))
    }

    /// Tells whether the path still leads to the open file.
    fn is_current(&self) -> bool {
        FileIdentity::of(&self.named).ok() == Some(self.identity)
    }

    /// Opens the file that the path leads to now, if it is another one than the open one.
    ///
    /// A process may keep a store open for days. If the file is moved away, deleted or replaced by a backup meanwhile,
    /// SQLite would go on with the file that lost its name: reads would answer from the past, and writes would be lost.
    fn reopen_if_replaced(&mut self) -> Result<()> {
        if self.is_current() { Ok(()) } else { open::reopen(self) }
    }

    /// Waits for the gate, and makes sure that the open file is the current one while it is held.
    fn lock_gate_of_current_file(&mut self) -> Result<FileLock> {
        for _ in 0..MAX_REPLACEMENTS {
            self.reopen_if_replaced()?;
            let gate = self.lock_gate()?;
            if self.is_current() {
                return Ok(gate);
            }
        }
        Err(open::replaced(&self.named).transient())
    }

    fn lock_gate(&self) -> Result<FileLock> {
        lock_gate(&self.connection, &self.path, &self.gate, self.patience)
    }
}

fn lock_gate(connection: &Connection, path: &Path, gate: &Path, patience: Duration) -> Result<FileLock> {
    if connection.is_readonly("main").unwrap_or(false) {
        return Err(Error::unavailable(format!("the store {} can only be read", path.display()))
            .hint("its file or directory is not writable; name another store with --db"));
    }
    FileLock::acquire_queued(gate, patience)
}

impl Store for SqliteStore {
    fn begin_read(&mut self) -> Result<Box<dyn Tx + '_>> {
        self.reopen_if_replaced()?;
        let failed = error::at(&self.path, "cannot read");
        let transaction = self.connection.unchecked_transaction().map_err(failed)?;
        Ok(self.tx(transaction, None))
    }

    fn begin_write(&mut self) -> Result<Box<dyn Tx + '_>> {
        let gate = Some(self.lock_gate_of_current_file()?);
        let failed = error::at(&self.path, "cannot write");
        let transaction =
            rusqlite::Transaction::new_unchecked(&self.connection, rusqlite::TransactionBehavior::Immediate)
                .map_err(failed)?;
        // A newer program may have changed the schema while this one was running, or waiting.
        migrate::check_version(&self.connection, &self.path)?;
        Ok(self.tx(transaction, gate))
    }

    fn wait(&mut self, last: u64, at_most: Duration) -> Result<()> {
        wait::wait(self, last, at_most)
    }

    fn free_reserve(&mut self) -> bool {
        reserve::free(&self.path)
    }
}
