//! Jobs over the server: isolated before they exist, and true after everything that can happen to it.

use std::fs;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::Server;
use crate::jobs::until;

impl Server {
    fn with_commit() -> Server {
        let sandbox = crate::sandbox();
        let repo = sandbox.git_repo("repo");
        sandbox.write(repo.join("file"), "one\n");
        sandbox.git(&repo, ["add", "."]);
        sandbox.git(&repo, ["commit", "--quiet", "-m", "First"]);
        Server::start_in(sandbox, repo, &[])
    }

    fn run(&self, body: &Value) -> Value {
        let reply = self.post("/api/v1/jobs", body);
        reply.data()
    }

    /// Waits for the end of a job.
    fn end_of(&self, job: &Value) -> Value {
        let path = format!("/api/v1/jobs/{}", job["id"].as_str().unwrap());
        let mut now = Value::Null;
        until("it ended", || {
            now = self.get(&path).json()["data"].clone();
            !["pending", "running"].contains(&now["status"].as_str().unwrap())
        });
        now
    }
}

#[test]
fn p34_p1_p3_p5_jobs_of_the_server_work_in_trees_of_their_own_and_survive_its_restart() {
    let mut server = Server::with_commit();
    let script = |word: &str| json!({ "command": ["sh", "-c", format!("pwd; echo {word} >> file; sleep 0.2")], "type": "builder" });
    let (one, other) = (server.run(&script("first")), server.run(&script("second")));
    for job in [&one, &other] {
        assert!(["running", "completed"].contains(&job["status"].as_str().unwrap()), "{job}");
        assert!(Path::new(job["workspace_dir"].as_str().unwrap()).is_dir());
    }
    let ended = [server.end_of(&one), server.end_of(&other)];
    for (job, word) in ended.iter().zip(["first", "second"]) {
        assert_eq!((&job["status"], &job["output"]), (&json!("completed"), &job["workspace_dir"]), "{job}");
        let file = Path::new(job["workspace_dir"].as_str().unwrap()).join("file");
        assert_eq!(fs::read_to_string(file).unwrap(), format!("one\n{word}\n"));
    }
    assert_eq!(server.sandbox.git(&server.repo, ["status", "--porcelain"]), "");
    let log = server.get(&format!("/api/v1/jobs/{}/log", one["id"].as_str().unwrap()));
    assert!(log.json()["data"]["log"].as_str().unwrap().contains("/workspace"), "{}", log.body);
    // What is known of them is the same after another server has taken over.
    server.restart();
    let shown = server.get(&format!("/api/v1/jobs/{}", one["id"].as_str().unwrap())).data();
    for field in ["work_dir", "workspace_dir", "context_dir", "input", "command", "log", "type"] {
        assert_eq!(shown[field], ended[0][field], "{field}");
    }
}

#[test]
fn p4_p24_a_job_that_cannot_have_a_workspace_is_refused_and_never_runs() {
    let server = Server::with_commit();
    let ran = server.sandbox.path("ran");
    let command = json!(["touch", ran.to_str().unwrap()]);
    for body in [
        json!({ "command": command, "base": "no-such-commit" }),
        json!({ "command": command, "strategy": "in-place" }),
        json!({ "command": [] }),
        json!({ "command": command, "task": "no-such-task" }),
    ] {
        let reply = server.post("/api/v1/jobs", &body);
        assert!((400..500).contains(&reply.status), "{body}: {} {}", reply.status, reply.body);
    }
    assert!(!ran.exists());
}

#[test]
fn p25_p26_jobs_outlive_a_server_that_is_killed_and_can_be_cancelled_by_the_next_one() {
    let mut server = Server::with_commit();
    let job = server.run(&json!({ "command": ["sleep", "600"] }));
    let doomed = server.run(&json!({ "command": ["sleep", "600"] }));
    let supervisor = i32::try_from(doomed["supervisor"]["pid"].as_i64().unwrap()).unwrap();
    kill_process(Pid::from_raw(supervisor).unwrap(), Signal::KILL).unwrap();
    server.restart();
    let next = &server;
    let path = format!("/api/v1/jobs/{}", job["id"].as_str().unwrap());
    assert_eq!(next.get(&path).json()["data"]["status"], "running");
    assert_eq!(next.end_of(&doomed)["status"], "interrupted");
    let reply = next.post(&format!("{path}/cancel"), &json!({ "reason": "enough" }));
    assert_eq!(reply.status, 200, "{}", reply.body);
    assert_eq!(next.end_of(&job)["status"], "cancelled");
    let metrics = next.get("/metrics").body;
    for line in
        ["waypost_jobs{status=\"cancelled\"} 1", "waypost_jobs{status=\"interrupted\"} 1", "waypost_workspace_bytes"]
    {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
}

#[test]
fn t13_the_token_of_a_job_is_good_for_that_job_while_it_runs() {
    let server = Server::with_commit();
    let file = server.sandbox.path("token");
    let script = format!("echo $WAYPOST_TOKEN > {0}.new; mv {0}.new {0}; exec sleep 600", file.display());
    let job = server.run(&json!({ "command": ["sh", "-c", script] }));
    until("it told its token", || file.exists());
    let token = fs::read_to_string(&file).unwrap().trim().to_owned();
    let id = job["id"].as_str().unwrap();
    let ask = |path: &str, body: &Value| {
        server.ask("POST", path).with("Authorization", &format!("Bearer {token}")).json(body).send().status
    };
    assert_eq!(ask("/api/v1/op/note_job", &json!({ "job": id, "phase": "thinking" })), 200);
    assert_eq!(ask("/api/v1/op/note_job", &json!({ "job": "jb_000000000000", "phase": "thinking" })), 403);
    assert_eq!(ask("/api/v1/jobs", &json!({ "command": ["true"] })), 403);
    assert_eq!(ask("/api/v1/op/cancel_job", &json!({ "job": id })), 403);
    assert_eq!(ask("/api/v1/op/list_jobs", &json!({})), 403);
    assert_eq!(server.post(&format!("/api/v1/jobs/{id}/cancel"), &json!({})).status, 200);
    assert_eq!(server.end_of(&job)["status"], "cancelled");
    assert_eq!(ask("/api/v1/op/note_job", &json!({ "job": id, "phase": "thinking" })), 401);
}

#[test]
fn an_issue_is_closed_with_its_task_when_that_is_finished_over_the_server() {
    let server = Server::with_commit();
    let epic = server.way(&["add", "Ship it", "--type", "epic", "--json"]).data();
    let part = server.way(&["add", "Build it", "--parent", epic["id"].as_str().unwrap(), "--json"]).data();
    let _ = server.way(&["workflow", "from-issue", epic["id"].as_str().unwrap(), "--start"]).ok();
    let claimed = server.ask("POST", "/api/v1/tasks/claim").with("Waypost-Agent", "ann").json(&json!({})).send().data();
    let path = format!("/api/v1/tasks/{}/finish", claimed["task"]["id"].as_str().unwrap());
    let body = json!({ "epoch": claimed["lease"]["epoch"], "outcome": "it is built" });
    server.ask("POST", &path).with("Waypost-Agent", "ann").json(&body).send().data();
    let issues = fs::read_to_string(server.repo.join(".waypost/issues.jsonl")).unwrap();
    let closed = issues.lines().find(|line| line.contains(part["id"].as_str().unwrap())).unwrap();
    assert!(closed.contains("\"status\":\"closed\""), "{closed}");
}
