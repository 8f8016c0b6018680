//! A restored snapshot equals the saved state.

use super::*;
use waypost_workspace::workspaces::{export, restore, snapshot, snapshots};

/// Makes every kind of change in a workspace.
fn work(scene: &Scene, root: &Path) {
    let git = |args: &[&str]| scene.git(root, args);
    scene.write(&root.join("src/main.rs"), "fn main() { committed() }\n");
    git(&["commit", "-q", "-a", "-m", "work"]);
    scene.write(&root.join("staged"), "staged\n");
    git(&["add", "staged"]);
    scene.write(&root.join("staged"), "and changed since\n");
    scene.write(&root.join("new dir/ünt räcked"), "new\n");
    scene.write(&root.join("run"), "#!/bin/sh\nexit\n");
    fs::remove_file(root.join("src/deep/er/file")).unwrap();
    scene.write(&root.join("target/ignored"), "ignored\n");
}

/// The files of a worktree. Git does not track empty directories.
fn contents(root: &Path) -> BTreeMap<PathBuf, String> {
    files(root).into_iter().filter(|(_, content)| !content.starts_with("40")).collect()
}

#[test]
fn p22_a_ruined_workspace_is_restored_with_untracked_files() {
    hermetic(|scene| {
        let repo = scene.repo();
        let before = everything(&repo);
        let (plan, _) = scene.make(&repo, "job");
        work(scene, &plan.workspace);
        let (whole, status) = (everything(&plan.home()), scene.git(&plan.workspace, &["status", "--porcelain"]));
        let saved = snapshot(&plan, &name("s1")).unwrap();
        let mut after = everything(&plan.home());
        after.retain(|path, _| !path.starts_with(plan.workspace.join(".git/objects")));
        let kept = whole.iter().filter(|(path, _)| !path.starts_with(plan.workspace.join(".git/objects")));
        assert!(kept.eq(after.iter()), "a snapshot changes neither files nor index nor refs");
        let as_saved = contents(&plan.workspace);

        for place in ["src", "new dir"] {
            remove_dir(&plan.workspace.join(place));
        }
        scene.write(&plan.workspace.join("staged"), "ruined\n");
        scene.write(&plan.workspace.join("rubbish/file"), "rubbish\n");
        scene.git(&plan.workspace, &["add", "-A"]);
        scene.git(&plan.workspace, &["commit", "-q", "-m", "ruin"]);
        let restored = restore(&plan, &name("s1"), Some(&name("s2"))).unwrap();
        assert_eq!(contents(&plan.workspace), as_saved);
        assert_eq!(scene.git(&plan.workspace, &["status", "--porcelain"]), status);
        assert_eq!(restored.snapshot.tree, saved.tree);
        assert_eq!(scene.git(&plan.workspace, &["branch", "--show-current"]), "waypost/job");

        let ruin = restored.before.unwrap();
        restore(&plan, &ruin.id, Some(&name("s3"))).unwrap();
        assert_eq!(fs::read_to_string(plan.workspace.join("rubbish/file")).unwrap(), "rubbish\n");
        assert_eq!(
            restore(&plan, &ruin.id, Some(&name("s4"))).unwrap().before,
            None,
            "an identical state is not saved again"
        );
        // The staged state is part of a snapshot.
        scene.git(&plan.workspace, &["reset", "-q", "--hard"]);
        restore(&plan, &name("s1"), None).unwrap();
        scene.git(&plan.workspace, &["reset", "-q", "--", "staged"]);
        assert_ne!(scene.git(&plan.workspace, &["status", "--porcelain"]), status);
        restore(&plan, &name("s1"), Some(&name("s5"))).unwrap();
        assert_eq!(scene.git(&plan.workspace, &["status", "--porcelain"]), status);
        let ids: Vec<_> = snapshots(&plan).unwrap().into_iter().map(|one| one.id.to_string()).collect();
        assert_eq!(ids, ["s1", "s2", "s3", "s5"]);
        assert_eq!(everything(&repo), before);
    });
}

#[test]
fn a_snapshot_outlives_its_workspace_and_is_restored_in_a_new_one() {
    hermetic(|scene| {
        let repo = scene.repo();
        let (plan, made) = scene.make(&repo, "job");
        work(scene, &plan.workspace);
        let expected = contents(&plan.workspace);
        let saved = snapshot(&plan, &name("s1")).unwrap();
        remove(&plan, identity(&made), Work::MayGo).unwrap();
        scene.git(plan.mirror.as_deref().unwrap(), &["gc", "-q", "--prune=now"]);
        let (other, _) = scene.make(&repo, "job2");
        restore(&other, &saved.id, Some(&name("s2"))).unwrap();
        let mut found = contents(&other.workspace);
        let mut expected = expected;
        for map in [&mut found, &mut expected] {
            map.retain(|path, _| !path.starts_with("target"));
        }
        assert_eq!(found, expected);

        let bundle = scene.sandbox.path("s1.bundle");
        export(&saved, &bundle).unwrap();
        let elsewhere = scene.sandbox.dir("elsewhere");
        scene.git(&elsewhere, &["init", "-q"]);
        scene.git(&elsewhere, &["fetch", "-q", bundle.to_str().unwrap(), "refs/waypost/snapshots/s1:refs/heads/s1"]);
        assert_eq!(scene.git(&elsewhere, &["rev-parse", "s1^{tree}"]), saved.tree.unwrap());
    });
}

#[test]
fn a_snapshot_is_not_overwritten_and_lists_what_it_left_out() {
    hermetic(|scene| {
        let repo = scene.repo();
        let (plan, _) = scene.make(&repo, "job");
        let inner = plan.workspace.join("inner");
        scene.git(&plan.workspace, &["init", "-q", "inner"]);
        scene.write(&inner.join("file"), "inner\n");
        let saved = snapshot(&plan, &name("s1")).unwrap();
        assert_eq!(saved.left_out, ["inner"]);
        assert_eq!(saved.tree, Some(scene.git(&repo, &["rev-parse", "HEAD^{tree}"])));
        snapshot(&plan, &name("s1")).unwrap_err();
        scene.write(&plan.workspace.join("file"), "changed\n");
        restore(&plan, &saved.id, Some(&name("s2"))).unwrap();
        assert_eq!(
            fs::read_to_string(inner.join("file")).unwrap(),
            "inner\n",
            "a restore does not touch what the snapshot left out"
        );
        restore(&plan, &name("s9"), Some(&name("s3"))).unwrap_err();
    });
}
