//! Runs the examples, each in a repository of its own.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::PathBuf;

use waypost_testkit::Sandbox;

/// Runs an example, which `cargo test` has built beside this program, and returns its output.
fn run(sandbox: &Sandbox, name: &str, args: &[&str]) -> String {
    let program = std::env::current_exe().unwrap();
    let examples: PathBuf = program.ancestors().nth(2).unwrap().join("examples");
    let output = sandbox.command(examples.join(name), &sandbox.path("repo")).args(args).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{name}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new("way");
    sandbox.git_repo("repo");
    sandbox
}

#[test]
fn an_example_adds_issues_to_a_ledger() {
    assert_eq!(run(&sandbox(), "add_issue", &["."]), "ready: Build the wall\nthen: Put the roof on it\n");
}

#[test]
fn examples_run_a_workflow_and_follow_its_events() {
    let sandbox = sandbox();
    let ran = run(&sandbox, "run_workflow", &["."]);
    assert_eq!(ran, "release has 2 tasks\nworking on build\nworking on test\n");
    let events = run(&sandbox, "follow_events", &[".", "10"]);
    let kinds: Vec<&str> = events.lines().filter_map(|line| line.split_whitespace().nth(2)).collect();
    assert_eq!(kinds.len(), 10);
    assert!(kinds.contains(&"workflow.created") && kinds.contains(&"task.claimed"), "{kinds:?}");
    let counted = run(&sandbox, "custom_worker", &["."]);
    let tasks: Vec<&str> = counted.lines().filter_map(|line| line.split(':').next()).collect();
    assert_eq!(tasks, ["census", "recount"]);
}
