//! `way demo`.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::Signal;
use serde_json::Value;
use waypost_testkit::{Run, Sandbox, processes_in, until};

use crate::serving::Server;
use crate::support::sandbox;

/// Returns a command of the demo, whose directory is made in `dir`. The demo uses the real clock: its jobs do.
fn demo(sandbox: &Sandbox, dir: &Path, args: &[&str]) -> Command {
    let mut command = sandbox.way_command(dir);
    command.env_remove("WAYPOST_TEST_CLOCK").env("TMPDIR", dir).arg("demo").args(args);
    command
}

/// Runs a command in a repository that the demo kept, with the home directory of the demo.
fn kept(sandbox: &Sandbox, dir: &Path, repo: &str, program: &OsStr, args: &[&str]) -> Run {
    let mut command = sandbox.command(program, &dir.join(repo));
    command.env("HOME", dir.join("home")).env_remove("WAYPOST_HOME").env_remove("WAYPOST_TEST_CLOCK").args(args);
    Run::of(&command.output().unwrap())
}

/// Returns the directory that the demo made in a directory.
fn scratch(dir: &Path) -> PathBuf {
    let entries: Vec<PathBuf> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(entries.len(), 1, "{entries:?}");
    entries[0].canonicalize().unwrap()
}

/// Starts a demo with a dashboard. Returns it with what its server said.
fn served(sandbox: &Sandbox, dir: &Path) -> (Child, Value) {
    let mut child = demo(sandbox, dir, &["--serve"]).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let lines: Vec<String> = lines.take_while(|line| !line.contains("Ctrl-C ends everything.")).collect();
    let text = std::fs::read_to_string(scratch(dir).join("served")).unwrap();
    let row = |name: &str| text.lines().find_map(|line| Some(line.strip_prefix(name)?.trim().to_owned())).unwrap();
    assert_eq!(lines.last().unwrap().trim(), row("browser"));
    let said = serde_json::json!({"url": row("url"), "token": row("token").trim_start_matches("in ")});
    (child, said)
}

/// Returns the command lines of the processes of a demo.
fn lines_in(dir: &Path) -> Vec<String> {
    processes_in(dir).into_iter().map(|process| process.line).collect()
}

#[test]
fn the_demo_runs_a_workflow_to_its_end_and_leaves_no_files() {
    let sandbox = sandbox();
    let dir = sandbox.dir("anywhere");
    let run = Run::of(&demo(&sandbox, &dir, &[]).output().unwrap()).ok();
    for step in [
        "$ way init --contributor --planning ../planning",
        "$ way workflow from-issue planning-",
        "bob asks: Round half a cent up or down?",
        "dan goes on from the checkpoint: lib/shipping.sh is written, its test is missing",
        "ada starts from the work of the others: discount.sh price.sh receipt.sh shipping.sh tax.sh",
        "upstream$ way accept planning-",
        "Accepted planning-",
        "way demo --serve",
    ] {
        assert!(run.stdout.contains(step), "{step:?} is not in {}", run.stdout);
    }
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0);
    assert_eq!(lines_in(&dir), [""; 0]);
    assert_eq!(std::fs::read_dir(sandbox.path("home")).unwrap().count(), 0, "the home of the user is not touched");
}

#[test]
fn the_claims_of_the_demo_are_facts_of_the_repositories_that_it_keeps() {
    let sandbox = sandbox();
    let dir = sandbox.dir("anywhere");
    let run = Run::of(&demo(&sandbox, &dir, &["--keep"]).output().unwrap());
    assert_eq!(run.code, 0, "{run:#?}");
    let dir = &scratch(&dir);
    assert!(run.stderr.contains(&format!("kept in {}; to look around: cd ", dir.display())), "{}", run.stderr);
    let way = |repo: &str, args: &[&str]| kept(&sandbox, dir, repo, OsStr::new(env!("CARGO_BIN_EXE_way")), args).data();
    let git = |repo: &str, args: &[&str]| kept(&sandbox, dir, repo, OsStr::new("git"), args).ok().stdout;
    let list = |value: Value| value.as_array().unwrap().clone();

    // Every task was completed once; the one whose agent was killed has one more attempt.
    let tasks = list(way("shop", &["task", "list", "--workflow", "checkout", "--json"]));
    assert_eq!(tasks.len(), 5);
    for task in &tasks {
        let history =
            list(way("shop", &["events", "--subject", task["id"].as_str().unwrap(), "--since", "0", "--json"]));
        let count = |kind: &str| history.iter().filter(|event| event["kind"] == kind).count();
        assert_eq!((&task["status"], count("task.completed")), (&"completed".into(), 1), "{history:#?}");
    }
    let jobs = list(way("shop", &["job", "list", "--json"]));
    let of_agent = |agent: &str, task: usize| {
        let found = jobs.iter().filter(|job| job["agent"] == agent && job["task"] == tasks[task]["name"]);
        found.collect::<Vec<_>>()
    };
    let time = |job: &Value, field: &str| job[field].as_str().unwrap().to_owned();
    let at = |moment: &str| {
        let running = |job: &&Value| *time(job, "started_at") <= *moment && *moment < *time(job, "finished_at");
        jobs.iter().filter(running).count()
    };
    assert_eq!(
        jobs.iter().map(|job| at(&time(job, "started_at"))).max(),
        Some(4),
        "four agents work at once: {jobs:#?}"
    );
    let (killed, continued) = (of_agent("cyd", 2), of_agent("dan", 2));
    assert_eq!((killed.len(), continued.len()), (1, 1), "{jobs:#?}");
    assert_eq!((&killed[0]["status"], &killed[0]["exit_code"]), (&"failed".into(), &137.into()));
    assert_eq!(tasks[2]["attempts"], 1, "{:#?}", tasks[2]);

    // The second agent worked in the workspace of the first, and its context had the checkpoint of the first.
    assert_eq!(killed[0]["workspace_id"], continued[0]["workspace_id"]);
    let context = std::fs::read_to_string(Path::new(continued[0]["context_dir"].as_str().unwrap()).join("context.md"));
    assert!(context.unwrap().contains("lib/shipping.sh is written, its test is missing"));
    let checkpoints = list(way("shop", &["checkpoint", "list", tasks[2]["name"].as_str().unwrap(), "--json"]));
    assert_eq!(checkpoints.len(), 1, "{checkpoints:#?}");

    // The question and its answer, which decided what the code does.
    assert_eq!((&tasks[1]["question"], &tasks[1]["answer"]), (&"Round half a cent up or down?".into(), &"up".into()));
    assert_eq!(of_agent("bob", 1).len(), 2);
    assert!(git("shop", &["show", "main:lib/discount.sh"]).contains("+ 50"));

    // One merge for each branch, all in main, with the tests of the project, which pass.
    let merges = git("shop", &["log", "--merges", "--first-parent", "--reverse", "--format=%s %P", "main"]);
    let subjects: Vec<&str> = merges.lines().map(|line| line.rsplitn(3, ' ').nth(2).unwrap()).collect();
    assert_eq!(subjects, ["Merge tax", "Merge discount", "Merge shipping", "Merge receipt", "Merge total"]);
    assert_eq!(git("shop", &["branch", "--no-merged", "main"]), "");
    assert_eq!(git("shop", &["log", "--format=%an", "main", "--", "lib/shipping.sh"]).trim(), "dan");
    assert_eq!(git("shop", &["status", "--short"]), "");
    assert_eq!(kept(&sandbox, dir, "shop", OsStr::new("sh"), &["test.sh"]).ok().stdout, "6 passed\n");

    // Upstream has the code and the accepted issue; the plan stayed private.
    assert_eq!(kept(&sandbox, dir, "upstream", OsStr::new("sh"), &["test.sh"]).ok().stdout, "6 passed\n");
    let upstream = list(way("upstream", &["list", "--json"]));
    let shown: Vec<_> = upstream.iter().map(|issue| (issue["title"].as_str(), issue["visibility"].as_str())).collect();
    assert_eq!(shown, [(Some("Parcels above 30 kg have no rate"), None)]);
    let proposal = upstream[0]["id"].as_str().unwrap();
    assert!(run.stdout.contains(&format!("upstream$ way accept {proposal}\n")), "{}", run.stdout);

    // No work in a workspace would be lost: all of it is in a branch.
    for workspace in list(way("shop", &["ws", "list", "--json"])) {
        let id = workspace["id"].as_str().unwrap();
        let examined = way("shop", &["ws", "show", id, "--json"]);
        assert_eq!(examined["findings"]["objections"], serde_json::json!([]), "{examined:#}");
    }
    assert_eq!(lines_in(dir), [""; 0]);
}

#[test]
fn the_demo_keeps_agents_at_work_under_a_dashboard_until_a_signal() {
    let sandbox = sandbox();
    let dir = sandbox.dir("anywhere");
    let (child, said) = served(&sandbox, &dir);
    let token = std::fs::read_to_string(said["token"].as_str().unwrap()).unwrap().trim().to_owned();
    let mut server = Server { repo: dir.clone(), child, said, token, sandbox };
    let page = server.get("/");
    assert_eq!(page.status, 200, "{page:?}");
    // Agents go on: they claim new tasks, and record checkpoints one after the other.
    let count = |kind: &str| {
        let events = server.get(&format!("/api/v1/events?kind={kind}&since=0&limit=1000")).data();
        events.as_array().unwrap_or_else(|| panic!("{events}")).len()
    };
    let (claims, checkpoints) = (count("task.claimed"), count("task.checkpointed"));
    until("agents work on new tasks", || {
        count("task.claimed") > claims && count("task.checkpointed") > checkpoints + 1
    });
    assert!(!lines_in(&dir).is_empty());
    server.signal(Signal::INT);
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
    assert_eq!(lines_in(&dir), [""; 0]);
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0);
}

#[test]
fn a_demo_that_is_killed_leaves_no_process_behind() {
    let sandbox = sandbox();
    let dir = sandbox.dir("anywhere");
    let (mut child, _) = served(&sandbox, &dir);
    until("its workers run", || lines_in(&dir).iter().filter(|line| line.contains(" worker ")).count() == 4);
    // No handler can run, so nothing that the demo does at its end happens.
    child.kill().unwrap();
    let _ = child.wait().unwrap();
    until("all its processes have ended", || lines_in(&dir).is_empty());
}
