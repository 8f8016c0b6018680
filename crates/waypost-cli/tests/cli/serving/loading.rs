//! Many clients at once, and a server that is killed while they write.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::Server;

#[test]
fn acknowledged_writes_survive_a_killed_server() {
    let server = Server::start(&[]);
    let acknowledged = Mutex::new(Vec::new());
    let (count, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for client in 0..24 {
            let (server, acknowledged, count, is_over) = (&server, &acknowledged, &count, &is_over);
            scope.spawn(move || {
                for number in 0.. {
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    let name = format!("w-{client}-{number}");
                    let ask = server.ask("POST", "/api/v1/workflows").json(&json!({ "name": name }));
                    let ask = ask.with("Connection", "close");
                    // The connection breaks when the server is killed.
                    let answer = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                        let mut answer = Vec::new();
                        std::io::Read::read_to_end(&mut ask.open(), &mut answer).map(|_| answer)
                    }));
                    let Ok(Ok(answer)) = answer else { return };
                    if answer.starts_with(b"HTTP/1.1 200") && answer.ends_with(b"}") {
                        acknowledged.lock().unwrap().push(name);
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        while count.load(Ordering::Relaxed) < 300 {
            waypost_testkit::pause();
        }
        server.signal(Signal::KILL);
        is_over.store(true, Ordering::Relaxed);
    });
    let acknowledged = acknowledged.into_inner().unwrap();
    let there = server.way(&["workflow", "list", "--all", "--limit", "1000000", "--json"]).data();
    let names: std::collections::BTreeSet<&str> =
        there.as_array().unwrap().iter().filter_map(|workflow| workflow["name"].as_str()).collect();
    for name in &acknowledged {
        assert!(names.contains(name.as_str()), "{name} was acknowledged and is lost");
    }
    assert!(server.way(&["db", "check"]).ok().stdout.contains("ok"));
    let events = server.way(&["events", "--json", "--limit", "1000000"]).data();
    let mut sequences: Vec<u64> =
        events.as_array().unwrap().iter().filter_map(|event| event["sequence"].as_u64()).collect();
    sequences.sort_unstable();
    assert!(sequences.windows(2).all(|pair| pair[0] + 1 == pair[1]), "the history has no gaps");
}

#[test]
fn waiting_writes_share_one_transaction_and_each_task_has_one_holder() {
    for server in [Server::start(&[]), Server::start(&["--db", &waypost_testkit::postgres_url()])] {
        check_claims(&server);
    }
}

fn check_claims(server: &Server) {
    let tasks: Vec<Value> = (0..120).map(|number| json!({ "name": format!("t{number}") })).collect();
    server.post("/api/v1/workflows", &json!({ "name": "w", "plan": { "tasks": tasks }, "start": true })).data();
    let holders = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for client in 0..30 {
            let holders = &holders;
            scope.spawn(move || {
                let agent = format!("a{client}");
                let by =
                    |path: &str, body: Value| server.ask("POST", path).with("Waypost-Agent", &agent).json(&body).send();
                loop {
                    let claimed = by("/api/v1/tasks/claim", json!({}));
                    if claimed.status == 404 {
                        return;
                    }
                    let claimed = claimed.data();
                    let id = claimed["task"]["id"].as_str().unwrap().to_owned();
                    let epoch = &claimed["lease"]["epoch"];
                    by("/api/v1/heartbeat", json!({})).data();
                    by(&format!("/api/v1/tasks/{id}/finish"), json!({ "epoch": epoch, "outcome": "o" })).data();
                    holders.lock().unwrap().push(id);
                }
            });
        }
    });
    let mut holders = holders.into_inner().unwrap();
    assert_eq!(holders.len(), 120, "no task twice");
    holders.sort();
    holders.dedup();
    assert_eq!(holders.len(), 120, "each task once");
    let page = server.get("/metrics").body;
    let value = |name: &str| {
        let line = page.lines().find(|line| line.starts_with(&format!("{name} "))).unwrap();
        line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap()
    };
    let (requests, transactions) = (value("waypost_writer_requests_total"), value("waypost_writer_transactions_total"));
    assert!(requests >= 240.0 && transactions < requests * 0.9, "{requests} in {transactions}");
}
