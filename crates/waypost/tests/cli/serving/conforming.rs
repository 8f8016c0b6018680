//! The published suite that tells whether a server speaks MCP.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};

use super::Server;

/// What applies to a server with tools and resources that keeps no sessions.
const APPLIES: &[&str] =
    &["dns-rebinding-protection", "ping", "prompts-list", "resources-list", "server-initialize", "tools-list"];

/// What does not, and why.
const EXCLUDED: &[(&str, &str)] = &[
    ("completion-complete", "completions are not offered; asked for all the same, there are none"),
    ("elicitation-", "we never ask the client back"),
    ("json-schema-2020-12", "it calls a tool of the suite's own server"),
    ("logging-set-level", "nothing is logged to clients"),
    ("prompts-get-", "there are no prompts"),
    ("resources-read-", "it reads resources of the suite's own server"),
    ("resources-subscribe", "nobody subscribes: events say what changes"),
    ("resources-templates-read", "it reads a resource of the suite's own server"),
    ("resources-unsubscribe", "nobody subscribes: events say what changes"),
    ("server-sse-", "every request is answered by itself, and there is no stream that goes on"),
    ("tools-call-", "it calls tools of the suite's own server"),
];

/// Lets requests pass on to a server with its token, which the suite has no way to send. Returns where.
fn front(server: &Server) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (host, token) = (server.host().to_owned(), server.token.clone());
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let (host, token) = (host.clone(), token.clone());
            std::thread::spawn(move || pass_on(client, port, &host, &token));
        }
    });
    port
}

/// Passes one request on, and its answer back.
fn pass_on(mut client: TcpStream, port: u16, host: &str, token: &str) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        client.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    let server_port = host.rsplit_once(':').unwrap().1;
    let head = String::from_utf8_lossy(&head).replace(&format!(":{port}"), &format!(":{server_port}"));
    let lines = head.trim_end().lines().filter(|line| !line.to_ascii_lowercase().starts_with("connection:"));
    let lines: Vec<&str> = lines.collect();
    let mut server = TcpStream::connect(host)?;
    write!(server, "{}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n", lines.join("\r\n"))?;
    let (mut from, mut to) = (client.try_clone()?, server.try_clone()?);
    std::thread::spawn(move || std::io::copy(&mut from, &mut to));
    std::io::copy(&mut server, &mut client)?;
    client.shutdown(Shutdown::Both)
}

#[test]
fn mcp_is_spoken_as_its_published_suite_wants() {
    let Some([node, suite]) = waypost_testkit::mcp_conformance() else { return };
    let server = Server::start(&[]);
    let output = server
        .sandbox
        .command(node, &server.sandbox.dir("suite"))
        .arg(suite)
        .args(["server", "--suite", "all", "--url", &format!("http://127.0.0.1:{}/mcp", front(&server))])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let summary = said.split_once("=== SUMMARY ===").unwrap_or_else(|| panic!("{said} {output:?}")).1;
    // ✓ ping: 1 passed, 0 failed
    let found: BTreeMap<&str, &str> =
        summary.lines().filter_map(|line| line.split_once(' ')?.1.split_once(": ")).collect();
    for name in APPLIES {
        let result = found.get(name).unwrap_or_else(|| panic!("there is no {name}: {summary}"));
        assert!(result.ends_with("passed, 0 failed") && !result.starts_with('0'), "{name}: {result}: {said}");
    }
    for name in found.keys().filter(|name| **name != "Total" && !APPLIES.contains(name)) {
        assert!(EXCLUDED.iter().any(|(known, _)| name.starts_with(known)), "nobody said why {name} does not apply");
    }
}
