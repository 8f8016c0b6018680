//! Workers: tasks become jobs, on one machine or on several.

use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use waypost_fs::{FileIdentity, remove_tree};
use waypost_testkit::{Run, postgres_url, until};

use crate::support::jobs::{Shop, is_alive, path};

const WAY: &str = env!("CARGO_BIN_EXE_way");

fn plan(shop: &Shop, plan: &Value) -> std::path::PathBuf {
    let file = shop.sandbox.path("plan.json");
    shop.sandbox.write(&file, plan.to_string());
    file
}

fn done() -> String {
    format!("{WAY} task done $WAYPOST_TASK --outcome \"$WAYPOST_AGENT\"")
}

fn spawn(mut command: Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn a_worker_runs_every_task_once_in_order_and_ends_when_nothing_is_left() {
    let shop = Shop::new();
    let tasks: Vec<_> = (0..8)
        .map(|number| {
            let before: Vec<String> = if number < 2 { vec![] } else { vec![format!("t{}", number - 2)] };
            json!({ "name": format!("t{number}"), "description": "Do it", "depends_on": before })
        })
        .collect();
    let file = plan(&shop, &json!({ "tasks": tasks }));
    let _ = shop.way(["workflow", "create", "w", "--plan", file.to_str().unwrap(), "--start"]).ok();
    let tally = shop.way(["worker", "--agent", "one", "-n", "3", "--until-empty", "--json", "--", "sh", "-c", &done()]);
    assert_eq!(tally.data(), json!({ "started": 8, "completed": 8, "failed": 0, "interrupted": 0 }));
    assert_eq!(shop.way(["workflow", "show", "w", "--json"]).data()["status"], "completed");
    let jobs = shop.way(["job", "list", "--json"]).data();
    let places: std::collections::BTreeSet<_> =
        jobs.as_array().unwrap().iter().map(|job| job["workspace_dir"].to_string()).collect();
    assert_eq!(places.len(), 8);
    // Records written from the workspaces name this repository.
    let known = shop.way(["repo", "list", "--json"]).data();
    assert_eq!(known.as_array().unwrap().len(), 1, "{known}");
    assert_eq!(known[0]["path"].as_str().unwrap(), shop.repo.to_str().unwrap());
    let kinds = shop.way(["events", "--kind", "repository.", "--json"]).data();
    assert_eq!(kinds.as_array().unwrap().len(), 1, "{kinds}");
}

#[test]
fn a_worker_takes_only_tasks_that_match_its_capabilities() {
    let shop = Shop::new();
    let file = plan(
        &shop,
        &json!({ "tasks": [
            { "name": "sql", "description": "x", "capabilities": ["sql"] }, { "name": "any", "description": "y" },
        ] }),
    );
    let _ = shop.way(["workflow", "create", "w", "--plan", file.to_str().unwrap(), "--start"]).ok();
    let _ = shop.way(["worker", "--agent", "plain", "--until-empty", "--", "sh", "-c", &done()]).ok();
    assert_eq!(shop.way(["task", "show", "sql", "--json"]).data()["status"], "pending");
    assert_eq!(shop.way(["task", "show", "any", "--json"]).data()["outcome"], "plain");
    let _ =
        shop.way(["worker", "--agent", "able", "--capability", "sql", "--until-empty", "--", "sh", "-c", &done()]).ok();
    assert_eq!(shop.way(["task", "show", "sql", "--json"]).data()["outcome"], "able");
}

#[test]
fn a_worker_that_is_stopped_releases_its_tasks_without_counting_an_attempt() {
    let shop = Shop::new();
    let file = plan(&shop, &json!({ "tasks": [{ "name": "long", "description": "x", "max_attempts": 1 }] }));
    let _ = shop.way(["workflow", "create", "w", "--plan", file.to_str().unwrap(), "--start"]).ok();
    let mark = shop.sandbox.path("runs");
    let mut command = shop.command();
    command.args(["worker", "--agent", "one", "--patience", "0s", "--json", "--", "sh", "-c"]);
    command.arg(format!("touch {}; sleep 600", mark.display()));
    let worker = spawn(command);
    until("the job runs", || mark.exists());
    kill_process(Pid::from_child(&worker), Signal::TERM).unwrap();
    let tally = Run::of(&worker.wait_with_output().unwrap()).ok().data();
    assert_eq!(tally, json!({ "started": 1, "completed": 0, "failed": 0, "interrupted": 1 }));
    let task = shop.way(["task", "show", "long", "--json"]).data();
    assert_eq!((&task["status"], &task["attempts"]), (&json!("pending"), &json!(0)), "{task}");
}

#[test]
fn a_killed_worker_loses_no_job_and_the_next_worker_of_its_name_counts_it() {
    let shop = Shop::new();
    let file = plan(
        &shop,
        &json!({ "tasks": [{ "name": "one", "description": "x" }, { "name": "two", "description": "y" }] }),
    );
    let _ = shop.way(["workflow", "create", "w", "--plan", file.to_str().unwrap(), "--start"]).ok();
    let (mark, go) = (shop.sandbox.path("runs"), shop.sandbox.path("go"));
    let script = format!("touch {}; while [ ! -e {} ]; do sleep 0.05; done; {}", mark.display(), go.display(), done());
    let start = || {
        let mut command = shop.command();
        command.args(["worker", "--agent", "one", "--until-empty", "--json", "--", "sh", "-c", &script]);
        spawn(command)
    };
    let mut worker = start();
    until("the job runs", || mark.exists());
    worker.kill().unwrap();
    worker.wait().unwrap();
    let next = start();
    // It may run one job at a time, and the earlier one still runs.
    assert_eq!(shop.way(["job", "list", "--live", "--json"]).data().as_array().unwrap().len(), 1);
    shop.sandbox.write(&go, "");
    let tally = Run::of(&next.wait_with_output().unwrap()).ok().data();
    assert_eq!(tally, json!({ "started": 1, "completed": 2, "failed": 0, "interrupted": 0 }));
    let jobs = shop.way(["job", "list", "--json"]).data();
    assert!(jobs.as_array().unwrap().iter().all(|job| job["status"] == "completed"), "{jobs}");
}

#[test]
fn p21_workers_on_two_machines_share_one_queue_and_a_job_runs_on_the_named_machine() {
    let shop = Shop::new();
    let store = postgres_url();
    // Another machine: its own home, and only the URL of the repository.
    let elsewhere = shop.sandbox.dir("elsewhere");
    let on = |home: &str, dir: &std::path::Path, args: &[&str]| {
        let mut command = shop.sandbox.way_command(dir);
        command
            .arg("--quiet")
            .env_remove("WAYPOST_TEST_CLOCK")
            .env("WAYPOST_HOME", shop.sandbox.path(home))
            .env("WAYPOST_DB", &store)
            .args(args);
        command
    };
    let here = |args: &[&str]| Run::of(&on("home/.waypost", &shop.repo, args).output().unwrap());
    let there = |args: &[&str]| Run::of(&on("other-home", &elsewhere, args).output().unwrap());
    let tasks: Vec<_> = (0..6).map(|number| json!({ "name": format!("t{number}"), "description": "x" })).collect();
    let file = plan(&shop, &json!({ "tasks": tasks }));
    let _ = here(&["workflow", "create", "w", "--plan", file.to_str().unwrap(), "--start"]).ok();
    let script = format!("cat file; {}", done());
    let work = |home: &str, dir: &std::path::Path, name: &str| {
        spawn(on(home, dir, &["worker", "--agent", name, "--until-empty", "--json", "--", "sh", "-c", &script]))
    };
    let (one, other) = (work("home/.waypost", &shop.repo, "one"), work("other-home", &elsewhere, "other"));
    let tallies = [one, other].map(|worker| Run::of(&worker.wait_with_output().unwrap()).ok().data());
    let completed: u64 = tallies.iter().map(|tally| tally["completed"].as_u64().unwrap()).sum();
    assert_eq!(completed, 6, "{tallies:?}");
    let jobs = here(&["job", "list", "--json"]).data();
    for job in jobs.as_array().unwrap() {
        assert_eq!(job["output"].as_str().unwrap().lines().next(), Some("one"), "{job}");
    }
    // A job for the other machine waits until a worker there takes it; its output arrives here.
    let _ = there(&["job", "start", "--strategy", "in-place", "--", "true"]);
    let machine = std::fs::read_to_string(shop.sandbox.path("other-home/machine")).unwrap();
    let job = here(&["job", "start", "--on", machine.trim(), "--json", "--", "sh", "-c", "pwd"]).data();
    let _ = here(&["worker", "--agent", "one", "--until-empty", "--", "false"]).ok();
    assert_eq!(here(&["job", "show", job["id"].as_str().unwrap(), "--json"]).data()["status"], "pending");
    let _ = there(&["worker", "--agent", "other", "--until-empty", "--", "false"]).ok();
    let ran = here(&["job", "show", job["id"].as_str().unwrap(), "--json"]).data();
    assert_eq!((&ran["status"], ran["machine"].as_str()), (&json!("completed"), Some(machine.trim())), "{ran}");
    assert!(ran["output"].as_str().unwrap().contains("/workspaces/jb_"), "{ran}");
}

#[test]
fn p21_commands_on_a_workspace_of_another_machine_name_it_and_change_nothing() {
    let shop = Shop::new();
    let store = postgres_url();
    let elsewhere = shop.sandbox.path("elsewhere");
    shop.sandbox.git(&shop.repo, ["clone", "--quiet", ".", elsewhere.to_str().unwrap()]);
    let on = |home: &str, dir: &std::path::Path, args: &[&str]| {
        let mut command = shop.sandbox.way_command(dir);
        command.env_remove("WAYPOST_TEST_CLOCK").env("WAYPOST_HOME", shop.sandbox.path(home));
        Run::of(&command.arg("--quiet").env("WAYPOST_DB", &store).args(args).output().unwrap())
    };
    let here = |args: &[&str]| on("home/.waypost", &shop.repo, args);
    let job = on("other-home", &elsewhere, &["job", "start", "--json", "--", "sh", "-c", "echo new > new"]).data();
    let machine = std::fs::read_to_string(shop.sandbox.path("other-home/machine")).unwrap();
    let (id, ws) = (job["id"].as_str().unwrap(), job["workspace_id"].as_str().unwrap());
    for args in [
        &["ws", "show", ws][..],
        &["ws", "diff", ws],
        &["ws", "snapshot", ws],
        &["ws", "rm", "--dry-run", ws],
        &["ws", "rm", "--force", ws],
        &["ws", "rm", "--discard", id],
        &["ws", "push", ws],
        &["ws", "land", ws],
        &["ws", "merged", ws],
        &["ws", "update", ws],
        &["ws", "enter", ws],
        &["job", "deliver", id],
        &["job", "start", "--workspace", ws, "--", "true"],
    ] {
        let run = here(args).fails(7);
        assert!(run.stderr.contains(&format!("is on the machine {}", machine.trim())), "{args:?}: {}", run.whole());
    }
    assert!(path(&job["workspace_dir"]).join("new").exists());
    let shown = on("other-home", &elsewhere, &["ws", "show", ws, "--json"]).data();
    assert!(shown.to_string().contains("\"status\":\"kept\""), "{shown}");
}

#[test]
fn the_exit_code_of_a_worker_tells_whether_work_failed() {
    let shop = Shop::new();
    let plan = |attempts: u32| json!({ "tasks": [{ "name": "build", "description": "Build it", "max_attempts": attempts, "backoff": "0s" }] });
    let _ = shop.way(["worker", "--agent", "one", "--until-empty", "--", "false"]).ok();
    shop.workflow(&plan(1));
    let run = shop.way(["worker", "--agent", "one", "--until-empty", "--", "false"]).fails(4);
    assert!(run.stderr.contains("1 task failed; way job list --status failed"), "{}", run.whole());
    // The second attempt makes the first one good.
    let shop = Shop::new();
    shop.workflow(&plan(2));
    let mark = shop.sandbox.path("mark");
    let script = format!("if [ -e {0} ]; then {1}; else touch {0}; exit 1; fi", mark.display(), done());
    let run = shop.way(["worker", "--agent", "one", "--until-empty", "--", "sh", "-c", &script]).ok();
    assert!(run.stdout.contains("2 started, 1 completed, 1 failed, 0 interrupted"), "{}", run.whole());
}

#[test]
fn a_worker_stops_when_its_input_ends_and_its_task_costs_no_attempt() {
    let shop = Shop::new();
    let file = plan(&shop, &json!({ "tasks": [{ "name": "long" }] }));
    let _ = shop.way(["workflow", "create", "w", "--plan", file.to_str().unwrap(), "--start"]).ok();
    let mut command = shop.command();
    command.args(["worker", "--agent", "one", "--stop-with-input", "--patience", "0s", "--json", "--", "sleep", "600"]);
    let mut worker = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let task = || shop.way(["task", "show", "long", "--json"]).data();
    until("the job runs, or is about to", || task()["status"] == "in_progress");
    drop(worker.stdin.take());
    let tally = Run::of(&worker.wait_with_output().unwrap()).data();
    assert_eq!(tally["interrupted"], 1, "{tally}");
    assert_eq!((&task()["status"], &task()["attempts"]), (&json!("pending"), &json!(0)));
}

#[test]
fn a_worker_and_its_job_end_when_everything_is_deleted_under_them() {
    let shop = Shop::new();
    let file = plan(&shop, &json!({ "tasks": [{ "name": "long" }] }));
    let _ = shop.way(["workflow", "create", "w", "--plan", file.to_str().unwrap(), "--start"]).ok();
    let mut command = shop.command();
    command.args(["worker", "--agent", "one", "--", "sleep", "600"]);
    let worker = spawn(command);
    let job = || shop.way(["job", "list", "--json"]).data()[0].clone();
    until("the job runs", || job()["status"] == "running" && !job()["supervisor"].is_null());
    let now = job();
    let supervisor = now["supervisor"]["pid"].to_string();
    for dir in [path(&now["workspace_dir"]).parent().unwrap(), &shop.repo.join(".git")] {
        remove_tree(dir, FileIdentity::of(dir).unwrap()).unwrap();
    }
    let ended = Run::of(&worker.wait_with_output().unwrap());
    assert_eq!(ended.code, 8, "{ended:?}");
    assert!(ended.stderr.contains("is gone: it was moved or deleted while it was in use"), "{ended:?}");
    until("the supervisor and the command have ended", || !is_alive(&supervisor));
}
