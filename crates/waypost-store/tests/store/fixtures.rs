//! Stores of every earlier schema version are opened by today's program, and keep their rows.
//!
//! A fixture has the text of a version's migration and rows as programs of that version wrote them; those of all versions
//! up to one make a store of that version. A fixture is never edited once its version is released.

use std::path::PathBuf;

use ::postgres::{Client, NoTls};
use waypost_core::Kind;
use waypost_core::id::{JobId, RepositoryId, TaskId, WorkflowId, WorktreeId};
use waypost_core::model::{Reach, TaskStatus};
use waypost_core::store::Store;
use waypost_store::postgres::{self, PostgresStore};
use waypost_store::sqlite::{self, SqliteStore};

use crate::clock;

/// "WayP", as the files of all versions have it in their header.
const APPLICATION_ID: i32 = 0x5761_7950;

/// Returns the statements that make a store of a version.
fn statements(backend: &str, version: i64) -> String {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let text = |version: i64| {
        let file = dir.join(format!("{backend}-{version:04}.sql"));
        std::fs::read_to_string(&file).unwrap_or_else(|error| {
            let what = "it has the text of the migration, and rows for what is new";
            panic!("schema version {version} has no fixture {}: {error}; {what}", file.display())
        })
    };
    (1..=version).map(text).collect::<Vec<_>>().join("\n")
}

/// Creates a file as a program of this schema version left it.
fn sqlite_of(dir: &tempfile::TempDir, version: i32) -> PathBuf {
    let path = dir.path().join(format!("state-{version}.db"));
    let file = rusqlite::Connection::open(&path).unwrap();
    file.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(())).unwrap();
    file.execute_batch(&statements("sqlite", version.into())).unwrap();
    file.pragma_update(None, "application_id", APPLICATION_ID).unwrap();
    file.pragma_update(None, "user_version", version).unwrap();
    path
}

/// Creates a schema as a program of this version left it, and returns its URL.
fn postgres_of(version: i64) -> String {
    let url = waypost_testkit::postgres_url();
    let (server, name) = url.rsplit_once("?schema=").unwrap();
    let mut client = Client::connect(server, NoTls).unwrap();
    client
        .batch_execute(&format!(
            "CREATE SCHEMA IF NOT EXISTS \"{name}\"; SET search_path TO \"{name}\", pg_catalog, pg_temp;
            CREATE TABLE about (application TEXT NOT NULL, version BIGINT NOT NULL);
            INSERT INTO about VALUES ('waypost', {version}); {}",
            statements("postgres", version)
        ))
        .unwrap_or_else(|error| panic!("version {version}: {error:?}"));
    url
}

/// Checks that the rows of the fixture of a version are all there, and that the store can be written.
fn check_rows(store: &mut dyn Store, version: i64) {
    let mut tx = store.begin_read().unwrap();
    let repository = tx.repository_get(&"rp_aaaaaaaaaaaa".parse::<RepositoryId>().unwrap()).unwrap().unwrap();
    assert_eq!(repository.name, "door");
    let worktree = tx.worktree_get(&"wt_aaaaaaaaaaaa".parse::<WorktreeId>().unwrap()).unwrap().unwrap();
    assert_eq!(worktree.branch.as_deref(), Some("main"));
    if version >= 2 {
        let task = tx.task_get(&"tk_aaaaaaaaaaaa".parse::<TaskId>().unwrap()).unwrap().unwrap();
        assert_eq!((&*task.name, task.status), ("saw", TaskStatus::InProgress));
        let workflow = tx.workflow_get(&"wf_aaaaaaaaaaaa".parse::<WorkflowId>().unwrap()).unwrap().unwrap();
        // Workflows of earlier versions keep the reach that all had then.
        assert_eq!(workflow.reach, if version >= 6 { Reach::Worktree } else { Reach::Repository });
        assert_eq!(workflow.base.as_deref(), (version >= 5).then_some("main"));
        assert_eq!(tx.lease_list(None).unwrap().len(), 1);
        assert_eq!(tx.agent_named("ann").unwrap().unwrap().capabilities, ["carpentry"]);
    }
    if version >= 3 {
        let job = tx.job_get(&"jb_aaaaaaaaaaaa".parse::<JobId>().unwrap()).unwrap().unwrap();
        assert_eq!(job.exit_code, Some(0));
        // The machines of earlier jobs are known.
        let machines = tx.machine_list().unwrap();
        assert_eq!(machines.iter().map(|machine| &*machine.name).collect::<Vec<_>>(), ["workshop"]);
    }
    drop(tx);
    let mut tx = store.begin_write().unwrap();
    tx.worktree_put(&waypost_core::model::Worktree { branch: Some("other".to_owned()), ..worktree }).unwrap();
    tx.commit().unwrap();
}

#[test]
fn a_file_of_every_earlier_schema_version_is_migrated_with_its_rows() {
    let dir = tempfile::tempdir().unwrap();
    for version in 1..=sqlite::SCHEMA_VERSION {
        let path = sqlite_of(&dir, version);
        let mut store = SqliteStore::open(&path, sqlite::Options::default(), Box::new(clock())).unwrap();
        assert_eq!(store.check_schema().unwrap(), [], "version {version}");
        assert_eq!(store.check().unwrap(), [], "version {version}");
        check_rows(&mut store, version.into());
    }
}

#[test]
fn a_postgres_schema_of_every_earlier_version_is_migrated_with_its_rows() {
    for version in 1..=postgres::SCHEMA_VERSION {
        let url = postgres_of(version);
        let mut store = PostgresStore::open(&url, postgres::Options::default()).unwrap();
        check_rows(&mut store, version);
    }
}

#[test]
fn a_program_that_must_not_write_migrates_no_earlier_version() {
    let dir = tempfile::tempdir().unwrap();
    let path = sqlite_of(&dir, 4);
    let options = sqlite::Options { migrate: false, create: false, ..sqlite::Options::default() };
    assert_eq!(SqliteStore::open(&path, options, Box::new(clock())).err().unwrap().kind(), Kind::Unavailable);
    let file = rusqlite::Connection::open(&path).unwrap();
    let version: i32 = file.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
    assert_eq!(version, 4);
    let url = postgres_of(4);
    let options = postgres::Options { migrate: false, create: false, ..postgres::Options::default() };
    assert_eq!(PostgresStore::open(&url, options).err().unwrap().kind(), Kind::Unavailable);
}

#[test]
fn a_store_of_a_later_version_is_refused_with_a_clear_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = sqlite_of(&dir, sqlite::SCHEMA_VERSION);
    let newer = sqlite::SCHEMA_VERSION + 1;
    rusqlite::Connection::open(&path).unwrap().pragma_update(None, "user_version", newer).unwrap();
    let refused = SqliteStore::open(&path, sqlite::Options::default(), Box::new(clock())).err().unwrap();
    let url = postgres_of(postgres::SCHEMA_VERSION);
    let (server, name) = url.rsplit_once("?schema=").unwrap();
    let mut client = Client::connect(server, NoTls).unwrap();
    client.batch_execute(&format!("UPDATE \"{name}\".about SET version = {newer}")).unwrap();
    for refused in [refused, PostgresStore::open(&url, postgres::Options::default()).err().unwrap()] {
        let (message, hints) = (refused.full_message(), refused.hints().join(" "));
        assert!(message.contains(&format!("has schema version {newer}")), "{message}");
        assert!(hints.contains("upgrade this one"), "{hints}");
    }
}
