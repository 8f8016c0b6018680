//! Opening the file: checks, creation and settings.

use std::cell::Cell;
use std::fs::{Metadata, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

use rusqlite::Connection;
use rusqlite::config::DbConfig;
use waypost_core::clock::Clock;
use waypost_core::seeded::seeded_bug;
use waypost_core::{Error, Result};
use waypost_fs::{FileIdentity, FileLock, create_private_dir, network_file_system, sync_dir};

use super::migrate::{self, State};
use super::{OPEN_FLAGS, Options, SqliteStore, error, schema};
use crate::foreign;

/// Older versions can lose committed pages when two connections write and checkpoint at once.
const MIN_SQLITE_VERSION: i32 = 3_051_003;

/// The number of cached statements: more than there are, so that a process prepares each once.
const MAX_CACHED_STATEMENTS: usize = 128;

pub(super) fn open(path: &Path, options: Options, clock: Box<dyn Clock + Send>) -> Result<SqliteStore> {
    check_sqlite()?;
    let named = std::path::absolute(path).map_err(|error| cannot_open(path).because(error))?;
    let OpenFile { connection, path, identity, gate } = open_file(&named, options)?;
    let timeout = options.timeout;
    Ok(SqliteStore { connection, named, path, identity, gate, options, timeout, clock, commits: Cell::new(0) })
}

/// Opens the file that the store's path leads to now. On an error the store stays as it is.
pub(super) fn reopen(store: &mut SqliteStore) -> Result<()> {
    let options = Options { timeout: store.timeout, create: false, ..store.options };
    let OpenFile { connection, path, identity, gate } = open_file(&store.named, options)?;
    (store.connection, store.path, store.identity, store.gate) = (connection, path, identity, gate);
    store.commits.set(0);
    Ok(())
}

/// Returns the error for a store whose file is not the one that was opened.
pub(super) fn replaced(path: &Path) -> Error {
    Error::unavailable(format!("the store {} was moved, deleted or replaced while it was in use", path.display()))
}

/// A connection to a store's file.
struct OpenFile {
    connection: Connection,
    path: PathBuf,
    identity: FileIdentity,
    gate: PathBuf,
}

fn open_file(named: &Path, options: Options) -> Result<OpenFile> {
    // Two paths to one file must use one lock, which is beside the file. SQLite refuses a path in which a directory is a link.
    // Hardly any is, and to resolve all of it takes a system call for each part. A path that climbs has many spellings.
    let climbs = named.components().any(|part| part == Component::ParentDir);
    if let Some(found) = named.symlink_metadata().ok().filter(|found| found.is_file() && !climbs)
        && let Opened::File(file) = open_path(named.to_owned(), Ok(found), named, options)?
    {
        return Ok(file);
    }
    let path = real_path(named, options)?;
    let found = std::fs::metadata(&path);
    match open_path(path, found, named, options)? {
        Opened::File(file) => Ok(file),
        Opened::Link => Err(cannot_open(named).because("a part of its path became a link").hint("try again")),
    }
}

/// The outcome of opening a path.
enum Opened {
    File(OpenFile),
    /// A part of the path is a link.
    Link,
}

fn open_path(path: PathBuf, found: std::io::Result<Metadata>, named: &Path, options: Options) -> Result<Opened> {
    let gate = with_suffix(&path, "-gate");
    let identity = || FileIdentity::of(&path).map_err(|error| cannot_open(&path).because(error));
    let before = match found {
        Ok(metadata) => {
            check_file(&path, &metadata, options)?;
            FileIdentity::of_metadata(&metadata)
        }
        Err(error) if error.kind() == ErrorKind::NotFound && options.create => {
            create(&path, &gate, options)?;
            identity()?
        }
        Err(error) if error.kind() == ErrorKind::NotFound => return Err(missing(named)),
        Err(error) => return Err(cannot_open(&path).because(error)),
    };
    let connection = match Connection::open_with_flags(&path, OPEN_FLAGS) {
        Err(rusqlite::Error::SqliteFailure(failure, _))
            if failure.extended_code == rusqlite::ffi::SQLITE_CANTOPEN_SYMLINK =>
        {
            return Ok(Opened::Link);
        }
        opened => opened.map_err(error::at(&path, "cannot open")).and_then(|opened| prepare(opened, &path, options)),
    };
    let connection = connection.map_err(|error| unless_duckdb(error, &path))?;
    let identity = identity()?;
    if identity != before {
        return Err(cannot_open(&path).because("it was replaced while it was being opened").hint("try again"));
    }
    let (state, mut has_own_triggers) = state(&connection, &path).map_err(|error| unless_duckdb(error, &path))?;
    if state == State::Behind {
        if !options.migrate {
            return Err(
                cannot_open(&path).because("its schema is older, and the next command that uses it migrates it")
            );
        }
        let _gate = super::lock_gate(&connection, &path, &gate, options.timeout)?;
        // Checked again under the gate: another process may have migrated it.
        if migrate::state(&connection, &path)? == State::Behind {
            use_wal(&connection, &path)?;
            migrate::migrate(&connection, &path)?;
        }
        has_own_triggers = schema::has_only_own_triggers(&connection).map_err(error::at(&path, "cannot read"))?;
    }
    if has_own_triggers {
        let on = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, true);
        on.map_err(error::at(&path, "cannot open"))?;
    }
    Ok(Opened::File(OpenFile { connection, path, identity, gate }))
}

/// Returns the state of the schema, and whether its triggers are exactly ours, as they are at one moment.
fn state(connection: &Connection, path: &Path) -> Result<(State, bool)> {
    let failed = || error::at(path, "cannot read");
    let snapshot = connection.unchecked_transaction().map_err(failed())?;
    let state = migrate::state(&snapshot, path)?;
    let has_own_triggers = state == State::Current && schema::has_only_own_triggers(&snapshot).map_err(failed())?;
    snapshot.commit().map_err(failed())?;
    Ok((state, has_own_triggers))
}

/// Replaces the error for a file that is a database of DuckDB.
fn unless_duckdb(error: Error, path: &Path) -> Error {
    if foreign::program(path) != Some(foreign::DUCKDB) {
        return error;
    }
    Error::invalid(format!("{} is a database of DuckDB, not a Waypost store", path.display()))
        .hint("way import agentdb takes the tables of an AgentDB, exported as JSON; way import --help has an example")
}

/// Returns the error for a store that was in use and whose file is missing.
fn missing(path: &Path) -> Error {
    Error::unavailable(format!("the store {} is gone: it was moved or deleted while it was in use", path.display()))
        .hint("put it back, or restore a backup there; no restart is needed")
}

fn check_sqlite() -> Result<()> {
    if rusqlite::version_number() < MIN_SQLITE_VERSION {
        return Err(Error::internal(format!(
            "SQLite {} can lose data under concurrent writers; 3.51.3 or later is required",
            rusqlite::version()
        )));
    }
    Ok(())
}

/// Resolves links in the path. The file and directories above it may be missing.
fn real_path(path: &Path, options: Options) -> Result<PathBuf> {
    match std::fs::canonicalize(path) {
        Ok(real) => Ok(real),
        Err(error) if error.kind() == ErrorKind::NotFound && !options.create => Err(missing(path)),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            if path.is_symlink() {
                return Err(Error::unavailable(format!("the store {} is a link to nothing", path.display()))
                    .hint("remove the link, or restore what it points to"));
            }
            let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
                return Err(cannot_open(path).because("the path names no file"));
            };
            let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
            let parent = if parent.exists() {
                std::fs::canonicalize(parent).map_err(|error| cannot_open(path).because(error))?
            } else {
                real_path(parent, options)?
            };
            Ok(parent.join(name))
        }
        Err(error) => Err(cannot_open(path).because(error)),
    }
}

/// Refuses a file that cannot be locked safely, or that belongs to another user.
fn check_file(path: &Path, metadata: &Metadata, options: Options) -> Result<()> {
    let refuse = |why: String| Err(Error::unavailable(format!("the store {} {why}", path.display())));
    if metadata.is_dir() {
        return Err(Error::unavailable(format!("the store {} is a directory", path.display()))
            .hint("name a file, for example state.db in it"));
    }
    if !metadata.is_file() {
        return refuse("is not a regular file".to_owned());
    }
    if metadata.nlink() > 1 {
        return Err(Error::unavailable(format!("the store {} has {} names", path.display(), metadata.nlink()))
            .hint("two names for one database mean two locks, and lost writes: delete the other hard link"));
    }
    let us = rustix::process::geteuid().as_raw();
    if metadata.uid() != us {
        return refuse(format!("belongs to user {}, and you are user {us}", metadata.uid()));
    }
    check_file_system(path, options)
}

fn check_file_system(path: &Path, options: Options) -> Result<()> {
    if options.allow_network {
        return Ok(());
    }
    match network_file_system(path) {
        Ok(None) => Ok(()),
        Ok(Some(name)) => {
            Err(Error::unavailable(format!("the store {} is on {name}, where locks cannot be trusted", path.display()))
                .hint("use --db with a file on a local disk, or a PostgreSQL store for several machines")
                .hint("if only this machine uses it: --config store.network=allow"))
        }
        Err(error) => Err(cannot_open(path).because(error)),
    }
}

/// Creates a new store under a temporary name, and renames it when it is complete.
fn create(path: &Path, gate: &Path, options: Options) -> Result<()> {
    let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(cannot_open(path).because("the path names no file"));
    };
    let existing = dir.ancestors().find(|ancestor| ancestor.exists()).unwrap_or(Path::new("/"));
    check_file_system(existing, options)?;
    let cannot = |error: std::io::Error| {
        Error::unavailable(format!("cannot create the store {}", path.display())).because(error)
    };
    create_private_dir(dir).map_err(cannot)?;

    let undo_dirs = || {
        for empty in dir.ancestors().take_while(|ancestor| *ancestor != existing) {
            // A directory that is not empty holds files of other processes and stays.
            let _ = std::fs::remove_dir(empty);
        }
    };
    let lock = FileLock::acquire(gate, options.timeout).inspect_err(|_| undo_dirs())?;
    if path.exists() {
        return Ok(());
    }
    check_no_log(path)?;
    let mut new_name = std::ffi::OsString::from(".");
    new_name.push(name);
    new_name.push(".new");
    let new = dir.join(new_name);
    // A process that died here may have left it. The gate guarantees that no process uses it.
    remove_database(&new);
    let made = (|| {
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new).map_err(cannot)?;
        let connection = connect(&new, options)?;
        migrate::migrate(&connection, path)?;
        use_wal(&connection, path)?;
        connection
            .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)
            .map_err(error::at(path, "cannot create"))?;
        connection.close().map_err(|(_, error)| error::at(path, "cannot create")(error))?;
        std::fs::File::open(&new).and_then(|file| file.sync_all()).map_err(cannot)?;
        std::fs::rename(&new, path).map_err(cannot)?;
        sync_dir(path).map_err(cannot)
    })();
    if made.is_err() && !path.exists() {
        remove_database(&new);
        lock.remove(gate);
        undo_dirs();
    }
    made
}

/// Refuses to create a store beside the log of another: SQLite would write that log's pages into the new file.
///
/// The log may hold acknowledged writes of a store that was moved without it, so it is not deleted.
fn check_no_log(path: &Path) -> Result<()> {
    let log = with_suffix(path, "-wal");
    match std::fs::metadata(&log) {
        Ok(metadata) if metadata.len() > 0 => {
            Err(Error::unavailable(format!("the store {} is not there, but its log is", path.display()))
                .hint(format!("put the store back, or move {} and its -shm away too", log.display())))
        }
        _ => Ok(()),
    }
}

fn remove_database(path: &Path) {
    for suffix in ["", "-wal", "-shm", "-journal"] {
        let _ = std::fs::remove_file(with_suffix(path, suffix));
    }
}

fn connect(path: &Path, options: Options) -> Result<Connection> {
    let connection = Connection::open_with_flags(path, OPEN_FLAGS).map_err(error::at(path, "cannot open"))?;
    prepare(connection, path, options)
}

/// Makes the settings of a new connection.
fn prepare(connection: Connection, path: &Path, options: Options) -> Result<Connection> {
    let failed = || error::at(path, "cannot open");
    connection.busy_timeout(options.timeout).map_err(failed())?;
    connection.set_prepared_statement_cache_capacity(MAX_CACHED_STATEMENTS);
    // The file may come from anywhere: foreign code in its schema must not run.
    for (setting, on) in [
        (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
        (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false),
        // Switched on once the schema turns out to have our own triggers only.
        (DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false),
        (DbConfig::SQLITE_DBCONFIG_DQS_DML, false),
        (DbConfig::SQLITE_DBCONFIG_DQS_DDL, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_FKEY, true),
        // Query plans must not depend on parameters: SQLite would prepare a statement again for new values.
        (DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true),
        // Otherwise a command would need two more fsyncs when it closes the file, and new readers would wait for them.
        (DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true),
    ] {
        connection.set_db_config(setting, on).map_err(failed())?;
    }
    // The statement journal is kept in memory: it is too small to be worth a file.
    connection
        .execute_batch(
            "PRAGMA synchronous = FULL; PRAGMA cell_size_check = ON; PRAGMA wal_autocheckpoint = 0;
            PRAGMA temp_store = MEMORY;",
        )
        .map_err(failed())?;
    if seeded_bug("unsynced_store") {
        connection.execute_batch("PRAGMA synchronous = NORMAL").map_err(failed())?;
    }
    #[cfg(target_os = "macos")]
    connection.execute_batch("PRAGMA fullfsync = ON; PRAGMA checkpoint_fullfsync = ON;").map_err(failed())?;
    Ok(connection)
}

fn use_wal(connection: &Connection, path: &Path) -> Result<()> {
    let mode: String = connection
        .query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))
        .map_err(error::at(path, "cannot open"))?;
    if mode == "wal" {
        Ok(())
    } else {
        Err(cannot_open(path).because(format!("it keeps journal mode {mode}, and write-ahead logging is required")))
    }
}

fn cannot_open(path: &Path) -> Error {
    Error::unavailable(format!("cannot open the store {}", path.display()))
}

pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}
