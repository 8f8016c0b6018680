//! What reaches agents, jobs and readers of the work and the messages of others, by way of streams, tools and batches.

use serde_json::{Value, json};

use super::following::Stream;
use super::{Reply, Server};

pub(super) fn call(server: &Server, token: &str, operation: &str, arguments: &Value) -> Reply {
    server.ask("POST", &format!("/api/v1/op/{operation}")).by(token).json(arguments).send()
}

#[test]
fn tools_and_batches_change_no_issue_that_another_agent_holds() {
    let server = Server::start(&[]);
    let [alice, bob] = ["alice", "bob"].map(|name| server.token(&["--agent", name]));
    let [issue, free] = ["Bob's", "Free"].map(|title| {
        server.post("/api/v1/issues", &json!({ "title": title })).data()["id"].as_str().unwrap().to_owned()
    });
    call(&server, &bob, "claim_issue", &json!({ "issue": issue })).data();
    let updates = [
        json!({ "title": "Alice's" }),
        json!({ "status": "closed" }),
        json!({ "status": "deferred" }),
        json!({ "status": "blocked" }),
        json!({ "status": "open", "assignee": "alice" }),
        json!({ "labels": ["duplicate"] }),
        json!({ "parent": free }),
        json!({ "priority": 4, "description": "" }),
    ];
    let updates = updates.map(|mut update| {
        update["do"] = json!("update");
        update
    });
    let others = ["release", "close", "reopen", "claim"].map(|word| json!({ "do": word }));
    let depend = [json!({ "do": "depend", "on": free })];
    for mut arguments in updates.into_iter().chain(others).chain(depend) {
        arguments["id"] = json!(issue);
        let tool = server.ask("POST", "/mcp").by(&alice).with("Accept", "application/json, text/event-stream");
        let params = json!({ "name": "issue", "arguments": arguments });
        let reply = tool.json(&json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params })).send();
        assert!(reply.body.contains("\"conflict\"") && reply.body.contains("held by bob"), "{}", reply.body);
    }
    for line in ["update ID --title Alices", "close ID", "update ID --status closed", "dep add ID FREE", "delete ID"] {
        let line = line.replace("ID", &issue).replace("FREE", &free);
        server.sandbox.write(server.repo.join("batch"), format!("{line}\n"));
        let run = server.way(&["batch", "batch", "--agent", "alice"]).fails(4);
        assert!(run.stderr.contains("is held by bob"), "{line}: {}", run.stderr);
    }
    // A task that stands for the issue is no way around.
    let plan = json!({ "tasks": [{ "name": "around", "issue": issue }] });
    call(&server, &alice, "add_workflow", &json!({ "name": "w", "plan": plan, "start": true })).data();
    for operation in ["claim_task", "skip_task"] {
        let reply = call(&server, &alice, operation, &json!({ "task": "around" }));
        assert!(operation == "skip_task" || reply.body.contains("which bob holds"), "{}", reply.body);
    }
    let shown = server.get(&format!("/api/v1/issues/{issue}")).data();
    let facts = ["title", "status", "assignee", "priority"].map(|field| shown[field].clone());
    assert_eq!(facts, [json!("Bob's"), json!("in_progress"), json!("bob"), json!(2)], "{shown}");
    assert!(shown["labels"].is_null() && shown["dependencies"].is_null(), "{shown}");
}

#[test]
fn streams_hide_messages_of_others_from_agents_and_readers() {
    let server = Server::start(&[]);
    let [alice, bob] = ["alice", "bob"].map(|name| server.token(&["--agent", name]));
    let reader = server.token(&["--role", "read-only"]);
    call(&server, &alice, "register_agent", &json!({})).data();
    let stream = |token: &str| Stream::open(server.ask("GET", "/api/v1/events/stream?kind=message").by(token));
    let (mut seen, mut hidden) = (stream(&server.token), [stream(&alice), stream(&reader)]);
    server.post("/api/v1/agents/register", &json!({ "name": "carol" })).data();
    let letter = json!({ "to": "carol", "subject": "Private subject", "body": "Private body" });
    call(&server, &bob, "send_message", &letter).data();
    assert_eq!(seen.next().2["data"]["subject"], "Private subject", "the owner sees it");
    for stream in &mut hidden {
        let (kind, _, event) = stream.next();
        assert!(kind == "message.sent" && !event.to_string().contains("Private"), "{event}");
    }
}
