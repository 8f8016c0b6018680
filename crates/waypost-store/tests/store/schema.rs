//! Both databases have the same schema, and their enum constraints match the code.

use std::collections::{BTreeMap, BTreeSet};

use ::postgres::{Client, NoTls};
use waypost_core::model::{
    AgentStatus, CheckpointKind, DependencyKind, JobStatus, MessageKind, MessageState, News, Reach, Role, Source,
    Strategy, SummaryKind, TaskStatus, Urgency, Vcs, WorkflowStatus, WorkspaceStatus,
};
use waypost_store::postgres::PostgresStore;
use waypost_store::sqlite::SqliteStore;
use waypost_store::{postgres, sqlite};

use crate::rows::{Dice, World};
use crate::{clock, write};

/// A store's schema, in a form that is the same for all databases.
#[derive(Debug, Default, PartialEq, Eq)]
struct Schema {
    /// Table and column, with the type and whether it may be NULL.
    columns: BTreeMap<(String, String), (String, bool)>,
    /// Tables with the columns of their unique keys.
    keys: BTreeSet<(String, Vec<String>)>,
    /// Tables and columns that refer to tables.
    references: BTreeSet<(String, String, String)>,
    /// The values that an enum column permits.
    words: BTreeMap<(String, String), Vec<String>>,
}

fn of_sqlite() -> Schema {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state.db");
    drop(SqliteStore::open(&path, sqlite::Options::default(), Box::new(clock())).unwrap());
    let file = rusqlite::Connection::open(&path).unwrap();
    let rows = |sql: &str, columns: usize| -> Vec<Vec<String>> {
        let mut statement = file.prepare(sql).unwrap();
        let read = |row: &rusqlite::Row<'_>| (0..columns).map(|column| row.get(column)).collect();
        statement.query_map([], read).unwrap().collect::<Result<_, _>>().unwrap()
    };
    let tables = "sqlite_schema AS t, ";
    let is_table = "t.type = 'table' AND t.name NOT LIKE 'sqlite_%'";
    let mut schema = Schema::default();
    for row in rows(
        &format!(
            "SELECT t.name, c.name, c.type, CAST(c.\"notnull\" OR c.pk AS TEXT), CAST(c.pk AS TEXT)
            FROM {tables} pragma_table_info(t.name) AS c WHERE {is_table} ORDER BY 1, c.pk"
        ),
        5,
    ) {
        let [table, column, kind, needed, _] = row.try_into().unwrap();
        schema.columns.insert((table, column), (kind, needed == "0"));
    }
    for row in rows(
        &format!(
            "SELECT t.name, (SELECT group_concat(i.name) FROM (SELECT name FROM pragma_index_info(l.name)
                ORDER BY seqno) AS i)
            FROM {tables} pragma_index_list(t.name) AS l WHERE {is_table} AND l.\"unique\""
        ),
        2,
    ) {
        schema.keys.insert((row[0].clone(), row[1].split(',').map(str::to_owned).collect()));
    }
    // These keys are the row id and have no index.
    schema.keys.insert(("events".to_owned(), vec!["sequence".to_owned()]));
    schema.keys.insert(("store_state".to_owned(), vec!["id".to_owned()]));
    for row in rows(
        &format!(
            "SELECT t.name, f.\"from\", f.\"table\" FROM {tables} pragma_foreign_key_list(t.name) AS f WHERE {is_table}"
        ),
        3,
    ) {
        let [table, column, other] = row.try_into().unwrap();
        schema.references.insert((table, column, other));
    }
    for row in rows(&format!("SELECT t.name, t.sql FROM sqlite_schema AS t WHERE {is_table}"), 2) {
        // Only enum constraints, not those that depend on other columns. An added column is on the line of the last one.
        for (column, words) in row[1].split(" CHECK (").skip(1).filter_map(|check| check.split_once(" IN ('")) {
            if !column.contains(' ') {
                let words = words.split_once("))").map_or(words, |(words, _)| words);
                schema.words.insert((row[0].clone(), column.to_owned()), quoted(&format!("'{words}")));
            }
        }
    }
    schema
}

fn of_postgres() -> Schema {
    let url = waypost_testkit::postgres_url();
    drop(PostgresStore::open(&url, postgres::Options::default()).unwrap());
    let (server, name) = url.rsplit_once("?schema=").unwrap();
    let mut client = Client::connect(server, NoTls).unwrap();
    let mut rows = |sql: &str| client.query(sql, &[&name]).unwrap();
    let mut schema = Schema::default();
    for row in rows(
        "SELECT table_name::text, column_name::text, data_type::text, is_nullable = 'YES'
        FROM information_schema.columns WHERE table_schema = $1::text AND table_name <> 'about'",
    ) {
        let kind = match row.get(2) {
            "bigint" => "INTEGER",
            "double precision" => "REAL",
            "text" => "TEXT",
            other => panic!("{other}"),
        };
        schema.columns.insert((row.get(0), row.get(1)), (kind.to_owned(), row.get(3)));
    }
    for row in rows(
        "SELECT c.relname::text, string_agg(a.attname, ',' ORDER BY k.place)
        FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
            CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS k (number, place)
            JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.number
        WHERE i.indisunique AND c.relnamespace = $1::text::regnamespace GROUP BY c.relname, i.indexrelid",
    ) {
        let columns: &str = row.get(1);
        schema.keys.insert((row.get(0), columns.split(',').map(str::to_owned).collect()));
    }
    for row in rows(
        "SELECT c.relname::text, a.attname::text, r.relname::text
        FROM pg_constraint f JOIN pg_class c ON c.oid = f.conrelid JOIN pg_class r ON r.oid = f.confrelid
            JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = ALL (f.conkey)
        WHERE f.contype = 'f' AND c.relnamespace = $1::text::regnamespace",
    ) {
        schema.references.insert((row.get(0), row.get(1), row.get(2)));
    }
    for row in rows(
        "SELECT c.relname::text, a.attname::text, pg_get_constraintdef(f.oid)
        FROM pg_constraint f JOIN pg_class c ON c.oid = f.conrelid
            JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = ALL (f.conkey)
        WHERE f.contype = 'c' AND c.relnamespace = $1::text::regnamespace",
    ) {
        let rule: String = row.get(2);
        if rule.contains("= ANY (ARRAY['") {
            schema.words.insert((row.get(0), row.get(1)), quoted(&rule));
        }
    }
    schema
}

/// Returns the texts in single quotes.
fn quoted(text: &str) -> Vec<String> {
    text.split('\'').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn c1_both_databases_have_the_same_schema() {
    let (sqlite, postgres) = (of_sqlite(), of_postgres());
    assert_eq!(sqlite.columns, postgres.columns);
    assert_eq!(sqlite.keys, postgres.keys);
    assert_eq!(sqlite.references, postgres.references);
    assert_eq!(sqlite.words, postgres.words);
    assert!(sqlite.columns.len() > 100 && sqlite.references.len() > 20, "{sqlite:#?}");
}

#[test]
fn the_values_of_enum_columns_match_the_code() {
    fn words<T: Copy>(all: &[T], text: fn(T) -> &'static str) -> Vec<String> {
        all.iter().map(|word| text(*word).to_owned()).collect()
    }
    let expected = [
        ("repositories", "vcs", words(&Vcs::ALL, Vcs::as_str)),
        ("workflows", "source", words(Source::ALL, Source::as_str)),
        ("workflows", "reach", words(Reach::ALL, Reach::as_str)),
        ("workflows", "status", words(WorkflowStatus::ALL, WorkflowStatus::as_str)),
        ("agents", "role", words(Role::ALL, Role::as_str)),
        ("agents", "status", words(AgentStatus::ALL, AgentStatus::as_str)),
        ("tasks", "status", words(TaskStatus::ALL, TaskStatus::as_str)),
        ("dependencies", "kind", words(DependencyKind::ALL, DependencyKind::as_str)),
        ("checkpoints", "kind", words(CheckpointKind::ALL, CheckpointKind::as_str)),
        ("messages", "kind", words(MessageKind::ALL, MessageKind::as_str)),
        ("messages", "priority", words(Urgency::ALL, Urgency::as_str)),
        ("notices", "news", words(News::ALL, News::as_str)),
        ("jobs", "status", words(JobStatus::ALL, JobStatus::as_str)),
        ("workspaces", "strategy", words(Strategy::ALL, Strategy::as_str)),
        ("workspaces", "status", words(WorkspaceStatus::ALL, WorkspaceStatus::as_str)),
        ("summaries", "kind", words(SummaryKind::ALL, SummaryKind::as_str)),
        ("messages", "state", words(MessageState::ALL, MessageState::as_str)),
    ];
    let expected: BTreeMap<_, _> =
        expected.into_iter().map(|(table, column, words)| ((table.to_owned(), column.to_owned()), words)).collect();
    assert_eq!(of_sqlite().words, expected);
    assert_eq!(of_postgres().words, expected);
}

#[test]
fn no_constraint_takes_null_for_json() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state.db");
    drop(SqliteStore::open(&path, sqlite::Options::default(), Box::new(clock())).unwrap());
    let file = rusqlite::Connection::open(&path).unwrap();
    let mut statement = file.prepare("SELECT sql FROM sqlite_schema WHERE type = 'table'").unwrap();
    let tables: Vec<String> = statement.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap();
    // Older versions of SQLite say that NULL is no valid JSON, and call the file damaged.
    let columns = tables.iter().flat_map(|table| table.split(['\n', ',']));
    let checked: Vec<&str> = columns.filter(|column| column.contains("CHECK (json_valid(")).collect();
    assert!(checked.len() > 10, "{checked:?}");
    for column in checked {
        assert!(column.contains("NOT NULL"), "{column}");
    }
}

#[test]
fn history_cannot_be_changed_even_with_sql() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state.db");
    let mut store = SqliteStore::open(&path, sqlite::Options::default(), Box::new(clock())).unwrap();
    crate::verbs::events::sequences_have_no_gaps_after_a_rollback(&mut store);
    let file = rusqlite::Connection::open(&path).unwrap();
    file.execute("UPDATE events SET actor = 'another'", []).unwrap_err();
    file.execute("DELETE FROM events", []).unwrap_err();

    let url = waypost_testkit::postgres_url();
    let mut store = PostgresStore::open(&url, postgres::Options::default()).unwrap();
    crate::verbs::events::sequences_have_no_gaps_after_a_rollback(&mut store);
    let (server, name) = url.rsplit_once("?schema=").unwrap();
    let mut client = Client::connect(server, NoTls).unwrap();
    for statement in ["UPDATE {}.events SET actor = 'another'", "DELETE FROM {}.events", "TRUNCATE {}.events"] {
        client.batch_execute(&statement.replace("{}", name)).unwrap_err();
    }
}

#[test]
fn the_log_stays_short_for_short_and_long_lived_processes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state.db");
    let open = || SqliteStore::open(&path, sqlite::Options::default(), Box::new(clock())).unwrap();
    let world = World::small(&mut Dice::new(1));
    write(&mut open(), |tx| world.put(tx));
    let log = || std::fs::metadata(dir.path().join("state.db-wal")).map_or(0, |log| log.len());
    // Another connection keeps the store open, so that SQLite does not delete the log on close.
    let _other = open();
    let append = |store: &mut SqliteStore| {
        write(store, |tx| tx.event_append(&world.event(&mut Dice::new(2))).unwrap());
        log()
    };
    for _ in 0..40 {
        let length = append(&mut open());
        assert!(length < 80 * 4_200, "after a write of a short-lived process: {length}");
    }
    let mut long_lived = open();
    let longest = (0..1_000).map(|_| append(&mut long_lived)).max().unwrap();
    assert!((1_900 * 4_096..2_100 * 4_200).contains(&longest), "while a process keeps it open: {longest}");
}

#[test]
fn a_store_syncs_every_commit() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&dir.path().join("state.db"), sqlite::Options::default(), Box::new(clock())).unwrap();
    let settings = store.info().unwrap().settings;
    assert!(settings.contains(&("synchronous", "full".to_owned())), "{settings:?}");
}
