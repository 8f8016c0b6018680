//! A store whose file is moved away, deleted, replaced or held while it is served.

use std::fs;
use std::path::PathBuf;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use waypost_testkit::{strace, until};

use super::following::Stream;
use super::{Reply, Server};

/// The files of a store.
const FILES: [&str; 3] = ["state.db", "state.db-wal", "state.db-shm"];

impl Server {
    fn private(&self) -> PathBuf {
        self.repo.join(".git/waypost")
    }

    /// Moves the files of the store from one directory to another.
    fn move_store(&self, from: &str, to: &str) {
        let dir = |name: &str| if name.is_empty() { self.private() } else { self.sandbox.dir(name) };
        for file in FILES {
            fs::rename(dir(from).join(file), dir(to).join(file)).unwrap();
        }
    }

    fn create(&self, name: &str) -> Reply {
        self.post("/api/v1/workflows", &json!({ "name": name }))
    }

    /// Returns the workflows that the server lists.
    fn served(&self) -> Vec<String> {
        names(&self.get("/api/v1/workflows?limit=1000").data())
    }

    /// Returns the workflows that are in the file at the store's path.
    fn stored(&self) -> Vec<String> {
        names(&self.way(&["workflow", "list", "--all", "--json"]).data())
    }

    fn until_ready(&self) {
        until("the server is ready", || self.get("/readyz").status == 200);
    }
}

fn names(workflows: &Value) -> Vec<String> {
    let names = workflows.as_array().unwrap().iter().map(|workflow| workflow["name"].as_str().unwrap().to_owned());
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

#[test]
fn a_store_that_is_moved_away_is_unavailable_until_it_is_back() {
    let server = Server::start(&[]);
    let agent = server.token(&["--agent", "builder"]);
    server.create("one").data();
    server.until_ready();
    let mut stream = Stream::open(server.ask("GET", "/api/v1/events?kind=workflow&since=0"));
    assert_eq!(stream.next().0, "workflow.created");
    server.move_store("", "away");
    assert_eq!(server.get("/api/v1/workflows").fails(503), "unavailable");
    assert_eq!(server.create("lost").fails(503), "unavailable");
    assert_eq!(server.ask("POST", "/api/v1/heartbeat").by(&agent).json(&json!({})).send().fails(503), "unavailable");
    let claim = server.ask("POST", "/api/v1/issues/way-1/claim").by(&agent).json(&json!({})).send();
    assert!([404, 503].contains(&claim.status), "{claim:?}");
    until("the server has noticed", || server.get("/readyz").status == 503);
    let ready = server.get("/readyz");
    assert!(ready.body.contains("the store") && !ready.body.contains('/'), "{ready:?}");
    assert_eq!(server.get("/healthz").status, 200);
    assert_eq!(stream.next().0, "unavailable");
    assert!(!server.private().join("state.db").exists(), "the server made another store");

    server.move_store("away", "");
    assert_eq!(server.served(), ["one"]);
    let two = server.create("two").data();
    assert_eq!(server.ask("POST", "/api/v1/heartbeat").by(&agent).json(&json!({})).send().status, 200);
    server.until_ready();
    assert_eq!(stream.next().0, "available");
    let (kind, _, event) = stream.next();
    assert_eq!((kind.as_str(), &event["subject"]), ("workflow.created", &two["id"]));
    assert_eq!(server.stored(), ["one", "two"]);
}

#[test]
fn a_replaced_store_is_used_at_once_instead_of_the_old_file() {
    let server = Server::start(&[]);
    server.create("kept").data();
    let copy = server.sandbox.path("copy.db");
    let _ = server.way(&["db", "backup", copy.to_str().unwrap()]).ok();
    let mut stream = Stream::open(server.ask("GET", "/api/v1/events?kind=workflow&since=0"));
    let gone = server.create("gone").data();
    // The stream has delivered an event that the replaced store does not contain.
    while stream.next().2["subject"] != gone["id"] {}
    server.move_store("", "away");
    fs::rename(&copy, server.private().join("state.db")).unwrap();
    assert_eq!(server.served(), ["kept"], "the server reads the file that was moved away");
    server.create("new").data();
    assert_eq!(server.stored(), ["kept", "new"]);
    while stream.next().0 != "resync" {}
    server.until_ready();
    server.create("newer").data();
    assert_eq!(server.stored(), ["kept", "new", "newer"]);
}

#[test]
fn f59_a_server_does_not_write_once_a_newer_program_has_upgraded_its_store() {
    let server = Server::start(&[]);
    server.create("before").data();
    let newer = rusqlite::Connection::open(server.private().join("state.db")).unwrap();
    let old: i32 = newer.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
    newer.pragma_update(None, "user_version", old + 1).unwrap();
    let refused = server.create("lost");
    assert_eq!(refused.fails(503), "unavailable");
    assert!(refused.body.contains(&format!("schema version {}", old + 1)), "{refused:?}");
    until("the server has noticed", || server.get("/readyz").status == 503);
    newer.pragma_update(None, "user_version", old).unwrap();
    assert_eq!(server.stored(), ["before"]);
}

#[test]
fn a_deleted_directory_is_not_created_again_and_its_tokens_are_not_reported_as_wrong() {
    let server = Server::start(&[]);
    let agent = server.token(&["--agent", "builder"]);
    server.create("one").data();
    server.until_ready();
    let away = server.sandbox.path("away");
    fs::rename(server.private(), &away).unwrap();
    for _ in 0..3 {
        let ask = server.ask("GET", "/api/v1/workflows");
        assert_eq!(ask.by(&agent).send().fails(503), "unavailable");
        assert_eq!(server.get("/api/v1/issues").status, 200, "the ledger is still there");
    }
    assert_eq!(server.create("lost").fails(503), "unavailable");
    until("the server has noticed", || server.get("/readyz").status == 503);
    assert_eq!(server.get("/healthz").status, 200);
    let created: Vec<_> = fs::read_dir(server.private()).into_iter().flatten().collect();
    assert!(created.is_empty(), "the server created {created:?}");
    fs::rename(&away, server.private()).unwrap();
    assert_eq!(names(&server.ask("GET", "/api/v1/workflows").by(&agent).send().data()), ["one"]);
    server.until_ready();
}

#[test]
fn a_store_that_cannot_be_written_is_not_ready() {
    let server = Server::start(&[]);
    server.create("one").data();
    server.until_ready();
    let gate = fs::File::options().write(true).open(server.private().join("state.db-gate")).unwrap();
    gate.lock().unwrap();
    until("the server has noticed", || server.get("/readyz").status == 503);
    assert!(server.get("/readyz").body.contains("in time"));
    assert_eq!(server.get("/healthz").status, 200);
    assert_eq!(server.served(), ["one"], "reading still works");
    drop(gate);
    server.until_ready();
    server.create("two").data();
}

#[test]
fn a_server_whose_store_cannot_be_read_is_not_ready_and_says_so_in_its_metrics() {
    strace();
    let server = Server::start(&[]);
    server.create("one").data();
    server.until_ready();
    let is_ready = || {
        let page = server.get("/metrics").body;
        page.lines().find_map(|line| line.strip_prefix("waypost_store_ready ")).map(|value| value == "1")
    };
    assert_eq!(is_ready(), Some(true));
    let mut disk = server.sandbox.command("strace", &server.repo);
    disk.args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=pread64", "-e", "inject=pread64:error=EIO"]);
    let mut disk = disk.args(["-p", &server.child.id().to_string()]).spawn().unwrap();
    until("the server is not ready", || {
        // Another process writes, so that the server has to read the file again.
        let _ = server.way(&["agent", "heartbeat", "--agent", "ann"]).ok();
        server.get("/readyz").status == 503
    });
    let ready = server.get("/readyz");
    assert!(!ready.body.contains('/'), "{ready:?}");
    assert_eq!(is_ready(), Some(false));
    assert_eq!(server.get("/healthz").status, 200);
    kill_process(Pid::from_child(&disk), Signal::INT).unwrap();
    let _ = disk.wait();
    server.until_ready();
    assert_eq!(is_ready(), Some(true));
}
