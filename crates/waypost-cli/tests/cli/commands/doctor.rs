//! `way doctor`: damage that is found, and repaired if asked.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::support::jobs::Shop;
use crate::support::merge_driver::{add, commit, git, way};
use crate::support::mirrors::{broken, empty, is_restored, mirror, saved};
use crate::support::sandbox;

#[test]
fn a_garbled_id_is_reported_as_damage() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let _ = sandbox.way(&repo, ["status"]).ok();
    sandbox.write(repo.join(".git/waypost/worktree-id"), "wt_nonsense!\n");
    let run = sandbox.way(&repo, ["where"]).fails(9);
    assert!(run.stderr.contains("does not hold an id"), "{}", run.stderr);
    let _ = sandbox.way(&repo, ["db", "probe"]).fails(9);
    let doctor = sandbox.way(&repo, ["doctor"]);
    assert!(doctor.code == 9 && doctor.stdout.contains("way doctor --fix restores wt_"), "{doctor:?}");
}

#[test]
fn doctor_restores_the_id_of_a_worktree() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let _ = sandbox.way(&repo, ["worktree", "add", "topic"]).ok();
    let topic = sandbox.path("repo-topic");
    let ids = |dir: &Path| {
        let data = sandbox.way(dir, ["where", "--json"]).data();
        (data["repository"]["id"].clone(), data["worktree"]["id"].clone())
    };
    let before = (ids(&repo), ids(&topic));
    sandbox.write(repo.join(".git/waypost/repository-id"), "");
    sandbox.write(repo.join(".git/waypost/worktree-id"), "nonsense");
    sandbox.write(repo.join(".git/worktrees/repo-topic/waypost/worktree-id"), "\0\0\0");
    for dir in [&repo, &topic] {
        let _ = sandbox.way(dir, ["where"]).fails(9);
        let _ = sandbox.way(dir, ["doctor", "--fix"]).ok();
    }
    assert_eq!((ids(&repo), ids(&topic)), before);
}

#[test]
fn doctor_finds_a_damaged_mirror_and_repairs_it_if_asked() {
    let shop = Shop::new();
    let snapshot = saved(&shop);
    let mirror = mirror(&shop);
    assert!(!shop.way(["doctor"]).ok().stdout.contains("damaged"));
    empty(&mirror.join("HEAD"));
    let found = broken(&shop, &["doctor"]);
    assert!(found.contains("HEAD") && found.contains("way doctor --fix"), "{found}");
    assert_eq!(fs::read(mirror.join("HEAD")).unwrap(), b"", "only --fix repairs");
    assert!(shop.way(["doctor", "--fix"]).ok().stdout.contains("repaired"));
    let _ = shop.way(["doctor"]).ok();
    is_restored(&shop, &snapshot);
}

#[test]
fn doctor_names_the_issues_whose_changes_another_program_took_back() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let _ = way(&sandbox, &repo, 0, &["init"]).ok();
    let one = add(&sandbox, &repo, 1, "One");
    commit(&sandbox, &repo, "ledger");
    let _ = way(&sandbox, &repo, 2, &["close", &one]).ok();
    let two = add(&sandbox, &repo, 3, "Two");
    let says = "took back changes of 2 issues";
    assert!(!way(&sandbox, &repo, 4, &["doctor"]).ok().stdout.contains(says));
    git(&sandbox, &repo, &["checkout", "--", "."]);
    let found = way(&sandbox, &repo, 5, &["doctor"]).ok().stdout;
    assert!(found.contains(says) && found.contains(&one) && found.contains(&two), "{found}");
    let _ = way(&sandbox, &repo, 6, &["restore"]).ok();
    assert!(!way(&sandbox, &repo, 7, &["doctor"]).ok().stdout.contains(says));
}

#[test]
fn doctor_takes_the_store_away_from_other_users() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let _ = sandbox.way(&repo, ["db", "probe"]).ok();
    let state = repo.join(".git/waypost/state.db");
    std::fs::set_permissions(&state, std::fs::Permissions::from_mode(0o644)).unwrap();
    let found = |args: &[&str]| {
        let findings = sandbox.way(&repo, args).data();
        let findings = findings.as_array().unwrap();
        findings.iter().find(|finding| finding["check"] == "permissions").unwrap()["verdict"].clone()
    };
    assert_eq!(found(&["doctor", "--json"]), "warning");
    assert_eq!(found(&["doctor", "--json", "--fix"]), "fixed");
    assert_eq!(std::fs::metadata(&state).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(found(&["doctor", "--json"]), "ok");
}

#[test]
fn a_ledger_that_was_deleted_is_found() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let _ = sandbox.way(&repo, ["add", "One"]).ok();
    sandbox.git(&repo, ["add", "-A"]);
    sandbox.git(&repo, ["commit", "-q", "-m", "issues"]);
    std::fs::remove_file(repo.join(".waypost/issues.jsonl")).unwrap();
    let listed = sandbox.way(&repo, ["list"]);
    let doctor = sandbox.way(&repo, ["doctor"]);
    assert_eq!((listed.code, doctor.code), (8, 8), "{listed:?} {doctor:?}");
    let has_row = |line: &str| line.split_whitespace().take(2).eq(["broken", "ledger"]);
    assert!(doctor.stdout.lines().any(has_row), "{}", doctor.stdout);
}
