//! `way restore`, and other programs that take back changes of the ledger: no acknowledged change is lost, and none comes back
//! after it was removed.

use std::fs;
use std::path::{Path, PathBuf};

use waypost_testkit::{Run, Sandbox, pre_commit, pygit2};

use crate::support::ledger::LEDGER;
use crate::support::merge_driver::{add, command, commit, git, run, way};
use crate::support::sandbox;

/// Returns a repository with a committed ledger of two issues.
fn repository(sandbox: &Sandbox) -> (PathBuf, String, String) {
    let repo = sandbox.git_repo("repo");
    let _ = way(sandbox, &repo, 0, &["init"]).ok();
    let (one, two) = (add(sandbox, &repo, 1, "One"), add(sandbox, &repo, 2, "Two"));
    commit(sandbox, &repo, "ledger");
    (repo, one, two)
}

fn file(repo: &Path) -> String {
    fs::read_to_string(repo.join(LEDGER)).unwrap()
}

fn status(sandbox: &Sandbox, repo: &Path) -> String {
    git(sandbox, repo, &["status", "--porcelain"])
}

/// Returns the titles of all open issues.
fn titles(sandbox: &Sandbox, repo: &Path) -> Vec<String> {
    let listed = way(sandbox, repo, 50, &["list", "--json"]).data();
    let mut titles: Vec<String> =
        listed.as_array().unwrap().iter().map(|issue| issue["title"].as_str().unwrap().to_owned()).collect();
    titles.sort();
    titles
}

#[test]
fn restore_drop_discards_what_was_taken_back_and_nothing_else() {
    let sandbox = sandbox();
    let (repo, one, two) = repository(&sandbox);
    let _ = way(&sandbox, &repo, 10, &["restore", "--drop"]).fails(6);
    let new = add(&sandbox, &repo, 11, "New");
    let _ = way(&sandbox, &repo, 12, &["close", &two]).ok();
    git(&sandbox, &repo, &["checkout", "--", "."]);
    assert_eq!(titles(&sandbox, &repo), ["New", "One"]);
    let dropped = way(&sandbox, &repo, 13, &["restore", "--drop", "--json"]).data();
    let mut ids: Vec<&str> =
        dropped["issues"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect();
    ids.sort_unstable();
    let mut expected = [new.as_str(), &two];
    expected.sort_unstable();
    assert_eq!((ids.as_slice(), &dropped["dropped"]), (expected.as_slice(), &true.into()));
    assert_eq!(
        (titles(&sandbox, &repo), status(&sandbox, &repo)),
        (vec!["One".to_owned(), "Two".to_owned()], String::new())
    );
    let _ = way(&sandbox, &repo, 14, &["close", &one]).ok();
    assert!(!file(&repo).contains(&new));
}

/// A commit by a program that is built on libgit2.
#[test]
fn what_libgit2_commits_is_safe() {
    let python = pygit2();
    let sandbox = sandbox();
    let (repo, ..) = repository(&sandbox);
    let _ = add(&sandbox, &repo, 10, "New");
    let script = "import pygit2; r=pygit2.Repository('.'); r.index.add('.waypost/issues.jsonl'); r.index.write(); \
                  t=r.index.write_tree(); s=pygit2.Signature('a','a@x.test'); \
                  r.create_commit('HEAD',s,s,'by libgit2',t,[r.head.target])";
    let done = run(&mut command(&sandbox, python.to_str().unwrap(), &repo), &["-c", script]);
    assert_eq!((done.code, status(&sandbox, &repo).as_str()), (0, ""), "{done:?}");
    git(&sandbox, &repo, &["reset", "-q", "--hard", "HEAD~1"]);
    assert_eq!(titles(&sandbox, &repo), ["One", "Two"]);
}

/// pre-commit saves unstaged changes as a patch, takes them back, runs hooks, and applies the patch again. If the patch does
/// not apply, it takes everything back once more.
#[test]
fn an_issue_that_is_added_while_pre_commit_runs_is_kept() {
    let program = pre_commit();
    let sandbox = sandbox();
    let (repo, one, _) = repository(&sandbox);
    let adds = "#!/bin/sh\nway add 'During the hook'\nway comment \"$ONE\" 'Said during the hook'\n";
    sandbox.program(repo.join("hook.sh"), adds);
    let config = "repos:\n- repo: local\n  hooks:\n  - {id: adds, name: adds, entry: ./hook.sh, language: system, \
                  always_run: true, pass_filenames: false}\n";
    sandbox.write(repo.join(".pre-commit-config.yaml"), config);
    commit(&sandbox, &repo, "hooks");
    let run_pre_commit = |args: &[&str]| -> Run {
        let mut command = command(&sandbox, program.to_str().unwrap(), &repo);
        run(command.env("PRE_COMMIT_HOME", sandbox.path("pre-commit")).env("ONE", &one), args)
    };
    let installed = run_pre_commit(&["install"]);
    assert_eq!(installed.code, 0, "{installed:?}");
    let before = add(&sandbox, &repo, 10, "Before the hook");
    sandbox.write(repo.join("staged"), "staged\n");
    git(&sandbox, &repo, &["add", "staged"]);
    let mut commit = command(&sandbox, "git", &repo);
    commit.env("PRE_COMMIT_HOME", sandbox.path("pre-commit")).env("ONE", &one);
    let committed = run(&mut commit, &["commit", "-q", "-m", "with a hook"]);
    assert!(committed.code == 0 || committed.stderr.contains("files were modified"), "{committed:?}");
    assert_eq!(titles(&sandbox, &repo), ["Before the hook", "During the hook", "One", "Two"]);
    assert_eq!(way(&sandbox, &repo, 20, &["close", &before]).code, 0);
    assert!(file(&repo).contains("During the hook") && file(&repo).contains("Said during the hook"));
}

#[test]
fn what_another_program_took_back_is_told_and_written_again() {
    let sandbox = sandbox();
    let (repo, one, two) = repository(&sandbox);
    let at = |minute: u32, args: &[&str]| {
        let clock = format!("2026-01-01T00:{minute:02}:00Z");
        sandbox.way_with(&repo, &[("WAYPOST_TEST_CLOCK", clock.as_ref())], args)
    };
    let _ = at(10, &["close", &one, "--reason", "done"]).ok();
    git(&sandbox, &repo, &["checkout", "--", "."]);
    let listed = at(11, &["list"]);
    assert!(listed.code == 0 && listed.stderr.contains("took back changes of 1 issue"), "{listed:?}");
    let restored = at(12, &["restore"]).ok();
    assert_eq!(restored.stdout, format!("Restored {one} One\n"));
    let _ = at(13, &["restore"]).fails(6);
    git(&sandbox, &repo, &["checkout", "--", "."]);
    let next = at(14, &["comment", &two, "Said"]);
    assert!(next.code == 0 && next.stderr.contains("wrote changes of 1 issue again"), "{next:?}");
    assert!(file(&repo).contains("\"done\""));
}
