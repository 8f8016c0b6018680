//! Ledgers under jj.

use std::path::{Path, PathBuf};

use waypost_testkit::Sandbox;

use super::*;
use crate::support::sandbox;

/// A remote with one commit on `main`, and clones of it by jj.
pub(super) fn jj_clones(sandbox: &Sandbox, colocated: bool, names: &[&str]) -> Vec<PathBuf> {
    clones(sandbox, &[]);
    let clone = |name: &&str| {
        let how = if colocated { "--colocate" } else { "--no-colocate" };
        sandbox.jj(&sandbox.path(""), ["git", "clone", "--quiet", how, "remote.git", name]);
        let repo = sandbox.path(name);
        let _ = sandbox.way(&repo, ["config", "set", "prefix", name]).ok();
        repo
    };
    names.iter().map(clone).collect()
}

/// Everything in the working copy except the ledger, and the user's own bookmarks.
fn user_state_in_jj(sandbox: &Sandbox, repo: &Path) -> String {
    let others = format!("~root-file:{LEDGER:?}");
    let mut all = sandbox.jj(repo, ["diff", "--git", &others]);
    all.push_str(&sandbox.jj(repo, ["log", "--no-graph", "-r", "@", "-T", "change_id ++ description"]));
    all.push_str(&sandbox.jj(repo, ["bookmark", "list", "mine"]));
    all.push_str(&sandbox.jj(repo, ["file", "list", &others]));
    all
}

#[test]
fn b19_jj_clones_converge_and_the_users_other_work_is_unchanged() {
    for colocated in [true, false] {
        let sandbox = sandbox();
        let repos = jj_clones(&sandbox, colocated, &["one", "two"]);
        for repo in &repos {
            sandbox.write(repo.join("file"), "changed\n");
            sandbox.write(repo.join("new"), "new\n");
            sandbox.jj(repo, ["describe", "-m", "work under way"]);
            sandbox.jj(repo, ["bookmark", "create", "mine", "-r", "@"]);
        }
        // A bookmark at the working copy gets a new commit id with every snapshot.
        for repo in &repos {
            sandbox.jj(repo, ["bookmark", "move", "mine", "--to", "@-", "--allow-backwards"]);
        }
        converge(&sandbox, &repos, user_state_in_jj);
        for repo in &repos {
            assert_eq!(
                sandbox.jj(repo, ["diff", "--name-only", LEDGER]),
                "",
                "the ledger is not part of the working-copy commit"
            );
            assert_eq!(sandbox.jj(repo, ["log", "--no-graph", "-r", "main & main@origin & @-", "-T", r#""x""#]), "x");
        }
        assert_eq!(pushed_paths(&sandbox), [LEDGER, "file", "other"]);
    }
}

#[test]
fn commits_that_jj_did_not_push_stay_unpushed() {
    let sandbox = sandbox();
    let repos = jj_clones(&sandbox, true, &["one", "two"]);
    let [one, two] = repos.as_slice() else { panic!() };
    let id = add(&sandbox, two, "Old title");
    sync(&sandbox, two);
    sandbox.write(one.join("secret"), "not yet\n");
    sandbox.jj(one, ["commit", "-m", "mine"]);
    sandbox.write(one.join("file"), "under way\n");
    add(&sandbox, one, "From one");
    let before = user_state_in_jj(&sandbox, one);
    let done = sync(&sandbox, one);
    assert!(done["pushed"].is_string() && done["committed"] != done["pushed"], "{done}");
    assert_eq!(user_state_in_jj(&sandbox, one), before);
    assert_eq!(sandbox.jj(one, ["log", "--no-graph", "-r", "@--", "-T", "description"]), "mine\n");
    sync(&sandbox, two);
    assert_eq!(ledger(one), ledger(two));
    assert_eq!(pushed_paths(&sandbox), [LEDGER, "file", "other"]);
    let again = sync(&sandbox, one);
    assert!(again["pushed"].is_null() && again["committed"].is_null(), "{again}");
    // A change that was merged and undone stays undone.
    let _ = sandbox.way(two, ["update", &id, "--title", "New title"]).ok();
    sync(&sandbox, two);
    sync(&sandbox, one);
    let _ = sandbox.way(one, ["update", &id, "--title", "Old title"]).ok();
    sync(&sandbox, one);
    sync(&sandbox, two);
    assert!(title(two, &id) == "Old title" && ledger(one) == ledger(two));
    // The user's own rebase does not change the ledger.
    sandbox.jj(one, ["rebase", "-b", "@", "-o", "main"]);
    assert_eq!(sandbox.jj(one, ["log", "--no-graph", "-r", "conflicts()", "-T", "commit_id"]), "");
}

#[test]
fn a_jj_bookmark_with_unpushed_commits_stays_without_conflict() {
    let sandbox = sandbox();
    let repos = jj_clones(&sandbox, true, &["one", "two"]);
    let [one, two] = repos.as_slice() else { panic!() };
    let targets =
        || sandbox.jj(one, ["log", "--no-graph", "-r", "bookmarks(exact:main)", "-T", r#"commit_id ++ "\n""#]);
    sandbox.write(one.join("secret"), "not yet\n");
    sandbox.jj(one, ["commit", "-m", "mine"]);
    sandbox.jj(one, ["bookmark", "move", "main", "--to", "@-"]);
    add(&sandbox, one, "From one");
    let run = sandbox.way(one, ["sync"]);
    assert!(run.code == 0 && run.stderr.contains("the bookmark main has unpushed commits"), "{run:?}");
    assert_eq!(targets().lines().count(), 1, "{}", sandbox.jj(one, ["bookmark", "list"]));
    let done = sandbox.way(one, ["sync", "--push-commits", "--json"]).data();
    assert!(done["pushed"].is_string(), "{done}");
    assert_eq!(targets().lines().count(), 1, "{}", sandbox.jj(one, ["bookmark", "list"]));
    sync(&sandbox, two);
    assert_eq!(ledger(one), ledger(two));
}

#[test]
fn jj_commits_the_ledger_locally_if_it_cannot_or_must_not_push() {
    let sandbox = sandbox();
    let alone = sandbox.jj_repo("alone", false);
    add(&sandbox, &alone, "First");
    let run = sandbox.way(&alone, ["sync"]).fails(7);
    assert!(run.stderr.contains("does not make the first one"), "{}", run.stderr);
    sandbox.write(alone.join("mine"), "first\n");
    sandbox.jj(&alone, ["commit", "-m", "mine", "mine"]);
    let run = sandbox.way(&alone, ["sync"]);
    assert!(run.code == 0 && run.stderr.contains("nothing to push to"), "{run:?}");
    assert_eq!(sandbox.jj(&alone, ["diff", "--name-only", "-r", "@-"]).trim(), LEDGER);
    let one = jj_clones(&sandbox, true, &["one"]).remove(0);
    add(&sandbox, &one, "Here only");
    let run = sandbox.way(&one, ["sync", "--no-push"]);
    assert!(run.code == 0 && run.stderr.contains("nothing was pushed"), "{run:?}");
    assert_eq!(sandbox.jj(&one, ["diff", "--name-only", "-r", "@-"]).trim(), LEDGER);
    assert!(sync(&sandbox, &one)["pushed"].is_string());
    assert_eq!(sandbox.jj(&one, ["log", "--no-graph", "-r", "main@origin & @-", "-T", r#""x""#]), "x");

    sandbox.jj(&one, ["new", "@-", "main@origin-"]);
    let run = sandbox.way(&one, ["sync"]).fails(7);
    assert!(run.stderr.contains("several commits"), "{}", run.stderr);
    sandbox.jj(&one, ["new", "main"]);
    add(&sandbox, &one, "More");
    sandbox.git(&one, ["config", "remote.origin.url", "/nowhere"]);
    let before = (ledger(&one), sandbox.jj(&one, ["log"]));
    let run = sandbox.way(&one, ["sync"]).fails(8);
    assert!(run.stderr.contains("cannot fetch origin/main"), "{}", run.stderr);
    assert_eq!((ledger(&one), sandbox.jj(&one, ["log"])), before);
    sandbox.jj(&one, ["status"]);
    let operations = sandbox.jj(&one, ["operation", "log", "--no-graph", "-T", "id"]);
    let run = sandbox.way(&one, ["sync", "--dry-run"]).ok();
    assert!(run.stdout.contains(" fetch ") && run.stdout.contains(" rebase "), "{}", run.stdout);
    assert_eq!(sandbox.jj(&one, ["operation", "log", "--no-graph", "-T", "id"]), operations);
}

#[test]
pub(super) fn jj_clones_that_change_and_sync_and_die_at_random_become_equal() {
    for (seed, colocated) in [(0x9e37_79b9_7f4a_7c15, true), (0x2545_f491_4f6c_dd1d, false)] {
        let sandbox = sandbox();
        let repos = jj_clones(&sandbox, colocated, &["one", "two", "three"]);
        sandbox.write(repos[1].join("file"), "under way\n");
        sandbox.write(repos[2].join("secret"), "not yet\n");
        sandbox.jj(&repos[2], ["commit", "-m", "mine"]);
        live(&sandbox, &repos, seed, (8, 500), user_state_in_jj);
        for repo in &repos {
            assert_eq!(sandbox.jj(repo, ["diff", "--name-only", LEDGER]), "", "seed {seed}");
        }
        assert_eq!(pushed_paths(&sandbox), [LEDGER, "file", "other"], "seed {seed}");
    }
}
