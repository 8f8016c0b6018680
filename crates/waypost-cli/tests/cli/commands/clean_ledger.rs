//! `way clean-ledger`, and changes that are appended to large ledgers: git and other tools see each in its place.

use std::fs;
use std::path::{Path, PathBuf};

use waypost_testkit::{Run, Sandbox, strace};

use crate::support::ledger::{LEDGER, at_once};
use crate::support::merge_driver::{add, clone, commit, git, show, way};
use crate::support::sandbox;

/// The size from which on changes are appended.
const LARGE: usize = 4 * 1024 * 1024;

/// Makes the ledger of a repository large, and commits it.
fn enlarge(sandbox: &Sandbox, repo: &Path) {
    let path = repo.join(LEDGER);
    let text = fs::read_to_string(&path).unwrap_or_default();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for number in 0..5 {
        let text = "x".repeat(LARGE / 5);
        lines.push(format!(
            "{{\"id\":\"large-{number}\",\"title\":\"Large {number}\",\"description\":\"{text}\",\"status\":\"open\"}}"
        ));
    }
    lines.sort();
    sandbox.write(&path, lines.join("\n") + "\n");
    commit(sandbox, repo, "a large ledger");
    // The first change of a file without an index reads all of it.
    let _ = way(sandbox, repo, 5, &["list"]).ok();
}

/// Returns a clone with a large ledger, and two small issues of it.
fn large(sandbox: &Sandbox) -> (PathBuf, String, String) {
    let (clone, one, two) = clone(sandbox);
    enlarge(sandbox, &clone);
    (clone, one, two)
}

/// Returns the lines of the file that hold appended changes.
fn appended(repo: &Path) -> usize {
    let text = fs::read_to_string(repo.join(LEDGER)).unwrap();
    text.lines().filter(|line| line.starts_with("{\"_changes\":[")).count()
}

/// Returns the ids in a committed version of the ledger, in their order.
#[track_caller]
fn committed(sandbox: &Sandbox, repo: &Path, revision: &str) -> Vec<String> {
    let text = git(sandbox, repo, &["show", &format!("{revision}:{LEDGER}")]);
    let id = |line: &str| {
        let rest = line.strip_prefix("{\"id\":\"").unwrap_or_else(|| panic!("{line}"));
        rest.split('"').next().unwrap().to_owned()
    };
    text.lines().map(id).collect()
}

#[test]
fn git_sees_one_line_for_each_changed_issue() {
    let sandbox = sandbox();
    let (repo, one, two) = large(&sandbox);
    let new = add(&sandbox, &repo, 10, "New");
    let _ = way(&sandbox, &repo, 11, &["close", &one]).ok();
    let _ = way(&sandbox, &repo, 12, &["update", &one, "--add-label", "l"]).ok();
    assert_eq!(appended(&repo), 3);
    assert_eq!(git(&sandbox, &repo, &["diff", "--numstat"]), format!("2\t1\t{LEDGER}\n"));
    git(&sandbox, &repo, &["commit", "-q", "-a", "-m", "changes"]);
    assert_eq!(git(&sandbox, &repo, &["status", "--porcelain"]), "");
    let ids = committed(&sandbox, &repo, "HEAD");
    assert!(ids.is_sorted() && ids.contains(&new) && ids.len() == 8, "{ids:?}");
    // A checkout writes the committed version, which has nothing appended.
    git(&sandbox, &repo, &["checkout", "-q", "HEAD~1"]);
    assert_eq!((appended(&repo), &show(&sandbox, &repo, &one)["status"]), (0, &"open".into()));
    git(&sandbox, &repo, &["checkout", "-q", "main"]);
    assert_eq!((appended(&repo), &show(&sandbox, &repo, &one)["status"]), (0, &"closed".into()));
    let _ = way(&sandbox, &repo, 20, &["close", &two]).ok();
    // A command that needs the whole file puts everything in its place.
    let run = way(&sandbox, &repo, 21, &["prune", "--closed-before", "2026-06-01"]);
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(appended(&repo), 0);
}

#[test]
fn branches_with_appended_changes_merge_and_a_stash_keeps_them() {
    let sandbox = sandbox();
    let (repo, one, two) = large(&sandbox);
    git(&sandbox, &repo, &["switch", "-q", "-c", "topic"]);
    let _ = way(&sandbox, &repo, 10, &["update", &one, "--title", "Of topic"]).ok();
    let topic = add(&sandbox, &repo, 11, "New on topic");
    git(&sandbox, &repo, &["commit", "-q", "-a", "-m", "topic"]);
    git(&sandbox, &repo, &["switch", "-q", "main"]);
    // The first command after the switch reads the whole file.
    assert_eq!(way(&sandbox, &repo, 12, &["list"]).code, 0);
    let _ = way(&sandbox, &repo, 12, &["update", &two, "--title", "Of main"]).ok();
    let main = add(&sandbox, &repo, 13, "New on main");
    assert_eq!(appended(&repo), 2);
    git(&sandbox, &repo, &["stash", "-q"]);
    assert_eq!(appended(&repo), 0);
    git(&sandbox, &repo, &["stash", "pop", "-q"]);
    git(&sandbox, &repo, &["commit", "-q", "-a", "-m", "main"]);
    git(&sandbox, &repo, &["merge", "-q", "--no-edit", "topic"]);
    assert_eq!(git(&sandbox, &repo, &["status", "--porcelain"]), "");
    for (id, title) in [(&one, "Of topic"), (&two, "Of main"), (&topic, "New on topic"), (&main, "New on main")] {
        assert_eq!(show(&sandbox, &repo, id)["title"], title);
    }
    assert!(committed(&sandbox, &repo, "HEAD").is_sorted());
}

#[test]
fn sync_commits_and_pushes_appended_changes_in_their_places() {
    let sandbox = sandbox();
    let (repo, one, _) = large(&sandbox);
    git(&sandbox, &sandbox.path("origin"), &["switch", "-q", "-c", "elsewhere"]);
    let new = add(&sandbox, &repo, 10, "New");
    let _ = way(&sandbox, &repo, 11, &["close", &one]).ok();
    assert_eq!(appended(&repo), 2);
    let run = way(&sandbox, &repo, 12, &["sync", "--push-commits"]);
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(git(&sandbox, &repo, &["status", "--porcelain"]), "");
    for (place, revision) in [(&repo, "HEAD"), (&sandbox.path("origin"), "main")] {
        let ids = committed(&sandbox, place, revision);
        assert!(ids.is_sorted() && ids.contains(&new) && ids.len() == 8, "{ids:?}");
    }
    assert_eq!(show(&sandbox, &repo, &one)["status"], "closed");
    let later = add(&sandbox, &repo, 13, "Later");
    assert_eq!(show(&sandbox, &repo, &later)["title"], "Later");
}

#[test]
fn processes_that_append_at_once_lose_nothing() {
    let sandbox = sandbox();
    let (repo, ..) = large(&sandbox);
    let runs = at_once(&sandbox, &repo, 20, |number| vec!["add".to_owned(), format!("At once {number}")]);
    assert!(runs.iter().all(|run| run.status.success()), "{runs:?}");
    assert_eq!(appended(&repo), 20);
    git(&sandbox, &repo, &["commit", "-q", "-a", "-m", "all"]);
    assert_eq!(committed(&sandbox, &repo, "HEAD").len(), 27);
    assert!(!repo.join(".git/waypost/ledger.appended").exists());
}

#[test]
fn a_change_that_cannot_be_synced_or_stored_is_not_in_the_file() {
    let sandbox = sandbox();
    let (repo, ..) = large(&sandbox);
    let _ = add(&sandbox, &repo, 10, "First");
    let ledger = repo.join(LEDGER);
    let before = fs::read(&ledger).unwrap();
    for fault in ["fdatasync:error=EIO", "pwrite64:error=ENOSPC"] {
        let _ = way(&sandbox, &repo, 10, &["list"]).ok();
        let mut command = sandbox.command(strace(), &repo);
        command.args(["-f", "-o", "/dev/null", "-e", "trace=fdatasync,pwrite64", "-P"]).arg(&ledger);
        command.arg("-e").arg(format!("inject={fault}"));
        let run = Run::of(&command.args([env!("CARGO_BIN_EXE_way"), "add", "Second"]).output().unwrap());
        let run = run.fails(8);
        assert!(run.stderr.contains("cannot write the ledger"), "{fault}: {run:?}");
        assert!(fs::read(&ledger).unwrap() == before, "{fault}");
    }
    // A file that may not be written is replaced.
    let mut permissions = fs::metadata(&ledger).unwrap().permissions();
    permissions.set_readonly(true);
    fs::set_permissions(&ledger, permissions).unwrap();
    let new = add(&sandbox, &repo, 11, "Third");
    assert_eq!(show(&sandbox, &repo, &new)["title"], "Third");
}

#[test]
fn nothing_is_appended_where_another_program_would_store_it() {
    // A filter of another program, according to tracked attributes.
    let sandbox = sandbox();
    let (repo, ..) = large(&sandbox);
    sandbox.write(repo.join(".gitattributes"), format!("{LEDGER} filter=lfs\n"));
    let _ = add(&sandbox, &repo, 10, "New");
    assert_eq!(appended(&repo), 0);
    fs::remove_file(repo.join(".gitattributes")).unwrap();
    // A program that the repository names: it neither runs nor counts as ours.
    let ran = sandbox.path("ran");
    git(&sandbox, &repo, &["config", "filter.waypost.clean", &format!("touch {} #", ran.display())]);
    sandbox.write(repo.join(".git/info/attributes"), format!("/{LEDGER} filter=waypost\n"));
    let _ = add(&sandbox, &repo, 11, "New");
    assert_eq!(appended(&repo), 0);
    let _ = way(&sandbox, &repo, 12, &["sync"]);
    assert!(!ran.exists());
    // A ledger that beads created.
    let beads = sandbox.git_repo("beads");
    fs::create_dir(beads.join(".beads")).unwrap();
    let text = "x".repeat(LARGE);
    sandbox.write(
        beads.join(".beads/issues.jsonl"),
        format!("{{\"id\":\"b-1\",\"title\":\"t\",\"description\":\"{text}\"}}\n"),
    );
    let _ = way(&sandbox, &beads, 10, &["list"]).ok();
    let _ = add(&sandbox, &beads, 11, "New");
    assert_eq!(fs::read_to_string(beads.join(".beads/issues.jsonl")).unwrap().lines().count(), 2);
    assert!(!fs::read_to_string(beads.join(".beads/issues.jsonl")).unwrap().contains("_changes"));
}

#[test]
fn nothing_is_appended_without_git() {
    let sandbox = sandbox();
    for name in ["plain", "mercurial"] {
        let repo = sandbox.path(name);
        fs::create_dir(&repo).unwrap();
        if name == "mercurial" {
            let run = crate::support::merge_driver::run(&mut sandbox.command("hg", &repo), &["init"]);
            assert_eq!(run.code, 0, "{run:?}");
        }
        let _ = way(&sandbox, &repo, 0, &["init"]);
        let text = "x".repeat(LARGE);
        sandbox.write(repo.join(LEDGER), format!("{{\"id\":\"b-1\",\"title\":\"t\",\"description\":\"{text}\"}}\n"));
        let _ = way(&sandbox, &repo, 10, &["list"]).ok();
        let new = add(&sandbox, &repo, 11, "New");
        assert_eq!(appended(&repo), 0, "{name}");
        assert_eq!(show(&sandbox, &repo, &new)["title"], "New");
    }
}

#[test]
fn a_ledger_that_gets_another_filter_is_not_stored_by_ours() {
    let sandbox = sandbox();
    let (repo, one, _) = large(&sandbox);
    let _ = way(&sandbox, &repo, 10, &["close", &one]).ok();
    assert_eq!(appended(&repo), 1);
    sandbox.write(repo.join(".gitattributes"), "*.psd filter=lfs\n");
    let _ = way(&sandbox, &repo, 11, &["update", &one, "--add-label", "l"]).ok();
    assert_eq!(appended(&repo), 2);
    sandbox.write(repo.join(".gitattributes"), format!("/{LEDGER} filter=git-crypt\n"));
    let _ = way(&sandbox, &repo, 12, &["update", &one, "--add-label", "m"]).ok();
    assert_eq!(appended(&repo), 0);
    let filter = git(&sandbox, &repo, &["check-attr", "filter", "--", LEDGER]);
    assert_eq!(filter, format!("{LEDGER}: filter: git-crypt\n"));
    assert_eq!(show(&sandbox, &repo, &one)["labels"], serde_json::json!(["l", "m"]));
}

#[test]
fn nothing_is_appended_to_a_link_or_through_one() {
    let sandbox = sandbox();
    let (repo, ..) = large(&sandbox);
    fs::create_dir(repo.join("shared")).unwrap();
    fs::rename(repo.join(LEDGER), repo.join("shared/issues.jsonl")).unwrap();
    std::os::unix::fs::symlink("../shared/issues.jsonl", repo.join(LEDGER)).unwrap();
    commit(&sandbox, &repo, "a link");
    let _ = way(&sandbox, &repo, 10, &["list"]).ok();
    let _ = add(&sandbox, &repo, 11, "New");
    assert_eq!(appended(&repo), 0);
    // The attributes of the clone are a link to a file outside.
    let (other, victim) = (sandbox.git_repo("other"), sandbox.path("victim"));
    let _ = way(&sandbox, &other, 0, &["init"]);
    sandbox.write(&victim, "theirs\n");
    fs::create_dir_all(other.join(".git/info")).unwrap();
    let _ = fs::remove_file(other.join(".git/info/attributes"));
    std::os::unix::fs::symlink(&victim, other.join(".git/info/attributes")).unwrap();
    enlarge(&sandbox, &other);
    let _ = add(&sandbox, &other, 11, "New");
    assert_eq!((appended(&other), fs::read_to_string(&victim).unwrap().as_str()), (0, "theirs\n"));
}

/// A commit without the filter, for example by a tool that is built on libgit2, and then a merge without our driver.
#[test]
fn a_text_merge_of_appended_changes_loses_no_side() {
    let sandbox = sandbox();
    let (repo, one, _) = large(&sandbox);
    git(&sandbox, &repo, &["switch", "-q", "-c", "topic"]);
    let _ = way(&sandbox, &repo, 10, &["close", &one, "--reason", "done"]).ok();
    assert_eq!(appended(&repo), 1);
    let unfiltered = ["-c", "filter.waypost.clean=cat", "commit", "-q", "-a", "-m", "raw"];
    git(&sandbox, &repo, &unfiltered);
    assert!(git(&sandbox, &repo, &["show", &format!("HEAD:{LEDGER}")]).contains("_changes"));
    // For the filter, the committed file is not as it should be.
    git(&sandbox, &repo, &["switch", "-q", "--discard-changes", "main"]);
    let run = way(&sandbox, &repo, 11, &["update", &one, "--title", "Of main", "--add-label", "l"]);
    assert_eq!((run.code, appended(&repo)), (0, 0), "{run:?}");
    commit(&sandbox, &repo, "main");
    sandbox.write(repo.join(".git/info/attributes"), format!("/{LEDGER} -merge merge=union\n"));
    git(&sandbox, &repo, &["-c", "merge.default=text", "merge", "-q", "--no-edit", "topic"]);
    assert_eq!(appended(&repo), 1);
    let issue = show(&sandbox, &repo, &one);
    // Without their common ancestor, the later version of a field wins, and comments keep the other.
    assert_eq!((&issue["title"], &issue["labels"]), (&"Of main".into(), &serde_json::json!(["l"])));
    let comments = issue["comments"].to_string();
    assert!(comments.contains("status in another version: closed") && comments.contains(": done"), "{comments}");
}
