//! Walks through the documents that describe what Waypost unites, as their own users would take them. Each walk is a shell
//! script in `tests/seeds`, and reads like the document.

use std::path::Path;

use crate::package;
use crate::support::sandbox;

/// Runs a script in an empty directory.
#[track_caller]
fn walk(script: &str) {
    let sandbox = sandbox();
    let (dir, seeds) = (sandbox.dir("walk"), package("tests/seeds"));
    let programs = Path::new(env!("CARGO_BIN_EXE_way")).parent().unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let mut command = sandbox.command("bash", &dir);
    // A command before a pipe that fails must not look like one that prints nothing.
    let output = command
        .args(["-eu", "-o", "pipefail"])
        .arg(seeds.join(script))
        .env("PATH", path)
        .env("SEEDS", &seeds)
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{script} failed: {}\n{}\n--- stderr\n{}",
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    );
}

#[test]
fn a_workflow_database_per_repository() {
    walk("1-workflow-database.sh");
}

#[test]
fn one_view_of_all_worktrees() {
    walk("2-worktrees.sh");
}

#[test]
fn a_workspace_for_every_job() {
    walk("3-workspaces.sh");
}

#[test]
fn a_ledger_over_many_repositories() {
    walk("4-ledger.sh");
}

#[test]
fn workflows_agents_messages_and_templates() {
    walk("5-data-model.sh");
}
