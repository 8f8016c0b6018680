//! `way where`: which store, and why.

use std::ffi::OsStr;

use crate::support::places::store_path;
use crate::support::{sandbox, text};

#[test]
fn a13_global_and_db_report_their_store_and_exclude_each_other() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let global = sandbox.way(&repo, ["where", "--json", "--global"]).data();
    assert_eq!((&global["store"]["source"], &global["store"]["because"]), (&"flag".into(), &"--global".into()));
    let named = sandbox.way(&repo, ["--db", "x.db", "where", "--json"]).data();
    assert_eq!((&named["store"]["source"], &named["store"]["because"]), (&"flag".into(), &"--db".into()));
    let both = sandbox.way(&repo, ["where", "--json", "--global", "--db", "x.db"]).fails(2);
    assert_eq!(both.error()["code"], "invalid");
    let run = sandbox.way(&repo, ["where", "--scope", "rep"]).fails(2);
    assert!(run.stderr.contains("it is repo, worktree or global"), "{}", run.stderr);
    let run = sandbox.way_with(&repo, &[("WAYPOST_DB", OsStr::new("x.db"))], ["where", "--global"]);
    assert!(run.code == 0 && run.stdout.contains("x.db"), "{run:?}");
    assert!(run.stderr.contains("--global has no effect"), "{}", run.stderr);
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
