//! Authentication and permissions. The numbers are those of the table of threats.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::process::Stdio;

use serde_json::{Value, json};
use waypost_testkit::{strace, unavailable, until};

use super::{Ask, Server, plan};
use crate::support::ledger::LEDGER;
use crate::support::transfers::is_being_written;

/// Addresses that need no token. The page at `/` has no data in it.
const OPEN: &[&str] = &["/", "/healthz", "/readyz", "/login", "/prove"];

/// Returns all addresses in the server's description, with a value for every parameter.
fn routes(server: &Server) -> Vec<(String, String, bool)> {
    let document: Value = serde_json::from_str(&server.get("/openapi.json").body).unwrap();
    let mut routes = Vec::new();
    let paths = document["paths"].as_object().unwrap();
    let operations = || paths.values().flat_map(|methods| methods.as_object().unwrap().values());
    for (path, methods) in paths {
        for (method, operation) in methods.as_object().unwrap() {
            if path.ends_with("/op/{operation}") {
                for name in operation["parameters"][0]["schema"]["enum"].as_array().unwrap() {
                    let own = operations().find(|known| known["operationId"] == *name).unwrap();
                    let path = path.replace("{operation}", name.as_str().unwrap());
                    routes.push((method.to_uppercase(), path, own["x-effect"] != "write"));
                }
                continue;
            }
            let filled = path.split('/').map(|part| if part.starts_with('{') { "x" } else { part });
            let is_read = operation["x-effect"] != "write";
            routes.push((method.to_uppercase(), filled.collect::<Vec<_>>().join("/"), is_read));
        }
    }
    assert!(routes.len() > 150, "{}", routes.len());
    routes
}

fn ask<'a>(server: &'a Server, method: &str, path: &str) -> Ask<'a> {
    let ask = server.ask(method, path);
    if ["POST", "PATCH"].contains(&method) { ask.json(&json!({})) } else { ask }
}

#[test]
fn t4_no_address_is_answered_without_a_token_or_with_a_wrong_one() {
    let server = Server::start(&[]);
    let mut others = vec![("GET".to_owned(), "/nothing/here".to_owned(), true)];
    others.extend(routes(&server));
    for (method, path, _) in others.iter().filter(|(_, path, _)| !OPEN.contains(&path.as_str())) {
        let without = ask(&server, method, path).with("Authorization", "").send();
        assert_eq!(without.fails(401), "refused", "{method} {path}");
        assert_eq!(without.headers["www-authenticate"], "Bearer");
        for wrong in ["Bearer x", "Bearer ", "Basic eDp4", "bearer"] {
            let status = ask(&server, method, path).with("Authorization", wrong).send().status;
            assert!([401, 429].contains(&status), "{method} {path} {wrong}: {status}");
        }
    }
}

#[test]
fn t1_t2_t3_t5_no_address_answers_cross_origin_requests() {
    let server = Server::start(&[]);
    let port = server.host().split(':').nth(1).unwrap().to_owned();
    for (method, path, _) in routes(&server) {
        for (name, value) in [
            ("Host", "evil.example"),
            ("Host", &format!("evil.example:{port}")),
            ("Host", "127.0.0.1"),
            ("Origin", "http://evil.example"),
            ("Origin", "null"),
            ("Origin", "http://localhost:1"),
            ("Sec-Fetch-Site", "cross-site"),
            ("Sec-Fetch-Site", "same-site"),
        ] {
            let reply = ask(&server, &method, &path).with(name, value).send();
            assert_eq!(reply.fails(403), "refused", "{method} {path} {name}: {value}");
            assert!(!reply.headers.keys().any(|name| name.starts_with("access-control-")), "{reply:?}");
        }
        if ["POST", "PATCH"].contains(&method.as_str()) {
            for kind in ["text/plain", "application/x-www-form-urlencoded", ""] {
                let reply = ask(&server, &method, &path).with("Content-Type", kind).send();
                assert_eq!(reply.fails(415), "invalid", "{method} {path} {kind}");
            }
        }
    }
    // A browser sends a preflight request; the server permits nothing.
    let preflight = server.ask("OPTIONS", "/api/v1/tasks").with("Access-Control-Request-Method", "POST").send();
    assert_eq!(preflight.status, 405);
    assert!(!preflight.headers.keys().any(|name| name.starts_with("access-control-")), "{preflight:?}");
}

#[test]
fn t13_a_read_only_token_cannot_write() {
    let server = Server::start(&[]);
    let token = server.token(&["--role", "read-only"]);
    let before = server.way(&["events", "--json", "--limit", "500"]).ok().stdout;
    for (method, path, is_read) in routes(&server) {
        let reply = ask(&server, &method, &path).by(&token).with("Accept", "application/json");
        if path == "/api/v1/events/stream" || path == "/api/v1/wait" || OPEN.contains(&path.as_str()) {
            continue;
        }
        let reply = reply.send();
        if ["log", "/log/stream", "diff"].iter().any(|end| path.ends_with(end)) {
            assert!([400, 403].contains(&reply.status), "logs and files are not for readers: {path}: {reply:?}");
        } else if is_read {
            assert_ne!(reply.status, 403, "{method} {path}: {reply:?}");
        } else {
            assert!([400, 403].contains(&reply.status), "{method} {path}: {reply:?}");
        }
        assert!(reply.status < 500, "{method} {path}: {reply:?}");
    }
    assert_eq!(server.way(&["events", "--json", "--limit", "500"]).ok().stdout, before);
}

#[test]
fn t31_a_jobs_token_touches_its_task_and_nothing_else() {
    let server = Server::start(&[]);
    server.post("/api/v1/workflows", &json!({ "name": "w", "plan": plan(), "start": true })).data();
    let claim = server.ask("POST", "/api/v1/tasks/claim").with("Waypost-Agent", "job").json(&json!({})).send().data();
    let task = claim["task"]["id"].as_str().unwrap();
    let token = server.token(&["--role", "job", "--agent", "job", "--task", task]);
    let other = server.get("/api/v1/tasks").data();
    let other = other.as_array().unwrap().iter().find(|one| one["id"] != task).unwrap()["id"].clone();
    let events = || server.way(&["events", "--json", "--limit", "500"]).ok().stdout;
    let before = events();
    let mut reached = Vec::new();
    for (method, path, is_read) in routes(&server).into_iter().filter(|(_, path, _)| !OPEN.contains(&path.as_str())) {
        if path == "/api/v1/events/stream" || path == "/api/v1/wait" {
            continue;
        }
        let reply = ask(&server, &method, &path).by(&token).with("Accept", "application/json").send();
        assert!(reply.status < 500, "{method} {path}: {reply:?}");
        if !is_read && ![400, 403, 404].contains(&reply.status) {
            reached.push(path);
        }
    }
    reached.sort();
    // Without arguments, a job reads the empty inbox of its agent.
    assert_eq!(reached, ["/api/v1/inbox/list", "/api/v1/op/list_inbox"]);
    assert_eq!(events(), before, "no request without the task changes anything");
    assert_eq!(server.ask("GET", "/metrics").by(&token).send().fails(403), "refused");
    let by = |path: &str, body: Value| server.ask("POST", path).by(&token).json(&body).send();
    let checkpoint = json!({ "epoch": 1, "kind": "progress", "summary": "s" });
    by(&format!("/api/v1/tasks/{task}/checkpoint"), checkpoint.clone()).data();
    let of_other = format!("/api/v1/tasks/{}/checkpoint", other.as_str().unwrap());
    assert_eq!(by(&of_other, checkpoint).fails(403), "refused");
    assert_eq!(by("/api/v1/heartbeat", json!({})).fails(403), "refused", "it would renew other leases too");
    by("/api/v1/heartbeat", json!({ "task": task, "epoch": 1 })).data();
    by(&format!("/api/v1/tasks/{task}/finish"), json!({ "epoch": 1, "outcome": "o" })).data();
}

#[test]
fn t12_t35_the_token_identifies_the_caller_whatever_the_request_says() {
    let server = Server::start(&[]);
    server.post("/api/v1/workflows", &json!({ "name": "w", "plan": plan(), "start": true })).data();
    let (a, b) = (server.token(&["--agent", "a"]), server.token(&["--agent", "b"]));
    let by = |token: &str, path: &str, body: Value| server.ask("POST", path).by(token).json(&body).send();
    let claimed = by(&a, "/api/v1/tasks/claim", json!({})).data();
    assert_eq!(claimed["task"]["holder"], "a");
    for (path, body) in [
        ("/api/v1/tasks/build/checkpoint", json!({ "epoch": 1, "kind": "progress", "summary": "s" })),
        ("/api/v1/tasks/build/finish", json!({ "epoch": 1, "outcome": "o" })),
        ("/api/v1/tasks/build/fail", json!({ "epoch": 1, "error": "e" })),
        ("/api/v1/tasks/build/pause", json!({ "epoch": 1 })),
        ("/api/v1/tasks/build/release", json!({ "epoch": 1 })),
        ("/api/v1/tasks/build/release", json!({ "force": true })),
        ("/api/v1/tasks/build/ask-question", json!({ "epoch": 1, "question": "?" })),
        ("/api/v1/tasks/build/answer-question", json!({ "answer": "!" })),
        ("/api/v1/heartbeat", json!({ "task": "build", "epoch": 1 })),
        ("/api/v1/agents/register", json!({ "name": "a" })),
        ("/api/v1/agents/register", json!({ "role": "human" })),
        ("/api/v1/agents/retire", json!({ "agent": "a" })),
    ] {
        let reply = by(&b, path, body.clone());
        assert!([403, 409].contains(&reply.status), "{path} {body}: {reply:?}");
    }
    let forged = server.ask("POST", "/api/v1/messages").by(&b).with("Waypost-Agent", "a");
    assert_eq!(forged.json(&json!({ "to": "a", "body": "x" })).send().fails(403), "refused");
    let sent = by(&b, "/api/v1/messages", json!({ "to": "a", "body": "from b" })).data();
    let inbox = by(&a, "/api/v1/inbox/list", json!({ "limit": 5 })).data();
    assert_eq!((&inbox["messages"][0]["from"], &inbox["messages"][0]["id"]), (&json!("b"), &sent["id"]));
    assert_eq!(by(&b, "/api/v1/messages/ack", json!({ "messages": [sent["id"]] })).status / 100, 4);
    // The same with commands.
    assert_eq!(server.remote_as(&b, &["msg", "send", "a", "hello", "--agent", "a"]).fails(7).code, 7);
    assert_eq!(server.remote_as(&b, &["agent", "show", "a", "--json"]).data()["name"], "a");
}

#[test]
fn t9_the_socket_accepts_only_processes_of_the_same_user() {
    let server = Server::start(&[]);
    // Of a file that stays the user's.
    let token = server.token(&["--role", "read-only"]);
    // The server checks the user of a connection even if the socket's mode would let it in.
    server.sandbox.give_away(&server.sandbox.path("home"));
    std::fs::set_permissions(server.socket(), std::fs::Permissions::from_mode(0o666)).unwrap();
    if !rustix::process::geteuid().is_root() {
        unavailable("only root can connect as another user");
    }
    let store = format!("unix:{}", server.socket().display());
    let run = server.sandbox.way_unprivileged(&server.sandbox.dir("home"), ["--db", &store, "workflow", "list"]);
    assert!([7, 8].contains(&run.code), "{run:#?}");
    assert!(server.log().contains("foreign_user"), "{}", server.log());
    let mut stream = UnixStream::connect(server.socket()).unwrap();
    let request = server.ask("GET", "/api/v1/status").by(&token).with("Host", "localhost").with("Connection", "close");
    stream.write_all(request.head().as_bytes()).unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    assert_eq!(line, "HTTP/1.1 200 OK\r\n");
}

#[test]
fn t6_a_browser_logs_in_with_a_code_that_works_once() {
    let server = Server::start(&["--open"]);
    let login = server.said["login"].as_str().unwrap();
    // Browsers send nothing of the part after the # to a server.
    let code = login.strip_prefix(&format!("{}/#login=", server.url())).unwrap();
    let enter =
        |code: &str| server.ask("POST", "/login").with("Authorization", "").json(&json!({ "code": code })).send();
    assert_eq!(enter(&code[1..]).fails(401), "refused", "a part of the code");
    let entered = enter(code);
    assert!(!entered.headers.contains_key("set-cookie"), "{entered:?}");
    let secret = entered.data()["session"].as_str().unwrap().to_owned();
    assert_eq!(enter(code).fails(401), "refused", "once");
    for wrong in ["", "x"] {
        assert_eq!(enter(wrong).fails(401), "refused");
    }
    let page = |method: &str, path: &str| ask(&server, method, path).by(&secret);
    assert_eq!(page("GET", "/api/v1/status").send().status, 200);
    assert_eq!(page("POST", "/api/v1/op/expire_due").send().status, 200);
    for header in ["Cookie", "Waypost-Session"] {
        let elsewhere = ask(&server, "GET", "/api/v1/status").with("Authorization", "").with(header, &secret).send();
        assert_eq!(elsewhere.fails(401), "refused", "{header}");
    }
    let wrong = secret.replace(|digit: char| digit.is_ascii_digit(), "0");
    assert_eq!(page("GET", "/api/v1/status").by(&wrong).send().status, 401);
    for secret in [code, &secret] {
        assert!(!server.log().contains(secret), "the log has a secret in it");
    }
}

#[test]
fn t7_every_answer_has_security_headers() {
    let server = Server::start(&[]);
    for path in ["/", "/healthz", "/api/v1/tasks", "/api/v1/none", "/metrics"] {
        let reply = server.get(path);
        assert_eq!(reply.headers["x-content-type-options"], "nosniff", "{path}");
        assert!(reply.headers["content-security-policy"].contains("frame-ancestors 'none'"), "{path}");
        assert_eq!(reply.headers["referrer-policy"], "no-referrer", "{path}");
        assert_eq!(reply.headers["x-frame-options"], "DENY", "{path}");
    }
}

#[test]
fn t11_wrong_tokens_are_rate_limited() {
    let server = Server::start(&[]);
    let mut statuses: Vec<u16> = (0..60)
        .map(|number| server.ask("GET", "/api/v1/status").by(&format!("wrong {number}")).send().status)
        .collect();
    assert_eq!(statuses.pop(), Some(429));
    assert_eq!(statuses[0], 401);
    assert_eq!(server.get("/api/v1/status").status, 200, "wrong tokens of others do not lock out a valid token");
}

/// The close is checked before the claim is made, and written while the claim is made.
#[test]
fn t12_a_task_claim_is_answered_after_a_close_of_its_issue_that_did_not_see_it() {
    strace();
    let server = Server::start(&[]);
    let a = server.token(&["--agent", "a"]);
    let epic = server.way(&["add", "Epic", "-t", "epic", "--json"]).data()["id"].as_str().unwrap().to_owned();
    let part = server.way(&["add", "Part", "--parent", &epic, "--json"]).data()["id"].as_str().unwrap().to_owned();
    let _ = server.way(&["workflow", "from-issue", &epic, "--start"]).ok();
    let mut close = server.sandbox.command("strace", &server.repo);
    close.args(["-f", "-o", "/dev/null", "-e", "trace=fsync", "-e", "inject=fsync:delay_enter=2000000"]);
    close.args([env!("CARGO_BIN_EXE_way"), "close", &part, "--reason", "by a person"]);
    let close = close.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("the close is being written to the ledger", || is_being_written(&server.repo));
    let claimed = server.ask("POST", "/api/v1/op/claim_task").by(&a).json(&json!({})).send();
    let ledger = std::fs::read_to_string(server.repo.join(LEDGER)).unwrap();
    assert!(close.wait_with_output().unwrap().status.success());
    assert_eq!(claimed.data()["task"]["issue"], json!(part), "{claimed:?}");
    assert!(ledger.contains("by a person"), "the claim was answered before the close was in the ledger: {ledger}");
    assert!(claimed.body.contains(&format!("issue {part} is closed")), "{claimed:?}");
}

#[test]
fn t13_a_refused_caller_does_not_learn_whether_the_store_has_changed() {
    let server = Server::start(&[]);
    let token = server.token(&["--role", "job", "--agent", "job", "--task", "tk_000000000000"]);
    let refused = server.ask("GET", "/api/v1/jobs/jb_000000000000/log").with("If-None-Match", "*").by(&token).send();
    assert_eq!((refused.status, refused.headers.get("etag")), (403, None));
}
