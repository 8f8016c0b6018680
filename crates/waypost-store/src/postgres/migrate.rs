//! Migrating a schema in one transaction, also when many processes open it at once.

use std::time::Duration;

use tokio_postgres::error::SqlState;
use waypost_core::{Error, Result};

use super::Options;
use super::address::Address;
use super::begun::Begun;
use super::client::Failed;
use super::connection::{Connection, last_row};
use super::error;

/// The migrations in order; the n-th migrates a schema to version n. A released migration is never edited.
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
#[expect(clippy::cast_possible_wrap, reason = "a handful of migrations")]
pub const SCHEMA_VERSION: i64 = MIGRATIONS.len() as i64;

/// The errors of a process that creates a schema or table that another one has just created.
const CREATED_MEANWHILE: [SqlState; 4] =
    [SqlState::UNIQUE_VIOLATION, SqlState::DUPLICATE_SCHEMA, SqlState::DUPLICATE_TABLE, SqlState::DUPLICATE_OBJECT];

/// Marks a schema as a Waypost store.
const APPLICATION: &str = "waypost";

/// Creates the schema, if it may, or applies missing migrations. For a current schema this is one query.
pub(super) fn migrate(
    connection: &mut Connection,
    address: &Address,
    timeout: Duration,
    options: Options,
) -> Result<()> {
    match version(connection, address)? {
        None if !options.create => {
            Err(Error::not_found(format!("{} has no store {}", address.shown(), address.schema)))
        }
        Some(version) if version > SCHEMA_VERSION => Err(too_new(version, address)),
        Some(SCHEMA_VERSION) => Ok(()),
        Some(version) if !options.migrate => Err(Error::unavailable(format!(
            "the store {} has schema version {version}, and the next command that uses it migrates it",
            address.shown()
        ))),
        _ => apply(connection, address, timeout, MIGRATIONS),
    }
}

/// Refuses a schema whose version another program changed since it was opened.
pub(super) fn check(begun: &Begun, address: &Address) -> Result<()> {
    if begun.version == SCHEMA_VERSION { Ok(()) } else { Err(too_new(begun.version, address)) }
}

fn too_new(version: i64, address: &Address) -> Error {
    Error::unavailable(format!(
        "the store {} has schema version {version}, and this program knows versions up to {SCHEMA_VERSION}",
        address.shown()
    ))
    .hint("a newer way wrote it: upgrade this one")
}

/// Reads the version, if the schema has one, and checks that it is a Waypost store.
fn version(connection: &mut Connection, address: &Address) -> Result<Option<i64>> {
    let about = address.qualified("about");
    let rows = match connection.client.simple_query(&format!("SELECT version, application FROM {about}")) {
        Ok(rows) => rows,
        Err(failed) if failed.code() == Some(&SqlState::UNDEFINED_TABLE) => return Ok(None),
        Err(failed) if failed.code() == Some(&SqlState::UNDEFINED_COLUMN) => return Err(not_a_store(address)),
        Err(failed) => return Err(error::at(address, "cannot read", &failed)),
    };
    let row = last_row(&rows).filter(|row| row.get(1) == Some(APPLICATION)).ok_or_else(|| not_a_store(address))?;
    let version = row.get(0).and_then(|text| text.parse().ok()).ok_or_else(|| not_a_store(address))?;
    Ok(Some(version))
}

fn not_a_store(address: &Address) -> Error {
    Error::invalid(format!("the schema {} of {} is not a Waypost store", address.schema, address.shown()))
        .hint("name another one with schema=NAME in the URL")
}

/// Applies the missing migrations in one transaction, while no other process writes.
fn apply(connection: &mut Connection, address: &Address, timeout: Duration, migrations: &[&str]) -> Result<()> {
    let applied = try_to_apply(connection, address, timeout, migrations);
    if applied.is_err() {
        let _ = connection.roll_back();
    }
    match applied {
        // Another process created the schema at the same time.
        Err(error) if error.is_transient() => match version(connection, address)? {
            Some(SCHEMA_VERSION) => Ok(()),
            _ => Err(error),
        },
        applied => applied,
    }
}

fn try_to_apply(connection: &mut Connection, address: &Address, timeout: Duration, migrations: &[&str]) -> Result<()> {
    let failed = |failed: Failed| error::at(address, "cannot migrate", &failed);
    let Address { schema, .. } = address;
    let settings = connection.settings(address, timeout);
    let rows = connection
        .client
        .simple_query(&format!(
            "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; {settings}
            SELECT to_regnamespace('\"{schema}\"') IS NOT NULL, to_regclass('\"{schema}\".about') IS NOT NULL,
                EXISTS (SELECT 1 FROM pg_class WHERE relnamespace = to_regnamespace('\"{schema}\"'))"
        ))
        .map_err(failed)?;
    let is = |column: usize| last_row(&rows).and_then(|row| row.get(column)) == Some("t");
    let (has_schema, has_about, has_tables) = (is(0), is(1), is(2));
    let version = match (has_about, has_tables) {
        (true, _) => {
            // Waits for all transactions that have read the version, and is read again under the lock, so that no other
            // process can change it.
            let lock = format!("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE", address.qualified("about"));
            connection.client.batch_execute(&lock).map_err(failed)?;
            version(connection, address)?.unwrap_or_default()
        }
        (false, true) => return Err(not_a_store(address)),
        (false, false) => 0,
    };
    // New tables are created in the first schema of the path.
    let mut steps = vec![format!("SET LOCAL search_path TO \"{schema}\", pg_catalog, pg_temp")];
    if !has_schema {
        steps.push(format!("CREATE SCHEMA \"{schema}\""));
    }
    if !has_about {
        steps.push("CREATE TABLE about (application TEXT NOT NULL, version BIGINT NOT NULL)".to_owned());
        steps.push(format!("INSERT INTO about VALUES ('{APPLICATION}', 0)"));
    }
    for (number, migration) in (1_i64..).zip(migrations).filter(|(number, _)| *number > version) {
        steps.push((*migration).to_owned());
        steps.push(format!("UPDATE about SET version = {number}"));
    }
    steps.push("COMMIT".to_owned());
    connection.client.batch_execute(&steps.join(";\n")).map_err(|failed| {
        let error = error::at(address, "cannot migrate", &failed);
        // The server makes a second process that creates the same names wait for the first one, and then fail.
        let is_created = !has_about && failed.code().is_some_and(|code| CREATED_MEANWHILE.contains(code));
        if is_created {
            return error.transient();
        }
        if has_schema || failed.code() != Some(&SqlState::INSUFFICIENT_PRIVILEGE) {
            return error;
        }
        error.hint(format!("ask an administrator to run: CREATE SCHEMA {schema} AUTHORIZATION the_role"))
    })
}
