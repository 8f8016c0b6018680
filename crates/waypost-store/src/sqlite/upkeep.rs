//! Maintenance of the file: facts, integrity check, backup and compaction.

use std::path::Path;

use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags};
use waypost_core::{Error, Result, words};
use waypost_fs::{create_beside, rename_new, sync_dir};

use super::confirm::{self, Verdict};
use super::schema::{self, Difference};
use super::{SqliteStore, error};

/// The start of the error message of a failed check.
const CHECK: &str = "cannot check";

/// Facts about an open store.
#[derive(Debug)]
pub struct Info {
    /// The version of its schema.
    pub schema_version: i32,
    /// The version of the SQLite inside this program.
    pub sqlite_version: &'static str,
    /// The settings that durability depends on, with SQLite's names.
    pub settings: Vec<(&'static str, String)>,
    /// Bytes of the main file.
    pub bytes: u64,
    /// Bytes of the write-ahead log beside it.
    pub wal_bytes: u64,
    /// The number of rows of each table, by table name.
    pub rows: Vec<(String, u64)>,
}

/// A problem found by [`SqliteStore::check`].
#[derive(Debug, PartialEq, Eq)]
pub struct Damage(pub String);

impl SqliteStore {
    /// Returns facts about the file.
    pub fn info(&self) -> Result<Info> {
        let failed = || error::at(&self.path, "cannot read");
        let read = || -> rusqlite::Result<_> {
            let schema_version =
                self.connection.query_row("SELECT user_version FROM pragma_user_version", [], |row| row.get(0))?;
            let names: Vec<String> = self
                .connection
                .prepare(
                    "SELECT name FROM sqlite_schema
                    WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name <> 'store_state' ORDER BY name",
                )?
                .query_map([], |row| row.get(0))?
                .collect::<rusqlite::Result<_>>()?;
            let mut settings = Vec::new();
            for name in ["journal_mode", "synchronous", "foreign_keys", "trusted_schema"] {
                let value = self.connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, Value>(0))?;
                settings.push((name, setting_text(name, &value)));
            }
            let mut rows = Vec::new();
            for name in names {
                // A name from the schema, quoted: identifiers cannot be bound.
                let count = format!("SELECT count(*) FROM \"{}\"", name.replace('"', "\"\""));
                let count: i64 = self.connection.query_row(&count, [], |row| row.get(0))?;
                rows.push((name, count.cast_unsigned()));
            }
            Ok((schema_version, settings, rows))
        };
        let (schema_version, settings, rows) = read().map_err(failed())?;
        let size =
            |suffix| std::fs::metadata(super::open::with_suffix(&self.path, suffix)).map_or(0, |file| file.len());
        Ok(Info {
            schema_version,
            sqlite_version: rusqlite::version(),
            settings,
            bytes: size(""),
            wal_bytes: size("-wal"),
            rows,
        })
    }

    /// Checks pages, indexes, references and the history. Returns the problems found.
    pub fn check(&self) -> Result<Vec<Damage>> {
        let mut damage = self.check_pages()?;
        match self.check_rows() {
            Ok(rows) => damage.extend(rows),
            // Rows cannot be read from damaged pages.
            Err(error) if confirm::is_damage(&error) && !damage.is_empty() => {}
            Err(error) => return Err(error::at(&self.path, CHECK)(error)),
        }
        Ok(damage)
    }

    /// Compares the schema with the one that this program creates. Returns the differences.
    pub fn check_schema(&self) -> Result<Vec<Difference>> {
        schema::compare(&self.connection, &self.path)
    }

    /// Checks pages and indexes. A failed read looks like damage, so a second check must confirm it.
    fn check_pages(&self) -> Result<Vec<Damage>> {
        let found = || -> rusqlite::Result<Vec<String>> {
            self.connection.prepare("PRAGMA integrity_check(100)")?.query_map([], |row| row.get(0))?.collect()
        };
        let found = match found() {
            // SQLite stops at damage that it cannot skip: that is a result, not a failed check.
            Err(error) if confirm::is_damage(&error) => vec![error.to_string()],
            found => found.map_err(error::at(&self.path, CHECK))?,
        };
        let damage: Vec<_> = found.into_iter().filter(|line| line != "ok").map(Damage).collect();
        if damage.is_empty() {
            return Ok(damage);
        }
        match confirm::examine(&self.path) {
            Verdict::Damaged => Ok(damage),
            Verdict::Intact => Err(error::failed_read(&self.path, CHECK)),
            Verdict::Unreadable(error) => Err(error::at(&self.path, CHECK)(error)),
        }
    }

    /// Checks references between rows, and the numbers of the events.
    fn check_rows(&self) -> rusqlite::Result<Vec<Damage>> {
        let mut damage: Vec<Damage> = self
            .connection
            .prepare("SELECT \"table\", rowid, parent FROM pragma_foreign_key_check LIMIT 100")?
            .query_map([], |row| {
                let (table, row, parent) =
                    (row.get::<_, String>(0)?, row.get::<_, Option<i64>>(1)?, row.get::<_, String>(2)?);
                Ok(Damage(format!("row {row:?} of {table} refers to a row of {parent} that is not there")))
            })?
            .collect::<rusqlite::Result<_>>()?;
        // Events that were removed because of their age are counted by month.
        let (count, removed, last): (i64, i64, i64) = self.connection.query_row(
            "SELECT (SELECT count(*) FROM events),
                (SELECT coalesce(sum(kind.value), 0) FROM summaries, json_each(detail) AS kind WHERE summaries.kind = 'events'),
                (SELECT coalesce(max(sequence), 0) FROM events)",
            [],
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
        )?;
        if count + removed != last {
            let removed = if removed == 0 { String::new() } else { format!(" and {removed} removed ones") };
            damage.push(Damage(format!(
                "the history has {}{removed}, and the last one is number {last}",
                words::count(count, "event")
            )));
        }
        Ok(damage)
    }

    /// Writes a consistent snapshot to a new file. Other processes can write during the backup.
    ///
    /// The copy gets its name only after it is complete and checked.
    pub fn backup(&self, target: &Path) -> Result<()> {
        let cannot = |error: std::io::Error| {
            Error::unavailable(format!("cannot write the backup {}", target.display())).because(error)
        };
        if target.symlink_metadata().is_ok() {
            return Err(Error::refused(format!("{} exists already", target.display()))
                .hint("choose another name; a backup never overwrites"));
        }
        // While the new file is open, no other process removes it as abandoned.
        let (_open, new) = create_beside(target, 0o600).map_err(cannot)?;
        let made = (|| {
            let Some(name) = new.to_str() else {
                return Err(Error::invalid("a backup's name must be UTF-8"));
            };
            self.connection.execute("VACUUM INTO ?1", [name]).map_err(error::at(&self.path, "cannot back up"))?;
            check_copy(&new)?;
            std::fs::File::open(&new).and_then(|file| file.sync_all()).map_err(cannot)?;
            rename_new(&new, target).map_err(cannot)?;
            sync_dir(target).map_err(cannot)
        })();
        if made.is_err() {
            let _ = std::fs::remove_file(&new);
        }
        made
    }

    /// Compacts the file and empties its log. Returns the bytes of both, before and after.
    pub fn vacuum(&self) -> Result<(u64, u64)> {
        let failed = || error::at(&self.path, "cannot compact");
        let size = || self.info().map(|info| info.bytes + info.wal_bytes);
        let _gate = self.lock_gate()?;
        let before = size()?;
        self.connection.execute_batch("VACUUM").map_err(failed())?;
        self.empty_log();
        Ok((before, size()?))
    }
}

fn setting_text(setting: &str, value: &Value) -> String {
    match (setting, value) {
        (_, Value::Text(text)) => text.clone(),
        ("synchronous", Value::Integer(level)) => match level {
            0 => "off".to_owned(),
            1 => "normal".to_owned(),
            2 => "full".to_owned(),
            other => other.to_string(),
        },
        (_, Value::Integer(0)) => "off".to_owned(),
        (_, Value::Integer(1)) => "on".to_owned(),
        (_, other) => format!("{other:?}"),
    }
}

fn check_copy(path: &Path) -> Result<()> {
    let failed = || error::at(path, "cannot check the backup of");
    let copy = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(failed())?;
    let verdict: String = copy.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(failed())?;
    if verdict == "ok" { Ok(()) } else { Err(Error::damaged(format!("the backup is damaged: {verdict}"))) }
}
