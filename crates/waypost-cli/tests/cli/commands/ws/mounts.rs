//! Workspaces on file systems of their own: overlays, and a disk that is full.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};
use waypost_testkit::{unavailable, until};

use crate::support::jobs::{Shop, path, pid_of, state_of};
use crate::support::mounts::{Unmounted, bind, mounts, require_overlays};
use crate::support::workspaces::tree;

#[test]
fn p1_p22_p28_a_job_on_an_overlay_is_isolated_saved_and_delivered() {
    let shop = Shop::new();
    let _mounts = Unmounted::below(&shop.root());
    require_overlays(&shop);
    shop.sandbox.git(&shop.repo, ["status"]);
    let before = state_of(&shop);
    let script = "pwd; echo two >> file; echo new > new; git add new; git status --short";
    let job = shop.job(&["--strategy", "overlay"], script);
    let (id, dir) = (job["id"].as_str().unwrap(), path(&job["workspace_dir"]));
    assert_eq!(job["output"], format!("{}\n M file\nA  new", dir.display()), "{job}");
    assert_eq!(mounts(&shop.root()), [dir]);
    // Saved, damaged and restored.
    let content = tree(&shop, dir);
    let saved = shop.way(["ws", "snapshot", id, "--json"]).data();
    fs::remove_file(dir.join("new")).unwrap();
    shop.sandbox.write(dir.join("file"), "ruined\n");
    let _ = shop.way(["ws", "restore", saved["id"].as_str().unwrap(), "--into", id]).ok();
    assert_eq!(tree(&shop, dir), content);
    // After a restart of the machine it is unmounted; the next command that needs it mounts it again.
    assert!(Command::new("umount").arg(dir).status().unwrap().success());
    assert!(!dir.join("new").exists());
    let refused = shop.way(["ws", "rm", id]).fails(7);
    assert!(refused.stderr.contains("2 files changed"), "{}", refused.stderr);
    assert_eq!(tree(&shop, dir), content);
    let delivered = shop.way(["job", "deliver", id, "--commit", "Two", "--json"]).data();
    let there = shop.sandbox.git(&shop.remote, ["show", &format!("waypost/{id}:file")]);
    assert_eq!(there, "one\ntwo\n", "{delivered}");
    // The changes are in the upper layer; the template is unchanged.
    let other = shop.job(&["--strategy", "overlay", "--cleanup"], "cat file");
    assert_eq!((&other["output"], &other["warnings"]), (&json!("one"), &json!([])), "{other}");
    let _ = shop.way(["ws", "rm", id]).ok();
    assert_eq!((mounts(&shop.root()).len(), dir.exists()), (0, false));
    assert_eq!(state_of(&shop), before);
}

#[test]
fn p26_p27_an_overlay_whose_job_was_killed_is_kept_and_removed_without_loss() {
    let shop = Shop::new();
    let _mounts = Unmounted::below(&shop.root());
    require_overlays(&shop);
    let job = shop.started(&["--strategy", "overlay"], "echo work > new; exec sleep 600");
    let (id, dir) = (job["id"].as_str().unwrap(), path(&job["workspace_dir"]));
    until("it works", || dir.join("new").exists());
    kill_process(pid_of(&job["supervisor"]), Signal::KILL).unwrap();
    until("its death is noticed", || shop.show(&job)["status"] == "interrupted");
    assert_eq!(shop.workspaces()[0]["status"], "kept");
    let _ = shop.way(["ws", "rm", id]).fails(7);
    let removed = shop.way(["ws", "rm", id, "--force", "--json"]).data();
    assert_eq!((mounts(&shop.root()).len(), dir.exists()), (0, false), "{removed}");
    let restored = shop.way(["ws", "restore", removed[0]["saved_as"].as_str().unwrap(), "--json"]).data();
    let new = path(&restored["workspace"]["path"]).join("new");
    assert_eq!(fs::read_to_string(new).unwrap(), "work\n");
}

/// A small disk that is unmounted when the test ends.
fn small_disk(shop: &Shop) -> (PathBuf, Unmounted) {
    let dir = shop.sandbox.dir("small");
    let mut mount = Command::new("mount");
    let mounted = mount.args(["-t", "tmpfs", "-o", "size=6m,mode=700", "none"]).arg(&dir).output().unwrap();
    if !mounted.status.success() {
        unavailable(&format!("this user may not mount: {}", String::from_utf8_lossy(&mounted.stderr)));
    }
    let guard = Unmounted::below(&dir);
    (dir, guard)
}

#[test]
fn p16_a_job_that_fills_the_disk_harms_neither_the_store_nor_any_other_workspace() {
    let shop = Shop::new();
    let other = shop.job(&[], "echo mine > new");
    let content = tree(&shop, path(&other["workspace_dir"]));
    shop.sandbox.git(&shop.repo, ["status"]);
    let before = state_of(&shop);
    let (small, _guard) = small_disk(&shop);
    let _ = shop.way(["config", "set", "--user", "workspaces.path", small.to_str().unwrap()]).ok();
    let near = shop.job(&[], "echo near > new; git add new");
    assert!(path(&near["workspace_dir"]).starts_with(&small), "{near}");
    // The job also prints, and there is no space for its log either.
    let script = "echo before; until grep -q before ../../jobs/$WAYPOST_JOB/output.log; do :; done; \
        head -c 100000000 /dev/zero > big && exit 0; echo full; yes | head -c 3000000; exit 9";
    let full = shop.job(&[], script);
    assert_eq!((&full["status"], &full["exit_code"]), (&json!("failed"), &json!(9)), "{full}");
    assert!(shop.way(["job", "logs", full["id"].as_str().unwrap()]).ok().stdout.starts_with("before\n"));
    // Without space no workspace can be made, and the attempt leaves nothing.
    let next = shop.job(&[], "true");
    assert_eq!(next["status"], "failed", "{next}");
    assert!(next["error"].as_str().unwrap().contains("No space left"), "{next}");
    assert!(!small.join(next["id"].as_str().unwrap()).exists());
    let known: Vec<_> = shop.workspaces().iter().map(|one| one["job_id"].clone()).collect();
    assert_eq!(known, [&full["id"], &near["id"], &other["id"]].map(Value::clone));
    // The other workspaces are unchanged.
    assert_eq!(tree(&shop, path(&other["workspace_dir"])), content);
    assert_eq!(fs::read_to_string(path(&near["workspace_dir"]).join("new")).unwrap(), "near\n");
    assert_eq!(state_of(&shop), before);
    let _ = shop.way(["db", "check"]).ok();
    // The check for work needs no space there: the workspace stays because of its file, and `--discard` removes it anyway.
    let stays = shop.way(["ws", "rm", full["id"].as_str().unwrap()]).fails(7);
    assert!(
        stays.stderr.contains("1 file not under version control") && path(&full["workspace_dir"]).join("big").exists()
    );
    let _ = shop.way(["ws", "rm", full["id"].as_str().unwrap(), "--discard"]).ok();
    assert_eq!(shop.job(&[], "cat file")["output"], "one");
    // A job with a limit below the free space is ended before the disk is full.
    let limited = shop.job(&["--size-limit", "1MB"], "head -c 2000000 /dev/zero > big; exec sleep 600");
    assert!(limited["error"].as_str().unwrap().contains("the limit is 1.0 MB"), "{limited}");
}

#[test]
fn a_workspace_with_a_mount_in_it_stays_with_its_record_and_all_files() {
    let shop = Shop::new();
    let precious = shop.sandbox.dir("precious");
    shop.sandbox.write(precious.join("canary"), "alive");
    for strategy in ["clone", "worktree", "copy"] {
        let made = shop.way(["ws", "new", "--strategy", strategy, "--json"]).data();
        let (id, dir) = (made["id"].as_str().unwrap(), path(&made["path"]));
        let point = dir.join("with space/inner");
        let mount = bind(&precious, &point);
        for args in [&["ws", "rm", id][..], &["ws", "rm", id, "--force"], &["ws", "rm", id, "--discard"]] {
            for _ in 0..2 {
                let kept = shop.sandbox.way(&shop.repo, args).fails(7);
                assert!(kept.stdout.is_empty() && kept.stderr.contains("mounted in"), "{args:?}: {}", kept.stderr);
                assert!(kept.stderr.contains(point.to_str().unwrap()), "{args:?}: {}", kept.stderr);
            }
        }
        let refused = shop.way(["ws", "rm", id, "--discard"]).fails(7).stderr;
        assert!(refused.contains(&format!("hint: unmount it first: umount {}", point.display())), "{refused}");
        let collected = shop.way(["ws", "gc", "--older-than", "0s", "--json"]).data();
        let verdicts = collected["verdicts"].as_array().unwrap();
        let verdict = verdicts.iter().find(|verdict| verdict["workspace"]["id"] == id).unwrap();
        assert_eq!(verdict["goes"], false, "{verdict}");
        assert!(verdict["why"].as_str().unwrap().contains("a file system mounted in it"), "{verdict}");
        assert_eq!(fs::read_to_string(precious.join("canary")).unwrap(), "alive");
        assert_eq!(fs::read_to_string(dir.join("file")).unwrap(), "one\n", "no file is gone");
        let row = shop.workspaces().into_iter().find(|row| row["id"] == id).unwrap();
        assert_eq!(row["status"], "kept", "{row}");
        drop(mount);
        let _ = shop.way(["ws", "rm", id, "--discard"]).ok();
        assert!(!dir.exists() && precious.join("canary").exists());
    }
}

#[test]
fn a_removal_that_left_files_in_the_trash_is_not_complete() {
    let shop = Shop::new();
    let precious = shop.sandbox.dir("precious");
    shop.sandbox.write(precious.join("canary"), "alive");
    let made = shop.way(["ws", "new", "--json"]).data();
    let (id, dir) = (made["id"].as_str().unwrap(), path(&made["path"]));
    // As a removal leaves it that was killed, after which a file system was mounted in the rest.
    let home = dir.parent().unwrap();
    let trash = home.parent().unwrap().join("trash").join(home.file_name().unwrap());
    fs::create_dir_all(trash.parent().unwrap()).unwrap();
    fs::rename(home, &trash).unwrap();
    let mount = bind(&precious, &trash.join("workspace/inner"));
    assert_eq!(shop.workspaces()[0]["status"], "lost");
    for _ in 0..2 {
        let kept = shop.way(["ws", "rm", id]).fails(7);
        assert!(kept.stdout.is_empty() && kept.stderr.contains("mounted in"), "{}", kept.stderr);
        assert_eq!(shop.workspaces()[0]["status"], "lost");
    }
    drop(mount);
    let _ = shop.way(["ws", "rm", id]).ok();
    assert!(!trash.exists() && precious.join("canary").exists());
}
