//! The store as one SQLite file.
//!
//! Durability and isolation rest on four settings: write-ahead log, `synchronous=FULL`, `BEGIN IMMEDIATE`, and a lock file
//! in front of the database, the gate. Under contention SQLite alone favours the process that has just committed, so that
//! others starve; the queue before the gate keeps writers in order.

mod confirm;
mod empty;
mod error;
mod migrate;
mod open;
#[cfg(test)]
mod plans;
mod reserve;
mod schema;
mod tx;
mod upkeep;
mod wait;

use std::cell::Cell;
use std::cmp::Ordering;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use waypost_core::clock::Clock;
use waypost_core::store::{Store, Tx};
use waypost_core::{Error, Result};
use waypost_fs::{FileIdentity, FileLock};

use crate::tx::SqlTx;

pub use empty::EmptyStore;
pub use migrate::SCHEMA_VERSION;
pub use schema::Difference;
pub use upkeep::{Damage, Info};

/// How the store's file is opened: it exists, and is not a symlink.
const OPEN_FLAGS: OpenFlags = OpenFlags::SQLITE_OPEN_READ_WRITE
    .union(OpenFlags::SQLITE_OPEN_NO_MUTEX)
    .union(OpenFlags::SQLITE_OPEN_NOFOLLOW)
    .union(OpenFlags::SQLITE_OPEN_EXRESCODE);
/// A longer log is checkpointed: 64 pages are about 15 writes, which a new process reads in a tenth of a millisecond.
const MAX_LOG_BYTES: u64 = 64 * 4096;
/// A store with this many commits belongs to a process that keeps it open.
const LONG_LIVED_COMMITS: u32 = 64;
/// The length of the log, in pages, at which SQLite checkpoints it in a process that keeps the store open. A transaction of a
/// busy server writes 400 pages, and a checkpoint syncs the log and the file: it must not follow every transaction. The index
/// of the log, which such a process shares with others, finds pages in one step up to 4,062.
const LONG_LIVED_LOG_PAGES: u32 = 2_000;
/// The cache of such a process, in KiB. A transaction of a busy server changes hundreds of pages; with the default of 2 MiB,
/// the pages that all transactions need would be read from the file again and again.
const LONG_LIVED_CACHE_KIB: i32 = 16 * 1024;

/// How often a write starts over because the file was replaced while it waited for the gate.
const MAX_REPLACEMENTS: u32 = 5;

/// Options for opening a store.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The maximum time to wait for other processes.
    pub timeout: Duration,
    /// Open it even where locks may not work.
    pub allow_network: bool,
    /// Create the file if it is missing. A process that already used the store sets this to false: the store was moved or
    /// deleted, and a new empty file would hide that.
    pub create: bool,
    /// Migrate an older schema. A reader that must not write sets this to false, and gets an error instead.
    pub migrate: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options { timeout: Duration::from_secs(30), allow_network: false, create: true, migrate: true }
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
    timeout: Duration,
    clock: Box<dyn Clock + Send>,
    /// The number of commits that wrote through this connection.
    commits: Cell<u32>,
}

impl SqliteStore {
    /// Opens the store, and creates it if it is missing.
    ///
    /// On an error no part of a new store is left behind.
    pub fn open(path: &Path, options: Options, clock: Box<dyn Clock + Send>) -> Result<SqliteStore> {
        open::open(path, options, clock)
    }

    /// Returns the real path of the file, links resolved.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Sets the maximum time to wait for other processes, and returns the previous one.
    pub fn set_timeout(&mut self, timeout: Duration) -> Duration {
        // This does not fail; if it did, the previous timeout would stay in effect.
        let _ = self.connection.busy_timeout(timeout);
        std::mem::replace(&mut self.timeout, timeout)
    }

    /// Returns whether the file can only be read.
    pub fn is_read_only(&self) -> bool {
        self.connection.is_readonly("main").unwrap_or(false)
    }

    /// Empties a write-ahead log that has grown, unless a process is reading from it.
    ///
    /// A short-lived command has to read the whole log when it opens the file, so the log must stay short. Called after a
    /// commit, by the holder of the gate. The commit is durable already, so failures are ignored.
    ///
    /// In a process that keeps the file open, SQLite checkpoints the log itself, in larger pieces, and reuses it from the
    /// start: emptying it each time would take as long as the writes.
    fn keep_log_short(&self) {
        self.commits.set(self.commits.get().saturating_add(1));
        match self.commits.get().cmp(&LONG_LIVED_COMMITS) {
            Ordering::Less => {}
            Ordering::Equal => {
                let _ = self.connection.pragma_update(None, "wal_autocheckpoint", LONG_LIVED_LOG_PAGES);
                // A negative number is a size, not a count of pages.
                let _ = self.connection.pragma_update(None, "cache_size", -LONG_LIVED_CACHE_KIB);
            }
            Ordering::Greater => return,
        }
        let log = open::with_suffix(&self.path, "-wal");
        if std::fs::metadata(log).is_ok_and(|log| log.len() > MAX_LOG_BYTES) {
            self.empty_log();
        }
    }

    /// Checkpoints the log and empties it, unless a process is reading from it. Does not wait.
    fn empty_log(&self) {
        let _ = self.connection.busy_timeout(Duration::ZERO);
        let _ = self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        let _ = self.connection.busy_timeout(self.timeout);
    }

    fn tx<'a>(&'a self, transaction: rusqlite::Transaction<'a>, gate: Option<FileLock>) -> Box<dyn Tx + 'a> {
        let written = gate.map(|gate| (gate, self));
        let tx = tx::SqliteTx { transaction, written, path: &self.path, clock: &*self.clock };
        Box::new(SqlTx::new(tx))
    }

    /// Returns whether the path still leads to the open file.
    fn is_current(&self) -> bool {
        FileIdentity::of(&self.named).ok() == Some(self.identity)
    }

    /// Opens the file that the path leads to now, if it is not the open one.
    ///
    /// A process may keep a store open for days. If the file is moved, deleted or replaced by a backup, SQLite would
    /// continue with the old file: reads would return stale data, and writes would be lost.
    fn reopen_if_replaced(&mut self) -> Result<()> {
        if self.is_current() { Ok(()) } else { open::reopen(self) }
    }

    /// Acquires the gate, and makes sure that the open file is the current one while it is held.
    fn lock_gate_of_current_file(&mut self) -> Result<FileLock> {
        for _ in 0..MAX_REPLACEMENTS {
            let gate = self.lock_gate()?;
            if self.is_current() {
                return Ok(gate);
            }
            drop(gate);
            open::reopen(self)?;
        }
        Err(open::replaced(&self.named).transient())
    }

    fn lock_gate(&self) -> Result<FileLock> {
        lock_gate(&self.connection, &self.path, &self.gate, self.timeout)
    }
}

fn lock_gate(connection: &Connection, path: &Path, gate: &Path, timeout: Duration) -> Result<FileLock> {
    if connection.is_readonly("main").unwrap_or(false) {
        return Err(Error::unavailable(format!("the store {} can only be read", path.display()))
            .hint("its file or directory is not writable; name another store with --db"));
    }
    FileLock::acquire_queued(gate, timeout)
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
