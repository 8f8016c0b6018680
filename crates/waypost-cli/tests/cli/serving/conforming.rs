//! The published MCP conformance suite, and the upcoming one.

use std::fs::DirEntry;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;

use serde_json::Value;

use super::Server;

/// Checks that apply to a server with tools and resources and without sessions: of the published suite, and of the next.
const APPLIES: [&[&str]; 2] = [
    &["dns-rebinding-protection", "ping", "resources-list", "server-initialize", "tools-list"],
    &[
        "caching",
        "dns-rebinding-protection",
        "http-header-validation",
        "ping",
        "resources-list",
        "sep-2164-resource-not-found",
        "server-initialize",
        "server-stateless",
        "tools-list",
    ],
];

/// Checks that do not apply, and why.
const EXCLUDED: &[(&str, &str)] = &[
    ("completion-complete", "nothing is completed"),
    ("elicitation-", "we never ask the client back"),
    ("http-custom-header-server-validation", "no tool takes arguments from headers"),
    ("input-required-result-", "we never ask the client back"),
    ("json-schema-2020-12", "it looks for a tool of the suite's own server"),
    ("logging-set-level", "nothing is logged to clients"),
    ("prompts-", "there are no prompts"),
    ("resources-read-", "it reads resources of the suite's own server"),
    ("resources-subscribe", "no subscriptions: events say what changes"),
    ("resources-templates-read", "it reads a resource of the suite's own server"),
    ("resources-unsubscribe", "no subscriptions: events say what changes"),
    ("sep-2640-skills-", "there are no skills"),
    ("server-session-lifecycle", "there are no sessions"),
    ("server-sse-", "every request gets its own answer, and there is no lasting stream"),
    ("tasks-", "a tool answers when it is done, and never later"),
    ("tools-call-", "it calls tools of the suite's own server"),
];

/// Starts a proxy that adds the server's token, which the suite cannot send. Returns its address.
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
fn the_server_passes_the_mcp_conformance_suite() {
    let [node, suites @ ..] = waypost_testkit::mcp_conformance();
    let server = Server::start(&[]);
    let url = format!("http://127.0.0.1:{}/mcp", front(&server));
    for (suite, applies) in suites.iter().zip(APPLIES) {
        let results = server.sandbox.dir(format!("suite-{}", applies.len()));
        let mut command = server.sandbox.command(&node, &results);
        let output = command.arg(suite).args(["server", "--suite", "all", "-o", ".", "--url", &url]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        let summary = said.split_once("=== SUMMARY ===").unwrap_or_else(|| panic!("{said} {output:?}")).1;
        // ✓ ping: 1 passed, 0 failed
        let names =
            || summary.lines().filter_map(|line| line.split_once(' ')?.1.split_once(": ")).map(|(name, _)| name);
        for name in applies {
            assert!(names().any(|known| known == *name), "there is no {name}: {summary}");
            check(&results, name);
        }
        for name in names().filter(|name| *name != "Total" && !applies.contains(name)) {
            assert!(EXCLUDED.iter().any(|(known, _)| name.starts_with(known)), "no row says why {name} does not apply");
        }
    }
}

/// Messages of checks that need the suite's own server, or a server with prompts.
const NOT_TESTABLE: &[&str] = &["Not testable: ", "prompts/list returned JSON-RPC error -32601"];

/// Evaluates all checks under a name.
fn check(results: &Path, name: &str) {
    let dirs = std::fs::read_dir(results).unwrap().map(|dir| dir.unwrap());
    // The name is followed by a date.
    let is_of = |dir: &DirEntry| {
        let dir = dir.file_name().into_string().unwrap();
        dir.strip_prefix(&format!("server-{name}-")).is_some_and(|rest| rest.starts_with("20"))
    };
    let dir = dirs.into_iter().find(is_of).unwrap_or_else(|| panic!("nothing is known of {name}"));
    let checks: Value = serde_json::from_slice(&std::fs::read(dir.path().join("checks.json")).unwrap()).unwrap();
    let checks = checks.as_array().unwrap();
    assert!(checks.iter().any(|check| check["status"] == "SUCCESS"), "{name}: {checks:?}");
    for check in checks.iter().filter(|check| check["status"] == "FAILURE") {
        let why = check["errorMessage"].as_str().unwrap_or_default();
        let is_excused = NOT_TESTABLE.iter().any(|beginning| why.starts_with(beginning));
        assert!(is_excused, "{name}: {check}");
    }
}
