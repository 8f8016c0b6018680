//! Removal loses no work, and deletes nothing outside of the workspace.

use super::*;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::atomic::{AtomicBool, Ordering};
use waypost_workspace::workspaces::{measure, sweep_trash};

#[test]
fn a_clean_workspace_is_removed_with_its_refs_and_others_stay() {
    hermetic(|scene| {
        let repo = scene.repo();
        let (plan, made) = scene.make(&repo, "job");
        let (other, _) = scene.make(&repo, "job2");
        assert_eq!(at_risk(&plan), [""; 0]);
        remove_safely(&plan, &made).unwrap();
        assert!(!plan.home().exists() && !plan.trash().exists());
        let keep =
            scene.git(plan.mirror.as_deref().unwrap(), &["for-each-ref", "--format=%(refname)", "refs/waypost/keep"]);
        assert!(keep.lines().all(|line| line.contains("/job2/")), "{keep}");
        scene.git(&other.workspace, &["fsck"]);
        remove_safely(&plan, &made).unwrap();
    });
}

#[test]
fn p27_work_that_would_be_lost_is_found_and_keeps_the_workspace() {
    hermetic(|scene| {
        let repo = scene.repo();
        let check = |id: &str, expected: &str, work: &dyn Fn(&Path)| {
            let (plan, made) = scene.make(&repo, id);
            work(&plan.workspace);
            let found = at_risk(&plan);
            assert!(found.iter().any(|found| found.contains(expected)), "{id}: {found:?}");
            let error = remove_safely(&plan, &made).unwrap_err();
            assert_eq!(error.kind().code(), "refused", "{id}: {error}");
            assert!(plan.workspace.exists(), "{id}");
        };
        let git = |dir: &Path, args: &[&str]| scene.git(dir, args);
        check("changed", "1 file changed", &|dir| scene.write(&dir.join("file"), "CONTENT\n"));
        check("new", "2 files not under", &|dir| {
            scene.write(&dir.join("new/a"), "");
            scene.write(&dir.join("new/b"), "");
        });
        check("hidden", "1 file changed", &|dir| {
            git(dir, &["update-index", "--assume-unchanged", "file"]);
            scene.write(&dir.join("file"), "more\n");
        });
        check("staged", "1 file changed", &|dir| {
            scene.write(&dir.join("staged"), "");
            git(dir, &["add", "staged"]);
        });
        check("committed", "1 commit that no remote has", &|dir| {
            git(dir, &["commit", "-q", "--allow-empty", "-m", "work"]);
        });
        check("branched", "1 commit that no remote has", &|dir| {
            git(dir, &["checkout", "-q", "-b", "aside"]);
            git(dir, &["commit", "-q", "--allow-empty", "-m", "work"]);
            git(dir, &["checkout", "-q", "-"]);
        });
        check("stashed", "commits that no remote has", &|dir| {
            scene.write(&dir.join("file"), "stash\n");
            git(dir, &["stash", "-q"]);
        });
        check("detached", "1 commit that no remote has", &|dir| {
            git(dir, &["checkout", "-q", "--detach"]);
            git(dir, &["commit", "-q", "--allow-empty", "-m", "work"]);
        });
        check("merging", "a merge under way", &|dir| {
            git(dir, &["checkout", "-q", "-b", "aside", "origin/main"]);
            git(dir, &["commit", "-q", "--allow-empty", "-m", "one"]);
            git(dir, &["checkout", "-q", "-"]);
            git(dir, &["commit", "-q", "--allow-empty", "-m", "two"]);
            git(dir, &["merge", "-q", "--no-commit", "--no-ff", "aside"]);
        });
        check("nested", "another repository in it, inner", &|dir| {
            git(dir, &["init", "-q", "inner"]);
        });
        let ignored = |dir: &Path| {
            scene.write(&dir.join("target/a"), "");
            scene.write(&dir.join(".env"), "");
        };
        let (plan, made) = scene.make(&repo, "ignored");
        ignored(&plan.workspace);
        assert_eq!(examine(&plan).unwrap().ignored, [".env", "target/"]);
        remove_safely(&plan, &made).unwrap();
    });
}

#[test]
fn examining_a_workspace_changes_nothing() {
    hermetic(|scene| {
        let repo = scene.repo();
        let (plan, _) = scene.make(&repo, "job");
        scene.write(&plan.workspace.join("file"), "CONTENT\n");
        scene.git(&plan.workspace, &["update-index", "--assume-unchanged", "file"]);
        let before = everything(&plan.home());
        assert_eq!(examine(&plan).unwrap().changed, ["file"]);
        assert_eq!(everything(&plan.home()), before);
    });
}

#[test]
fn a_workspace_that_a_process_uses_is_not_removed() {
    hermetic(|scene| {
        let repo = scene.repo();
        let (plan, made) = scene.make(&repo, "job");
        let mut process = scene.sandbox.command("cat", &plan.workspace.join("src"));
        let mut process = process.stdin(std::process::Stdio::piped()).spawn().unwrap();
        let found = examine(&plan).unwrap().living;
        assert_eq!(found.iter().map(|process| process.id).collect::<Vec<_>>(), [process.id()]);
        remove(&plan, identity(&made), Work::MayGo).unwrap_err();
        assert!(plan.workspace.join("file").exists());
        drop(process.stdin.take());
        process.wait().unwrap();
        remove(&plan, identity(&made), Work::MayGo).unwrap();
    });
}

#[test]
fn t15_a_directory_or_link_that_replaced_the_workspace_is_not_removed() {
    hermetic(|scene| {
        let repo = scene.repo();
        let (plan, made) = scene.make(&repo, "job");
        let canary = scene.sandbox.dir("canary");
        scene.write(&canary.join("precious"), "precious\n");
        fs::rename(plan.home(), scene.sandbox.path("moved")).unwrap();
        symlink(&canary, plan.home()).unwrap();
        remove(&plan, identity(&made), Work::MayGo).unwrap_err();
        assert!(plan.home().is_symlink());
        fs::remove_file(plan.home()).unwrap();
        fs::rename(&canary, plan.home()).unwrap();
        remove(&plan, identity(&made), Work::MayGo).unwrap_err();
        assert!(plan.home().join("precious").exists());
    });
}

#[test]
fn t17_a_git_directory_that_points_elsewhere_is_not_followed() {
    hermetic(|scene| {
        let repo = scene.repo();
        let before = everything(&repo);
        for (id, content) in [("file", format!("gitdir: {}\n", repo.join(".git").display())), ("link", String::new())] {
            let (plan, made) = scene.make(&repo, id);
            fs::rename(plan.workspace.join(".git"), plan.home().join("aside")).unwrap();
            if content.is_empty() {
                symlink(repo.join(".git"), plan.workspace.join(".git")).unwrap();
            } else {
                scene.write(&plan.workspace.join(".git"), &content);
            }
            examine(&plan).unwrap_err();
            remove_safely(&plan, &made).unwrap_err();
            remove(&plan, identity(&made), Work::MayGo).unwrap();
            assert!(!plan.home().exists());
        }
        let (plan, made) = scene.make(&repo, "common");
        scene.write(&plan.workspace.join(".git/commondir"), repo.join(".git").to_str().unwrap());
        remove_safely(&plan, &made).unwrap_err();
        let (plan, _) = scene.make(&repo, "tree");
        scene.git(&plan.workspace, &["config", "--file", ".git/config", "core.worktree", repo.to_str().unwrap()]);
        scene.write(&plan.workspace.join("new"), "new\n");
        assert_eq!(examine(&plan).unwrap().untracked, ["new"]);
        assert_eq!(everything(&repo), before);
    });
}

#[test]
fn t16_links_hard_links_and_missing_permissions_harm_nothing_outside() {
    hermetic(|scene| {
        let repo = scene.repo();
        let (plan, made) = scene.make(&repo, "job");
        let canary = scene.sandbox.dir("canary");
        scene.write(&canary.join("precious"), "precious\n");
        let before = everything(&canary);
        let tree = plan.workspace.join("target");
        fs::create_dir_all(tree.join("a/b")).unwrap();
        symlink(&canary, tree.join("a/dir")).unwrap();
        symlink("/", tree.join("a/root")).unwrap();
        fs::hard_link(canary.join("precious"), tree.join("a/b/hard")).unwrap();
        scene.write(&tree.join("a/b/read-only"), "");
        fs::set_permissions(tree.join("a/b/read-only"), fs::Permissions::from_mode(0o000)).unwrap();
        fs::set_permissions(tree.join("a/b"), fs::Permissions::from_mode(0o000)).unwrap();
        fs::create_dir(tree.join("x".repeat(255))).unwrap();
        let usage = measure(&plan).unwrap();
        let du = scene.sandbox.command("du", &plan.home()).args(["-s", "-B1"]).output().unwrap();
        let du = String::from_utf8(du.stdout).unwrap();
        assert_eq!(du.split('\t').next().unwrap(), usage.bytes.to_string());
        remove(&plan, identity(&made), Work::MayGo).unwrap();
        assert!(!plan.home().exists());
        assert_eq!(everything(&canary), before);
    });
}

#[test]
fn t15_swapping_directories_for_links_during_a_removal_harms_nothing_outside() {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    const PAIRS: usize = 100;
    hermetic(|scene| {
        let repo = scene.repo();
        let canary = scene.sandbox.dir("canary");
        for number in 0..20 {
            scene.write(&canary.join(number.to_string()), "precious\n");
        }
        let before = everything(&canary);
        let mut swaps = 0;
        let mut round = 0;
        while swaps < 10_000 {
            let (plan, made) = scene.make(&repo, &format!("job{round}"));
            // Every directory has a link to the canary beside it, and a thread keeps swapping their names.
            let target = plan.workspace.join("target");
            for pair in 0..PAIRS {
                scene.write(&target.join(format!("{pair}-dir/file")), "");
                symlink(&canary, target.join(format!("{pair}-link"))).unwrap();
            }
            let is_over = AtomicBool::new(false);
            swaps += std::thread::scope(|scope| {
                let swapper = scope.spawn(|| {
                    let mut swaps = 0;
                    let places = [plan.home(), plan.trash()].map(|home| home.join("workspace/target"));
                    while swaps < PAIRS || !is_over.load(Ordering::Relaxed) {
                        for (place, pair) in places.iter().flat_map(|place| (0..PAIRS).map(move |pair| (place, pair))) {
                            let [dir, link] = ["dir", "link"].map(|kind| place.join(format!("{pair}-{kind}")));
                            let done = renameat_with(CWD, &dir, CWD, &link, RenameFlags::EXCHANGE);
                            swaps += usize::from(done.is_ok());
                        }
                        if !plan.home().exists() && !plan.trash().exists() {
                            break;
                        }
                    }
                    swaps
                });
                // The removal may fail because of the swaps, but must not delete anything outside.
                let _ = remove(&plan, identity(&made), Work::MayGo);
                let _ = sweep_trash(&scene.workspaces(), None);
                is_over.store(true, Ordering::Relaxed);
                swapper.join().unwrap()
            });
            assert_eq!(everything(&canary), before, "round {round}");
            round += 1;
        }
    });
}

#[test]
fn f49_an_interrupted_removal_is_resumed() {
    hermetic(|scene| {
        let repo = scene.repo();
        let (plan, made) = scene.make(&repo, "job");
        fs::create_dir_all(plan.trash().parent().unwrap()).unwrap();
        fs::rename(plan.home(), plan.trash()).unwrap();
        fs::remove_file(plan.trash().join("workspace/file")).unwrap();
        remove_safely(&plan, &made).unwrap();
        assert!(!plan.trash().exists());
        let refs = scene.git(plan.mirror.as_deref().unwrap(), &["for-each-ref", "refs/waypost/keep"]);
        assert_eq!(refs, "");
        let (plan, made) = scene.make(&repo, "job");
        fs::rename(plan.home(), plan.trash()).unwrap();
        assert_eq!(sweep_trash(&scene.workspaces(), None).unwrap().len(), 0);
        assert!(!plan.trash().exists());
        remove_safely(&plan, &made).unwrap();
    });
}

#[test]
fn p12_the_error_names_the_entry_that_could_not_be_deleted() {
    hermetic(|scene| {
        let repo = scene.repo();
        let (plan, made) = scene.make(&repo, "job");
        let mount = plan.workspace.join("target");
        fs::create_dir(&mount).unwrap();
        let mounted = Command::new("mount").args(["-t", "tmpfs", "none"]).arg(&mount).output().unwrap();
        if !mounted.status.success() {
            waypost_testkit::unavailable("this user may not mount");
        }
        scene.write(&mount.join("precious"), "precious\n");
        let error = remove(&plan, identity(&made), Work::MayGo).unwrap_err();
        let inside = plan.trash().join("workspace/target");
        let (survives, message) =
            (inside.join("precious").exists() || mount.join("precious").exists(), error.to_string());
        for place in [&mount, &inside] {
            let _ = Command::new("umount").arg(place).output().unwrap();
        }
        assert!(survives && message.contains("target"), "{message}");
        remove(&plan, identity(&made), Work::MayGo).unwrap();
        assert!(!plan.trash().exists());
    });
}
