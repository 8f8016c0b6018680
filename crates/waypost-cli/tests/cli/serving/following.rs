//! Streams of events: of this server, of other processes, resumed from the last event.

use std::io::{BufRead as _, BufReader};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use waypost_testkit::{Run, until};

use super::{Ask, Server, peak_kib, resident_kib};

/// A stream of events, read by the test.
pub(super) struct Stream(BufReader<TcpStream>);

impl Stream {
    pub(super) fn open(ask: Ask<'_>) -> Stream {
        let mut stream = Stream(BufReader::new(ask.with("Accept", "text/event-stream").open()));
        assert_eq!(stream.line(), "HTTP/1.1 200 OK");
        while !stream.line().is_empty() {}
        stream
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        assert_ne!(self.0.read_line(&mut line).unwrap(), 0, "the stream has ended");
        line.trim_end().to_owned()
    }

    /// Returns the next event: its kind, its id and its data.
    pub(super) fn next(&mut self) -> (String, Option<u64>, Value) {
        let (mut id, mut kind) = (None, String::new());
        loop {
            let line = self.line();
            if let Some(text) = line.strip_prefix("id: ") {
                id = Some(text.parse().unwrap());
            } else if let Some(text) = line.strip_prefix("event: ") {
                text.clone_into(&mut kind);
            } else if let Some(text) = line.strip_prefix("data: ") {
                return (kind, id, serde_json::from_str(text).unwrap());
            }
        }
    }
}

impl Stream {
    /// Waits for the end of the stream, and ignores events before it.
    pub(super) fn end(mut self) {
        let deadline = Instant::now() + Duration::from_secs(30);
        // The last chunk is empty.
        while self.line() != "0" {
            assert!(Instant::now() < deadline, "the stream did not end");
        }
    }

    /// Returns how many bytes have arrived and are unread.
    fn unread(&self) -> u64 {
        rustix::io::ioctl_fionread(self.0.get_ref()).unwrap()
    }
}

fn probe(server: &Server, detail: u32) {
    server.post("/api/v1/op/record_maintenance", &json!({ "what": "probed", "detail": { "number": detail } })).data();
}

#[test]
fn a_stream_includes_events_of_other_processes() {
    let server = Server::start(&[]);
    let mut stream = Stream::open(server.ask("GET", "/api/v1/events?kind=workflow"));
    let _ = server.way(&["--quiet", "workflow", "create", "theirs"]).ok();
    let (kind, _, event) = stream.next();
    assert_eq!((kind.as_str(), &event["kind"]), ("workflow.created", &json!("workflow.created")));
    server.post("/api/v1/workflows", &json!({ "name": "ours" })).data();
    assert_eq!(stream.next().0, "workflow.created");
    let seen = server.way(&["events", "--json", "--limit", "1"]).data();
    assert_eq!(seen[0]["kind"], "workflow.created");
}

#[test]
fn a_stream_resumes_where_the_last_one_ended() {
    let server = Server::start(&[]);
    for number in 1..=20 {
        probe(&server, number);
    }
    let mut first = Stream::open(server.ask("GET", "/api/v1/events/stream?since=0&kind=store.probed"));
    let mut seen = Vec::new();
    let mut last = 0;
    for _ in 0..7 {
        let (_, id, event) = first.next();
        last = id.unwrap();
        seen.push(event["data"]["number"].as_u64().unwrap());
    }
    drop(first);
    probe(&server, 21);
    let again = server.ask("GET", "/api/v1/events?kind=store.probed").with("Last-Event-ID", &last.to_string());
    let mut second = Stream::open(again);
    probe(&server, 22);
    while seen.last() != Some(&22) {
        seen.push(second.next().2["data"]["number"].as_u64().unwrap());
    }
    assert_eq!(seen, (1..=22).collect::<Vec<_>>(), "each once, in order");
}

#[test]
fn f55_a_slow_reader_gets_every_event_and_delays_no_other_reader() {
    let server = Server::start(&[]);
    // It reads nothing until all events are written.
    let mut slow = Stream::open(server.ask("GET", "/api/v1/events?kind=store"));
    let mut quick = Stream::open(server.ask("GET", "/api/v1/events?kind=store"));
    for number in 0..400 {
        probe_large(&server, number, 20_000);
        assert_eq!(quick.next().2["data"]["number"], number);
    }
    for number in 0..400 {
        assert_eq!(slow.next().2["data"]["number"], number, "in order, without a gap");
    }
}

/// Maximum additional memory of the server for listeners that do not read, with events of 64 KB. It buffers 64 MiB of
/// unsent data, plus the events it is decoding.
const MAX_STALLED_KIB: u64 = 100 * 1024;

#[test]
fn listeners_that_do_not_read_cost_little_memory() {
    let mut server = Server::start(&[]);
    let mut written = 40;
    for number in 0..written {
        probe_large(&server, number, 64_000);
    }
    let idle = resident_kib(&server.child);
    let peaks = [peak_with_stalled(&server, 200, &mut written), peak_with_stalled(&server, 200, &mut written)];
    let is_bounded = peaks.iter().all(|peak| *peak < idle + MAX_STALLED_KIB);
    assert!(is_bounded, "{idle} KiB before, {peaks:?} KiB at most: the second round has what the first one gave back");
    // Events from before its start are only in the store, not in the server's memory.
    server.restart();
    server.get("/api/v1/events?limit=1").json();
    let idle = resident_kib(&server.child);
    let peak = peak_with_stalled(&server, 20, &mut written);
    assert!(peak < idle + MAX_STALLED_KIB, "{idle} KiB before, {peak} KiB at most");
}

/// Connects listeners that read nothing and one that reads, and returns the server's peak memory in KiB.
fn peak_with_stalled(server: &Server, count: usize, written: &mut u32) -> u64 {
    let listen = || Stream::open(server.ask("GET", "/api/v1/events/stream?since=0&kind=store.probed"));
    let mut reading = listen();
    let mut expect = |number: u32| assert_eq!(reading.next().2["data"]["number"], number);
    for number in 0..*written {
        expect(number);
    }
    let stalled: Vec<Stream> = (0..count).map(|_| listen()).collect();
    until("all sockets are full", || stalled.iter().all(|stream| stream.unread() > 32_000));
    for number in *written..*written + 8 {
        probe_large(server, number, 64_000);
        expect(number);
    }
    *written += 8;
    let peak = peak_kib(&server.child);
    drop((stalled, reading));
    until("the server has noticed that they left", || server.connections() == 0);
    peak
}

fn probe_large(server: &Server, number: u32, bytes: usize) {
    let detail = json!({ "number": number, "large": "x".repeat(bytes) });
    server.post("/api/v1/op/record_maintenance", &json!({ "what": "probed", "detail": detail })).data();
}

#[test]
fn waiting_ends_with_the_next_event() {
    let server = Server::start(&[]);
    let last = server.get("/api/v1/events?limit=1").json()["last"].as_u64().unwrap();
    let waited = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| server.get(&format!("/api/v1/wait?since={last}&ms=60000")).data());
        let _ = server.way(&["--quiet", "workflow", "create", "w"]).ok();
        waiting.join().unwrap()
    });
    assert!(waited["last"].as_u64().unwrap() > last);
    assert_eq!(server.get(&format!("/api/v1/wait?since={}&ms=0", u32::MAX)).status, 200);
}

#[test]
fn a_remote_command_follows_events() {
    let server = Server::start(&[]);
    let mut command = server.sandbox.way_command(&server.repo);
    command
        .env("WAYPOST_DB", server.url())
        .args(["events", "--follow", "--since", "0", "--json"])
        .stdout(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let _ = server.way(&["--quiet", "workflow", "create", "w"]).ok();
    let found = lines.by_ref().map_while(Result::ok).any(|line| line.contains("workflow.created"));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(found);
}

#[test]
fn t11_a_stream_ends_when_its_token_expires_or_is_revoked() {
    let sandbox = crate::support::sandbox();
    let repo = sandbox.git_repo("repo");
    let mut command = sandbox.way_command(&repo);
    command.env_remove("WAYPOST_TEST_CLOCK");
    let (child, said, token) = Server::launch_with(&sandbox, command, &[]);
    let server = Server { sandbox, repo, child, said, token };
    let made = |args: &[&str]| {
        let mut command = server.sandbox.way_command(&server.repo);
        command.env_remove("WAYPOST_TEST_CLOCK").args(["token", "create", "--agent", "a", "--json"]).args(args);
        Run::of(&command.output().unwrap()).data()
    };
    let (short, revoked, kept) = (made(&["--expires", "4s"]), made(&[]), made(&[]));
    let listen = |token: &Value| Stream::open(server.ask("GET", "/api/v1/events").by(token["token"].as_str().unwrap()));
    let (old, gone, mut stays) = (listen(&short), listen(&revoked), listen(&kept));
    let _ = server.way(&["token", "revoke", revoked["id"].as_str().unwrap()]).ok();
    gone.end();
    old.end();
    for token in [&short, &revoked] {
        let token = token["token"].as_str().unwrap();
        // Its MCP tools are refused too: each call presents the token.
        let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {} });
        let ask = server.ask("POST", "/mcp").by(token).with("Accept", "application/json, text/event-stream");
        assert_eq!(ask.json(&list).send().fails(401), "refused");
    }
    probe(&server, 7);
    while stays.next().2["data"]["number"] != 7 {}
}
