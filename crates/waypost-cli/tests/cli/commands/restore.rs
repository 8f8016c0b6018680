//! `way restore`, and other programs that take back changes of the ledger: no acknowledged change is lost, and none comes back
//! after it was removed.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::json;
use waypost_testkit::{Run, Sandbox, pre_commit, pygit2};

use crate::support::ledger::LEDGER;
use crate::support::merge_driver::{add, command, commit, git, run, show, way};
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
fn a_change_that_git_takes_back_is_shown_and_written_again_by_the_next_change() {
    for take_back in [&["checkout", "--", "."][..], &["reset", "-q", "--hard"], &["restore", "."]] {
        let sandbox = sandbox();
        let (repo, one, two) = repository(&sandbox);
        let new = add(&sandbox, &repo, 10, "New");
        let _ = way(&sandbox, &repo, 11, &["close", &one, "--reason", "done"]).ok();
        git(&sandbox, &repo, take_back);
        let listed = way(&sandbox, &repo, 12, &["list"]);
        assert_eq!(listed.code, 0, "{listed:?}");
        assert!(listed.stdout.contains("New") && !listed.stdout.contains("One"), "{listed:?}");
        assert!(listed.stderr.contains("took back changes of 2 issues"), "{listed:?}");
        assert_eq!(show(&sandbox, &repo, &one)["close_reason"], "done");
        assert_eq!((status(&sandbox, &repo).as_str(), file(&repo).contains(&new)), ("", false));
        let next = way(&sandbox, &repo, 13, &["comment", &two, "Said"]);
        assert!(next.code == 0 && next.stderr.contains("wrote changes of 2 issues again"), "{next:?}");
        assert!(file(&repo).contains(&new) && file(&repo).contains("\"done\""));
        assert_eq!(way(&sandbox, &repo, 14, &["list"]).stderr, "");
        // What is committed stays taken back.
        commit(&sandbox, &repo, "changes");
        git(&sandbox, &repo, &["reset", "-q", "--hard", "HEAD~1"]);
        assert_eq!(titles(&sandbox, &repo), ["One", "Two"]);
    }
}

#[test]
fn what_was_removed_on_purpose_does_not_come_back_with_a_checkout() {
    let sandbox = sandbox();
    let (repo, one, two) = repository(&sandbox);
    let fields = ["update", &one, "--add-label", "l", "--assignee", "kim", "--description", "text"];
    let _ = way(&sandbox, &repo, 10, &fields).ok();
    let _ = way(&sandbox, &repo, 11, &["dep", "add", &one, &two]).ok();
    commit(&sandbox, &repo, "with fields");
    let removed = ["update", &one, "--remove-label", "l", "--assignee", "", "--description", ""];
    let _ = way(&sandbox, &repo, 12, &removed).ok();
    let _ = way(&sandbox, &repo, 13, &["dep", "remove", &one, &two]).ok();
    let _ = way(&sandbox, &repo, 14, &["delete", &two]).ok();
    git(&sandbox, &repo, &["checkout", "--", "."]);
    let check = || {
        let issue = show(&sandbox, &repo, &one);
        for field in ["labels", "assignee", "description", "dependencies"] {
            let value = &issue[field];
            assert!(value.is_null() || value == &json!([]) || value == "", "{field}: {value}");
        }
        assert_eq!(titles(&sandbox, &repo), ["One"]);
    };
    check();
    let run = way(&sandbox, &repo, 15, &["restore"]);
    assert_eq!(run.code, 0, "{run:?}");
    check();
    assert!(file(&repo).contains("tombstone") && !file(&repo).contains("kim"));
    let _ = way(&sandbox, &repo, 16, &["restore"]).fails(6);
}

#[test]
fn an_editor_that_saves_an_old_buffer_takes_nothing_back_and_brings_nothing_back() {
    let sandbox = sandbox();
    let (repo, one, _) = repository(&sandbox);
    let _ = way(&sandbox, &repo, 10, &["update", &one, "--add-label", "l"]).ok();
    let buffer = file(&repo);
    let _ = way(&sandbox, &repo, 11, &["update", &one, "--remove-label", "l"]).ok();
    let new = add(&sandbox, &repo, 12, "New");
    // The person changed a title in the old buffer.
    sandbox.write(repo.join(LEDGER), buffer.replace("\"Two\"", "\"Two, edited\""));
    assert_eq!(titles(&sandbox, &repo), ["New", "One", "Two, edited"]);
    let issue = show(&sandbox, &repo, &one);
    assert!(issue["labels"].is_null() || issue["labels"] == json!([]), "{issue}");
    let _ = way(&sandbox, &repo, 13, &["restore"]).ok();
    assert!(file(&repo).contains(&new) && file(&repo).contains("Two, edited"));
    // An edit of the newest version stays as it is.
    sandbox.write(repo.join(LEDGER), file(&repo).replace("\"New\"", "\"New, edited\""));
    let listed = way(&sandbox, &repo, 14, &["list"]);
    assert!(listed.stdout.contains("New, edited") && listed.stderr.is_empty(), "{listed:?}");
}

#[test]
fn a_program_that_writes_every_line_in_its_own_spelling_takes_nothing_back() {
    let sandbox = sandbox();
    let (repo, one, _) = repository(&sandbox);
    let _ = way(&sandbox, &repo, 10, &["update", &one, "--add-label", "l", "--add-label", "m"]).ok();
    let _ = way(&sandbox, &repo, 11, &["update", &one, "--remove-label", "l"]).ok();
    let _ = add(&sandbox, &repo, 12, "New");
    let python = "import json; p='.waypost/issues.jsonl'; lines=[json.dumps(json.loads(l)) for l in open(p)]; \
                  open(p,'w').write('\\n'.join(lines)+'\\n')";
    let programs: [(&str, &[&str]); 4] = [
        ("python3", &["-c", python]),
        ("sed", &["-i", "s/:/: /", LEDGER]),
        ("sh", &["-c", "jq -S -c . .waypost/issues.jsonl > new && mv new .waypost/issues.jsonl"]),
        ("sed", &["-i", "s/\"New\"/\"Renamed\"/", LEDGER]),
    ];
    for (program, args) in programs {
        let done = run(&mut command(&sandbox, program, &repo), args);
        assert_eq!(done.code, 0, "{program}: {done:?}");
        let written = file(&repo);
        let listed = way(&sandbox, &repo, 13, &["list"]);
        assert!(listed.code == 0 && listed.stderr.is_empty(), "{program}: {listed:?}");
        assert_eq!(show(&sandbox, &repo, &one)["labels"], json!(["m"]), "{program}");
        assert_eq!(file(&repo), written, "{program}");
    }
    assert_eq!(titles(&sandbox, &repo), ["One", "Renamed", "Two"]);
    let _ = way(&sandbox, &repo, 14, &["close", &one]).ok();
    assert_eq!(file(&repo).lines().count(), 3);
}

#[test]
fn what_a_stash_or_another_branch_has_is_safe_and_does_not_stay() {
    let sandbox = sandbox();
    let (repo, one, _) = repository(&sandbox);
    let _ = add(&sandbox, &repo, 10, "Stashed");
    git(&sandbox, &repo, &["stash", "-q"]);
    let listed = way(&sandbox, &repo, 11, &["list"]);
    assert!(!listed.stdout.contains("Stashed") && listed.stderr.is_empty(), "{listed:?}");
    assert_eq!(status(&sandbox, &repo), "");
    git(&sandbox, &repo, &["stash", "drop", "-q"]);
    let _ = way(&sandbox, &repo, 12, &["comment", &one, "Said"]).ok();
    assert_eq!(titles(&sandbox, &repo), ["One", "Two"]);
    git(&sandbox, &repo, &["switch", "-q", "-c", "topic"]);
    let _ = add(&sandbox, &repo, 13, "Of topic");
    commit(&sandbox, &repo, "topic");
    git(&sandbox, &repo, &["switch", "-q", "main"]);
    assert_eq!(titles(&sandbox, &repo), ["One", "Two"]);
    git(&sandbox, &repo, &["switch", "-q", "topic"]);
    assert_eq!(titles(&sandbox, &repo), ["Of topic", "One", "Two"]);
    // A rebase and an amended commit write the file, too.
    git(&sandbox, &repo, &["commit", "-q", "--amend", "-m", "amended"]);
    git(&sandbox, &repo, &["rebase", "-q", "main"]);
    assert_eq!((titles(&sandbox, &repo).len(), status(&sandbox, &repo).as_str()), (3, ""));
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
    sandbox.write(repo.join("hook.sh"), adds);
    fs::set_permissions(repo.join("hook.sh"), fs::Permissions::from_mode(0o755)).unwrap();
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
fn another_filter_that_arrives_later_decides_what_is_committed() {
    let sandbox = sandbox();
    let (repo, one, _) = repository(&sandbox);
    git(&sandbox, &repo, &["config", "filter.upper.clean", "tr a-z A-Z"]);
    git(&sandbox, &repo, &["config", "filter.upper.smudge", "cat"]);
    sandbox.write(repo.join(".gitattributes"), format!("/{LEDGER} filter=upper\n"));
    let _ = way(&sandbox, &repo, 10, &["update", &one, "--title", "secret"]).ok();
    commit(&sandbox, &repo, "filtered");
    assert!(git(&sandbox, &repo, &["show", &format!("HEAD:{LEDGER}")]).contains("SECRET"));
    assert_eq!((show(&sandbox, &repo, &one)["title"].as_str(), status(&sandbox, &repo).as_str()), (Some("secret"), ""));
}

#[test]
fn a_ledger_that_a_former_version_appended_to_is_read_and_its_filter_is_removed() {
    let sandbox = sandbox();
    let (repo, one, _) = repository(&sandbox);
    let attributes = repo.join(".git/info/attributes");
    sandbox.write(&attributes, format!("*.png binary\n/{LEDGER} filter=waypost\n"));
    git(&sandbox, &repo, &["config", "filter.waypost.clean", "'/nowhere/way' clean-ledger"]);
    let appended = "{\"_changes\":[{\"to\":{\"id\":\"z-1\",\"title\":\"Appended\",\"status\":\"open\"}}]}\n";
    sandbox.write(repo.join(LEDGER), file(&repo) + appended);
    assert_eq!(titles(&sandbox, &repo), ["Appended", "One", "Two"]);
    let _ = way(&sandbox, &repo, 10, &["close", &one]).ok();
    assert!(!file(&repo).contains("_changes") && file(&repo).lines().count() == 3);
    assert_eq!(fs::read_to_string(&attributes).unwrap(), "*.png binary\n");
    let setting = run(&mut command(&sandbox, "git", &repo), &["config", "filter.waypost.clean"]);
    assert_eq!((setting.code, setting.stdout.as_str()), (1, ""));
    assert_eq!(status(&sandbox, &repo), format!(" M {LEDGER}\n"));
}

#[test]
fn a_worktree_with_its_ledger_elsewhere_keeps_changes_too() {
    let sandbox = sandbox();
    let (repo, ..) = repository(&sandbox);
    git(&sandbox, &repo, &["worktree", "add", "-q", "../linked", "-b", "linked"]);
    let linked = sandbox.path("linked");
    let new = add(&sandbox, &linked, 10, "From the worktree");
    git(&sandbox, &repo, &["checkout", "--", "."]);
    assert_eq!(titles(&sandbox, &linked), ["From the worktree", "One", "Two"]);
    assert_eq!(way(&sandbox, &linked, 11, &["close", &new]).code, 0);
    assert!(file(&repo).contains(&new));
}
