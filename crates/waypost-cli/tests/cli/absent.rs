//! Ledgers whose content is not in the tree: sparse checkouts, Git LFS, git-crypt.

use std::path::{Path, PathBuf};

use waypost_testkit::{Run, Sandbox};

use crate::support::ledger::{LEDGER, add, ids};
use crate::support::sandbox;

/// A pointer as Git LFS writes it.
const POINTER: &str = "version https://git-lfs.github.com/spec/v1
oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393
size 12345
";

/// Makes a repository with a committed ledger, which has one issue.
fn with_ledger(sandbox: &Sandbox) -> (PathBuf, String) {
    let repo = sandbox.git_repo("repo");
    let id = add(sandbox, &repo, &["In the commit"]);
    write(sandbox, &repo.join("src/main.c"), "int main;\n");
    commit(sandbox, &repo);
    (repo, id)
}

/// Writes a file and the directory it is in.
fn write(sandbox: &Sandbox, path: &Path, content: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    sandbox.write(path, content);
}

fn commit(sandbox: &Sandbox, repo: &Path) {
    sandbox.git(repo, ["add", "--all"]);
    sandbox.git(repo, ["commit", "-qm", "all"]);
}

/// Expects that neither a read nor a write takes the ledger for empty, and that the write makes no file.
#[track_caller]
fn is_refused(sandbox: &Sandbox, repo: &Path, hint: &str) {
    for command in [&["list"][..], &["ready"], &["stats"], &["show", "x"], &["add", "New"], &["sync", "--no-push"]] {
        let run = sandbox.way(repo, command).fails(8);
        assert!(run.stderr.contains("is not in the tree, but in the commit"), "{command:?}: {}", run.stderr);
        assert!(run.stderr.contains(hint), "{command:?}: {}", run.stderr);
    }
    assert!(!repo.join(LEDGER).exists(), "no command made a second ledger");
}

#[test]
fn a_ledger_outside_the_sparse_checkout_is_not_taken_for_an_empty_one() {
    let sandbox = sandbox();
    let (repo, id) = with_ledger(&sandbox);
    sandbox.git(&repo, ["sparse-checkout", "set", "--cone", "src"]);
    is_refused(&sandbox, &repo, "git sparse-checkout add .waypost");
    sandbox.git(&repo, ["sparse-checkout", "add", ".waypost"]);
    assert_eq!(ids(&sandbox, &repo, &["list"]), [id]);
}

#[test]
fn a_ledger_that_a_pull_brings_outside_the_sparse_checkout_is_noticed() {
    let sandbox = sandbox();
    let (repo, _) = with_ledger(&sandbox);
    sandbox.git(&repo, ["branch", "before", "HEAD~"]);
    let clone = sandbox.path("clone");
    sandbox.git(&repo, ["clone", "-q", "--branch", "before", "--no-local", ".", clone.to_str().unwrap()]);
    sandbox.git(&clone, ["sparse-checkout", "set", "--cone", "src"]);
    assert!(ids(&sandbox, &clone, &["list"]).is_empty(), "this commit has no ledger");
    sandbox.git(&clone, ["merge", "-q", "--ff-only", "origin/main"]);
    is_refused(&sandbox, &clone, "git sparse-checkout add .waypost");
}

#[test]
fn a_ledger_with_the_skip_worktree_bit_is_not_taken_for_an_empty_one() {
    let sandbox = sandbox();
    let (repo, id) = with_ledger(&sandbox);
    sandbox.git(&repo, ["update-index", "--skip-worktree", LEDGER]);
    assert_eq!(ids(&sandbox, &repo, &["list"]), std::slice::from_ref(&id), "as long as the file exists, it counts");
    std::fs::remove_file(repo.join(LEDGER)).unwrap();
    is_refused(&sandbox, &repo, &format!("git update-index --no-skip-worktree {LEDGER}, git restore {LEDGER}"));
    sandbox.git(&repo, ["update-index", "--no-skip-worktree", LEDGER]);
    sandbox.git(&repo, ["restore", LEDGER]);
    assert_eq!(ids(&sandbox, &repo, &["list"]), [id]);
}

#[test]
fn a_deleted_ledger_is_refused_until_git_knows_that_it_was_meant() {
    let sandbox = sandbox();
    let (repo, _) = with_ledger(&sandbox);
    std::fs::remove_file(repo.join(LEDGER)).unwrap();
    is_refused(&sandbox, &repo, &format!("git restore {LEDGER}, or to begin a new one: git rm {LEDGER}"));
    sandbox.git(&repo, ["rm", "-q", LEDGER]);
    assert!(ids(&sandbox, &repo, &["list"]).is_empty());
    let id = add(&sandbox, &repo, &["A new beginning"]);
    assert_eq!(ids(&sandbox, &repo, &["list"]), [id]);
}

#[test]
fn a_hidden_ledger_of_another_tool_is_not_replaced_by_ours() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    write(&sandbox, &repo.join(".beads/issues.jsonl"), "{\"id\":\"bd-1\",\"title\":\"Theirs\",\"status\":\"open\"}\n");
    write(&sandbox, &repo.join("src/main.c"), "int main;\n");
    commit(&sandbox, &repo);
    assert_eq!(ids(&sandbox, &repo, &["list"]), ["bd-1"]);
    sandbox.git(&repo, ["sparse-checkout", "set", "--cone", "src"]);
    is_refused(&sandbox, &repo, "git sparse-checkout add .beads");
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
fn nothing_is_appended_to_a_pointer_of_git_lfs() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    write(&sandbox, &repo.join(LEDGER), POINTER);
    for command in
        [&["list"][..], &["ready"], &["add", "New"], &["close", "x"], &["import", "--from", "beads", "no.jsonl"]]
    {
        let run = sandbox.way(&repo, command);
        assert_ne!(run.code, 0, "{run:#?}");
    }
    let run = sandbox.way(&repo, ["add", "New"]).fails(8);
    assert!(run.stderr.contains("this is a pointer of Git LFS, not the ledger"), "{}", run.stderr);
    assert!(run.stderr.contains("git lfs pull"), "{}", run.stderr);
    assert_eq!(std::fs::read_to_string(repo.join(LEDGER)).unwrap(), POINTER);
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

#[test]
fn the_merge_driver_fails_on_files_without_a_readable_record() {
    let sandbox = sandbox();
    let dir = sandbox.dir("files");
    let ledger = "{\"id\":\"a-1\",\"title\":\"One\"}\n";
    for (name, content) in [("pointer", POINTER), ("locked", "\0GITCRYPT\0\u{1}\u{2}abc"), ("text", "not a ledger\n")] {
        for (base, ours, theirs) in [(ledger, content, ledger), (ledger, ledger, content), (content, ledger, ledger)] {
            for (file, content) in [("base", base), ("ours", ours), ("theirs", theirs)] {
                sandbox.write(dir.join(file), content);
            }
            let run = sandbox.way(&dir, ["merge-driver", "base", "ours", "theirs", "issues.jsonl"]);
            assert!(run.code != 0 && run.code < 128, "{name}: {run:#?}");
            assert_eq!(std::fs::read_to_string(dir.join("ours")).unwrap(), ours, "{name}");
        }
    }
    // An empty file is a ledger without issues.
    for (file, content) in [("base", ""), ("ours", ""), ("theirs", ledger)] {
        sandbox.write(dir.join(file), content);
    }
    let _ = sandbox.way(&dir, ["merge-driver", "base", "ours", "theirs", "issues.jsonl"]).ok();
    assert_eq!(std::fs::read_to_string(dir.join("ours")).unwrap(), ledger);
}
