//! Jobs in a sandbox: the files, the network, the memory and the processes that they cannot use, and what still works.

use std::ffi::OsString;
use std::fs;
use std::net::TcpListener;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use waypost_testkit::{Run, until};

use crate::serving::Server;
use crate::support::jobs::{Shop, is_alive, path};

const WAY: &str = env!("CARGO_BIN_EXE_way");

/// Every way to restrict the files of a job.
const MODES: [&str; 2] = ["--sandbox=landlock", "--sandbox=bubblewrap"];

/// A shop with a secret in its home directory.
fn shop() -> Shop {
    let shop = Shop::new();
    shop.sandbox.write(shop.sandbox.dir("home/.ssh").join("key"), "canary\n");
    shop
}

/// A job that reads the secret.
const READ: &str = "cat ~/.ssh/key";

fn output(job: &Value) -> &str {
    job["output"].as_str().unwrap_or_default()
}

fn phases(job: &Value) -> Vec<&str> {
    job["phases"].as_array().unwrap().iter().map(|phase| phase["name"].as_str().unwrap()).collect()
}

/// The `PATH` of the tests without directories that have bubblewrap. It still has a shell and git.
fn path_without_bubblewrap(shop: &Shop) -> OsString {
    let bin = shop.sandbox.dir("bin");
    for program in ["sh", "git", "cat", "touch", "true"] {
        let found = std::env::split_paths(&std::env::var_os("PATH").unwrap())
            .map(|dir| dir.join(program))
            .find(|file| file.is_file())
            .unwrap_or_else(|| panic!("there is no {program}"));
        std::os::unix::fs::symlink(found, bin.join(program)).unwrap();
    }
    bin.into_os_string()
}

#[test]
fn a_job_without_a_sandbox_reads_and_writes_as_its_user() {
    let shop = shop();
    let job = shop.job(&[], &format!("{READ}; grep NoNewPrivs /proc/self/status; echo out > ~/written"));
    assert_eq!((&job["status"], output(&job)), (&json!("completed"), "canary\nNoNewPrivs:\t0"), "{job}");
    assert!(shop.sandbox.path("home/written").exists());
    assert!(!phases(&job).contains(&"confined"), "{job}");
}

#[test]
fn a_job_in_a_sandbox_cannot_read_the_home_directory_or_write_outside_its_workspace() {
    let shop = shop();
    let outside = shop.sandbox.dir("outside");
    shop.sandbox.write(outside.join("file"), "kept\n");
    let outside_file = outside.join("file");
    for mode in MODES {
        let script = format!(
            "{READ}; ls ~/.ssh; echo changed > {file}; truncate -s 0 {file}; rm -f {file}; touch {dir}/new; \
             echo hook > {repo}/.git/hooks/pre-commit; echo x >> {repo}/.git/config; echo x >> {repo}/file; \
             true >> {repo}/.git/waypost/state.db && echo canary; echo x >> {repo}/.git/waypost/config.toml; echo x >> ~/.waypost/config.toml; cat ~/.waypost/token; \
             echo mine > file && echo temporary > \"$TMPDIR/file\" && cat file \"$TMPDIR/file\"",
            file = outside_file.display(),
            dir = outside.display(),
            repo = shop.repo.display(),
        );
        let job = shop.job(&[mode], &script);
        assert_eq!(job["status"], "completed", "{mode}: {job}");
        assert!(output(&job).ends_with("mine\ntemporary"), "{mode}: {job}");
        assert!(!output(&job).contains("canary"), "{mode}: {job}");
        assert_eq!(fs::read_to_string(&outside_file).unwrap(), "kept\n", "{mode}");
        assert_eq!(fs::read_to_string(shop.repo.join("file")).unwrap(), "one\n", "{mode}");
        for written in ["home/.waypost/config.toml", "outside/new", "repo/.git/waypost/config.toml"] {
            assert!(!shop.sandbox.path(written).exists(), "{mode}: {written}");
        }
        assert!(!shop.repo.join(".git/hooks/pre-commit").exists(), "{mode}");
        let records = shop.root().join("jobs").join(job["id"].as_str().unwrap());
        assert!(records.join("output.log").exists() && !records.join("tmp").exists(), "{mode}");
    }
}

#[test]
fn a_job_in_a_sandbox_gains_no_privileges_and_reaches_no_other_process() {
    let shop = shop();
    let mut other = Command::new("sleep").arg("600").env("SECRET", "canary").stdin(Stdio::null()).spawn().unwrap();
    let id = other.id().to_string();
    for mode in MODES {
        let script = format!(
            "grep NoNewPrivs /proc/self/status; cat /proc/{id}/environ; kill -9 {id}; kill -9 $PPID; echo \"[$SSH_AUTH_SOCK]\""
        );
        let mut command = shop.command();
        command.env("SSH_AUTH_SOCK", "/nowhere").args(["job", "start", "--json", mode, "--", "sh", "-c", &script]);
        let job = Run::of(&command.output().unwrap()).data();
        assert!(output(&job).starts_with("NoNewPrivs:\t1\n"), "{mode}: {job}");
        assert!(output(&job).ends_with("[]") && !output(&job).contains("canary"), "{mode}: {job}");
        assert!(is_alive(&id), "{mode}: {job}");
    }
    other.kill().unwrap();
    other.wait().unwrap();
}

#[test]
fn a_job_in_a_sandbox_commits_and_reports_to_way() {
    for (mode, strategy) in MODES.iter().zip(["clone", "worktree"]).chain(MODES.iter().zip(["overlay", "clone"])) {
        let shop = shop();
        let issue = shop.way(["add", "Fix it", "--json"]).data()["id"].clone();
        shop.workflow(&json!({ "tasks": [{ "name": "fix", "issue": issue }] }));
        let script = format!(
            "echo work > new && git add new && git commit --quiet -m Work && \
             {WAY} task checkpoint $WAYPOST_TASK --summary half && {WAY} job note --phase deep && \
             {WAY} task done $WAYPOST_TASK --outcome fixed"
        );
        let job = shop.job(&[*mode, "--strategy", strategy, "--task", "fix", "--agent", "ann"], &script);
        assert_eq!(job["status"], "completed", "{mode} {strategy}: {job}");
        assert!(phases(&job).contains(&"confined") && phases(&job).contains(&"deep"), "{mode}: {job}");
        let log = shop.sandbox.git(path(&job["workspace_dir"]), ["log", "--format=%s", "-1"]);
        assert_eq!(log.trim(), "Work", "{mode}");
        let task = shop.way(["task", "show", "fix", "--json"]).data();
        assert_eq!((&task["status"], &task["outcome"]), (&json!("completed"), &json!("fixed")), "{mode}: {task}");
        // The next command that reaches the ledger closes the issue.
        let _ = shop.way(["ready"]);
        let closed = shop.way(["show", issue.as_str().unwrap(), "--json"]).data();
        assert_eq!(closed["status"], "closed", "{mode}: {closed}");
    }
}

#[test]
fn a_sandbox_keeps_exit_codes_and_signals() {
    let shop = shop();
    for mode in MODES {
        assert_eq!(shop.job(&[mode], "exit 7")["exit_code"], 7, "{mode}");
        for (program, code) in [("no-such-program", 127), ("/no/such/program", 127), ("/etc/passwd", 126)] {
            let run = shop.run(&["job", "start", mode, "--", program]).fails(code);
            assert!(run.stderr.contains(program), "{mode}: {}", run.whole());
            let job = shop.way(["job", "list", "--limit", "1", "--json"]).data()[0].clone();
            assert!(job["started_at"].is_null(), "{mode}: {job}");
        }
        let killed = shop.job(&[mode], "kill -9 $$");
        // Bubblewrap reports a signal as shells do.
        let error = if mode.ends_with("landlock") {
            "signal 9 ended its command"
        } else {
            "its command ended with exit code 137"
        };
        assert_eq!((&killed["exit_code"], &killed["error"]), (&json!(137), &json!(error)), "{mode}: {killed}");
    }
}

#[test]
fn a_cancelled_job_in_a_sandbox_is_asked_to_end_and_leaves_no_process() {
    let shop = shop();
    for mode in MODES {
        let script = "trap 'echo asked; exit 0' TERM; sleep 600 & echo $! > pids; echo $$ >> pids; wait";
        let job = shop.started(&[mode, "--config", "jobs.grace=30s"], script);
        let pids = path(&job["workspace_dir"]).join("pids");
        until("the job wrote its processes", || fs::read_to_string(&pids).is_ok_and(|text| text.lines().count() == 2));
        let _ = shop.way(["job", "cancel", job["id"].as_str().unwrap()]).ok();
        assert_eq!(shop.show(&job)["status"], "cancelled", "{mode}");
        assert!(fs::read_to_string(&pids).unwrap().lines().all(|pid| !is_alive(pid)), "{mode}");
        let log = shop.way(["job", "logs", job["id"].as_str().unwrap()]).ok().stdout;
        assert!(log.contains("asked"), "{mode}: {log}");
    }
}

#[test]
fn a_job_without_a_network_connects_to_its_own_loopback_only() {
    let shop = shop();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let connect = format!(
        "import socket\ntry:\n socket.create_connection(('127.0.0.1', {port}), 5); print('connected')\n\
         except OSError: print('refused')\n\
         own = socket.socket(); own.bind(('127.0.0.1', 0)); own.listen()\n\
         socket.create_connection(own.getsockname(), 5); print('own')"
    );
    let script = format!("/usr/bin/python3 -c \"{connect}\"");
    assert_eq!(output(&shop.job(&["--sandbox=landlock"], &script)), "connected\nown");
    for mode in ["--sandbox=off", "--sandbox=landlock", "--sandbox=bubblewrap"] {
        let job = shop.job(&[mode, "--no-network"], &script);
        assert_eq!(output(&job), "refused\nown", "{mode}: {job}");
    }
    let job = shop.job(&["--config", "jobs.network=off"], &script);
    assert_eq!(output(&job), "refused\nown", "{job}");
}

#[test]
fn the_memory_and_the_processes_of_a_job_are_limited_together() {
    let shop = shop();
    // Each process needs less than the limit. It waits for a signal; without a limit none would come, hence the alarm.
    let eat = "import signal; x = bytearray(40_000_000); signal.alarm(20); signal.pause()";
    let many = format!("for i in 1 2 3 4 5; do /usr/bin/python3 -c '{eat}' & done; wait -n; kill $(jobs -p); exit 9");
    let fork = "i=0; while [ $i -lt 100 ]; do sleep 600 & i=$((i+1)); done; echo all";
    for mode in ["--sandbox=off", "--sandbox=landlock", "--sandbox=bubblewrap"] {
        let shell = ["job", "start", "--json", mode, "--memory-limit", "100MB", "--", "bash", "-c", &many];
        let job = serde_json::from_str::<Value>(&shop.run(&shell).stdout).unwrap()["data"].clone();
        assert_eq!(job["exit_code"], 9, "{mode}: {job}");
        let warnings = job["warnings"].to_string();
        assert!(warnings.contains("killed at the memory limit of 100 MB"), "{mode}: {job}");
        let job = shop.job(&[mode, "--config", "jobs.process_limit=20"], fork);
        assert!(!output(&job).contains("all"), "{mode}: {job}");
        assert!(job["warnings"].to_string().contains("the limit of 20 processes"), "{mode}: {job}");
        let group = format!("waypost-{}", job["id"].as_str().unwrap());
        for controller in ["memory", "pids", "unified", ""] {
            assert!(!path(&json!(format!("/sys/fs/cgroup/{controller}/{group}"))).exists(), "{mode}");
        }
    }
}

#[test]
fn the_user_opens_further_paths_to_jobs_in_a_sandbox() {
    let shop = shop();
    let agent = shop.sandbox.dir("home/.agent");
    shop.sandbox.write(agent.join("settings"), "settings\n");
    let _ = shop.way(["config", "set", "--user", "jobs.sandbox_read", "~/.agent"]).ok();
    let script = "cat ~/.agent/settings; echo new > ~/.agent/state; cat ~/.agent/state";
    for mode in MODES {
        let read = shop.job(&[mode], script);
        assert!(output(&read).starts_with("settings\n") && !agent.join("state").exists(), "{mode}: {read}");
    }
    let _ = shop.way(["config", "set", "--user", "jobs.sandbox_write", "~/.agent"]).ok();
    for mode in MODES {
        let written = shop.job(&[mode], script);
        assert_eq!(output(&written), "settings\nnew", "{mode}: {written}");
    }
}

#[test]
fn a_tracked_configuration_does_not_change_the_sandbox() {
    let shop = shop();
    let _ = shop.way(["config", "set", "--user", "jobs.sandbox", "on"]).ok();
    shop.sandbox.write(
        shop.sandbox.dir("repo/.waypost").join("config.toml"),
        "[jobs]\nsandbox = \"off\"\nsandbox_read = [\"~/.ssh\"]\nnetwork = \"on\"\n",
    );
    let job = shop.job(&[], READ);
    assert_eq!(job["status"], "failed", "{job}");
    assert!(!output(&job).contains("canary"), "{job}");
    // The user decides otherwise for one job.
    assert_eq!(output(&shop.job(&["--sandbox=off"], READ)), "canary");
}

#[test]
fn a_job_that_cannot_have_its_sandbox_is_refused_and_runs_nothing() {
    let shop = shop();
    let ran = shop.repo.join("ran");
    let mut command = shop.command();
    command.env("PATH", path_without_bubblewrap(&shop));
    command.args(["job", "start", "--sandbox=bubblewrap", "--", "touch", ran.to_str().unwrap()]);
    let run = Run::of(&command.output().unwrap()).fails(8);
    assert!(run.stderr.contains("bubblewrap does not work here"), "{}", run.whole());
    assert!(run.stderr.contains("install bubblewrap"), "{}", run.whole());
    assert_eq!(shop.way(["job", "list", "--json"]).data(), json!([]));
    let run = shop.run(&["job", "start", "--sandbox", "--strategy", "in-place", "--", "touch", "ran"]).fails(7);
    assert!(run.stderr.contains("in the checkout itself"), "{}", run.whole());
    // A worker takes it from the queue, and fails it.
    let _ = shop.way(["job", "start", "--queue", "--sandbox=bubblewrap", "--", "touch", ran.to_str().unwrap()]).ok();
    let mut worker = shop.command();
    worker.env("PATH", shop.sandbox.path("bin")).args(["worker", "--agent", "ann", "--until-empty", "--", "true"]);
    let _ = worker.output().unwrap();
    let job = shop.way(["job", "list", "--json"]).data()[0].clone();
    assert_eq!(job["status"], "failed", "{job}");
    assert!(job["error"].as_str().unwrap().contains("bubblewrap does not work here"), "{job}");
    assert!(!ran.exists());
}

#[test]
fn a_worker_runs_queued_jobs_at_least_as_strictly_as_it_is_configured() {
    let shop = shop();
    let _ = shop.way(["job", "start", "--queue", "--sandbox=off", "--", "sh", "-c", READ]).ok();
    let _ = shop.way(["worker", "--config", "jobs.sandbox=on", "--agent", "ann", "--until-empty", "--", "true"]);
    let job = shop.way(["job", "list", "--json"]).data()[0].clone();
    assert_eq!(job["status"], "failed", "{job}");
    assert!(phases(&job).contains(&"confined") && !output(&job).contains("canary"), "{job}");
}

#[test]
fn doctor_tells_what_can_restrict_jobs() {
    let shop = shop();
    let finding = |run: Run| {
        let findings = run.data();
        findings.as_array().unwrap().iter().find(|finding| finding["check"] == "sandbox").unwrap().clone()
    };
    let found = finding(shop.way(["doctor", "--json"]));
    assert_eq!(found["verdict"], "ok", "{found}");
    assert!(found["detail"].as_str().unwrap().contains("bubblewrap and Landlock can restrict jobs"), "{found}");
    let mut command = shop.command();
    command.env("PATH", path_without_bubblewrap(&shop));
    command.args(["--config", "jobs.sandbox=bubblewrap", "doctor", "--json"]);
    let found = finding(Run::of(&command.output().unwrap()));
    assert_eq!(found["verdict"], "warning", "{found}");
}

#[test]
fn a_job_that_comes_over_http_is_in_a_sandbox_unless_an_admin_turns_it_off() {
    let Shop { sandbox, repo, .. } = shop();
    let server = Server::start_in(sandbox, repo, &[]);
    let ended = |job: &Value| {
        let address = format!("/api/v1/jobs/{}", job["id"].as_str().unwrap());
        until("the job ended", || !server.get(&address).data()["finished_at"].is_null());
        server.get(&address).data()
    };
    let command = json!(["sh", "-c", READ]);
    let job = ended(&server.post("/api/v1/jobs", &json!({ "command": command })).data());
    assert_eq!(job["settings"]["sandbox"], "on", "{job}");
    assert!(phases(&job).contains(&"confined") && !output(&job).contains("canary"), "{job}");
    let agent = server.token(&["--role", "agent", "--agent", "ann"]);
    for body in [json!({ "command": command, "sandbox": "off" }), json!({ "command": command })] {
        assert_eq!(server.ask("POST", "/api/v1/jobs").by(&agent).json(&body).send().fails(403), "refused");
    }
    let job = ended(&server.post("/api/v1/jobs", &json!({ "command": command, "sandbox": "off" })).data());
    assert_eq!((&job["status"], output(&job)), (&json!("completed"), "canary"), "{job}");
    // Also a job that a command queues through the server.
    let queued = server.remote(&["job", "start", "--queue", "--json", "--", "sh", "-c", READ]).data();
    assert_eq!(queued["settings"]["sandbox"], "on", "{queued}");
    let limits =
        json!({ "command": ["sh", "-c", "cat /proc/net/dev | wc -l"], "network": false, "memory_limit": 100_000_000 });
    let job = ended(&server.post("/api/v1/jobs", &limits).data());
    assert_eq!((output(&job), &job["settings"]["memory_limit"]), ("3", &json!(100_000_000)), "{job}");
}
