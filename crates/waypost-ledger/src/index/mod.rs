//! The index: a SQLite copy of the ledgers that answers queries fast.
//!
//! It is never an authority. If it is missing, damaged, of another version or of another boot, it is rebuilt; if it
//! cannot be written to disk, it is built in memory.

mod apply;
mod build;
mod counters;
mod lines;
mod lists;
mod query;
mod readiness;
mod rows;
mod search;
#[cfg(test)]
mod work;

use std::cell::Cell;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension};
use waypost_core::ledger::vocabulary::Terms;
use waypost_core::{Error, Result};

pub(crate) use apply::Updated;
pub(crate) use lines::KnownLines;
pub use query::{Counts, Damage, Field, Filter, IndexedIssue, Order, Position, Range, Sort, Summary, Window};
pub use search::{COMMON_WORDS, MAX_SEARCH};

/// Format version; incremented when tables or their meaning change.
const FORMAT: u32 = 12;

/// How long SQLite waits for another process that is committing.
const BUSY_TIMEOUT: Duration = Duration::from_secs(1);

const FLAGS: OpenFlags = OpenFlags::SQLITE_OPEN_READ_WRITE
    .union(OpenFlags::SQLITE_OPEN_NO_MUTEX)
    .union(OpenFlags::SQLITE_OPEN_NOFOLLOW)
    .union(OpenFlags::SQLITE_OPEN_EXRESCODE);

const BEGIN: &str = "BEGIN";

/// An index of the issues of all ledgers.
pub struct Index {
    connection: Connection,
    /// Its file; `None` if it is in memory, or new.
    file: Option<PathBuf>,
    terms: Terms,
    salt: u64,
    /// Set once SQLite failed: no answer of this index can be trusted then.
    failure: Cell<Option<Failure>>,
    /// The only ledger that queries cover; `None` means all.
    only_ledger: Cell<Option<usize>>,
    /// The number of steps that SQLite needed for all statements so far.
    #[cfg(test)]
    steps: Cell<u64>,
    /// The last statement that was counted.
    #[cfg(test)]
    last_sql: std::cell::RefCell<String>,
}

/// How an index failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The index cannot be used now.
    Unavailable,
    /// The index must be rebuilt.
    Damaged,
}

impl Index {
    /// Opens the index that a link points to, and begins a read transaction. Returns `None` if no usable index exists.
    pub(crate) fn open(link: &Path, terms: &Terms) -> Option<Index> {
        let file = file_of(link)?;
        let connection = Connection::open_with_flags(&file, FLAGS).ok()?;
        prepare(&connection).ok()?;
        connection.prepare_cached(BEGIN).and_then(|mut begin| begin.execute([])).ok()?;
        // Locks the file before a statement that needs the schema does: that one would unlock it again in between.
        connection.prepare_cached("PRAGMA user_version").and_then(|mut lock| lock.query_row([], |_| Ok(()))).ok()?;
        let about = connection
            .prepare_cached("SELECT identity, salt FROM about")
            .and_then(|mut about| about.query_row([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?))));
        let (identity, salt) = about.ok()?;
        (identity == self::identity(terms)).then(|| {
            let index = Index::with_connection(connection, terms, salt.cast_unsigned());
            Index { file: Some(file), ..index }
        })
    }

    /// Begins another read transaction on an open index, if it can still be used and the link still points to it: opening it
    /// once more would take longer.
    pub(crate) fn reopen(self, link: &Path) -> Option<Index> {
        let is_current = self.failure().is_none() && self.file.is_some() && self.file == file_of(link);
        let index = Some(self).filter(|_| is_current)?;
        index.end();
        index.begin().is_ok().then_some(index)
    }

    /// Creates an empty index in memory.
    pub(crate) fn in_memory(terms: &Terms) -> Result<Index> {
        Index::create_tables(Connection::open_in_memory(), terms)
    }

    /// Creates an empty index in a new file. No other process may know that file yet.
    pub(crate) fn create(path: &Path, terms: &Terms) -> Result<Index> {
        // Other users could read a file that SQLite creates.
        waypost_fs::create_private_file(path)
            .map_err(|error| Error::unavailable("cannot create an index").because(error))?;
        Index::create_tables(Connection::open_with_flags(path, FLAGS), terms)
    }

    fn create_tables(connection: rusqlite::Result<Connection>, terms: &Terms) -> Result<Index> {
        let salt = RandomState::new().build_hasher().finish();
        let connection = connection.and_then(|connection| {
            prepare(&connection)?;
            connection.execute_batch(
                "PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE; PRAGMA cache_size = -65536; BEGIN",
            )?;
            connection.execute_batch(include_str!("schema.sql"))?;
            connection
                .execute("INSERT INTO about VALUES (?1, ?2, 0, -1, FALSE)", (identity(terms), salt.cast_signed()))?;
            Ok(connection)
        });
        let connection = connection.map_err(|error| Error::unavailable("cannot create an index").because(error))?;
        Ok(Index::with_connection(connection, terms, salt))
    }

    fn with_connection(connection: Connection, terms: &Terms, salt: u64) -> Index {
        // The default capacity is smaller than the number of statements.
        connection.set_prepared_statement_cache_capacity(64);
        Index {
            connection,
            file: None,
            terms: terms.clone(),
            salt,
            failure: Cell::new(None),
            only_ledger: Cell::new(None),
            #[cfg(test)]
            steps: Cell::new(0),
            #[cfg(test)]
            last_sql: std::cell::RefCell::default(),
        }
    }

    /// Returns the number of steps that SQLite needs for the statements of `run`.
    #[cfg(test)]
    fn steps_of(&self, run: impl FnOnce(&Index)) -> u64 {
        let before = self.steps.get();
        run(self);
        self.steps.get() - before
    }

    #[cfg(test)]
    fn count_steps(&self, statement: &rusqlite::Statement<'_>) {
        let steps = statement.reset_status(rusqlite::StatementStatus::VmStep);
        self.steps.set(self.steps.get() + u64::try_from(steps).unwrap_or_default());
        self.last_sql.replace(statement.expanded_sql().unwrap_or_default());
    }

    /// Returns the vocabulary and rules of the ledgers.
    pub fn terms(&self) -> &Terms {
        &self.terms
    }

    /// Restricts lists, counts and id prefixes to one ledger, or lifts that restriction. Blockers of an issue may still be
    /// in another ledger.
    pub fn narrow(&self, ledger: Option<usize>) {
        self.only_ledger.set(ledger);
    }

    /// Returns the SQL condition for [`Self::narrow`].
    fn only(&self) -> String {
        self.only_ledger.get().map(|ledger| format!(" AND issue.ledger = {ledger}")).unwrap_or_default()
    }

    /// Returns how the index failed. After a failure no answer of it can be trusted.
    pub(crate) fn failure(&self) -> Option<Failure> {
        self.failure.get()
    }

    /// Begins a read transaction, unless one is open: all queries until [`Self::end`] see one snapshot.
    pub(crate) fn begin(&self) -> Result<()> {
        if self.connection.is_autocommit() { self.run(BEGIN) } else { Ok(()) }
    }

    /// Begins an exclusive write transaction, until [`Self::commit_change`] or [`Self::end`]. Ends a read transaction first.
    /// No page is written before the commit, and there is no journal.
    pub(crate) fn begin_change(&self) -> Result<()> {
        self.begin_write("PRAGMA journal_mode = MEMORY; PRAGMA cache_spill = OFF;")
    }

    /// Begins a write transaction with a journal, until [`Self::commit`] or [`Self::end`]: for changes that no change of a
    /// ledger comes with, so that a process which has the index open would not find out that they are incomplete.
    pub(crate) fn begin_journaled_change(&self) -> Result<()> {
        self.begin_write("PRAGMA journal_mode = DELETE;")
    }

    fn begin_write(&self, settings: &str) -> Result<()> {
        self.end();
        // Without a boot id we cannot detect that a power cut tore the index.
        let synchronous =
            if waypost_fs::boot_id().is_some() { "PRAGMA synchronous = OFF;" } else { "PRAGMA synchronous = FULL;" };
        self.sql(|connection| connection.execute_batch(settings).and_then(|()| connection.execute_batch(synchronous)))?;
        self.run("BEGIN IMMEDIATE")
    }

    /// Commits a change of the index that a link points to. The caller holds the lock of the index.
    ///
    /// A process that dies while it writes leaves pages of two versions. So the link is gone meanwhile: then the next process
    /// builds a new index, and every other process waits for the lock.
    pub(crate) fn commit_change(&self, link: &Path) -> Result<()> {
        let Some(name) = self.file.as_deref().and_then(Path::file_name) else { return self.commit() };
        let failed = |error| {
            self.failure.set(Some(Failure::Unavailable));
            Error::unavailable("cannot change the link to the index").because(error)
        };
        std::fs::remove_file(link).map_err(failed)?;
        self.commit()?;
        std::os::unix::fs::symlink(name, link).map_err(failed)
    }

    pub(crate) fn commit(&self) -> Result<()> {
        self.run("COMMIT")
    }

    /// Rolls the open transaction back, if there is one.
    pub(crate) fn end(&self) {
        if !self.connection.is_autocommit() {
            // If that fails, the index is marked as failed and its user discards it.
            let _ = self.run("ROLLBACK");
        }
    }

    fn run(&self, sql: &str) -> Result<()> {
        self.sql(|connection| connection.prepare_cached(sql)?.execute([]).map(drop))
    }

    /// Runs statements, and marks the index as failed if they fail.
    fn sql<T>(&self, run: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T> {
        run(&self.connection).map_err(|error| {
            let is_damaged = matches!(
                error.sqlite_error_code(),
                Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::Unknown)
            );
            self.failure.set(Some(if is_damaged { Failure::Damaged } else { Failure::Unavailable }));
            log::debug!("the index failed: {error}");
            Error::unavailable("the index failed").because(error)
        })
    }

    /// Runs a query that returns at most one row.
    fn one<T>(
        &self,
        sql: &str,
        params: impl rusqlite::Params,
        read: impl FnOnce(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>> {
        self.sql(|connection| {
            let mut statement = connection.prepare_cached(sql)?;
            let found = statement.query_row(params, read).optional();
            #[cfg(test)]
            self.count_steps(&statement);
            found
        })
    }

    /// Runs a query that returns any number of rows.
    fn all<T>(
        &self,
        sql: &str,
        params: impl rusqlite::Params,
        read: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>> {
        self.sql(|connection| {
            let mut statement = connection.prepare_cached(sql)?;
            let found = statement.query_map(params, read)?.collect();
            #[cfg(test)]
            self.count_steps(&statement);
            found
        })
    }

    fn execute(&self, sql: &str, params: impl rusqlite::Params) -> Result<usize> {
        self.sql(|connection| {
            let mut statement = connection.prepare_cached(sql)?;
            let changed = statement.execute(params);
            #[cfg(test)]
            self.count_steps(&statement);
            changed
        })
    }
}

/// Returns the identity that a usable index carries: program version, rules and boot. An index is never synced to disk,
/// so a power cut may leave any part of it.
fn identity(terms: &Terms) -> String {
    let boot = waypost_fs::boot_id().unwrap_or_default();
    format!("waypost index {FORMAT}, {}, boot {boot}, {terms:?}", env!("CARGO_PKG_VERSION"))
}

fn prepare(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(BUSY_TIMEOUT)?;
    for (setting, on) in [
        (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
        (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false),
    ] {
        connection.set_db_config(setting, on)?;
    }
    Ok(())
}

/// Returns the file that a link points to, in the same directory.
///
/// SQLite finds a journal by the name of its database. If a new index reused the old one's name, a process that still has
/// the old one open would roll the new one's journal back into it.
fn file_of(link: &Path) -> Option<PathBuf> {
    let name = std::fs::read_link(link).ok()?;
    let is_ours = name.components().count() == 1 && name.to_str()?.starts_with(&stem(link)?);
    is_ours.then(|| link.with_file_name(name))
}

/// Returns the prefix of the file names that a link may point to.
fn stem(link: &Path) -> Option<String> {
    Some(format!(".{}.", link.file_name()?.to_str()?))
}

/// Returns a new unique file name for an index.
pub(crate) fn new_file(link: &Path) -> Option<PathBuf> {
    let unique = RandomState::new().build_hasher().finish();
    Some(link.with_file_name(format!("{}{unique:016x}", stem(link)?)))
}

/// Points a link to a new file atomically, and removes older files.
pub(crate) fn publish(link: &Path, file: &Path) -> std::io::Result<()> {
    let name = file.file_name().unwrap_or_default();
    let mut new_link = file.as_os_str().to_owned();
    new_link.push(".link");
    let new_link = PathBuf::from(new_link);
    std::os::unix::fs::symlink(name, &new_link)?;
    if link.is_dir() && !link.is_symlink() {
        std::fs::remove_dir(link)?;
    }
    std::fs::rename(&new_link, link)?;
    sweep(link, Some(file));
    Ok(())
}

/// Removes an index and leftovers of older ones.
pub(crate) fn remove(link: &Path) {
    let _ = std::fs::remove_file(link);
    sweep(link, None);
}

/// Removes all files that a link may point to, except one. A process that has a removed file open continues to use it.
fn sweep(link: &Path, keep: Option<&Path>) {
    let (Some(dir), Some(stem)) = (link.parent(), stem(link)) else { return };
    let kept = keep.and_then(Path::file_name);
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if name.to_str().is_some_and(|name| name.starts_with(&stem)) && Some(name.as_os_str()) != kept {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}
