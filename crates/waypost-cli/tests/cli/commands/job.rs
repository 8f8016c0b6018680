//! Jobs: each in its own workspace, supervised, and recorded however it ends.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use waypost_fs::{FileIdentity, remove_tree};
use waypost_testkit::{Run, until};

use crate::support::jobs::{Shop, is_alive, path, pid_of, state_of};
use crate::support::{interruption, moment_ms};

const WAY: &str = env!("CARGO_BIN_EXE_way");

#[test]
fn p1_p2_p3_jobs_edit_the_same_file_each_in_its_own_tree_and_the_checkout_is_as_before() {
    let shop = Shop::new();
    shop.sandbox.git(&shop.repo, ["status"]);
    let before = state_of(&shop);
    let one = shop.job(&[], "pwd; echo first >> file; git commit --quiet -am Changed; git branch other");
    let other = shop.job(&[], "pwd; echo second >> file");
    assert_eq!([&one["status"], &other["status"]], ["completed", "completed"], "{one}");
    for job in [&one, &other] {
        assert_eq!(job["output"].as_str().unwrap(), job["workspace_dir"].as_str().unwrap());
    }
    assert_eq!(fs::read_to_string(path(&one["workspace_dir"]).join("file")).unwrap(), "one\nfirst\n");
    assert_eq!(fs::read_to_string(path(&other["workspace_dir"]).join("file")).unwrap(), "one\nsecond\n");
    assert_eq!(state_of(&shop), before);
    assert_eq!(shop.sandbox.git(&shop.repo, ["status", "--porcelain"]), "");
}

#[test]
fn exit_codes_of_jobs_are_those_of_a_shell_and_are_recorded() {
    let shop = Shop::new();
    let plain = shop.sandbox.path("plain");
    shop.sandbox.write(&plain, "no program");
    for (flags, command, code) in [
        (&[][..], &["sh", "-c", "exit 3"][..], 3),
        (&[], &["no-such-program"], 127),
        (&[], &[plain.to_str().unwrap()], 126),
        (&[], &["sh", "-c", "kill -KILL $$"], 137),
        (&[], &["sh", "-c", "kill -TERM $$"], 143),
        (&["--timeout", "1s"], &["sleep", "600"], 124),
    ] {
        let _ = shop.run(&[&["job", "start"], flags, &["--"], command].concat()).fails(code);
        let job = shop.way(["job", "list", "--json"]).data()[0].clone();
        assert_eq!(job["exit_code"], code, "{job}");
        let id = job["id"].as_str().unwrap();
        let shown = shop.way(["job", "show", id]).ok().stdout;
        assert!(shown.lines().any(|line| line.split_whitespace().eq(["exit", "code", &code.to_string()])), "{shown}");
        let waited = shop.way(["job", "wait", id]).fails(code);
        assert!(waited.stdout.contains(&format!("Job {id} is failed")), "{}", waited.whole());
    }
}

#[test]
fn a_failure_that_is_not_the_commands_has_a_code_that_commands_do_not_use() {
    let shop = Shop::new();
    shop.workflow(&json!({ "tasks": [{ "name": "build", "description": "Build it", "max_attempts": 9 }] }));
    let run = shop.run(&["job", "start", "--task", "build", "--", "true"]).fails(125);
    assert!(run.stderr.contains("is failed"), "its command did not finish the task: {}", run.whole());
    let _ = shop.run(&["--config", "workspaces.setup=exit 3", "job", "start", "--", "true"]).fails(125);
    // The job runs, but its output cannot be printed.
    let mut command = shop.command();
    command.args(["job", "start", "--", "echo", "hello"]);
    command.stdout(std::fs::File::options().write(true).open("/dev/full").unwrap());
    let run = Run::of(&command.output().unwrap()).fails(125);
    assert!(run.stderr.contains("cannot write to standard output"), "{}", run.whole());
    assert!(run.stderr.contains("hint: the job may still run: way job show jb_"), "{}", run.whole());
    // Without a job, nothing ran: the codes are the usual ones.
    let run = shop.way(["job", "start", "--base", "no-such-commit", "--", "true"]).fails(3);
    assert!(!run.stderr.contains("note: job"), "{}", run.whole());
    let run = shop.way(["job", "wait", "jb_000000000000"]).fails(3);
    assert_eq!(run.stdout, "");
}

#[test]
fn p2_twenty_jobs_leave_refs_index_and_configuration_of_the_checkout_as_they_were() {
    let shop = Shop::new();
    shop.sandbox.git(&shop.repo, ["status"]);
    let before = state_of(&shop);
    let start = |number: usize| {
        let script = format!(
            "echo {number} >> file; git commit --quiet -am {number}; git branch b{number}; git tag t{number}; \
            git config job.number {number}; git stash list"
        );
        let mut command = shop.command();
        command.args(["job", "start", "--json", "--", "sh", "-c", &script]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let jobs: Vec<_> = (0..20).map(start).collect();
    for job in jobs {
        let job = Run::of(&job.wait_with_output().unwrap()).data();
        assert_eq!(job["status"], "completed", "{job}");
        assert!(!path(&job["workspace_dir"]).starts_with(&shop.repo), "{job}");
    }
    assert_eq!(state_of(&shop), before);
    assert_eq!(shop.sandbox.git(&shop.repo, ["status", "--porcelain"]), "");
}

#[test]
fn p4_a_workspace_takes_precedence_over_a_repository_and_that_over_the_current_directory() {
    let shop = Shop::new();
    let other = shop.sandbox.git_repo("other");
    shop.sandbox.git(&other, ["commit", "--quiet", "--allow-empty", "-m", "Another"]);
    // Only a shared store can name another repository.
    let _ = shop.way(["job", "start", "--repo", other.to_str().unwrap(), "--", "true"]).fails(7);
    let here = shop.job(&["--global"], "git log --format=%s -1");
    assert_eq!((&here["repository"], &here["output"]), (&json!("repo"), &json!("First")));
    let there = shop.job(&["--global", "--repo", other.to_str().unwrap()], "git log --format=%s -1");
    assert_eq!((&there["repository"], &there["output"]), (&json!("other"), &json!("Another")));
    let left = here["workspace_id"].as_str().unwrap();
    let again = shop.job(&["--global", "--repo", other.to_str().unwrap(), "--workspace", left], "pwd");
    assert_eq!(again["output"], here["workspace_dir"]);
    // Without a repository there is no workspace, and nothing runs in the current directory.
    let nowhere = shop.sandbox.dir("nowhere");
    let store = shop.sandbox.path("state.db");
    let run = shop.sandbox.way(&nowhere, ["--db", store.to_str().unwrap(), "job", "start", "--", "touch", "ran"]);
    assert_ne!(run.code, 0, "{}", run.whole());
    assert!(!nowhere.join("ran").exists());
}

#[test]
fn p5_p13_the_input_and_directories_of_a_job_are_recorded() {
    let shop = Shop::new();
    let input = json!({
        "provider": "github", "owner": "acme", "repo": "rocket", "issue": 7, "criteria": ["it flies"], "nothing": null,
    });
    let flags = ["--input", &input.to_string(), "--type", "reviewer", "--description", "Look at it"];
    let job = shop.job(&flags, "cat \"$WAYPOST_CONTEXT_DIR/input.json\"");
    assert_eq!(serde_json::from_str::<Value>(job["output"].as_str().unwrap()).unwrap(), input);
    let known = shop.show(&job);
    for field in ["input", "type", "description", "work_dir", "workspace_dir", "context_dir", "log", "command"] {
        assert_eq!(known[field], job[field], "{field}");
    }
    assert_eq!(known["input"], input);
    assert_eq!(known["work_dir"].as_str().unwrap(), shop.repo.to_str().unwrap());
    assert!(known["token_hash"].is_null() && !shop.way(["events", "--json"]).ok().stdout.contains("wpj_"));
}

#[test]
fn p7_p8_a_workspace_is_kept_unless_its_removal_is_requested() {
    let shop = Shop::new();
    for (flags, script, is_there) in [
        (&[][..], "true", true),
        (&[], "exit 3", true),
        (&["--cleanup"], "true", false),
        (&["--cleanup"], "exit 3", false),
        (&["--config", "workspaces.cleanup_on_complete=true"], "true", false),
        (&["--config", "workspaces.cleanup_on_complete=true", "--keep"], "true", true),
        (&["--cleanup"], "echo work > new", true),
    ] {
        let job = shop.job(flags, script);
        assert_eq!(path(&job["workspace_dir"]).exists(), is_there, "{flags:?} {script}: {job}");
        let warnings = job["warnings"].as_array().unwrap();
        let is_left = script.contains("new") && warnings[0].as_str().unwrap().contains("not under version control");
        assert!(warnings.is_empty() || is_left, "{job}");
    }
}

#[test]
fn p12_a_workspace_that_cannot_be_removed_is_reported_and_does_not_fail_its_job() {
    let shop = Shop::new();
    fs::create_dir_all(shop.root()).unwrap();
    shop.sandbox.write(shop.root().join("trash"), "in the way");
    let job = shop.job(&["--cleanup"], "true");
    assert_eq!(job["status"], "completed");
    assert!(job["warnings"][0].as_str().unwrap().contains("cannot remove its workspace"), "{job}");
    let doctor = shop.way(["doctor"]).ok();
    assert!(doctor.stdout.contains("could not be removed"), "{}", doctor.stdout);
    fs::remove_file(shop.root().join("trash")).unwrap();
    let _ = shop.way(["ws", "rm", job["workspace_id"].as_str().unwrap()]).ok();
    assert!(!path(&job["workspace_dir"]).exists());
    assert!(!shop.way(["doctor"]).ok().stdout.contains("could not be removed"));
}

#[test]
fn p11_the_in_place_strategy_makes_and_removes_nothing() {
    let shop = Shop::new();
    let job = shop.job(&["--strategy", "in-place", "--cleanup"], "pwd; touch made");
    assert_eq!(job["output"].as_str().unwrap(), shop.repo.to_str().unwrap());
    assert!(job["workspace_id"].is_null() && shop.workspaces().is_empty());
    assert!(shop.repo.join("made").exists());
    // `ws new` is refused: it would make nothing, and nothing could be removed later.
    let refused = shop.way(["ws", "new", "--strategy", "in-place"]).fails(2);
    assert!(refused.stderr.contains("hint: way job start --strategy in-place -- COMMAND\n"), "{}", refused.whole());
    assert!(shop.workspaces().is_empty());
}

#[test]
fn p11_in_place_is_offered_to_jobs_and_not_where_it_is_refused() {
    let shop = Shop::new();
    for (command, is_offered) in [(&["ws", "new"][..], false), (&["job", "start"], true), (&["worker"], true)] {
        for rest in [&["--help"][..], &["--strategy", "nonsense"]] {
            let said = shop.run(&[command, rest].concat()).whole();
            assert!(said.contains("jj") && said.contains("overlay"), "{command:?}: {said}");
            assert_eq!(said.contains("in-place"), is_offered, "{command:?}: {said}");
        }
    }
}

#[test]
fn p16_a_job_whose_workspace_becomes_too_large_is_stopped_and_reports_it() {
    let shop = Shop::new();
    let job = shop.job(&["--size-limit", "3MB"], "head -c 8000000 /dev/zero > big; echo done; exec sleep 600");
    assert_eq!(job["status"], "failed");
    assert!(job["error"].as_str().unwrap().contains("the limit is 3.0 MB"), "{job}");
    let late = shop.job(&["--timeout", "1s"], "exec sleep 600");
    assert!(late["error"].as_str().unwrap().contains("longer than 1s"), "{late}");
}

#[test]
fn p23_a_workspace_is_named_after_its_job_and_removed_alone() {
    let shop = Shop::new();
    let (one, other) = (shop.job(&[], "true"), shop.job(&[], "true"));
    assert!(one["workspace_dir"].as_str().unwrap().contains(one["id"].as_str().unwrap()));
    let _ = shop.way(["ws", "rm", one["id"].as_str().unwrap()]).ok();
    assert!(!path(&one["workspace_dir"]).exists() && path(&other["workspace_dir"]).join("file").exists());
    let _ = shop.way(["ws", "rm", one["id"].as_str().unwrap()]).fails(4);
}

#[test]
fn p24_a_workspace_that_cannot_be_set_up_fails_the_job_before_anything_runs() {
    let shop = Shop::new();
    let (flags, why) =
        (&["--config", "workspaces.setup=echo broken; exit 3"][..], "setup command ended with exit code 3");
    let script = format!("touch {}", shop.sandbox.path("ran").display());
    let job = shop.job(flags, &script);
    assert_eq!(job["status"], "failed", "{job}");
    assert!(job["error"].as_str().unwrap().contains(why), "{job}");
    assert!(job["process"].is_null() && !shop.sandbox.path("ran").exists());
    assert!(!shop.root().join(job["id"].as_str().unwrap()).exists());
    let args = [&["job", "start"], flags, &["--", "true"]].concat();
    let run = shop.run(&args).fails(125);
    assert!(run.stderr.contains(why), "{}", run.whole());
    // A detached job is recorded at once as well.
    let args = [&["job", "start", "--detach"], flags, &["--", "true"]].concat();
    let run = shop.run(&args).fails(4);
    assert!(run.stderr.contains(why), "{}", run.whole());
    assert_eq!(shop.workspaces(), Vec::<Value>::new());
}

#[test]
fn a_job_whose_settings_are_wrong_is_refused_before_it_is_recorded_or_claims_its_task() {
    let shop = Shop::new();
    shop.workflow(&json!({ "tasks": [{ "name": "build", "description": "Build it", "max_attempts": 1 }] }));
    for (flags, code, why) in [
        (&["--base", "no-such-commit"][..], 3, "no-such-commit"),
        (&["--strategy", "jj"], 7, "jj"),
        (&["--branch", "not a branch"], 2, "not a branch"),
        (&["--workspace", "ws_000000000000"], 3, "ws_000000000000"),
    ] {
        for detach in [&[][..], &["--detach"]] {
            let args = [&["job", "start", "--task", "build"], flags, detach, &["--", "true"]].concat();
            let run = shop.run(&args).fails(code);
            assert!(run.stderr.contains(why), "{}", run.whole());
        }
    }
    let _ = shop.way(["worker", "--base", "no-such-commit", "--until-empty", "--", "true"]).fails(3);
    assert_eq!(shop.way(["job", "list", "--json"]).data(), json!([]));
    let task = shop.way(["task", "show", "build", "--json"]).data();
    assert_eq!((&task["status"], &task["attempts"], &task["holder"]), (&json!("pending"), &json!(0), &Value::Null));
}

#[test]
fn an_attempt_whose_command_never_started_is_not_counted() {
    let shop = Shop::new();
    shop.workflow(&json!({ "tasks": [{ "name": "build", "description": "Build it", "max_attempts": 1 }] }));
    let is_free = |case: &str| {
        let task = shop.way(["task", "show", "build", "--json"]).data();
        assert_eq!((&task["status"], &task["attempts"]), (&json!("pending"), &json!(0)), "{case}: {task}");
    };
    let plain = shop.sandbox.path("plain");
    shop.sandbox.write(&plain, "no program");
    for (program, code) in [("no-such-program", 127), (plain.to_str().unwrap(), 126)] {
        let run = shop.run(&["job", "start", "--task", "build", "--", program]).fails(code);
        assert!(run.stderr.contains(program), "{}", run.whole());
        is_free(program);
    }
    let setup = "workspaces.setup=exit 3";
    let _ = shop.run(&["--config", setup, "job", "start", "--task", "build", "--", "true"]).fails(125);
    is_free("set-up");
    // A worker neither wears out the task nor tries for ever.
    let run = shop.way(["worker", "--until-empty", "--", "no-such-program"]).fails(3);
    assert!(run.stderr.contains("no-such-program"), "{}", run.whole());
    is_free("worker without a program");
    let run = shop.run(&["--config", setup, "worker", "--until-empty", "--", "true"]).fails(8);
    assert!(run.stderr.contains("setup command"), "{}", run.whole());
    is_free("worker without a set-up");
    // One that starts is counted.
    let _ = shop.run(&["job", "start", "--task", "build", "--", "false"]).fails(1);
    assert_eq!(shop.way(["task", "show", "build", "--json"]).data()["attempts"], 1);
}

#[test]
fn a_second_job_on_a_task_is_refused_and_leaves_the_lease_of_the_first() {
    let shop = Shop::new();
    shop.workflow(&json!({ "tasks": [{ "name": "build", "description": "Build it", "max_attempts": 1 }] }));
    let go = shop.sandbox.path("go");
    let script =
        format!("until [ -e {} ]; do sleep 0.1; done; {WAY} task done $WAYPOST_TASK --outcome first", go.display());
    let first = shop.started(&["--task", "build", "--agent", "ann"], &script);
    let id = first["id"].as_str().unwrap();
    for flags in [&[][..], &["--detach"], &["--queue"]] {
        let args = [&["job", "start", "--task", "build", "--agent", "ann"], flags, &["--", "true"]].concat();
        let run = shop.run(&args).fails(4);
        assert!(run.stderr.contains(id), "{}", run.whole());
    }
    let task = shop.way(["task", "show", "build", "--json"]).data();
    assert_eq!((&task["status"], &task["epoch"]), (&json!("in_progress"), &first["epoch"]), "{task}");
    assert_eq!(shop.way(["job", "list", "--json"]).data().as_array().unwrap().len(), 1);
    shop.sandbox.write(&go, "");
    until("the first job ends", || shop.show(&first)["status"] == "completed");
    assert_eq!(shop.way(["task", "show", "build", "--json"]).data()["outcome"], "first");
}

#[test]
fn a_command_of_the_repository_runs_only_once_it_is_trusted() {
    let shop = Shop::new();
    fs::create_dir(shop.repo.join(".waypost")).unwrap();
    shop.sandbox.write(shop.repo.join(".waypost/config.toml"), "[workspaces]\nsetup = \"touch set-up\"\n");
    let refused = shop.job(&[], "true");
    assert!(refused["error"].as_str().unwrap().contains("not trusted"), "{refused}");
    let _ = shop.way(["ws", "trust"]).ok();
    assert!(path(&shop.job(&[], "true")["workspace_dir"]).join("set-up").exists());
    shop.sandbox.write(shop.repo.join(".waypost/config.toml"), "[workspaces]\nsetup = \"touch set-up ; id\"\n");
    assert_eq!(shop.job(&[], "true")["status"], "failed");
    shop.sandbox.write(shop.repo.join(".env"), "SECRET=1");
    shop.sandbox.write(shop.repo.join(".waypost/config.toml"), "[workspaces]\ninclude = [\".env\"]\n");
    let job = shop.job(&[], "cat .env");
    assert_eq!(job["output"], "SECRET=1");
}

#[test]
fn p25_cancelling_ends_every_process_of_a_job_and_it_stays_cancelled() {
    let shop = Shop::new();
    let pids = shop.sandbox.path("pids");
    // One process ignores the signal, one has left the process group and the terminal.
    let script = format!(
        "trap '' TERM; echo $$ >> {0}; setsid sh -c 'trap \"\" TERM; echo $$ >> {0}; exec sleep 600' & \
        while :; do sleep 1; done",
        pids.display()
    );
    let job = shop.started(&[], &script);
    until("both run", || fs::read_to_string(&pids).unwrap_or_default().lines().count() == 2);
    let cancelled = shop.way(["job", "cancel", "--json", "--reason", "enough", job["id"].as_str().unwrap()]).data();
    assert_eq!(cancelled["status"], "cancelled");
    for pid in fs::read_to_string(&pids).unwrap().lines() {
        assert!(!is_alive(pid), "{pid} is left");
    }
    let known = shop.show(&job);
    assert_eq!((&known["status"], &known["error"]), (&json!("cancelled"), &Value::Null));
    // By default a job has three seconds to end by itself.
    let took = moment_ms(&known["finished_at"]) - moment_ms(&known["cancelled_at"]);
    assert!((0..=5000).contains(&took), "it took {took} ms");
    assert!(known["phases"].as_array().unwrap().iter().any(|phase| phase["detail"] == "enough"), "{known}");
    let _ = shop.way(["job", "cancel", job["id"].as_str().unwrap()]).fails(4);
    assert!(path(&job["workspace_dir"]).exists());
    let _ = shop.way(["job", "wait", job["id"].as_str().unwrap()]).fails(130);
}

#[test]
fn p26_processes_of_a_job_whose_supervisor_was_killed_are_ended_and_its_workspace_is_listed() {
    let shop = Shop::new();
    shop.workflow(&json!({ "tasks": [{ "name": "build", "description": "Build it", "max_attempts": 3 }] }));
    let pids = shop.sandbox.path("pids");
    let script = format!("echo $$ >> {0}; setsid sh -c 'echo $$ >> {0}; exec sleep 600' & sleep 600", pids.display());
    let job = shop.started(&["--task", "build", "--agent", "builder"], &script);
    until("both run", || fs::read_to_string(&pids).unwrap_or_default().lines().count() == 2);
    kill_process(pid_of(&job["supervisor"]), Signal::KILL).unwrap();
    until("its death is noticed", || shop.show(&job)["status"] == "interrupted");
    for pid in fs::read_to_string(&pids).unwrap().lines() {
        assert!(!is_alive(pid), "{pid} is left");
    }
    let all = shop.workspaces();
    assert_eq!((all.len(), &all[0]["status"]), (1, &json!("kept")));
    // Another agent continues the task in the workspace as it was left.
    let task = shop.way(["task", "show", "build", "--json"]).data();
    assert_eq!((&task["status"], &task["attempts"]), (&json!("pending"), &json!(1)));
    let way = env!("CARGO_BIN_EXE_way");
    let done = format!("{way} task done $WAYPOST_TASK --outcome ok");
    let again =
        shop.job(&["--task", "build", "--agent", "other", "--workspace", all[0]["id"].as_str().unwrap()], &done);
    assert_eq!((&again["status"], &again["workspace_dir"]), (&json!("completed"), &job["workspace_dir"]));
}

#[test]
fn the_exit_of_a_command_decides_the_status_of_its_task() {
    let shop = Shop::new();
    let way = env!("CARGO_BIN_EXE_way");
    let names = ["done", "silent", "broken", "asks", "gives-up", "cancelled"];
    let tasks: Vec<_> =
        names.iter().map(|name| json!({ "name": name, "description": name, "max_attempts": 1 })).collect();
    shop.workflow(&json!({ "tasks": tasks }));
    for (task, script, job_status, task_status) in [
        ("done", format!("{way} task done $WAYPOST_TASK --outcome fine"), "completed", "completed"),
        ("silent", "true".to_owned(), "failed", "dead"),
        ("broken", "exit 7".to_owned(), "failed", "dead"),
        ("asks", format!("{way} task ask $WAYPOST_TASK --question 'Which one?'"), "completed", "waiting_input"),
        ("gives-up", format!("{way} task fail $WAYPOST_TASK --error 'no way'"), "failed", "dead"),
    ] {
        let job = shop.job(&["--task", task, "--agent", "me"], &script);
        assert_eq!(job["status"], job_status, "{job}");
        let shown = shop.way(["task", "show", task, "--json"]).data();
        assert_eq!(shown["status"], task_status, "{task}: {shown}");
        assert_eq!(shown["workspace_id"], job["workspace_id"]);
    }
    let job = shop.started(&["--task", "cancelled", "--agent", "me"], "sleep 600");
    let _ = shop.way(["job", "cancel", job["id"].as_str().unwrap()]).ok();
    assert_eq!(shop.way(["task", "show", "cancelled", "--json"]).data()["status"], "paused");
}

#[test]
fn a_job_that_lost_its_lease_is_stopped_and_writes_nothing_under_the_next_one() {
    let shop = Shop::new();
    shop.workflow(&json!({ "tasks": [{ "name": "build", "description": "Build it" }] }));
    let way = env!("CARGO_BIN_EXE_way");
    let go = shop.sandbox.path("go");
    let script = format!(
        "trap '' TERM; while [ ! -e {} ]; do sleep 0.1; done; {way} task done $WAYPOST_TASK --outcome stale; echo said $?",
        go.display()
    );
    let job = shop.started(&["--config", "jobs.grace=30s", "--task", "build", "--agent", "me"], &script);
    // The same agent claims the task again: only the epoch distinguishes the leases.
    let _ = shop.way(["task", "release", "build", "--force"]).ok();
    let _ = shop.way(["task", "claim", "build", "--agent", "me"]).ok();
    shop.sandbox.write(&go, "");
    let _ = shop.way(["job", "wait", job["id"].as_str().unwrap()]).fails(130);
    let known = shop.show(&job);
    assert_eq!(known["status"], "cancelled");
    let log = shop.way(["job", "logs", job["id"].as_str().unwrap()]).ok().stdout;
    assert!(log.contains("said 5"), "{log}");
    assert_eq!(shop.way(["task", "show", "build", "--json"]).data()["status"], "in_progress");
}

#[test]
fn p32_the_phases_and_notes_of_a_job_outlive_its_workspace() {
    let shop = Shop::new();
    let way = env!("CARGO_BIN_EXE_way");
    let script = format!(
        "{way} job note --phase compiling --detail 'all of it' --tokens 1200 --cost 0.5; \
        echo thought > $WAYPOST_CONTEXT_DIR/notes/thoughts; {way} job note --output 'It compiles'; echo printed"
    );
    let job = shop.job(&["--cleanup"], &script);
    assert!(!path(&job["workspace_dir"]).exists(), "{job}");
    let known = shop.show(&job);
    let phases: Vec<_> =
        known["phases"].as_array().unwrap().iter().map(|phase| phase["name"].as_str().unwrap()).collect();
    assert_eq!(phases, ["pending", "preparing", "prepared", "running", "compiling", "completed"]);
    assert_eq!(
        (&known["tokens"], &known["cost"], &known["output"]),
        (&json!(1200), &json!(0.5), &json!("It compiles"))
    );
    assert!(shop.way(["job", "logs", job["id"].as_str().unwrap()]).ok().stdout.contains("printed"));
    let kept = shop.root().join("jobs").join(job["id"].as_str().unwrap()).join("context/notes/thoughts");
    assert_eq!(fs::read_to_string(kept).unwrap(), "thought\n");
}

#[test]
fn t31_a_job_gets_only_the_environment_it_needs_and_was_given() {
    let shop = Shop::new();
    let mut command = shop.command();
    command.env("SECRET_KEY", "hidden").env("API_URL", "given").env("LC_ALL", "C");
    command.args(["job", "start", "--env", "API_URL", "--", "sh", "-c", "env; echo ${WAYPOST_TOKEN%%_*}"]);
    let run = Run::of(&command.output().unwrap()).ok();
    assert!(!run.stdout.contains("hidden") && run.stdout.contains("API_URL=given"), "{}", run.stdout);
    // The token is redacted in the output.
    let token = ["WAYPOST_TOKEN=[redacted]", "\nwpj"];
    for name in ["WAYPOST_JOB=jb_", "WAYPOST_WORKSPACE=/", "WAYPOST_CONTEXT_DIR=/", "LC_ALL=C"].iter().chain(&token) {
        assert!(run.stdout.contains(name), "{name}: {}", run.stdout);
    }
}

#[test]
fn a_process_that_only_names_a_job_survives_it() {
    let shop = Shop::new();
    let mark = shop.sandbox.path("runs");
    let script = format!("setsid sleep 600 & echo $! > {0}.new; mv {0}.new {0}; wait", mark.display());
    for is_orphaned in [false, true] {
        let job = shop.way(["job", "start", "--detach", "--json", "--", "sh", "-c", &script]).data();
        until("the job runs", || mark.exists());
        let own = fs::read_to_string(&mark).unwrap();
        fs::remove_file(&mark).unwrap();
        let mut foreign = Command::new("sleep");
        let mut foreign = foreign.arg("600").env("WAYPOST_JOB", job["id"].as_str().unwrap()).spawn().unwrap();
        if is_orphaned {
            kill_process(pid_of(&shop.show(&job)["supervisor"]), Signal::KILL).unwrap();
        } else {
            let _ = shop.way(["job", "cancel", job["id"].as_str().unwrap()]).ok();
        }
        until("the job ended", || !["pending", "running"].contains(&shop.show(&job)["status"].as_str().unwrap()));
        until("its own process ended", || !is_alive(&own));
        assert!(foreign.try_wait().unwrap().is_none(), "a signal reached a process that is not of the job");
        foreign.kill().unwrap();
        foreign.wait().unwrap();
    }
}

#[test]
fn a_flood_of_output_is_kept_within_bounds() {
    let shop = Shop::new();
    let script = format!(
        "i=0; while [ $i -lt 40 ]; do head -c 1000000 /dev/zero | tr '\\0' x; i=$((i+1)); done; echo; echo end; \
        touch {0}.all; until [ -e {0} ]; do sleep 0.1; done",
        shop.sandbox.path("go").display()
    );
    let job = shop.started(&["--config", "jobs.log_limit=1MB"], &script);
    until("all is printed", || shop.sandbox.path("go.all").exists());
    let pid = pid_of(&shop.show(&job)["supervisor"]).as_raw_nonzero();
    let memory = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let peak = memory.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")).unwrap();
    assert!(peak.parse::<u32>().unwrap() < 64 * 1024, "the supervisor took {peak} kB");
    shop.sandbox.write("go", "");
    until("it ended", || shop.show(&job)["status"] == "completed");
    let job = shop.show(&job);
    let log = shop.way(["job", "logs", job["id"].as_str().unwrap()]).ok().stdout;
    assert!(log.trim_end().ends_with("end"), "{log}");
    let dir = path(&job["log"]).parent().unwrap();
    let kept: u64 = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum();
    assert!(kept < 2_000_000, "{kept}");
}

#[test]
fn interrupting_the_terminal_cancels_its_job_and_killing_it_does_not() {
    let shop = Shop::new();
    let latest = || shop.way(["job", "list", "--json"]).data()[0].clone();
    let start = |name: &str| {
        let mark = shop.sandbox.path(name);
        let mut command = shop.command();
        command.args(["job", "start", "--", "sh", "-c"]).arg(format!("touch {}; sleep 600", mark.display()));
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        until("it runs", || mark.exists() && latest()["status"] == "running");
        child
    };
    let mut child = start("one");
    kill_process(Pid::from_child(&child), interruption()).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(latest()["status"], "cancelled");
    let mut child = start("other");
    child.kill().unwrap();
    child.wait().unwrap();
    let job = latest();
    assert_eq!(job["status"], "running");
    let _ = shop.way(["job", "cancel", job["id"].as_str().unwrap()]).ok();
}

#[test]
fn a_job_ends_as_its_command_does_and_can_be_run_again() {
    let shop = Shop::new();
    let run = shop.way(["job", "start", "--", "sh", "-c", "echo out; echo err >&2; exit 7"]).fails(7);
    assert!(run.stdout.contains("out\n") && run.stdout.contains("err\n"), "{}", run.whole());
    assert!(run.stderr.contains("its command ended with exit code 7"), "{}", run.whole());
    let _ = shop.way(["job", "start", "--", "no-such-program"]).fails(127);
    let failed = shop.way(["job", "list", "--status", "failed", "--json"]).data()[1].clone();
    let again = shop.way(["job", "retry", failed["id"].as_str().unwrap(), "--same-workspace", "--json"]);
    let again: Value = serde_json::from_str(&again.stdout).unwrap();
    assert_eq!(again["data"]["retry_of"], failed["id"]);
    assert_eq!(again["data"]["workspace_dir"], failed["workspace_dir"]);
    assert_eq!(again["data"]["exit_code"], 7);
}

#[test]
fn p2_twenty_jobs_at_once_all_succeed_while_the_checkout_is_worked_in() {
    let shop = Shop::new();
    let _ = shop.way(["status"]).ok();
    let start = || {
        let mut command = shop.command();
        command.args(["job", "start", "--json", "--", "sh", "-c", "echo $WAYPOST_JOB > mine; git add mine"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let children: Vec<_> = (0..20).map(|_| start()).collect();
    for number in 0..20 {
        shop.sandbox.write(shop.repo.join("file"), format!("{number}\n"));
        shop.sandbox.git(&shop.repo, ["commit", "--quiet", "-am", "More"]);
        shop.sandbox.git(&shop.repo, ["gc", "--quiet", "--prune=now"]);
    }
    let mut places = std::collections::BTreeSet::new();
    for child in children {
        let run = Run::of(&child.wait_with_output().unwrap()).ok();
        let job = run.data();
        assert_eq!(job["status"], "completed", "{job}");
        let mine = fs::read_to_string(path(&job["workspace_dir"]).join("mine")).unwrap();
        assert_eq!(mine.trim(), job["id"].as_str().unwrap());
        // Objects that the checkout dropped are still available to the job.
        shop.sandbox.git(path(&job["workspace_dir"]), ["fsck", "--connectivity-only"]);
        places.insert(job["workspace_dir"].to_string());
    }
    assert_eq!(places.len(), 20);
    assert_eq!(shop.sandbox.git(&shop.repo, ["rev-list", "--count", "HEAD"]).trim(), "22");
    assert_eq!(shop.sandbox.git(&shop.repo, ["for-each-ref", "refs/waypost", "refs/heads/waypost"]), "");
}

#[test]
fn p26_after_a_kill_at_any_moment_every_workspace_is_listed_and_a_retry_works() {
    let shop = Shop::new();
    let _ = shop.way(["job", "start", "--", "true"]).ok();
    let mut random = 7_u64;
    for round in 0..15 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mut command = shop.command();
        command.args(["job", "start", "--detach", "--", "sh", "-c", "echo work > new; sleep 600"]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let end = Instant::now() + Duration::from_micros(random >> 33 & 0x3_ffff);
        while Instant::now() < end {
            std::thread::yield_now();
        }
        // Kill the command that started it and its supervisor at the same time.
        let _ = child.kill();
        let _ = Command::new("pkill").args(["-KILL", "-f", "--"]).arg(shop.supervisors()).status();
        child.wait().unwrap();
        until("nothing of it is left", || {
            shop.way(["job", "list", "--live", "--json"]).data().as_array().unwrap().is_empty()
        });
        let listed: Vec<_> = shop.workspaces().iter().map(|one| path(&one["path"]).to_owned()).collect();
        for entry in fs::read_dir(shop.root()).unwrap() {
            let entry = entry.unwrap().path();
            let name = entry.file_name().unwrap().to_str().unwrap();
            let is_known = ["jobs", "trash", "pool"].contains(&name) || listed.contains(&entry.join("workspace"));
            assert!(is_known, "round {round}: {} is listed nowhere", entry.display());
        }
    }
    assert_eq!(shop.job(&[], "true")["status"], "completed");
    assert_eq!(shop.sandbox.git(&shop.repo, ["status", "--porcelain"]), "");
}

/// A checkout with a changed, a staged, a deleted, a new and an ignored file.
fn dirty() -> Shop {
    let shop = Shop::new();
    for name in ["staged", "deleted"] {
        shop.sandbox.write(shop.repo.join(name), "old\n");
    }
    shop.sandbox.git(&shop.repo, ["add", "."]);
    shop.sandbox.git(&shop.repo, ["commit", "--quiet", "-m", "More"]);
    let _ = shop.way(["add", "An issue"]).ok();
    shop.sandbox.git(&shop.repo, ["add", "."]);
    shop.sandbox.git(&shop.repo, ["commit", "--quiet", "-m", "Ledger"]);
    let _ = shop.way(["add", "Another issue"]).ok();
    for name in ["file", "staged", "new", "ignored"] {
        shop.sandbox.write(shop.repo.join(name), "changed\n");
    }
    shop.sandbox.git(&shop.repo, ["add", "staged"]);
    fs::remove_file(shop.repo.join("deleted")).unwrap();
    shop
}

#[test]
fn a_job_in_a_dirty_checkout_works_on_its_head_and_says_so() {
    let shop = dirty();
    let run = shop.way(["job", "start", "--json", "--", "sh", "-c", "git status --porcelain"]).ok();
    let head = shop.sandbox.git(&shop.repo, ["rev-parse", "--short=12", "HEAD"]);
    let answer: Value = serde_json::from_str(&run.stdout).unwrap();
    let expected = format!(
        "this works on HEAD ({}), without the uncommitted changes of 4 files; --include-changes takes them along",
        head.trim()
    );
    assert_eq!(answer["warnings"], json!([expected]));
    assert_eq!(fs::read_to_string(path(&answer["data"]["workspace_dir"]).join("file")).unwrap(), "one\n");
    // Nothing to say about a clean checkout, about one's own ledger, or if the job runs in the checkout.
    let quiet = shop.way(["job", "start", "--strategy", "in-place", "--", "true"]).ok();
    assert_eq!(quiet.stderr, "");
    shop.sandbox.git(&shop.repo, ["add", "file", "staged", "deleted", "new"]);
    shop.sandbox.git(&shop.repo, ["commit", "--quiet", "-m", "Clean"]);
    assert_eq!(shop.way(["job", "start", "--", "true"]).ok().stderr, "");
}

#[test]
fn a_job_includes_the_uncommitted_changes_of_the_checkout_on_request() {
    let shop = dirty();
    let before = state_of(&shop);
    for strategy in ["clone", "worktree"] {
        let flags = ["--include-changes", "--strategy", strategy];
        let job = shop.job(&flags, "git status --porcelain; cat file staged new");
        assert_eq!(job["status"], "completed", "{job}");
        let log = shop.way(["job", "logs", job["id"].as_str().unwrap()]).ok().stdout;
        assert_eq!(log, " D deleted\n M file\n M staged\n?? new\nchanged\nchanged\nchanged\n", "{strategy}");
        assert!(
            job["started_from"].as_str().unwrap().ends_with("with the uncommitted changes of the checkout"),
            "{job}"
        );
        let refs =
            shop.sandbox.git(&shop.repo, ["for-each-ref", "--format=%(refname)", "refs/heads/main", "refs/waypost"]);
        assert_eq!(refs, "refs/heads/main\n");
    }
    assert_eq!(state_of(&shop)[1..], before[1..]);
    let refused = shop.way(["job", "start", "--include-changes", "--base", "main~1", "--", "true"]).fails(2).stderr;
    assert!(
        refused.contains("cannot include the uncommitted changes of the checkout: the job starts from main~1"),
        "{refused}"
    );
    let _ = shop.way(["job", "start", "--include-changes", "--queue", "--", "true"]).fails(2);
}

#[test]
fn jobs_of_a_withdrawn_task_end_at_once() {
    let shop = Shop::new();
    let names = ["released", "skipped", "retired", "one", "other"];
    let tasks: Vec<_> = names.iter().map(|name| json!({ "name": name, "description": "x" })).collect();
    shop.workflow(&json!({ "tasks": tasks }));
    let jobs = names.map(|name| shop.started(&["--task", name, "--agent", name], "sleep 600"));
    let end_of = |job: &Value, reason: &str| {
        until("the job ended", || shop.show(job)["status"] != "running");
        let ended = shop.show(job);
        assert_eq!(ended["status"], "cancelled", "{ended}");
        assert!(ended["phases"].to_string().contains(reason), "{ended}");
        assert!(!is_alive(&ended["process"]["pid"].to_string()));
    };
    let _ = shop.way(["task", "release", "released", "--force"]).ok();
    end_of(&jobs[0], "task released was released");
    let _ = shop.way(["task", "skip", "skipped"]).ok();
    end_of(&jobs[1], "task skipped was skipped");
    let _ = shop.way(["agent", "retire", "retired"]).ok();
    end_of(&jobs[2], "task retired was released");
    let _ = shop.way(["workflow", "cancel", "w"]).ok();
    end_of(&jobs[3], "task one was cancelled");
    end_of(&jobs[4], "task other was cancelled");
}

#[test]
fn a_job_that_gives_up_its_own_task_may_go_on() {
    let shop = Shop::new();
    shop.workflow(
        &json!({ "tasks": [{ "name": "long", "description": "x" }, { "name": "next", "description": "y" }] }),
    );
    let script = format!("{WAY} task skip long; sleep 1.5; echo went on");
    let job = shop.job(&["--task", "long", "--agent", "ann"], &script);
    assert_eq!(job["status"], "completed", "{job}");
    assert!(job["output"].as_str().unwrap().ends_with("went on"), "{job}");
}

#[test]
fn a_job_whose_repository_is_deleted_ends_and_its_workspace_stays() {
    let shop = Shop::new();
    let jobs = ["sleep 600", "trap 'exit 0' TERM; sleep 600"].map(|script| shop.started(&[], script));
    let jobs = jobs.map(|job| {
        until("the job runs", || !shop.show(&job)["process"].is_null());
        shop.show(&job)
    });
    remove_tree(&shop.repo, FileIdentity::of(&shop.repo).unwrap()).unwrap();
    for job in jobs {
        let (supervisor, process) = (job["supervisor"]["pid"].to_string(), job["process"]["pid"].to_string());
        until("the supervisor and the command have ended", || !is_alive(&supervisor) && !is_alive(&process));
        assert!(path(&job["workspace_dir"]).join("file").exists());
    }
}

#[test]
fn a_supervisor_that_is_told_to_stop_ends_although_its_store_is_gone() {
    let shop = Shop::new();
    let job = shop.started(&[], "sleep 600");
    until("the job runs", || !shop.show(&job)["process"].is_null());
    let job = shop.show(&job);
    fs::rename(shop.repo.join(".git/waypost"), shop.repo.join("away")).unwrap();
    kill_process(pid_of(&job["supervisor"]), Signal::TERM).unwrap();
    let (supervisor, process) = (job["supervisor"]["pid"].to_string(), job["process"]["pid"].to_string());
    until("the supervisor and the command have ended", || !is_alive(&supervisor) && !is_alive(&process));
    fs::rename(shop.repo.join("away"), shop.repo.join(".git/waypost")).unwrap();
    assert_eq!(shop.show(&job)["status"], "interrupted");
}

#[test]
fn a_job_whose_log_was_deleted_has_no_empty_log() {
    let shop = Shop::new();
    let job = shop.job(&[], "echo said");
    let id = job["id"].as_str().unwrap();
    assert_eq!(shop.way(["job", "logs", id]).ok().stdout, "said\n");
    fs::remove_file(path(&job["log"])).unwrap();
    for args in [&["job", "logs", id][..], &["job", "logs", id, "--follow"], &["job", "logs", id, "--json"]] {
        let run = shop.run(args).fails(3);
        assert!(run.whole().contains(&format!("the output of job {id} was deleted")), "{}", run.whole());
    }
    assert!(shop.way(["job", "show", id]).ok().stdout.contains("said"));
}

#[test]
fn a_job_says_so_if_later_tasks_do_not_get_its_work() {
    let shop = Shop::new();
    let names = ["copied", "clean", "edited"];
    let tasks: Vec<_> = names.iter().map(|name| json!({ "name": name, "description": "x" })).collect();
    shop.workflow(&json!({ "tasks": tasks }));
    let done = format!("{WAY} task done $WAYPOST_TASK --outcome built");
    let run = |name: &str, strategy: &str, script: &str| {
        let job = shop.job(&["--task", name, "--strategy", strategy], &format!("{script}; {done}"));
        assert_eq!(job["status"], "completed", "{job}");
        (job["warnings"].to_string(), format!("the work of task {name} is in {} alone", shop.repo.display()))
    };
    assert!(run("copied", "copy", "echo new > new").0.contains("the work of task copied is in "));
    let (warnings, said) = run("clean", "in-place", "true");
    assert!(!warnings.contains(&said), "{warnings}");
    let (warnings, said) = run("edited", "in-place", "echo new > new");
    assert!(warnings.contains(&said), "{warnings}");
}
