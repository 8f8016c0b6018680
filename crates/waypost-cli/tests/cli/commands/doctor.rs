//! `way doctor`: damage that is found, and repaired if asked.

use std::fs;
use std::path::Path;

use crate::support::jobs::Shop;
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
