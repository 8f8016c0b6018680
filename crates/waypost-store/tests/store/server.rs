//! Tests of the PostgreSQL backend: opening, locking, lost connections, notifications, timeouts and TLS.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::postgres::{Client, NoTls};
use waypost_core::context::{Authority, Caller, LeaseTimes, Standing};
use waypost_core::engine;
use waypost_core::id::Entropy;
use waypost_core::model::{
    Agent, Dependency, DependencyKind, EventQuery, Lease, Message, MessageState, Task, TaskStatus, Workflow,
    WorkflowQuery, WorkflowStatus,
};
use waypost_core::op::{ListAgents, ListLeases, ListTasks, ListWorkflows, Register, ShowWorkStatus};
use waypost_core::redact::Secrets;
use waypost_core::store::Store;
use waypost_core::time::Timestamp;
use waypost_core::{Error, Kind};
use waypost_store::postgres::{Options, PostgresStore, SCHEMA_VERSION};
use waypost_testkit::{Postgres, postgres_url};

use crate::rows::{Dice, World};
use crate::verbs::failure;
use crate::{read, write};

fn open(url: &str) -> Result<PostgresStore, Error> {
    PostgresStore::open(url, Options::default())
}

/// Returns a direct connection to the database, and the name of the store's schema.
fn connect(url: &str) -> (Client, String) {
    let (server, schema) = url.rsplit_once("?schema=").unwrap();
    (Client::connect(server, NoTls).unwrap(), schema.to_owned())
}

/// Fills a store with the rows that others refer to.
fn filled(url: &str) -> (PostgresStore, World) {
    let mut store = open(url).unwrap();
    let world = World::small(&mut Dice::new(1));
    write(&mut store, |tx| world.put(tx));
    (store, world)
}

fn append(store: &mut dyn Store, world: &World) -> u64 {
    write(store, |tx| tx.event_append(&world.event(&mut Dice::new(1))).unwrap())
}

/// Terminates all sessions of the program that match a condition. Returns their number.
fn terminate(url: &str, condition: &str) -> i64 {
    let sessions = format!(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
        WHERE pid <> pg_backend_pid() AND application_name LIKE 'way, process %' AND ({condition})"
    );
    connect(url).0.query_one(&sessions, &[]).unwrap().get(0)
}

#[test]
fn p33_many_processes_can_open_a_new_schema_at_once() {
    let url = &postgres_url();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| read(&mut open(url).unwrap(), |tx| assert_eq!(tx.event_last().unwrap(), 0)));
        }
    });
    let info = open(url).unwrap().info().unwrap();
    assert_eq!(info.schema_version, SCHEMA_VERSION);
    assert!(info.rows.contains(&("events".to_owned(), 0)), "{info:?}");
    assert!(info.settings.contains(&("fsync", "on".to_owned())), "{info:?}");
}

#[test]
fn p33_a_newer_schema_is_refused_with_both_versions() {
    let url = postgres_url();
    let mut store = open(&url).unwrap();
    let (mut client, schema) = connect(&url);
    client.batch_execute(&format!("UPDATE {schema}.about SET version = 99")).unwrap();
    for error in [open(&url).err().unwrap(), store.begin_write().err().unwrap(), store.begin_read().err().unwrap()] {
        assert_eq!(error.kind(), Kind::Unavailable);
        for part in ["version 99".to_owned(), format!("up to {SCHEMA_VERSION}")] {
            assert!(error.to_string().contains(&part), "{error}");
        }
    }
}

#[test]
fn a_schema_of_another_program_is_refused() {
    for foreign in
        ["CREATE TABLE {}.foreign_table (x int)", "CREATE TABLE {}.about (x int)", "CREATE VIEW {}.v AS SELECT 1"]
    {
        let url = postgres_url();
        let (mut client, schema) = connect(&url);
        client.batch_execute(&format!("CREATE SCHEMA {schema}; {}", foreign.replace("{}", &schema))).unwrap();
        let error = open(&url).err().unwrap();
        assert_eq!(error.kind(), Kind::Invalid, "{}", error.full_message());
        let tables: i64 = client
            .query_one("SELECT count(*) FROM pg_tables WHERE schemaname = $1 AND tablename = 'events'", &[&schema])
            .unwrap()
            .get(0);
        assert_eq!(tables, 0, "no table of the store was left in it");
    }
}

#[test]
fn t37_a_role_needs_no_more_than_its_own_schema() {
    let server = Postgres::shared();
    let url = server.url();
    let (mut client, schema) = connect(&url);
    let role = format!("role_{schema}");
    client.batch_execute(&format!("CREATE ROLE {role} LOGIN")).unwrap();
    let role_url = url.replace("postgres://postgres@", &format!("postgres://{role}@"));
    let error = open(&role_url).err().unwrap();
    assert_eq!(error.kind(), Kind::Unavailable);
    assert!(error.hints().iter().any(|hint| hint.contains("CREATE SCHEMA")), "{error:?}");
    client.batch_execute(&format!("CREATE SCHEMA {schema} AUTHORIZATION {role}")).unwrap();
    drop(filled(&role_url));
    // A role with read access can read.
    let reader = format!("reader_{schema}");
    client
        .batch_execute(&format!(
            "CREATE ROLE {reader} LOGIN; GRANT USAGE ON SCHEMA {schema} TO {reader};
            GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {reader}"
        ))
        .unwrap();
    let reader_url = url.replace("postgres://postgres@", &format!("postgres://{reader}@"));
    let mut store = open(&format!("{reader_url}&owner={role}")).unwrap();
    assert_eq!(read(&mut store, |tx| tx.repository_list().unwrap().len()), 1);
    let error = store.begin_write().err().unwrap();
    assert_eq!(error.kind(), Kind::Unavailable, "{}", error.full_message());
}

/// A store of a role of its own, beside another role of the same database.
struct Neighbours {
    client: Client,
    schema: String,
    owner: String,
    other: String,
    url: String,
    other_url: String,
}

impl Neighbours {
    fn new() -> Neighbours {
        let url = Postgres::shared().url();
        let (mut client, schema) = connect(&url);
        let (owner, other) = (format!("owner_{schema}"), format!("other_{schema}"));
        client
            .batch_execute(&format!(
                "CREATE ROLE {owner} LOGIN; CREATE ROLE {other} LOGIN; CREATE SCHEMA {schema} AUTHORIZATION {owner};
                CREATE SCHEMA of_{other} AUTHORIZATION {other};"
            ))
            .unwrap();
        let url_of = |role: &str| url.replace("postgres://postgres@", &format!("postgres://{role}@"));
        let (url, other_url) = (url_of(&owner), url_of(&other));
        Neighbours { client, schema, owner, other, url, other_url }
    }

    /// Runs SQL as a role.
    fn run_as(&mut self, role: &str, sql: &str) -> Result<(), ::postgres::Error> {
        let sql = sql.replace("{schema}", &self.schema).replace("{other}", &self.other).replace("{owner}", &self.owner);
        self.client.batch_execute(&format!("SET ROLE {role}"))?;
        let result = self.client.batch_execute(&sql);
        self.client.batch_execute("RESET ROLE")?;
        result
    }
}

#[test]
fn a_store_of_a_role_that_is_not_trusted_is_refused() {
    let mut two = Neighbours::new();
    let (url, owner) = (two.url.clone(), two.owner.clone());
    drop(filled(&url));
    two.run_as(
        &owner,
        "GRANT USAGE ON SCHEMA {schema} TO {other}; GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO {other}",
    )
    .unwrap();
    let superuser_url = url.replace(&format!("{owner}@"), "postgres@");
    for foreign in [&two.other_url, &superuser_url] {
        let error = open(foreign).err().unwrap();
        assert_eq!(error.kind(), Kind::Refused, "{}", error.full_message());
        let (expected, hint) = (format!("belongs to the role {owner}"), format!("owner={owner}"));
        assert!(error.to_string().contains(&expected), "{error}");
        assert!(error.hints().iter().any(|known| known.contains(&hint)), "{error:?}");
        drop(open(&format!("{foreign}&owner={owner}")).unwrap());
        open(&format!("{foreign}&owner=x%27%20OR%20%27%27%3D%27")).err().unwrap();
    }
    // A role that has the rights of the owner trusts it.
    let other = two.other.clone();
    two.client.batch_execute(&format!("GRANT {owner} TO {other}")).unwrap();
    drop(open(&two.other_url).unwrap());
}

#[test]
fn foreign_tables_functions_triggers_rules_and_row_policies_are_refused() {
    let mut two = Neighbours::new();
    let (url, owner, other) = (two.url.clone(), two.owner.clone(), two.other.clone());
    drop(filled(&url));
    two.run_as(&owner, "GRANT USAGE, CREATE ON SCHEMA {schema} TO {other}; GRANT TRIGGER ON {schema}.tasks TO {other}")
        .unwrap();
    let function = "CREATE FUNCTION of_{other}.spy() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;";
    let trigger =
        format!("{function} CREATE TRIGGER spy BEFORE INSERT ON {{schema}}.tasks EXECUTE FUNCTION of_{{other}}.spy()");
    for (by, add, remove, expected) in [
        (&other, trigger.as_str(), "DROP FUNCTION of_{other}.spy CASCADE", "the trigger spy on tasks runs a function"),
        (&other, "CREATE TABLE {schema}.extra (x int)", "DROP TABLE {schema}.extra", "extra belongs to the role"),
        (
            &other,
            "CREATE FUNCTION {schema}.f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
            "DROP FUNCTION {schema}.f",
            "f() belongs to the role",
        ),
        (
            &owner,
            "CREATE RULE quiet AS ON DELETE TO {schema}.tasks DO INSTEAD NOTHING",
            "DROP RULE quiet ON {schema}.tasks",
            "the table tasks has the rule quiet",
        ),
        (
            &owner,
            "ALTER TABLE {schema}.leases ENABLE ROW LEVEL SECURITY",
            "ALTER TABLE {schema}.leases DISABLE ROW LEVEL SECURITY",
            "the table leases has row security",
        ),
    ] {
        two.run_as(by, add).unwrap();
        let error = open(&url).err().unwrap();
        assert_eq!(error.kind(), Kind::Refused, "{}", error.full_message());
        assert!(error.to_string().contains(expected), "{error}");
        two.run_as("postgres", remove).unwrap();
        drop(open(&url).unwrap());
    }
}

#[test]
fn a_role_without_rights_holds_no_lock_that_writers_wait_for() {
    let mut two = Neighbours::new();
    let (url, other) = (two.url.clone(), two.other.clone());
    let (store, world) = filled(&url);
    drop(store);
    // The number of the lock that writers took before, and any other small one.
    let fnv = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let number = format!("waypost {}", two.schema).bytes().fold(0xcbf2_9ce4_8422_2325, fnv).cast_signed();
    let mut neighbour = Client::connect(two.other_url.split('?').next().unwrap(), NoTls).unwrap();
    let locks = format!("SELECT pg_advisory_lock({number}), count(pg_advisory_lock(n)) FROM generate_series(0, 999) n");
    neighbour.query_one(&locks, &[]).unwrap();
    let locked = neighbour.batch_execute(&format!("BEGIN; LOCK TABLE {}.about IN ACCESS SHARE MODE", two.schema));
    assert!(locked.is_err(), "{other} has no right to lock the table of the writers' lock");
    let mut store =
        PostgresStore::open(&url, Options { timeout: Duration::from_secs(5), create: false, migrate: true }).unwrap();
    let last = append(&mut store, &world);
    // Anyone can notify listeners; they only read the store again.
    neighbour.batch_execute("ROLLBACK").unwrap();
    let number = number.cast_unsigned();
    neighbour.batch_execute(&format!("NOTIFY waypost_{number:016x}, 'forged'")).unwrap();
    store.wait(last, Duration::from_millis(50)).unwrap();
    assert_eq!(append(&mut store, &world), last + 1);
    // A role that may read cannot block writers either.
    two.run_as(
        "postgres",
        "GRANT USAGE ON SCHEMA {schema} TO {other}; GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {other}",
    )
    .unwrap();
    neighbour.batch_execute(&format!("BEGIN; LOCK TABLE {}.about IN ACCESS SHARE MODE", two.schema)).unwrap();
    assert_eq!(append(&mut store, &world), last + 2);
}

#[test]
fn the_documented_grants_are_enough() {
    let server = Postgres::start(&[]);
    let url = server.url_of("waypost");
    let mut client = connect(&url).0;
    let documents = include_str!("../../../../docs/limits.md");
    let grants = documents.split("```sql\n").nth(1).unwrap().split("```").next().unwrap();
    client.batch_execute(grants).unwrap();
    let url_of = |role: &str| url.replace("postgres://postgres@", &format!("postgres://{role}@"));
    let owned = format!("{}&owner=way_owner", url_of("way_worker"));
    assert_eq!(open(&owned).err().unwrap().kind(), Kind::Unavailable, "only the owner creates the tables");
    drop(open(&url_of("way_owner")).unwrap());
    let (mut store, world) = filled(&owned);
    let last = append(&mut store, &world);
    assert_eq!(open(&url_of("way_worker")).err().unwrap().kind(), Kind::Refused);
    let mut reader = open(&format!("{}&owner=way_owner", url_of("way_reader"))).unwrap();
    assert_eq!(read(&mut reader, |tx| tx.event_last().unwrap()), last);
    assert_eq!(reader.begin_write().err().unwrap().kind(), Kind::Unavailable);
    let mut worker = Client::connect(url_of("way_worker").split('?').next().unwrap(), NoTls).unwrap();
    for refused in [
        "CREATE TABLE waypost.mine (x int)",
        "CREATE TRIGGER t BEFORE INSERT ON waypost.events EXECUTE FUNCTION waypost.events_are_kept()",
        "TRUNCATE waypost.events CASCADE",
        "DROP TABLE waypost.events",
        "DELETE FROM waypost.events",
    ] {
        assert!(worker.batch_execute(refused).is_err(), "{refused}");
    }
    // The owner may run the same statements again after an upgrade.
    let again = grants.lines().filter(|line| !line.starts_with("CREATE")).collect::<Vec<_>>().join("\n");
    client.batch_execute(&again).unwrap();
}

#[test]
fn t37_the_settings_of_a_role_or_a_session_change_nothing() {
    let server = Postgres::shared();
    let url = server.url();
    let (store, world) = filled(&url);
    drop(store);
    let (mut client, schema) = connect(&url);
    let role = format!("odd_{schema}");
    client
        .batch_execute(&format!(
            "CREATE ROLE {role} SUPERUSER LOGIN; CREATE SCHEMA evil_{schema};
            CREATE TABLE evil_{schema}.events (LIKE {schema}.events);
            ALTER ROLE {role} SET search_path TO evil_{schema}; ALTER ROLE {role} SET synchronous_commit TO off;
            ALTER ROLE {role} SET default_transaction_isolation TO 'serializable';
            ALTER ROLE {role} SET default_transaction_read_only TO on;
            CREATE TABLE {schema}.seen (settings text);
            CREATE FUNCTION {schema}.record() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                INSERT INTO {schema}.seen SELECT string_agg(name || '=' || current_setting(name), ' ')
                FROM unnest(ARRAY['search_path', 'synchronous_commit', 'transaction_isolation', 'lock_timeout',
                    'statement_timeout', 'idle_in_transaction_session_timeout', 'client_connection_check_interval'])
                    AS name WHERE current_setting(name, true) IS NOT NULL;
                RETURN NULL; END $$;
            CREATE TRIGGER record AFTER INSERT ON {schema}.events EXECUTE FUNCTION {schema}.record();"
        ))
        .unwrap();
    let mut store = open(&url.replace("postgres://postgres@", &format!("postgres://{role}@"))).unwrap();
    append(&mut store, &world);
    let seen: String = client.query_one(&format!("SELECT settings FROM {schema}.seen"), &[]).unwrap().get(0);
    for part in [
        &format!("search_path=pg_catalog, {schema}, pg_temp"),
        "synchronous_commit=on",
        "transaction_isolation=read committed",
        "lock_timeout=30s",
        "statement_timeout=45s",
        "idle_in_transaction_session_timeout=10s",
    ] {
        assert!(seen.contains(part), "{part} is not in {seen}");
    }
    assert!(!seen.contains("client_connection_check_interval=0"), "{seen}");
}

#[test]
fn a_timeout_on_the_lock_names_its_holder() {
    let url = postgres_url();
    let (mut holder, world) = filled(&url);
    let mut other = open(&url).unwrap();
    other.set_timeout(Duration::from_millis(100));
    let mut tx = holder.begin_write().unwrap();
    tx.event_append(&world.event(&mut Dice::new(1))).unwrap();
    assert_eq!(read(&mut other, |tx| tx.event_last().unwrap()), 0, "readers do not wait");
    let error = other.begin_write().err().unwrap();
    assert_eq!((error.kind(), error.is_transient()), (Kind::Unavailable, true));
    let holder = format!("way, process {}", std::process::id());
    assert!(error.full_message().contains(&holder), "{}", error.full_message());
    tx.commit().unwrap();
    assert_eq!(append(&mut other, &world), 2, "the same connection still works");
}

#[test]
fn a_read_transaction_sees_one_snapshot() {
    let url = postgres_url();
    let (mut store, world) = filled(&url);
    let mut other = open(&url).unwrap();
    let mut tx = store.begin_read().unwrap();
    assert_eq!(tx.event_last().unwrap(), 0);
    append(&mut other, &world);
    assert_eq!(tx.event_last().unwrap(), 0);
    assert_eq!(tx.event_list(&EventQuery { since: Some(0), limit: 9, ..EventQuery::default() }).unwrap(), []);
    assert!(failure(&mut *tx, |tx| tx.repository_put(&world.repositories[0])).is_some());
    drop(tx);
    assert_eq!(read(&mut store, |tx| tx.event_last().unwrap()), 1);
}

#[test]
fn a_store_uses_the_clock_of_the_server() {
    let url = postgres_url();
    let mut store = open(&url).unwrap();
    let mut client = connect(&url).0;
    let mut server_time = || -> i64 {
        let now = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint";
        client.query_one(now, &[]).unwrap().get(0)
    };
    let before = server_time();
    let now = write(&mut store, |tx| tx.now().unwrap()).as_millis();
    assert!((before..=server_time()).contains(&now));
}

#[test]
fn f33_a_lost_connection_is_replaced_and_the_error_states_the_outcome() {
    let server = Postgres::start(&[]);
    let url = server.url();
    let (mut store, world) = filled(&url);
    let event = world.event(&mut Dice::new(1));

    assert_eq!(terminate(&url, "true"), 1);
    assert_eq!(append(&mut store, &world), 1, "lost between two transactions");

    let mut tx = store.begin_write().unwrap();
    terminate(&url, "true");
    let error = failure(&mut *tx, |tx| tx.event_append(&event).map(drop)).unwrap();
    assert_eq!((error.kind(), error.is_transient()), (Kind::Unavailable, true), "{error:?}");
    drop(tx);

    let mut tx = store.begin_write().unwrap();
    assert_eq!(tx.event_append(&event).unwrap(), 2);
    terminate(&url, "true");
    let error = tx.commit().unwrap_err();
    assert_eq!((error.kind(), error.is_outcome_unknown()), (Kind::Unavailable, true), "{error:?}");
    assert_eq!(read(&mut store, |tx| tx.event_last().unwrap()), 1, "the commit had no effect in this case");

    server.crash();
    assert_eq!(append(&mut store, &world), 2, "the connection is replaced after a crash of the server");
}

#[test]
fn the_server_releases_the_lock_of_a_writer_that_dies() {
    let server = Postgres::start(&[]);
    let url = server.url();
    let (mut store, world) = filled(&url);
    let mut other = open(&url).unwrap();
    let mut tx = other.begin_write().unwrap();
    tx.event_append(&world.event(&mut Dice::new(1))).unwrap();
    terminate(&url, "state = 'idle in transaction'");
    assert_eq!(append(&mut store, &world), 1);
}

#[test]
fn f36_a_wait_ends_although_the_notification_is_lost() {
    let server = Postgres::start(&[]);
    let url = server.url();
    let (mut store, world) = filled(&url);
    let mut waiting = open(&url).unwrap();
    // There is no event yet: the wait returns when the time is up, and the listener stays connected.
    waiting.wait(0, Duration::from_millis(10)).unwrap();
    for (sequence, loses_listener) in [(1, false), (2, true), (3, false)] {
        if loses_listener {
            assert_eq!(terminate(&url, "query LIKE 'LISTEN %'"), 1);
        }
        std::thread::scope(|scope| {
            let listener = scope.spawn(|| {
                let start = Instant::now();
                waiting.wait(sequence - 1, Duration::from_mins(1)).unwrap();
                start.elapsed()
            });
            assert_eq!(append(&mut store, &world), sequence);
            let waited = listener.join().unwrap();
            assert!(waited < Duration::from_secs(10), "{waited:?}");
        });
        assert_eq!(read(&mut waiting, |tx| tx.event_last().unwrap()), sequence);
    }
}

/// Opens a store with a timeout for requests.
fn open_for(url: &str, timeout: Duration) -> Result<PostgresStore, Error> {
    PostgresStore::open(url, Options { timeout, ..Options::default() })
}

#[test]
fn opening_retries_an_unavailable_server_until_the_timeout_and_never_shows_the_password() {
    let timeout = Duration::from_millis(300);
    for url in ["postgres://me:secret@127.0.0.1:1/way", "postgres://me:secret@%2Fnowhere/way"] {
        let start = Instant::now();
        let error = open_for(url, timeout).err().unwrap();
        assert!((timeout..Duration::from_secs(20)).contains(&start.elapsed()), "{:?}", start.elapsed());
        assert_eq!(error.kind(), Kind::Unavailable);
        assert!(!format!("{error:?} {}", error.full_message()).contains("secret"), "{error:?}");
    }
    // A wrong database name is not retried.
    let start = Instant::now();
    let url = postgres_url().replace("/postgres?", "/nosuch?");
    assert_eq!(open(&url).err().unwrap().kind(), Kind::Unavailable);
    assert!(start.elapsed() < Duration::from_secs(20));
}

struct Zeros;

impl Entropy for Zeros {
    fn fill(&mut self, bytes: &mut [u8]) {
        bytes.fill(0);
    }
}

fn caller_of(world: &World) -> Caller {
    Caller {
        actor: "tester".to_owned(),
        agent: None,
        repository: Arc::new(world.repositories[0].clone()),
        worktree: Arc::new(world.worktrees[0].clone()),
        standing: Standing::MainWorktree,
        is_shared: true,
        lease_times: LeaseTimes::default(),
        authority: Authority::User,
        secrets: Secrets::default(),
    }
}

#[test]
fn all_attempts_at_a_request_share_one_timeout() {
    let server = Postgres::start(&[]);
    let (mut store, world) = filled(&server.url());
    let caller = caller_of(&world);
    let timeout = Duration::from_secs(1);
    store.set_timeout(timeout);
    server.stop();
    let bounded = |what: &str, start: Instant, error: &Error| {
        assert_eq!(error.kind(), Kind::Unavailable, "{what}: {error:?}");
        let took = start.elapsed();
        assert!((timeout..timeout * 3).contains(&took), "{what} took {took:?}");
    };
    let start = Instant::now();
    let error = engine::write(&mut store, &caller, &mut Zeros, None, Register {}).unwrap_err();
    bounded("a write", start, &error);
    let start = Instant::now();
    bounded("a read", start, &engine::query(&mut store, |tx| tx.worktree_list()).unwrap_err());
    // The server stops during a request.
    server.resume();
    let mut attempts = 0;
    let mut start = Instant::now();
    let error = engine::query(&mut store, |tx| {
        attempts += 1;
        server.stop();
        start = Instant::now();
        tx.worktree_list()
    });
    assert_eq!(attempts, 1, "no second transaction began without a server");
    let took = start.elapsed();
    assert_eq!(error.unwrap_err().kind(), Kind::Unavailable);
    assert!(took < timeout * 3, "the request took {took:?}");
}

#[test]
fn a_request_to_a_frozen_server_ends_soon_after_its_deadline() {
    let server = Postgres::start(&[]);
    let url = server.url();
    let (mut store, world) = filled(&url);
    let caller = caller_of(&world);
    let timeout = Duration::from_secs(2);
    store.set_timeout(timeout);
    let bounded = |what: &str, start: Instant, error: &Error| {
        assert_eq!(error.kind(), Kind::Unavailable, "{what}: {error:?}");
        let took = start.elapsed();
        assert!(took < timeout + Duration::from_secs(2), "{what} took {took:?}: {}", error.full_message());
    };
    // After a timeout, requests fail at once for a moment, so that a command with several requests does not wait for each.
    let until_answered = |store: &mut PostgresStore| {
        let start = Instant::now();
        while let Err(error) = engine::query(store, |tx| tx.worktree_list()) {
            assert!(start.elapsed() < Duration::from_mins(1), "{error:?}");
        }
    };
    for is_write in [false, true] {
        let frozen = server.freeze();
        let start = Instant::now();
        for what in ["the first", "the next"] {
            let error = if is_write {
                engine::write(&mut store, &caller, &mut Zeros, None, Register {}).unwrap_err()
            } else {
                engine::query(&mut store, |tx| tx.worktree_list()).unwrap_err()
            };
            bounded(what, start, &error);
            assert!(!error.is_outcome_unknown(), "{what}: no commit was sent");
        }
        drop(frozen);
        until_answered(&mut store);
    }
    {
        let _frozen = server.freeze();
        let start = Instant::now();
        bounded("opening", start, &open_for(&url, timeout).err().unwrap());
    }
    // The server freezes during a request.
    let mut frozen = None;
    let mut start = Instant::now();
    let error = engine::query(&mut store, |tx| {
        start = Instant::now();
        frozen = Some(server.freeze());
        tx.worktree_list()
    });
    bounded("reading", start, &error.unwrap_err());
    drop(frozen);
    until_answered(&mut store);
    // The outcome of a commit is unknown.
    let mut tx = store.begin_write().unwrap();
    tx.event_append(&world.event(&mut Dice::new(1))).unwrap();
    let frozen = server.freeze();
    let start = Instant::now();
    let error = tx.commit().unwrap_err();
    bounded("committing", start, &error);
    assert!(error.is_outcome_unknown(), "{error:?}");
    drop(frozen);
    until_answered(&mut store);
    append(&mut store, &world);
}

#[test]
fn a_statement_of_a_slow_server_may_take_longer_than_the_timeout() {
    let server = Postgres::start(&[]);
    let url = server.url();
    let (mut store, world) = filled(&url);
    let (mut client, schema) = connect(&url);
    client
        .batch_execute(&format!(
            "CREATE FUNCTION {schema}.slow() RETURNS trigger LANGUAGE plpgsql
                AS $$ BEGIN PERFORM pg_catalog.pg_sleep(4); RETURN NEW; END $$;
            CREATE TRIGGER slow BEFORE INSERT ON {schema}.events FOR EACH ROW EXECUTE FUNCTION {schema}.slow()"
        ))
        .unwrap();
    let timeout = Duration::from_millis(500);
    store.set_timeout(timeout);
    let start = Instant::now();
    let sequence = append(&mut store, &world);
    assert!(start.elapsed() > timeout * 4);
    assert_eq!(read(&mut store, |tx| tx.event_last().unwrap()), sequence);
}

#[test]
fn requests_wait_for_a_server_that_restarts() {
    let server = Postgres::start(&[]);
    let url = server.url();
    let (mut store, _) = filled(&url);
    let mut attempts = 0;
    let rows = engine::query(&mut store, |tx| {
        attempts += 1;
        if attempts == 1 {
            server.crash();
        }
        tx.worktree_list()
    });
    assert_eq!((attempts, rows.unwrap().len()), (2, 1), "a read is sent again");
    server.stop();
    std::thread::scope(|scope| {
        let fresh = scope.spawn(|| open(&url).and_then(|mut store| engine::query(&mut store, |tx| tx.event_last())));
        server.resume();
        assert_eq!(fresh.join().unwrap().unwrap(), 0);
    });
}

#[test]
fn names_too_long_for_an_index_are_refused() {
    let url = postgres_url();
    let (mut store, world) = filled(&url);
    let dice = &mut Dice::new(3);
    // Incompressible text.
    let name: String = (0..9_000).map(|_| char::from(b'!' + u8::try_from(dice.roll(90)).unwrap())).collect();
    let mut tx = store.begin_write().unwrap();
    let agent = waypost_core::model::Agent { name, ..world.agent(dice) };
    let error = failure(&mut *tx, |tx| tx.agent_put(&agent)).unwrap();
    assert_eq!(error.kind(), Kind::Invalid);
}

#[test]
fn t37_the_certificate_of_a_server_is_verified_where_the_url_requires_it() {
    let server = Postgres::start(&[]);
    let certificates = server.dir().join("data");
    make_certificates(&certificates);
    let port = {
        let probe = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        probe.local_addr().unwrap().port()
    };
    let (mut client, _) = connect(&server.url());
    for setting in ["ssl = on".to_owned(), "listen_addresses = '127.0.0.1'".to_owned(), format!("port = {port}")] {
        client.batch_execute(&format!("ALTER SYSTEM SET {setting}")).unwrap();
    }
    drop(client);
    server.crash();
    let authority = certificates.join("authority.crt").display().to_string().replace('/', "%2F");
    let url = |host: &str, parameters: &str| {
        format!("postgres://postgres@{host}:{port}/postgres?schema=secure&sslmode=verify-full{parameters}")
    };
    let mut store = open(&url("localhost", &format!("&sslrootcert={authority}"))).unwrap();
    assert_eq!(read(&mut store, |tx| tx.event_last().unwrap()), 0);
    let (mut client, _) = connect(&format!("postgres://postgres@127.0.0.1:{port}/postgres?schema=secure"));
    let encrypted: i64 = client.query_one("SELECT count(*) FROM pg_stat_ssl WHERE ssl", &[]).unwrap().get(0);
    assert_eq!(encrypted, 1);
    for (host, parameters) in [("localhost", String::new()), ("127.0.0.1", format!("&sslrootcert={authority}"))] {
        let error = open(&url(host, &parameters)).err().unwrap();
        assert_eq!(error.kind(), Kind::Unavailable);
        assert!(error.full_message().contains("certificate"), "{}", error.full_message());
        assert!(!error.is_retriable());
    }
}

/// Creates an authority and a certificate for `localhost`, owned by the server's user.
fn make_certificates(dir: &Path) {
    let script = "
        openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=authority \\
            -keyout authority.key -out authority.crt &&
        openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=localhost \\
            -keyout server.key -out server.csr &&
        echo subjectAltName=DNS:localhost > names &&
        openssl x509 -req -in server.csr -CA authority.crt -CAkey authority.key -CAcreateserial -days 2 \\
            -extfile names -out server.crt &&
        chown --reference=. server.key server.crt && chmod 600 server.key";
    let made = Command::new("sh").args(["-c", script]).current_dir(dir).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

/// Returns the number of statements that a server has run so far, according to its log.
fn statements(server: &Postgres) -> usize {
    let log = std::fs::read_to_string(server.dir().join("log")).unwrap();
    log.lines().filter(|line| line.contains(" execute ") || line.contains("statement: ")).count()
}

#[test]
fn tasks_and_workflows_are_listed_with_few_statements_however_many_there_are() {
    let server = Postgres::start(&["log_statement = 'all'"]);
    let (mut store, mut world) = filled(&server.url());
    let caller = caller_of(&world);
    let dice = &mut Dice::new(5);
    let mut counts = Vec::new();
    for round in 0..3 {
        write(&mut store, |tx| {
            let workflow = Workflow { status: WorkflowStatus::InProgress, ..world.workflow(dice) };
            tx.workflow_put(&workflow).unwrap();
            world.workflows = vec![workflow.clone()];
            for number in 0..=round * 20 {
                let task = Task {
                    name: format!("{round} {number}"),
                    workflow_id: workflow.id.clone(),
                    assignee: Some(world.agents[0].id.clone()),
                    ..world.task(dice)
                };
                tx.task_put(&task).unwrap();
                world.tasks = vec![task];
                tx.lease_put(&Lease { holder: Some(world.agents[0].id.clone()), ..world.lease(dice) }).unwrap();
            }
        });
        let before = statements(&server);
        let listed = engine::read(&mut store, &caller, &mut Zeros, first_task()).unwrap();
        assert_eq!(listed.tasks.len(), 1);
        let between = statements(&server);
        let query = WorkflowQuery { limit: 100, ..WorkflowQuery::default() };
        engine::read(&mut store, &caller, &mut Zeros, ListWorkflows { query }).unwrap();
        counts.push((between - before, statements(&server) - between));
    }
    let (tasks, workflows): (Vec<_>, Vec<_>) = counts.into_iter().unzip();
    assert!(workflows.iter().all(|count| *count == workflows[0]), "{workflows:?}");
    // A list of tasks reads workflows in steps, each twice as large as the one before, until it has counted enough tasks.
    assert!(tasks.iter().all(|count| *count <= 14), "{tasks:?}");
    write(&mut store, |tx| {
        for _ in 0..60 {
            let workflow = Workflow { status: WorkflowStatus::InProgress, ..world.workflow(dice) };
            tx.workflow_put(&workflow).unwrap();
        }
    });
    let before = statements(&server);
    engine::read(&mut store, &caller, &mut Zeros, first_task()).unwrap();
    let for_many = statements(&server) - before;
    assert!(for_many <= 14 + 2 * 5, "{for_many}");
}

fn first_task() -> ListTasks {
    ListTasks {
        workflow: None,
        statuses: Vec::new(),
        claimable: false,
        worktree_id: None,
        repository: None,
        here: false,
        limit: 1,
        after: None,
    }
}

#[test]
fn status_agents_and_leases_take_as_many_statements_for_many_as_for_one() {
    let server = Postgres::start(&["log_statement = 'all'"]);
    let (mut store, mut world) = filled(&server.url());
    let caller = Caller { actor: world.agents[0].name.clone(), ..caller_of(&world) };
    let dice = &mut Dice::new(6);
    let later = Timestamp::from_millis(i64::MAX / 2);
    let statuses = [TaskStatus::InProgress, TaskStatus::WaitingInput, TaskStatus::Paused, TaskStatus::Pending];
    let mut counts = Vec::new();
    for round in 0..3 {
        write(&mut store, |tx| {
            for number in 0..=round * 10 {
                let agent = Agent { name: format!("{round} {number}"), retired_at: None, ..world.agent(dice) };
                tx.agent_put(&agent).unwrap();
                let workflow = Workflow { status: WorkflowStatus::InProgress, ..world.workflow(dice) };
                tx.workflow_put(&workflow).unwrap();
                for status in statuses {
                    let (name, workflow_id) = (format!("{status:?}"), workflow.id.clone());
                    let task = Task { name, status, workflow_id, ..world.task(dice) };
                    tx.task_put(&task).unwrap();
                    let (task_id, depends_on) = (task.id.clone(), world.tasks[0].id.clone());
                    tx.dependency_put(&Dependency { task_id, depends_on, kind: DependencyKind::Informs }).unwrap();
                    let (subject, holder) = (task.id.to_string(), Some(agent.id.clone()));
                    let lease = Lease {
                        subject,
                        holder,
                        expires_at: later,
                        run_until: None,
                        stall_at: None,
                        ..world.lease(dice)
                    };
                    tx.lease_put(&lease).unwrap();
                }
                let (recipient, sender) = (world.agents[0].id.clone(), agent.id.clone());
                let message =
                    Message { recipient, sender, state: MessageState::Queued, expires_at: None, ..world.message(dice) };
                tx.message_put(&message).unwrap();
                world.messages.push(message);
            }
        });
        let mut seen = vec![statements(&server)];
        let status =
            engine::read(&mut store, &caller, &mut Zeros, ShowWorkStatus { limit: 100, ..ShowWorkStatus::default() })
                .unwrap();
        seen.push(statements(&server));
        let list = ListAgents {
            role: None,
            capability: None,
            status: None,
            retired: true,
            worktree_id: None,
            repository: None,
            after: None,
            limit: u32::MAX,
        };
        let agents = engine::read(&mut store, &caller, &mut Zeros, list).unwrap().agents;
        seen.push(statements(&server));
        let leases = engine::read(&mut store, &caller, &mut Zeros, ListLeases {}).unwrap().leases;
        seen.push(statements(&server));
        let made = [1, 12, 33][round];
        assert_eq!((agents.len(), leases.len()), (made + 1, made * statuses.len()));
        assert_eq!([status.questions.len(), status.working.len(), status.messages.len()], [made; 3]);
        assert_eq!(status.ready.len(), made + world.tasks.len());
        assert!(status.questions.iter().all(|task| task.holder.is_some()));
        counts.push(seen.windows(2).map(|pair| pair[1] - pair[0]).collect::<Vec<_>>());
    }
    assert_eq!(counts[0], counts[1], "{counts:?}");
    assert_eq!(counts[1], counts[2], "{counts:?}");
}
