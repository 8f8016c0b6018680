//! Commands on a machine without free descriptors, threads, disk space or a readable disk.
//!
//! Each command ends by itself, with the right exit code, and without advice that would destroy data.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use waypost_testkit::{Run, Sandbox, strace, unavailable};

use crate::support::mounts::Unmounted;
use crate::support::sandbox;

/// The exit code of `timeout` when it had to end the command.
const TIMEOUT_EXIT_CODE: i32 = 124;

/// Runs `way` through another program, and ends both after a minute.
fn way_through(sandbox: &Sandbox, dir: &Path, program: &[&str], args: &[&str]) -> Run {
    let way = sandbox.way_command(dir);
    let mut command: Command = sandbox.command("timeout", dir);
    let output = command.arg("60").args(program).arg(way.get_program()).args(args).output().unwrap();
    Run::of(&output)
}

/// Makes a repository with a few issues and a running workflow.
fn busy_repo(sandbox: &Sandbox) -> PathBuf {
    busy_repo_in(sandbox, "repo")
}

fn busy_repo_in(sandbox: &Sandbox, relative: &str) -> PathBuf {
    let repo = sandbox.git_repo(relative);
    let _ = sandbox.way(&repo, ["add", "First"]).ok();
    let _ = sandbox.way(&repo, ["agent", "register", "a1"]).ok();
    sandbox.write(repo.join("plan.yaml"), "tasks:\n  - name: t\n");
    let _ = sandbox.way(&repo, ["workflow", "create", "w", "--plan", "plan.yaml", "--start"]).ok();
    repo
}

#[test]
fn a_command_without_descriptors_ends_by_itself() {
    let sandbox = sandbox();
    let repo = busy_repo(&sandbox);
    for limit in 4..=14 {
        let limit = format!("--nofile={limit}");
        for args in [&["status"][..], &["agent", "register", "a1"], &["add", "x"], &["list"]] {
            let run = way_through(&sandbox, &repo, &["prlimit", &limit], args);
            assert_ne!(run.code, TIMEOUT_EXIT_CODE, "{limit} {args:?} does not end");
            assert!([0, 8].contains(&run.code), "{limit} {args:?}: {run:?}");
        }
    }
}

#[test]
fn one_failed_read_of_the_store_is_not_reported_as_damage() {
    strace();
    let sandbox = sandbox();
    let repo = busy_repo(&sandbox);
    let mut failures = 0;
    for args in [&["task", "list"][..], &["db", "check"], &["doctor"]] {
        // The first reads are those of the loader.
        for number in (3..20).step_by(2) {
            let inject = format!("inject=pread64:error=EIO:when={number}");
            let traced = ["strace", "-qq", "-o", "/dev/null", "-e", "trace=pread64", "-e", &inject];
            let run = way_through(&sandbox, &repo, &traced, args);
            assert!([0, 8].contains(&run.code), "{inject} {args:?}: {run:?}");
            assert!(!format!("{}{}", run.stdout, run.stderr).contains("move it away"), "{run:?}");
            failures += usize::from(run.code == 8);
        }
    }
    assert!(failures > 10, "only {failures} reads failed");
    let _ = sandbox.way(&repo, ["db", "check"]).ok();
}

#[test]
fn a_disk_that_becomes_unreadable_is_not_reported_as_damage() {
    strace();
    let sandbox = sandbox();
    let repo = busy_repo(&sandbox);
    for number in 3..16 {
        let inject = format!("inject=pread64:error=EIO:when={number}+");
        let traced = ["strace", "-qq", "-o", "/dev/null", "-e", "trace=pread64", "-e", &inject];
        let run = way_through(&sandbox, &repo, &traced, &["task", "list"]).fails(8);
        assert!(!run.stderr.contains("move it away"), "{run:?}");
    }
}

#[test]
fn a_command_that_cannot_start_threads_reports_an_error_instead_of_panicking() {
    strace();
    let sandbox = sandbox();
    let repo = busy_repo(&sandbox);
    let traced = ["strace", "-qq", "-o", "/dev/null", "-e", "trace=clone3", "-e", "inject=clone3:error=EAGAIN"];
    for args in [&["mcp"][..], &["serve", "--port", "0"], &["--db", "http://localhost:1", "status"], &["ws", "new"]] {
        let run = way_through(&sandbox, &repo, &traced, args).fails(8);
        assert!(!run.stderr.contains("panicked"), "{args:?}: {run:?}");
    }
    for args in [&["status"][..], &["list"], &["agent", "register", "a2"]] {
        let run = way_through(&sandbox, &repo, &traced, args);
        assert_eq!(run.code, 0, "{args:?} needs no thread: {run:?}");
    }
}

/// Fills a disk.
fn fill_disk(path: &Path) {
    let mut file = std::fs::File::create(path).unwrap();
    for size in [64 * 1024, 512, 1] {
        let block = vec![b'x'; size];
        while file.write_all(&block).is_ok() {}
    }
}

#[test]
fn a_task_can_be_released_on_a_full_disk() {
    let sandbox = sandbox();
    let disk = sandbox.dir("small");
    let mut mount = Command::new("mount");
    let mounted = mount.args(["-t", "tmpfs", "-o", "size=8m,mode=700", "none"]).arg(&disk).output().unwrap();
    if !mounted.status.success() {
        unavailable(&format!("this user may not mount: {}", String::from_utf8_lossy(&mounted.stderr)));
    }
    let _guard = Unmounted::below(&disk);
    let repo = busy_repo_in(&sandbox, "small/repo");
    let _ = sandbox.way(&repo, ["--agent", "a1", "task", "claim", "t"]).ok();
    let reserve = repo.join(".git/waypost/state.db-reserve");
    assert!(reserve.exists());
    let full = disk.join("full");
    fill_disk(&full);
    // Other commands do not use the reserved space.
    let refused = sandbox.way(&repo, ["agent", "register", "a2"]).fails(8);
    assert!(refused.stderr.contains("the disk is full"), "{refused:?}");
    assert!(reserve.exists());
    let _ = sandbox.way(&repo, ["--agent", "a1", "task", "release", "t"]).ok();
    assert!(!reserve.exists());
    let task = sandbox.way(&repo, ["task", "show", "t", "--json"]).data();
    assert_eq!(task["status"], "pending", "{task}");
    // With free space again, the next write refills the reserve.
    std::fs::remove_file(full).unwrap();
    let _ = sandbox.way(&repo, ["agent", "register", "a2"]).ok();
    assert!(reserve.exists());
}
