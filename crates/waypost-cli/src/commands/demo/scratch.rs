//! The directory of the demo, and the environment of everything that runs in it.

use std::ffi::OsString;
use std::fs::DirBuilder;
use std::os::unix::fs::{DirBuilderExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::Value;
use waypost::environment::Variables;
use waypost::place::{Place, Request};
use waypost::session::Session;
use waypost::signals::ShutdownSignal;
use waypost::tokens::random_hex;
use waypost_core::op::ListJobs;
use waypost_core::{Error, Result};
use waypost_fs::{FileIdentity, remove_tree, replace};
use waypost_workspace::jobs::is_running;
use waypost_workspace::{BackgroundStep, Step, StepResult};

use super::project;

/// Variables that would bring settings of the user into the demo, beside those of Waypost.
const SETTINGS: [&str; 8] = [
    "GIT_AUTHOR_NAME",
    "GIT_AUTHOR_EMAIL",
    "GIT_COMMITTER_NAME",
    "GIT_COMMITTER_EMAIL",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "XDG_CONFIG_HOME",
    "EMAIL",
];
/// Maximum time to wait for the processes of jobs that have ended.
const END_TIMEOUT: Duration = Duration::from_secs(20);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The directory of the demo: `upstream/`, its clone `shop/`, `planning/`, and a home directory of its own.
pub(super) struct Scratch {
    pub(super) dir: PathBuf,
    pub(super) shop: PathBuf,
    pub(super) upstream: PathBuf,
    identity: FileIdentity,
    /// The changes of the environment; an empty value unsets a variable.
    changes: Vec<(OsString, OsString)>,
    variables: Variables,
}

impl Scratch {
    /// Creates the directory with the files that the story needs.
    pub(super) fn create(variables: &Variables) -> Result<Scratch> {
        let parent = variables.path("TMPDIR").unwrap_or_else(|| PathBuf::from("/tmp"));
        // Other users can write to /tmp, so the name cannot be guessed, and an existing directory is an error.
        let dir = parent.join(format!("waypost-demo-{}", random_hex(8)));
        let cannot = |error| Error::unavailable(format!("cannot write in {}", dir.display())).because(error);
        DirBuilder::new().mode(0o700).create(&dir).map_err(cannot)?;
        let dir = dir.canonicalize().map_err(cannot)?;
        let identity = FileIdentity::of_entry(&dir).map_err(cannot)?;
        let changes = changes(variables, &dir);
        let variables = variables.starting_with("").filter(|(name, _)| !changes.iter().any(|(known, _)| known == name));
        let variables = variables.chain(changes.iter().cloned()).collect();
        let (shop, upstream) = (dir.join("shop"), dir.join("upstream"));
        let scratch = Scratch { dir, shop, upstream, identity, changes, variables };
        match scratch.fill() {
            Ok(()) => Ok(scratch),
            Err(error) => {
                scratch.remove()?;
                Err(cannot(error))
            }
        }
    }

    fn fill(&self) -> std::io::Result<()> {
        for name in ["bin", "home", "home/started", "upstream", "upstream/lib", "upstream/tests"] {
            std::fs::create_dir(self.dir.join(name))?;
        }
        // The commands are those that the user types: `way` is this program.
        symlink(waypost_workspace::surroundings::own_program()?, self.dir.join("bin/way"))?;
        replace(&self.dir.join("home/.gitconfig"), project::GITCONFIG.as_bytes(), 0o600)?;
        replace(&self.dir.join("agent.sh"), project::agent().as_bytes(), 0o700)?;
        replace(&self.dir.join("reviewer.sh"), project::REVIEWER.as_bytes(), 0o700)?;
        replace(&self.dir.join("review.yaml"), project::REVIEW.as_bytes(), 0o600)?;
        for (name, text) in project::UPSTREAM {
            replace(&self.upstream.join(name), text.as_bytes(), 0o600)?;
        }
        Ok(())
    }

    /// Runs a line of shell in a directory.
    pub(super) fn run(&self, dir: &Path, line: &str, on_line: &mut dyn FnMut(&str)) -> Result<StepResult> {
        self.step(dir, &["-c", line]).run(on_line)
    }

    /// Starts a line of shell in the background.
    pub(super) fn start(&self, dir: &Path, line: &str) -> Result<BackgroundStep> {
        // Without exec, a signal would reach the shell instead of the command.
        self.step(dir, &["-c", &format!("exec {line}")]).start()
    }

    fn step<'a>(&'a self, dir: &'a Path, arguments: &'a [&'a str]) -> Step<'a> {
        Step { program: Path::new("sh"), arguments, dir, variables: &self.changes }
    }

    /// Runs a command without showing it, and returns its standard output.
    pub(super) fn output(&self, dir: &Path, line: &str) -> Result<String> {
        let result = self.run(dir, line, &mut |_| {})?;
        if result.code == Some(0) { Ok(result.stdout) } else { Err(failed(line, &result)) }
    }

    /// Returns the data of a command with `--json`.
    pub(super) fn json(&self, dir: &Path, line: &str) -> Result<Value> {
        let output = self.output(dir, line)?;
        let mut answer: Value = serde_json::from_str(&output)
            .map_err(|error| Error::internal(format!("{line} did not print JSON")).because(error))?;
        Ok(answer["data"].take())
    }

    /// Returns the place of the shop.
    pub(super) fn place(&self) -> Result<Place> {
        Place::resolve(Request { cwd: self.shop.clone(), variables: self.variables.clone(), ..Request::default() })
    }

    /// Opens the store of the shop.
    pub(super) fn session(&self) -> Result<Session> {
        Session::open(self.place()?)
    }

    /// Cancels the jobs that still run, and waits for the processes of all jobs.
    pub(super) fn stop_jobs(&self) -> Result<()> {
        if !self.shop.join(".git/waypost").exists() {
            return Ok(());
        }
        let mut session = self.session()?;
        for live in session.call(ListJobs::live())?.jobs {
            // It may have ended in the meantime.
            let _ = self.run(&self.shop, &format!("way job cancel {}", live.job.id), &mut |_| {});
        }
        let all = ListJobs { live: false, ..ListJobs::live() };
        let supervisors: Vec<_> = session.call(all)?.jobs.into_iter().filter_map(|view| view.job.supervisor).collect();
        let until = Instant::now() + END_TIMEOUT;
        while supervisors.iter().any(is_running) && Instant::now() < until {
            let _ = poll(&mut [], Some(&timespec(POLL_INTERVAL)));
        }
        Ok(())
    }

    /// Removes the directory.
    pub(super) fn remove(&self) -> Result<()> {
        remove_tree(&self.dir, self.identity)
    }
}

/// Returns the error of a command that failed, although it should not.
pub(super) fn failed(line: &str, result: &StepResult) -> Error {
    let code = result.code.map_or_else(|| "a signal".to_owned(), |code| format!("exit code {code}"));
    let printed = format!("{}{}", result.stdout, result.stderr);
    Error::unavailable(format!("this command of the demo ended with {code}: {line}")).because(printed.trim())
}

/// Waits for a signal that asks this process to stop, at most this long. Returns whether there was one.
pub(super) fn is_stopped_within(shutdown: &ShutdownSignal, timeout: Duration) -> bool {
    let _ = poll(&mut [PollFd::new(shutdown, PollFlags::IN)], Some(&timespec(timeout)));
    shutdown.count() > 0
}

fn timespec(span: Duration) -> Timespec {
    Timespec { tv_sec: i64::try_from(span.as_secs()).unwrap_or(i64::MAX), tv_nsec: span.subsec_nanos().into() }
}

/// Returns the changes of the environment: a home directory in the demo, `way` in the path, and no settings of the user.
fn changes(variables: &Variables, dir: &Path) -> Vec<(OsString, OsString)> {
    let of_waypost = variables.starting_with("WAYPOST_").map(|(name, _)| name);
    let unset = of_waypost.chain(SETTINGS.iter().map(OsString::from)).map(|name| (name, OsString::new()));
    let mut changes: Vec<(OsString, OsString)> = unset.collect();
    let mut path = dir.join("bin").into_os_string();
    if let Some(rest) = variables.get("PATH") {
        path.push(":");
        path.push(rest);
    }
    changes.push(("PATH".into(), path));
    changes.push(("HOME".into(), dir.join("home").into()));
    changes
}
