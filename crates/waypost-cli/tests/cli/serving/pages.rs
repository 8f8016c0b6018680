//! Pages of lists: over every list, with the same fields.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Server, plan};
use crate::support::sandbox;

/// A server with several records of every kind.
fn full_server() -> Server {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    // A store for several repositories.
    let _ = sandbox.way(&repo, ["config", "set", "scope", "global"]).ok();
    let server = Server::start_in(sandbox, repo, &[]);
    let by = |agent: &str, path: &str, body: Value| {
        server.ask("POST", &format!("/api/v1{path}")).with("Waypost-Agent", agent).json(&body).send().data()
    };
    for number in 0..5 {
        by("", "/agents", json!({ "name": format!("agent{number}") }));
        by("", "/workflows", json!({ "name": format!("w{number}"), "plan": plan(), "start": true }));
        by("", "/templates", json!({ "name": format!("t{number}"), "body": { "tasks": [{ "name": "a" }] } }));
        by("agent1", "/messages", json!({ "to": "agent0", "body": format!("message {number}") }));
    }
    let inbox = by("agent0", "/inbox/list", json!({ "peek": true }));
    for _ in 0..2 {
        by("agent0", "/messages", json!({ "reply_to": inbox["messages"][0]["id"], "body": "an answer" }));
    }
    let first = by("", "/issues", json!({ "title": "word first", "priority": 0 }));
    for number in 0..6 {
        let blocked_by = if number % 2 == 0 { json!([first["id"]]) } else { json!([]) };
        let title = format!("word {}", number % 3);
        by("", "/issues", json!({ "title": title, "blocked_by": blocked_by, "priority": number % 2 }));
    }
    let claimed = by("agent2", "/tasks/claim", json!({ "task": "w0/build" }));
    for number in 0..5 {
        let checkpoint = json!({
            "epoch": claimed["lease"]["epoch"], "kind": "progress", "summary": format!("step {number}"), "workflow": "w0",
        });
        by("agent2", "/tasks/build/checkpoints", checkpoint);
    }
    for name in ["one", "two"] {
        server.sandbox.git(&server.repo, ["worktree", "add", "--quiet", "-b", name, &format!("../{name}")]);
        let _ = server.sandbox.way(&server.sandbox.path(name), ["status"]).ok();
        let other = server.sandbox.git_repo(format!("other-{name}"));
        let _ = server.way(&["repo", "add", other.to_str().unwrap()]).ok();
        let _ = server.way(&["job", "start", "--", "true"]);
    }
    server
}

/// Lists that cannot have more than one record in this test.
const SHORT: &[&str] = &["list_machines"];

/// Returns the address of every list, with the parameters that it needs.
fn lists(server: &Server) -> Vec<(String, String, String)> {
    let document: Value = serde_json::from_str(&server.get("/openapi.json").body).unwrap();
    let inbox = server.ask("POST", "/api/v1/inbox/list").with("Waypost-Agent", "agent0").send().data();
    let message = inbox["messages"][0]["id"].as_str().unwrap().to_owned();
    let mut found = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let name = operation["operationId"].as_str().unwrap();
            let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
            let body = &operation["requestBody"]["content"]["application/json"]["schema"];
            let body = document.pointer(body["$ref"].as_str().unwrap_or_default().trim_start_matches('#'));
            if name == "explain_issue" {
                // Its pages are those of the comments of one issue.
                continue;
            }
            let has_cursor = parameters.iter().any(|parameter| parameter["name"] == "after")
                || body.is_some_and(|body| body.pointer("/properties/after").is_some());
            let is_list = name.starts_with("list_") || name.ends_with("_issues") || name.ends_with("_tasks");
            assert_eq!(has_cursor, is_list || name == "show_thread", "{name}");
            if has_cursor {
                let path = path.replace("{task}", "build").replace("{message}", &message);
                let query = match name {
                    "search_issues" => "text=word",
                    "list_checkpoints" => "workflow=w0",
                    "list_workspaces" => "all=true",
                    "list_issues" => "sort=title",
                    _ => "",
                };
                found.push((name.to_owned(), method.to_uppercase(), format!("{path}?{query}")));
            }
        }
    }
    assert!(found.len() >= 17, "{found:?}");
    found
}

/// Returns the records of a page, and the position of the next one.
fn page(server: &Server, method: &str, path: &str, limit: u32, after: Option<&str>) -> (Vec<Value>, Option<String>) {
    let mut answer = if method == "GET" {
        let after = after.map(|after| format!("&after={after}")).unwrap_or_default();
        server.ask("GET", &format!("{path}&limit={limit}{after}")).with("Waypost-Agent", "agent0").send().json()
    } else {
        let body = json!({ "limit": limit, "after": after, "peek": true });
        let ask = server.ask(method, path.trim_end_matches('?')).with("Waypost-Agent", "agent0");
        ask.json(&body).send().json()
    };
    let inner = answer["data"].take();
    let (records, next) = match inner {
        Value::Array(records) => (records, &answer["next"]),
        mut inner => {
            let list = ["worktrees", "messages"].into_iter().find(|list| inner[*list].is_array());
            let records = inner[list.unwrap_or_else(|| panic!("{path}: {answer}"))].take();
            answer = inner;
            (records.as_array().unwrap().clone(), &answer["next"])
        }
    };
    (records, next.as_str().map(str::to_owned))
}

/// Walks over all pages. `between` runs after each page.
fn walk(server: &Server, method: &str, path: &str, limit: u32, mut between: impl FnMut()) -> Vec<Value> {
    let (mut walked, mut after) = (Vec::new(), None);
    loop {
        let (records, next) = page(server, method, path, limit, after.as_deref());
        assert!(records.len() <= limit as usize, "{path}");
        assert!(next.is_none() || records.len() == limit as usize, "{path}: a page before the last one is full");
        walked.extend(records);
        assert!(walked.len() < 10_000, "{path} does not end");
        match next {
            Some(next) => after = Some(next),
            None => return walked,
        }
        between();
    }
}

fn id(record: &Value) -> String {
    let record = record.get("issue").filter(|issue| issue.is_object()).unwrap_or(record);
    let key = ["id", "sequence", "name"].into_iter().find(|key| !record[*key].is_null());
    record[key.unwrap_or_else(|| panic!("{record} has no key"))].to_string()
}

#[test]
fn the_pages_of_every_list_together_have_each_record_once() {
    let server = full_server();
    for (name, method, path) in lists(&server) {
        let (whole, next) = page(&server, &method, &path, 1_000, None);
        assert_eq!(next, None, "{name}");
        assert!(whole.len() > 1 || SHORT.contains(&name.as_str()), "{name}: {whole:?}");
        let whole: Vec<_> = whole.iter().map(id).collect();
        for limit in [1, 2] {
            let walked: Vec<_> = walk(&server, &method, &path, limit, || ()).iter().map(id).collect();
            assert_eq!(walked, whole, "{name} with limit {limit}");
        }
        let wrong = server.ask("GET", &format!("{path}&after=5b")).send();
        if method == "GET" {
            assert_eq!(wrong.fails(400), "invalid", "{name}");
        }
    }
    for sort in ["priority", "created", "updated", "closed", "due", "id", "title"] {
        for reverse in [false, true] {
            let path = format!("/api/v1/issues?closed=true&sort={sort}&reverse={reverse}");
            let whole: Vec<_> = page(&server, "GET", &path, 1_000, None).0.iter().map(id).collect();
            assert_eq!(walk(&server, "GET", &path, 1, || ()).iter().map(id).collect::<Vec<_>>(), whole, "{path}");
        }
    }
}

#[test]
fn records_that_come_and_go_between_pages_move_no_other_record() {
    let server = full_server();
    let mut number = 0;
    let mut add_and_remove = || {
        number += 1;
        let name = format!("new{number}");
        server.post("/api/v1/workflows", &json!({ "name": name, "plan": plan(), "start": true })).data();
        server.post("/api/v1/agents", &json!({ "name": format!("aa{number}") })).data();
        server.post("/api/v1/templates", &json!({ "name": name, "body": { "tasks": [{ "name": "a" }] } })).data();
        let added = server.post("/api/v1/issues", &json!({ "title": "aa word", "priority": 0 })).data();
        let removed = server.post("/api/v1/issues", &json!({ "title": "aa word" })).data()["id"].clone();
        server.ask("DELETE", &format!("/api/v1/issues/{}", removed.as_str().unwrap())).send().data();
        assert!(added["id"].is_string());
    };
    for path in
        ["/workflows", "/tasks", "/agents", "/templates", "/issues", "/issues/ready", "/issues/blocked", "/events"]
    {
        let path = format!("/api/v1{path}?");
        let before: BTreeSet<_> = page(&server, "GET", &path, 1_000, None).0.iter().map(id).collect();
        let limit = if path.contains("events") { 40 } else { 2 };
        let walked: Vec<_> = walk(&server, "GET", &path, limit, &mut add_and_remove).iter().map(id).collect();
        let distinct: BTreeSet<_> = walked.iter().cloned().collect();
        assert_eq!(distinct.len(), walked.len(), "{path} has a record twice");
        let missed: Vec<_> = before.difference(&distinct).collect();
        assert!(missed.is_empty(), "{path} misses {missed:?}");
    }
}

#[test]
fn tools_have_the_same_pages_and_refuse_a_limit_of_0() {
    let server = full_server();
    let call = |tool: &str, arguments: Value| -> Value {
        let params = json!({ "name": tool, "arguments": arguments });
        let ask = server.ask("POST", "/mcp").with("Accept", "application/json, text/event-stream");
        let ask = ask.with("MCP-Protocol-Version", "2025-06-18").with("Waypost-Agent", "agent0");
        let reply = ask.json(&json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params })).send();
        serde_json::from_str::<Value>(&reply.body).unwrap()["result"].take()
    };
    for (tool, action, list, path) in [
        ("issues", "list", "issues", "/api/v1/issues?"),
        ("issues", "ready", "issues", "/api/v1/issues/ready?"),
        ("messages", "inbox", "messages", "/api/v1/inbox/list?"),
    ] {
        let method = if tool == "messages" { "POST" } else { "GET" };
        let whole: Vec<_> = page(&server, method, path, 1_000, None).0.iter().map(id).collect();
        let (mut walked, mut after) = (Vec::new(), Value::Null);
        loop {
            let mut arguments = json!({ "do": action, "limit": 2 });
            if after.is_string() {
                arguments["after"] = after;
            }
            let mut answer = call(tool, arguments)["structuredContent"].take();
            walked.extend(answer[list].as_array().unwrap().iter().map(id));
            after = answer["next"].take();
            if after.is_null() {
                break;
            }
        }
        assert_eq!(walked, whole, "{tool} {action}");
        let refused = call(tool, json!({ "do": action, "limit": 0 }));
        assert_eq!(refused["structuredContent"]["error"]["code"], "invalid", "{tool} {action}: {refused}");
    }
    for (name, method, path) in lists(&server) {
        let message = path.split('/').nth(4).unwrap_or_default();
        let arguments = match name.as_str() {
            "list_events" | "list_workflows" => json!({ "query": { "limit": 0 } }),
            "list_checkpoints" => json!({ "limit": 0, "task": "build", "workflow": "w0" }),
            "search_issues" => json!({ "limit": 0, "text": "word" }),
            "show_thread" => json!({ "limit": 0, "message": message }),
            _ => json!({ "limit": 0 }),
        };
        let by_name = server.post(&format!("/api/v1/op/{name}"), &arguments);
        assert_eq!(by_name.fails(400), "invalid", "{name}");
        assert_eq!(by_name.json()["detail"], "limit must be at least 1", "{name}");
        if method == "GET" {
            assert_eq!(server.get(&format!("{path}&limit=0")).fails(400), "invalid", "{name}");
        }
    }
}
