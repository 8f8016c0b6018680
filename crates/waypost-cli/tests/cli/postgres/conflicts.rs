//! Transactions of other programs that conflict with ours, and servers without a free connection.

use std::process::{Child, Command, Stdio};
use std::thread;

use serde_json::{Value, json};
use waypost_testkit::{Postgres, until};

use crate::serving::Server;
use crate::support::failover::{Machine, SCHEMA};

#[test]
fn f38_a_deadlock_with_another_program_is_resolved_by_trying_again() {
    let (machine, server) = (Machine::new(), Postgres::start(&["log_lock_waits = on"]));
    machine.plan(&server);
    // The other program has the row of the task, and asks for our lock as soon as a claim has that lock and waits for the row.
    // Its own patience is long, so PostgreSQL ends the claim's transaction.
    let other = format!(
        "SET LOCAL deadlock_timeout = '1min';
        SELECT count(*) FROM (SELECT 1 FROM {SCHEMA}.tasks FOR UPDATE) AS locked;
        DO $$ BEGIN
            WHILE NOT EXISTS (SELECT 1 FROM pg_locks WHERE NOT granted) LOOP PERFORM pg_sleep(0.01); END LOOP;
        END $$;
        LOCK TABLE {SCHEMA}.about IN EXCLUSIVE MODE"
    );
    thread::scope(|scope| {
        let other = scope.spawn(|| server.psql(&other));
        let locks = format!(
            "SELECT count(*) FROM pg_locks WHERE relation = '{SCHEMA}.tasks'::regclass AND mode = 'RowShareLock' AND granted"
        );
        until("the other program has the row", || server.psql(&locks).trim() == "1");
        assert_eq!(machine.claim(&server, "a", "one"), 1);
        other.join().unwrap();
    });
    let deadlocks = server.psql("SELECT pg_stat_force_next_flush(); SELECT sum(deadlocks) FROM pg_stat_database");
    assert!(deadlocks.trim().parse::<u32>().unwrap() >= 1, "{deadlocks}");
}

#[test]
fn f38_a_serialization_failure_is_retried_and_then_reported() {
    let (machine, server) = (Machine::new(), Postgres::start(&[]));
    machine.plan(&server);
    // Numbers of a sequence do not come back when a transaction ends, so the trigger counts its calls.
    let fail_until = |calls: u32| {
        server.psql(&format!(
            "DROP TRIGGER IF EXISTS conflict ON {SCHEMA}.tasks;
            DROP SEQUENCE IF EXISTS calls;
            CREATE SEQUENCE calls;
            CREATE OR REPLACE FUNCTION conflict() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                IF nextval('public.calls') < {calls} THEN
                    RAISE EXCEPTION 'could not serialize access' USING ERRCODE = 'serialization_failure';
                END IF;
                RETURN NEW;
            END $$;
            CREATE TRIGGER conflict BEFORE UPDATE ON {SCHEMA}.tasks FOR EACH ROW EXECUTE FUNCTION conflict()"
        ))
    };
    fail_until(3);
    assert_eq!(machine.claim(&server, "a", "one"), 1, "two failures are tried again");
    fail_until(1_000_000);
    let claim = ["task", "claim", "two", "--config", "store.wait=1s"];
    let error = machine.way(&server, "b", &claim).fails(8).stderr;
    assert!(error.contains("could not serialize access"), "{error}");
    let tried: u32 = server.psql("SELECT last_value FROM calls").trim().parse().unwrap();
    assert!((2..1_000).contains(&tried), "it was tried {tried} times");
    fail_until(0);
    assert_eq!(machine.claim(&server, "b", "two"), 1, "the failed claim had no effect");
}

#[test]
fn f39_a_server_heartbeats_and_releases_while_all_connections_are_in_use() {
    let postgres = Postgres::start(&["max_connections = 12", "client_connection_check_interval = 200ms"]);
    let url = postgres.url_of(SCHEMA);
    let server = Server::start(&["--db", &url]);
    let ann = |path: &str, body: &Value| server.ask("POST", path).with("Waypost-Agent", "ann").json(body).send().data();
    let workflow = json!({ "name": "w", "start": true, "plan": { "tasks": [{ "name": "one" }] } });
    server.post("/api/v1/workflows", &workflow).data();
    let held = json!({ "task": "one", "epoch": 1 });
    assert_eq!(ann("/api/v1/tasks/one/claim", &json!({}))["lease"]["epoch"], 1);
    let connect = || -> Child {
        let mut psql = Command::new("psql");
        psql.arg("--no-psqlrc").arg(url.split('?').next().unwrap()).args(["--command", "SELECT pg_sleep(600)"]);
        psql.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    let mut others: Vec<Child> = Vec::new();
    let direct = ["--db", &url, "--config", "store.wait=1s", "task", "list"];
    until("no connection is free", || {
        // One that came while another connection was about to close found none free.
        others.retain_mut(|other| other.try_wait().unwrap().is_none());
        others.extend((others.len()..12).map(|_| connect()));
        server.way(&direct).code == 8
    });
    let error = server.way(&direct).fails(8).stderr;
    assert!(error.contains("no free connection"), "{error}");
    ann("/api/v1/heartbeat", &held);
    ann("/api/v1/tasks/one/release", &json!({ "epoch": 1 }));
    for other in &mut others {
        other.kill().unwrap();
        other.wait().unwrap();
    }
    until("connections are free again", || server.way(&direct).code == 0);
}
