//! Commands killed before each step that changes something: unfinished work is listed, nothing else is touched, a retry
//! works, and existing work is not lost.
//!
//! The real binary runs under `strace`, which kills it at one chosen system call. A few steps of every
//! command are tried, spread over its whole run; `WAYPOST_TEST_KILLS` sets how many; a large number means all.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use waypost_testkit::{Run, strace, until};

use crate::support::jobs::{Shop, is_alive, path, pid_of, state_of};
use crate::support::mounts::{Unmounted, mounts, require_overlays};
use crate::support::workspaces::tree;

/// System calls that change something, start a process that does, or wait for one.
const STEPS: &str = "/^(mkdir|rmdir|rename|unlink|link|symlink|write|pwrite|fsync|fdatasync|ftruncate|copy_file_range|\
    mount|umount|clone|vfork|fork|poll|wait|pidfd_send)";

/// How many steps of a command are tried unless `WAYPOST_TEST_KILLS` says otherwise.
const DEFAULT_STEPS: usize = 10;

/// A repository in which commands are killed, with a workspace that has work in it.
struct Scene {
    shop: Shop,
    kept: PathBuf,
    id: String,
    content: String,
    before: Vec<String>,
    /// Jobs that exist when the test begins.
    jobs: RefCell<BTreeSet<String>>,
}

impl Scene {
    fn new() -> Scene {
        // It kills a process at a chosen step.
        strace();
        let shop = Shop::new();
        let made = shop.way(["ws", "new", "--json"]).data();
        let kept = path(&made["path"]).to_owned();
        shop.sandbox.write(kept.join("file"), "changed\n");
        shop.sandbox.write(kept.join("new"), "new\n");
        shop.sandbox.git(&kept, ["add", "file"]);
        let content = tree(&shop, &kept);
        shop.sandbox.git(&shop.repo, ["status"]);
        let id = made["id"].as_str().unwrap().to_owned();
        let mut scene = Scene { shop, kept, id, content, before: Vec::new(), jobs: RefCell::default() };
        scene.before = scene.state(&[]);
        scene
    }

    /// The same under jj, without work in any workspace.
    fn of_jj() -> Scene {
        strace();
        let shop = Shop::new();
        let repo = shop.sandbox.jj_repo("jj", false);
        let shop = Shop { sandbox: shop.sandbox, repo, remote: shop.remote };
        shop.sandbox.write(shop.repo.join("file"), "one\n");
        shop.sandbox.jj(&shop.repo, ["commit", "-m", "One"]);
        let _ = shop.way(["status"]).ok();
        let (kept, id, content) = (PathBuf::new(), String::new(), String::new());
        let mut scene = Scene { shop, kept, id, content, before: Vec::new(), jobs: RefCell::default() };
        scene.before = scene.state(&[]);
        scene
    }

    /// Kills a command before its steps, one after the other.
    ///
    /// `prepare` sets up each run and returns the arguments; `again` retries the command after the checks.
    fn kill(&self, prepare: impl Fn() -> Vec<String>, mut again: impl FnMut(&[String])) {
        let steps = self.steps(&prepare());
        let wanted =
            std::env::var("WAYPOST_TEST_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(DEFAULT_STEPS);
        let mut killed = 0;
        for (name, number, line) in steps.iter().step_by(steps.len().div_ceil(wanted)) {
            let args = prepare();
            let inject = format!("inject={name}:signal=SIGKILL:when={number}");
            let mut command = self.traced(&args, &["-e", &inject]);
            let output = command.stdout(Stdio::null()).stderr(Stdio::null()).output().unwrap();
            killed += usize::from(output.status.signal() == Some(9));
            self.check(&format!("{args:?}, killed before {line}"));
            again(&args);
        }
        assert!(killed > 0, "no command was killed at any of {} steps", steps.len());
    }

    /// The steps of an undisturbed command: each call's name, its number among calls of that name, and its line.
    fn steps(&self, args: &[String]) -> Vec<(String, usize, String)> {
        let run = Run::of(&self.traced(args, &[]).output().unwrap());
        assert_eq!(run.code, 0, "{}", run.whole());
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        let trace = fs::read_to_string(self.shop.sandbox.path("trace")).unwrap();
        let calls = trace.lines().filter_map(|line| Some((line.split_once('(')?.0, line)));
        let calls = calls.filter(|(name, _)| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'));
        let steps = calls.map(|(name, line)| {
            let number = seen.entry(name.to_owned()).and_modify(|number| *number += 1).or_insert(1);
            (name.to_owned(), *number, line.chars().take(120).collect())
        });
        steps.collect()
    }

    fn traced(&self, args: &[String], options: &[&str]) -> std::process::Command {
        let own = self.shop.command();
        let mut command = self.shop.sandbox.command("strace", &self.shop.repo);
        command.env_remove("WAYPOST_TEST_CLOCK").args(["-o"]).arg(self.shop.sandbox.path("trace"));
        command.args(["-e", &format!("trace={STEPS}")]).args(options).arg(own.get_program()).args(own.get_args());
        command.args(args);
        command
    }

    /// Everything of the checkout that must not change. The branches of these workspaces do not count.
    fn state(&self, names: &[&str]) -> Vec<String> {
        if self.shop.repo.join(".jj").exists() {
            let known = self.shop.sandbox.jj(&self.shop.repo, ["workspace", "list", "--ignore-working-copy"]);
            let known = known.lines().filter(|line| !names.iter().any(|name| line.starts_with(name)));
            return vec![known.collect(), fs::read_to_string(self.shop.repo.join("file")).unwrap()];
        }
        let mut state: Vec<_> = state_of(&self.shop).iter().map(|part| part.escape_ascii().to_string()).collect();
        let refs = self.shop.sandbox.git(&self.shop.repo, ["for-each-ref"]);
        let refs = refs.lines().filter(|line| !names.iter().any(|name| line.ends_with(name)));
        state[0] = refs.collect::<Vec<_>>().join(", ");
        state
    }

    /// Waits until no job runs. A job that waits for a worker does not count.
    fn settle(&self) {
        let is_queued = |job: &Value| job["status"] == "pending" && job["settings"]["launcher"].is_null();
        until("no job runs any more", || {
            let live = self.shop.way(["job", "list", "--live", "--json"]).data();
            live.as_array().unwrap().iter().all(is_queued)
        });
    }

    /// Checks everything that a command could have left behind or damaged.
    fn check(&self, when: &str) {
        self.settle();
        let all = self.shop.workspaces();
        for one in &all {
            let is_there = path(&one["path"]).is_dir();
            assert!(one["status"] == "kept" && is_there, "{when}: {one}");
        }
        let homes: Vec<_> = all.iter().map(|one| path(&one["path"]).parent().unwrap().to_owned()).collect();
        let names: Vec<_> = homes.iter().map(|home| home.file_name().unwrap().to_owned()).collect();
        let _ = self.shop.way(["ws", "gc"]).ok();
        for entry in entries(&self.shop.root()) {
            match entry.file_name().unwrap().to_str().unwrap() {
                "jobs" => {
                    for records in entries(&entry) {
                        let name = records.file_name().unwrap().to_str().unwrap();
                        if !self.jobs.borrow().contains(name) {
                            assert_eq!(self.shop.way(["job", "show", name]).code, 0, "{when}: {name} is no job");
                            self.jobs.borrow_mut().insert(name.to_owned());
                        }
                    }
                }
                "saved" => {
                    let saved = self.snapshots();
                    for one in entries(&entry).iter().filter(|one| !one.ends_with("lock")) {
                        let is_known = saved.iter().any(|known| known["path"] == one.to_str().unwrap());
                        assert!(is_known, "{when}: {} is listed nowhere", one.display());
                    }
                }
                "trash" => assert_eq!(entries(&entry), Vec::<PathBuf>::new(), "{when}"),
                "pool" => {
                    for slot in entries(&entry).iter().filter(|pool| pool.is_dir()).flat_map(|pool| entries(pool)) {
                        let is_known = homes.contains(&slot) || (slot.ends_with("trash") && entries(&slot).is_empty());
                        assert!(is_known, "{when}: {} is listed nowhere", slot.display());
                    }
                }
                _ => assert!(homes.contains(&entry), "{when}: {} is listed nowhere", entry.display()),
            }
        }
        // Nothing is kept for a workspace that no longer exists.
        for mirror in entries(&self.shop.sandbox.path("home/.waypost/mirrors")) {
            if mirror.extension().is_some_and(|kind| kind == "git") {
                let refs = ["for-each-ref", "--format=%(refname:strip=3)", "refs/waypost/keep"];
                for kept in self.shop.sandbox.git(&mirror, refs).lines() {
                    let name = kept.split('/').next().unwrap();
                    assert!(names.iter().any(|known| known == name), "{when}: {kept} is kept for an unknown workspace");
                }
            }
            for user in entries(&mirror).iter().flat_map(|template| entries(&template.join("users"))) {
                let name = user.file_name().unwrap();
                assert!(
                    names.iter().any(|known| known == name),
                    "{when}: {} belongs to an unknown workspace",
                    user.display()
                );
            }
        }
        for mounted in mounts(&self.shop.root()) {
            assert!(all.iter().any(|one| path(&one["path"]) == mounted), "{when}: {} is mounted", mounted.display());
        }
        let names: Vec<_> = names.iter().map(|name| name.to_str().unwrap()).collect();
        assert_eq!(self.state(&names), self.before, "{when}");
        if !self.id.is_empty() {
            assert_eq!(tree(&self.shop, &self.kept), self.content, "{when}");
        }
    }

    fn made(&self, strategy: &str) -> Value {
        self.shop.way(["ws", "new", "--strategy", strategy, "--json"]).data()
    }

    /// Kills commands that make a workspace: the next workspace is complete, and removing it leaves nothing.
    fn kill_while_making(&self, strategy: &str) {
        let args = || words(&["ws", "new", "--strategy", strategy]);
        self.kill(args, |_| {
            let made = self.made(strategy);
            assert_eq!(fs::read_to_string(path(&made["path"]).join("file")).unwrap(), "one\n");
            self.remove_others();
        });
    }

    /// Removes every workspace except the kept one. They contain no work.
    fn remove_others(&self) {
        for one in self.shop.workspaces().iter().filter(|one| one["id"] != self.id.as_str()) {
            let discard = if one["strategy"] == "copy" { "--discard" } else { "--force" };
            let _ = self.shop.way(["ws", "rm", one["id"].as_str().unwrap(), discard]).ok();
        }
    }

    fn snapshots(&self) -> Vec<Value> {
        self.shop.way(["ws", "snapshots", "--json"]).data().as_array().unwrap().clone()
    }
}

fn words(args: &[&str]) -> Vec<String> {
    args.iter().map(|word| (*word).to_owned()).collect()
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir).into_iter().flatten().map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn p26_making_a_clone_may_be_killed_at_any_step() {
    let scene = Scene::new();
    scene.kill_while_making("clone");
}

#[test]
fn p26_making_the_first_clone_of_a_repository_may_be_killed_at_any_step() {
    let mut scene = Scene::new();
    let _ = scene.shop.way(["ws", "rm", &scene.id, "--discard"]).ok();
    scene.id.clear();
    let mirrors = scene.shop.sandbox.path("home/.waypost/mirrors");
    let forget = || {
        scene.remove_others();
        let identity = waypost_fs::FileIdentity::of(&mirrors).unwrap();
        waypost_fs::remove_tree(&mirrors, identity).unwrap();
        words(&["ws", "new"])
    };
    scene.kill(forget, |_| {
        let made = scene.made("clone");
        assert_eq!(fs::read_to_string(path(&made["path"]).join("file")).unwrap(), "one\n");
        let left: Vec<_> = entries(&mirrors).into_iter().flat_map(|dir| [entries(&dir), vec![dir]].concat()).collect();
        let is_new = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_str().unwrap().ends_with("new"));
        assert!(!left.iter().any(is_new), "{left:?}");
    });
}

#[test]
fn p26_making_a_worktree_may_be_killed_at_any_step() {
    let scene = Scene::new();
    scene.kill_while_making("worktree");
    assert_eq!(scene.shop.sandbox.git(&scene.shop.repo, ["worktree", "list"]).lines().count(), 1);
}

/// Wraps git so that it adds worktrees only when a file appears. Returns the search path of the wrapper, the file
/// to which it writes its process id, and the file it waits for.
fn slow_git(shop: &Shop) -> (String, PathBuf, PathBuf) {
    let (begun, go, bin) = (shop.sandbox.path("begun"), shop.sandbox.path("go"), shop.sandbox.dir("bin"));
    let wait = format!("echo $$ > {}; while [ ! -e {} ]; do sleep 0.01; done", begun.display(), go.display());
    let real = shop.sandbox.command("sh", &shop.repo).args(["-c", "command -v git"]).output().unwrap();
    let real = String::from_utf8(real.stdout).unwrap();
    let script = format!("#!/bin/sh\ncase \"$*\" in *\"worktree add\"*) {wait} ;; esac\nexec {} \"$@\"\n", real.trim());
    shop.sandbox.program(bin.join("git"), script);
    (format!("{}:{}", bin.display(), std::env::var("PATH").unwrap()), begun, go)
}

/// A command that stopped in the middle.
struct Stopped {
    tracer: Child,
    pid: Pid,
}

impl Stopped {
    /// Starts a command, and waits until it stops at its first such system call on a path.
    fn at(shop: &Shop, call: &str, path: &str, args: &[&str]) -> Stopped {
        let own = shop.command();
        let trace = shop.sandbox.path("stopped");
        let _ = fs::remove_file(&trace);
        let mut command = shop.sandbox.command("strace", &shop.repo);
        command.env_remove("WAYPOST_TEST_CLOCK").arg("-o").arg(&trace).args(["-P", path]);
        command.args(["-e", &format!("inject={call}:signal=SIGSTOP:when=1")]).arg(own.get_program());
        let tracer = command.args(own.get_args()).args(args).stdout(Stdio::null()).spawn().unwrap();
        until("it stops", || fs::read_to_string(&trace).is_ok_and(|text| text.contains("stopped by SIGSTOP")));
        let child = fs::read_to_string(format!("/proc/{0}/task/{0}/children", tracer.id())).unwrap();
        Stopped { tracer, pid: Pid::from_raw(child.trim().parse().unwrap()).unwrap() }
    }

    /// Lets it continue, and checks that it succeeds.
    fn finish(&mut self) {
        kill_process(self.pid, Signal::CONT).unwrap();
        assert!(self.tracer.wait().unwrap().success());
    }
}

/// Checks that git was ended and that nothing is left of the worktree it was about to add.
fn check_rolled_back(shop: &Shop, begun: &Path, go: &Path) {
    assert!(!is_alive(&fs::read_to_string(begun).unwrap()), "git is still running");
    shop.sandbox.write(go, "");
    assert_eq!(shop.sandbox.git(&shop.repo, ["worktree", "list"]).lines().count(), 1);
    assert_eq!(shop.sandbox.git(&shop.repo, ["branch", "--list", "waypost/*"]), "");
    let left: Vec<_> = entries(&shop.root()).into_iter().filter(|entry| !entry.ends_with("jobs")).collect();
    assert!(left.iter().all(|entry| entry.ends_with("trash") && entries(entry).is_empty()), "{left:?}");
}

#[test]
fn p26_git_is_ended_when_the_command_that_started_it_was_killed() {
    let shop = Shop::new();
    let (search, begun, go) = slow_git(&shop);
    let mut command = shop.command();
    command.env("PATH", search).args(["ws", "new", "--strategy", "worktree"]).stderr(Stdio::null());
    let mut maker = command.spawn().unwrap();
    until("git adds a worktree", || fs::read_to_string(&begun).is_ok_and(|pid| pid.ends_with('\n')));
    maker.kill().unwrap();
    maker.wait().unwrap();
    // The next command ends git before it rolls anything back.
    assert_eq!(shop.workspaces(), Vec::<Value>::new());
    check_rolled_back(&shop, &begun, &go);
}

#[test]
fn p26_git_is_ended_when_the_supervisor_that_started_it_was_killed() {
    let shop = Shop::new();
    let (search, begun, go) = slow_git(&shop);
    let mut command = shop.command();
    command.env("PATH", search).args(["job", "start", "--strategy", "worktree", "--", "true"]);
    let mut starter = command.stderr(Stdio::null()).spawn().unwrap();
    until("git adds a worktree", || fs::read_to_string(&begun).is_ok_and(|pid| pid.ends_with('\n')));
    starter.kill().unwrap();
    starter.wait().unwrap();
    let job = shop.way(["job", "list", "--json"]).data()[0].clone();
    kill_process(pid_of(&job["supervisor"]), Signal::KILL).unwrap();
    // The next command that shows the job notices that its supervisor died.
    until("its death is noticed", || shop.show(&job)["status"] == "interrupted");
    check_rolled_back(&shop, &begun, &go);
}

#[test]
fn p26_a_workspace_that_is_completed_during_a_check_is_not_removed() {
    strace();
    let shop = Shop::new();
    let (search, begun, go) = slow_git(&shop);
    let mut command = shop.command();
    command.env("PATH", search).args(["ws", "new", "--strategy", "worktree"]).stdout(Stdio::null());
    let mut maker = command.spawn().unwrap();
    until("git adds a worktree", || fs::read_to_string(&begun).is_ok_and(|pid| pid.ends_with('\n')));
    // Stopped after it has read that the workspace is being made, and before it knows whether the maker is alive.
    let mut looker = Stopped::at(&shop, "openat", &format!("/proc/{}/stat", maker.id()), &["ws", "list"]);
    shop.sandbox.write(&go, "");
    assert!(maker.wait().unwrap().success());
    looker.finish();
    let made = &shop.workspaces()[0];
    assert_eq!((&made["status"], path(&made["path"]).join("file").is_file()), (&"kept".into(), true));
}

#[test]
fn p26_a_job_that_gets_a_supervisor_during_a_check_is_not_marked_interrupted() {
    strace();
    let shop = Shop::new();
    let (begun, go) = (shop.sandbox.path("begun"), shop.sandbox.path("go"));
    let script =
        format!("echo $$ > {0}; while [ -e {0} -a ! -e {1} ]; do sleep 0.01; done", begun.display(), go.display());
    // The job is recorded and has no supervisor yet, only the launcher that is about to start one.
    let records = shop.root().join("jobs");
    let start = ["job", "start", "--detach", "--", "sh", "-c", &script];
    let mut launcher = Stopped::at(&shop, "/^mkdir", records.to_str().unwrap(), &start);
    let job = shop.way(["job", "list", "--json"]).data()[0].clone();
    assert_eq!((&job["status"], &job["supervisor"]), (&"pending".into(), &Value::Null), "{job}");
    assert_eq!(pid_of(&job["settings"]["launcher"]), launcher.pid);
    // Stopped after it has read that, and before it knows whether the launcher is alive.
    let asked = format!("/proc/{}/stat", launcher.pid.as_raw_nonzero());
    let mut looker = Stopped::at(&shop, "openat", &asked, &["job", "list"]);
    launcher.finish();
    until("its command runs", || fs::read_to_string(&begun).is_ok_and(|pid| pid.ends_with('\n')));
    looker.finish();
    assert!(is_alive(&fs::read_to_string(&begun).unwrap()), "{}", shop.show(&job));
    assert_eq!(shop.show(&job)["status"], "running");
    shop.sandbox.write(&go, "");
    let _ = shop.way(["job", "wait", job["id"].as_str().unwrap()]).ok();
}

#[test]
fn p26_making_a_copy_may_be_killed_at_any_step() {
    let scene = Scene::new();
    scene.kill_while_making("copy");
}

#[test]
fn p26_making_or_removing_a_jj_workspace_may_be_killed_at_any_step() {
    let scene = Scene::of_jj();
    scene.kill_while_making("jj");
    let clean = || words(&["ws", "rm", scene.made("jj")["id"].as_str().unwrap()]);
    scene.kill(clean, |args| {
        let shown = scene.shop.way(["ws", "show", &args[2], "--json"]).data();
        if shown["workspace"]["status"] == "kept" {
            let _ = scene.shop.way(["ws", "rm", &args[2]]).ok();
        }
        assert!(!path(&shown["workspace"]["path"]).exists());
    });
}

#[test]
fn p26_making_an_overlay_may_be_killed_at_any_step() {
    let scene = Scene::new();
    let _mounts = Unmounted::below(&scene.shop.root());
    require_overlays(&scene.shop);
    scene.kill_while_making("overlay");
    assert_eq!(mounts(&scene.shop.root()), Vec::<PathBuf>::new());
}

#[test]
fn p19_p26_filling_the_pool_or_taking_from_it_may_be_killed_at_any_step() {
    let scene = Scene::new();
    let pool = || scene.shop.way(["ws", "pool", "--json"]).data().as_array().unwrap().len();
    scene.kill(
        || words(&["ws", "warm", "1"]),
        |args| {
            assert_eq!(scene.shop.run(&[&args[0], &args[1], &args[2]]).ok().code, 0);
            assert_eq!(pool(), 1);
            let taken = scene.made("clone");
            assert_eq!(pool(), 0, "{taken}");
            scene.remove_others();
        },
    );
    let warm = || {
        let _ = scene.shop.way(["ws", "warm", "1"]).ok();
        words(&["ws", "new"])
    };
    scene.kill(warm, |_| {
        let made = scene.made("clone");
        assert_eq!(fs::read_to_string(path(&made["path"]).join("file")).unwrap(), "one\n");
        assert_eq!(scene.shop.sandbox.git(path(&made["path"]), ["status", "--porcelain"]), "");
        scene.remove_others();
    });
}

#[test]
fn p22_p26_saving_or_restoring_a_workspace_may_be_killed_at_any_step() {
    let scene = Scene::new();
    let saved = scene.shop.way(["ws", "snapshot", &scene.id, "--json"]).data();
    let is_whole = |one: &Value| one["tree"] == saved["tree"] && one["head"] == saved["head"];
    scene.kill(
        || words(&["ws", "snapshot", &scene.id]),
        |args| {
            // A snapshot that has a name is complete.
            let before = scene.snapshots();
            assert!(before.iter().all(is_whole), "{before:?}");
            let _ = scene.shop.run(&[&args[0], &args[1], &args[2]]).ok();
            assert_eq!(scene.snapshots().len(), before.len() + 1);
        },
    );
    let name = saved["id"].as_str().unwrap();
    let ruined = || {
        let made = scene.made("clone");
        scene.shop.sandbox.write(path(&made["path"]).join("precious"), "precious\n");
        words(&["ws", "restore", name, "--into", made["id"].as_str().unwrap()])
    };
    let precious = |shop: &Shop, workspace: &Path| {
        let is_saved = |one: &Value| {
            let object = format!("{}:precious", one["commit"].as_str().unwrap());
            let mirror = entries(&shop.sandbox.path("home/.waypost/mirrors"));
            let mirror = mirror.iter().find(|entry| entry.extension().is_some_and(|kind| kind == "git")).unwrap();
            let mut git = shop.sandbox.command("git", mirror);
            git.args(["cat-file", "-e", &object]).stderr(Stdio::null()).status().unwrap().success()
        };
        workspace.join("precious").exists() || scene.snapshots().iter().any(is_saved)
    };
    scene.kill(ruined, |args| {
        let shown = scene.shop.way(["ws", "show", &args[4], "--json"]).data();
        let workspace = path(&shown["workspace"]["path"]);
        assert!(precious(&scene.shop, workspace), "the earlier content is lost");
        let _ = scene.shop.way(["ws", "restore", name, "--into", &args[4]]).ok();
        assert_eq!(tree(&scene.shop, workspace), scene.content);
        let _ = scene.shop.way(["ws", "rm", &args[4], "--discard"]).ok();
    });
}

#[test]
fn p26_p27_removing_a_workspace_may_be_killed_at_any_step() {
    let scene = Scene::new();
    for strategy in ["clone", "worktree"] {
        let clean = || words(&["ws", "rm", scene.made(strategy)["id"].as_str().unwrap()]);
        scene.kill(clean, |args| {
            let shown = scene.shop.way(["ws", "show", &args[2], "--json"]).data();
            if shown["workspace"]["status"] == "kept" {
                let _ = scene.shop.way(["ws", "rm", &args[2]]).ok();
            }
            assert!(!path(&shown["workspace"]["path"]).exists());
        });
    }
    let spares = || {
        scene.made("clone");
        scene.made("worktree");
        words(&["ws", "gc", "--older-than", "0s"])
    };
    scene.kill(spares, |_| {
        let _ = scene.shop.way(["ws", "gc", "--older-than", "0s"]).ok();
        assert_eq!(scene.shop.workspaces().len(), 1);
    });
    assert_eq!(scene.shop.sandbox.git(&scene.shop.repo, ["worktree", "list"]).lines().count(), 1);
}

#[test]
fn p27_work_is_in_the_workspace_or_in_a_snapshot_whenever_a_removal_is_killed() {
    let scene = Scene::new();
    let dirty = |strategy: &str| {
        let made = scene.made(strategy);
        scene.shop.sandbox.write(path(&made["path"]).join("precious"), "precious\n");
        words(&["ws", "rm", made["id"].as_str().unwrap(), "--force"])
    };
    let saved = |args: &[String]| {
        let shown = scene.shop.way(["ws", "show", &args[2], "--json"]).data();
        if shown["workspace"]["status"] == "kept" {
            let precious = path(&shown["workspace"]["path"]).join("precious");
            assert_eq!(fs::read_to_string(precious).unwrap(), "precious\n", "{shown}");
            let _ = scene.shop.way(["ws", "rm", &args[2], "--force"]).ok();
        }
        let shown = scene.shop.way(["ws", "show", &args[2], "--json"]).data();
        assert_eq!(shown["workspace"]["status"], "snapshotted", "{shown}");
        let saved = shown["workspace"]["snapshot"].as_str().unwrap();
        let restored = scene.shop.way(["ws", "restore", saved, "--json"]).data();
        let restored = &restored["workspace"];
        assert_eq!(fs::read_to_string(path(&restored["path"]).join("precious")).unwrap(), "precious\n");
        let _ = scene.shop.way(["ws", "rm", restored["id"].as_str().unwrap(), "--discard"]).ok();
    };
    scene.kill(|| dirty("clone"), saved);
    scene.kill(|| dirty("copy"), saved);
}

#[test]
fn p26_starting_a_job_may_be_killed_at_any_step() {
    let scene = Scene::new();
    let start = || words(&["job", "start", "--detach", "--", "sh", "-c", "echo work > new"]);
    scene.kill(start, |_| {
        // The job ran to its end, never started, or is reported as interrupted.
        let job = scene.shop.way(["job", "list", "--limit", "1", "--json"]).data()[0].clone();
        if job["status"] == "completed" && job["command"][2] == "echo work > new" {
            assert_eq!(fs::read_to_string(path(&job["workspace_dir"]).join("new")).unwrap(), "work\n");
        }
        assert_eq!(scene.shop.job(&[], "true")["status"], "completed");
        scene.remove_others();
    });
}

#[test]
fn p19_p26_the_supervisor_of_a_job_may_be_killed_at_any_step() {
    let scene = Scene::new();
    let queued = |flags: &[&str], script: &str| {
        let args = [&["job", "start", "--queue", "--json"], flags, &["--", "sh", "-c", script]].concat();
        let job = scene.shop.run(&args).data();
        // The command that starts a supervisor creates the directory for the job's log.
        let id = job["id"].as_str().unwrap();
        fs::create_dir_all(scene.shop.root().join("jobs").join(id)).unwrap();
        words(&["job", "supervise", id])
    };
    let mut finish = |args: &[String]| {
        let job = scene.shop.way(["job", "show", &args[2], "--json"]).data();
        match job["status"].as_str().unwrap() {
            "pending" => {
                let _ = scene.shop.way(["job", "cancel", &args[2]]).ok();
            }
            "completed" => {
                let new = path(&job["workspace_dir"]).join("new");
                assert!(job["settings"]["cleanup"] == true || !new.parent().unwrap().exists() || new.exists(), "{job}");
            }
            status => assert_eq!(status, "interrupted", "{job}"),
        }
        let again = scene.shop.job(&["--cleanup"], "true");
        assert_eq!((&again["status"], &again["warnings"]), (&"completed".into(), &Value::Array(Vec::new())), "{again}");
        scene.remove_others();
    };
    scene.kill(|| queued(&[], "echo work > new"), &mut finish);
    // The same when its workspace returns to the pool.
    let _ = scene.shop.way(["config", "set", "--user", "workspaces.pool", "1"]).ok();
    scene.kill(|| queued(&["--cleanup"], "true"), &mut finish);
}
