//! The server's description of its API, and the form of its answers.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use expect_test::expect_file;
use serde_json::{Value, json};

use super::{Server, plan};

#[test]
fn the_api_description_matches_the_committed_file() {
    let server = Server::start(&[]);
    let document: Value = serde_json::from_str(&server.get("/openapi.json").body).unwrap();
    let text = one_a_line(&document);
    assert!(text.len() < 250_000, "{} bytes", text.len());
    expect_file![Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json")].assert_eq(&text);
}

/// Writes the description with one address or schema per line, so that a change of one changes one line.
fn one_a_line(document: &Value) -> String {
    fn put(value: &Value, depth: usize, text: &mut String) {
        match value {
            Value::Object(fields) if depth > 0 => {
                let indent = "  ".repeat(4 - depth);
                text.push_str("{\n");
                for (number, (name, value)) in fields.iter().enumerate() {
                    let comma = if number > 0 { ",\n" } else { "" };
                    write!(text, "{comma}{indent}{}: ", json!(name)).unwrap();
                    let is_long = value.to_string().len() > 100;
                    put(value, if is_long { depth - 1 } else { 0 }, text);
                }
                write!(text, "\n{}}}", &indent[2..]).unwrap();
            }
            _ => text.push_str(&value.to_string()),
        }
    }
    let mut text = String::new();
    put(document, 3, &mut text);
    text + "\n"
}

#[test]
fn every_reference_in_the_api_description_resolves() {
    fn references(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                found.extend(fields.get("$ref").and_then(Value::as_str).map(str::to_owned));
                fields.values().for_each(|value| references(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }
    let server = Server::start(&[]);
    let document: Value = serde_json::from_str(&server.get("/openapi.json").body).unwrap();
    assert_eq!(document["openapi"], "3.1.0");
    let mut found = Vec::new();
    references(&document, &mut found);
    assert!(found.len() > 50);
    for reference in found {
        let pointer = reference.strip_prefix('#').unwrap_or_else(|| panic!("{reference} leads elsewhere"));
        assert!(document.pointer(pointer).is_some(), "{reference} is not there");
    }
    let mut ids: BTreeMap<String, u32> = BTreeMap::new();
    for operation in document["paths"].as_object().unwrap().values().flat_map(|path| path.as_object().unwrap().values())
    {
        *ids.entry(operation["operationId"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    assert!(ids.values().all(|count| *count == 1), "{ids:?}");
}

/// Maximum number of examples per operation.
const EXAMPLES: &str = "2";

#[test]
fn every_request_that_the_description_allows_gets_a_described_answer() {
    let schemathesis = waypost_testkit::schemathesis();
    let server = Server::start(&[]);
    server.post("/api/v1/workflows", &json!({ "name": "w", "plan": plan(), "start": true })).data();
    // Left out of all checks: that every request which fits the description is accepted. The description has the types of
    // values, not all rules: a title is not empty, a cursor is one that the server gave, a dependency has a known type, a whole
    // number is not written as 1.0, and the arguments of `/op/{operation}` are described at the other addresses.
    let checks = ["--checks", "all", "--exclude-checks", "positive_data_acceptance"];
    let dir = server.sandbox.dir("schemathesis");
    // A request that exceeds the limit of a text may exceed that of all requests, too.
    let statuses = "[checks]\nnegative_data_rejection.expected-statuses = [400, 401, 403, 404, 405, 406, 409, 413, 415, 422, 428, 429]\n";
    server.sandbox.write(dir.join("schemathesis.toml"), statuses);
    let output = server
        .sandbox
        .command(schemathesis, &dir)
        .args(["run", &format!("{}/openapi.json", server.url())])
        .args(["--header", &format!("Authorization: Bearer {}", server.token)])
        .args(["--max-examples", EXAMPLES, "--phases", "coverage,fuzzing"])
        .args(checks)
        // Two threads that parse Python code at once fail in Python 3.11: "AST constructor recursion depth mismatch".
        .args(["--workers", "1"])
        // Excluded: endless streams, logins that need a code, and jobs that would run random commands.
        .args(["--exclude-operation-id", "start_job", "--exclude-path-regex", "/stream|/wait|/login"])
        .args(["--seed", "1"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("generated"), "{said}");
}

#[test]
fn a_list_is_an_array_with_the_position_of_the_next_page() {
    let server = Server::start(&[]);
    server.post("/api/v1/workflows", &json!({ "name": "w", "plan": plan(), "start": true })).data();
    let page = server.get("/api/v1/tasks?limit=1").json();
    assert_eq!((page["data"].as_array().unwrap().len(), &page["more"]), (1, &json!(1)));
    let first = server.get("/api/v1/events?since=0&limit=3").json();
    assert_eq!(first["data"].as_array().unwrap().len(), 3);
    let position = first["position"].as_u64().unwrap();
    let second = server.get(&format!("/api/v1/events?since={position}&limit=1")).json();
    assert_eq!(second["data"][0]["sequence"], position + 1);
    let next = first["next"].as_str().unwrap();
    let second = server.get(&format!("/api/v1/events?since=0&limit=1&after={next}")).json();
    assert_eq!(second["data"][0]["sequence"], position + 1);
    let claimable = server.get("/api/v1/tasks?claimable=true&statuses=pending,failed").data();
    assert_eq!(claimable[0]["name"], "build");
    // An operation called by its name returns the operation's own answer.
    let raw = server.post("/api/v1/op/list_tasks", &json!({ "limit": 5 })).data();
    assert_eq!(raw["tasks"].as_array().unwrap().len(), 2);
}

#[test]
fn an_unchanged_answer_is_not_sent_again() {
    let server = Server::start(&[]);
    server.post("/api/v1/workflows", &json!({ "name": "w", "plan": plan(), "start": true })).data();
    server.post("/api/v1/issues", &json!({ "title": "one" })).data();
    for path in ["/api/v1/tasks", "/api/v1/status", "/api/v1/workflows/w", "/api/v1/issues"] {
        let tag = server.get(path).headers["etag"].clone();
        let again = || server.ask("GET", path).with("If-None-Match", &tag).send();
        let unchanged = again();
        assert_eq!((unchanged.status, unchanged.body.as_str()), (304, ""), "{path}");
        // Writes by another process, which the server does not see as requests.
        let _ = server.way(&["task", "claim", "--agent", "other"]);
        let _ = server.way(&["workflow", "create", &format!("w{}", path.len())]);
        let _ = server.way(&["add", path]).ok();
        assert_eq!(again().status, 200, "{path}");
    }
    let (mine, theirs) =
        (server.get("/api/v1/tasks"), server.ask("GET", "/api/v1/tasks").with("Waypost-Agent", "x").send());
    assert_ne!(mine.headers["etag"], theirs.headers["etag"], "an ETag depends on the caller");
}

#[test]
fn a_malformed_request_is_answered_with_its_error() {
    let server = Server::start(&[]);
    for (method, path, body, message) in [
        ("POST", "/api/v1/workflows", Some("{\"nam\": 1}"), "unknown field \"nam\" for add_workflow"),
        ("POST", "/api/v1/workflows", Some("{\"name\": 1}"), "wrong arguments for add_workflow"),
        ("POST", "/api/v1/workflows", Some("{"), "the body is not valid JSON"),
        ("POST", "/api/v1/workflows", Some("[]"), "the body must be a JSON object"),
        ("POST", "/api/v1/workflows", Some("{\"name\": \"a\\u0000b\"}"), "NUL"),
        ("POST", "/api/v1/workflows?name=x", Some("{}"), "arguments belong in the body"),
        ("POST", "/api/v1/workflows/x/start", Some("{\"workflow\": \"y\"}"), "is part of the path"),
        ("GET", "/api/v1/tasks?limit=0&limit=1", None, "duplicate parameter limit"),
        ("GET", "/api/v1/tasks?lmit=0", None, "unknown field \"lmit\""),
        ("GET", "/api/v1/tasks?limit=5000", None, "limit must be 1 to 1000"),
        ("GET", "/api/v1/tasks?limit=0", None, "limit must be 1 to 1000"),
        ("POST", "/api/v1/op/list_tasks", Some("{\"limit\": 0}"), "limit must be at least 1"),
        ("GET", "/api/v1/tasks?limit=-1", None, "whole number"),
        ("GET", "/api/v1/tasks?statuses=asleep", None, "wrong arguments"),
        ("GET", "/api/v1/wait?since=x", None, "whole number"),
    ] {
        let mut ask = server.ask(method, path);
        if let Some(body) = body {
            ask = ask.with("Content-Type", "application/json");
            ask.body = Some(body.as_bytes().to_vec());
        }
        let reply = ask.send();
        assert_eq!(reply.fails(400), "invalid", "{path}");
        let said = reply.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(said.contains(message), "{path}: {said}");
    }
    assert_eq!(server.get("/api/v1/none").fails(404), "not_found");
    assert_eq!(server.get("/api/v1/tasks/claim/x").fails(404), "not_found");
    assert_eq!(server.ask("POST", "/api/v1/status").json(&json!({})).send().fails(405), "invalid");
}

#[test]
fn a_write_without_arguments_needs_neither_a_body_nor_a_content_type() {
    let server = Server::start(&[]);
    let id = server.post("/api/v1/issues", &json!({ "title": "one" })).data()["id"].as_str().unwrap().to_owned();
    let claim = server.ask("POST", "/api/v1/issues/claim").with("Waypost-Agent", "a").send().data();
    assert_eq!(claim["issue"]["id"], id.as_str());
    for path in [format!("/api/v1/issues/{id}/release"), format!("/api/v1/issues/{id}/close")] {
        assert_eq!(server.ask("POST", &path).with("Waypost-Agent", "a").send().data()["id"], id.as_str(), "{path}");
    }
    let inbox = server.ask("POST", "/api/v1/inbox/list").with("Waypost-Agent", "a").send();
    assert_eq!(inbox.data()["unread"], 0);
    assert_eq!(server.ask("POST", "/api/v1/issues").send().fails(400), "invalid", "an issue needs a title");
    let mut keyed = server.ask("POST", "/api/v1/issues/claim");
    keyed.headers.push(("Idempotency-Key".to_owned(), String::new()));
    assert_eq!(keyed.send().fails(400), "invalid", "a write with an empty key would not be safe to retry");
    let mut form = server.ask("POST", "/api/v1/issues/claim");
    form.body = Some(b"a=b".to_vec());
    assert_eq!(form.send().fails(415), "invalid");
}

#[test]
fn a_wrong_method_is_answered_with_those_that_are_right() {
    let server = Server::start(&[]);
    for (method, path, allowed) in [
        ("POST", "/api/v1/status", "GET,HEAD"),
        ("GET", "/api/v1/tasks/claim", "POST"),
        ("PUT", "/api/v1/issues/x", "GET,HEAD,PATCH,DELETE"),
        ("OPTIONS", "/api/v1/tasks", "GET,HEAD,POST"),
        ("DELETE", "/api/v1/tasks", "GET,HEAD,POST"),
        ("PATCH", "/healthz", "GET,HEAD"),
        ("GET", "/api/v1/op/list_tasks", "POST"),
    ] {
        let reply = server.ask(method, path).send();
        assert_eq!(reply.fails(405), "invalid", "{method} {path}");
        let sorted = |methods: &str| methods.split(',').map(str::to_owned).collect::<BTreeSet<_>>();
        assert_eq!(sorted(&reply.headers["allow"]), sorted(allowed), "{method} {path}");
    }
    assert_eq!(server.ask("PUT", "/api/v1/none").send().fails(404), "not_found");
}

#[test]
fn errors_are_problem_details_with_the_code_of_the_commands() {
    let server = Server::start(&[]);
    let reader = server.token(&["--role", "read-only"]);
    let cases = [
        (server.get("/api/v1/issues/none"), 404, "not_found", 3, "/api/v1/issues/none"),
        (server.get("/api/v1/tasks?limit=x"), 400, "invalid", 2, "/api/v1/tasks"),
        (server.get("/nothing"), 404, "not_found", 3, "/nothing"),
        (server.ask("PUT", "/api/v1/tasks").send(), 405, "invalid", 2, "/api/v1/tasks"),
        (server.ask("GET", "/api/v1/tasks").by("wrong").send(), 401, "refused", 7, "/api/v1/tasks"),
        (server.ask("GET", "/api/v1/tasks").with("Host", "evil").send(), 403, "refused", 7, "/api/v1/tasks"),
        (
            server.ask("POST", "/api/v1/workflows").by(&reader).json(&json!({})).send(),
            403,
            "refused",
            7,
            "/api/v1/workflows",
        ),
        (server.ask("POST", "/api/v1/tasks/claim").send(), 404, "nothing_to_do", 6, "/api/v1/tasks/claim"),
        (server.post("/api/v1/op/lst_tasks", &json!({})), 404, "not_found", 3, "/api/v1/op/lst_tasks"),
    ];
    for (reply, status, code, exit, instance) in cases {
        assert_eq!(reply.headers["content-type"], "application/problem+json", "{reply:?}");
        assert_eq!(reply.fails(status), code);
        let problem = reply.json();
        let members = ["type", "title", "status", "detail", "instance", "code", "exit", "hints"];
        assert!(members.iter().all(|member| !problem[*member].is_null()), "{problem}");
        assert_eq!(
            (&problem["status"], &problem["code"], &problem["exit"]),
            (&json!(status), &json!(code), &json!(exit))
        );
        assert_eq!((&problem["instance"], &problem["detail"]), (&json!(instance), &problem["error"]["message"]));
        assert_eq!(problem["type"], format!("urn:waypost:error:{code}"));
        assert_eq!(reply.headers["content-length"], reply.body.len().to_string());
    }
}

#[test]
fn every_time_in_an_answer_is_rfc_3339_text() {
    fn check(path: &str, key: &str, value: &Value, found: &mut usize) {
        let is_time =
            key.ends_with("_at") || ["time", "first_seen", "last_seen", "last_heartbeat", "at"].contains(&key);
        match value {
            Value::Object(fields) => fields.iter().for_each(|(key, value)| check(path, key, value, found)),
            Value::Array(items) => items.iter().for_each(|value| check(path, key, value, found)),
            Value::Null => {}
            value if is_time => {
                let text = value.as_str().unwrap_or_else(|| panic!("{path}: {key} is {value}"));
                assert!(text.parse::<jiff::Timestamp>().is_ok(), "{path}: {key} is {text}");
                *found += 1;
            }
            // No other number is a time of our age in seconds or milliseconds.
            value => assert!(value.as_i64().is_none_or(|number| number < 1_500_000_000), "{path}: {key} is {value}"),
        }
    }
    let server = Server::start(&[]);
    server.post("/api/v1/workflows", &json!({ "name": "w", "plan": plan(), "start": true })).data();
    server.post("/api/v1/issues", &json!({ "title": "one", "due_at": "2026-12-01" })).data();
    let claimed = server.ask("POST", "/api/v1/tasks/claim").with("Waypost-Agent", "a").send().data();
    let mut found = 0;
    check("claim", "", &claimed, &mut found);
    let document: Value = serde_json::from_str(&server.get("/openapi.json").body).unwrap();
    for (path, methods) in document["paths"].as_object().unwrap() {
        let skipped = ["/log", "/stream", "/wait", "/login", "/openapi", "/healthz", "/readyz", "/metrics", "/prove"];
        if methods.get("get").is_none() || skipped.iter().any(|part| path.contains(part)) {
            continue;
        }
        let filled = path.replace("{workflow}", "w").replace("{task}", "build").replace("{agent}", "a");
        let reply = server.get(&filled.replace("/search", "/search?text=one"));
        if reply.status == 200 {
            check(&filled, "", &reply.json(), &mut found);
        }
    }
    assert!(found > 50, "{found} times");
}

#[test]
fn addresses_of_the_version_before_still_work_and_name_their_successors() {
    let server = Server::start(&[]);
    let add = |title: &str| {
        server.post("/api/v1/issues", &json!({ "title": title })).data()["id"].as_str().unwrap().to_owned()
    };
    let (one, other) = (add("one"), add("two"));
    for (path, body, successor) in [
        (format!("/issues/{one}/update"), json!({ "priority": 0 }), Some(format!("/issues/{one}"))),
        (format!("/issues/{one}/comment"), json!({ "text": "x" }), Some(format!("/issues/{one}/comments"))),
        (format!("/issues/{one}/depend"), json!({ "on": other }), Some(format!("/issues/{one}/dependencies"))),
        (format!("/issues/{one}/undepend"), json!({ "on": other }), None),
        (format!("/issues/{one}/delete"), json!({}), Some(format!("/issues/{one}"))),
        ("/agents/register".to_owned(), json!({ "name": "a" }), Some("/agents".to_owned())),
        ("/agents/a/retire".to_owned(), json!({}), Some("/agents/a".to_owned())),
    ] {
        let reply = server.post(&format!("/api/v1{path}"), &body);
        assert_eq!(reply.status, 200, "{path}: {reply:?}");
        assert_eq!(reply.headers["deprecation"], "@1794787200", "{path}");
        let plain = |text: &str| text.replace("%2D", "-");
        let link = successor.map(|path| format!("</api/v1{path}>; rel=\"successor-version\""));
        assert_eq!(reply.headers.get("link").map(|link| plain(link)), link, "{path}");
    }
    assert!(!server.get("/api/v1/tasks").headers.contains_key("deprecation"));
}

#[test]
fn names_of_operations_of_the_version_before_still_work_and_name_their_successors() {
    let server = Server::start(&[]);
    for (former, current) in waypost_core::op::FORMER_NAMES {
        let reply = server.post(&format!("/api/v1/op/{former}"), &json!({ "none": 1 }));
        assert_eq!(reply.headers["deprecation"], "@1794787200", "{former}: {reply:?}");
        let link = format!("</api/v1/op/{current}>; rel=\"successor-version\"");
        assert_eq!(reply.headers["link"], link, "{former}");
        assert_eq!(reply.status, 400, "{former}: {reply:?}");
        let plain = server.post(&format!("/api/v1/op/{current}"), &json!({ "none": 1 }));
        assert_eq!((plain.status, plain.headers.contains_key("deprecation")), (400, false), "{current}");
    }
    let keyed = |name: &str| {
        let ask = server.ask("POST", &format!("/api/v1/op/{name}")).with("Idempotency-Key", "one-workflow");
        ask.json(&json!({ "name": "w" })).send().data()["id"].clone()
    };
    assert_eq!(keyed("create_workflow"), keyed("add_workflow"), "a retry with the present name");
    let issue = server.post("/api/v1/op/add_issue", &json!({ "title": "x" })).data()["id"].clone();
    assert_eq!(server.post("/api/v1/op/delete_issue", &json!({ "issue": issue })).status, 200);
}

#[test]
fn a_task_and_a_job_are_updated_with_patch() {
    let server = Server::start(&[]);
    let plan = json!({ "tasks": [{ "name": "build", "description": "B" }] });
    assert_eq!(server.post("/api/v1/workflows", &json!({ "name": "w", "plan": plan })).status, 200);
    let patch = |path: &str, body: &Value| server.ask("PATCH", path).json(body).send();
    let changed = patch("/api/v1/tasks/build", &json!({ "priority": 1, "timeout_ms": 1000 }));
    assert_eq!((changed.data()["priority"].clone(), changed.data()["run_timeout_ms"].clone()), (json!(1), json!(1000)));
    assert_eq!(patch("/api/v1/tasks/build", &json!({ "priority": 7 })).status, 400);
    assert_eq!(patch("/api/v1/tasks/none", &json!({ "priority": 1 })).status, 404);
    assert_eq!(patch("/api/v1/jobs/jb_none", &json!({ "phase": "x" })).status, 404, "the job is named by the path");
    let former = server.ask("POST", "/api/v1/jobs/jb_none/note").json(&json!({ "phase": "x" })).send();
    assert_eq!((former.status, former.headers.contains_key("deprecation")), (404, true));
    assert_eq!(server.ask("POST", "/api/v1/tasks/build/update").json(&json!({ "priority": 2 })).send().status, 404);
}

#[test]
fn issues_have_the_same_verbs_as_the_commands() {
    let server = Server::start(&[]);
    let post = |path: &str, body: Value| server.post(&format!("/api/v1/issues{path}"), &body).data();
    let first = post("", json!({ "title": "Lay the base", "priority": 1, "labels": ["x"] }));
    let (first, id) = (first.clone(), first["id"].as_str().unwrap().to_owned());
    let second = post("", json!({ "title": "Build on it", "blocked_by": [id] }));
    let next = second["id"].as_str().unwrap();
    assert_eq!(first["created_by"], "tester");
    let ids = |path: &str| -> Vec<String> {
        let found = server.get(&format!("/api/v1/issues{path}")).data();
        let id = |issue: &Value| issue.get("issue").unwrap_or(issue)["id"].as_str().unwrap().to_owned();
        found.as_array().unwrap().iter().map(id).collect()
    };
    assert_eq!(ids("/ready"), [id.as_str()]);
    assert_eq!(ids("/blocked"), [next]);
    assert_eq!(ids("/search?text=base"), [id.as_str()]);
    assert_eq!(ids("?labels=x"), [id.as_str()]);
    let change = |method: &str, path: &str, body: Option<Value>| {
        let ask = server.ask(method, &format!("/api/v1/issues{path}"));
        body.into_iter().fold(ask, |ask, body| ask.json(&body)).send().data()
    };
    post(&format!("/{next}/comments"), json!({ "text": "soon" }));
    change("PATCH", &format!("/{next}"), Some(json!({ "priority": 0, "labels": ["y"], "notes": "n" })));
    let taken = server.ask("POST", "/api/v1/issues/claim").with("Waypost-Agent", "a").json(&json!({})).send().data();
    assert_eq!((&taken["issue"]["id"], &taken["issue"]["assignee"]), (&json!(id), &json!("a")));
    let again =
        server.ask("POST", "/api/v1/issues/claim").with("Waypost-Agent", "b").json(&json!({ "issue": id })).send();
    assert_eq!(again.fails(409), "conflict");
    server
        .ask("POST", &format!("/api/v1/issues/{id}/release"))
        .with("Waypost-Agent", "a")
        .json(&json!({}))
        .send()
        .data();
    post(&format!("/{id}/close"), json!({ "reason": "done" }));
    assert_eq!(ids("/ready"), [next]);
    post(&format!("/{id}/reopen"), json!({}));
    change("DELETE", &format!("/{next}/dependencies/{id}"), None);
    post(&format!("/{next}/dependencies"), json!({ "on": id, "kind": "related" }));
    change("DELETE", &format!("/{id}?reason=not%20needed"), None);
    assert_eq!(server.get("/api/v1/issues/none").fails(404), "not_found");
    let shown = server.way(&["show", next, "--json"]).data();
    assert_eq!((&shown["priority"], &shown["comments"][0]["text"]), (&json!(0), &json!("soon")));
    assert_eq!(server.get(&format!("/api/v1/issues/{next}")).data(), shown);
}

#[test]
fn p30_metrics_can_be_read_by_prometheus() {
    let server = Server::start(&[]);
    server.post("/api/v1/workflows", &json!({ "name": "w", "plan": plan(), "start": true })).data();
    let _ = server.way(&["task", "claim", "--agent", "other"]).ok();
    server.get("/api/v1/wait?since=8&ms=20000").data();
    let page = server.get("/metrics");
    assert!(page.headers["content-type"].starts_with("text/plain"));
    let mut values = BTreeMap::new();
    for line in page.body.lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
        assert!(name.starts_with("waypost_"), "{line}");
        values.insert(name, value.parse::<f64>().unwrap_or_else(|_| panic!("{line}")));
    }
    assert!((values["waypost_things{part=\"working\"}"] - 1.0).abs() < 0.1);
    assert!((values["waypost_requests_total{operation=\"add_workflow\",status=\"200\"}"] - 1.0).abs() < 0.1);
    assert!((values["waypost_events_total{kind=\"task.claimed\"}"] - 1.0).abs() < 0.1, "{}", page.body);
    assert!(values["waypost_request_seconds_count{effect=\"write\"}"] > 0.5);
    assert!(values["waypost_events_lag"] < 0.5 && values["waypost_writer_waiting"] < 0.5);
}

#[test]
fn mcp_tools_respect_the_permissions_of_the_token() {
    let server = Server::start(&[]);
    server.post("/api/v1/workflows", &json!({ "name": "w", "plan": plan(), "start": true })).data();
    let call = |token: &str, tool: &str, arguments: Value| -> Value {
        let params = json!({ "name": tool, "arguments": arguments });
        let ask = server.ask("POST", "/mcp").with("Accept", "application/json, text/event-stream");
        let ask = ask.with("MCP-Protocol-Version", "2025-06-18").by(token);
        let reply = ask.json(&json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params })).send();
        serde_json::from_str::<Value>(&reply.body).unwrap()["result"].clone()
    };
    let bob = server.token(&["--role", "agent", "--agent", "bob"]);
    let reader = server.token(&["--role", "read-only"]);
    let code = |result: &Value| result["structuredContent"]["error"]["code"].clone();
    assert_eq!(call(&reader, "status", json!({}))["isError"], false);
    assert_eq!(
        code(&call(&reader, "issue", json!({ "do": "add", "title": "x" }))),
        "invalid",
        "a read-only token names no agent"
    );
    assert_eq!(code(&call(&reader, "next", json!({ "agent": "eve" }))), "refused");
    assert_eq!(code(&call(&bob, "next", json!({ "agent": "eve" }))), "refused");
    let claimed = call(&bob, "next", json!({}));
    assert_eq!(claimed["structuredContent"]["epoch"], 1, "{claimed}");
    assert_eq!(server.ask("POST", "/mcp").by("wrong").json(&json!({})).send().fails(401), "refused");
}
