//! Which server gets a token, and which sessions of browsers are valid.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;

use serde_json::{Value, json};

use super::{Ask, Server};
use crate::support::sandbox;

/// A program that listens on a port like the server, and answers what it can. Returns its address, and what clients send.
fn impostor(answer: impl Fn(&str) -> String + Send + 'static) -> (String, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let (sender, received) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            loop {
                let mut head = String::new();
                while !head.ends_with("\r\n\r\n") {
                    match stream.read_line(&mut head) {
                        Ok(read) if read > 0 => {}
                        _ => break,
                    }
                }
                if head.is_empty() || sender.send(head.clone()).is_err() {
                    break;
                }
                let body = answer(&head);
                let reply = format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
                    body.len()
                );
                if stream.get_mut().write_all(reply.as_bytes()).is_err() {
                    break;
                }
            }
        }
    });
    (host, received)
}

/// Runs a command on what listens at an address, and returns everything that it was sent.
fn sent_to(server: &Server, (host, received): &(String, mpsc::Receiver<String>), token: Option<&str>) -> String {
    let url = format!("http://{host}");
    let mut variables = vec![("WAYPOST_DB", OsStr::new(&url))];
    variables.extend(token.map(|token| ("WAYPOST_TOKEN", OsStr::new(token))));
    let run = server.sandbox.way_with(&server.repo, &variables, ["workflow", "list", "--json"]).fails(7);
    assert!(run.stderr.contains("did not prove that it is your Waypost server"), "{run:#?}");
    received.try_iter().collect()
}

#[test]
fn a_program_that_happens_to_listen_on_a_port_gets_no_token() {
    let server = Server::start(&[]);
    let agent = server.token(&["--agent", "ann"]);
    let guess = impostor(|_| {
        json!({ "schema": "waypost/1", "data": { "proof": "0".repeat(64), "workflows": [] }, "warnings": [] })
            .to_string()
    });
    // It passes everything on to the server, in the server's own name.
    let real = server.host().to_owned();
    let relay = impostor(move |head| {
        let mut lines = head.lines();
        let request = lines.next().unwrap();
        let mut stream = TcpStream::connect(&real).unwrap();
        write!(stream, "{request}\r\nHost: {real}\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.split_once("\r\n\r\n").unwrap().1.to_owned()
    });
    for impostor in [&guess, &relay] {
        for token in [None, Some(agent.as_str())] {
            let sent = sent_to(&server, impostor, token);
            assert!(sent.contains("GET /prove?"), "{sent}");
            assert!(!sent.to_ascii_lowercase().contains("authorization"), "{sent}");
            for secret in [&server.token, &agent] {
                assert!(!sent.contains(secret.trim_start_matches("wayt_")), "{sent}");
            }
        }
    }
    let _ = server.remote(&["workflow", "list", "--json"]).data();
    let _ = server.remote_as(&agent, &["workflow", "list", "--json"]).data();
    let unknown = server.remote_as("wayt_unknown", &["workflow", "list"]).fails(7);
    assert!(unknown.stderr.contains("the token is invalid, revoked or expired"), "{unknown:#?}");
}

#[test]
fn a_proof_tells_nothing_to_a_client_without_the_token() {
    let server = Server::start(&[]);
    let ask = |query: &str| server.ask("GET", &format!("/prove{query}")).with("Authorization", "").send();
    let digits = "0123456789abcdef".repeat(4);
    assert_eq!(ask(&format!("?nonce={digits}&key={digits}")).fails(401), "refused");
    for wrong in ["", "?nonce=1&key=2", &format!("?nonce={digits}&key={}", "x".repeat(64))] {
        assert_eq!(ask(wrong).fails(400), "invalid", "{wrong}");
    }
}

/// Logs a browser in, and returns its cookie.
fn login(server: &Server) -> String {
    let login = server.said["login"].as_str().unwrap().strip_prefix(server.url()).unwrap().to_owned();
    let entered = server.ask("GET", &login).with("Authorization", "").send();
    assert_eq!(entered.status, 303);
    entered.headers["set-cookie"].split(';').next().unwrap().to_owned()
}

fn page<'a>(server: &'a Server, method: &str, path: &str, cookie: &str) -> Ask<'a> {
    let ask = server.ask(method, path).with("Authorization", "").with("Cookie", cookie);
    if method == "POST" { ask.with("Waypost-Page", "1").json(&json!({})) } else { ask }
}

#[test]
fn the_session_of_a_browser_belongs_to_one_server_and_name() {
    let sandbox = sandbox();
    let (repo, other) = (sandbox.git_repo("repo"), sandbox.git_repo("other"));
    let server = Server::start_in(sandbox, repo, &["--open"]);
    let cookie = login(&server);
    assert_eq!(page(&server, "GET", "/api/v1/status", &cookie).send().status, 200);
    let port = server.host().split(':').nth(1).unwrap();
    let elsewhere = page(&server, "GET", "/api/v1/status", &cookie).with("Host", &format!("localhost:{port}")).send();
    assert_eq!(elsewhere.fails(401), "refused", "the browser logged in under another name");
    let (mut second, said, _) = Server::launch(&server.sandbox, &other, &[]);
    let host = said["url"].as_str().unwrap().strip_prefix("http://").unwrap().to_owned();
    let mut stream = TcpStream::connect(&host).unwrap();
    write!(stream, "GET /api/v1/status HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let _ = second.kill();
    let _ = second.wait();
    assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
}

#[test]
fn a_browser_logs_out_and_its_cookie_is_worth_nothing() {
    let server = Server::start(&["--open"]);
    let cookie = login(&server);
    let logout = page(&server, "POST", "/logout", &cookie);
    assert_eq!(page(&server, "POST", "/logout", &cookie).with("Waypost-Page", "").send().status, 403, "a form sent it");
    let ended = logout.send();
    assert_eq!(ended.data(), json!({}));
    assert!(ended.headers["set-cookie"].contains("Max-Age=0"), "{ended:?}");
    assert_eq!(page(&server, "GET", "/api/v1/status", &cookie).send().fails(401), "refused");
}

#[test]
fn rotating_the_owners_token_ends_the_sessions_of_browsers() {
    let server = Server::start(&["--open"]);
    let cookie = login(&server);
    assert_eq!(page(&server, "GET", "/api/v1/status", &cookie).send().status, 200);
    let rotated: Value = server.way(&["token", "rotate", "own", "--json"]).data();
    assert!(rotated.is_object());
    assert_eq!(page(&server, "GET", "/api/v1/status", &cookie).send().fails(401), "refused");
}
