//! Jobs of a store on a PostgreSQL server: they reach it through a socket, without its password.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use waypost_testkit::{Run, Sandbox, postgres_url, until};

use crate::support::jobs::JOB_COMMANDS;
use crate::support::sandbox;

const PASSWORD: &str = "canary-of-the-password";

/// A repository whose store is on a server, with a running workflow.
struct Shop {
    sandbox: Sandbox,
    repo: PathBuf,
    store: String,
}

impl Shop {
    fn new() -> Shop {
        // The server of the tests accepts any password.
        Shop::on(postgres_url().replacen('@', &format!(":{PASSWORD}@"), 1))
    }

    fn on(store: String) -> Shop {
        let sandbox = sandbox();
        let repo = sandbox.git_repo("repo");
        sandbox.write("plan.txt", "one: First\ntwo: Second\n");
        let shop = Shop { sandbox, repo, store };
        let plan = shop.sandbox.path("plan.txt");
        let _ = shop.way(&["workflow", "create", "w", "--plan", plan.to_str().unwrap(), "--start"]).ok();
        let _ = shop.way(&["agent", "register", "bob"]).ok();
        shop
    }

    fn way(&self, args: &[&str]) -> Run {
        let mut command = self.sandbox.way_command(&self.repo);
        // The commands of jobs use the real clock.
        command.env("WAYPOST_DB", &self.store).env_remove("WAYPOST_TEST_CLOCK").arg("--quiet").args(args);
        self.sandbox.run(&mut command, "")
    }

    /// Runs a script as a job of the first task. Returns its output.
    fn run(&self, script: &str) -> Run {
        let way = env!("CARGO_BIN_EXE_way");
        self.way(&["job", "start", "--task", "one", "--agent", "ann", "--", "sh", "-c", script, way])
    }

    /// Starts a job that waits, and returns its socket, its token and its task.
    fn start_waiting(&self) -> (PathBuf, String, String) {
        let file = self.sandbox.path("variables");
        let print = format!("env > {0}.new; mv {0}.new {0}; exec sleep 600", file.display());
        let _ = self.way(&["job", "start", "--detach", "--task", "one", "--agent", "ann", "--", "sh", "-c", &print]);
        until("the job wrote its variables", || file.exists());
        let text = fs::read_to_string(&file).unwrap();
        let variable = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).unwrap().to_owned();
        (variable("WAYPOST_DB=unix:").into(), variable("WAYPOST_TOKEN="), variable("WAYPOST_TASK="))
    }

    fn cancel_jobs(&self) {
        for job in self.way(&["job", "list", "--live", "--json"]).data().as_array().unwrap() {
            let _ = self.way(&["job", "cancel", job["id"].as_str().unwrap()]);
        }
    }
}

/// Asks for an operation on a socket. Returns the status and the body.
fn ask(socket: &Path, token: Option<&str>, operation: &str, arguments: &Value) -> (u16, String) {
    let mut stream = UnixStream::connect(socket).unwrap();
    let body = arguments.to_string();
    let token = token.map_or_else(String::new, |token| format!("Authorization: Bearer {token}\r\n"));
    let head = format!("POST /api/v1/op/{operation} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{token}");
    let rest = format!("Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    stream.write_all(format!("{head}{rest}").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    (answer.split(' ').nth(1).unwrap().parse().unwrap(), answer)
}

#[test]
fn a_job_works_without_the_password_of_its_store() {
    let shop = Shop::new();
    // Everything that the tree of the job's processes can show of itself.
    let script = format!(
        "{JOB_COMMANDS}\ncat /proc/$$/environ /proc/$$/cmdline > own; env > child\n\
        sh -c 'cat /proc/self/environ /proc/self/cmdline' > grandchild"
    );
    let run = shop.run(&script);
    assert!(run.code == 0 && run.stdout.contains("all commands work"), "{}", run.whole());
    assert!(run.stderr.contains("committed 3 files"), "what it saw is its result: {}", run.stderr);
    let job = shop.way(&["job", "list", "--json"]).data()[0].clone();
    assert_eq!((&job["status"], &job["phases"][4]["name"]), (&json!("completed"), &json!("thinking")), "{job}");
    let dir = Path::new(job["workspace_dir"].as_str().unwrap()).to_owned();
    for name in ["own", "child", "grandchild"] {
        let seen = String::from_utf8_lossy(&fs::read(dir.join(name)).unwrap()).into_owned();
        assert!(seen.contains("WAYPOST_TOKEN=wpj_") && seen.contains("WAYPOST_DB=unix:/"), "{name}: {seen}");
        assert!(!seen.contains(PASSWORD), "{name}: {seen}");
    }
    let task = shop.way(&["task", "show", "one", "--json"]).data();
    assert_eq!((&task["status"], &task["outcome"]), (&json!("completed"), &json!("built")), "{task}");
    assert_eq!(shop.way(&["agent", "show", "bob", "--json"]).data()["unread"], 1);
    assert!(fs::read_to_string(shop.repo.join(".waypost/issues.jsonl")).unwrap().contains("\"title\":\"Found\""));
    let socket = shop.sandbox.path("home/.waypost/workspaces/jobs").join(job["id"].as_str().unwrap());
    assert!(!socket.join("run/socket").exists(), "the socket ends with the job");
}

#[test]
fn a_job_of_a_file_store_runs_the_same_commands() {
    let sandbox = sandbox();
    let store = sandbox.path("state.db");
    let shop = Shop::on(store.to_str().unwrap().to_owned());
    let run = shop.run(JOB_COMMANDS).ok();
    assert!(run.stdout.contains("all commands work"), "{}", run.whole());
}

#[test]
fn the_socket_of_a_job_accepts_its_token_alone_with_the_rights_of_the_job() {
    let shop = Shop::new();
    let (socket, token, task) = shop.start_waiting();
    let heartbeat = json!({ "task": task, "epoch": 1 });
    let (status, body) = ask(&socket, None, "heartbeat", &heartbeat);
    assert_eq!(status, 401, "a process of the same user has no rights: {body}");
    for wrong in ["wpj_0", "", &token[..20], &format!("{token}0")] {
        assert_eq!(ask(&socket, Some(wrong), "heartbeat", &heartbeat).0, 401, "{wrong}");
    }
    let owner = shop.way(&["token", "create", "--role", "admin", "--json"]).data()["token"].clone();
    assert_eq!(ask(&socket, owner.as_str(), "list_worktrees", &json!({})).0, 401, "another token of the same store");
    assert_eq!(ask(&socket, Some(&token), "heartbeat", &heartbeat).0, 200);
    assert_eq!(ask(&socket, Some(&token), "list_worktrees", &json!({})).0, 200);
    let other = shop.way(&["task", "show", "two", "--json"]).data()["id"].clone();
    for (operation, arguments) in [
        ("start_job", json!({ "command": ["true"] })),
        ("cancel_workflow", json!({ "workflow": "w" })),
        ("claim_task", json!({})),
        ("register_agent", json!({ "name": "eve" })),
        ("release_task", json!({ "task": other, "force": true })),
        ("end_issue_lease", json!({ "issue": "x-1", "force": true, "reason": "r" })),
        ("add_issue", json!({ "title": "x" })),
        ("collect_garbage", json!({})),
        ("show_stored_log", json!({ "job": "x", "limit": 1 })),
    ] {
        let (status, body) = ask(&socket, Some(&token), operation, &arguments);
        assert_eq!(status, 403, "{operation}: {body}");
    }
    shop.cancel_jobs();
    until("the socket is gone", || !socket.exists());
}

#[test]
fn a_socket_in_a_deep_directory_works() {
    let shop = Shop::new();
    // Longer than the kernel allows for the path of a socket.
    let deep = shop.sandbox.path("d".repeat(90)).join("e".repeat(90));
    let config = format!("workspaces.path={}", deep.display());
    let script = format!("{} task done $WAYPOST_TASK --outcome built", env!("CARGO_BIN_EXE_way"));
    let args = ["--config", &config, "job", "start", "--task", "one", "--agent", "ann", "--", "sh", "-c", &script];
    let run = shop.way(&args);
    assert_eq!(run.code, 0, "{}", run.whole());
    assert_eq!(shop.way(&["task", "show", "one", "--json"]).data()["status"], "completed");
}
