//! Regressions: operations that once worked on one surface and not on another.

use std::path::Path;

use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};
use waypost_testkit::{Sandbox, until};

use crate::mcp::Client;
use crate::serving::Server;
use crate::support::jobs::pid_of;
use crate::support::sandbox;

/// Starts a server in a repository with a ledger of these lines.
fn server_with(ledger: &str) -> Server {
    configured_server_with(ledger, &[])
}

/// The same with settings, which a server reads when it starts.
fn configured_server_with(ledger: &str, settings: &[(&str, &str)]) -> Server {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    sandbox.dir("repo/.waypost");
    sandbox.write("repo/.waypost/issues.jsonl", ledger);
    sandbox.git(&repo, ["add", "."]);
    sandbox.git(&repo, ["commit", "--quiet", "-m", "ledger"]);
    for (key, value) in settings {
        let _ = sandbox.way(&repo, ["config", "set", key, value]).ok();
    }
    Server::start_in(sandbox, repo, &[])
}

fn connect(sandbox: &Sandbox, repo: &Path) -> Client {
    let mut command = sandbox.way_command(repo);
    command.arg("mcp");
    let mut client = Client::of(command);
    client.introduce();
    client
}

fn call(client: &mut Client, tool: &str, arguments: &Value) -> Value {
    let mut answer = client.request("tools/call", &json!({ "name": tool, "arguments": arguments }));
    assert_eq!(answer["result"]["isError"], false, "{answer}");
    answer["result"]["structuredContent"].take()
}

const ISSUE: &str = "{\"id\":\"r-1\",\"title\":\"one\",\"status\":\"open\",\"priority\":2,\"issue_type\":\"task\"}\n";

#[test]
fn a_list_of_issues_stays_an_array_when_a_line_of_the_ledger_is_damaged() {
    let server = server_with(&format!("{ISSUE}{{\"id\":\n"));
    for path in ["/api/v1/issues", "/api/v1/issues/ready", "/api/v1/issues/search?text=one"] {
        let page = server.get(path).json();
        assert_eq!(page["data"][0]["id"], "r-1", "{path}: {page}");
        assert_eq!(page["warnings"].as_array().map(Vec::len), Some(1), "{path}: {page}");
    }
}

#[test]
fn warnings_about_the_ledger_are_the_same_on_every_surface() {
    let server = server_with(&format!("{ISSUE}{{\"id\":\n"));
    let over_http = server.get("/api/v1/issues").json()["warnings"].take();
    let listed = server.way(&["list", "--json"]);
    let by_command: Value = serde_json::from_str(&listed.stdout).unwrap();
    assert_eq!(by_command["warnings"], over_http);
    let mut client = connect(&server.sandbox, &server.repo);
    assert_eq!(call(&mut client, "issues", &json!({ "do": "list" }))["warnings"], over_http);
    let one = server.get("/api/v1/issues/r-1").json();
    assert_eq!((&one["warnings"], one["data"].get("warnings")), (&over_http, None));
    assert_eq!(over_http.as_array().unwrap().len(), 1, "{over_http}");
}

#[test]
fn claiming_an_issue_over_http_marks_it_in_the_ledger_and_releasing_it_unmarks_it() {
    let server = server_with(ISSUE);
    let ask = |path: &str| {
        let ask = server.ask("POST", path).with("Waypost-Agent", "ann");
        ask.json(&json!({})).send().json()["data"].take()
    };
    let issue = || server.way(&["show", "r-1", "--json"]).data();
    let claimed = ask("/api/v1/issues/r-1/claim");
    assert_eq!((&claimed["issue"]["status"], &claimed["lease"]["epoch"]), (&json!("in_progress"), &json!(1)));
    assert_eq!((&issue()["status"], &issue()["assignee"]), (&json!("in_progress"), &json!("ann")));
    ask("/api/v1/issues/r-1/release");
    assert_eq!(issue()["status"], "open");
    // Without a name, the first ready issue is claimed.
    assert_eq!(ask("/api/v1/issues/claim")["issue"]["id"], "r-1");
    assert_eq!(issue()["status"], "in_progress");
}

/// Operations that only Waypost itself calls: parts of public operations.
const INTERNAL: &[(&str, &str)] = &[
    ("accept_failover", "/api/v1/failovers/accept"),
    ("update_workspace", "/api/v1/workspaces/x/change"),
    ("collect_garbage", "/api/v1/garbage/collect"),
    ("confirm_changes", "/api/v1/issues/x/confirm-changes"),
    ("confirm_notice", "/api/v1/issues/x/confirm-notice"),
    ("add_workspace", "/api/v1/workspaces"),
    ("defer_changes", "/api/v1/issues/x/defer"),
    ("dump_workflow", "/api/v1/workflows/x/dump"),
    ("end_issue_lease", "/api/v1/issues/x/end-issue-lease"),
    ("find_garbage", "/api/v1/garbage"),
    ("finish_job", "/api/v1/jobs/x/finish"),
    ("freeze_workflow", "/api/v1/workflows/x/freeze"),
    ("lease_issue", "/api/v1/issues/x/lease"),
    ("list_leases", "/api/v1/leases"),
    ("list_notices", "/api/v1/notices"),
    ("list_summaries", "/api/v1/summaries"),
    ("add_job_record", "/api/v1/jobs/record"),
    ("record_maintenance", "/api/v1/maintenance/record"),
    ("register", "/api/v1/register"),
    ("repair_clock", "/api/v1/clocks/repair"),
    ("retire_workflow", "/api/v1/workflows/x/retire"),
    ("expire_due", "/api/v1/dues/expire"),
    ("record_job_started", "/api/v1/jobs/x/start"),
    ("register_supervisor", "/api/v1/jobs/x/take"),
    ("take_workflow", "/api/v1/workflows/take"),
];

#[test]
fn internal_operations_have_no_address_and_are_not_described() {
    let server = server_with("");
    let document: Value = serde_json::from_str(&server.get("/openapi.json").body).unwrap();
    let text = document.to_string();
    for (operation, path) in INTERNAL {
        assert!(!text.contains(&format!("\"{operation}\"")), "{operation} is described");
        let is_read =
            ["dump_workflow", "find_garbage", "list_leases", "list_notices", "list_summaries"].contains(operation);
        let method = if is_read { "GET" } else { "POST" };
        let status = server.ask(method, path).json(&json!({})).send().status;
        assert!([404, 405].contains(&status), "{method} {path}: {status}");
        // Commands that use this server as their store ask by name.
        assert_ne!(server.post(&format!("/api/v1/op/{operation}"), &json!({})).status, 404, "{operation}");
    }
}

#[test]
fn an_unknown_operation_is_answered_with_the_nearest_name() {
    let server = server_with("");
    for (wrong, near) in [
        ("lst_tasks", "list_tasks"),
        ("start_jobs", "start_job"),
        ("delete_task", "remove_task"),
        ("add_isue", "add_issue"),
    ] {
        let reply = server.post(&format!("/api/v1/op/{wrong}"), &json!({}));
        assert_eq!(reply.status, 404);
        assert_eq!(reply.json()["error"]["hints"][0], format!("did you mean {near}?"), "{reply:?}");
    }
    let mut client = connect(&server.sandbox, &server.repo);
    let answer = client.request("tools/call", &json!({ "name": "statsu", "arguments": {} }));
    assert!(answer.to_string().contains("did you mean status?"), "{answer}");
    let run = server.way(&["statsu"]);
    assert!(run.code == 2 && run.stderr.contains("'status'"), "{run:?}");
}

#[test]
fn claiming_when_nothing_is_ready_does_not_wait_for_writers() {
    let server = server_with("");
    let writes = || {
        let page = server.get("/metrics").body;
        page.lines().find(|line| line.starts_with("waypost_writer_requests_total")).map(str::to_owned)
    };
    let events = || server.way(&["events", "--limit", "1", "--json"]).data()[0]["sequence"].clone();
    let (writes_before, events_before) = (writes(), events());
    let claim = || server.ask("POST", "/api/v1/tasks/claim").with("Waypost-Agent", "ann").json(&json!({})).send();
    for _ in 0..3 {
        let reply = claim();
        assert_eq!(reply.json()["error"]["code"], "nothing_to_do", "{reply:?}");
    }
    assert!(writes_before.is_some());
    assert_eq!((writes(), events()), (writes_before, events_before));
    // As soon as a task is ready, the claim gets it.
    let plan = json!({ "tasks": [{ "name": "a", "description": "A" }] });
    server.post("/api/v1/workflows", &json!({ "name": "w", "plan": plan, "start": true }));
    assert_eq!(claim().json()["data"]["task"]["name"], "a");
}

#[test]
fn every_change_prunes_a_large_ledger_on_every_surface() {
    let closed = |number: usize| {
        let title = "t".repeat(400);
        format!(
            "{{\"id\":\"c-{number:03}\",\"title\":\"{title}\",\"status\":\"closed\",\"closed_at\":\"2025-12-01T00:00:00Z\"}}\n"
        )
    };
    let ledger: String = (0..100).map(closed).chain([ISSUE.to_owned()]).collect();
    let sizes = [0, 1, 2].map(|surface| {
        let server = configured_server_with(&ledger, &[("prune.auto", "on")]);
        match surface {
            0 => drop(server.way(&["comment", "r-1", "hello"])),
            1 => drop(server.post("/api/v1/issues/r-1/comment", &json!({ "text": "hello" }))),
            _ => {
                let comment = json!({ "do": "comment", "id": "r-1", "text": "hello", "agent": "ann" });
                call(&mut connect(&server.sandbox, &server.repo), "issue", &comment);
            }
        }
        std::fs::metadata(server.repo.join(".waypost/issues.jsonl")).unwrap().len()
    });
    assert!(sizes.iter().all(|size| *size < 26 * 1024), "by command, over HTTP, over MCP: {sizes:?}");
}

#[test]
fn an_orphaned_job_is_reaped_before_any_surface_shows_its_workspace() {
    let server = server_with("");
    server.sandbox.write("home/.gitconfig", "[user]\n\tname = A\n\temail = a@example.org\n");
    let mut client = connect(&server.sandbox, &server.repo);
    let mut over_http = |job: &str| {
        let all = server.get("/api/v1/workspaces").json()["data"].take();
        all.as_array().unwrap().iter().find(|one| one["job_id"] == job).unwrap()["status"].clone()
    };
    let mut over_mcp = |job: &str| call(&mut client, "workspace", &json!({ "workspace": job }))["status"].clone();
    let surfaces: [&mut dyn FnMut(&str) -> Value; 2] = [&mut over_http, &mut over_mcp];
    for status in surfaces {
        let job = server.way(&["job", "start", "--detach", "--json", "--", "sleep", "600"]).data();
        let id = job["id"].as_str().unwrap();
        assert_ne!(status(id), "kept");
        kill_process(pid_of(&job["supervisor"]), Signal::KILL).unwrap();
        until("the job is reaped", || status(id) == "kept");
    }
}
