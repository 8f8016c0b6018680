//! Setting up a workspace: ignored files and the set-up command.

use super::*;
use std::ffi::OsString;
use std::os::unix::fs::symlink;
use std::time::Duration;
use waypost_workspace::workspaces::{Trust, Trusted, include, set_up};

const TIMEOUT: Duration = Duration::from_mins(1);

/// The environment of a set-up command that finds the usual programs.
fn path() -> Vec<(OsString, OsString)> {
    vec![("PATH".into(), "/usr/bin:/bin".into())]
}

#[test]
fn ignored_files_are_copied_only_on_request_and_through_no_link() {
    hermetic(|scene| {
        let repo = scene.repo();
        scene.write(&repo.join(".env"), "secret\n");
        scene.write(&repo.join("target/debug/a"), "a\n");
        scene.write(&repo.join("target/b"), "b\n");
        scene.write(&repo.join("untracked"), "untracked\n");
        let before = everything(&repo);
        let (plan, _) = scene.make(&repo, "job");
        assert_eq!(include(&plan, &[]).unwrap(), 0);
        assert!(!plan.workspace.join(".env").exists());
        let patterns = [".env", "target/*", "untracked", "../*", "/etc/passwd"].map(str::to_owned);
        assert_eq!(include(&plan, &patterns).unwrap(), 2);
        assert!(plan.workspace.join(".env").exists() && plan.workspace.join("target/b").exists());
        assert!(!plan.workspace.join("target/debug").exists() && !plan.workspace.join("untracked").exists());
        assert_eq!(include(&plan, &["target/**".to_owned()]).unwrap(), 1);
        assert_eq!(at_risk(&plan), [""; 0]);
        assert_eq!(everything(&repo), before);

        // A tree with a link in place of the directory of the ignored files.
        let outside = scene.sandbox.dir("outside");
        scene.git(&repo, &["checkout", "-q", "-b", "hostile"]);
        let hostile = scene.sandbox.path("hostile");
        scene.git(&repo, &["worktree", "add", "-q", "--detach", hostile.to_str().unwrap()]);
        symlink(&outside, hostile.join("target")).unwrap();
        scene.git(&hostile, &["add", "-f", "target"]);
        scene.git(&hostile, &["commit", "-q", "-m", "link"]);
        let base = scene.git(&hostile, &["rev-parse", "HEAD"]);
        let plan = scene.try_plan(&repo, "hostile", Some(&base), None).unwrap();
        make(&plan, &MakeOptions::default()).unwrap();
        include(&plan, &["target/*".to_owned()]).unwrap_err();
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    });
}

#[test]
fn a_set_up_command_runs_in_the_workspace_and_its_log_is_kept() {
    hermetic(|scene| {
        let repo = scene.repo();
        let (plan, _) = scene.make(&repo, "job");
        let trust = Trust::at(&scene.sandbox.path("own/trusted.json"));
        let command = "echo output; echo error >&2; pwd > where; echo \"$JOB\" >> where; exit 3";
        trust.check(&repo, command, &plan.workspace).unwrap_err();
        trust.add(&repo, command, &repo).unwrap();
        let trusted = trust.check(&repo, command, &plan.workspace).unwrap();
        let mut variables = path();
        variables.push(("JOB".into(), "job".into()));
        let done = set_up(&plan, &trusted, &variables, TIMEOUT).unwrap();
        assert_eq!((done.code, done.is_late), (Some(3), false));
        assert_eq!(fs::read_to_string(&done.log).unwrap(), "output\nerror\n");
        let expected = format!("{}\njob\n", plan.workspace.display());
        assert_eq!(fs::read_to_string(plan.workspace.join("where")).unwrap(), expected);
    });
}

#[test]
fn a_set_up_command_is_killed_on_timeout_with_all_its_children() {
    hermetic(|scene| {
        let repo = scene.repo();
        let (plan, _) = scene.make(&repo, "job");
        let endless = Trusted::of_user("sleep 1000 & sleep 1000");
        let done = set_up(&plan, &endless, &path(), Duration::from_millis(200)).unwrap();
        assert_eq!((done.code, done.is_late), (None, true));
        let forked = Trusted::of_user("sleep 1000 & exit 0");
        assert_eq!(set_up(&plan, &forked, &path(), TIMEOUT).unwrap().code, Some(0));
        while !examine(&plan).unwrap().living.is_empty() {
            waypost_testkit::pause();
        }
    });
}
