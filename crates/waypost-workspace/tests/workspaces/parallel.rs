//! Many workspaces at once.

use super::*;
use std::sync::atomic::{AtomicBool, Ordering};

/// Makes so many at once while git is used in the main checkout, which must not notice.
fn at_once(scene: &Scene, count: usize, strategy: Strategy) {
    let repo = scene.repo();
    let before = everything(&repo);
    let is_over = AtomicBool::new(false);
    let plans: Vec<Plan> = (0..count).map(|number| scene.plan_by(&repo, &format!("job{number}"), strategy)).collect();
    std::thread::scope(|scope| {
        let bystander = scope.spawn(|| {
            let mut rounds = 0;
            let commands = [&["status", "--porcelain"][..], &["log", "-1"], &["branch"], &["worktree", "list"]];
            // Git's own list of worktrees is in disorder for a moment while one is added, and who reads it fails. It is
            // why jobs get clones unless they ask for worktrees.
            let commands = &commands[..if strategy == Strategy::Worktree { 2 } else { 4 }];
            while !is_over.load(Ordering::Relaxed) || rounds < 5 {
                for args in commands {
                    let ran = scene.sandbox.command("git", &repo).args(*args).output().unwrap();
                    assert!(ran.status.success(), "{args:?}: {}", String::from_utf8_lossy(&ran.stderr));
                }
                rounds += 1;
            }
        });
        let makers: Vec<_> = plans.iter().map(|plan| scope.spawn(|| make(plan, &Means::default()))).collect();
        let made: Vec<_> = makers.into_iter().map(|maker| maker.join().unwrap()).collect();
        is_over.store(true, Ordering::Relaxed);
        bystander.join().unwrap();
        for (plan, made) in plans.iter().zip(made) {
            let made = made.unwrap();
            assert_eq!(scene.git(&plan.workspace, &["status", "--porcelain"]), "");
            assert_eq!(files(&plan.workspace), files(&repo));
            if plan.name.as_str().ends_with('0') {
                remove_safely(plan, &made).unwrap();
            }
        }
    });
    if strategy == Strategy::Clone {
        assert_eq!(everything(&repo), before);
    }
    assert_eq!(scene.git(&repo, &["status", "--porcelain"]), "");
}

#[test]
fn p2_twenty_clones_at_once_all_succeed_and_the_source_is_the_same() {
    hermetic(|scene| at_once(scene, 20, Strategy::Clone));
}

#[test]
fn p2_fifty_clones_at_once_all_succeed_and_the_source_is_the_same() {
    hermetic(|scene| at_once(scene, 50, Strategy::Clone));
}

#[test]
fn twenty_worktrees_at_once_all_succeed() {
    hermetic(|scene| at_once(scene, 20, Strategy::Worktree));
}

#[test]
fn a_maker_that_is_killed_anywhere_leaves_nothing_that_its_plan_does_not_name() {
    use waypost_workspace::workspaces::abandon;
    hermetic(|scene| {
        let repo = scene.repo();
        // What a maker leaves that is killed: its parts, in the order in which they appear.
        let plan = scene.plan(&repo, "job");
        let (done, _) = scene.make(&repo, "done");
        let parts: [&dyn Fn(); 4] = [
            &|| fs::create_dir(plan.home()).unwrap(),
            &|| scene.write(&plan.home().join("plan.json"), &serde_json::to_string(&plan).unwrap()),
            &|| {
                let (mirror, base) = (plan.mirror.clone().unwrap(), plan.base.clone().unwrap());
                scene.git(&mirror, &["update-ref", "refs/waypost/keep/job/base", &base]);
            },
            &|| scene.write(&plan.workspace.join("src/main.rs"), "half"),
        ];
        let before = everything(&scene.sandbox.path("own"));
        for count in 1..=parts.len() {
            parts[..count].iter().for_each(|part| part());
            abandon(&plan).unwrap();
            let mut after = everything(&scene.sandbox.path("own"));
            after.retain(|path, _| !path.ends_with("keep/job") && !path.ends_with("workspaces/trash"));
            assert_eq!(after, before, "after {count} steps");
        }
        assert_eq!(scene.git(&done.workspace, &["status", "--porcelain"]), "");
    });
}
