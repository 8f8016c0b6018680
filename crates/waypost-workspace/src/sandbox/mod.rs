//! Confines the command of a job: its files, its network, its memory and its processes.
//!
//! Code that runs between `fork` and `exec` would be unsafe, so the supervisor starts this program again as a helper. The
//! helper reads a `Stage` from its standard input, restricts itself, and executes the command. Executing keeps the
//! process, so signals and exit codes are those of the command. With bubblewrap there are two stages: the first executes
//! bubblewrap, which executes the helper again in its new file system.

mod cgroup;
mod closed;
mod enter;
mod record;

use std::ffi::{OsStr, OsString};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use waypost_core::model::SandboxMode;
use waypost_core::{Error, Result, path_text};

use crate::surroundings;

pub use cgroup::Hits;
pub(crate) use cgroup::{Cgroup, remove_cgroup_of};
pub use enter::{enter, enter_for_tool};
pub(crate) use record::{JobSandbox, RECORD};
pub use record::{git_dir_of_worktree, record};

/// The arguments that make this program the helper.
pub const HELPER_ARGUMENTS: [&str; 2] = ["job", "confine"];
/// The maximum time that the helper needs.
const HELPER_TIMEOUT: Duration = Duration::from_mins(1);
/// The program of bubblewrap.
const BUBBLEWRAP: &str = "bwrap";
/// The directories that bubblewrap makes for the job alone, and the devices in its own `/dev`: its terminals.
const PRIVATE_DIRS: [&str; 2] = ["/tmp", "/dev/shm"];
const PRIVATE_DEVICES: [&str; 3] = ["/dev/ptmx", "/dev/pts", "/dev/tty"];
/// The options that hide the processes of the machine. Through `/proc`, their root directories can be read; Landlock keeps a job
/// from that, and where there is Landlock, the options are not needed.
const OWN_PROCESSES: [&str; 3] = ["--unshare-pid", "--proc", "/proc"];
/// What the helper prints if it cannot start a tool in the sandbox of a workspace.
pub(crate) const NO_SANDBOX: &str = "cannot enter the sandbox of the workspace";
/// What the helper reports before it executes the command.
const READY: &str = "ready";

/// What a job may do with a path and everything below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Access {
    /// List directories.
    List,
    /// Read and execute.
    Read,
    /// Read, execute, change, create and remove.
    Write,
    /// Read, change, create and remove files and directories, and nothing else: no links, pipes or sockets. For what programs
    /// outside of the sandbox use, too: they would follow a link, and wait for a pipe.
    Shared,
    /// Use a device.
    Device,
    /// Nothing, whatever a path above it allows. Rules of paths below hold.
    Closed,
}

/// A path that a job may use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// The path. One that does not exist has no effect.
    #[serde(with = "path_text::serde")]
    pub path: PathBuf,
    /// What it may do there.
    pub access: Access,
}

/// The restrictions of a job.
#[derive(Clone, Debug)]
pub struct Confinement {
    /// How its files are restricted.
    pub mode: SandboxMode,
    /// The files that it may use, unless the mode is off.
    pub rules: Vec<Rule>,
    /// Whether it may use the network.
    pub network: bool,
    /// The maximum memory of all its processes, in bytes.
    pub memory: Option<u64>,
    /// The maximum number of its processes and threads.
    pub processes: Option<u32>,
}

impl Confinement {
    /// Returns whether it restricts anything.
    pub fn is_effective(&self) -> bool {
        self.mode != SandboxMode::Off || !self.network || self.memory.is_some() || self.processes.is_some()
    }
}

/// How files are restricted on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mechanism {
    /// Whether bubblewrap makes a file system that has only the listed paths.
    pub bubblewrap: bool,
    /// Whether Landlock allows only the listed paths.
    pub landlock: bool,
}

impl Mechanism {
    /// Refuses rules that it cannot apply: bubblewrap alone keeps no job from making a link.
    pub fn check(self, rules: &[Rule]) -> Result<()> {
        if self.landlock || rules.iter().all(|rule| rule.access != Access::Shared) {
            return Ok(());
        }
        Err(Error::unavailable("a job that shares its repository needs a sandbox with Landlock")
            .because("with bubblewrap alone it could put links there, which lead git astray outside of the sandbox")
            .hint("let the job work in a clone: --strategy clone")
            .hint("or use Linux 6.2 or newer with Landlock"))
    }
}

impl std::fmt::Display for Mechanism {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match (self.bubblewrap, self.landlock) {
            (true, true) => "bubblewrap and Landlock",
            (true, false) => "bubblewrap",
            (false, true) => "Landlock",
            (false, false) => "none",
        })
    }
}

/// Returns what this machine has to restrict files. Runs bubblewrap once, if it is installed.
pub fn available() -> Mechanism {
    Mechanism { bubblewrap: does_bubblewrap_work(), landlock: enter::has_landlock() }
}

/// Returns how a job with this mode is restricted. Refuses if it cannot be.
pub fn mechanism(mode: SandboxMode) -> Result<Mechanism> {
    let found = match mode {
        SandboxMode::Off => return Ok(Mechanism { bubblewrap: false, landlock: false }),
        SandboxMode::Landlock => Mechanism { bubblewrap: false, landlock: enter::has_landlock() },
        SandboxMode::On | SandboxMode::Bubblewrap => available(),
    };
    let (is_enough, missing) = match mode {
        SandboxMode::Bubblewrap => (found.bubblewrap, "bubblewrap does not work here"),
        SandboxMode::Landlock => (found.landlock, "the kernel has no Landlock of version 3 or newer"),
        _ => (found.bubblewrap || found.landlock, "neither Landlock of version 3 nor bubblewrap works here"),
    };
    if is_enough {
        return Ok(found);
    }
    let advice = "install bubblewrap, or use Linux 6.2 or newer with Landlock; way doctor shows what works";
    Err(Error::unavailable(format!("the job needs a sandbox, and {missing}"))
        .hint(advice)
        .hint("to run jobs without a sandbox: way config set --user jobs.sandbox off"))
}

/// Returns whether limits on memory and processes hold for all processes of a job together.
pub fn has_cgroups() -> bool {
    cgroup::is_available()
}

fn does_bubblewrap_work() -> bool {
    if !cfg!(target_os = "linux") {
        return false;
    }
    let mut probe = surroundings::command(BUBBLEWRAP);
    probe.args(["--ro-bind", "/", "/", "--dev", "/dev", "--tmpfs", "/tmp"]);
    if !enter::has_landlock() {
        probe.args(OWN_PROCESSES);
    }
    probe.args(["--", "/proc/self/exe", "--version"]);
    let output = probe.stdin(Stdio::null()).output();
    output.is_ok_and(|output| output.status.success())
}

/// One step of the helper: what it restricts, and what it executes then.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Stage {
    /// The paths that Landlock allows; all if none.
    rules: Option<Vec<Rule>>,
    /// Whether the process gets its own network, with nothing but a loopback interface.
    own_network: bool,
    /// Whether the process gets its own user namespace, in which its processes are counted.
    own_user: bool,
    /// The maximum private memory of each process.
    memory: Option<u64>,
    /// The maximum number of processes of the user in its namespace.
    processes: Option<u32>,
    /// Whether it executes the command of the job, not the next stage.
    is_last: bool,
    /// The directories of programs, as the command has them in `PATH`.
    path: String,
    /// The program and its arguments, as text of paths.
    command: Vec<String>,
}

/// Why the helper did not execute the command.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Failure {
    /// There is no such program.
    Missing(String),
    /// The program cannot be executed.
    Forbidden(String),
    /// The restrictions cannot be applied.
    Unavailable(String),
}

impl Failure {
    fn into_error(self) -> Error {
        match self {
            Failure::Missing(why) => Error::not_found(why),
            Failure::Forbidden(why) => Error::refused(why),
            Failure::Unavailable(why) => Error::unavailable(why),
        }
    }
}

/// A confined command that was not started yet.
pub(crate) struct Prepared {
    stages: Vec<Stage>,
    cgroup: Option<Cgroup>,
    ours: UnixStream,
}

/// Prepares a confined command. Returns it with the command that starts the helper.
pub(crate) fn prepare(
    confinement: &Confinement,
    job: &str,
    dir: &Path,
    (command, path): (&[String], &OsStr),
) -> Result<(Prepared, Command)> {
    let cannot = |error| Error::unavailable("cannot start the sandbox of the job").because(error);
    let mechanism = mechanism(confinement.mode)?;
    let helper = surroundings::own_program().map_err(cannot)?;
    let cgroup = if confinement.memory.is_some() || confinement.processes.is_some() {
        Cgroup::create(job, confinement.memory, confinement.processes)?
    } else {
        None
    };
    let by_process = cgroup.is_none();
    if by_process && confinement.processes.is_some() && rustix::process::getuid().is_root() {
        return Err(Error::unavailable("the number of processes cannot be limited here")
            .because("there is no cgroup that this process may divide, and root has no limit of its own"));
    }
    let mut last = Stage {
        memory: confinement.memory.filter(|_| by_process),
        processes: confinement.processes.filter(|_| by_process),
        is_last: true,
        path: path_text::to_text(Path::new(path)),
        command: command.iter().map(|part| path_text::to_text(Path::new(part))).collect(),
        ..Stage::default()
    };
    if mechanism.landlock {
        last.rules = Some(if mechanism.bubblewrap {
            // Empty directories cover what is closed.
            let mut rules = confinement.rules.clone();
            rules.retain(|rule| rule.access != Access::Closed);
            // They belong to the job alone. A rule also holds for what is mounted below, which may be shared.
            let shared = rules.iter().filter(|rule| rule.access == Access::Shared);
            let shared: Vec<PathBuf> =
                shared.flat_map(|rule| [Some(rule.path.clone()), rule.path.canonicalize().ok()]).flatten().collect();
            let own = PRIVATE_DIRS.into_iter().filter(|dir| !shared.iter().any(|path| path.starts_with(dir)));
            rules.extend(own.map(|path| Rule { path: path.into(), access: Access::Write }));
            rules.extend(PRIVATE_DEVICES.map(|path| Rule { path: path.into(), access: Access::Device }));
            rules
        } else {
            closed::without_closed(&confinement.rules)
        });
    }
    let stages = if mechanism.bubblewrap {
        let own_processes = !mechanism.landlock;
        let command = bubblewrap(&confinement.rules, confinement.network, own_processes, dir, &helper);
        let command = command.iter().map(|part| path_text::to_text(Path::new(part))).collect();
        vec![Stage { command, ..Stage::default() }, last]
    } else {
        last.own_network = !confinement.network;
        last.own_user = last.processes.is_some();
        vec![last]
    };
    let (ours, theirs) = UnixStream::pair().map_err(cannot)?;
    let mut start = Command::new(helper);
    start.args(HELPER_ARGUMENTS).stdin(std::os::fd::OwnedFd::from(theirs));
    Ok((Prepared { stages, cgroup, ours }, start))
}

impl Prepared {
    /// Lets the started helper continue, and waits until it executes the command. Returns the cgroup of the job.
    pub(crate) fn run(mut self, helper: u32) -> Result<Option<Cgroup>> {
        match self.handshake(helper) {
            Ok(()) => Ok(self.cgroup),
            Err(error) => {
                if let Some(cgroup) = self.cgroup {
                    cgroup.remove();
                }
                Err(error)
            }
        }
    }

    fn handshake(&mut self, helper: u32) -> Result<()> {
        let cannot = |error| Error::unavailable("cannot start the sandbox of the job").because(error);
        // The helper waits for its first stage, so all processes of the job are in the group.
        if let Some(cgroup) = &self.cgroup {
            cgroup.add(helper)?;
        }
        for stage in &self.stages {
            let text = serde_json::to_vec(stage).map_err(|error| Error::internal(error.to_string()))?;
            let sent =
                self.ours.write_all(&(text.len() as u64).to_le_bytes()).and_then(|()| self.ours.write_all(&text));
            sent.map_err(cannot)?;
        }
        self.ours.set_read_timeout(Some(HELPER_TIMEOUT)).map_err(cannot)?;
        // Bubblewrap keeps its end of the socket open while the command runs.
        let has_end = self.stages.len() == 1;
        let mut reply = Vec::new();
        let mut part = [0; 4096];
        loop {
            match self.ours.read(&mut part) {
                Ok(0) => break,
                Ok(length) => reply.extend(&part[..length]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // The helper ended before it read all stages.
                Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
                Err(error) => return Err(cannot(error)),
            }
            if !has_end && reply.ends_with(b"\n") {
                break;
            }
        }
        let mut is_ready = false;
        for line in String::from_utf8_lossy(&reply).lines() {
            if line == READY {
                is_ready = true;
            } else {
                let failure: Failure =
                    serde_json::from_str(line).map_err(|error| Error::internal(error.to_string()))?;
                return Err(failure.into_error());
            }
        }
        if is_ready {
            return Ok(());
        }
        Err(Error::unavailable("the sandbox of the job did not start").hint("its log has the messages of bubblewrap"))
    }
}

/// Returns the command of bubblewrap that executes the helper in a file system with the listed paths.
fn bubblewrap(rules: &[Rule], network: bool, own_processes: bool, dir: &Path, helper: &Path) -> Vec<OsString> {
    let mut command: Vec<OsString> =
        [BUBBLEWRAP, "--unshare-ipc", "--dev", "/dev", "--tmpfs", "/tmp"].map(OsString::from).into();
    if !network {
        command.push("--unshare-net".into());
    }
    let mut mounts: Vec<(PathBuf, Access)> = Vec::new();
    let is_own = |path: &Path| path == Path::new("/dev") || (own_processes && path == Path::new("/proc"));
    for rule in rules.iter().filter(|rule| rule.access != Access::Device && !is_own(&rule.path)) {
        mounts.push((rule.path.clone(), rule.access));
        // Tools resolve links, and then use the real path.
        let real = rule.path.canonicalize().ok().filter(|real| *real != rule.path);
        mounts.extend(real.map(|real| (real, rule.access)));
    }
    // A directory is mounted before the paths in it.
    // Only what a mount would show has to be covered.
    let shown: Vec<PathBuf> = mounts
        .iter()
        .filter(|(_, access)| !matches!(access, Access::List | Access::Closed))
        .map(|(path, _)| path.clone())
        .collect();
    mounts.retain(|(path, access)| *access != Access::Closed || shown.iter().any(|shown| path.starts_with(shown)));
    mounts.sort_by_key(|(path, access)| (path.components().count(), matches!(access, Access::Write | Access::Shared)));
    if own_processes {
        command.extend(OWN_PROCESSES.map(OsString::from));
    }
    let closed: Vec<OsString> =
        mounts.iter().filter(|(_, access)| *access == Access::Closed).map(|(path, _)| path.into()).collect();
    for (path, access) in mounts {
        let option = match access {
            Access::List | Access::Closed => {
                let option = if access == Access::List { "--dir" } else { "--tmpfs" };
                command.extend([option.into(), path.into_os_string()]);
                continue;
            }
            Access::Write | Access::Shared => "--bind-try",
            Access::Read | Access::Device => "--ro-bind-try",
        };
        command.extend([option.into(), path.clone().into_os_string(), path.into_os_string()]);
    }
    // Now that everything below is mounted, nothing can be written there.
    command.extend(closed.into_iter().flat_map(|path| ["--remount-ro".into(), path]));
    command.extend(["--chdir".into(), dir.into(), "--".into(), helper.into()]);
    command.extend(HELPER_ARGUMENTS.map(OsString::from));
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bubblewrap_alone_is_refused_for_a_job_that_shares_its_repository() {
        let rules = |access| [Rule { path: "/repository/.git/refs".into(), access }];
        for (landlock, bubblewrap) in [(true, false), (true, true)] {
            Mechanism { bubblewrap, landlock }.check(&rules(Access::Shared)).unwrap();
        }
        let alone = Mechanism { bubblewrap: true, landlock: false };
        alone.check(&rules(Access::Write)).unwrap();
        let error = alone.check(&rules(Access::Shared)).unwrap_err();
        assert!(error.to_string().contains("needs a sandbox with Landlock"), "{error}");
    }
}
