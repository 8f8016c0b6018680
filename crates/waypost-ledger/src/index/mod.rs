//! The index: what the ledgers say, in a form that answers quickly.
//!
//! It is never an authority. Whatever is odd about it, be it missing, damaged, of another version or of another boot, it
//! is made anew, and where it cannot be kept on disk it is made in memory.

mod apply;
mod query;
mod search;

use std::cell::Cell;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension};
use waypost_core::ledger::vocabulary::Terms;
use waypost_core::{Error, Result};

pub(crate) use apply::{Followed, Marks, Source};
pub use query::{Counts, Filter, IndexedIssue, Range, Sort, Summary};

/// Is raised when tables or their meaning change.
const FORMAT: u32 = 3;

/// How long to wait for somebody who is in the middle of a commit.
const PATIENCE: Duration = Duration::from_secs(1);

const FLAGS: OpenFlags = OpenFlags::SQLITE_OPEN_READ_WRITE
    .union(OpenFlags::SQLITE_OPEN_NO_MUTEX)
    .union(OpenFlags::SQLITE_OPEN_NOFOLLOW)
    .union(OpenFlags::SQLITE_OPEN_EXRESCODE);

/// The issues of all ledgers.
pub struct Index {
    connection: Connection,
    terms: Terms,
    salt: u64,
    /// How SQLite failed, if it did: then no answer of this index can be trusted.
    failure: Cell<Option<Failure>>,
    /// The only ledger that questions are about, if there is one.
    narrowed: Cell<Option<usize>>,
}

/// How an index failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// It cannot be used now.
    Unavailable,
    /// It will never be right again.
    Damaged,
}

impl Index {
    /// Opens the index that a link leads to. None if there is none that can be used.
    pub(crate) fn open(link: &Path, terms: &Terms) -> Option<Index> {
        let connection = Connection::open_with_flags(file_of(link)?, FLAGS).ok()?;
        prepare(&connection).ok()?;
        let about = connection
            .prepare_cached("SELECT identity, salt FROM about")
            .and_then(|mut about| about.query_row([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?))));
        let (identity, salt) = about.ok()?;
        (identity == self::identity(terms)).then(|| Index::of(connection, terms, salt.cast_unsigned()))
    }

    /// Makes an empty index in memory.
    pub(crate) fn in_memory(terms: &Terms) -> Result<Index> {
        Index::make(Connection::open_in_memory(), terms)
    }

    /// Makes an empty index in a new file. Nobody else may know of it yet.
    pub(crate) fn create(path: &Path, terms: &Terms) -> Result<Index> {
        // What SQLite itself makes, others may read.
        waypost_fs::create_private_file(path)
            .map_err(|error| Error::unavailable("cannot make an index").because(error))?;
        Index::make(Connection::open_with_flags(path, FLAGS), terms)
    }

    fn make(connection: rusqlite::Result<Connection>, terms: &Terms) -> Result<Index> {
        let salt = RandomState::new().build_hasher().finish();
        let connection = connection.and_then(|connection| {
            prepare(&connection)?;
            connection.execute_batch(
                "PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE; PRAGMA cache_size = -65536; BEGIN",
            )?;
            connection.execute_batch(include_str!("schema.sql"))?;
            connection
                .execute("INSERT INTO about VALUES (?1, ?2, 0, -1)", (identity(terms), salt.cast_signed()))?;
            Ok(connection)
        });
        let connection = connection.map_err(|error| Error::unavailable("cannot make an index").because(error))?;
        Ok(Index::of(connection, terms, salt))
    }

    fn of(connection: Connection, terms: &Terms, salt: u64) -> Index {
        // Each statement is prepared once; there are more of them than are kept by default.
        connection.set_prepared_statement_cache_capacity(64);
        Index { connection, terms: terms.clone(), salt, failure: Cell::new(None), narrowed: Cell::new(None) }
    }

    /// Returns what words and rules mean in it.
    pub fn terms(&self) -> &Terms {
        &self.terms
    }

    /// Makes lists, counts and names be about one ledger alone, or about all again. What an issue waits for may still be in
    /// another.
    pub fn narrow(&self, ledger: Option<usize>) {
        self.narrowed.set(ledger);
    }

    /// Returns what narrows a statement about issues.
    fn only(&self) -> String {
        self.narrowed.get().map(|ledger| format!(" AND issue.ledger = {ledger}")).unwrap_or_default()
    }

    /// Tells how it failed. If it did, no answer of it can be trusted.
    pub(crate) fn failure(&self) -> Option<Failure> {
        self.failure.get()
    }

    /// Makes everything until [`Self::end`] see one state.
    pub(crate) fn begin(&self) -> Result<()> {
        self.run("BEGIN")
    }

    /// Makes everything until [`Self::commit`] or [`Self::end`] one change, alone.
    pub(crate) fn begin_change(&self) -> Result<()> {
        self.run("BEGIN IMMEDIATE")
    }

    pub(crate) fn commit(&self) -> Result<()> {
        self.run("COMMIT")
    }

    /// Ends what was begun. Nothing of it stays.
    pub(crate) fn end(&self) {
        if !self.connection.is_autocommit() {
            // It failed already if it cannot be ended, and will be thrown away.
            let _ = self.run("ROLLBACK");
        }
    }

    fn run(&self, sql: &str) -> Result<()> {
        self.sql(|connection| connection.prepare_cached(sql)?.execute([]).map(drop))
    }

    /// Runs statements. If that fails, the index has failed.
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

    /// Runs a statement that gives at most one row.
    fn one<T>(
        &self,
        sql: &str,
        params: impl rusqlite::Params,
        read: impl FnOnce(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>> {
        self.sql(|connection| connection.prepare_cached(sql)?.query_row(params, read).optional())
    }

    /// Runs a statement that gives any number of rows.
    fn all<T>(
        &self,
        sql: &str,
        params: impl rusqlite::Params,
        read: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>> {
        self.sql(|connection| connection.prepare_cached(sql)?.query_map(params, read)?.collect())
    }

    fn execute(&self, sql: &str, params: impl rusqlite::Params) -> Result<usize> {
        self.sql(|connection| connection.prepare_cached(sql)?.execute(params))
    }
}

/// What an index must say of itself to be used: by whom and under which rules it was made, and in which run of the
/// machine. It is never synced to disk, so a power cut may leave any part of it.
fn identity(terms: &Terms) -> String {
    let boot = waypost_fs::boot_id().unwrap_or_default();
    format!("waypost index {FORMAT}, {}, boot {boot}, {terms:?}", env!("CARGO_PKG_VERSION"))
}

fn prepare(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(PATIENCE)?;
    for (setting, on) in [
        (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
        (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false),
    ] {
        connection.set_db_config(setting, on)?;
    }
    // Without a name for this run of the machine nobody could tell what a power cut left.
    let synchronous =
        if waypost_fs::boot_id().is_some() { "PRAGMA synchronous = OFF" } else { "PRAGMA synchronous = FULL" };
    connection.execute_batch(synchronous)
}

/// Returns the file that a link leads to, which is beside it.
///
/// SQLite finds a journal by the name of its database. If a new index got the name of the old one, whoever still has the
/// old one open would play the new one's journal back into it.
fn file_of(link: &Path) -> Option<PathBuf> {
    let name = std::fs::read_link(link).ok()?;
    let is_ours = name.components().count() == 1 && name.to_str()?.starts_with(&stem(link)?);
    is_ours.then(|| link.with_file_name(name))
}

/// What the names of the files begin with that a link may lead to.
fn stem(link: &Path) -> Option<String> {
    Some(format!(".{}.", link.file_name()?.to_str()?))
}

/// Returns a name that no index has had.
pub(crate) fn new_file(link: &Path) -> Option<PathBuf> {
    let unique = RandomState::new().build_hasher().finish();
    Some(link.with_file_name(format!("{}{unique:016x}", stem(link)?)))
}

/// Makes a link lead to a new file, and removes the files it led to before.
pub(crate) fn publish(link: &Path, file: &Path) -> std::io::Result<()> {
    let name = file.file_name().unwrap_or_default();
    let mut beside = file.as_os_str().to_owned();
    beside.push(".link");
    let beside = PathBuf::from(beside);
    std::os::unix::fs::symlink(name, &beside)?;
    if link.is_dir() && !link.is_symlink() {
        std::fs::remove_dir(link)?;
    }
    std::fs::rename(&beside, link)?;
    sweep(link, Some(file));
    Ok(())
}

/// Removes an index, and whatever is left of older ones.
pub(crate) fn remove(link: &Path) {
    let _ = std::fs::remove_file(link);
    sweep(link, None);
}

/// Removes all files that a link may lead to but one. Whoever has one open goes on with it.
fn sweep(link: &Path, but: Option<&Path>) {
    let (Some(dir), Some(stem)) = (link.parent(), stem(link)) else { return };
    let kept = but.and_then(Path::file_name);
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if name.to_str().is_some_and(|name| name.starts_with(&stem)) && Some(name.as_os_str()) != kept {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}
