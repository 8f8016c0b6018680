//! The cost of a workspace, compared with worktrees of git.
//!
//! The program `waypost-bench` makes workspaces with the library, as a process.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::cases::{CaseId, Cases, at_most};
use super::options::Options;
use super::repository;
use super::results::{Bar, Part, Row};
use super::scratch::{Scratch, create_dir};
use crate::Result;

/// The time of the first `git status` depends on the fraction of the second in which the tree was created.
const ROUNDS: u32 = 9;
const QUICK_ROUNDS: u32 = 1;
/// Time budget of one case. It includes creating a tree before each `git status`.
const CASE_BUDGET: Duration = Duration::from_secs(20);
const QUICK_BUDGET: Duration = Duration::from_secs(1);

/// Number of parallel creations, and the maximum ratio to the time of git.
const PARALLEL: usize = 20;
const QUICK_PARALLEL: usize = 4;
const PARALLEL_BAR: f64 = 0.5;

/// Files of the repository, also in the quick form: with fewer, what a workspace costs at any size would decide.
const FILES: usize = 20_000;

pub(super) fn measure(options: &Options, scratch: &Scratch, part: &mut Part) -> Result {
    let bench = &Bench::prepare(scratch)?;
    let mut cases = Cases::default();
    let worktree = cases.program("git worktree add", None, || {
        let target = bench.fresh("worktree")?;
        Ok(bench.worktree(&target))
    });
    bench.add_workspaces(&mut cases, worktree);
    bench.add_status(&mut cases);
    let (budget, rounds) = (options.pick(CASE_BUDGET, QUICK_BUDGET), options.rounds(ROUNDS, QUICK_ROUNDS));
    cases.measure_within(budget, options, rounds, part);
    if options.only.is_none() {
        let parallel = options.pick(PARALLEL, QUICK_PARALLEL);
        part.section(&format!("{parallel} in parallel"), || bench.at_once(parallel));
    }
    bench.clear()?;
    bench.source.parent().map_or(Ok(()), delete)
}

struct Bench<'a> {
    scratch: &'a Scratch,
    source: PathBuf,
    /// The directory of created trees, on the same file system as the source.
    dir: PathBuf,
    /// The number of the last name, for unique names.
    number: Cell<u64>,
    can_mount: bool,
}

impl<'a> Bench<'a> {
    fn prepare(scratch: &'a Scratch) -> Result<Self> {
        let made = scratch.dir.join(format!("workspace-source-{FILES}"));
        if !made.join(".git").is_dir() {
            eprintln!("creating a repository of {FILES} files, once");
            let unfinished = scratch.dir.join("workspace-unfinished");
            delete(&unfinished)?;
            repository::create(&unfinished, FILES)?;
            std::fs::rename(&unfinished, &made).map_err(|error| format!("{}: {error}", made.display()))?;
        }
        let place = if has_room(Path::new(IN_MEMORY)) {
            PathBuf::from(IN_MEMORY).join("waypost-bench")
        } else {
            eprintln!("{IN_MEMORY} has less than 12 GB: this also measures the disk");
            scratch.dir.join("workspace-place")
        };
        // A run that was interrupted may have left its overlays.
        unmount(&place.join("made"));
        delete(&place)?;
        create_dir(&place)?;
        let (source, dir) = (place.join("source"), place.join("made"));
        finish(Command::new("cp").arg("-a").arg(&made).arg(&source))?;
        let mut bench = Bench { scratch, source, dir, number: Cell::new(0), can_mount: false };
        bench.clear()?;
        create_dir(&bench.dir)?;
        // Also creates the mirror and the template.
        finish(bench.workspace("make", "probe", &["overlay"]).stderr(Stdio::null())).map_or_else(
            |_| eprintln!("mounts are not permitted here: skipping overlays"),
            |()| bench.can_mount = true,
        );
        finish(&mut bench.workspace("make", "probe-clone", &[]))?;
        Ok(bench)
    }

    fn add_workspaces(&'a self, cases: &mut Cases<'a>, worktree: CaseId) {
        cases.program("workspace, the next", at_most(0.5, worktree), || {
            self.remove("next")?;
            Ok(self.workspace("make", &self.name("next"), &[]))
        });
        cases.program("workspace, from the pool", at_most(0.15, worktree), || {
            self.remove("taken")?;
            finish(&mut self.workspace("warm", &self.name("slot"), &["clone", "main~3"]))?;
            Ok(self.workspace("take", &self.name("taken"), &[]))
        });
        if self.can_mount {
            cases.program("workspace, overlay", at_most(0.05, worktree), || {
                self.remove("overlay")?;
                Ok(self.workspace("make", &self.name("overlay"), &["overlay"]))
            });
        }
    }

    fn add_status(&'a self, cases: &mut Cases<'a>) {
        let status = |dir: &Path| {
            let mut command = self.git(dir);
            command.args(["status", "--porcelain"]);
            command
        };
        let worktree = cases.program("first git status, worktree", None, move || {
            let target = self.fresh("worktree-status")?;
            finish(&mut self.worktree(&target))?;
            Ok(status(&target))
        });
        cases.program("first git status, workspace", at_most(0.3, worktree), move || {
            self.remove("status")?;
            let name = self.name("status");
            finish(&mut self.workspace("make", &name, &[]))?;
            Ok(status(&self.dir.join("workspaces").join(name).join("workspace")))
        });
    }

    /// Creates many in parallel, with git and as workspaces. Every workspace must succeed.
    fn at_once(&self, parallel: usize) -> Result<Vec<Row>> {
        self.clear()?;
        create_dir(&self.dir)?;
        finish(&mut self.workspace("make", "probe", &[]))?;
        let names: Vec<String> = (0..parallel).map(|_| self.name("at-once")).collect();
        let (git, git_failed) = time(names.iter().map(|name| self.worktree(&self.dir.join(name))))?;
        let (ours, failed) = time(names.iter().map(|name| self.workspace("make", name, &[])))?;
        if failed > 0 {
            return Err(format!("{failed} of {parallel} workspaces failed"));
        }
        let worktrees =
            Row::with_value(format!("git worktree add, {parallel} in parallel, {git_failed} failed"), git, "s");
        let workspaces = Row::with_value(format!("workspaces, {parallel} in parallel"), ours, "s");
        Ok(vec![worktrees, workspaces.compared(ours / git, Some(Bar::AtMost(PARALLEL_BAR)), "git worktree add")])
    }

    /// Returns a new name. Creating files where many were just deleted is slow on some file systems.
    fn name(&self, kind: &str) -> String {
        self.number.set(self.number.get() + 1);
        format!("{kind}-{}", self.number.get())
    }

    /// Removes the earlier trees of a kind, and returns a new path for it.
    fn fresh(&self, kind: &str) -> Result<PathBuf> {
        for path in made(kind, &self.dir)? {
            delete(&path)?;
        }
        finish(self.git(&self.source).args(["worktree", "prune"]))?;
        Ok(self.dir.join(self.name(kind)))
    }

    /// Removes the workspaces of a kind.
    fn remove(&self, kind: &str) -> Result {
        for path in made(kind, &self.dir.join("workspaces"))? {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            finish(&mut self.workspace("remove", &name, &[]))?;
        }
        Ok(())
    }

    /// Removes all created trees.
    fn clear(&self) -> Result {
        unmount(&self.dir);
        if self.dir.exists() {
            delete(&self.dir)?;
        }
        finish(self.git(&self.source).args(["worktree", "prune"]))
    }

    fn worktree(&self, target: &Path) -> Command {
        let mut command = self.git(&self.source);
        command.args(["worktree", "add", "-q", "--detach"]).arg(target).arg("main");
        command
    }

    fn workspace(&self, verb: &str, name: &str, rest: &[&str]) -> Command {
        let mut command = self.scratch.program(["workspace", verb]);
        command.arg(&self.source).arg(&self.dir).arg(name).args(rest);
        command
    }

    fn git(&self, dir: &Path) -> Command {
        self.scratch.command(Path::new("git"), dir)
    }
}

/// Unmounts the overlays of a directory. A missing mount is not an error.
fn unmount(dir: &Path) {
    for path in std::fs::read_dir(dir.join("workspaces")).into_iter().flatten().flatten() {
        let _ = Command::new("umount").arg(path.path().join("workspace")).stderr(Stdio::null()).status();
    }
}

/// A file system in memory, so that no disk is measured.
const IN_MEMORY: &str = "/dev/shm";

/// Returns whether all parallel trees fit there.
fn has_room(place: &Path) -> bool {
    let output = Command::new("df").args(["-B1", "--output=avail"]).arg(place).output();
    let free = output.ok().and_then(|output| {
        String::from_utf8_lossy(&output.stdout).lines().last().and_then(|line| line.trim().parse::<u64>().ok())
    });
    free.is_some_and(|free| free > 12_000_000_000)
}

/// Lists the created trees of a kind.
fn made(kind: &str, dir: &Path) -> Result<Vec<PathBuf>> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Ok(Vec::new()) };
    let names = entries.map(|entry| entry.map(|entry| entry.path()).map_err(|error| error.to_string()));
    let is_of_kind = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let number = name.strip_prefix(kind).and_then(|rest| rest.strip_prefix('-'));
        number.is_some_and(|number| number.parse::<u64>().is_ok())
    };
    names.filter(|path| path.as_ref().map_or(true, is_of_kind)).collect()
}

/// Runs all commands in parallel. Returns the time in seconds, and the number of failures.
fn time(commands: impl Iterator<Item = Command>) -> Result<(f64, usize)> {
    let start = Instant::now();
    let children: std::io::Result<Vec<Child>> =
        commands.map(|mut command| command.stderr(Stdio::null()).spawn()).collect();
    let ended: std::io::Result<Vec<_>> =
        children.map_err(|error| error.to_string())?.iter_mut().map(Child::wait).collect();
    let failed = ended.map_err(|error| error.to_string())?.iter().filter(|status| !status.success()).count();
    Ok((start.elapsed().as_secs_f64(), failed))
}

fn finish(command: &mut Command) -> Result {
    match command.stdout(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{command:?}: {status}")),
        Err(error) => Err(format!("{command:?}: {error}")),
    }
}

/// Deletes a directory of the benchmark.
fn delete(path: &Path) -> Result {
    finish(Command::new("rm").args(["-rf", "--one-file-system", "--"]).arg(path))
}
