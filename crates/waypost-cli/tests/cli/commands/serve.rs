//! `way serve`: starting and stopping. The requests are in `serving/`.

use std::io::Read as _;
use std::net::TcpListener;
use std::os::unix::fs::symlink;

use rustix::process::Signal;
use serde_json::json;

use crate::serving::Server;
use crate::support::sandbox;

#[test]
fn t8_other_machines_are_served_only_if_confirmed_by_a_second_flag() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let run = sandbox.way(&repo, ["serve", "--port", "0", "--listen", "0.0.0.0"]).fails(7);
    assert!(run.stderr.contains("--allowed-host") && run.stderr.contains("TLS"), "{run:#?}");
    let run = sandbox.way(&repo, ["serve", "--port", "0", "--listen", "0.0.0.0", "--allowed-host", "a b"]).fails(2);
    assert!(run.stderr.contains("is not a host name"), "{run:#?}");
    let server = Server::start_in(sandbox, repo, &["--listen", "0.0.0.0", "--allowed-host", "way.example.org"]);
    let host = server.host().replace("0.0.0.0", "127.0.0.1");
    let ask = |name: &str| {
        let mut ask = server.ask("GET", "/api/v1/status").with("Host", name);
        ask.method = "GET".to_owned();
        ask.send().status
    };
    assert_eq!((ask("way.example.org"), ask(&host), ask("evil.example")), (200, 200, 403));
}

#[test]
fn a_port_in_use_is_reported() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let run = sandbox.way(&repo, ["serve", "--port", &port]).fails(8);
    assert!(run.stderr.contains("--port 0"), "{run:#?}");
}

#[test]
fn t10_a_socket_never_replaces_another_file() {
    let server = Server::start(&[]);
    let socket = server.socket();
    let run = server.sandbox.way(&server.repo, ["serve", "--port", "0"]).fails(4);
    assert!(run.stderr.contains("another server"), "{run:#?}");
    // The socket of a killed server is replaced.
    server.signal(Signal::KILL);
    let said = server.said.clone();
    let (file, symbolic) = (server.sandbox.path("file"), server.sandbox.path("link"));
    server.sandbox.write("file", "precious");
    symlink(&file, &symbolic).unwrap();
    for path in [&file, &symbolic] {
        let run = server.way(&["serve", "--port", "0", "--socket", path.to_str().unwrap()]).fails(7);
        assert!(run.stderr.contains("is not a socket"), "{run:#?}");
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
    assert!(socket.exists());
    let mut command = server.sandbox.way_command(&server.repo);
    let mut child = command
        .args(["serve", "--port", "0", "--json"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut line).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let again: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(again["data"]["socket"], said["socket"]);
}

#[test]
fn a_server_that_is_stopped_finishes_its_requests() {
    let mut server = Server::start(&[]);
    assert_eq!(server.get("/healthz").body, "ok\n");
    server.get("/api/v1/wait?since=0&ms=10000").data();
    assert_eq!(server.get("/readyz").status, 200);
    let mut stream = server.ask("GET", "/api/v1/events").with("Accept", "text/event-stream").open();
    let waiting = server.ask("GET", &format!("/api/v1/wait?since={}&ms=60000", u32::MAX)).with("Connection", "close");
    let mut waiting = waiting.open();
    server.post("/api/v1/workflows", &json!({ "name": "w" })).data();
    server.signal(Signal::TERM);
    let (mut streamed, mut waited) = (Vec::new(), Vec::new());
    stream.read_to_end(&mut streamed).unwrap();
    waiting.read_to_end(&mut waited).unwrap();
    assert!(String::from_utf8_lossy(&waited).contains("\"last\""), "a waiting request is answered");
    let status = server.child.wait().unwrap();
    assert!(status.success(), "{status}");
    assert!(!server.socket().exists(), "the server removes its socket");
    let log = server.log();
    assert!(log.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()), "{log}");
    assert!(log.contains("\"drained\":true"), "{log}");
}

#[test]
fn the_owners_token_is_not_used_if_others_can_read_it() {
    let server = Server::start(&[]);
    let path = server.sandbox.path("home/.waypost/token");
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    assert_eq!(server.get("/api/v1/status").status, 401);
    let run = server.remote(&["workflow", "list"]).fails(7);
    assert!(run.stderr.contains("gives other users access") && run.stderr.contains("way token rotate own"), "{run:#?}");
    let _ = server.way(&["token", "rotate", "own"]).ok();
    assert_eq!(server.remote(&["workflow", "list", "--json"]).data(), json!([]));
}
