//! Ledgers whose content is not in the tree: sparse checkouts, Git LFS, git-crypt.

use std::path::{Path, PathBuf};

use waypost_testkit::{Run, Sandbox};

use crate::support::ledger::{LEDGER, add, ids};
use crate::support::sandbox;

fn commit(sandbox: &Sandbox, repo: &Path) {
    sandbox.git(repo, ["add", "--all"]);
    sandbox.git(repo, ["commit", "-qm", "all"]);
}

#[test]
fn a_ledger_outside_the_sparse_patterns_of_jj_is_not_taken_for_an_empty_one() {
    let sandbox = sandbox();
    let repo = sandbox.jj_repo("repo", false);
    let id = add(&sandbox, &repo, &["In the commit"]);
    sandbox.jj(&repo, ["sparse", "set", "--clear", "--add", "src"]);
    assert!(!repo.join(LEDGER).exists());
    for command in [&["list"][..], &["add", "New"]] {
        let run = sandbox.way(&repo, command).fails(8);
        assert!(run.stderr.contains(&format!("jj sparse set --add {LEDGER}")), "{}", run.stderr);
    }
    sandbox.jj(&repo, ["sparse", "reset"]);
    assert_eq!(ids(&sandbox, &repo, &["list"]), [id]);
}

#[test]
fn a_ledger_of_a_clone_without_a_checkout_is_not_taken_for_an_empty_one() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let id = add(&sandbox, &repo, &["In the commit"]);
    commit(&sandbox, &repo);
    sandbox.git(&sandbox.path(""), ["clone", "-q", "--no-checkout", "repo", "clone"]);
    let clone = sandbox.path("clone");
    for command in [&["list"][..], &["add", "New"]] {
        let run = sandbox.way(&clone, command).fails(8);
        assert!(run.stderr.contains("git checkout"), "{}", run.stderr);
    }
    assert!(!clone.join(LEDGER).exists());
    sandbox.git(&clone, ["checkout", "-q"]);
    assert_eq!(ids(&sandbox, &clone, &["list"]), [id]);
    // One that the user removed is gone, also if it was the only file.
    sandbox.write(clone.join("file"), "");
    sandbox.git(&clone, ["add", "file"]);
    sandbox.git(&clone, ["rm", "-q", LEDGER]);
    let _ = sandbox.way(&clone, ["restore", "--drop"]);
    assert_eq!(ids(&sandbox, &clone, &["list"]), [""; 0]);
}

#[test]
fn a_ledger_that_mercurial_has_and_the_tree_does_not_is_not_taken_for_an_empty_one() {
    let sandbox = sandbox();
    let repo = sandbox.hg_repo("repo");
    let id = add(&sandbox, &repo, &["In the commit"]);
    sandbox.hg(&repo, ["commit", "--addremove", "-m", "all", "-u", "me"]);
    std::fs::remove_file(repo.join(LEDGER)).unwrap();
    for command in [&["list"][..], &["add", "New"]] {
        let run = sandbox.way(&repo, command).fails(8);
        assert!(run.stderr.contains(&format!("hg revert {LEDGER}")), "{}", run.stderr);
    }
    sandbox.hg(&repo, ["revert", LEDGER]);
    assert_eq!(ids(&sandbox, &repo, &["list"]), [id]);
}

#[test]
fn the_real_git_lfs_leaves_a_pointer_that_is_refused_and_a_ledger_that_is_used() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    sandbox.git(&repo, ["lfs", "install", "--local"]);
    sandbox.write(repo.join(".gitattributes"), "*.jsonl filter=lfs diff=lfs merge=lfs -text\n");
    let id = add(&sandbox, &repo, &["In large storage"]);
    commit(&sandbox, &repo);
    assert!(sandbox.git(&repo, ["cat-file", "blob", &format!("HEAD:{LEDGER}")]).starts_with("version https"));
    assert_eq!(ids(&sandbox, &repo, &["list"]), [id]);
    let run = sandbox.way(&repo, ["sync"]).fails(7);
    assert!(run.stderr.contains("Git LFS stores the ledger"), "{}", run.stderr);
    assert!(run.stderr.contains(&format!("/{LEDGER} !filter")), "{}", run.stderr);

    let clone = sandbox.path("clone");
    let mut command = sandbox.command("git", &sandbox.path(""));
    command.env("GIT_LFS_SKIP_SMUDGE", "1").args(["clone", "-q", "repo", "clone"]);
    assert_eq!(Run::of(&command.output().unwrap()).code, 0);
    let pointer = std::fs::read_to_string(clone.join(LEDGER)).unwrap();
    let _ = sandbox.way(&clone, ["list"]).fails(8);
    let _ = sandbox.way(&clone, ["add", "New"]).fails(8);
    assert_eq!(std::fs::read_to_string(clone.join(LEDGER)).unwrap(), pointer);
}

/// Makes a repository in which git-crypt encrypts some paths, and returns it with a locked clone.
fn encrypted(sandbox: &Sandbox, pattern: &str) -> PathBuf {
    let repo = sandbox.git_repo("repo");
    let run = Run::of(&sandbox.command("git-crypt", &repo).arg("init").output().unwrap());
    assert_eq!(run.code, 0, "{run:#?}");
    sandbox.write(repo.join(".gitattributes"), format!("{pattern} filter=git-crypt diff=git-crypt\n"));
    repo
}

#[test]
fn a_ledger_that_git_crypt_locked_is_refused_and_sync_never_stores_it_as_plain_text() {
    let sandbox = sandbox();
    let repo = encrypted(&sandbox, "/.waypost/issues.jsonl");
    let id = add(&sandbox, &repo, &["Tell no one"]);
    commit(&sandbox, &repo);
    let remote = sandbox.path("remote.git");
    sandbox.git(&repo, ["clone", "-q", "--bare", ".", remote.to_str().unwrap()]);
    sandbox.git(&repo, ["remote", "add", "origin", remote.to_str().unwrap()]);
    sandbox.git(&repo, ["fetch", "-q"]);
    sandbox.git(&repo, ["branch", "-q", "--set-upstream-to=origin/main"]);
    assert_eq!(ids(&sandbox, &repo, &["list"]), [id]);

    add(&sandbox, &repo, &["A second secret"]);
    let run = sandbox.way(&repo, ["sync"]).fails(7);
    assert!(run.stderr.contains("git-crypt encrypts the ledger"), "{}", run.stderr);
    for repository in [&repo, &remote] {
        let objects = sandbox.git(repository, ["cat-file", "--batch-all-objects", "--batch"]);
        assert!(!objects.contains("secret") && !objects.contains("Tell no one"), "stored as plain text");
    }

    let locked = sandbox.path("locked");
    sandbox.git(&repo, ["clone", "-q", remote.to_str().unwrap(), locked.to_str().unwrap()]);
    let before = std::fs::read(locked.join(LEDGER)).unwrap();
    let run = sandbox.way(&locked, ["list"]).fails(8);
    assert!(run.stderr.contains("git-crypt unlock"), "{}", run.stderr);
    let _ = sandbox.way(&locked, ["add", "New"]).fails(8);
    assert_eq!(std::fs::read(locked.join(LEDGER)).unwrap(), before);
}

#[test]
fn a_job_does_not_deliver_as_plain_text_what_git_crypt_would_encrypt() {
    for strategy in ["worktree", "clone"] {
        let sandbox = sandbox();
        let repo = encrypted(&sandbox, "*.key");
        sandbox.write(repo.join("old.key"), "the first secret\n");
        commit(&sandbox, &repo);
        let script = "echo canary-plain > new.key; echo x > x.txt";
        let run = sandbox.way(&repo, ["job", "start", "--strategy", strategy, "--json", "--", "sh", "-c", script]);
        let job: serde_json::Value = serde_json::from_str(run.stdout.lines().last().unwrap()).unwrap();
        let id = job["data"]["id"].as_str().unwrap_or_else(|| panic!("{run:#?}"));
        let _ = sandbox.way(&repo, ["job", "wait", id]);
        let run = sandbox.way(&repo, ["job", "deliver", id, "--commit", "All"]);
        assert_ne!(run.code, 0, "{strategy}: {run:#?}");
        assert!(run.stderr.contains("clean filter 'git-crypt' failed"), "{strategy}: {}", run.stderr);
        assert!(run.stderr.contains("way runs no filters of a repository"), "{strategy}: {}", run.stderr);
        let objects = sandbox.git(&repo, ["cat-file", "--batch-all-objects", "--batch"]);
        assert!(!objects.contains("canary-plain"), "{strategy}: stored as plain text");
    }
}
