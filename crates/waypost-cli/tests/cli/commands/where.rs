//! `way where`: which store, and why.

use std::ffi::OsStr;
use std::path::Path;

use crate::support::places::store_path;
use crate::support::{sandbox, text};

#[test]
fn a13_global_and_db_report_their_store_and_exclude_each_other() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let global = sandbox.way(&repo, ["where", "--json", "--global"]).data();
    assert_eq!(global["store"]["path"], text(&sandbox.path("home/.waypost/state.db")));
    assert_eq!((&global["store"]["source"], &global["store"]["because"]), (&"flag".into(), &"--global".into()));
    let named = sandbox.way(&repo, ["--db", "x.db", "where", "--json"]).data();
    assert_eq!(named["store"]["path"], text(&repo.join("x.db")));
    assert_eq!((&named["store"]["source"], &named["store"]["because"]), (&"flag".into(), &"--db".into()));
    let both = sandbox.way(&repo, ["where", "--json", "--global", "--db", "x.db"]).fails(2);
    assert_eq!(both.error()["code"], "invalid");
    let _ = sandbox.way(&repo, ["where", "--scope", "repo", "--db", "x.db"]).fails(2);
    let run = sandbox.way(&repo, ["where", "--scope", "rep"]).fails(2);
    assert!(run.stderr.contains("it is repo, worktree or global"), "{}", run.stderr);
}

#[test]
fn the_variable_overrides_scope_flags_with_a_note() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let run = sandbox.way_with(&repo, &[("WAYPOST_DB", OsStr::new("x.db"))], ["where", "--global"]);
    assert_eq!(run.code, 0);
    assert!(run.stderr.contains("--global has no effect"), "{}", run.stderr);
    assert!(run.stdout.contains("x.db"));
}

#[test]
fn g8_the_same_command_works_everywhere_unchanged() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let sub = sandbox.dir("repo/sub");
    let tree = sandbox.path("tree");
    sandbox.git(&repo, ["worktree", "add", "-q", text(&tree)]);
    sandbox.git(&sandbox.path(""), ["clone", "-q", text(&repo), "clone"]);
    for dir in [repo.as_path(), &sub, &tree, &sandbox.path("clone")] {
        let _ = sandbox.way(dir, ["status"]).ok();
    }
    assert_eq!(store_path(sandbox.way(&tree, ["where", "--json"])), text(&repo.join(".git/waypost/state.db")));
}

#[test]
fn git_environment_variables_are_honoured_as_git_does() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let tree = sandbox.path("tree");
    sandbox.git(&repo, ["worktree", "add", "-q", text(&tree)]);
    let nowhere = sandbox.dir("nowhere");
    let store = text(&repo.join(".git/waypost/state.db")).to_owned();
    let with = |dir: &Path, variables: &[(&str, &OsStr)]| sandbox.way_with(dir, variables, ["where", "--json"]).data();

    let data = with(&nowhere, &[("GIT_DIR", repo.join(".git").as_os_str())]);
    assert_eq!(data["store"]["path"], store);
    // The environment of a hook in a linked worktree.
    let admin = repo.join(".git/worktrees/tree");
    let data = with(&nowhere, &[("GIT_DIR", admin.as_os_str())]);
    assert_eq!((&data["store"]["path"], &data["worktree"]["path"]), (&store.clone().into(), &text(&tree).into()));
    let data = with(&repo, &[("GIT_DIR", OsStr::new(".git")), ("GIT_WORK_TREE", OsStr::new("."))]);
    assert_eq!(data["worktree"]["path"], text(&repo));
    let common = repo.join(".git");
    let data = with(&nowhere, &[("GIT_DIR", admin.as_os_str()), ("GIT_COMMON_DIR", common.as_os_str())]);
    assert_eq!(data["store"]["path"], store);
    let run = sandbox.way_with(&repo, &[("GIT_DIR", nowhere.as_os_str())], ["where"]).fails(2);
    assert!(run.stderr.contains("is not a git repository"), "{}", run.stderr);
    // From elsewhere, tracked files still belong to the repository's own tree.
    let data = with(&nowhere, &[("GIT_DIR", repo.join(".git").as_os_str())]);
    assert_eq!(data["ledger"]["path"], text(&repo.join(".waypost/issues.jsonl")));
    assert_eq!(data["repository"]["path"], text(&repo));
}

#[test]
fn a_ceiling_stops_the_search() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let sub = sandbox.dir("repo/sub/dir");
    let run = sandbox.way_with(&sub, &[("GIT_CEILING_DIRECTORIES", repo.as_os_str())], ["where"]);
    let _ = run.fails(2);
}
