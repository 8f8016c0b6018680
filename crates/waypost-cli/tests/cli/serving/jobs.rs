//! Jobs over the server: isolated from the start, and recorded correctly whatever happens to the server.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use waypost_testkit::{Run, Sandbox, until};

use super::following::Stream;
use super::{Reply, Server};
use crate::support::jobs::JOB_COMMANDS;
use crate::support::moment_ms;

impl Server {
    pub(super) fn with_commit() -> Server {
        Server::with_commit_and(&[])
    }

    fn with_commit_and(args: &[&str]) -> Server {
        let (sandbox, repo) = Server::committed();
        Server::start_in(sandbox, repo, args)
    }

    /// A server whose jobs take time.
    fn with_real_clock() -> Server {
        let (sandbox, repo) = Server::committed();
        let mut command = sandbox.way_command(&repo);
        command.env_remove("WAYPOST_TEST_CLOCK");
        let (child, said, token) = Server::launch_with(&sandbox, command, &[]);
        Server { sandbox, repo, child, said, token }
    }

    fn committed() -> (Sandbox, PathBuf) {
        let sandbox = crate::support::sandbox();
        let repo = sandbox.git_repo("repo");
        sandbox.write(repo.join("file"), "one\n");
        sandbox.git(&repo, ["add", "."]);
        sandbox.git(&repo, ["commit", "--quiet", "-m", "First"]);
        (sandbox, repo)
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
fn p34_p1_p3_p5_jobs_of_the_server_work_in_their_own_trees_and_survive_its_restart() {
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
    // Their records are the same after another server has taken over.
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
    for (body, status, why) in [
        (json!({ "command": command, "base": "no-such-commit" }), 404, "there is no commit no-such-commit"),
        (json!({ "command": command, "strategy": "in-place" }), 403, "a server does not run jobs in its own checkout"),
        (json!({ "command": [] }), 400, "a job needs a command"),
        (json!({ "command": command, "task": "no-such-task" }), 404, "no-such-task"),
    ] {
        let reply = server.post("/api/v1/jobs", &body);
        assert_eq!(reply.status, status, "{body}: {}", reply.body);
        assert!(reply.body.contains(why), "{body}: {}", reply.body);
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
    let measured = next.way(&["ws", "du", "--json"]).data()["bytes"].as_u64().unwrap();
    let metrics = next.get("/metrics").body;
    for line in ["waypost_jobs{status=\"cancelled\"} 1", "waypost_jobs{status=\"interrupted\"} 1"] {
        assert!(metrics.lines().any(|found| found == line), "{line}: {metrics}");
    }
    let bytes = metrics.lines().find_map(|line| line.strip_prefix("waypost_workspace_bytes ")).unwrap();
    let bytes: u64 = bytes.parse().unwrap();
    assert!(bytes > 0 && bytes == measured, "{bytes} and {measured}");
}

#[test]
fn t13_the_token_of_a_job_is_valid_for_that_job_while_it_runs() {
    let server = Server::with_commit();
    let file = server.sandbox.path("token");
    let script = format!("echo $WAYPOST_TOKEN > {0}.new; mv {0}.new {0}; exec sleep 600", file.display());
    // The script uses a file of the test.
    let job = server.run(&json!({ "command": ["sh", "-c", script], "sandbox": "off" }));
    until("the job wrote its token", || file.exists());
    let token = fs::read_to_string(&file).unwrap().trim().to_owned();
    let id = job["id"].as_str().unwrap();
    let ask = |path: &str, body: &Value| {
        server.ask("POST", path).with("Authorization", &format!("Bearer {token}")).json(body).send().status
    };
    assert_eq!(ask("/api/v1/op/update_job", &json!({ "job": id, "phase": "thinking" })), 200);
    assert_eq!(ask("/api/v1/op/update_job", &json!({ "job": "jb_000000000000", "phase": "thinking" })), 403);
    assert_eq!(ask("/api/v1/jobs", &json!({ "command": ["true"] })), 403);
    assert_eq!(ask("/api/v1/op/cancel_job", &json!({ "job": id })), 403);
    assert_eq!(ask("/api/v1/op/claim_task", &json!({})), 403);
    assert_eq!(ask("/api/v1/op/show_job", &json!({ "job": id })), 200);
    assert_eq!(server.post(&format!("/api/v1/jobs/{id}/cancel"), &json!({})).status, 200);
    assert_eq!(server.end_of(&job)["status"], "cancelled");
    assert_eq!(ask("/api/v1/op/update_job", &json!({ "job": id, "phase": "thinking" })), 401);
}

#[test]
fn a_job_of_a_client_of_the_server_can_run_all_commands_of_jobs() {
    let server = Server::with_commit();
    server
        .post(
            "/api/v1/workflows",
            &json!({ "name": "w", "plan": { "tasks": [{ "name": "one" }, { "name": "two" }] }, "start": true }),
        )
        .data();
    let _ = server.way(&["agent", "register", "bob"]).ok();
    let way = env!("CARGO_BIN_EXE_way");
    let start = ["--quiet", "job", "start", "--task", "one", "--agent", "ann", "--", "sh", "-c", JOB_COMMANDS, way];
    let run = server.remote(&start);
    assert!(run.code == 0 && run.stdout.contains("all commands work"), "{}", run.whole());
    assert_eq!(server.get("/api/v1/tasks/one").data()["outcome"], "built");
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

#[test]
fn p34_the_output_of_a_job_is_streamed_as_it_is_printed() {
    let server = Server::with_commit();
    let script = |go: &Path| {
        let go = go.display();
        format!("echo one; until [ -e {go} ]; do sleep 0.02; done; printf 'tw\\303'; sleep 0.3; printf '\\266\\n'")
    };
    let go = ["go-1", "go-2"].map(|name| server.sandbox.path(name));
    // One job that the server started, and one that another process started.
    let ours = server.run(&json!({ "command": ["sh", "-c", script(&go[0])], "sandbox": "off" }));
    let theirs = server.way(&["job", "start", "--detach", "--json", "--", "sh", "-c", &script(&go[1])]).data();
    for (job, go) in [&ours, &theirs].into_iter().zip(&go) {
        let path = format!("/api/v1/jobs/{}/log", job["id"].as_str().unwrap());
        let mut stream = Stream::open(server.ask("GET", &path));
        let first = stream.next();
        assert_eq!((first.0.as_str(), first.1, &first.2), ("log", Some(4), &json!({ "from": 0, "text": "one\n" })));
        server.sandbox.write(go, "");
        let mut rest = String::new();
        let end = loop {
            let (kind, id, data) = stream.next();
            if kind == "end" {
                break (id, data);
            }
            rest.push_str(data["text"].as_str().unwrap());
        };
        assert_eq!((rest.as_str(), end), ("twö\n", (Some(9), json!({ "status": "completed" }))));
        // A client resumes where it was cut off, and a late client gets the same text.
        let mut again = Stream::open(server.ask("GET", &format!("{path}/stream")).with("Last-Event-ID", "4"));
        assert_eq!(again.next().2, json!({ "from": 4, "text": "twö\n" }));
        assert_eq!(again.next().0, "end");
        let mut late = Stream::open(server.ask("GET", &format!("{path}/stream?from=2")));
        assert_eq!(late.next().2["text"], "e\ntwö\n");
    }
    let none = server.get("/api/v1/jobs/none/log/stream");
    assert_eq!(none.fails(404), "not_found");
    // A token may follow the log until it is revoked.
    let reader = server.way(&["token", "create", "--role", "admin", "--json"]).data();
    let job = server.run(&json!({ "command": ["sh", "-c", "echo here; exec sleep 600"] }));
    let path = format!("/api/v1/jobs/{}", job["id"].as_str().unwrap());
    let mut stream = Stream::open(server.ask("GET", &format!("{path}/log")).by(reader["token"].as_str().unwrap()));
    assert_eq!(stream.next().2["text"], "here\n");
    let _ = server.way(&["token", "revoke", reader["id"].as_str().unwrap()]).ok();
    stream.end();
    server.post(&format!("{path}/cancel"), &json!({})).data();
    assert_eq!(server.end_of(&job)["status"], "cancelled");
}

#[test]
fn a_command_on_another_machine_follows_the_log_of_a_job() {
    let server = Server::with_commit();
    let go = server.sandbox.path("go");
    let script = format!("echo one; until [ -e {} ]; do sleep 0.02; done; seq 20000", go.display());
    // The script uses a file of the test.
    let job = server.run(&json!({ "command": ["sh", "-c", script], "sandbox": "off" }));
    let id = job["id"].as_str().unwrap();
    // Another home stands for another machine.
    let elsewhere = server.sandbox.dir("elsewhere");
    let command = |args: &[&str]| {
        let mut command = server.sandbox.way_command(&elsewhere);
        command.env("HOME", &elsewhere).env("WAYPOST_DB", server.url()).env("WAYPOST_TOKEN", &server.token);
        command.args(["job", "logs", id]).args(args).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    let mut child = command(&["--follow"]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "one");
    server.sandbox.write(&go, "");
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    assert_eq!((rest.len(), rest[0].as_str(), rest[19_999].as_str()), (20_000, "1", "20000"));
    assert!(child.wait().unwrap().success());
    let whole = Run::of(&command(&[]).output().unwrap()).ok().stdout;
    assert_eq!(whole, format!("one\n{}\n", rest.join("\n")));
    let end = Run::of(&command(&["--tail", "20", "--json"]).output().unwrap()).data();
    assert_eq!(end["log"], "19998\n19999\n20000\n");
}

#[test]
fn the_output_of_a_job_on_a_client_is_read_through_the_server() {
    let server = Server::with_commit();
    // Each home stands for a machine, which has its own clone.
    let clone = |home: &str| server.sandbox.path(format!("clone-{home}"));
    for home in ["one", "other"] {
        server.sandbox.git(&server.repo, ["clone", "--quiet", ".", clone(home).to_str().unwrap()]);
    }
    let on = |home: &str, args: &[&str]| {
        let mut command = server.sandbox.way_command(&clone(home));
        command.env("WAYPOST_HOME", server.sandbox.path(home)).env_remove("WAYPOST_TEST_CLOCK").arg("--quiet");
        command.env("WAYPOST_DB", server.url()).env("WAYPOST_TOKEN", &server.token).args(args);
        Run::of(&command.output().unwrap())
    };
    let job = on("one", &["job", "start", "--json", "--", "sh", "-c", "echo begun; seq 30000"]).data();
    let id = job["id"].as_str().unwrap();
    assert_eq!(job["status"], "completed", "{job}");
    std::fs::rename(server.sandbox.path("one"), server.sandbox.path("away")).unwrap();
    let whole = on("other", &["job", "logs", id]).ok().stdout;
    assert_eq!((whole.lines().next(), whole.lines().count()), (Some("begun"), 30_001));
    let part = server.get(&format!("/api/v1/jobs/{id}/log?from=6")).data();
    assert_eq!((&part["from"], part["log"].as_str().unwrap().starts_with("1\n2\n")), (&json!(6), true), "{part}");
    let mut stream = Stream::open(server.ask("GET", &format!("/api/v1/jobs/{id}/log")));
    assert!(stream.next().2["text"].as_str().unwrap().starts_with("begun\n"));

    let machine = job["machine"].as_str().unwrap();
    let listed = server.get("/api/v1/machines").data();
    assert!(listed.as_array().unwrap().iter().any(|one| one["name"] == machine), "{listed}");
    let body = |on: &str, is_new: bool| json!({ "command": ["true"], "machine": on, "new_machine": is_new });
    assert_eq!(server.post("/api/v1/jobs", &body("nowhere", false)).fails(404), "not_found");
    assert_eq!(server.post("/api/v1/jobs", &body("nowhere", true)).data()["status"], "pending");
    let queued = server.post("/api/v1/jobs", &body(machine, false)).data();
    assert_eq!((&queued["status"], queued["machine"].as_str()), (&json!("pending"), Some(machine)));
}

#[test]
fn p15_p30_metrics_count_jobs_by_status_and_measure_their_setup_and_workspaces() {
    let server = Server::with_real_clock();
    let big = server.run(&json!({ "command": ["sh", "-c", "head -c 3000000 /dev/urandom > big"] }));
    let failing = server.run(&json!({ "command": ["false"] }));
    assert_eq!(
        (&server.end_of(&big)["status"], &server.end_of(&failing)["status"]),
        (&json!("completed"), &json!("failed"))
    );
    let orphan = server.run(&json!({ "command": ["sleep", "600"] }));
    let supervisor = i32::try_from(orphan["supervisor"]["pid"].as_i64().unwrap()).unwrap();
    kill_process(Pid::from_raw(supervisor).unwrap(), Signal::KILL).unwrap();
    assert_eq!(server.end_of(&orphan)["status"], "interrupted");
    let running = server.run(&json!({ "command": ["sleep", "600"] }));
    let homes: Vec<_> = [&big, &failing, &orphan, &running]
        .map(|job| Path::new(job["workspace_dir"].as_str().unwrap()).parent().unwrap().to_owned())
        .into();
    let way = |args: &[&str]| {
        let mut command = server.sandbox.way_command(&server.repo);
        Run::of(&command.env_remove("WAYPOST_TEST_CLOCK").args(args).output().unwrap()).ok()
    };
    let _ = way(&["ws", "du"]);
    let metrics = || server.get("/metrics").body;
    let value = |page: &str, name: &str| -> f64 {
        let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{name} is missing: {page}")).parse().unwrap()
    };
    let page = metrics();
    for status in ["completed", "failed", "interrupted", "running"] {
        let count = value(&page, &format!("waypost_jobs{{status=\"{status}\"}}"));
        assert!((count - 1.0).abs() < 0.1, "{status}: {page}");
    }
    assert!((value(&page, "waypost_workspaces{status=\"kept\"}") - 3.0).abs() < 0.1, "{page}");
    assert!((value(&page, "waypost_workspaces{status=\"active\"}") - 1.0).abs() < 0.1, "{page}");
    let setup = value(&page, "waypost_job_setup_seconds");
    let times = [&big, &failing, &orphan, &running].map(|job| {
        let now = server.get(&format!("/api/v1/jobs/{}", job["id"].as_str().unwrap())).data();
        f64::from(i32::try_from(moment_ms(&now["started_at"]) - moment_ms(&now["created_at"])).unwrap())
    });
    let average = times.iter().sum::<f64>() / 4000.0;
    assert!(setup > 0.0 && (setup - average).abs() < 0.01, "{setup} and {average}");
    let du = std::process::Command::new("du").args(["-s", "-c", "--block-size=1"]).args(&homes).output().unwrap();
    let du = String::from_utf8_lossy(&du.stdout).lines().last().unwrap().split_once('\t').unwrap().0.to_owned();
    let (du, ours) = (du.parse::<f64>().unwrap(), value(&page, "waypost_workspace_bytes"));
    assert!(du > 3_000_000.0 && (ours - du).abs() <= du * 0.05, "{ours} and {du}");
    assert!(value(&page, "waypost_workspaces_lost") < 0.1, "{page}");
    // A workspace that was deleted behind our back counts as lost.
    std::fs::rename(&homes[1], server.sandbox.path("taken")).unwrap();
    let _ = way(&["ws", "list"]);
    assert!((value(&metrics(), "waypost_workspaces_lost") - 1.0).abs() < 0.1);
    server.post(&format!("/api/v1/jobs/{}/cancel", running["id"].as_str().unwrap()), &json!({})).data();
    assert_eq!(server.end_of(&running)["status"], "cancelled");
}

#[test]
fn f54_a_job_requested_when_the_server_was_killed_is_not_run_twice() {
    let mut server = Server::with_commit();
    let ran = server.sandbox.path("ran");
    let body = json!({ "command": ["sh", "-c", format!("echo once >> {}", ran.display())], "sandbox": "off" });
    let ask = |server: &Server| server.ask("POST", "/api/v1/jobs").with("Idempotency-Key", "k").json(&body).send();
    let jobs = |server: &Server| server.way(&["job", "list", "--json"]).data().as_array().unwrap().clone();
    // The job is recorded, and the client has not received the answer.
    let unheard = server.ask("POST", "/api/v1/jobs").with("Idempotency-Key", "k").json(&body).open();
    until("it is written down", || !jobs(&server).is_empty());
    server.restart();
    drop(unheard);
    let again = ask(&server);
    let all = jobs(&server);
    assert_eq!(all.len(), 1, "{all:?}");
    // The job runs, or it is reported as one that never will.
    if again.status == 200 {
        assert_eq!(again.data()["id"], all[0]["id"]);
        assert_eq!(server.end_of(&all[0])["status"], "completed");
        assert_eq!(fs::read_to_string(&ran).unwrap(), "once\n");
    } else {
        assert_eq!((again.fails(409).as_str(), &all[0]["status"]), ("conflict", &json!("interrupted")), "{again:?}");
        assert!(!ran.exists());
    }
    assert_eq!(ask(&server).status, again.status);
    assert_eq!(jobs(&server).len(), 1);
}

#[test]
fn f55_a_slow_reader_of_a_log_is_told_what_is_missing_and_delays_no_other_reader() {
    let server = Server::with_commit_and(&["--config", "jobs.log_limit=64KB"]);
    let go = server.sandbox.path("go");
    let script = format!("echo first; until [ -e {} ]; do sleep 0.02; done; yes | head -c 12000000", go.display());
    // The script uses a file of the test.
    let job = server.run(&json!({ "command": ["sh", "-c", script], "sandbox": "off" }));
    let path = format!("/api/v1/jobs/{}/log", job["id"].as_str().unwrap());
    let mut slow = Stream::open(server.ask("GET", &path));
    server.sandbox.write(&go, "");
    // The slow client reads nothing while the job prints.
    assert_eq!(server.end_of(&job)["status"], "completed");
    let mut late = Stream::open(server.ask("GET", &path));
    assert_eq!(late.next().0, "resync", "the beginning of the log was dropped");
    let (mut at, mut missed) = (0, 0);
    loop {
        let (kind, id, data) = slow.next();
        match kind.as_str() {
            "resync" => {
                missed += data["missed"].as_u64().unwrap();
                at = data["from"].as_u64().unwrap();
            }
            "log" => {
                assert_eq!(data["from"], at, "no text is repeated, and no gap is silent");
                at = id.unwrap();
            }
            _ => break,
        }
    }
    assert_eq!(at, 12_000_006);
    assert!(missed > 0);
}

#[test]
fn t12_the_log_of_a_job_is_for_admins_and_for_its_own_agent() {
    let server = Server::with_commit();
    let ask = server.ask("POST", "/api/v1/jobs").with("Waypost-Agent", "ann");
    let job = ask.json(&json!({ "command": ["echo", "for ann"] })).send().data();
    let ended = server.end_of(&job);
    assert_eq!(ended["agent"], "ann", "{ended}");
    let id = job["id"].as_str().unwrap();
    let tokens = [
        (server.token.clone(), true),
        (server.token(&["--agent", "ann"]), true),
        (server.token(&["--agent", "bob"]), false),
        (server.token(&["--role", "read-only"]), false),
    ];
    for (token, may_read) in &tokens {
        for path in [format!("/api/v1/jobs/{id}/log"), format!("/api/v1/jobs/{id}/log/stream")] {
            let reply = server.ask("GET", &path).by(token).send();
            assert_eq!(reply.status, if *may_read { 200 } else { 403 }, "{path}: {reply:?}");
            assert_eq!(reply.body.contains("for ann"), *may_read, "{path}: {reply:?}");
        }
        for (operation, body) in
            [("show_log", json!({ "job": id })), ("show_stored_log", json!({ "job": id, "limit": 100 }))]
        {
            let by_name = server.ask("POST", &format!("/api/v1/op/{operation}")).by(token).json(&body).send();
            assert_eq!(by_name.status, if *may_read { 200 } else { 403 }, "{operation}: {by_name:?}");
        }
    }
}

#[test]
fn a_workspace_is_saved_delivered_and_removed_over_http_and_none_with_unsaved_work() {
    let server = Server::with_commit();
    let job = server.run(&json!({ "command": ["sh", "-c", "echo two > file; exec sleep 600"], "sandbox": "off" }));
    let workspace = format!("/api/v1/workspaces/{}", job["workspace_id"].as_str().unwrap());
    let remove = |query: &str| server.ask("DELETE", &format!("{workspace}{query}")).send();
    let says = |reply: &Reply, status: u16, text: &str| {
        reply.status == status && reply.json()["error"]["message"].as_str().is_some_and(|said| said.contains(text))
    };
    let running = remove("?discard=true");
    assert!(says(&running, 403, "a job runs in it"), "{running:?}");
    let path = PathBuf::from(server.get(&workspace).data()["path"].as_str().unwrap());
    until("it wrote its file", || fs::read_to_string(path.join("file")).is_ok_and(|text| text == "two\n"));
    let cancel = format!("/api/v1/jobs/{}/cancel", job["id"].as_str().unwrap());
    assert_eq!(server.post(&cancel, &json!({})).status, 200);
    let _ = server.end_of(&job);

    let unsaved = remove("");
    assert!(says(&unsaved, 403, "stays"), "{unsaved:?}");
    assert!(says(&remove("?force=true&discard=true"), 400, "exclude each other"));
    let saved = server.post(&format!("{workspace}/snapshot"), &json!({})).data();
    assert!(server.way(&["ws", "snapshots"]).ok().stdout.contains(saved["id"].as_str().unwrap()), "{saved}");
    let undelivered = server.post(&format!("{workspace}/deliver"), &json!({}));
    assert!(says(&undelivered, 403, "file is not committed"), "{undelivered:?}");
    let delivered = server.post(&format!("{workspace}/deliver"), &json!({ "commit": "Two", "branch": "two" })).data();
    assert_eq!((&delivered["branch"], &delivered["committed"]), (&json!("two"), &json!(true)));
    let log = server.sandbox.git(&server.repo, ["log", "-1", "--format=%H %s", "two"]);
    assert_eq!(log.trim(), format!("{} Two", delivered["commit"].as_str().unwrap()));

    let agent = server.token(&["--role", "agent", "--agent", "ann"]);
    for (method, path) in [("DELETE", workspace.clone()), ("POST", format!("{workspace}/snapshot"))] {
        assert_eq!(server.ask(method, &path).by(&agent).json(&json!({})).send().status, 403, "{method} {path}");
    }
    let removed = remove("?force=true");
    assert_eq!(removed.status, 200, "{removed:?}");
    assert!(!path.exists());
    assert!(says(&remove(""), 409, "already"));
    assert_eq!(server.ask("DELETE", "/api/v1/workspaces/ws_none").send().status, 404);
}

#[test]
fn a_cancelled_workflow_ends_its_jobs_over_http() {
    let server = Server::with_commit();
    server.sandbox.write("plan.txt", "one: First\n");
    let plan = server.sandbox.path("plan.txt");
    let _ = server.way(&["workflow", "create", "w", "--plan", plan.to_str().unwrap(), "--start"]).ok();
    let job = server.run(&json!({ "command": ["sleep", "600"], "task": "one" }));
    assert_eq!(server.post("/api/v1/workflows/w/cancel", &json!({})).status, 200);
    assert_eq!(server.end_of(&job)["status"], "cancelled");
}

#[test]
fn a_server_waits_for_a_child_of_its_killed_predecessor() {
    let sandbox = crate::support::sandbox();
    let repo = sandbox.git_repo("repo");
    let (socket, lock) = (sandbox.path("way.sock"), sandbox.path("way.lock"));
    // A child that has not started its program yet has the lock and the port.
    let held = fs::File::create(&lock).unwrap();
    held.lock().unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let number = port.local_addr().unwrap().port().to_string();
    let mut command = sandbox.way_command(&repo);
    command.args(["serve", "--json", "--port", &number, "--socket", socket.to_str().unwrap()]);
    let mut next = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let fds = PathBuf::from(format!("/proc/{}/fd", next.id()));
    let has_open = |fd: std::io::Result<fs::DirEntry>| fs::read_link(fd.unwrap().path()).is_ok_and(|to| to == lock);
    until("it waits for the lock", || {
        let fds = fs::read_dir(&fds).into_iter().flatten();
        next.try_wait().unwrap().is_some() || fds.into_iter().any(has_open)
    });
    drop((held, port));
    let mut line = String::new();
    BufReader::new(next.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let _ = next.kill();
    let said = next.wait_with_output().unwrap();
    assert!(line.contains(&number), "{line} {}", String::from_utf8_lossy(&said.stderr));
}

#[test]
fn p4_a_job_over_http_works_in_the_workspace_or_the_repository_that_it_names() {
    let server = Server::with_commit_and(&["--global"]);
    let other = server.sandbox.git_repo("other");
    server.sandbox.git(&other, ["commit", "--quiet", "--allow-empty", "-m", "Another"]);
    server.sandbox.git(&other, ["remote", "add", "origin", "git@host.invalid:acme/shop.git"]);
    let _ = server.way(&["--global", "repo", "add", other.to_str().unwrap()]).ok();
    let of = |provider: &str, repo: &str| json!({ "provider": provider, "owner": "Acme", "repo": repo });
    let script = ["sh", "-c", "pwd; git log --format=%s -1"];
    let here = server.end_of(&server.run(&json!({ "command": script })));
    assert!(here["output"].as_str().unwrap().ends_with("First"), "{here}");
    for provider in ["host", "host.invalid"] {
        let there = server.end_of(&server.run(&json!({ "command": script, "input": of(provider, "shop") })));
        assert_eq!(there["repository"], "other", "{there}");
        assert!(there["output"].as_str().unwrap().ends_with("Another"), "{there}");
    }
    for unknown in [of("host", "none"), of("hos", "shop")] {
        let reply = server.post("/api/v1/jobs", &json!({ "command": script, "input": unknown }));
        assert_eq!((reply.status, reply.body.contains("no repository Acme/")), (404, true), "{reply:?}");
    }
    let known = here["workspace_id"].as_str().unwrap();
    let again = server.run(&json!({ "command": script, "workspace": known, "input": of("host", "shop") }));
    assert_eq!(server.end_of(&again)["output"], here["output"]);
    assert_eq!(server.post("/api/v1/jobs", &json!({ "command": script, "workspace": "ws_none" })).status, 404);
}

#[test]
fn a_deleted_log_is_not_found_over_http() {
    let server = Server::with_commit();
    let job = server.end_of(&server.run(&json!({ "command": ["echo", "said"] })));
    fs::remove_file(job["log"].as_str().unwrap()).unwrap();
    for end in ["log", "log/stream"] {
        let reply = server.get(&format!("/api/v1/jobs/{}/{end}", job["id"].as_str().unwrap()));
        assert_eq!((reply.status, reply.body.contains("was deleted")), (404, true), "{end}: {reply:?}");
    }
}

#[test]
fn p21_a_server_works_on_the_workspaces_of_its_machine_for_commands_of_another_one() {
    let server = Server::with_commit();
    let elsewhere = server.sandbox.path("elsewhere");
    server.sandbox.git(&server.repo, ["clone", "--quiet", ".", elsewhere.to_str().unwrap()]);
    // Another machine: its own home, and the server as its store.
    let home = server.sandbox.dir("another-home");
    let away = |args: &[&str]| {
        let variables = [
            ("WAYPOST_DB", OsStr::new(server.url())),
            ("WAYPOST_TOKEN", OsStr::new(&server.token)),
            ("WAYPOST_HOME", home.as_os_str()),
        ];
        server.sandbox.way_with(&elsewhere, &variables, args)
    };
    let made = |_| server.way(&["job", "start", "--json", "--", "sh", "-c", "echo new > new"]).data();
    let [kept, discarded] = ["kept", "discarded"].map(made);
    let dir = |job: &Value| PathBuf::from(job["workspace_dir"].as_str().unwrap());
    let (ws, other) = (kept["workspace_id"].as_str().unwrap(), discarded["workspace_id"].as_str().unwrap());
    assert!(away(&["ws", "diff", ws]).ok().stdout.contains("+new"));
    let saved = away(&["ws", "snapshot", ws]).ok().stdout;
    assert!(saved.starts_with(&format!("Saved workspace {ws} as ")), "{saved}");
    // A refusal is the same as on its machine.
    assert!(away(&["ws", "rm", ws]).fails(7).stderr.contains("--force saves it first"));
    assert!(away(&["job", "deliver", kept["id"].as_str().unwrap()]).fails(7).stderr.contains("new is not committed"));
    let delivered = away(&["ws", "push", ws, "--commit", "New", "--branch", "new", "--json"]).data();
    assert_eq!(delivered["delivered"]["branch"], "new", "{delivered}");
    assert_eq!(server.sandbox.git(&server.repo, ["show", "new:new"]).trim(), "new");
    let removed = away(&["ws", "rm", "--discard", other]).ok().stdout;
    assert!(removed.starts_with(&format!("Removed workspace {other} at ")), "{removed}");
    assert!(!dir(&discarded).exists() && dir(&kept).exists());
    // What needs the files here names their machine, and a server elsewhere could not help either.
    let machine = kept["machine"].as_str().unwrap();
    for args in [&["ws", "rm", "--dry-run", ws][..], &["ws", "enter", ws], &["ws", "update", ws]] {
        assert!(away(args).fails(7).stderr.contains(&format!("is on the machine {machine}")), "{args:?}");
    }
}
