//! A PostgreSQL server that is frozen: its connections stay open, and nothing answers.

use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use waypost_testkit::{Postgres, Run, until};

use crate::serving::Server;
use crate::support::failover::{Machine, SCHEMA};

const WAIT: Duration = Duration::from_secs(3);

/// How much longer than `store.wait` a command may take.
const MAX_DELAY: Duration = Duration::from_secs(2);

const SETTING: [&str; 2] = ["--config", "store.wait=3s"];

const COMMANDS: [&[&str]; 2] = [&["task", "list"], &["task", "claim", "one"]];

#[track_caller]
fn check_timed_out(run: Run, since: Instant) {
    let took = since.elapsed();
    let run = run.fails(8);
    assert!(run.stderr.contains("the server did not answer for"), "{}", run.stderr);
    assert!(took < WAIT + MAX_DELAY, "it took {took:?}: {}", run.stderr);
}

#[test]
fn a_command_to_a_frozen_server_fails_soon_after_its_timeout() {
    let (machine, server) = (Machine::new(), Postgres::start(&[]));
    machine.plan(&server);
    let frozen = server.freeze();
    for command in COMMANDS {
        let since = Instant::now();
        check_timed_out(machine.way(&server, "a", &[command, &SETTING].concat()), since);
    }
    drop(frozen);
    assert_eq!(machine.claim(&server, "a", "one"), 1);
}

#[test]
fn a_running_command_fails_when_the_server_freezes() {
    let (machine, server) = (Machine::new(), Postgres::start(&[]));
    machine.plan(&server);
    let spawn = |command: &[&str]| -> Child {
        let mut way = machine.sandbox.way_command(&machine.repo);
        way.env("WAYPOST_DB", server.url_of(SCHEMA)).env("WAYPOST_AGENT", "a").args(command).args(SETTING);
        way.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    thread::scope(|scope| {
        // Both commands wait for this lock when the server freezes.
        let locks = |condition: &str| {
            let count =
                format!("SELECT count(*) FROM pg_locks WHERE relation = '{SCHEMA}.tasks'::regclass AND {condition}");
            server.psql(&count).trim().to_owned()
        };
        scope.spawn(|| server.psql(&format!("LOCK TABLE {SCHEMA}.tasks; SELECT pg_sleep(8)")));
        until("the table is locked", || locks("mode = 'AccessExclusiveLock' AND granted") == "1");
        let commands = COMMANDS.map(spawn);
        until("the commands wait for the lock", || locks("NOT granted") == "2");
        let frozen = server.freeze();
        let since = Instant::now();
        for command in commands {
            check_timed_out(Run::of(&command.wait_with_output().unwrap()), since);
        }
        drop(frozen);
    });
    assert_eq!(machine.claim(&server, "a", "one"), 1, "the claim that timed out has no effect");
}

#[test]
fn concurrent_requests_to_way_serve_time_out_together_on_a_frozen_server() {
    let postgres = Postgres::start(&[]);
    let url = postgres.url_of(SCHEMA);
    let server = Server::start(&[&["--db", &url], &SETTING[..]].concat());
    let create = |name: &str| server.post("/api/v1/workflows", &json!({ "name": name }));
    create("before").data();
    assert_eq!(server.get("/api/v1/workflows").status, 200);
    until("the server is ready", || server.get("/readyz").status == 200);
    let frozen = postgres.freeze();
    thread::scope(|scope| {
        let since = Instant::now();
        // One write is under way, and the others wait for it or for the transaction after it.
        let writes: Vec<_> = (0..4).map(|number| scope.spawn(move || create(&format!("w{number}")))).collect();
        let reads: Vec<_> = (0..2).map(|_| scope.spawn(|| server.get("/api/v1/workflows"))).collect();
        for request in writes.into_iter().chain(reads) {
            assert_eq!(request.join().unwrap().fails(503), "unavailable");
            let took = since.elapsed();
            assert!(took < WAIT + MAX_DELAY, "it took {took:?}");
        }
    });
    assert_eq!(server.get("/readyz").status, 503);
    drop(frozen);
    until("the server writes again", || create("after").status == 200);
    assert_eq!(server.get("/api/v1/workflows").data().as_array().unwrap().len(), 2);
    until("the server is ready again", || server.get("/readyz").status == 200);
}
