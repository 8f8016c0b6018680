//! Limits on what a client can cost the server.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;

use serde_json::json;

use super::{MAX_BODY_BYTES, MAX_LEAK_PER_CLIENT_KIB, Reply, Server, resident_kib};
use waypost_testkit::until;

#[test]
fn t32_g21_requests_that_are_too_large_or_too_deep_are_refused() {
    let server = Server::start(&[]);
    let of_size = |bytes| server.ask("POST", "/api/v1/workflows").json_of_size(bytes).send();
    assert_eq!(of_size(MAX_BODY_BYTES + 1).status, 413);
    assert_ne!(of_size(MAX_BODY_BYTES).status, 413);
    let deep = format!("{{\"name\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    let mut ask = server.ask("POST", "/api/v1/workflows").with("Content-Type", "application/json");
    ask.body = Some(deep.into_bytes());
    assert_eq!(ask.send().fails(400), "invalid");
    let long = server.get(&format!("/api/v1/tasks?workflow={}", "x".repeat(100_000)));
    assert!([400, 404, 414, 431].contains(&long.status), "{}", long.status);
    let zipped = server.ask("POST", "/api/v1/workflows").with("Content-Encoding", "gzip").json(&json!({ "name": "w" }));
    assert_eq!(zipped.send().status, 200, "Content-Encoding is ignored");
    assert_eq!(server.get("/healthz").status, 200);
}

#[test]
fn t32_silent_connections_do_not_block_other_clients() {
    let server = Server::start(&[]);
    let silent: Vec<TcpStream> = (0..300)
        .map(|_| {
            let mut stream = TcpStream::connect(server.host()).unwrap();
            stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: ").unwrap();
            stream
        })
        .collect();
    assert_eq!(server.get("/api/v1/status").status, 200);
    drop(silent);
    assert_eq!(server.get("/api/v1/status").status, 200);
}

#[test]
fn f54_a_client_that_disconnects_leaves_a_complete_write_or_none() {
    let server = Server::start(&[]);
    let body = json!({ "name": "w", "plan": { "tasks": [{ "name": "a" }, { "name": "b" }] } });
    let ask = server.ask("POST", "/api/v1/workflows").json(&body);
    let whole = [ask.head().into_bytes(), ask.body.clone().unwrap()].concat();
    for cut in (0..=whole.len()).step_by(7) {
        let mut stream = TcpStream::connect(server.host()).unwrap();
        stream.write_all(&whole[..cut]).unwrap();
        stream.shutdown(std::net::Shutdown::Both).unwrap();
    }
    server.post("/api/v1/workflows", &json!({ "name": "last" })).data();
    let found = server.get("/api/v1/workflows?limit=1000").data();
    for workflow in found.as_array().unwrap().iter().filter(|one| one["name"] == "w") {
        assert_eq!(workflow["total"], 2, "{workflow}");
    }
    assert_eq!(server.get("/api/v1/status").status, 200, "other clients are served");
}

#[test]
fn a_client_that_closes_its_sending_side_gets_its_whole_answer() {
    let server = Server::start(&[]);
    let answer = |mut stream: Box<dyn Duplex>, request: String| {
        stream.write_all(request.as_bytes()).unwrap();
        stream.close_sending_side();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        Reply::read(&answer)
    };
    let tcp = || Box::new(TcpStream::connect(server.host()).unwrap());
    let unix = || Box::new(UnixStream::connect(server.socket()).unwrap());
    // The answer takes a while, so the server sees the closed sending side long before it answers.
    let ask = server.ask("GET", &format!("/api/v1/wait?since={}&ms=300", u32::MAX));
    assert_eq!(answer(tcp(), ask.head()).status, 200);
    assert_eq!(answer(tcp(), ask.head().replace("HTTP/1.1", "HTTP/1.0")).status, 200);
    assert_eq!(answer(unix(), ask.with("Host", "localhost").head()).status, 200);
    for number in 0..20 {
        let ask = server.ask("POST", "/api/v1/workflows").json(&json!({ "name": format!("w{number}") }));
        let request = ask.head() + std::str::from_utf8(ask.body.as_deref().unwrap()).unwrap();
        assert_eq!(answer(tcp(), request).data()["name"], format!("w{number}"));
    }
    until("all connections are closed", || server.connections() == 0);
}

/// A connection whose sending side can be closed on its own.
trait Duplex: Read + Write {
    fn close_sending_side(&self);
}

impl Duplex for TcpStream {
    fn close_sending_side(&self) {
        self.shutdown(std::net::Shutdown::Write).unwrap();
    }
}

impl Duplex for UnixStream {
    fn close_sending_side(&self) {
        self.shutdown(std::net::Shutdown::Write).unwrap();
    }
}

#[test]
fn two_hundred_agents_over_http_leak_no_memory_or_connections() {
    let server = Server::start(&[]);
    let said = |stream: &mut BufReader<TcpStream>| {
        let mut length = 0;
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).unwrap();
            if let Some(bytes) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = bytes.trim().parse().unwrap();
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).unwrap();
        String::from_utf8(body).unwrap()
    };
    let ask = |method: &str, params: &serde_json::Value| {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let ask = server.ask("POST", "/mcp").with("Accept", "application/json, text/event-stream").json(&body);
        [ask.head().into_bytes(), ask.body.clone().unwrap()].concat()
    };
    let client = json!({ "name": "test", "version": "1" });
    let hello =
        ask("initialize", &json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client }));
    let look = ask("tools/call", &json!({ "name": "status", "arguments": { "agent": "ann" } }));
    let mut sizes = Vec::new();
    for _ in 0..8 {
        let mut clients: Vec<_> =
            (0..200).map(|_| BufReader::new(TcpStream::connect(server.host()).unwrap())).collect();
        for client in &mut clients {
            client.get_mut().write_all(&hello).unwrap();
            assert!(said(client).contains("waypost"));
            client.get_mut().write_all(&look).unwrap();
        }
        for client in &mut clients {
            assert!(said(client).contains("\"isError\":false"));
        }
        drop(clients);
        until("they are gone", || server.get("/metrics").status == 200 && server.connections() == 0);
        sizes.push(resident_kib(&server.child));
    }
    // Memory that the allocator keeps for reuse levels off; a leak per client would not.
    assert!(
        sizes[7] < sizes[1] + 6 * 200 * MAX_LEAK_PER_CLIENT_KIB,
        "memory grows with each client that left: {sizes:?} KiB"
    );
}

impl Server {
    /// Counts the server's connections.
    pub(crate) fn connections(&self) -> usize {
        let port = format!(":{:04X}", self.host().rsplit_once(':').unwrap().1.parse::<u16>().unwrap());
        let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
        let is_open = |line: &str| {
            let mut fields = line.split_whitespace().skip(1);
            let (local, _, state) = (fields.next(), fields.next(), fields.next());
            // Established, or closed only by the other side.
            local.is_some_and(|local| local.ends_with(&port)) && matches!(state, Some("01" | "08"))
        };
        table.lines().filter(|line| is_open(line)).count()
    }
}

/// Opens a connection that sends requests without a token as long as the server takes them, and reads nothing.
fn flood(host: &str, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(host).unwrap();
    stream.set_nonblocking(true).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").repeat(200);
    for _ in 0..5 {
        // The connection is closed, or its buffers are full.
        if stream.write_all(request.as_bytes()).is_err() {
            break;
        }
    }
    stream
}

#[test]
fn t32_clients_that_send_and_never_read_keep_neither_tcp_nor_the_socket_busy() {
    let server = Server::start(&[]);
    let began = std::time::Instant::now();
    let is_served = || {
        assert_eq!(server.get("/api/v1/status").status, 200, "a client with a token is served");
        let mut socket = UnixStream::connect(server.socket()).unwrap();
        socket.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
        let request = server.ask("GET", "/api/v1/status").with("Host", "localhost").with("Connection", "close");
        socket.write_all(request.head().as_bytes()).unwrap();
        let mut line = String::new();
        BufReader::new(socket).read_line(&mut line).unwrap();
        assert_eq!(line, "HTTP/1.1 200 OK\r\n", "the owner is served");
    };
    // Some requests are refused, others need no token.
    let paths = std::iter::repeat_n("/api/v1/status", 1_070).chain(std::iter::repeat_n("/healthz", 30));
    let mut silent: Vec<TcpStream> = paths.map(|path| flood(server.host(), path)).collect();
    is_served();
    silent.extend((0..600).map(|_| TcpStream::connect(server.host()).unwrap()));
    is_served();
    assert!(server.connections() <= 300, "{} connections are open", server.connections());
    until("the server closes connections that read nothing", || server.connections() == 0);
    drop(silent);
    // At most 51 lines in 10 seconds are about clients without a token.
    let (lines, windows) = (server.log().lines().count() as u64, began.elapsed().as_secs() / 10 + 2);
    assert!(lines < 51 * windows + 50, "{lines} lines were logged");
    let metrics = server.get("/metrics").body;
    let evicted = metrics.lines().find_map(|line| line.strip_prefix("waypost_connections_evicted_total "));
    assert!(evicted.unwrap().parse::<u32>().unwrap() >= 200, "{evicted:?}");
}

#[test]
fn t32_one_token_does_not_take_all_connections() {
    let server = Server::start(&[]);
    let token = server.token(&["--agent", "ann"]);
    let ask = || server.ask("GET", "/api/v1/agents").by(&token);
    let answered = |stream: &mut TcpStream| {
        let mut head = [0; 12];
        stream.read_exact(&mut head).unwrap();
        String::from_utf8_lossy(&head[9..]).into_owned()
    };
    let mut open = Vec::new();
    let mut refused = 0;
    for _ in 0..520 {
        let mut stream = ask().open();
        match answered(&mut stream).as_str() {
            "200" => open.push(stream),
            "429" => refused += 1,
            other => panic!("{other}"),
        }
    }
    assert_eq!((open.len(), refused), (512, 8));
    assert_eq!(server.get("/api/v1/status").status, 200, "another token is served");
    drop(open);
    until("connections are free again", || ask().send().status == 200);
}

#[test]
fn t32_a_body_that_does_not_arrive_ends_the_request_on_every_address() {
    let server = Server::start(&[]);
    let open: Vec<_> = ["/mcp", "/api/v1/workflows", "/api/v1/op/add_workflow"]
        .into_iter()
        .map(|path| {
            let ask = server.ask("POST", path).with("Accept", "application/json, text/event-stream");
            let ask =
                ask.with("Content-Type", "application/json").with("Content-Length", "100").with("Connection", "close");
            (path, ask.open())
        })
        .collect();
    for (path, mut stream) in open {
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        assert_eq!(Reply::read(&answer).fails(400), "invalid", "{path}");
    }
}

#[test]
fn t32_lists_for_agents_are_pages_on_every_address() {
    let server = Server::start(&[]);
    let token = server.token(&["--agent", "ann"]);
    let tasks: Vec<_> = (0..1_100).map(|number| json!({ "name": format!("t{number}") })).collect();
    server.post("/api/v1/workflows", &json!({ "name": "w", "plan": { "tasks": tasks }, "start": true })).data();
    let by_name =
        server.ask("POST", "/api/v1/op/list_tasks").by(&token).json(&json!({ "limit": 4_000_000_000_u32 })).send();
    assert_eq!(by_name.data()["tasks"].as_array().unwrap().len(), 1_000);
    assert!(by_name.body.contains("only the first 1000 entries are listed"), "the answer says so");
    assert_eq!(server.ask("GET", "/api/v1/tasks?limit=5000").by(&token).send().fails(400), "invalid");
    let registered = |number: usize| json!({ "name": format!("a{number}") });
    for number in 0..1_100 {
        server.post("/api/v1/agents", &registered(number)).data();
    }
    let count = |answer: &serde_json::Value| answer.as_array().unwrap().len();
    for token in [&token, &server.token] {
        let agents = server.ask("GET", "/api/v1/agents").by(token).send();
        assert_eq!(count(&agents.data()), 100, "the default size of a page");
        assert!(agents.json()["next"].is_string(), "the answer says where the next page begins");
    }
    let all = |token: &str| {
        let ask = server.ask("POST", "/api/v1/op/list_agents").by(token);
        ask.json(&json!({ "limit": 4_000_000_000_u32 })).send()
    };
    assert!(all(&token).body.contains("only the first 1000 entries are listed"), "the answer says so");
    assert_eq!(count(&all(&token).data()["agents"]), 1_000);
    assert!(count(&all(&server.token).data()["agents"]) > 1_000, "an admin gets all");
    // The owner's own commands get everything.
    let all = server.remote(&["task", "list", "--limit", "0", "--json"]).data();
    assert_eq!(all.as_array().unwrap().len(), 1_100);
}
