//! Pushing a job's work, and detecting that it was merged.

use super::*;
use waypost_workspace::workspaces::{Merged, merged, push};

#[test]
fn p28_a_branch_is_pushed_to_the_real_remote_without_force() {
    hermetic(|scene| {
        let repo = scene.repo();
        let before = everything(&repo);
        let (plan, made) = scene.make(&repo, "job");
        let root = &plan.workspace;
        scene.write(&root.join("file"), "work\n");
        scene.git(root, &["commit", "-q", "-a", "-m", "work"]);
        // The job's own configuration must not redirect the push.
        scene.git(root, &["config", "remote.origin.url", "/nowhere"]);
        scene.git(root, &["config", "remote.waypost.receivepack", "touch /tmp/never; git-receive-pack"]);
        scene.git(root, &["config", "url./nowhere.insteadOf", scene.sandbox.path("remote.git").to_str().unwrap()]);
        assert_eq!(examine(&plan).unwrap().unpushed, 1);
        let commit = push(&plan, "topic", NetworkOptions::default(), None).unwrap();
        assert_eq!(scene.git(&scene.sandbox.path("remote.git"), &["rev-parse", "topic"]), commit);
        assert_eq!(at_risk(&plan), [""; 0]);
        scene.git(root, &["reset", "-q", "--hard", "HEAD~1"]);
        scene.git(root, &["commit", "-q", "--allow-empty", "-m", "other"]);
        push(&plan, "topic", NetworkOptions::default(), None).unwrap_err();
        for bad in ["-f", "a b", "../x", ""] {
            push(&plan, bad, NetworkOptions::default(), None).unwrap_err();
        }
        assert_eq!(scene.git(&scene.sandbox.path("remote.git"), &["rev-parse", "topic"]), commit);
        assert_eq!(everything(&repo), before);
        remove(&plan, identity(&made), Work::MayGo).unwrap();
    });
}

#[test]
fn merged_work_is_detected_even_if_it_was_squashed() {
    hermetic(|scene| {
        let repo = scene.repo();
        let (plan, _) = scene.make(&repo, "job");
        let root = &plan.workspace;
        let found = || merged(&plan, NetworkOptions::default(), None).unwrap();
        assert_eq!(found(), Merged::Nothing);
        for step in ["one", "two"] {
            scene.write(&root.join(step), step);
            scene.git(root, &["add", "."]);
            scene.git(root, &["commit", "-q", "-m", step]);
        }
        assert_eq!(found(), Merged::No);
        push(&plan, "topic", NetworkOptions::default(), None).unwrap();
        assert_eq!(found(), Merged::No);
        // A reviewer merges it in another clone, squashed, after another commit.
        let reviewer = scene.sandbox.path("reviewer");
        let remote = scene.sandbox.path("remote.git");
        scene.git(&repo, &["clone", "-q", remote.to_str().unwrap(), reviewer.to_str().unwrap()]);
        scene.write(&reviewer.join("between"), "between\n");
        scene.git(&reviewer, &["add", "."]);
        scene.git(&reviewer, &["commit", "-q", "-m", "between"]);
        scene.git(&reviewer, &["merge", "-q", "--squash", "origin/topic"]);
        scene.git(&reviewer, &["commit", "-q", "-m", "squashed"]);
        scene.git(&reviewer, &["push", "-q", "origin", "main"]);
        assert_eq!(found(), Merged::Squashed);
        scene.git(&reviewer, &["merge", "-q", "-m", "whole", "origin/topic"]);
        scene.git(&reviewer, &["push", "-q", "origin", "main"]);
        assert_eq!(found(), Merged::Whole);
    });
}

#[test]
fn without_a_remote_a_push_fails() {
    hermetic(|scene| {
        let repo = scene.sandbox.git_repo("alone");
        let (plan, _) = scene.make(&repo, "job");
        let before = everything(&repo);
        push(&plan, "topic", NetworkOptions::default(), None).unwrap_err();
        assert_eq!(everything(&repo), before);
    });
}
