//! Many workspaces at once.

use super::*;
use std::os::unix::process::CommandExt;
use std::sync::atomic::{AtomicBool, Ordering};
use waypost_workspace::workspaces::abandon;

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
fn a_maker_that_left_only_a_part_is_taken_back_whole() {
    hermetic(|scene| {
        let repo = scene.repo();
        let plan = scene.plan(&repo, "job");
        let (done, _) = scene.make(&repo, "done");
        // What is there in the order in which it appears.
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

#[test]
fn a_worktree_that_git_was_killed_over_is_taken_back() {
    hermetic(|scene| {
        let repo = scene.repo();
        let before = scene.git(&repo, &["for-each-ref"]);
        let plan = scene.plan_by(&repo, "job", Strategy::Worktree);
        make(&plan, &Means::default()).unwrap();
        // Git takes this lock while it adds a worktree.
        scene.write(&repo.join(".git/worktrees/workspace/locked"), "initializing\n");
        abandon(&plan).unwrap();
        assert_eq!(scene.git(&repo, &["worktree", "list"]).lines().count(), 1);
        assert_eq!(scene.git(&repo, &["for-each-ref"]), before);
        assert!(!plan.home().exists());
    });
}

#[test]
fn fault_48_a_maker_that_is_killed_leaves_nothing_that_its_plan_does_not_name() {
    const ROUNDS: u64 = 30;
    if let Some(plan) = std::env::var_os("WAYPOST_TEST_PLAN") {
        // The process that is killed.
        let plan: Plan = serde_json::from_slice(&fs::read(plan).unwrap()).unwrap();
        make(&plan, &Means::default()).unwrap();
        return;
    }
    hermetic(|scene| {
        let repo = scene.repo();
        for number in 0..40 {
            scene.write(&repo.join(format!("many/{number}/file")), &number.to_string());
        }
        scene.git(&repo, &["add", "."]);
        scene.git(&repo, &["commit", "-q", "-m", "many"]);
        let mut survivors = 0;
        for round in 0..ROUNDS {
            let plan = scene.plan(&repo, &format!("job{round}"));
            let row = scene.sandbox.path("row");
            scene.write(&row, &serde_json::to_string(&plan).unwrap());
            let name = std::thread::current().name().unwrap().to_owned();
            let mut maker = scene.sandbox.command(std::env::current_exe().unwrap(), &scene.sandbox.path(""));
            maker.args(["--exact", &name]).env(INSIDE, "1").env("WAYPOST_TEST_PLAN", &row);
            let mut maker = maker.stdout(std::process::Stdio::null()).process_group(0).spawn().unwrap();
            // Later in every round, up to the end.
            let deadline = std::time::Instant::now() + std::time::Duration::from_millis(round * 4);
            while std::time::Instant::now() < deadline {
                std::thread::yield_now();
            }
            // With the git that it runs, which would else go on for a moment.
            let group = format!("-{}", maker.id());
            Command::new("kill").args(["-KILL", "--", &group]).output().unwrap();
            survivors += usize::from(maker.wait().unwrap().success());
            abandon(&plan).unwrap();
            assert!(!plan.home().exists() && !plan.trash().exists(), "round {round}");
            if plan.mirror.as_ref().unwrap().join("HEAD").exists() {
                let keep = scene.git(plan.mirror.as_deref().unwrap(), &["for-each-ref", "refs/waypost/keep"]);
                assert_eq!(keep, "", "round {round}");
            }
        }
        assert!(survivors < usize::try_from(ROUNDS).unwrap(), "nobody was killed");
        let (plan, _) = scene.make(&repo, "whole");
        assert_eq!(files(&plan.workspace), files(&repo));
    });
}
