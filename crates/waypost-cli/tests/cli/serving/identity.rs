//! Which server gets a token, and which sessions of browsers are valid.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;

use serde_json::{Value, json};

use super::{Reply, Server};
use crate::support::sandbox;

/// A program that listens on a port like the server, and answers what it can. Returns its address, and what clients send.
fn impostor(answer: impl Fn(&str) -> String + Send + 'static) -> (String, mpsc::Receiver<String>) {
    impostor_on(TcpListener::bind("127.0.0.1:0").unwrap(), answer)
}

fn impostor_on(
    listener: TcpListener,
    answer: impl Fn(&str) -> String + Send + 'static,
) -> (String, mpsc::Receiver<String>) {
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
    let relay = impostor(relay_to(&server));
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

/// Passes everything on to the server, in the server's own name.
fn relay_to(server: &Server) -> impl Fn(&str) -> String + Send + use<> {
    let real = server.host().to_owned();
    move |head| {
        let request = head.lines().next().unwrap();
        let mut stream = TcpStream::connect(&real).unwrap();
        write!(stream, "{request}\r\nHost: {real}\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.split_once("\r\n\r\n").unwrap().1.to_owned()
    }
}

/// A relay on the server's own port, at another address of this machine: the names that lead there do not matter.
#[test]
fn a_relay_at_another_address_of_this_machine_gets_no_token() {
    let server = Server::start(&[]);
    let port = server.host().split(':').nth(1).unwrap();
    let agent = server.token(&["--agent", "ann"]);
    let squatter = TcpListener::bind(format!("127.0.0.2:{port}")).unwrap();
    let (_, received) = impostor_on(squatter, relay_to(&server));
    let (elsewhere, other) = impostor(relay_to(&server));
    let elsewhere = elsewhere.rsplit_once(':').unwrap().1.to_owned();
    let mut hosts = vec![
        (format!("127.0.0.2:{port}"), &received),
        (format!("localhost:{elsewhere}"), &other),
        (format!("LOCALHOST:{elsewhere}"), &other),
        (format!("0.0.0.0:{elsewhere}"), &other),
        (format!("127.1:{elsewhere}"), &other),
    ];
    // Without IPv6 there is no such address.
    if has_ipv6() {
        hosts.push((format!("[::ffff:127.0.0.1]:{elsewhere}"), &other));
    }
    for (host, received) in hosts {
        let url = format!("http://{host}");
        let variables = [("WAYPOST_DB", OsStr::new(&url)), ("WAYPOST_TOKEN", OsStr::new(&agent))];
        let run = server.sandbox.way_with(&server.repo, &variables, ["workflow", "list"]).fails(7);
        assert!(run.stderr.contains("did not prove that it is your Waypost server"), "{host}: {run:#?}");
        let sent: String = received.try_iter().collect();
        assert!(sent.contains("GET /prove?"), "{host}: {sent}");
        assert!(!sent.contains(agent.trim_start_matches("wayt_")), "{host}: {sent}");
        // The owner's own token is not even used for names that may belong to other machines.
        let run = server.sandbox.way_with(&server.repo, &variables[..1], ["workflow", "list"]).fails(7);
        let sent: String = received.try_iter().collect();
        assert!(!sent.contains(server.token.trim_start_matches("wayt_")), "{host}: {run:#?} {sent}");
    }
}

fn has_ipv6() -> bool {
    TcpListener::bind("[::1]:0").is_ok()
}

#[test]
fn the_server_listens_on_both_addresses_of_loopback_or_its_port_is_refused() {
    let server = Server::start(&[]);
    let port: u16 = server.host().split(':').nth(1).unwrap().parse().unwrap();
    let listed = |host: &str| {
        let url = format!("http://{host}:{port}");
        server.sandbox.way_with(&server.repo, &[("WAYPOST_DB", OsStr::new(&url))], ["workflow", "list", "--json"])
    };
    let _ = listed("127.0.0.1").data();
    // The name is not resolved: it means the address on which the server listens.
    let _ = listed("localhost").data();
    if !has_ipv6() {
        // There is only one address to listen on, and no program can listen on the other one.
        assert_eq!(listed("[::1]").code, 8);
        return;
    }
    let _ = listed("[::1]").data();
    let taken = TcpListener::bind(("::1", port)).unwrap_err();
    assert_eq!(taken.kind(), std::io::ErrorKind::AddrInUse, "another program listens on the other address");
    let squatter = TcpListener::bind("[::1]:0").unwrap();
    let port = squatter.local_addr().unwrap().port();
    let other = server.sandbox.git_repo("other");
    let refused = server.sandbox.way(&other, ["serve", "--port", &port.to_string()]).fails(8);
    assert!(refused.stderr.contains(&format!("cannot listen on [::1]:{port}")), "{refused:#?}");
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

/// Logs a browser in with the code of the login link, and returns the secret of its session.
fn login(server: &Server) -> String {
    let entered = exchange(server, &code(server)).data();
    entered["session"].as_str().unwrap().to_owned()
}

fn code(server: &Server) -> String {
    let login = server.said["login"].as_str().unwrap();
    login.strip_prefix(&format!("{}/#login=", server.url())).unwrap().to_owned()
}

fn exchange(server: &Server, code: &str) -> Reply {
    server.ask("POST", "/login").with("Authorization", "").json(&json!({ "code": code })).send()
}

fn status(server: &Server, secret: &str) -> u16 {
    server.ask("GET", "/api/v1/status").by(secret).send().status
}

#[test]
fn the_session_of_a_browser_belongs_to_one_server() {
    let sandbox = sandbox();
    let (repo, other) = (sandbox.git_repo("repo"), sandbox.git_repo("other"));
    let server = Server::start_in(sandbox, repo, &["--open"]);
    let secret = login(&server);
    assert!(secret.starts_with("ways_"), "{secret}");
    assert_eq!(status(&server, &secret), 200);
    let (mut second, said, _) = Server::launch(&server.sandbox, &other, &[]);
    let host = said["url"].as_str().unwrap().strip_prefix("http://").unwrap().to_owned();
    let mut stream = TcpStream::connect(&host).unwrap();
    write!(
        stream,
        "GET /api/v1/status HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {secret}\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let _ = second.kill();
    let _ = second.wait();
    assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
}

#[test]
fn a_browser_logs_out_and_its_secret_is_worth_nothing() {
    let server = Server::start(&["--open"]);
    let secret = login(&server);
    let ended = server.ask("POST", "/logout").by(&secret).send();
    assert_eq!(ended.data(), json!({}));
    assert_eq!(status(&server, &secret), 401);
    assert_eq!(exchange(&server, &code(&server)).fails(401), "refused", "the code again");
}

#[test]
fn rotating_the_owners_token_ends_the_sessions_of_browsers() {
    let server = Server::start(&["--open"]);
    let secret = login(&server);
    assert_eq!(status(&server, &secret), 200);
    let rotated: Value = server.way(&["token", "rotate", "own", "--json"]).data();
    assert!(rotated.is_object());
    assert_eq!(status(&server, &secret), 401);
}

#[test]
fn a_browser_that_logs_in_with_a_token_has_the_rights_of_that_token() {
    let server = Server::start(&[]);
    let made = server.way(&["token", "create", "--role", "read-only", "--json"]).data();
    let (id, token) = (made["id"].as_str().unwrap(), made["token"].as_str().unwrap());
    let entered = server.ask("POST", "/login").by(token).json(&json!({})).send().data();
    let secret = entered["session"].as_str().unwrap();
    assert_eq!(status(&server, secret), 200);
    let write = server.ask("POST", "/api/v1/op/expire_due").by(secret).json(&json!({})).send();
    assert_eq!(write.fails(403), "refused");
    // A session is not a token: it makes no other session.
    assert_eq!(server.ask("POST", "/login").by(secret).json(&json!({})).send().fails(401), "refused");
    let _ = server.way(&["token", "revoke", id]).ok();
    assert_eq!(status(&server, secret), 401);
}
