//! An agent's session over MCP, through the real server on standard input and output.

mod hostile;
mod official;
mod served;

use std::convert::Infallible;
use std::io::{BufRead, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use served::Served;
use waypost::app::{App, Who};
use waypost::machine::Variables;
use waypost::machine::place::{Place, Request};
use waypost::serving::{Grant, Role};
use waypost_core::escape::EXPLANATION;
use waypost_core::op::{RegisterAgent, SendMessage};
use waypost_server::mcp;
use waypost_testkit::{Run, mcp_python, postgres_url, until};

use crate::serving::MAX_LEAK_PER_CLIENT_KIB;
use crate::support::work::Team;

/// Bytes that count as one token.
const BYTES_PER_TOKEN: usize = 4;

/// A minimal client that exchanges lines of JSON.
pub(crate) struct Client {
    pub(crate) child: Child,
    pub(crate) stdin: Option<ChildStdin>,
    pub(crate) stdout: BufReader<ChildStdout>,
    pub(crate) requests: u64,
    /// Bytes of all answers to calls of tools.
    pub(crate) printed: usize,
}

impl Client {
    /// Starts a server without the initialize request.
    pub(crate) fn start(team: &Team, line: &str) -> Client {
        Client::of(team.command(line))
    }

    pub(crate) fn of(mut command: Command) -> Client {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Client { child, stdin, stdout, requests: 0, printed: 0 }
    }

    /// Starts a server and initializes the session.
    pub(crate) fn connect(team: &Team, line: &str) -> Client {
        let mut client = Client::start(team, line);
        client.introduce();
        client
    }

    pub(crate) fn introduce(&mut self) {
        let params = json!({
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" },
        });
        let introduced = self.request("initialize", &params);
        assert_eq!(introduced["result"]["serverInfo"]["name"], "waypost");
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    }

    pub(crate) fn send(&mut self, message: &Value) {
        writeln!(self.stdin.as_mut().unwrap(), "{message}").unwrap();
    }

    pub(crate) fn ask(&mut self, method: &str, params: &Value) {
        self.requests += 1;
        self.send(&json!({ "jsonrpc": "2.0", "id": self.requests, "method": method, "params": params }));
    }

    pub(crate) fn request(&mut self, method: &str, params: &Value) -> Value {
        self.ask(method, params);
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        self.printed += if method == "tools/call" { line.len() } else { 0 };
        let answer: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{method}: {error}: {line}"));
        assert_eq!(answer["id"], self.requests, "{answer}");
        answer
    }

    /// Calls a tool and returns its structured content.
    #[track_caller]
    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let mut answer = self.request("tools/call", &json!({ "name": tool, "arguments": arguments }));
        let result = &mut answer["result"];
        assert_eq!(result["isError"], false, "{tool} {arguments}: {result}");
        assert!(!result["content"][0]["text"].as_str().unwrap().is_empty(), "{tool} says nothing");
        result["structuredContent"].take()
    }

    /// Calls a tool that must be refused, and returns the error.
    #[track_caller]
    pub(crate) fn refused(&mut self, tool: &str, arguments: &Value) -> Value {
        let mut answer = self.request("tools/call", &json!({ "name": tool, "arguments": arguments }));
        let result = &mut answer["result"];
        assert_eq!(result["isError"], true, "{tool} {arguments}: {result}");
        let error = result["structuredContent"]["error"].take();
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(text.contains(error["code"].as_str().unwrap()), "{text}");
        assert!(text.contains(error["message"].as_str().unwrap()), "{text}");
        error
    }

    /// Closes standard input, and returns the server's exit status and how long the exit took.
    pub(crate) fn close(mut self) -> (ExitStatus, Duration) {
        let began = Instant::now();
        drop(self.stdin.take());
        let ended = self.child.wait().unwrap();
        (ended, began.elapsed())
    }
}

/// A team with an issue, a workflow whose first task is for it, and an agent bob.
pub(crate) fn team() -> Team {
    let team = Team::new();
    let issue = team.data("add 'The first thing'")["id"].as_str().unwrap().to_owned();
    let plan = format!("# All of it\na: one\n  issue: {issue}\nb: two\nc: three\nd: four\n  needs: a\n");
    let _ = team.fed("workflow create w --plan - --start --json", &plan).data();
    let _ = team.data("task heartbeat --agent bob");
    team
}

#[test]
fn a_store_that_is_moved_away_is_neither_read_nor_created_again() {
    let team = team();
    let mut client = Client::connect(&team, "mcp");
    client.call("heartbeat", &json!({ "agent": "ann" }));
    let (private, away) = (team.repo.join(".git/waypost"), team.sandbox.dir("away"));
    let move_store = |from: &std::path::Path, to: &std::path::Path| {
        for file in ["state.db", "state.db-wal", "state.db-shm"] {
            std::fs::rename(from.join(file), to.join(file)).unwrap();
        }
    };
    move_store(&private, &away);
    for (tool, arguments) in [("status", json!({ "agent": "ann" })), ("heartbeat", json!({ "agent": "ann" }))] {
        for _ in 0..2 {
            assert_eq!(client.refused(tool, &arguments)["code"], "unavailable", "{tool}");
        }
    }
    assert!(!private.join("state.db").exists(), "another store was made");
    move_store(&away, &private);
    client.call("heartbeat", &json!({ "agent": "ann" }));
}

/// A session: each command line, and the tool call that does the same.
fn life() -> Vec<(&'static str, &'static str, Value)> {
    vec![
        ("prime --agent ann", "prime", json!({ "agent": "ann" })),
        ("task claim --agent ann", "next", json!({ "agent": "ann" })),
        ("context w/a --agent ann", "context", json!({ "agent": "ann", "task": "w/a" })),
        ("task heartbeat --agent ann", "heartbeat", json!({ "agent": "ann" })),
        (
            "task checkpoint a --agent ann --epoch 1 --type decision --summary 'half way' --detail '{\"left\": 2}' --file x.rs",
            "checkpoint",
            json!({
                "agent": "ann", "task": "a", "epoch": 1, "type": "decision", "summary": "half way",
                "detail": { "left": 2 }, "files": ["x.rs"],
            }),
        ),
        (
            "msg send bob 'look at it' --agent ann",
            "messages",
            json!({ "do": "send", "agent": "ann", "to": "bob", "text": "look at it" }),
        ),
        ("msg inbox --agent bob", "messages", json!({ "do": "inbox", "agent": "bob" })),
        (
            "task done a --agent ann --epoch 1 --outcome 'went well' --evidence 'all green'",
            "finish",
            json!({
                "agent": "ann", "task": "a", "epoch": 1, "how": "done", "text": "went well", "evidence": "all green",
            }),
        ),
        ("task claim b --agent ann --ttl 30m", "next", json!({ "agent": "ann", "task": "b", "minutes": 30 })),
        (
            "task fail b --agent ann --epoch 1 --error 'no luck' --hopeless",
            "finish",
            json!({ "agent": "ann", "task": "b", "epoch": 1, "how": "fail", "text": "no luck", "hopeless": true }),
        ),
        ("task claim c --agent ann", "next", json!({ "agent": "ann", "task": "c" })),
        (
            "task ask c --agent ann --epoch 1 --question 'which one?'",
            "finish",
            json!({ "agent": "ann", "task": "c", "epoch": 1, "how": "ask", "text": "which one?" }),
        ),
        ("task claim --agent ann", "next", json!({ "agent": "ann" })),
        (
            "task release d --agent ann --epoch 1 --reason lunch",
            "finish",
            json!({ "agent": "ann", "task": "d", "epoch": 1, "how": "release", "text": "lunch" }),
        ),
        (
            "add 'Found on the way' --agent ann -p 1 -t bug --label later",
            "issue",
            json!({
                "do": "add", "agent": "ann", "title": "Found on the way", "priority": 1, "type": "bug",
                "labels": ["later"],
            }),
        ),
        ("status --agent ann", "status", json!({ "agent": "ann" })),
        ("ready --agent ann", "issues", json!({ "do": "ready", "agent": "ann" })),
        ("claim --agent ann", "issue", json!({ "do": "claim", "agent": "ann" })),
    ]
}

/// Everything in the store, without ids.
fn state(team: &Team) -> Value {
    let pick = |value: &Value, fields: &[&str]| -> Value {
        fields.iter().map(|field| ((*field).to_owned(), value[*field].clone())).collect()
    };
    let all = |list: Value, fields: &[&str]| -> Value {
        list.as_array().unwrap().iter().map(|one| pick(one, fields)).collect()
    };
    json!({
        "tasks": all(team.data("task list --workflow w"), &[
            "name", "status", "attempts", "outcome", "evidence", "error", "question", "holder", "epoch", "expires_at",
        ]),
        "checkpoints": all(team.data("checkpoint list w/a"), &["sequence", "type", "summary", "detail", "files", "epoch"]),
        "workflow": pick(&team.data("workflow show w"), &["status", "done", "total"]),
        "issues": all(team.data("list --all"), &[
            "title", "status", "close_reason", "assignee", "priority", "issue_type", "labels", "created_by",
        ]),
        "messages": all(team.data("msg inbox --peek --agent bob"), &["from", "to", "subject", "body", "state", "type"]),
        "agents": all(team.data("agent list"), &["name", "role", "status"]),
        "events": all(team.data("events --limit 1000"), &["kind", "actor"]),
    })
}

/// The final state of the session run with commands.
fn typed() -> Value {
    let team = team();
    for (line, ..) in life() {
        let _ = team.data(line);
    }
    state(&team)
}

#[test]
fn c12_a_session_over_mcp_ends_in_the_same_state_as_over_the_command_line() {
    let team = team();
    let mut client = Client::connect(&team, "mcp");
    for (_, tool, arguments) in life() {
        let answer = client.call(tool, &arguments);
        let is_of_issue = arguments["text"] == "went well";
        assert_eq!(answer["closed_issue"].is_string(), is_of_issue, "its issue is closed at once: {answer}");
    }
    let (status, _) = client.close();
    assert!(status.success());
    let (over_mcp, typed) = (state(&team), typed());
    for (part, expected) in typed.as_object().unwrap() {
        assert_eq!(&over_mcp[part], expected, "{part}");
    }
    assert_eq!(typed["tasks"][0]["status"], "completed");
    assert_eq!(typed["issues"][0]["status"], "in_progress", "the discovered issue");
    assert_eq!(typed["issues"][1]["close_reason"], "went well");
}

/// Runs the given steps with the official client, and prints the result of each.
const PYTHON: &str = r#"
import asyncio, json, os, sys
from mcp import Client, StdioServerParameters

async def main(way, mode, steps):
    server = StdioServerParameters(command=way, args=["mcp"], env=dict(os.environ))
    async with Client(server, mode=mode) as client:
        tools = await client.list_tools()
        print(json.dumps([tool.name for tool in tools.tools]))
        for tool, arguments in steps:
            result = await client.call_tool(tool, arguments)
            print(json.dumps([result.is_error, result.structured_content]))
        context = await client.read_resource("waypost://context/w%2Fa")
        print(json.dumps(context.contents[0].text))

asyncio.run(main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3])))
"#;

/// Copilot CLI shows its model both.
#[test]
fn a_client_that_shows_text_and_structured_content_gets_only_the_text() {
    let team = Team::with("a: one\n");
    for (name, is_structured) in [("claude-code", true), ("codex-mcp-client", true), ("copilot-cli", false)] {
        let described = json!({ "name": name, "version": "1" });
        let mut client = Client::start(&team, "mcp");
        let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": described });
        let _ = client.request("initialize", &params);
        client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        for (arguments, is_error) in [(json!({ "task": "a" }), false), (json!({ "task": "b" }), true)] {
            let call = json!({ "name": "context", "arguments": arguments });
            let result = client.request("tools/call", &call)["result"].take();
            assert_eq!(
                (&result["isError"], result["structuredContent"].is_object()),
                (&json!(is_error), is_structured)
            );
            assert!(!result["content"][0]["text"].as_str().unwrap().is_empty());
        }
        assert!(client.close().0.success());
        // In the newest protocol every request describes the client.
        let mut client = Client::start(&team, "mcp");
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": described,
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let call = json!({ "name": "context", "arguments": { "task": "a" }, "_meta": meta });
        let _ = client.request("server/discover", &json!({ "_meta": meta }));
        let result = client.request("tools/call", &call)["result"].take();
        assert_eq!(result["structuredContent"].is_object(), is_structured, "{name}: {result}");
        assert!(client.close().0.success());
    }
}

#[test]
fn the_official_client_in_python_ends_in_the_same_state() {
    let python = mcp_python();
    let expected = typed();
    let steps: Value = life().into_iter().map(|(_, tool, arguments)| json!([tool, arguments])).collect();
    // The legacy client initializes a session, the other sends the same data with every request.
    for mode in ["legacy", "auto"] {
        let team = team();
        let mut command = team.sandbox.command(&python, &team.repo);
        command.env("WAYPOST_TEST_CLOCK", "2026-01-01T00:00:00Z").args(["-c", PYTHON, env!("CARGO_BIN_EXE_way"), mode]);
        let output = command.arg(steps.to_string()).output().unwrap();
        assert!(output.status.success(), "{mode}: {}", String::from_utf8_lossy(&output.stderr));
        let lines: Vec<Value> =
            String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines[0].as_array().unwrap().len(), 11, "{mode}");
        for (line, (_, tool, _)) in lines[1..].iter().zip(life()) {
            assert_eq!(line[0], false, "{mode}, {tool}: {line}");
        }
        assert!(
            lines.last().unwrap().as_str().unwrap().starts_with(&format!("{EXPLANATION}\n\n## Task\na (")),
            "{mode}"
        );
        assert_eq!(state(&team), expected, "{mode}");
    }
}

#[test]
fn all_tools_together_fit_into_3000_tokens_and_declare_their_side_effects() {
    let team = Team::new();
    let mut client = Client::connect(&team, "mcp");
    let list = client.request("tools/list", &json!({}))["result"].take();
    let tokens = list.to_string().len().div_ceil(BYTES_PER_TOKEN);
    assert!(tokens < 3_000, "{tokens} tokens");
    let tools = list["tools"].as_array().unwrap();
    assert!((8..=14).contains(&tools.len()), "about a dozen");
    for tool in tools {
        let hints = &tool["annotations"];
        for hint in ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"] {
            assert!(hints[hint].is_boolean(), "{hint} of {}", tool["name"]);
        }
        assert_eq!(hints["destructiveHint"], false, "{}", tool["name"]);
        let schema = &tool["inputSchema"];
        assert!(schema["properties"]["agent"]["description"].is_string(), "{} does not ask who", tool["name"]);
        let is_required = schema["required"].as_array().is_some_and(|required| required.contains(&json!("agent")));
        assert_eq!(is_required, hints["readOnlyHint"] == false, "a write needs the name of the agent: {tool}");
        assert_eq!(schema["additionalProperties"], false, "{}", tool["name"]);
        assert!(!tool["description"].as_str().unwrap().is_empty());
    }
    let mut named = Client::connect(&team, "mcp --agent ann");
    let list = named.request("tools/list", &json!({}))["result"].take();
    for tool in list["tools"].as_array().unwrap() {
        let required = tool["inputSchema"]["required"].as_array();
        assert!(required.is_none_or(|required| !required.contains(&json!("agent"))), "the server knows it: {tool}");
    }
    for tool in ["checkpoint", "finish"] {
        let schema = tools.iter().find(|known| known["name"] == tool).map(|known| &known["inputSchema"]).unwrap();
        assert!(schema["required"].as_array().unwrap().contains(&json!("epoch")), "{tool}");
    }
}

#[test]
fn an_agent_finds_the_workspace_of_a_job() {
    let team = Team::new();
    let made = team.data("ws new --quiet");
    let mut client = Client::connect(&team, "mcp --agent ann");
    let all = client.call("workspace", &json!({}));
    assert_eq!(all["workspaces"][0]["path"], made["path"], "{all}");
    let one = client.call("workspace", &json!({ "workspace": made["id"] }));
    assert_eq!((&one["branch"], &one["status"]), (&made["branch"], &json!("kept")), "{one}");
    assert_eq!(client.refused("workspace", &json!({ "workspace": "ws_none" }))["code"], "not_found");
}

#[test]
fn errors_are_the_same_as_on_the_command_line() {
    let team = team();
    let _ = team.data("task claim a --agent ann");
    let mut client = Client::connect(&team, "mcp");
    for (line, code, tool, arguments) in [
        ("task claim a --agent bob", 4, "next", json!({ "agent": "bob", "task": "a" })),
        ("task claim --workflow x --agent bob", 3, "next", json!({ "agent": "bob", "workflow": "x" })),
        (
            "task done a --agent ann --epoch 7 --outcome x",
            5,
            "finish",
            json!({ "agent": "ann", "task": "a", "epoch": 7, "how": "done", "text": "x" }),
        ),
        (
            "task checkpoint a --agent ann --epoch 1 --summary ''",
            2,
            "checkpoint",
            json!({ "agent": "ann", "task": "a", "epoch": 1, "summary": "" }),
        ),
        ("context nothing", 3, "context", json!({ "task": "nothing" })),
        ("context a --budget 10", 2, "context", json!({ "task": "a", "budget": 10 })),
        ("show nothing", 3, "issues", json!({ "do": "show", "id": "nothing" })),
        ("close nothing --agent ann", 3, "issue", json!({ "do": "close", "agent": "ann", "id": "nothing" })),
    ] {
        let typed = team.refused(code, line);
        let called = client.refused(tool, &arguments);
        // Hints differ: there they name commands, here tools.
        for field in ["code", "message"] {
            assert_eq!(called[field], typed[field], "{field} of {line}");
        }
    }
    for (tool, arguments, message) in [
        ("next", json!({}), "next requires agent"),
        ("next", json!({ "agent": "" }), "agent must be a name"),
        (
            "checkpoint",
            json!({ "agent": "ann", "task": "a", "summary": "x" }),
            "missing field \"epoch\" for checkpoint",
        ),
        ("next", json!({ "agent": "ann", "taks": "a" }), "unknown field \"taks\" for next"),
        ("issues", json!({ "do": "raedy" }), "invalid value \"raedy\" for do"),
        ("messages", json!({ "do": "inbox", "agent": "ann", "to": "bob" }), "unknown field \"to\" for inbox"),
    ] {
        let error = client.refused(tool, &arguments);
        assert_eq!((&error["code"], &error["message"]), (&json!("invalid"), &json!(message)));
        assert!(!error["hints"].as_array().unwrap().is_empty() || message.contains("epoch"), "{error}");
    }
    let unknown = client.request("tools/call", &json!({ "name": "nothing", "arguments": {} }));
    assert!(unknown["error"]["message"].as_str().unwrap().contains("unknown tool \"nothing\""), "{unknown}");
}

#[test]
fn a_key_makes_a_call_happen_once() {
    let team = team();
    let mut client = Client::connect(&team, "mcp --agent ann");
    let _ = client.call("next", &json!({ "task": "a" }));
    let note = json!({ "task": "a", "epoch": 1, "summary": "half", "key": "k1" });
    let (first, second) = (client.call("checkpoint", &note), client.call("checkpoint", &note));
    assert_eq!(first, second);
    assert_eq!(team.data("checkpoint list a").as_array().unwrap().len(), 1);
    assert_eq!(team.data("task show a")["holder"], "ann", "the agent that the server was started for");
    let issues = || team.data("list --all").as_array().unwrap().len();
    let before = issues();
    let add = json!({ "do": "add", "title": "Once", "key": "k2" });
    assert_eq!(client.call("issue", &add), client.call("issue", &add));
    assert_eq!(issues(), before + 1);
    let other = json!({ "do": "add", "title": "Another", "key": "k2" });
    assert_eq!(client.refused("issue", &other)["code"], "conflict");
    assert_eq!(
        client.refused("checkpoint", &json!({ "task": "a", "epoch": 1, "summary": "x", "key": "k2" }))["code"],
        "conflict"
    );
    assert_eq!(issues(), before + 1);
}

#[test]
fn changes_by_other_processes_and_a_new_branch_are_seen_at_once() {
    let team = team();
    let mut client = Client::connect(&team, "mcp --agent ann");
    let _ = client.call("next", &json!({ "task": "a" }));
    let _ = team.data("task release a --force --reason 'another agent will'");
    assert_eq!(client.refused("heartbeat", &json!({ "task": "a", "epoch": 1 }))["code"], "lease_lost");
    // Another branch.
    team.sandbox.git(&team.repo, ["switch", "-q", "-c", "topic"]);
    let _ = client.call("next", &json!({ "task": "b" }));
    let db = rusqlite::Connection::open(team.repo.join(".git/waypost/state.db")).unwrap();
    let branch: String = db.query_row("SELECT branch FROM worktrees", [], |row| row.get(0)).unwrap();
    assert_eq!(branch, "topic");
    drop(db);
    // The store is moved away, and a person has a new one created in its place.
    for name in ["state.db", "state.db-wal", "state.db-shm"] {
        let path = team.repo.join(".git/waypost").join(name);
        if path.exists() {
            std::fs::rename(&path, team.sandbox.path(name)).unwrap();
        }
    }
    for _ in 0..2 {
        let refused = client.refused("heartbeat", &json!({}));
        assert_eq!(refused["code"], "unavailable", "the open store was moved away: {refused}");
    }
    let _ = team.data("init");
    assert_eq!(client.call("status", &json!({})), json!({}), "the new store is used from then on");
}

#[test]
fn issues_are_read_and_changed_in_every_way() {
    let team = Team::new();
    let mut client = Client::connect(&team, "mcp --agent ann");
    let mut change = |arguments: Value| client.call("issue", &arguments)["issue"].clone();
    let fields = json!({
        "do": "add", "title": "Lay the base", "description": "All of it", "acceptance": "It holds", "type": "feature",
        "priority": 0, "labels": ["x", "y"], "assignee": "",
    });
    let first = change(fields);
    assert_eq!((&first["issue_type"], &first["priority"]), (&json!("feature"), &json!(0)));
    let first = first["id"].clone();
    let second = change(json!({ "do": "add", "title": "Build on it", "parent": first, "discovered_from": first }));
    let (second, third) = (second["id"].clone(), change(json!({ "do": "add", "title": "Later" }))["id"].clone());
    let _ = change(json!({ "do": "depend", "id": third, "on": second }));
    assert_eq!(change(json!({ "do": "update", "id": second, "priority": 1, "labels": ["z"] }))["labels"], json!(["z"]));
    let _ = change(json!({ "do": "comment", "id": second, "text": "worth it" }));
    assert_eq!(change(json!({ "do": "claim", "id": second }))["assignee"], "ann");
    assert_eq!(change(json!({ "do": "release", "id": second }))["status"], "open");
    assert_eq!(change(json!({ "do": "close", "id": second, "text": "done" }))["status"], "closed");
    assert_eq!(change(json!({ "do": "reopen", "id": second }))["status"], "open");

    let mut read = |arguments: Value| client.call("issues", &arguments);
    let ids =
        |list: &Value| list["issues"].as_array().unwrap().iter().map(|issue| issue["id"].clone()).collect::<Value>();
    assert_eq!(ids(&read(json!({ "do": "ready" }))), json!([first, second]));
    assert_eq!(read(json!({ "do": "ready", "limit": 1 }))["has_more"], true);
    assert_eq!(
        ids(&read(json!({ "do": "list", "status": ["open"], "labels": ["z"], "parent": first }))),
        json!([second])
    );
    assert_eq!(ids(&read(json!({ "do": "search", "words": "base" }))), json!([first]));
    let shown = read(json!({ "do": "show", "id": third }));
    assert_eq!(shown["ready"], false);
    assert!(shown["reasons"][0].as_str().unwrap().contains(second.as_str().unwrap()), "{shown}");
    let shown = read(json!({ "do": "show", "id": second }));
    assert_eq!((&shown["waiting"], &shown["issue"]["comments"][0]["text"]), (&json!([third]), &json!("worth it")));
    assert_eq!(read(json!({ "do": "show", "id": first }))["issue"]["acceptance_criteria"], "It holds");
}

#[test]
fn malformed_requests_do_not_end_the_server() {
    let team = team();
    let mut client = Client::connect(&team, "mcp --agent ann");
    for line in ["this is no JSON", "{}", "[]", "{\"jsonrpc\":\"2.0\",\"id\":", "\u{0}"] {
        writeln!(client.stdin.as_mut().unwrap(), "{line}").unwrap();
    }
    client.ask("tools/call", &json!({ "name": "next", "arguments": { "task": "a" } }));
    let mut lines = (&mut client.stdout).lines().map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    let mut codes = Vec::new();
    let claimed = lines.find(|answer| {
        codes.extend(answer["error"]["code"].as_i64());
        answer["id"] == client.requests
    });
    let claimed = claimed.unwrap();
    codes.sort_unstable();
    assert_eq!(codes, [-32700, -32700, -32700, -32600, -32600], "what is not JSON, and what is no request");
    assert_eq!(claimed["result"]["structuredContent"]["epoch"], 1, "{claimed}");
    let unknown = client.request("nothing/known", &json!({}));
    assert_eq!(unknown["error"]["code"], -32601, "{unknown}");
    assert!(client.close().0.success());
}

#[test]
fn mcp_works_with_a_store_on_a_server() {
    let (team, url) = (Team::new(), postgres_url());
    let way = |line: &str| team.data(&format!("{line} --db {url}"));
    let _ = team.fed(&format!("workflow create w --plan - --start --json --db {url}"), "a: one\n").data();
    let mut client = Client::connect(&team, &format!("mcp --agent ann --db {url}"));
    assert_eq!(client.call("next", &json!({}))["task"]["name"], "a");
    let _ = client.call("checkpoint", &json!({ "task": "a", "epoch": 1, "summary": "half" }));
    assert_eq!(way("task show a")["holder"], "ann");
    let _ = client.call("finish", &json!({ "task": "a", "epoch": 1, "how": "done", "text": "all" }));
    assert_eq!(way("workflow show w")["status"], "completed");
    assert_eq!(client.call("next", &json!({}))["nothing_to_do"], "no task can be claimed now");
}

#[test]
fn an_agent_without_a_task_is_offered_ready_issues() {
    let team = Team::new();
    let mut client = Client::connect(&team, "mcp");
    let nothing = client.call("next", &json!({ "agent": "ann" }));
    assert_eq!(nothing, json!({ "nothing_to_do": "no task can be claimed now" }));
    let id = team.data("add Fix")["id"].as_str().unwrap().to_owned();
    let answer = client.request("tools/call", &json!({ "name": "next", "arguments": { "agent": "ann" } }));
    assert_eq!(answer["result"]["isError"], false, "{answer}");
    assert_eq!(answer["result"]["structuredContent"]["ready_issues"][0]["id"], *id, "{answer}");
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("tool issue, do claim") && text.contains(&id), "{text}");
    let claimed = client.call("issue", &json!({ "agent": "ann", "do": "claim", "id": id }));
    assert_eq!(claimed["issue"]["id"], *id, "{claimed}");
}

#[test]
fn hints_name_tools_and_commands_are_left_to_people() {
    let team = team();
    let mut client = Client::connect(&team, "mcp --agent ann");
    let unknown = client.refused("context", &json!({ "task": "zzz" }));
    assert_eq!(unknown["hints"], json!(["tool status lists tasks"]));
}

#[test]
fn contexts_and_status_are_resources() {
    let team = team();
    let _ = team.data("task claim a --agent ann");
    let mut client = Client::connect(&team, "mcp --agent ann");
    let resources = client.request("resources/list", &json!({}))["result"].take();
    assert_eq!(resources["resources"][0]["uri"], "waypost://status");
    let templates = client.request("resources/templates/list", &json!({}))["result"].take();
    assert_eq!(templates["resourceTemplates"][0]["uriTemplate"], "waypost://context/{task}");
    let mut read = |uri: &str| client.request("resources/read", &json!({ "uri": uri }));
    let context = read("waypost://context/w%2Fa")["result"]["contents"][0].take();
    assert_eq!(context["text"].as_str().unwrap().trim(), team.way("context a --agent ann").ok().stdout.trim());
    let status = read("waypost://status")["result"]["contents"][0]["text"].take();
    let status: Value = serde_json::from_str(status.as_str().unwrap()).unwrap();
    assert_eq!(status["working"]["first"][0]["holder"], "ann");
    for missing in ["waypost://context/nothing", "waypost://nothing", "file:///etc/passwd", "waypost://context/"] {
        assert!(read(missing)["error"]["message"].is_string(), "{missing}");
    }
}

#[test]
fn two_hundred_clients_come_and_go() {
    let team = team();
    let (served, said) = Served::start(&team);
    let mut sizes = Vec::new();
    for _ in 0..10 {
        // Half of the clients use the store's file, the other half a server.
        let lines = ["mcp".to_owned(), format!("mcp --db unix:{}", said["socket"].as_str().unwrap())];
        let mut clients: Vec<Client> = lines.iter().cycle().take(20).map(|line| Client::connect(&team, line)).collect();
        for (number, client) in clients.iter_mut().enumerate() {
            let answer = client.call("heartbeat", &json!({ "agent": format!("agent-{number}") }));
            assert_eq!(answer["unread"], 0);
        }
        for client in clients {
            assert!(client.close().0.success());
        }
        sizes.push(served.resident_kib());
    }
    // Ten clients at a time use the server, and the store's memory grows with their writes.
    assert!(sizes[9] < sizes[1] + 8 * 10 * MAX_LEAK_PER_CLIENT_KIB + 2_048, "the server grows: {sizes:?} KiB");
    assert_eq!(team.data("agent list").as_array().unwrap().len(), 21);
    let _ = team.way("db check").ok();
}

/// A store with hundreds of tasks, agents, messages and issues, and some work for ann.
fn busy() -> Team {
    let task = |number: u32| format!("task-{number}: {}\n", "Do what has to be done here. ".repeat(8));
    let team = Team::with(&(0..300).map(task).collect::<String>());
    let _ = team.fed("workflow create other --plan - --start --json", &(0..100).map(task).collect::<String>()).data();
    let issue = |number: u32| json!({ "op": "add", "title": format!("Issue {number}") }).to_string();
    let issues = (0..300).map(issue).collect::<Vec<_>>().join("\n");
    let _ = team.fed("batch - --json", &issues).data();
    let register = || RegisterAgent { runtime: Some("test".to_owned()), ..RegisterAgent::default() };
    team.session("ann").call(register()).unwrap();
    for number in 0..150 {
        let mut session = team.session(&format!("agent-{number}"));
        session.call(register()).unwrap();
        let to = if number % 10 == 0 { "ann".to_owned() } else { "agent-0".to_owned() };
        let body = format!("Message {number}: {}", "something to know. ".repeat(10));
        let message = SendMessage { to: Some(to), body, ..SendMessage::default() };
        session.call(message).unwrap();
    }
    for number in 0..50 {
        let _ = team.data(&format!("task claim other/task-{number} --agent agent-{number} --budget 100"));
    }
    team
}

#[test]
fn an_agents_session_takes_6_calls_and_2500_tokens_at_most_on_a_busy_store() {
    let team = busy();
    let typed = [
        "prime --agent ann",
        "task claim --agent ann --budget 1200",
        "task checkpoint w/task-0 --agent ann --epoch 1 --summary 'half of it works'",
        "task done w/task-0 --agent ann --epoch 1 --outcome 'all of it works' --evidence 'cargo test: 12 passed'",
    ];
    let printed: Vec<usize> = typed.iter().map(|line| team.way(line).ok().stdout.len()).collect();
    let tokens = printed.iter().sum::<usize>().div_ceil(BYTES_PER_TOKEN);
    assert!(typed.len() <= 6 && tokens <= 2_500, "{} calls, {tokens} tokens: {printed:?} bytes", typed.len());

    let mut client = Client::connect(&team, "mcp");
    let called = [
        ("prime", json!({ "agent": "ann" })),
        ("next", json!({ "agent": "ann" })),
        ("checkpoint", json!({ "agent": "ann", "task": "w/task-1", "epoch": 1, "summary": "half of it works" })),
        (
            "finish",
            json!({
                "agent": "ann", "task": "w/task-1", "epoch": 1, "how": "done", "text": "all of it works",
                "evidence": "cargo test: 12 passed",
            }),
        ),
    ];
    let mut context = String::new();
    for (tool, arguments) in &called {
        let answer = client.call(tool, arguments);
        if *tool == "next" {
            assert_eq!(answer["task"]["name"], "task-1");
            answer["context"].as_str().unwrap().clone_into(&mut context);
        }
    }
    // Every byte counts, including content sent twice for clients that read only one form.
    let tokens = client.printed.div_ceil(BYTES_PER_TOKEN);
    assert!(called.len() <= 6 && tokens <= 2_500, "{} calls, {tokens} tokens", called.len());
    assert!(context.contains("Do what has to be done here."), "the context contains the task's description: {context}");
}

/// The service behind `/mcp`, without an HTTP server.
struct Http<S> {
    service: S,
    runtime: tokio::runtime::Runtime,
}

fn http(team: &Team) -> Http<impl Answers> {
    let home = team.sandbox.path("home").into_os_string();
    let variables: Variables =
        [("HOME", home), ("WAYPOST_TEST_CLOCK", "2026-01-01T00:00:00Z".into())].into_iter().collect();
    let place = Place::resolve(Request { cwd: team.repo.clone(), variables, ..Request::default() }).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    Http { service: mcp::http_service(Arc::new(App::one_process(place)), mcp::Allowed::default()), runtime }
}

type Posted = http::Request<Full<Bytes>>;

/// A service that answers requests with a body of bytes.
trait Answers: tower_service::Service<Posted, Response = http::Response<Body>, Error = Infallible> {}

impl<S: tower_service::Service<Posted, Response = http::Response<Body>, Error = Infallible>> Answers for S {}

type Body = http_body_util::combinators::BoxBody<Bytes, Infallible>;

impl<S: Answers> Http<S> {
    /// Sends a request as an agent, or with a token that is bound to no agent if the name is empty.
    fn ask(&mut self, who: Option<&str>, headers: &[(&str, &str)], method: &str, params: &Value) -> (u16, Value) {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
        let usual = [
            ("host", "localhost:8080"),
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
            ("mcp-protocol-version", "2025-06-18"),
        ];
        let mut request = http::Request::post("/mcp").body(Full::new(Bytes::from(body))).unwrap();
        for (name, value) in usual.iter().chain(headers) {
            let name = http::HeaderName::from_bytes(name.as_bytes()).unwrap();
            request.headers_mut().insert(name, value.parse().unwrap());
        }
        if let Some(agent) = who {
            let agent = Some(agent.to_owned()).filter(|agent| !agent.is_empty());
            let is_fixed = agent.is_some();
            let role = if agent.as_deref() == Some("watcher") { Role::ReadOnly } else { Role::Admin };
            let grant = Grant { token: "t".to_owned(), role, agent: agent.clone(), task: None };
            let who = Who { actor: "tester".to_owned(), agent };
            request.extensions_mut().insert(mcp::McpCaller { who, is_fixed, grant });
        }
        self.runtime.block_on(async {
            let response = self.service.call(request).await.unwrap();
            let status = response.status().as_u16();
            let body = response.into_body().collect().await.unwrap().to_bytes();
            (status, serde_json::from_slice(&body).unwrap_or_default())
        })
    }

    fn call(&mut self, who: Option<&str>, tool: &str, arguments: &Value) -> Value {
        let (status, answer) = self.ask(who, &[], "tools/call", &json!({ "name": tool, "arguments": arguments }));
        assert_eq!(status, 200);
        answer
    }
}

#[test]
fn over_http_the_token_identifies_the_agent() {
    let team = team();
    let mut http = http(&team);
    let refused = http.call(None, "next", &json!({ "agent": "ann", "task": "a" }));
    assert!(refused["error"]["message"].as_str().unwrap().contains("has no caller"), "{refused}");
    let refused = http.call(Some("bob"), "next", &json!({ "agent": "ann", "task": "a" }));
    assert_eq!(refused["result"]["structuredContent"]["error"]["code"], "refused", "{refused}");
    let claimed = http.call(Some("bob"), "next", &json!({ "task": "a" }));
    assert_eq!(claimed["result"]["structuredContent"]["epoch"], 1, "{claimed}");
    assert_eq!(team.data("task show a")["holder"], "bob");
    // Knowing another agent's epoch gives no access to its task.
    let note = json!({ "task": "a", "epoch": 1, "summary": "mine now" });
    let refused = http.call(Some("eve"), "checkpoint", &note);
    assert_eq!(refused["result"]["structuredContent"]["error"]["code"], "lease_lost", "{refused}");
    // A caller whose token is bound to no agent may name one.
    let claimed = http.call(Some(""), "next", &json!({ "agent": "ann", "task": "b" }));
    assert_eq!(claimed["result"]["isError"], false, "{claimed}");
    assert_eq!(team.data("task show b")["holder"], "ann");
    // Every tool refuses what the token does not permit.
    assert_eq!(http.call(Some("watcher"), "status", &json!({}))["result"]["isError"], false);
    for (tool, arguments) in [("next", json!({ "task": "c" })), ("issue", json!({ "do": "add", "title": "x" }))] {
        let refused = http.call(Some("watcher"), tool, &arguments);
        assert_eq!(refused["result"]["structuredContent"]["error"]["code"], "refused", "{refused}");
    }
    let (_, list) = http.ask(Some("bob"), &[], "tools/list", &json!({}));
    assert_eq!(list["result"]["tools"].as_array().unwrap().len(), 11);
}

#[test]
fn over_http_only_local_origins_and_hosts_are_answered() {
    let team = team();
    let mut http = http(&team);
    for (headers, expected) in [
        (&[("origin", "http://localhost:8080")][..], 200),
        (&[("origin", "http://127.0.0.1:9")], 200),
        (&[("origin", "https://evil.example")], 403),
        (&[("origin", "http://localhost.evil.example")], 403),
        (&[("origin", "null")], 403),
        (&[("host", "evil.example")], 403),
        (&[("host", "localhost.evil.example:8080")], 403),
        (&[("content-type", "text/plain")], 415),
        (&[("content-type", "application/x-www-form-urlencoded")], 415),
    ] {
        let (status, _) = http.ask(Some("bob"), headers, "tools/list", &json!({}));
        assert_eq!(status, expected, "{headers:?}");
    }
}

/// A model may think for longer than its lease lasts.
#[test]
fn a_connected_server_renews_the_leases_of_the_names_that_its_client_used() {
    let team = Team::new();
    team.sandbox.write(team.repo.join("plan"), "a: one\n");
    // The real clock.
    let command = |args: &[&str]| {
        let mut command = team.sandbox.way_command(&team.repo);
        command.env_remove("WAYPOST_TEST_CLOCK").args(args);
        command
    };
    let way = |args: &[&str]| Run::of(&command(args).arg("--json").output().unwrap()).data();
    let _ = way(&["config", "set", "lease.ttl", "2s"]);
    let _ = way(&["workflow", "create", "w", "--plan", "plan", "--start"]);
    let mut client = Client::of(command(&["mcp"]));
    client.introduce();
    let claimed = client.call("next", &json!({ "agent": "thinker" }));
    let first_end = jiff::Timestamp::now().as_millisecond() + 2_000;
    let task = || way(&["task", "show", "a"]);
    until("the lease would have expired twice", || {
        assert_eq!(task()["holder"], "thinker", "the lease expired: {}", task());
        jiff::Timestamp::now().as_millisecond() > first_end + 2_500
    });
    assert_eq!(task()["epoch"], claimed["epoch"]);
    let _ = client.close();
    until("the lease expires with the connection", || task()["holder"].is_null());
}

#[test]
fn an_invalid_message_is_answered_with_its_id_and_the_right_code() {
    let cases = [
        (json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": { "name": 5 } }), json!(7), -32602),
        (json!({ "jsonrpc": "2.0", "id": 8, "method": "tools/call" }), json!(8), -32602),
        (json!({ "jsonrpc": "2.0", "id": "r", "method": "resources/read", "params": {} }), json!("r"), -32602),
        (json!({ "jsonrpc": "2.0", "id": 9, "method": "tools/list", "params": "all" }), json!(9), -32602),
        (json!({ "jsonrpc": "2.0", "id": 10, "method": 5 }), json!(10), -32600),
        (json!({ "id": 11, "method": "ping" }), json!(11), -32600),
        (json!({ "jsonrpc": "2.0", "id": 12, "method": "wombat" }), json!(12), -32601),
        (json!([1]), Value::Null, -32600),
    ];
    let team = team();
    let mut client = Client::connect(&team, "mcp");
    for (message, id, code) in &cases {
        client.send(message);
        let mut line = String::new();
        client.stdout.read_line(&mut line).unwrap();
        let answer: Value = serde_json::from_str(&line).unwrap();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (id, &json!(code)), "{message}: {answer}");
    }
    client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": 5 }));
    client.call("heartbeat", &json!({ "agent": "ann" }));
    let server = crate::serving::Server::start(&[]);
    for (message, id, code) in &cases {
        let ask = server.ask("POST", "/mcp").with("accept", "application/json, text/event-stream");
        let reply = ask.with("mcp-protocol-version", "2025-06-18").json(message).send();
        let answer: Value = serde_json::from_str(&reply.body).unwrap_or_else(|_| panic!("{message}: {}", reply.body));
        assert_eq!((&answer["id"], &answer["error"]["code"]), (id, &json!(code)), "{message}: {answer}");
    }
}

#[test]
fn an_issue_of_any_size_fits_into_the_budget_of_a_model_and_its_comments_have_pages() {
    let team = Team::new();
    let comment =
        |number: usize| json!({ "id": number, "author": "ann", "text": format!("said {number} {}", "x".repeat(900)) });
    let issue = json!({
        "id": "a-1", "title": "Big", "status": "open", "description": "y".repeat(500_000), "odd": ["z".repeat(100_000)],
        "comments": (0..60).map(comment).collect::<Vec<_>>(),
    });
    team.sandbox.dir("repo/.waypost");
    team.sandbox.write(team.repo.join(".waypost/issues.jsonl"), format!("{issue}\n"));
    let mut client = Client::connect(&team, "mcp");
    let (mut seen, mut after, mut pages) = (Vec::new(), Value::Null, 0);
    loop {
        let page = client.call("issues", &json!({ "do": "show", "id": "a-1", "after": after }));
        assert!(page.to_string().len() < 12_000, "{} bytes", page.to_string().len());
        if pages == 0 {
            let left_out = page["left_out"].to_string();
            for part in ["description has 500002 bytes", "odd has", "of 60 comments"] {
                assert!(left_out.contains(part), "{left_out}");
            }
        }
        let comments = page["issue"]["comments"].as_array().unwrap();
        seen.extend(comments.iter().map(|comment| comment["id"].as_u64().unwrap()));
        (after, pages) = (page["next"].clone(), pages + 1);
        if after.is_null() {
            break;
        }
    }
    assert!(seen == (0..60).collect::<Vec<u64>>() && pages > 5, "{seen:?} in {pages} pages");
    client.printed = 0;
    client.call("issues", &json!({ "do": "show", "id": "a-1", "budget": 500 }));
    assert!(client.printed < 8_000, "text and data together: {} bytes", client.printed);
}
