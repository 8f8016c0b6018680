//! Snapshots: no workspace is removed before its work is saved, and objects it borrows stay.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::jobs::{Shop, path};
use crate::support::moment_ms;

/// All files, links and directories of a tree with their content, without the version control tool's own directory.
fn files(root: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut dirs = vec![root.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()) {
            let metadata = entry.symlink_metadata().unwrap();
            let content = if metadata.is_symlink() {
                fs::read_link(&entry).unwrap().display().to_string()
            } else if metadata.is_dir() {
                dirs.push(entry.clone());
                String::new()
            } else {
                String::from_utf8_lossy(&fs::read(&entry).unwrap()).into_owned()
            };
            found.insert(
                entry.strip_prefix(root).unwrap().to_owned(),
                format!("{:o} {content}", metadata.mode() & 0o170_777),
            );
        }
    }
    found.retain(|path, _| ![".git", ".hg", ".jj"].iter().any(|own| path.starts_with(own)));
    found
}

fn made(shop: &Shop, strategy: &str) -> (String, PathBuf) {
    let made = shop.way(["ws", "new", "--strategy", strategy, "--json"]).data();
    (made["id"].as_str().unwrap().to_owned(), path(&made["path"]).to_owned())
}

/// Makes one change of every kind.
fn work(shop: &Shop, workspace: &Path) {
    shop.sandbox.write(workspace.join("file"), "changed\n");
    fs::create_dir(workspace.join("deep")).unwrap();
    shop.sandbox.write(workspace.join("deep/new"), "new\n");
    shop.sandbox.write(workspace.join("ignored"), "ignored\n");
    std::os::unix::fs::symlink("deep/new", workspace.join("link")).unwrap();
}

#[test]
fn p22_p27_commits_on_other_branches_and_stashes_are_saved_with_the_rest() {
    let shop = Shop::new();
    let (id, workspace) = made(&shop, "clone");
    let git = |args: &[&str]| shop.sandbox.git(&workspace, args);
    git(&["checkout", "--quiet", "-b", "topic"]);
    shop.sandbox.write(workspace.join("topic"), "topic\n");
    git(&["add", "topic"]);
    git(&["commit", "--quiet", "-m", "On a topic"]);
    git(&["tag", "-a", "v1", "-m", "Version"]);
    git(&["checkout", "--quiet", "-"]);
    for number in ["first", "second"] {
        shop.sandbox.write(workspace.join("file"), format!("{number}\n"));
        git(&["stash", "push", "--quiet", "-m", number]);
    }
    assert!(shop.way(["ws", "rm", &id]).fails(7).stderr.contains("commits that no remote has"));
    let removed = shop.way(["ws", "rm", &id, "--force", "--json"]).data();
    let saved = removed[0]["saved_as"].as_str().unwrap();
    let listed = shop.way(["ws", "snapshots"]).ok().stdout;
    assert!(listed.contains("heads/topic") && listed.contains("stash/"), "{listed}");
    let restored = shop.way(["ws", "restore", saved, "--json"]).data();
    let restored = path(&restored["workspace"]["path"]);
    let git = |args: &[&str]| shop.sandbox.git(restored, args);
    assert_eq!(git(&["show", "topic:topic"]), "topic\n");
    assert_eq!(git(&["cat-file", "-t", "v1"]), "tag\n");
    assert_eq!(git(&["show", "stash@{0}:file"]), "second\n");
    assert_eq!(git(&["show", "stash@{1}:file"]), "first\n");
    // The export is one file, from which git can fetch the commits.
    let bundle = shop.sandbox.path("saved.bundle");
    let _ = shop.way(["ws", "export", saved, bundle.to_str().unwrap()]).ok();
    let heads = shop.sandbox.git(&shop.repo, ["bundle", "list-heads", bundle.to_str().unwrap()]);
    assert!(heads.contains("heads/topic") && heads.contains("stash/"), "{heads}");
    // An existing file is not overwritten.
    shop.sandbox.git(restored, ["branch", "--force", "topic", "HEAD"]);
    let into = restored.parent().unwrap().file_name().unwrap().to_str().unwrap();
    let again = shop.way(["ws", "restore", saved, "--into", into]).ok();
    let kept = again.stdout.lines().find(|line| line.starts_with("Kept the existing"));
    assert!(kept.is_some_and(|kept| kept.contains("heads/topic")), "{}", again.stdout);
}

#[test]
fn p27_a_workspace_in_the_middle_of_a_merge_is_saved_with_its_conflicts() {
    let shop = Shop::new();
    let (id, workspace) = made(&shop, "clone");
    for (branch, content) in [("one", "this\n"), ("other", "that\n")] {
        shop.sandbox.git(&workspace, ["checkout", "--quiet", "-b", branch, &format!("waypost/{id}")]);
        shop.sandbox.write(workspace.join("file"), content);
        shop.sandbox.git(&workspace, ["commit", "--quiet", "-am", branch]);
    }
    let merged = shop.sandbox.command("git", &workspace).args(["merge", "--quiet", "one"]).output().unwrap();
    assert!(!merged.status.success());
    let conflict = fs::read_to_string(workspace.join("file")).unwrap();
    assert!(conflict.contains("<<<<<<<") && conflict.contains("this") && conflict.contains("that"));
    assert!(shop.way(["ws", "rm", &id]).fails(7).stderr.contains("a merge under way"));
    let removed = shop.way(["ws", "rm", &id, "--force", "--json"]).data();
    let restored = shop.way(["ws", "restore", removed[0]["saved_as"].as_str().unwrap(), "--json"]).data();
    let restored = path(&restored["workspace"]["path"]);
    assert_eq!(fs::read_to_string(restored.join("file")).unwrap(), conflict);
    assert_eq!(shop.sandbox.git(restored, ["show", "one:file"]), "this\n");
    assert_eq!(shop.sandbox.git(restored, ["show", "HEAD:file"]), "that\n");
}

#[test]
fn p27_a_workspace_that_cannot_be_saved_is_not_removed_by_force() {
    let shop = Shop::new();
    for strategy in ["clone", "worktree"] {
        let (id, workspace) = made(&shop, strategy);
        let inner = workspace.join("inner");
        shop.sandbox.git(&workspace, ["init", "--quiet", "inner"]);
        shop.sandbox.write(inner.join("precious"), "precious\n");
        let dry_run = shop.way(["ws", "rm", &id, "--force", "--dry-run"]).ok();
        assert!(dry_run.stdout.contains("Would keep"), "{}", dry_run.stdout);
        let refused = shop.way(["ws", "rm", &id, "--force"]).fails(7);
        assert!(refused.stderr.contains("another repository in it, ") && refused.stderr.contains("--discard"));
        assert!(inner.join("precious").exists());
        assert!(shop.way(["ws", "rm", &id, "--discard", "--dry-run"]).ok().stdout.contains("Would remove"));
        let _ = shop.way(["ws", "rm", &id, "--discard"]).ok();
        assert!(!workspace.exists());
    }
}

/// Saves, damages and restores a workspace that has no mirror, and makes another from the snapshot.
fn is_restored_as_files(shop: &Shop, strategy: &str) {
    let (id, workspace) = made(shop, strategy);
    work(shop, &workspace);
    let content = files(&workspace);
    let saved = shop.way(["ws", "snapshot", &id, "--json"]).data();
    let name = saved["id"].as_str().unwrap();
    fs::remove_file(workspace.join("file")).unwrap();
    fs::remove_file(workspace.join("deep/new")).unwrap();
    fs::remove_dir(workspace.join("deep")).unwrap();
    shop.sandbox.write(workspace.join("more"), "more\n");
    let ruined = files(&workspace);
    let restored = shop.way(["ws", "restore", name, "--into", &id, "--json"]).data();
    assert_eq!(files(&workspace), content, "{strategy}");
    let before = restored["restored"]["before"]["id"].as_str().unwrap();
    let other = shop.way(["ws", "restore", before, "--json"]).data();
    assert_eq!(files(path(&other["workspace"]["path"])), ruined, "{strategy}");
    assert_eq!(other["workspace"]["strategy"], strategy);
    let listed = shop.way(["ws", "snapshots"]).ok().stdout;
    assert!(listed.contains(name) && listed.contains(before), "{listed}");
}

#[test]
fn p22_a_worktree_is_saved_as_files_and_not_in_the_repository() {
    let shop = Shop::new();
    let refs = || shop.sandbox.git(&shop.repo, ["for-each-ref", "--exclude=refs/heads/waypost"]);
    let before = refs();
    is_restored_as_files(&shop, "worktree");
    assert_eq!(refs(), before);
}

#[test]
fn p22_a_workspace_of_jj_is_saved_as_files() {
    let shop = Shop::new();
    let repo = shop.sandbox.jj_repo("jj", true);
    shop.sandbox.write(repo.join("file"), "one\n");
    shop.sandbox.jj(&repo, ["commit", "-m", "One"]);
    is_restored_as_files(&Shop { sandbox: shop.sandbox, repo, remote: shop.remote }, "jj");
}

/// Saves, damages, restores, removes and restores a workspace that has no mirror.
fn comes_back_as_files(shop: &Shop, strategy: &str) {
    let (id, workspace) = made(shop, strategy);
    work(shop, &workspace);
    let content = files(&workspace);
    let saved = shop.way(["ws", "snapshot", &id, "--json"]).data();
    let name = saved["id"].as_str().unwrap();
    assert_eq!(files(&path(&saved["path"]).join("files")), content);
    fs::remove_file(workspace.join("deep/new")).unwrap();
    shop.sandbox.write(workspace.join("more"), "more\n");
    let ruined = files(&workspace);
    let restored = shop.way(["ws", "restore", name, "--into", &id, "--json"]).data();
    assert_eq!(files(&workspace), content);
    let before = restored["restored"]["before"]["id"].as_str().unwrap();
    let _ = shop.way(["ws", "restore", before, "--into", &id]).ok();
    assert_eq!(files(&workspace), ruined);

    let _ = shop.way(["ws", "rm", &id]).fails(7);
    let removed = shop.way(["ws", "rm", &id, "--force", "--json"]).data();
    let last = removed[0]["saved_as"].as_str().unwrap();
    assert!(!workspace.exists() && removed[0]["restored_by"] == format!("way ws restore {last}"), "{removed}");
    assert_eq!(removed[0]["workspace"]["status"], "snapshotted");
    let listed = shop.way(["ws", "snapshots", "--json"]).data();
    let listed: Vec<_> = listed.as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect();
    for one in [name, before, last] {
        assert!(listed.contains(&one), "{one}: {listed:?}");
    }
    let refused = shop.way(["ws", "export", last, "file"]).fails(7);
    assert!(refused.stderr.contains("its files are in "), "{}", refused.stderr);
    let back = shop.way(["ws", "restore", last, "--json"]).data();
    assert_eq!(files(path(&back["workspace"]["path"])), ruined);
    assert_eq!((&back["workspace"]["strategy"], &back["restored"]["before"]), (&strategy.into(), &Value::Null));
}

#[test]
fn p22_p27_a_copy_is_saved_as_files_and_restored() {
    comes_back_as_files(&Shop::new(), "copy");
}

#[test]
fn p22_p27_a_mercurial_share_is_saved_as_files_and_restored() {
    let shop = Shop::new();
    let repo = shop.sandbox.hg_repo("hg");
    let shop = Shop { sandbox: shop.sandbox, repo, remote: shop.remote };
    let commits = shop.sandbox.hg(&shop.repo, ["log", "--template", "x"]);
    comes_back_as_files(&shop, "worktree");
    // The repository itself contains none of it.
    assert_eq!(shop.sandbox.hg(&shop.repo, ["log", "--template", "x"]), commits);
    assert_eq!(shop.sandbox.hg(&shop.repo, ["status"]), "");
}

#[test]
fn p27_a_workspace_that_git_cannot_read_is_saved_as_files_before_removal() {
    let shop = Shop::new();
    let (id, workspace) = made(&shop, "clone");
    work(&shop, &workspace);
    let content = files(&workspace);
    // As a job could do it.
    fs::rename(workspace.join(".git"), shop.sandbox.path("taken")).unwrap();
    let _ = shop.way(["ws", "rm", &id]).fails(7);
    let removed = shop.way(["ws", "rm", &id, "--force", "--json"]).data();
    assert!(!workspace.exists());
    let back = shop.way(["ws", "restore", removed[0]["saved_as"].as_str().unwrap(), "--json"]).data();
    let back = path(&back["workspace"]["path"]);
    assert_eq!(files(back), content);
    assert_eq!(shop.sandbox.git(back, ["status", "--porcelain"]), " M file\n?? deep/\n?? link\n");
}

#[test]
fn p20_packing_a_mirror_removes_no_object_that_a_workspace_borrows() {
    let shop = Shop::new();
    let mut workspaces = Vec::new();
    for number in 0..12 {
        // None of them is an ancestor of another.
        shop.sandbox.write(shop.repo.join("file"), format!("{number}\n"));
        shop.sandbox.git(&shop.repo, ["commit", "--quiet", "--amend", "-a", "-m", "Again"]);
        workspaces.push(made(&shop, "clone"));
    }
    let mirrors = fs::read_dir(shop.sandbox.path("home/.waypost/mirrors")).unwrap().map(|entry| entry.unwrap().path());
    let mirror = mirrors.into_iter().find(|path| path.extension().is_some_and(|kind| kind == "git")).unwrap();
    let packs = || {
        let files = fs::read_dir(mirror.join("objects/pack")).unwrap().map(|entry| entry.unwrap().path());
        files.filter(|file| file.extension().is_some_and(|kind| kind == "pack")).count()
    };
    let before = packs();
    assert!(before > 10, "{before}");
    // A workspace may have borrowed objects that are now unreachable, packed or not.
    for reference in shop.sandbox.git(&mirror, ["for-each-ref", "--format=%(refname)"]).lines() {
        shop.sandbox.git(&mirror, ["update-ref", "-d", reference]);
    }
    let dry_run = shop.way(["ws", "gc", "--dry-run", "--json"]).data();
    assert_eq!((packs(), &dry_run["packed"]), (before, &Value::Array(Vec::new())));
    let packed = shop.way(["ws", "gc", "--json"]).data();
    assert_eq!(packed["packed"][0]["after"], packs(), "{packed}");
    assert!(packs() <= 2, "{}", packs());
    for (number, (_, workspace)) in workspaces.iter().enumerate() {
        shop.sandbox.git(workspace, ["fsck"]);
        assert_eq!(shop.sandbox.git(workspace, ["show", "HEAD:file"]), format!("{number}\n"));
        assert_eq!(shop.sandbox.git(workspace, ["status", "--porcelain"]), "");
    }
    // The mirror still serves new workspaces.
    let (_, workspace) = made(&shop, "clone");
    assert_eq!(shop.sandbox.git(&workspace, ["status", "--porcelain"]), "");
}

/// The snapshots that are listed.
fn listed(shop: &Shop) -> Vec<Value> {
    shop.way(["ws", "snapshots", "--json"]).data().as_array().unwrap().clone()
}

#[test]
fn everything_saved_is_in_one_list_with_time_size_and_origin_and_can_be_deleted() {
    let shop = Shop::new();
    let (id, workspace) = made(&shop, "clone");
    shop.sandbox.write(workspace.join("new"), "precious\n");
    let _ = shop.way(["ws", "rm", "--force", &id]).ok();
    let (copied, workspace) = made(&shop, "copy");
    shop.sandbox.write(workspace.join("new"), "copied\n");
    let _ = shop.way(["ws", "snapshot", &copied]).ok();
    let topic = shop.sandbox.path("topic");
    let _ = shop.way(["worktree", "add", "topic", topic.to_str().unwrap()]).ok();
    shop.sandbox.write(topic.join("new"), "in a worktree\n");
    let _ = shop.way(["worktree", "rm", "--force", "topic"]).ok();

    let all = listed(&shop);
    let origins: Vec<_> = all.iter().map(|one| one["origin"].as_str().unwrap().to_owned()).collect();
    let expected = [format!("Workspace {id}"), format!("Workspace {copied}"), format!("Worktree {}", topic.display())];
    assert_eq!(origins.iter().collect::<std::collections::BTreeSet<_>>(), expected.iter().collect());
    for one in &all {
        assert!(moment_ms(&one["time"]) > 1_600_000_000_000 && one["size"].as_u64().unwrap() > 0, "{one}");
        assert!(path(&one["kept_in"]).exists(), "{one}");
    }
    let shown = shop.way(["ws", "snapshots"]).ok().stdout;
    assert!(shown.contains("SAVED") && shown.contains(&format!("Worktree {}", topic.display())), "{shown}");

    // The work of a removed worktree comes back as that of a workspace does.
    let of = |origin: &str| all.iter().find(|one| one["origin"].as_str().unwrap().starts_with(origin)).unwrap();
    let worktree = of("Worktree")["id"].as_str().unwrap();
    let restored = shop.way(["ws", "restore", worktree, "--json"]).data();
    assert_eq!(fs::read_to_string(path(&restored["workspace"]["path"]).join("new")).unwrap(), "in a worktree\n");
    let bundle = shop.sandbox.path("saved.bundle");
    let _ = shop.way(["ws", "export", worktree, bundle.to_str().unwrap()]).ok();
    assert!(bundle.exists());

    // An unknown name deletes nothing.
    let _ = shop.way(["ws", "snapshots", "--remove", worktree, "--remove", "nothing"]).fails(3);
    assert_eq!(listed(&shop).len(), 3);
    for one in &all {
        let _ = shop.way(["ws", "snapshots", "--remove", one["id"].as_str().unwrap()]).ok();
    }
    assert_eq!(listed(&shop), Vec::<Value>::new());
    let mirror = crate::support::mirrors::mirror(&shop);
    let keeper = shop.sandbox.path("home/.waypost/saved").join(mirror.file_name().unwrap());
    for repository in [&shop.repo, &mirror, &keeper] {
        assert_eq!(shop.sandbox.git(repository, ["for-each-ref", "refs/waypost/snapshots", "refs/waypost/saved"]), "");
    }
}

#[test]
fn saved_work_survives_the_deletion_of_the_caches() {
    for strategy in ["clone", "copy"] {
        let shop = Shop::new();
        let (id, workspace) = made(&shop, strategy);
        shop.sandbox.write(workspace.join("new"), "precious\n");
        if strategy == "clone" {
            shop.sandbox.git(&workspace, ["branch", "aside"]);
            shop.sandbox.git(&workspace, ["commit", "--quiet", "--allow-empty", "-m", "Mine"]);
        }
        let saved = shop.way(["ws", "snapshot", &id, "--json"]).data()["id"].as_str().unwrap().to_owned();
        for cache in ["mirrors", "workspaces"] {
            let cache_dir = shop.sandbox.path("home/.waypost").join(cache);
            if cache_dir.exists() {
                fs::rename(cache_dir, shop.sandbox.path(format!("deleted-{cache}"))).unwrap();
            }
        }
        assert_eq!(listed(&shop).len(), 1, "{strategy}");
        let restored = shop.way(["ws", "restore", &saved, "--json"]).data();
        let place = path(&restored["workspace"]["path"]);
        assert_eq!(fs::read_to_string(place.join("new")).unwrap(), "precious\n", "{strategy}");
        if strategy == "clone" {
            assert_eq!(shop.sandbox.git(place, ["log", "-1", "--format=%s"]), "Mine\n");
        }
    }
}

#[test]
fn a_failed_or_removed_workspace_never_deletes_a_branch_that_it_did_not_make() {
    let shop = Shop::new();
    let git = |args: &[&str]| shop.sandbox.git(&shop.repo, args);
    git(&["checkout", "--quiet", "-b", "feature"]);
    git(&["commit", "--quiet", "--allow-empty", "-m", "only here"]);
    let tip = git(&["rev-parse", "feature"]);
    for args in [&["ws", "new"][..], &["ws", "new", "--base", "feature"], &["job", "start"]] {
        let args = [args, &["--strategy", "worktree", "--branch", "feature"]].concat();
        let args = if args[0] == "job" { [&args[..], &["--", "true"]].concat() } else { args };
        let run = shop.run(&args);
        assert!(run.code == 4 && run.stderr.contains("branch feature exists already"), "{args:?}: {run:?}");
        assert_eq!(git(&["rev-parse", "feature"]), tip, "{args:?}");
    }
    // A person works on the branch of a workspace after the workspace has left it.
    let (id, workspace) = made(&shop, "worktree");
    let branch = shop.sandbox.git(&workspace, ["branch", "--show-current"]);
    shop.sandbox.git(&workspace, ["checkout", "--quiet", "--detach"]);
    git(&["checkout", "--quiet", branch.trim()]);
    let _ = shop.way(["ws", "rm", &id]).ok();
    assert_eq!(git(&["rev-parse", "HEAD"]), tip);
}

#[test]
fn the_repository_of_a_submodule_that_is_not_checked_out_stays() {
    let shop = Shop::new();
    let library = shop.sandbox.git_repo("library");
    let git = |dir: &Path, args: &[&str]| {
        shop.sandbox.git(dir, [&["-c", "protocol.file.allow=always"], args].concat());
    };
    git(&shop.repo, &["submodule", "--quiet", "add", library.to_str().unwrap(), "sub"]);
    git(&shop.repo, &["commit", "--quiet", "-m", "submodule"]);
    git(&shop.repo, &["push", "--quiet", "origin", "main"]);
    let (id, workspace) = made(&shop, "clone");
    git(&workspace, &["submodule", "--quiet", "update", "--init"]);
    git(&workspace.join("sub"), &["commit", "--quiet", "--allow-empty", "-m", "only here"]);
    git(&workspace, &["submodule", "--quiet", "deinit", "--force", "sub"]);
    for force in [&[][..], &["--force"]] {
        let run = shop.run(&[&["ws", "rm", &id], force].concat());
        assert!(run.code == 7 && run.stderr.contains("submodule that is not checked out, sub"), "{run:?}");
    }
    assert!(workspace.join(".git/modules/sub/HEAD").exists());
    let _ = shop.way(["ws", "rm", &id, "--discard"]).ok();
}

#[test]
fn ignored_files_are_not_overwritten_by_a_snapshot_or_an_update() {
    let shop = Shop::new();
    let (id, workspace) = made(&shop, "clone");
    shop.sandbox.write(workspace.join("data"), "a file\n");
    fs::create_dir(workspace.join("notes")).unwrap();
    shop.sandbox.write(workspace.join("notes/one"), "old\n");
    let snapshot = shop.way(["ws", "snapshot", &id, "--json"]).data()["id"].as_str().unwrap().to_owned();
    fs::remove_file(workspace.join("data")).unwrap();
    fs::remove_file(workspace.join("notes/one")).unwrap();
    fs::remove_dir(workspace.join("notes")).unwrap();
    shop.sandbox.write(workspace.join(".git/info/exclude"), "data\nnotes\n");
    let check = |kept: &str| {
        let kept = workspace.join(kept);
        fs::create_dir_all(kept.parent().unwrap()).unwrap();
        shop.sandbox.write(&kept, "not saved elsewhere\n");
        let refused = shop.way(["ws", "restore", &snapshot, "--into", &id]).fails(7);
        assert!(refused.stderr.contains("would be overwritten"), "{refused:?}");
        assert_eq!(fs::read_to_string(&kept).unwrap(), "not saved elsewhere\n");
        fs::remove_file(&kept).unwrap();
    };
    check("data/results");
    fs::remove_dir(workspace.join("data")).unwrap();
    check("data");
    check("notes");
    shop.sandbox.write(workspace.join("data"), "not saved elsewhere\n");
    shop.sandbox.write(shop.repo.join("data"), "new in the source\n");
    shop.sandbox.git(&shop.repo, ["add", "data"]);
    shop.sandbox.git(&shop.repo, ["commit", "--quiet", "-m", "data"]);
    let _ = shop.way(["ws", "update", &id]).fails(4);
    assert_eq!(fs::read_to_string(workspace.join("data")).unwrap(), "not saved elsewhere\n");
}

#[test]
fn an_unfinished_rebase_is_saved_with_its_stash_and_not_delivered() {
    let shop = Shop::new();
    let (id, workspace) = made(&shop, "clone");
    let git = |args: &[&str]| shop.sandbox.git(&workspace, args);
    shop.sandbox.write(workspace.join("other"), "other\n");
    git(&["add", "other"]);
    git(&["commit", "--quiet", "-m", "other"]);
    let own = git(&["branch", "--show-current"]);
    git(&["branch", "theirs"]);
    for (branch, text) in [("theirs", "theirs\n"), (own.trim(), "mine\n")] {
        git(&["checkout", "--quiet", branch]);
        shop.sandbox.write(workspace.join("file"), text);
        git(&["commit", "--quiet", "-a", "-m", branch]);
    }
    shop.sandbox.write(workspace.join("other"), "not committed\n");
    let mut rebase = shop.sandbox.command("git", &workspace);
    assert!(!rebase.args(["rebase", "--quiet", "--autostash", "theirs"]).output().unwrap().status.success());
    for args in [&["ws", "push", &id][..], &["ws", "land", &id, "--commit", "all"]] {
        let run = shop.run(args);
        assert!(run.code == 7 && run.stderr.contains("a rebase under way"), "{run:?}");
    }
    let _ = shop.way(["ws", "rm", &id, "--force"]).ok();
    let restored = shop.way(["ws", "restore", &format!("{id}-1"), "--json"]).data();
    let restored = path(&restored["workspace"]["path"]);
    assert_eq!(shop.sandbox.git(restored, ["show", "stash@{0}:other"]), "not committed\n");
}
