//! The objects of a file's schema, compared with those that the migrations create.
//!
//! A file may come from another program or another person. Triggers would run with every write, so they are enabled only
//! if they are exactly ours. Views are always disabled: the schema has none.

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::Connection;
use waypost_core::Result;

use super::{error, migrate};

/// The triggers that the migrations create, by name, with the text that SQLite keeps of each.
const TRIGGERS: [(&str, &str); 2] = [
    (
        "events_are_kept",
        "CREATE TRIGGER events_are_kept BEFORE DELETE ON events WHEN OLD.time >= (SELECT events_kept_since FROM store_state)
BEGIN SELECT RAISE(ABORT, 'events are never deleted'); END",
    ),
    (
        "events_are_never_changed",
        "CREATE TRIGGER events_are_never_changed BEFORE UPDATE ON events
BEGIN SELECT RAISE(ABORT, 'events are never changed'); END",
    ),
];

/// Tables that SQLite creates itself.
const INTERNAL_TABLES: &[&str] = &["sqlite_sequence", "sqlite_stat1", "sqlite_stat4"];

/// A difference between the schema of a file and the one that the migrations create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// The migrations create no such object. The object is `trigger x on table y`, for example.
    Foreign(String),
    /// The object has another definition.
    Changed(String),
    /// The object is missing.
    Missing(String),
}

/// Returns whether the triggers of a file are exactly ours. Every opening asks this, so it compares with constants.
pub(super) fn has_only_own_triggers(connection: &Connection) -> rusqlite::Result<bool> {
    let mut statement =
        connection.prepare("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger' ORDER BY name")?;
    let mut rows = statement.query([])?;
    for (name, text) in TRIGGERS {
        let Some(row) = rows.next()? else { return Ok(false) };
        // Values of another type are not ours, and no error.
        if row.get_ref(0)?.as_str() != Ok(name) || row.get_ref(1)?.as_str() != Ok(text) {
            return Ok(false);
        }
    }
    Ok(rows.next()?.is_none())
}

/// Compares the schema of a file with the one that the migrations create, by type, name and text.
pub(super) fn compare(connection: &Connection, path: &Path) -> Result<Vec<Difference>> {
    let failed = || error::at(path, "cannot check");
    let own = Connection::open_in_memory().map_err(failed())?;
    migrate::migrate(&own, path)?;
    let mut expected = objects(&own).map_err(failed())?;
    let mut differences = Vec::new();
    for (key, object) in objects(connection).map_err(failed())? {
        match expected.remove(&key) {
            None => differences.push(Difference::Foreign(object.shown)),
            Some(own) if own != object => differences.push(Difference::Changed(object.shown)),
            Some(_) => {}
        }
    }
    differences.extend(expected.into_values().map(|object| Difference::Missing(object.shown)));
    Ok(differences)
}

/// An object of a schema.
#[derive(PartialEq, Eq)]
struct Object {
    /// Its definition. None for the index of a constraint, which the table defines.
    text: Option<Vec<u8>>,
    shown: String,
}

/// Returns the objects of a schema by type and name. A hostile file may have values of any type there.
fn objects(connection: &Connection) -> rusqlite::Result<BTreeMap<(String, String), Object>> {
    let mut statement = connection
        .prepare("SELECT CAST(type AS TEXT), CAST(name AS TEXT), CAST(tbl_name AS TEXT), sql FROM sqlite_schema")?;
    let mut rows = statement.query([])?;
    let mut objects = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let text = |column| -> rusqlite::Result<String> {
            Ok(row.get_ref(column)?.as_bytes_or_null()?.map(String::from_utf8_lossy).unwrap_or_default().into_owned())
        };
        let (kind, name, table) = (text(0)?, text(1)?, text(2)?);
        if kind == "table" && INTERNAL_TABLES.contains(&name.as_str()) {
            continue;
        }
        let shown = if table == name { format!("{kind} {name}") } else { format!("{kind} {name} on table {table}") };
        let text = row.get_ref(3)?.as_bytes_or_null().ok().flatten().map(<[u8]>::to_vec);
        objects.insert((kind, name), Object { text, shown });
    }
    Ok(objects)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store() -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        migrate::migrate(&connection, Path::new("x")).unwrap();
        connection
    }

    #[test]
    fn the_migrations_create_exactly_the_listed_triggers_and_no_views() {
        let connection = store();
        assert!(has_only_own_triggers(&connection).unwrap());
        assert!(!objects(&connection).unwrap().keys().any(|(kind, _)| kind == "view"));
        assert_eq!(compare(&connection, Path::new("x")).unwrap(), []);
        // Statistics are SQLite's own.
        connection.execute_batch("ANALYZE").unwrap();
        assert_eq!(compare(&connection, Path::new("x")).unwrap(), []);
    }

    #[test]
    fn foreign_changed_and_missing_objects_are_named() {
        for (change, expected, has_own_triggers) in [
            (
                "CREATE TRIGGER spy AFTER INSERT ON jobs BEGIN DELETE FROM tasks; END",
                Difference::Foreign("trigger spy on table jobs".to_owned()),
                false,
            ),
            (
                "DROP TRIGGER events_are_kept;
                CREATE TRIGGER events_are_kept BEFORE DELETE ON events BEGIN DELETE FROM tasks; END",
                Difference::Changed("trigger events_are_kept on table events".to_owned()),
                false,
            ),
            (
                "DROP TRIGGER events_are_kept",
                Difference::Missing("trigger events_are_kept on table events".to_owned()),
                false,
            ),
            ("CREATE VIEW seen AS SELECT * FROM tasks", Difference::Foreign("view seen".to_owned()), true),
            ("CREATE TABLE extra (x)", Difference::Foreign("table extra".to_owned()), true),
            ("CREATE INDEX extra ON tasks (id)", Difference::Foreign("index extra on table tasks".to_owned()), true),
            ("DROP INDEX jobs_by_end", Difference::Missing("index jobs_by_end on table jobs".to_owned()), true),
            ("ALTER TABLE summaries ADD COLUMN extra TEXT", Difference::Changed("table summaries".to_owned()), true),
        ] {
            let connection = store();
            connection.execute_batch(change).unwrap();
            assert_eq!(has_only_own_triggers(&connection).unwrap(), has_own_triggers, "{change}");
            assert_eq!(compare(&connection, Path::new("x")).unwrap(), [expected], "{change}");
        }
    }
}
