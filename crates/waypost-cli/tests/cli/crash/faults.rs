//! Commands on a machine without free descriptors, threads, disk space or a readable disk.
//!
//! Each command ends by itself, with the right exit code, and without advice that would destroy data.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use waypost_testkit::{Run, Sandbox, strace, unavailable};

use crate::support::ledger::{LEDGER, add};
use crate::support::mounts::{Unmounted, hold_file};
use crate::support::repos::contributor;
use crate::support::sandbox;
use crate::support::transfers::{at, copies};

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

#[test]
fn f14_a_job_for_which_no_process_can_be_started_counts_no_attempt() {
    strace();
    let sandbox = sandbox();
    let repo = busy_repo(&sandbox);
    let trace = sandbox.path("trace");
    let attempts = || sandbox.way(&repo, ["task", "show", "t", "--json"]).data()["attempts"].clone();
    let mut failures = 0;
    // The command starts git and the supervisor, which starts git and the command of the job.
    for number in 1.. {
        let calls = "clone,clone3,fork,vfork";
        let (shown, inject) = (format!("trace={calls}"), format!("inject={calls}:error=EAGAIN:when={number}+"));
        let traced = ["strace", "-f", "-qq", "-o", trace.to_str().unwrap(), "-e", &shown, "-e", &inject];
        let job = ["job", "start", "--agent", "a1", "--task", "t", "--", "true"];
        let run = way_through(&sandbox, &repo, &traced, &job);
        assert_ne!(run.code, 0, "{number}: {run:?}");
        if !std::fs::read_to_string(&trace).unwrap().contains("INJECTED") {
            break;
        }
        assert_eq!(attempts(), 0, "{number}: {run:?}");
        failures += 1;
        // Where even the supervisor could not be started, the task is still the agent's.
        let _ = sandbox.way(&repo, ["task", "release", "t", "--agent", "a1"]);
    }
    assert!(failures > 4, "only {failures} starts failed");
    // In the last round its command was started, and ended without finishing the task.
    assert_eq!(attempts(), 1);
}

/// A library that writes half of what a program wants to write. A kernel may do so at any time.
const SHORT_WRITES: &str = "
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <unistd.h>
static size_t half(size_t n) { return n > 1 ? n / 2 : n; }
ssize_t write(int fd, const void *bytes, size_t n) { return syscall(SYS_write, fd, bytes, half(n)); }
ssize_t pwrite64(int fd, const void *bytes, size_t n, off_t at) { return syscall(SYS_pwrite64, fd, bytes, half(n), at); }
ssize_t pwrite(int fd, const void *bytes, size_t n, off_t at) { return pwrite64(fd, bytes, n, at); }
";

#[test]
fn f11_short_writes_are_completed() {
    strace();
    let sandbox = sandbox();
    let repo = busy_repo(&sandbox);
    sandbox.write("short.c", SHORT_WRITES);
    let library = sandbox.path("short.so");
    let mut compiler = sandbox.command("cc", &sandbox.path(""));
    let _ = Run::of(
        &compiler.args(["-shared", "-fPIC", "-o"]).args([&library, &sandbox.path("short.c")]).output().unwrap(),
    )
    .ok();
    let preload = format!("LD_PRELOAD={}", library.display());
    let trace = sandbox.path("trace");
    let writes = |args: &[&str], variable: &str| {
        let traced = ["strace", "-qq", "-o", trace.to_str().unwrap(), "-e", "trace=write,pwrite64", "-E", variable];
        let run = way_through(&sandbox, &repo, &traced, args).ok();
        (run, std::fs::read_to_string(&trace).unwrap().lines().count())
    };
    let text = "A line of the description.\n".repeat(3_000);
    let ids = ["SHORT=no", &preload].map(|variable| {
        let (run, count) = writes(&["add", "Second", "--description", &text, "--json"], variable);
        (run.data()["id"].as_str().unwrap().to_owned(), count)
    });
    assert!(ids[1].1 > 3 * ids[0].1, "the writes are short: {ids:?}");
    for (id, _) in &ids {
        let (shown, _) = writes(&["show", id, "--json"], &preload);
        assert_eq!(shown.data()["description"].as_str().unwrap().trim_end(), text.trim_end());
    }
    let _ = writes(&["task", "claim", "t", "--agent", "a1"], &preload);
    let _ = writes(&["task", "checkpoint", "t", "--agent", "a1", "--summary", "half", "--detail", "{}"], &preload);
    for args in [&["db", "check"][..], &["doctor"]] {
        let _ = sandbox.way(&repo, args).ok();
    }
    let checkpoints = sandbox.way(&repo, ["checkpoint", "list", "t", "--json"]).data();
    assert_eq!(checkpoints[0]["summary"], "half");
}

/// Runs `way` with an error of the disk at these system calls on a file.
fn way_with_disk_error(sandbox: &Sandbox, dir: &Path, calls: &str, file: &Path, args: &[&str]) -> Run {
    let (trace, inject) = (sandbox.path("trace"), format!("inject={calls}:error=EIO"));
    let (shown, file) = (trace.to_str().unwrap(), file.to_str().unwrap());
    let traced = ["strace", "-f", "-qq", "-o", shown, "-e", &format!("trace={calls}"), "-e", &inject, "-P", file];
    let run = way_through(sandbox, dir, &traced, args);
    let trace = std::fs::read_to_string(&trace).unwrap();
    assert!(trace.contains("INJECTED"), "nothing failed: {run:?}");
    run
}

#[test]
fn a_commit_that_could_not_be_synced_is_not_reported_as_without_effect() {
    strace();
    let sandbox = sandbox();
    let repo = busy_repo(&sandbox);
    let log = repo.join(".git/waypost/state.db-wal");
    let create = ["workflow", "create", "v", "--plan", "plan.yaml", "--key", "k"];
    let run = way_with_disk_error(&sandbox, &repo, "fsync,fdatasync", &log, &create).fails(8);
    assert!(run.stderr.contains("the write may be in the store") && !run.stderr.contains("try again"), "{run:?}");
    assert_eq!(sandbox.way(&repo, create).code, 0);
    let workflows = sandbox.way(&repo, ["workflow", "list", "--json"]).data();
    assert_eq!(workflows.as_array().unwrap().iter().filter(|workflow| workflow["name"] == "v").count(), 1);
}

#[test]
fn a_withdrawal_is_done_even_if_it_cannot_clean_up() {
    strace();
    let sandbox = sandbox();
    let (_, fork, planning) = contributor(&sandbox);
    let ledger = fork.join(LEDGER);
    std::fs::remove_file(&ledger).unwrap();
    sandbox.git(&fork, ["commit", "-q", "-a", "-m", "no ledger"]);
    let is_withdrawn = |id: &str| {
        assert!(copies(&fork, id).is_empty());
        let [local] = copies(&planning, id).try_into().unwrap();
        assert_eq!(local["visibility"], "local");
    };
    let id = add(&sandbox, &fork, &["A"]);
    at(&sandbox, &fork, 1, &["propose", &id]);
    let versions = planning.join(".git/waypost/proposed.jsonl");
    // Without the versions that were proposed, it would merge the copies differently.
    let _ = way_with_disk_error(&sandbox, &fork, "openat", &versions, &["withdraw", &id]).fails(8);
    assert_eq!(copies(&fork, &id), copies(&planning, &id));
    let held = hold_file(&versions);
    at(&sandbox, &fork, 2, &["withdraw", &id]);
    is_withdrawn(&id);
    drop(held);
    // Versions of the first proposal do not count for the second.
    for (minute, title) in [(3, "B"), (5, "A")] {
        at(&sandbox, &planning, minute, &["update", &id, "--title", title]);
        at(&sandbox, &fork, minute + 1, &["propose", &id]);
        assert_eq!(copies(&fork, &id)[0]["title"], title);
    }
    let run = way_with_disk_error(&sandbox, &fork, "unlink,unlinkat", &ledger, &["withdraw", &id]);
    assert_eq!(run.code, 0, "{run:?}");
    is_withdrawn(&id);
    assert_eq!(std::fs::read(&ledger).unwrap(), b"");
}

#[test]
fn a_change_of_a_workspace_is_done_even_if_its_copy_in_the_register_cannot_be_written() {
    let sandbox = sandbox();
    let repo = busy_repo(&sandbox);
    let workspace = sandbox.way(&repo, ["ws", "new", "--json"]).data()["id"].as_str().unwrap().to_owned();
    let held = hold_file(&sandbox.path(format!("home/.waypost/registry/{workspace}.json")));
    let run = sandbox.way(&repo, ["ws", "pin", &workspace]);
    assert_eq!(run.code, 0, "{run:?}");
    drop(held);
    assert!(run.stderr.contains("warning: cannot write") && run.stderr.contains("registry"), "{run:?}");
    let refused = sandbox.way(&repo, ["ws", "rm", &workspace]).fails(7);
    assert!(refused.stderr.contains("it is pinned"), "{refused:?}");
}

#[test]
fn a_created_workspace_is_not_taken_for_an_interrupted_one_when_its_store_is_lost() {
    strace();
    let sandbox = sandbox();
    let repo = busy_repo(&sandbox);
    let (mut created, mut warned) = (Vec::new(), 0);
    for number in 1..=8 {
        let inject = format!("inject=rename:error=EIO:when={number}");
        let traced = ["strace", "-qq", "-o", "/dev/null", "-e", "trace=rename", "-e", &inject];
        let run = way_through(&sandbox, &repo, &traced, &["ws", "new", "--json"]);
        assert!([0, 8].contains(&run.code), "{run:?}");
        if run.code == 0 {
            warned += usize::from(format!("{run:?}").contains("cannot write"));
            created.push(PathBuf::from(run.data()["path"].as_str().unwrap()).join("work"));
        }
    }
    assert!(warned > 0, "no copy in the register failed");
    for work in &created {
        sandbox.write(work, "not saved elsewhere");
    }
    std::fs::rename(&repo, sandbox.path("moved")).unwrap();
    let listed = sandbox.way(&sandbox.dir("no-repository"), ["ws", "list", "--all", "--json"]).data();
    assert_eq!(listed.as_array().unwrap().len(), created.len(), "{listed:#}");
    assert!(created.iter().all(|work| work.exists()), "{created:?}");
}

#[test]
fn an_error_after_the_removal_of_a_workspace_says_that_it_is_removed() {
    strace();
    let sandbox = sandbox();
    let repo = busy_repo(&sandbox);
    let shown = sandbox.way(&repo, ["ws", "new", "--json"]).data();
    let (workspace, path) = (shown["id"].as_str().unwrap(), PathBuf::from(shown["path"].as_str().unwrap()));
    // The second transaction records the removal.
    let inject = "inject=fsync,fdatasync:error=EIO:when=2+";
    let log = repo.join(".git/waypost/state.db-wal");
    let traced = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=fsync,fdatasync", "-e", inject, "-P"];
    let traced = [&traced[..], &[log.to_str().unwrap()]].concat();
    let run = way_through(&sandbox, &repo, &traced, &["ws", "rm", workspace]).fails(8);
    assert!(run.stderr.contains("the workspace is removed, and the next command records that"), "{run:?}");
    assert!(!path.exists());
    assert_eq!(sandbox.way(&repo, ["ws", "list", "--json"]).data(), serde_json::json!([]));
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
