//! Repositories with worktrees.

use std::path::Path;

use serde_json::Value;
use waypost_testkit::Sandbox;

pub(crate) fn list(sandbox: &Sandbox, dir: &Path) -> Vec<Value> {
    sandbox.way(dir, ["worktree", "list", "--json"]).data().as_array().unwrap().clone()
}

pub(crate) fn named<'a>(worktrees: &'a [Value], name: &str) -> &'a Value {
    worktrees.iter().find(|one| one["name"] == name).unwrap_or_else(|| panic!("no {name} in {worktrees:?}"))
}

pub(crate) fn id_of(sandbox: &Sandbox, dir: &Path) -> String {
    sandbox.way(dir, ["where", "--json"]).data()["worktree"]["id"].as_str().unwrap().to_owned()
}

/// A repository with two linked worktrees, one made by `way` and one by git.
pub(crate) fn three(sandbox: &Sandbox) -> (std::path::PathBuf, std::path::PathBuf, std::path::PathBuf) {
    let repo = sandbox.git_repo("repo");
    let _ = sandbox.way(&repo, ["worktree", "add", "ours", "../ours"]).ok();
    sandbox.git(&repo, ["worktree", "add", "-q", "-b", "theirs", "../theirs"]);
    (repo, sandbox.path("ours"), sandbox.path("theirs"))
}
