//! What commands ask of the system. Time depends on the machine; the number of system calls does not.

use std::path::Path;

use waypost_testkit::{Run, Sandbox, strace};

use crate::support::ledger::add;
use crate::support::sandbox;

/// The system calls of one command.
struct Calls(Vec<String>);

impl Calls {
    /// Runs a command of an agent, which must succeed.
    fn of(sandbox: &Sandbox, repo: &Path, agent: &str, args: &[&str]) -> Calls {
        let trace = sandbox.path("trace");
        let mut command = sandbox.command(strace(), repo);
        command.args(["-f", "-qq", "-e", "signal=none", "-o"]).arg(&trace);
        command.arg(env!("CARGO_BIN_EXE_way")).args(args).env("WAYPOST_AGENT", agent);
        let run = Run::of(&command.output().unwrap());
        assert_eq!(run.code, 0, "{args:?}: {run:#?}");
        Calls(std::fs::read_to_string(&trace).unwrap().lines().map(str::to_owned).collect())
    }

    /// Returns the number of times that the store's file was opened.
    fn opened_store(&self) -> usize {
        self.0.iter().filter(|call| call.contains(" openat(") && call.contains("/state.db\"")).count()
    }

    /// Returns the number of all calls. One that another thread interrupted has two lines, and only a program with debug
    /// assertions asks for the flags of each file that it closes.
    fn total(&self) -> usize {
        self.0.iter().filter(|call| !call.contains(" resumed>") && !call.contains("F_GETFD")).count()
    }

    fn synced(&self) -> usize {
        self.0.iter().filter(|call| call.contains(" fsync(") || call.contains(" fdatasync(")).count()
    }
}

#[test]
fn closing_a_claimed_issue_opens_the_store_once_and_syncs_at_most_four_times() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let id = add(&sandbox, &repo, &["One"]);
    let _ = sandbox.way_with(&repo, &[("WAYPOST_AGENT", "ann".as_ref())], ["claim", &id]).ok();
    let calls = Calls::of(&sandbox, &repo, "ann", &["close", &id]);
    assert_eq!(calls.opened_store(), 1, "{:#?}", calls.0);
    assert!(calls.synced() <= 4, "{:#?}", calls.0);
}

/// A store's log is read by each command, one call for each of its up to 64 pages: here it has about 40.
#[test]
fn everyday_commands_make_few_system_calls() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let [id, other] = ["One", "Two"].map(|title| add(&sandbox, &repo, &[title]));
    sandbox.write(repo.join("plan.yaml"), "tasks:\n  - name: build\n");
    let _ = sandbox.way(&repo, ["workflow", "create", "release", "--start", "--plan", "plan.yaml"]).ok();
    let _ = sandbox.way_with(&repo, &[("WAYPOST_AGENT", "ann".as_ref())], ["claim", &other]).ok();
    let commands: &[(&[&str], usize)] = &[
        (&["ready"], 355),
        (&["add", "Three"], 475),
        (&["claim", &id], 529),
        (&["close", &id], 525),
        (&["task", "claim"], 480),
    ];
    let mut over = Vec::new();
    for (args, limit) in commands {
        let calls = Calls::of(&sandbox, &repo, "ann", args);
        if calls.total() > *limit {
            over.push((args, calls.total(), *limit));
        }
        let processes: Vec<&String> = calls.0.iter().filter(|call| call.contains("\"/proc/")).collect();
        let names = |call: &str| call.contains("/proc/sys/kernel/random/boot_id") || call.contains("/proc/self/");
        assert!(processes.iter().all(|call| names(call)), "{args:?}: {processes:#?}");
    }
    assert!(over.is_empty(), "calls and limits: {over:?}");
}

#[test]
fn commands_about_issues_and_tasks_open_the_store_at_most_once() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let (held, id) = (add(&sandbox, &repo, &["Held"]), add(&sandbox, &repo, &["One"]));
    let _ = sandbox.way_with(&repo, &[("WAYPOST_AGENT", "bob".as_ref())], ["claim", &held]).ok();
    sandbox.write(repo.join("plan.yaml"), "tasks:\n  - name: build\n");
    let _ = sandbox.way(&repo, ["workflow", "create", "release", "--start", "--plan", "plan.yaml"]).ok();
    let commands: &[&[&str]] = &[
        &["ready"],
        &["ready", "--explain"],
        &["list"],
        &["show", &id],
        &["log", &id],
        &["graph", &id],
        &["status"],
        &["add", "Two"],
        &["update", &id, "--priority", "1"],
        &["comment", &id, "Soon"],
        &["claim", &id],
        &["release", &id],
        &["workflow", "from-issue", &id],
        &["task", "claim"],
        &["task", "done", "build", "--outcome", "It compiles"],
    ];
    for args in commands {
        let calls = Calls::of(&sandbox, &repo, "ann", args);
        assert_eq!(calls.opened_store(), 1, "{args:?}: {:#?}", calls.0);
    }
}

#[test]
fn commands_about_issues_open_no_store_where_there_is_none() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let id = add(&sandbox, &repo, &["One"]);
    let commands: &[&[&str]] = &[&["ready"], &["show", &id], &["log", &id], &["add", "Two"], &["close", &id]];
    for args in commands {
        let calls = Calls::of(&sandbox, &repo, "ann", args);
        assert_eq!(calls.opened_store(), 0, "{args:?}: {:#?}", calls.0);
    }
    assert!(!repo.join(".git/waypost/state.db").exists());
}
