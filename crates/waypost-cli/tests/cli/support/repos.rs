//! Several repositories, and a contributor.

use std::path::PathBuf;

use waypost_testkit::Sandbox;

use crate::support::ledger::LEDGER;

/// Makes a repository with one issue in it.
pub(crate) fn with_issue(sandbox: &Sandbox, name: &str, line: &str) -> PathBuf {
    let repo = sandbox.git_repo(name);
    sandbox.dir(repo.join(".waypost"));
    sandbox.write(repo.join(LEDGER), format!("{line}\n"));
    repo
}

/// A project, cloned by a contributor who plans elsewhere. Returns the upstream, the fork and the planning.
pub(crate) fn contributor(sandbox: &Sandbox) -> (PathBuf, PathBuf, PathBuf) {
    let upstream = with_issue(sandbox, "upstream", r#"{"id":"up-1","title":"Theirs"}"#);
    sandbox.git(&upstream, ["add", "."]);
    sandbox.git(&upstream, ["commit", "-q", "-m", "ledger"]);
    let root = sandbox.path(".");
    sandbox.git(&root, ["clone", "-q", "upstream", "fork"]);
    let fork = sandbox.path("fork");
    sandbox.git(&fork, ["remote", "add", "upstream", "https://example.org/team/project"]);
    let run = sandbox.way(&fork, ["init", "--contributor", "--planning", "../planning"]).ok();
    assert!(run.stdout.contains("New issues go there"), "{}", run.stdout);
    (upstream, fork, sandbox.path("planning"))
}
