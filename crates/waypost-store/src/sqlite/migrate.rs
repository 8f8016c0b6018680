//! Migrating a file's schema, in one transaction.

use std::path::Path;

use rusqlite::Connection;
use waypost_core::{Error, Result};

use super::error;
use crate::foreign;

/// "WayP", in the file's header: marks the file as a Waypost store.
pub(super) const APPLICATION_ID: i32 = 0x5761_7950;

/// The migrations in order; the n-th migrates a file to version n. A released migration is never edited.
const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0001_foundation.sql"),
    include_str!("migrations/0002_work.sql"),
    include_str!("migrations/0003_jobs.sql"),
    include_str!("migrations/0004_store_state.sql"),
    include_str!("migrations/0005_bases.sql"),
    include_str!("migrations/0006_reach.sql"),
    include_str!("migrations/0007_deferred_changes.sql"),
    include_str!("migrations/0008_machines.sql"),
    include_str!("migrations/0009_retention.sql"),
    include_str!("migrations/0010_lock.sql"),
    include_str!("migrations/0011_nulls.sql"),
];

/// The schema version this program reads and writes.
#[expect(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "a handful of migrations")]
pub const SCHEMA_VERSION: i32 = MIGRATIONS.len() as i32;

/// The state of a file's schema.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum State {
    /// A Waypost store with the current schema.
    Current,
    /// A Waypost store with an older schema, or an empty file.
    Behind,
}

/// Checks that the file is a Waypost store, and reads the state of its schema.
pub(super) fn state(connection: &Connection, path: &Path) -> Result<State> {
    let (application, version, mode, has_tables) = connection
        .query_row(
            "SELECT (SELECT application_id FROM pragma_application_id), (SELECT user_version FROM pragma_user_version),
                    (SELECT journal_mode FROM pragma_journal_mode), EXISTS (SELECT 1 FROM sqlite_schema)",
            [],
            |row| Ok((row.get::<_, i32>(0)?, row.get::<_, i32>(1)?, row.get::<_, String>(2)?, row.get::<_, bool>(3)?)),
        )
        .map_err(error::at(path, "cannot read"))?;
    let is_read_only = connection.is_readonly("main").unwrap_or(false);
    match (application, has_tables) {
        (APPLICATION_ID, _) if version > SCHEMA_VERSION => Err(too_new(version, path)),
        // A copy on a read-only medium can be read in any journal mode.
        (APPLICATION_ID, _) if version == SCHEMA_VERSION && is_read_only => Ok(State::Current),
        (APPLICATION_ID, _) if version == SCHEMA_VERSION && mode == "wal" => Ok(State::Current),
        (APPLICATION_ID, _) | (0, false) => Ok(State::Behind),
        _ => Err(foreign_error(connection, path)),
    }
}

/// Returns the error for a database of another program.
fn foreign_error(connection: &Connection, path: &Path) -> Error {
    let error = Error::invalid(format!("{} is a database, but not a Waypost store", path.display()));
    match foreign::program_of(connection) {
        Some(program) => error
            .hint(format!("it is a database of {program}: way import {program} {}", path.display()))
            .hint("to choose a store, name another file with --db or WAYPOST_DB"),
        None => error.hint("name another file with --db or WAYPOST_DB"),
    }
}

/// Refuses to write if another process changed the schema version. It cannot change during a transaction.
pub(super) fn check_version(connection: &Connection, path: &Path) -> Result<()> {
    let version: i32 =
        connection.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(error::at(path, "cannot read"))?;
    if version == SCHEMA_VERSION { Ok(()) } else { Err(too_new(version, path)) }
}

fn too_new(version: i32, path: &Path) -> Error {
    Error::unavailable(format!(
        "the store {} has schema version {version}, and this program knows versions up to {SCHEMA_VERSION}",
        path.display()
    ))
    .hint("a newer way wrote it: upgrade this one")
}

/// Applies the missing migrations in one transaction. The caller holds the gate.
pub(super) fn migrate(connection: &Connection, path: &Path) -> Result<()> {
    apply(connection, path, MIGRATIONS)
}

fn apply(connection: &Connection, path: &Path, migrations: &[&str]) -> Result<()> {
    let failed = || error::at(path, "cannot migrate");
    let transaction =
        rusqlite::Transaction::new_unchecked(connection, rusqlite::TransactionBehavior::Immediate).map_err(failed())?;
    let version: i32 =
        transaction.query_row("SELECT user_version FROM pragma_user_version", [], |row| row.get(0)).map_err(failed())?;
    for (number, migration) in (1..).zip(migrations).filter(|(number, _)| *number > version) {
        transaction.execute_batch(migration).map_err(failed())?;
        transaction.pragma_update(None, "user_version", number).map_err(failed())?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID).map_err(failed())?;
    transaction.commit().map_err(failed())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(connection: &Connection) -> i32 {
        connection.query_row("SELECT user_version FROM pragma_user_version", [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn p33_missing_migrations_are_applied_in_order_and_only_once() {
        let connection = Connection::open_in_memory().unwrap();
        let path = Path::new("x");
        apply(&connection, path, &["CREATE TABLE a (x)"]).unwrap();
        connection.execute("INSERT INTO a VALUES (1)", []).unwrap();
        for _ in 0..2 {
            apply(&connection, path, &["CREATE TABLE a (x)", "ALTER TABLE a ADD y DEFAULT 7"]).unwrap();
            assert_eq!(version(&connection), 2);
        }
        let y: i32 = connection.query_row("SELECT y FROM a", [], |row| row.get(0)).unwrap();
        assert_eq!(y, 7);
    }

    #[test]
    fn a_failing_migration_leaves_the_old_version() {
        let connection = Connection::open_in_memory().unwrap();
        let path = Path::new("x");
        apply(&connection, path, &["CREATE TABLE a (x)"]).unwrap();
        apply(&connection, path, &["", "CREATE TABLE b (x)", "no such statement"]).unwrap_err();
        assert_eq!(version(&connection), 1);
        connection.execute("SELECT 1 FROM b", []).unwrap_err();
    }
}
