//! Sources and jobs that try to make Waypost run their programs.

use super::*;
use waypost_workspace::workspaces::{give_back, push, restore, snapshot, take, warm};

/// Arms a repository: every program that git would run for it leaves a file behind.
fn arm(scene: &Scene, repo: &Path, canary: &Path) {
    let touch = format!("touch {}", canary.display());
    fs::create_dir_all(repo.join(".git/hooks")).unwrap();
    for hook in [
        "post-checkout",
        "pre-commit",
        "post-commit",
        "pre-push",
        "reference-transaction",
        "post-index-change",
        "post-merge",
        "pre-auto-gc",
        "post-rewrite",
    ] {
        let path = repo.join(".git/hooks").join(hook);
        scene.sandbox.program(&path, format!("#!/bin/sh\n{touch}-{hook}\ncat >/dev/null\n"));
    }
    for (key, value) in [
        ("filter.evil.clean", format!("{touch}-clean; cat")),
        ("filter.evil.smudge", format!("{touch}-smudge; cat")),
        ("filter.evil.required", "true".to_owned()),
        ("core.fsmonitor", format!("{touch}-fsmonitor; true")),
        ("core.sshCommand", format!("{touch}-ssh; false")),
        ("core.pager", format!("{touch}-pager; cat")),
        ("core.editor", format!("{touch}-editor; true")),
        ("core.alternateRefsCommand", format!("{touch}-alternates; true")),
        ("credential.helper", format!("!{touch}-credential")),
        ("diff.external", format!("{touch}-diff")),
        ("merge.evil.driver", format!("{touch}-merge")),
        ("uploadpack.packObjectsHook", format!("{touch}-pack-objects; exec")),
        ("gpg.program", format!("{touch}-gpg; false")),
        ("remote.origin.uploadpack", format!("{touch}-uploadpack; git-upload-pack")),
        ("remote.origin.receivepack", format!("{touch}-receivepack; git-receive-pack")),
        ("alias.status", format!("!{touch}-alias")),
    ] {
        scene.git(repo, &["config", "--file", ".git/config", key, &value]);
    }
}

fn touched(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn t18_no_program_of_a_hostile_source_runs() {
    hermetic(|scene| {
        let repo = scene.repo();
        scene.write(&repo.join(".gitattributes"), "* filter=evil merge=evil\n");
        scene.git(&repo, &["add", "."]);
        scene.git(&repo, &["commit", "-q", "-m", "attributes"]);
        let canaries = scene.sandbox.dir("canaries");
        arm(scene, &repo, &canaries.join("x"));
        // The traps work: plain git runs them.
        let elsewhere = scene.sandbox.path("plain");
        scene.git(&repo, &["worktree", "add", "-q", "--detach", elsewhere.to_str().unwrap()]);
        scene.git(&repo, &["worktree", "remove", "--force", elsewhere.to_str().unwrap()]);
        scene.write(&repo.join("file"), "changed\n");
        scene.git(&repo, &["status", "--porcelain"]);
        scene.git(&repo, &["checkout", "-q", "file"]);
        let live = touched(&canaries);
        for expected in ["x-smudge", "x-clean", "x-post-checkout", "x-fsmonitor", "x-reference-transaction"] {
            assert!(live.iter().any(|name| name == expected), "the trap {expected} does not work: {live:?}");
        }
        for name in live {
            fs::remove_file(canaries.join(name)).unwrap();
        }

        let (plan, made) = scene.make(&repo, "job");
        examine(&plan).unwrap();
        remove_safely(&plan, &made).unwrap();
        warm(&scene.plan(&repo, "slot"), &MakeOptions::default()).unwrap();
        take(&scene.plan(&repo, "taken"), &MakeOptions::default()).unwrap().unwrap();
        for (id, strategy) in [("worktree", Strategy::Worktree), ("overlay", Strategy::Overlay)] {
            let plan = scene.plan_by(&repo, id, strategy);
            let made = make(&plan, &MakeOptions::default()).unwrap();
            remove(&plan, identity(&made), Work::MayGo).unwrap();
        }
        waypost_workspace::workspaces::include(&scene.plan(&repo, "none"), &["x".to_owned()]).unwrap();
        assert_eq!(touched(&canaries), [""; 0]);
    });
}

#[test]
fn t18_no_program_that_a_job_left_in_its_git_directory_runs() {
    hermetic(|scene| {
        let repo = scene.repo();
        let canaries = scene.sandbox.dir("canaries");
        let (plan, made) = scene.make(&repo, "job");
        let root = plan.workspace.clone();
        arm(scene, &root, &canaries.join("x"));
        scene.write(&root.join(".gitattributes"), "* filter=evil merge=evil\n");
        scene.write(&root.join("new"), "new\n");
        // A nested repository that would run a program when git reads its status.
        scene.git(&root, &["init", "-q", "inner"]);
        arm(scene, &root.join("inner"), &canaries.join("inner"));
        scene.write(&root.join("inner/.gitattributes"), "* filter=evil\n");
        // The traps work.
        scene.git(&root, &["add", "new"]);
        let live = touched(&canaries);
        assert!(live.contains(&"x-clean".to_owned()), "{live:?}");
        for name in live {
            fs::remove_file(canaries.join(name)).unwrap();
        }
        examine(&plan).unwrap();
        snapshot(&plan, &name("s1")).unwrap();
        scene.write(&root.join("new"), "newer\n");
        restore(&plan, &name("s1"), Some(&name("s2"))).unwrap();
        push(&plan, "topic", NetworkOptions::default(), None).unwrap();
        waypost_workspace::workspaces::merged(&plan, NetworkOptions::default(), None).unwrap();
        give_back(&plan, identity(&made), &slot_of(&plan)).unwrap_err();
        remove_dir(&root.join("inner"));
        give_back(&plan, identity(&made), &slot_of(&plan)).unwrap();
        take(&scene.plan(&repo, "next"), &MakeOptions::default()).unwrap().unwrap();
        assert_eq!(touched(&canaries), [""; 0]);
    });
}
