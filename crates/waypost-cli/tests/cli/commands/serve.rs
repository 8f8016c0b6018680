//! `way serve`: starting and stopping. The requests are in `serving/`.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::symlink;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;

use crate::across::Companion;
use crate::serving::Server;
use crate::support::sandbox;
use waypost_testkit::until;

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

/// Returns the processor time that a process has used, in ticks of 10 ms.
fn ticks(child: &std::process::Child) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    let fields: Vec<u64> = stat.rsplit_once(')').unwrap().1.split(' ').filter_map(|field| field.parse().ok()).collect();
    // The state is not a number, so the user's and the system's time are at 10 and 11.
    fields[10] + fields[11]
}

#[test]
fn f13_a_server_with_few_descriptors_keeps_serving_clients_with_a_token() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let mut command = sandbox.command("prlimit", &repo);
    command.args(["--nofile=64", env!("CARGO_BIN_EXE_way")]);
    let (child, said, token) = Server::launch_with(&sandbox, command, &[]);
    let server = Server { sandbox, repo, child, said, token };
    server.post("/api/v1/workflows", &json!({ "name": "before" })).data();
    let mut session = TcpStream::connect(server.host()).unwrap();
    let request = server.ask("GET", "/api/v1/agents").head();
    let mut ask = || {
        session.write_all(request.as_bytes()).unwrap();
        let mut answer = [0; 12];
        session.read_exact(&mut answer).unwrap();
        let mut rest = [0; 4096];
        let _ = session.read(&mut rest).unwrap();
        String::from_utf8(answer.to_vec()).unwrap()
    };
    assert_eq!(ask(), "HTTP/1.1 200");
    let held: Vec<TcpStream> = (0..100).map(|_| TcpStream::connect(server.host()).unwrap()).collect();
    let open = || std::fs::read_dir(format!("/proc/{}/fd", server.child.id())).unwrap().count();
    // They take the place of each other, and leave descriptors for everything else.
    until("the server has seen them all", || server.connections() <= 32);
    let before = ticks(&server.child);
    waypost_testkit::pass(Duration::from_secs(1));
    let used = ticks(&server.child) - before;
    assert!(used < 50, "it uses {used} of 100 ticks while it waits");
    assert_eq!(ask(), "HTTP/1.1 200", "an existing connection is served");
    server.post("/api/v1/workflows", &json!({ "name": "meanwhile" })).data();
    assert!(open() < 60, "{} descriptors are open", open());
    drop(held);
    until("it accepts again", || open() < 40);
    server.post("/api/v1/workflows", &json!({ "name": "after" })).data();
    assert_eq!(server.way(&["workflow", "list", "--json"]).data().as_array().unwrap().len(), 3);
}

#[test]
fn f21_of_ten_servers_that_start_at_once_one_runs() {
    for round in 0..3 {
        let sandbox = sandbox();
        let repo = sandbox.git_repo("repo");
        let start = |number| {
            let mut command = sandbox.way_command(&repo);
            let log = std::fs::File::create(sandbox.path(format!("log{number}"))).unwrap();
            command.args(["serve", "--port", "0", "--json"]).stdout(std::process::Stdio::piped()).stderr(log);
            Companion(command.spawn().unwrap())
        };
        let mut servers: Vec<_> = (0..10).map(start).collect();
        let mut codes = Vec::new();
        until("nine have ended", || {
            servers.retain_mut(|server| {
                let ended = server.0.try_wait().unwrap();
                codes.extend(ended.map(|status| status.code()));
                ended.is_none()
            });
            servers.len() <= 1
        });
        assert_eq!((servers.len(), codes), (1, vec![Some(4); 9]), "round {round}");
        let mut line = String::new();
        let mut output = std::io::BufReader::new(servers[0].0.stdout.take().unwrap());
        std::io::BufRead::read_line(&mut output, &mut line).unwrap();
        let said: serde_json::Value = serde_json::from_str(&line).unwrap();
        let store = format!("unix:{}", said["data"]["socket"].as_str().unwrap());
        let _ = sandbox.way(&repo, ["--quiet", "--db", &store, "workflow", "create", "w"]).ok();
    }
}
