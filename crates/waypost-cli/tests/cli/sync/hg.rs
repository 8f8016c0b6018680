//! Ledgers under Mercurial.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use waypost_testkit::Sandbox;

use super::*;
use crate::support::sandbox;

/// A Mercurial remote with one commit, and clones of it.
pub(super) fn hg_clones(sandbox: &Sandbox, names: &[&str]) -> Vec<PathBuf> {
    let remote = sandbox.hg_repo("remote");
    sandbox.write(remote.join("other"), "one\n");
    sandbox.hg(&remote, ["commit", "-q", "-A", "-m", "files"]);
    let clone = |name: &&str| {
        sandbox.hg(&sandbox.path(""), ["clone", "-q", "remote", name]);
        let repo = sandbox.path(name);
        let _ = sandbox.way(&repo, ["config", "set", "prefix", name]).ok();
        repo
    };
    names.iter().map(clone).collect()
}

/// Leaves something changed, added, removed and untracked.
fn make_dirty_in_hg(sandbox: &Sandbox, repo: &Path) {
    sandbox.write(repo.join("file"), "not committed\n");
    sandbox.write(repo.join("new"), "added\n");
    sandbox.hg(repo, ["add", "new"]);
    sandbox.hg(repo, ["remove", "other"]);
    sandbox.write(repo.join("untracked"), "untracked\n");
    sandbox.hg(repo, ["bookmark", "--inactive", "here"]);
}

fn user_state_in_hg(sandbox: &Sandbox, repo: &Path) -> String {
    let mut all = String::new();
    let others = ["--exclude", LEDGER];
    for args in [["status", "--all"], ["diff", "--nodates"]] {
        // The parent commit in the diff's header is not the user's state.
        let said = sandbox.hg(repo, args.into_iter().chain(others));
        all.extend(said.split_inclusive('\n').filter(|line| !line.starts_with("diff ")));
    }
    all.push_str(&sandbox.hg(repo, ["bookmarks"]));
    for file in ["file", "other", "new", "untracked", ".hg/branch"] {
        writeln!(all, "{file}: {:?}", std::fs::read_to_string(repo.join(file)).ok()).unwrap();
    }
    all
}

/// Returns the files that commits of the remote touched.
fn pushed_files(sandbox: &Sandbox) -> Vec<String> {
    let said = sandbox.hg(&sandbox.path("remote"), ["log", "--template", "{join(files, '\\n')}\\n"]);
    let mut paths: Vec<String> = said.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect();
    paths.sort();
    paths.dedup();
    paths
}

#[test]
fn b19_mercurial_clones_converge_and_the_users_other_work_is_unchanged() {
    let sandbox = sandbox();
    let repos = hg_clones(&sandbox, &["one", "two"]);
    for repo in &repos {
        make_dirty_in_hg(&sandbox, repo);
    }
    add(&sandbox, &repos[0], "Something");
    let run = sandbox.way(&repos[0], ["sync", "--dry-run"]).ok();
    assert!(run.stdout.contains(" commit ") && run.stdout.contains(" push "), "{}", run.stdout);
    assert_eq!(sandbox.hg(&repos[0], ["log", "--template", "x"]), "xx");
    converge(&sandbox, &repos, user_state_in_hg);
    assert_eq!(pushed_files(&sandbox), [LEDGER, "file", "other"]);
}

#[test]
fn mercurial_clones_with_diverging_commits_are_merged() {
    let sandbox = sandbox();
    let repos = hg_clones(&sandbox, &["one", "two"]);
    for repo in &repos {
        make_dirty_in_hg(&sandbox, repo);
        add(&sandbox, repo, &format!("From {}", repo.display()));
        let run = sandbox.way(repo, ["sync", "--no-push"]);
        assert!(run.code == 0 && run.stderr.contains("nothing was pushed"), "{run:?}");
    }
    let before: Vec<String> = repos.iter().map(|repo| user_state_in_hg(&sandbox, repo)).collect();
    for repo in [&repos[0], &repos[1], &repos[0]] {
        sync(&sandbox, repo);
    }
    assert_eq!(ledger(&repos[0]), ledger(&repos[1]));
    assert_eq!(ledger(&repos[0]).lines().count(), 2);
    let after: Vec<String> = repos.iter().map(|repo| user_state_in_hg(&sandbox, repo)).collect();
    assert_eq!(after, before);
    assert_eq!(sandbox.hg(&sandbox.path("remote"), ["heads", "--template", "x"]), "x");
    assert_eq!(pushed_files(&sandbox), [LEDGER, "file", "other"]);
    assert!(!repos[1].join(".hg/waypost").read_dir().unwrap().any(|entry| entry.unwrap().path().is_dir()));
}

#[test]
fn a_sync_is_refused_if_mercurial_would_push_or_update_more_than_the_ledger() {
    let sandbox = sandbox();
    let repos = hg_clones(&sandbox, &["one", "two"]);
    let [one, two] = repos.as_slice() else { panic!() };
    let check = |repo: &Path, reason: &str| {
        let (tip, before) = (sandbox.hg(repo, ["identify", "--id"]), ledger(repo));
        let run = sandbox.way(repo, ["sync"]).fails(7);
        assert!(run.stderr.contains(reason) && run.stderr.contains("hint: "), "{}", run.stderr);
        assert_eq!((sandbox.hg(repo, ["identify", "--id"]), ledger(repo)), (tip, before));
    };
    add(&sandbox, one, "From one");
    sandbox.write(one.join("file"), "changed\n");
    sandbox.hg(one, ["commit", "-q", "-m", "mine", "file"]);
    check(one, "there are unpushed commits of other files");
    sandbox.hg(one, ["push", "-q"]);
    assert!(sync(&sandbox, one)["pushed"].is_string());
    add(&sandbox, two, "From two");
    check(two, "the remote changed other files");
    sandbox.hg(two, ["add", "-q", LEDGER]);
    sandbox.hg(two, ["update", "-q", "--tool", ":local"]);
    assert!(sync(&sandbox, two)["pushed"].is_string());
    sync(&sandbox, one);
    assert_eq!(ledger(one), ledger(two));

    add(&sandbox, two, "More");
    sandbox.write(two.join(".hg/hgrc"), "[paths]\ndefault = git+evil://x\n");
    check(two, "is not reached by");
    for url in ["/nowhere", "ssh://localhost:1/x", "-x"] {
        sandbox.write(two.join(".hg/hgrc"), format!("[paths]\ndefault = {url}\n"));
        let before = (sandbox.hg(two, ["log"]), ledger(two), user_state_in_hg(&sandbox, two));
        let run = sandbox.way(two, ["sync"]).fails(8);
        assert!(run.stderr.contains("cannot pull"), "{}", run.stderr);
        assert_eq!((sandbox.hg(two, ["log"]), ledger(two), user_state_in_hg(&sandbox, two)), before);
    }
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let path = format!("[paths]\ndefault = http://{}/x\n", silent.local_addr().unwrap());
    sandbox.write(two.join(".hg/hgrc"), path);
    let run = sandbox.way(two, ["sync", "--config", "sync.timeout=2s"]).fails(8);
    assert!(run.stderr.contains("cannot pull from the default path: hg took longer than 2s"), "{}", run.stderr);
    sandbox.write(two.join(".hg/hgrc"), "");
    let run = sandbox.way(two, ["sync"]);
    assert!(run.code == 0 && run.stderr.contains("nothing to push to"), "{run:?}");
}

#[test]
fn a_sync_is_refused_while_mercurial_has_an_unfinished_operation() {
    let sandbox = sandbox();
    let repos = hg_clones(&sandbox, &["one"]);
    let one = &repos[0];
    let [theirs, ours] = ["theirs", "ours"].map(|name| {
        sandbox.hg(one, ["update", "-q", "1"]);
        sandbox.write(one.join("other"), format!("{name}\n"));
        sandbox.hg(one, ["commit", "-q", "-m", name]);
        sandbox.hg(one, ["identify", "--id"]).trim().to_owned()
    });
    let (theirs, ours) = (theirs.as_str(), ours.as_str());
    add(&sandbox, one, "Something");
    let hg = |args: &[&str]| {
        let mut command = sandbox.command("hg", one);
        command.args(["--config=ui.merge=:fail", "--config=extensions.rebase=", "--config=extensions.histedit="]);
        command.args(args).env("HGEDITOR", "sed -i 's/^pick/edit/'").output().unwrap()
    };
    for (prepare, operation, end, reason) in [
        ("", &["merge", theirs][..], &["merge", "--abort"][..], "a merge is under way"),
        ("", &["rebase", "-d", theirs], &["rebase", "--abort"], "a rebase is under way"),
        ("", &["graft", theirs], &["graft", "--abort"], "a graft is under way"),
        ("", &["histedit", ours], &["histedit", "--abort"], "a histedit is under way"),
        ("", &["bisect", "--bad"], &["bisect", "--reset"], "a bisection is under way"),
        ("shelve", &["unshelve"], &["unshelve", "--abort"], "an unshelve is under way"),
        ("write", &["update", "--merge", theirs], &["update", "--clean", ours], "other has an unresolved conflict"),
    ] {
        sandbox.hg(one, ["update", "-q", "--clean", ours]);
        if !prepare.is_empty() {
            sandbox.write(one.join("other"), "not committed\n");
        }
        if prepare == "shelve" {
            assert!(hg(&["shelve", "other"]).status.success());
            sandbox.write(one.join("other"), "ours, and more\n");
            sandbox.hg(one, ["commit", "-q", "-m", "more", "other"]);
        }
        let stopped = hg(operation);
        assert_eq!(stopped.status.success(), operation[0] == "bisect", "{operation:?}: {stopped:?}");
        let before = (sandbox.hg(one, ["log"]), sandbox.hg(one, ["status"]), ledger(one));
        let run = sandbox.way(one, ["sync"]).fails(7);
        assert!(run.stderr.contains(reason) && run.stderr.contains("hint: "), "{operation:?}: {}", run.stderr);
        assert_eq!((sandbox.hg(one, ["log"]), sandbox.hg(one, ["status"]), ledger(one)), before, "{operation:?}");
        let ended = hg(end);
        assert!(ended.status.success(), "{end:?}: {ended:?}");
    }
}

#[test]
fn mercurial_clones_that_change_and_sync_and_die_at_random_become_equal() {
    let seed = 0x9e37_79b9_7f4a_7c15;
    let sandbox = sandbox();
    let repos = hg_clones(&sandbox, &["one", "two"]);
    make_dirty_in_hg(&sandbox, &repos[1]);
    live(&sandbox, &repos, seed, (6, 1500), user_state_in_hg);
    assert_eq!(pushed_files(&sandbox), [LEDGER, "file", "other"], "seed {seed}");
}
