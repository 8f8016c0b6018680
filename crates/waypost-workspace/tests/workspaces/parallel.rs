//! Concurrent and interrupted makes.

use super::*;
use std::os::unix::process::CommandExt;
use std::sync::atomic::{AtomicBool, Ordering};
use waypost_workspace::workspaces::abandon;

/// Makes `count` workspaces concurrently, while git commands run in the main checkout, which must not be affected.
fn make_concurrently(scene: &Scene, count: usize, strategy: Strategy) {
    let repo = scene.repo();
    let before = everything(&repo);
    let is_over = AtomicBool::new(false);
    let plans: Vec<Plan> = (0..count).map(|number| scene.plan_by(&repo, &format!("job{number}"), strategy)).collect();
    std::thread::scope(|scope| {
        let user = scope.spawn(|| {
            let mut rounds = 0;
            let commands = [&["status", "--porcelain"][..], &["log", "-1"], &["branch"], &["worktree", "list"]];
            // Git's list of worktrees is inconsistent for a moment while one is added, and commands that read it fail.
            // This is why clones are the default for jobs.
            let commands = &commands[..if strategy == Strategy::Worktree { 2 } else { 4 }];
            while !is_over.load(Ordering::Relaxed) || rounds < 5 {
                for args in commands {
                    let ran = scene.sandbox.command("git", &repo).args(*args).output().unwrap();
                    assert!(ran.status.success(), "{args:?}: {}", String::from_utf8_lossy(&ran.stderr));
                }
                rounds += 1;
            }
        });
        let makers: Vec<_> = plans.iter().map(|plan| scope.spawn(|| make(plan, &MakeOptions::default()))).collect();
        let made: Vec<_> = makers.into_iter().map(|maker| maker.join().unwrap()).collect();
        is_over.store(true, Ordering::Relaxed);
        user.join().unwrap();
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
fn p2_twenty_concurrent_clones_succeed_and_do_not_change_the_source() {
    hermetic(|scene| make_concurrently(scene, 20, Strategy::Clone));
}

#[test]
fn p2_fifty_concurrent_clones_succeed_and_do_not_change_the_source() {
    hermetic(|scene| make_concurrently(scene, 50, Strategy::Clone));
}

#[test]
fn twenty_concurrent_worktrees_succeed() {
    hermetic(|scene| make_concurrently(scene, 20, Strategy::Worktree));
}

#[test]
fn abandoning_a_plan_removes_every_partial_state() {
    hermetic(|scene| {
        let repo = scene.repo();
        let plan = scene.plan(&repo, "job");
        let (done, _) = scene.make(&repo, "done");
        // The parts of a workspace in the order in which they appear.
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
fn abandoning_a_plan_removes_a_worktree_that_git_left_locked() {
    hermetic(|scene| {
        let repo = scene.repo();
        let before = scene.git(&repo, &["for-each-ref"]);
        let plan = scene.plan_by(&repo, "job", Strategy::Worktree);
        make(&plan, &MakeOptions::default()).unwrap();
        // Git holds this lock while it adds a worktree.
        scene.write(&repo.join(".git/worktrees/workspace/locked"), "initializing\n");
        abandon(&plan).unwrap();
        assert_eq!(scene.git(&repo, &["worktree", "list"]).lines().count(), 1);
        assert_eq!(scene.git(&repo, &["for-each-ref"]), before);
        assert!(!plan.home().exists());
    });
}

#[test]
fn f48_a_killed_make_leaves_nothing_that_its_plan_does_not_name() {
    const ROUNDS: u64 = 30;
    if let Some(plan) = std::env::var_os("WAYPOST_TEST_PLAN") {
        // The process that is killed.
        let plan: Plan = serde_json::from_slice(&fs::read(plan).unwrap()).unwrap();
        make(&plan, &MakeOptions::default()).unwrap();
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
            // Later in every round, until it completes.
            let deadline = std::time::Instant::now() + std::time::Duration::from_millis(round * 4);
            while std::time::Instant::now() < deadline {
                std::thread::yield_now();
            }
            // Kill the group: the git that it runs would continue for a moment.
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
        assert!(survivors < usize::try_from(ROUNDS).unwrap(), "no process was killed");
        let (plan, _) = scene.make(&repo, "whole");
        assert_eq!(files(&plan.workspace), files(&repo));
    });
}
