//! The pool of workspaces made in advance.

use super::*;
use waypost_workspace::workspaces::{Slot, abandon, give_back, pool, take, warm};

fn warmed(scene: &Scene, repo: &Path, id: &str) -> Slot {
    warm(&scene.plan(repo, id), &MakeOptions::default()).unwrap()
}

fn taken(scene: &Scene, repo: &Path, id: &str) -> (Plan, Option<Made>) {
    let plan = scene.plan(repo, id);
    let made = take(&plan, &MakeOptions::default()).unwrap();
    (plan, made)
}

#[test]
fn a_slot_is_taken_once_and_equals_a_new_workspace() {
    hermetic(|scene| {
        let repo = scene.repo();
        assert_eq!(taken(scene, &repo, "early").1, None);
        warmed(scene, &repo, "slot");
        scene.write(&repo.join("later"), "later\n");
        scene.git(&repo, &["rm", "-q", "file"]);
        scene.git(&repo, &["add", "."]);
        scene.git(&repo, &["commit", "-q", "-m", "later"]);
        let before = everything(&repo);
        let (plan, made) = taken(scene, &repo, "job");
        let made = made.unwrap();
        assert_eq!(files(&plan.workspace), files(&repo));
        assert_eq!(scene.git(&plan.workspace, &["status", "--porcelain", "--ignored"]), "");
        assert_eq!(scene.git(&plan.workspace, &["branch", "--format=%(refname)"]), "refs/heads/waypost/job");
        assert_eq!(at_risk(&plan), [""; 0]);
        scene.git(&plan.workspace, &["fsck"]);
        assert_eq!(taken(scene, &repo, "late").1, None);
        let keep =
            scene.git(plan.mirror.as_deref().unwrap(), &["for-each-ref", "--format=%(refname)", "refs/waypost/keep"]);
        assert!(keep.lines().all(|line| line.contains("/keep/job/")), "{keep}");
        remove_safely(&plan, &made).unwrap();
        assert_eq!(everything(&repo), before);
    });
}

#[test]
fn p19_a_reused_workspace_has_no_file_of_the_earlier_job() {
    hermetic(|scene| {
        let repo = scene.repo();
        let (plan, made) = scene.make(&repo, "job");
        let root = &plan.workspace;
        scene.write(&plan.context().join("prompt"), "secret\n");
        scene.write(&root.join("target/secret"), "secret\n");
        scene.write(&root.join("secret"), "secret\n");
        scene.write(&root.join(".git/hooks/post-checkout"), "secret\n");
        scene.git(root, &["config", "user.name", "secret"]);
        scene.git(root, &["commit", "-q", "--allow-empty", "-m", "secret"]);
        scene.git(root, &["branch", "secret"]);
        scene.git(root, &["update-index", "--assume-unchanged", "file"]);
        // Other content with the same size and time: git itself does not notice.
        let past = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
        let set_time = || fs::File::options().write(true).open(root.join("run")).unwrap().set_modified(past).unwrap();
        set_time();
        scene.git(root, &["status", "--porcelain"]);
        scene.write(&root.join("run"), "secret!!!\n");
        set_time();
        assert_eq!(scene.git(root, &["diff", "--name-only", "--", "run"]), "", "git does not notice the change");
        let slot = give_back(&plan, identity(&made), &slot_of(&plan)).unwrap();
        assert!(!plan.home().exists());
        assert_eq!(pool(&plan).unwrap(), [slot]);
        let (next, made) = taken(scene, &repo, "next");
        made.unwrap();
        for (path, content) in everything(&next.home()) {
            assert!(!content.contains("secret") && !path.to_string_lossy().contains("secret"), "{}", path.display());
        }
        assert_eq!(files(&next.workspace), files(&repo));
    });
}

#[test]
fn a_slot_that_a_process_uses_is_not_taken() {
    hermetic(|scene| {
        let repo = scene.repo();
        let slot = warmed(scene, &repo, "slot");
        let held = fs::File::open(slot.plan.workspace.join("file")).unwrap();
        assert_eq!(pool(&slot.plan).unwrap()[0].living[0].id, std::process::id());
        assert_eq!(taken(scene, &repo, "job").1, None);
        assert!(slot.plan.workspace.join("file").exists());
        drop(held);
        assert!(taken(scene, &repo, "job").1.is_some());
    });
}

#[test]
fn a_workspace_that_could_be_changed_from_outside_is_not_reused() {
    hermetic(|scene| {
        let repo = scene.repo();
        let (plan, made) = scene.make(&repo, "job");
        fs::hard_link(plan.workspace.join("file"), scene.sandbox.path("other-name")).unwrap();
        give_back(&plan, identity(&made), &slot_of(&plan)).unwrap_err();
        fs::remove_file(scene.sandbox.path("other-name")).unwrap();
        scene.git(&plan.workspace, &["init", "-q", "inner"]);
        give_back(&plan, identity(&made), &slot_of(&plan)).unwrap_err();
        assert!(plan.workspace.join("file").exists());

        let (plan, made) = scene.make(&repo, "swapped");
        let canary = scene.sandbox.dir("canary");
        scene.write(&canary.join("precious"), "precious\n");
        fs::rename(plan.workspace.join(".git"), canary.join(".git")).unwrap();
        fs::rename(&plan.workspace, plan.home().join("aside")).unwrap();
        std::os::unix::fs::symlink(&canary, &plan.workspace).unwrap();
        give_back(&plan, identity(&made), &slot_of(&plan)).unwrap_err();
        examine(&plan).unwrap_err();
        assert!(canary.join("precious").exists());
    });
}

#[test]
fn twenty_concurrent_takers_share_no_slot() {
    hermetic(|scene| {
        let repo = scene.repo();
        for number in 0..10 {
            warmed(scene, &repo, &format!("slot{number}"));
        }
        let plans: Vec<Plan> = (0..20).map(|number| scene.plan(&repo, &format!("job{number}"))).collect();
        let made: Vec<Option<Made>> = std::thread::scope(|scope| {
            let takers: Vec<_> = plans.iter().map(|plan| scope.spawn(|| take(plan, &MakeOptions::default()))).collect();
            takers.into_iter().map(|taker| taker.join().unwrap().unwrap()).collect()
        });
        assert_eq!(made.iter().flatten().count(), 10);
        for (plan, _) in plans.iter().zip(&made).filter(|(_, made)| made.is_some()) {
            assert_eq!(scene.git(&plan.workspace, &["status", "--porcelain"]), "");
        }
    });
}

#[test]
fn abandoning_a_plan_removes_a_slot_that_was_only_moved() {
    hermetic(|scene| {
        let repo = scene.repo();
        let slot = warmed(scene, &repo, "slot");
        let plan = scene.plan(&repo, "job");
        fs::rename(slot.plan.home(), plan.home()).unwrap();
        abandon(&plan).unwrap();
        assert!(!plan.home().exists());
    });
}
