//! Workspaces of repositories that were deleted, and of other stores: they belong to the user, not to a store.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use waypost_testkit::Run;

use crate::support::jobs::{Shop, path};

/// Runs a command in a directory, with the real clock.
#[track_caller]
fn way_in(shop: &Shop, dir: &Path, args: &[&str]) -> Run {
    let mut command = shop.sandbox.way_command(dir);
    shop.sandbox.run(command.env_remove("WAYPOST_TEST_CLOCK").arg("--quiet").args(args), "")
}

fn made_in(shop: &Shop, dir: &Path, flags: &[&str]) -> (String, PathBuf) {
    let made = way_in(shop, dir, &[&["ws", "new", "--json"], flags].concat()).data();
    (made["id"].as_str().unwrap().to_owned(), path(&made["path"]).to_owned())
}

/// The workspaces that `way ws list --all` shows in a directory.
#[track_caller]
fn listed(shop: &Shop, dir: &Path) -> Vec<Value> {
    way_in(shop, dir, &["ws", "list", "--all", "--json"]).data().as_array().unwrap().clone()
}

fn registered(shop: &Shop) -> usize {
    fs::read_dir(shop.sandbox.path("home/.waypost/registry")).unwrap().count()
}

/// Deletes a repository, as a user does.
fn delete(dir: &Path) {
    assert!(Command::new("rm").arg("-rf").arg(dir).status().unwrap().success());
}

/// A repository with a commit and no remote.
fn other_repo(shop: &Shop, name: &str) -> PathBuf {
    let repo = shop.sandbox.git_repo(name);
    shop.sandbox.write(repo.join("other"), "other\n");
    shop.sandbox.git(&repo, ["add", "."]);
    shop.sandbox.git(&repo, ["commit", "--quiet", "-m", "First"]);
    repo
}

#[test]
fn the_workspaces_of_a_deleted_repository_are_listed_and_measured_from_anywhere() {
    let shop = Shop::new();
    let repo = other_repo(&shop, "gone");
    let strategies = ["clone", "worktree", "copy"];
    let made: Vec<_> = strategies.iter().map(|strategy| made_in(&shop, &repo, &["--strategy", strategy])).collect();
    let job = way_in(&shop, &repo, &["job", "start", "--json", "--", "sh", "-c", "echo work > work"]).data();
    delete(&repo);
    let elsewhere = shop.sandbox.dir("elsewhere");

    for dir in [&elsewhere, &shop.repo, &made[0].1] {
        let all = listed(&shop, dir);
        let ids: Vec<_> = all.iter().map(|one| one["id"].as_str().unwrap()).collect();
        assert_eq!(all.len(), 4, "in {}: {ids:?}", dir.display());
        assert!(made.iter().all(|(id, _)| ids.contains(&id.as_str())), "{ids:?}");
        for one in &all {
            assert_eq!((one["repository"].as_str(), one["status"].as_str()), (Some("gone"), Some("kept")), "{one}");
            assert!(one["unrecorded"].as_str().unwrap().contains("state.db is gone"), "{one}");
        }
        assert!(all.iter().any(|one| one["job_id"] == job["id"]), "{job}");
    }
    let shown = way_in(&shop, &elsewhere, &["ws", "list", "--all"]).ok().stdout;
    assert!(shown.contains("REPOSITORY") && shown.contains("4 workspaces"), "{shown}");
    // Without --all, a list is that of a store.
    assert!(way_in(&shop, &elsewhere, &["ws", "list"]).fails(2).stderr.contains("not in a repository"));
    assert_eq!(way_in(&shop, &shop.repo, &["ws", "list", "--json"]).data().as_array().unwrap().len(), 0);

    let measured = way_in(&shop, &elsewhere, &["ws", "du", "--all", "--json"]).data();
    assert_eq!(measured["workspaces"].as_array().unwrap().len(), 4, "{measured}");
    assert!(measured["workspaces"].as_array().unwrap().iter().all(|one| one["bytes"].as_u64() > Some(0)), "{measured}");
    assert!(listed(&shop, &elsewhere).iter().all(|one| one["size"].as_u64() > Some(0)), "the size is kept");

    let (id, dir) = &made[0];
    let shown = way_in(&shop, &elsewhere, &["ws", "show", id]).ok().stdout;
    assert!(shown.contains("gone") && shown.contains("that no remote has"), "{shown}");
    let whose = way_in(&shop, &elsewhere, &["ws", "whose", dir.to_str().unwrap(), "--json"]).data();
    assert_eq!(whose["id"], id.as_str());
}

#[test]
fn the_work_of_a_deleted_repository_is_saved_before_garbage_collection_removes_its_workspaces() {
    let shop = Shop::new();
    let repo = other_repo(&shop, "gone");
    let mut made = Vec::new();
    for strategy in ["clone", "worktree", "copy"] {
        let (id, dir) = made_in(&shop, &repo, &["--strategy", strategy]);
        shop.sandbox.write(dir.join("work"), strategy);
        made.push((strategy, id, dir));
    }
    delete(&repo);
    let elsewhere = shop.sandbox.dir("elsewhere");

    let gc = ["ws", "gc", "--all", "--older-than", "0s", "--json"];
    let planned = way_in(&shop, &elsewhere, &[&gc[..], &["--dry-run"]].concat()).data();
    for verdict in planned["verdicts"].as_array().unwrap() {
        assert!(verdict["goes"] == true && !verdict["saves"].as_array().unwrap().is_empty(), "{verdict}");
    }
    assert!(made.iter().all(|(_, _, dir)| dir.exists()), "a dry run removes nothing");
    // A collection without --all is that of a store, and leaves them alone.
    let _ = shop.way(["ws", "gc", "--older-than", "0s"]).ok();
    assert_eq!(listed(&shop, &elsewhere).len(), 3);

    let collected = way_in(&shop, &elsewhere, &gc).data();
    assert_eq!(collected["verdicts"].as_array().unwrap().len(), 3, "{collected}");
    assert!(made.iter().all(|(_, _, dir)| !dir.parent().unwrap().exists()), "{collected}");
    assert!(listed(&shop, &elsewhere).is_empty());
    assert_eq!(registered(&shop), 0);

    let saved = way_in(&shop, &elsewhere, &["ws", "snapshots", "--all", "--json"]).data();
    for (strategy, id, _) in &made {
        let one = saved.as_array().unwrap().iter().find(|one| one["id"] == format!("{id}-1")).unwrap_or_else(|| {
            panic!("{strategy}: {saved}");
        });
        let name = one["id"].as_str().unwrap();
        let file = if let Some(copy) = one["path"].as_str() {
            Path::new(copy).join("files/work")
        } else {
            let (bundle, clone) = (elsewhere.join("bundle"), elsewhere.join("clone"));
            let _ = way_in(&shop, &elsewhere, &["ws", "export", name, bundle.to_str().unwrap()]).ok();
            let reference = one["reference"].as_str().unwrap();
            shop.sandbox.git(&elsewhere, ["init", "--quiet", clone.to_str().unwrap()]);
            shop.sandbox.git(&clone, ["fetch", "--quiet", bundle.to_str().unwrap(), reference]);
            shop.sandbox.git(&clone, ["checkout", "--quiet", "FETCH_HEAD"]);
            assert_eq!(fs::read_to_string(clone.join("other")).unwrap(), "other\n");
            clone.join("work")
        };
        assert_eq!(fs::read_to_string(&file).unwrap(), *strategy, "{}", file.display());
    }
    let name = format!("{}-1", made[0].1);
    let _ = way_in(&shop, &elsewhere, &["ws", "snapshots", "--remove", &name]).ok();
    let left = way_in(&shop, &elsewhere, &["ws", "snapshots", "--all", "--json"]).data();
    assert_eq!(left.as_array().unwrap().len(), 2, "{left}");
}

#[test]
fn a_workspace_of_a_deleted_repository_is_saved_and_removed_by_its_id_its_job_or_a_path_in_it() {
    let shop = Shop::new();
    let repo = other_repo(&shop, "gone");
    let (by_id, _) = made_in(&shop, &repo, &[]);
    let (_, in_worktree) = made_in(&shop, &repo, &["--strategy", "worktree"]);
    let job = way_in(&shop, &repo, &["job", "start", "--json", "--", "sh", "-c", "echo work > work"]).data();
    delete(&repo);
    let elsewhere = shop.sandbox.dir("elsewhere");

    for reference in [by_id.as_str(), in_worktree.to_str().unwrap(), job["id"].as_str().unwrap()] {
        // Nothing else has the commits of the deleted repository.
        let refused = way_in(&shop, &elsewhere, &["ws", "rm", reference]).fails(7).stderr;
        assert!(refused.contains("that no remote has") || refused.contains("is gone"), "{refused}");
        assert!(refused.contains("--force saves"), "{refused}");
        let saved = way_in(&shop, &elsewhere, &["ws", "snapshot", reference, "--json"]).data();
        let removed = way_in(&shop, &elsewhere, &["ws", "rm", "--force", reference, "--json"]).data();
        assert!(removed[0]["saved_as"].as_str().is_some_and(|name| name.ends_with("-2")), "{saved} {removed}");
        assert!(!path(&removed[0]["workspace"]["path"]).exists(), "{removed}");
    }
    let all = way_in(&shop, &elsewhere, &["ws", "snapshots", "--all", "--json"]).data();
    assert_eq!(all.as_array().unwrap().len(), 6, "{all}");
    assert_eq!(registered(&shop), 0);
}

#[test]
fn a_clean_workspace_whose_commits_a_remote_has_is_removed_without_a_snapshot() {
    let shop = Shop::new();
    shop.sandbox.git(&shop.repo, ["remote", "set-head", "origin", "main"]);
    let _ = shop.way(["ws", "new"]).ok();
    let elsewhere = shop.sandbox.dir("elsewhere");
    delete(&shop.repo);
    let collected = way_in(&shop, &elsewhere, &["ws", "gc", "--all", "--older-than", "0s", "--json"]).data();
    assert_eq!(collected["verdicts"][0]["goes"], true, "{collected}");
    assert!(collected["verdicts"][0].get("saves").is_none(), "{collected}");
    assert!(listed(&shop, &elsewhere).is_empty());
    assert_eq!(way_in(&shop, &elsewhere, &["ws", "snapshots", "--all", "--json"]).data().as_array().unwrap().len(), 0);
}

#[test]
fn copies_of_a_deleted_directory_without_version_control_are_collected() {
    let shop = Shop::new();
    let plain = shop.sandbox.dir("plain");
    shop.sandbox.write(plain.join("text"), "text\n");
    let _ = way_in(&shop, &plain, &["init"]).ok();
    let (id, dir) = made_in(&shop, &plain, &[]);
    delete(&plain);
    let elsewhere = shop.sandbox.dir("elsewhere");

    let pinned = way_in(&shop, &elsewhere, &["ws", "pin", &id, "--json"]).data();
    assert_eq!(pinned["is_pinned"], true);
    let gc = ["ws", "gc", "--all", "--older-than", "0s", "--json"];
    let kept = way_in(&shop, &elsewhere, &gc).data();
    assert_eq!(kept["verdicts"][0]["why"], "it is pinned", "{kept}");
    assert!(dir.join("text").exists());
    let _ = way_in(&shop, &elsewhere, &["ws", "unpin", &id]).ok();
    let collected = way_in(&shop, &elsewhere, &gc).data();
    assert_eq!(collected["verdicts"][0]["goes"], true, "{collected}");
    assert!(!dir.exists());
    let copy = shop.sandbox.path(format!("home/.waypost/saved/{id}-1/files/text"));
    assert_eq!(fs::read_to_string(copy).unwrap(), "text\n");
}

#[test]
fn the_total_size_of_workspaces_counts_those_of_deleted_repositories() {
    let shop = Shop::new();
    let repo = other_repo(&shop, "gone");
    let (id, dir) = made_in(&shop, &repo, &[]);
    shop.sandbox.write(dir.join("large"), vec![b'x'; 3 << 20]);
    delete(&repo);

    let limit = ["--config", "workspaces.total=2MB"];
    let refused = shop.run(&[&limit[..], &["ws", "new"]].concat()).fails(7).stderr;
    assert!(refused.contains("the limit is 2") && refused.contains("ws gc --all"), "{refused}");
    assert!(dir.exists());
    let evict = [&limit[..], &["--config", "workspaces.policy=evict", "ws", "new"]].concat();
    let _ = shop.run(&evict).ok();
    assert!(!dir.exists(), "the oldest workspace makes room");
    let saved = shop.way(["ws", "snapshots", "--all", "--json"]).data();
    assert_eq!(saved[0]["id"], format!("{id}-1"), "{saved}");
}

#[test]
fn workspaces_of_another_store_are_listed_and_removed_there() {
    let shop = Shop::new();
    let repo = other_repo(&shop, "other");
    let (kept, _) = made_in(&shop, &repo, &[]);
    let (pinned, pinned_dir) = made_in(&shop, &repo, &[]);
    let _ = way_in(&shop, &repo, &["ws", "pin", &pinned]).ok();

    let all = listed(&shop, &shop.repo);
    assert_eq!(all.len(), 2, "{all:?}");
    for one in &all {
        assert_eq!(path(&one["store"]), repo.join(".git/waypost/state.db"), "{one}");
        assert!(one.get("unrecorded").is_none() && one["repository"] == "other", "{one}");
    }
    let collected = shop.way(["ws", "gc", "--all", "--older-than", "0s", "--json"]).data();
    let verdicts = collected["verdicts"].as_array().unwrap();
    let of = |id: &str| verdicts.iter().find(|verdict| verdict["workspace"]["id"] == id).unwrap();
    assert_eq!((&of(&kept)["goes"], &of(&pinned)["goes"]), (&true.into(), &false.into()), "{collected}");
    let left = way_in(&shop, &repo, &["ws", "list", "--json"]).data();
    assert_eq!((left.as_array().unwrap().len(), &left[0]["id"]), (1, &pinned.clone().into()), "{left}");
    let gone = way_in(&shop, &repo, &["ws", "show", &kept, "--json"]).data();
    assert_eq!(gone["workspace"]["status"], "removed", "its own store knows it");

    // The row is the authority: a job in the workspace of another store is not disturbed.
    assert!(shop.way(["ws", "rm", &pinned]).fails(7).stderr.contains("pinned"));
    assert!(pinned_dir.exists());
    assert_eq!(registered(&shop), 1);
}

#[test]
fn a_workspace_stays_whose_store_cannot_be_used() {
    let shop = Shop::new();
    let repo = other_repo(&shop, "other");
    let (id, dir) = made_in(&shop, &repo, &[]);
    let store = repo.join(".git/waypost/state.db");
    for journal in ["state.db-wal", "state.db-shm"] {
        let _ = fs::remove_file(store.with_file_name(journal));
    }
    shop.sandbox.write(&store, "no database");
    let all = listed(&shop, &shop.repo);
    assert!(all[0]["unrecorded"].as_str().is_some_and(|why| why.contains("state.db")), "{all:?}");
    let collected = shop.way(["ws", "gc", "--all", "--older-than", "0s", "--json"]).data();
    assert_eq!(collected["verdicts"][0]["goes"], false, "{collected}");
    assert!(shop.way(["ws", "rm", "--force", &id]).fails(7).stderr.contains("cannot be used"));
    assert!(dir.join("other").exists());
}

#[test]
fn pools_and_clones_of_other_repositories_outlive_the_repository_that_asked_for_them() {
    let shop = Shop::new();
    let repo = other_repo(&shop, "gone");
    let _ = way_in(&shop, &repo, &["ws", "warm", "1"]).ok();
    let (_, cloned) = made_in(&shop, &repo, &["--remote", shop.remote.to_str().unwrap()]);
    assert_eq!(registered(&shop), 2);
    // A clone of another repository does not work for the one that asked for it.
    assert!(way_in(&shop, &cloned, &["where"]).ok().stdout.contains(cloned.to_str().unwrap()));
    delete(&repo);
    assert_eq!(listed(&shop, &shop.repo).len(), 2);
    let _ = shop.way(["ws", "gc", "--all", "--older-than", "0s"]).ok();
    assert_eq!((listed(&shop, &shop.repo).len(), registered(&shop)), (0, 0));
    assert!(!cloned.exists());
}
