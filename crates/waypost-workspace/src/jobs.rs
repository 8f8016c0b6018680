//! Runs the command of a job in its own process group, keeps its output in a log of bounded size, and kills every
//! process that it started.
//!
//! The supervisor of a job adopts its orphans, so that it also finds and kills processes that detached themselves. This
//! works on Linux only; elsewhere only the process group is known.

use std::ffi::{OsStr, OsString};
use std::fs::{self, OpenOptions};
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};
use waypost_core::model::ProcessIdentity;
use waypost_core::redact::Secrets;
use waypost_core::seeded::seeded_bug;
use waypost_core::{Error, Result};
use waypost_fs::{boot_id, process_start};

use crate::job_log::Log;
pub use crate::sandbox::Hits;
use crate::sandbox::{self, Cgroup, Confinement};
use crate::surroundings;

/// The maximum time to wait for a killed process to disappear, and for the last output of a job.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);
/// How often remaining processes are checked while they are being killed.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Where programs are searched without `PATH`.
const DEFAULT_PATH: &str = "/usr/bin:/bin";
/// The arguments that make this program the supervisor of a job.
pub const SUPERVISOR_ARGUMENTS: [&str; 2] = ["job", "supervise"];
/// The environment variable that marks a job's processes.
pub const MARK: &str = "WAYPOST_JOB";
/// The environment variable with the start time of the supervisor of a job's processes. A user may set the job's id for a
/// command of their own; its processes must not be killed with the job.
const SUPERVISOR_MARK: &str = "WAYPOST_SUPERVISOR";
/// The environment variable that marks the tools that a process runs.
pub(crate) const TOOL_MARK: &str = "WAYPOST_TOOL_OF";

/// A command to run.
pub struct Start<'a> {
    /// The job's id.
    pub job: &'a str,
    /// The program and its arguments.
    pub command: &'a [String],
    /// The working directory.
    pub dir: &'a Path,
    /// The whole environment.
    pub variables: &'a [(OsString, OsString)],
    /// The file for its output.
    pub log: &'a Path,
    /// The maximum size of the log in bytes. The oldest output is dropped first.
    pub log_limit: u64,
    /// Values that the log must not contain.
    pub secrets: &'a Secrets,
    /// What it is restricted to.
    pub confinement: Option<&'a Confinement>,
}

/// How a command exited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Its exit code; none if a signal killed it.
    pub code: Option<i32>,
    /// The signal that killed it.
    pub signal: Option<i32>,
    /// How many bytes of its output were dropped.
    pub dropped: u64,
    /// How often its limits took effect.
    pub hits: Hits,
}

/// A running command.
pub struct Running {
    child: Child,
    /// Its process.
    pub identity: ProcessIdentity,
    job: String,
    watch: Option<OwnedFd>,
    printed: Receiver<u64>,
    cgroup: Option<Cgroup>,
}

/// Whether all descendants of this process belong to the job it runs.
static ADOPTS: AtomicBool = AtomicBool::new(false);

/// Makes this process adopt the orphans of its job. It must run one job and nothing else.
pub fn adopt_orphans() {
    ADOPTS.store(true, Ordering::Relaxed);
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::set_child_subreaper(Some(rustix::process::getpid())) {
        log::debug!("cannot adopt the orphans of the job: {error}");
    }
}

/// Returns the identity of this process.
pub fn own_identity() -> ProcessIdentity {
    identity_or_exited(std::process::id())
}

/// Returns the identity of a process by its id; none if it does not exist.
pub fn identity(pid: u32) -> Option<ProcessIdentity> {
    let boot_id = boot_id().unwrap_or_default().to_owned();
    process_start(pid).map(|start_time| ProcessIdentity { boot_id, pid, start_time })
}

/// Returns the identity of this process or a child of it. If it has already exited, its start time is 0.
fn identity_or_exited(pid: u32) -> ProcessIdentity {
    let gone = || ProcessIdentity { boot_id: boot_id().unwrap_or_default().to_owned(), pid, start_time: 0 };
    identity(pid).unwrap_or_else(gone)
}

/// Returns whether a process still runs. A process of another machine or boot does not.
pub fn is_running(process: &ProcessIdentity) -> bool {
    boot_id().unwrap_or_default() == process.boot_id
        && process_start(process.pid) == Some(process.start_time)
        && !is_zombie(process.pid)
}

/// Returns the mark of the tools that this process runs.
pub(crate) fn own_mark() -> &'static str {
    static MARK: OnceLock<String> = OnceLock::new();
    MARK.get_or_init(|| mark_of(&own_identity()))
}

fn mark_of(process: &ProcessIdentity) -> String {
    format!("{}-{}", process.pid, process.start_time)
}

/// Kills the tools that a killed process left behind. They would continue its work.
pub fn kill_tools_of(process: &ProcessIdentity) {
    if boot_id().unwrap_or_default() != process.boot_id {
        return;
    }
    let mark = format!("{TOOL_MARK}={}", mark_of(process));
    // On SIGTERM, git removes its partial results.
    for signal in [Signal::TERM, Signal::KILL] {
        let until = Instant::now() + EXIT_TIMEOUT;
        signal_all(|| processes_with(&mark), signal);
        while Instant::now() < until {
            if processes_with(&mark).is_empty() {
                return;
            }
            wait_for_any(&mut [], POLL_INTERVAL);
        }
    }
}

/// Returns whether a process is one of a job: the supervisor of a job is above it. It adopts orphans, so no process of a job
/// leaves its tree.
pub fn is_of_job(pid: u32) -> bool {
    let parent = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse::<u32>().ok().filter(|parent| *parent != 0)
    };
    std::iter::successors(parent(&pid), parent).any(|above| {
        let command = fs::read(format!("/proc/{above}/cmdline")).unwrap_or_default();
        let words: Vec<&[u8]> = command.split(|byte| *byte == 0).collect();
        words.windows(2).any(|pair| pair == SUPERVISOR_ARGUMENTS.map(str::as_bytes))
    })
}

/// Lists the processes that have a variable in their environment.
fn processes_with(variable: &str) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    processes.filter(|pid| !is_zombie(*pid) && has_variable(*pid, variable)).collect()
}

fn has_variable(pid: u32, variable: &str) -> bool {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|entry| entry == variable.as_bytes())
}

/// Sends SIGTERM to a process, if it still runs. Returns whether it was sent.
pub fn terminate(process: &ProcessIdentity) -> bool {
    let Some(handle) = raw_pid(process.pid).and_then(handle) else { return false };
    // Checked after the handle was opened: if the id has a new owner, the handle may be that process's.
    is_running(process) && pidfd_send_signal(handle, Signal::TERM).is_ok()
}

/// Starts the supervisor of a job: this program with other arguments and further environment variables. It continues when
/// the caller exits.
pub fn start_supervisor(
    arguments: &[OsString],
    variables: &[(OsString, OsString)],
    log: &Path,
) -> Result<ProcessIdentity> {
    let cannot = |error| Error::unavailable("cannot start the supervisor of the job").because(error);
    let program = surroundings::own_program().map_err(cannot)?;
    let errors = OpenOptions::new().append(true).create(true).mode(0o600).open(log).map_err(cannot)?;
    let mut command = surroundings::command(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors);
    command.envs(variables.iter().map(|(name, value)| (name, value)));
    // The supervisor is not a tool of this process's caller, and must not be killed with it.
    command.env_remove(TOOL_MARK);
    let child = command.spawn().map_err(cannot)?;
    Ok(identity_or_exited(child.id()))
}

/// Leaves the terminal and the session of the parent process, so that closing them does not kill this process.
pub fn detach() {
    // It fails only for the leader of a process group, which the terminal does not kill either.
    let _ = rustix::process::setsid();
}

/// Starts a command.
pub fn start(start: &Start<'_>) -> Result<Running> {
    let (program, arguments) = start.command.split_first().ok_or_else(|| Error::invalid("a job needs a command"))?;
    let cannot = |error| Error::unavailable(format!("cannot start {program}")).because(error);
    let (reader, writer) = std::io::pipe().map_err(cannot)?;
    let log = Log::open(start.log, start.log_limit, start.secrets.clone())?;
    let (prepared, mut command) = if let Some(confinement) = start.confinement {
        let path = start.variables.iter().find(|(name, _)| name == "PATH").map(|(_, path)| path.as_os_str());
        let path = path.unwrap_or(OsStr::new(DEFAULT_PATH));
        let (prepared, command) = sandbox::prepare(confinement, start.job, start.dir, (start.command, path))?;
        (Some(prepared), command)
    } else {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null());
        (None, command)
    };
    command.current_dir(start.dir).env_clear().process_group(0);
    command.envs(start.variables.iter().map(|(name, value)| (name, value))).env(MARK, start.job);
    command.env(SUPERVISOR_MARK, own_identity().start_time.to_string());
    command.stdout(writer.try_clone().map_err(cannot)?).stderr(writer);
    let (sender, printed) = mpsc::channel();
    // The thread starts before the command: a command without it would run without a log. It reads until the last
    // writing end of the pipe is closed, so it also exits if the command cannot be started.
    let keep_log = move || sender.send(log.keep(reader));
    std::thread::Builder::new().spawn(keep_log).map_err(cannot)?;
    let mut child = command.spawn().map_err(|error| match error.kind() {
        ErrorKind::NotFound => Error::not_found(format!("there is no program {program}")).because(error),
        ErrorKind::PermissionDenied => Error::refused(format!("cannot execute {program}")).because(error),
        _ => cannot(error),
    })?;
    // Closes this process's writing ends of the pipe.
    drop(command);
    let identity = identity_or_exited(child.id());
    let cgroup = match prepared.map(|prepared| prepared.run(child.id())).transpose() {
        Ok(cgroup) => cgroup.flatten(),
        Err(error) => {
            let _ = child.kill().and_then(|()| child.wait());
            return Err(error);
        }
    };
    #[cfg(target_os = "linux")]
    let watch = rustix::process::pidfd_open(Pid::from_child(&child), rustix::process::PidfdFlags::empty()).ok();
    #[cfg(not(target_os = "linux"))]
    let watch = None;
    Ok(Running { child, identity, job: start.job.to_owned(), watch, printed, cgroup })
}

impl Running {
    /// Returns whether limits hold for all its processes together.
    pub fn has_cgroup(&self) -> bool {
        self.cgroup.is_some()
    }

    /// Waits until it exits, the timeout passes, or `also` is readable.
    pub fn wait(&mut self, timeout: Duration, also: &impl std::os::fd::AsFd) -> Result<Option<Ended>> {
        let until = Instant::now() + timeout;
        if let Some(ended) = self.poll_exit()? {
            return Ok(Some(ended));
        }
        let left = until.saturating_duration_since(Instant::now());
        // Without a pidfd, its exit has to be polled.
        let left = if self.watch.is_some() { left } else { left.min(Duration::from_millis(100)) };
        let mut watched = vec![PollFd::from_borrowed_fd(also.as_fd(), PollFlags::IN)];
        watched.extend(self.watch.as_ref().map(|watch| PollFd::new(watch, PollFlags::IN)));
        wait_for_any(&mut watched, left);
        self.poll_exit()
    }

    fn poll_exit(&mut self) -> Result<Option<Ended>> {
        let status = self.child.try_wait();
        let status = status.map_err(|error| Error::unavailable("cannot watch the command").because(error))?;
        let Some(status) = status else { return Ok(None) };
        Ok(Some(Ended { code: status.code(), signal: status.signal(), dropped: 0, hits: Hits::default() }))
    }

    /// Stops it and everything that it started: SIGTERM first, SIGKILL after the grace period. Returns how it exited.
    pub fn end(mut self, grace_period: Duration, ended: Option<Ended>) -> Result<Ended> {
        let mut ended = ended;
        let until = Instant::now() + grace_period;
        self.signal(Signal::TERM);
        loop {
            if ended.is_none() {
                ended = self.poll_exit()?;
            }
            if ADOPTS.load(Ordering::Relaxed) {
                reap();
            }
            if ended.is_some() && processes_of(&self.job, &own_identity()).is_empty() {
                break;
            }
            if Instant::now() >= until {
                self.signal(Signal::KILL);
            }
            // Processes that survive another such period cannot be killed.
            if Instant::now() >= until + grace_period.max(EXIT_TIMEOUT) {
                break;
            }
            wait_for_any(&mut [], POLL_INTERVAL);
        }
        let mut ended = ended.ok_or_else(|| Error::unavailable("the command could not be killed"))?;
        ended.dropped = self.printed.recv_timeout(EXIT_TIMEOUT).unwrap_or_default();
        if let Some(cgroup) = &self.cgroup {
            ended.hits = cgroup.hits();
            cgroup.remove();
        }
        Ok(ended)
    }

    fn signal(&self, signal: Signal) {
        // Until it is waited for, no other process gets its id; afterwards its group may still exist.
        let _ = kill_process_group(Pid::from_child(&self.child), signal);
        signal_all(|| processes_of(&self.job, &own_identity()), signal);
    }
}

/// Kills all processes of a job whose supervisor is gone. Returns how many there were.
pub fn kill_remaining(job: &str, supervisor: &ProcessIdentity, grace_period: Duration) -> usize {
    if boot_id().unwrap_or_default() != supervisor.boot_id {
        return 0;
    }
    let remaining = || processes_of(job, supervisor);
    let found = signal_all(remaining, Signal::TERM);
    let until = Instant::now() + grace_period;
    while !remaining().is_empty() && Instant::now() < until {
        wait_for_any(&mut [], POLL_INTERVAL);
    }
    signal_all(remaining, Signal::KILL);
    let until = Instant::now() + EXIT_TIMEOUT;
    while !remaining().is_empty() && Instant::now() < until {
        wait_for_any(&mut [], POLL_INTERVAL);
    }
    sandbox::remove_cgroup_of(job);
    found
}

/// Returns whether processes that name a job are running, whatever started them.
pub fn has_processes(job: &str) -> bool {
    !processes_with(&format!("{MARK}={job}")).is_empty()
}

/// Sends a signal to all listed processes. Returns how many there were.
///
/// Another process can get the id of one that ends meanwhile. A handle stays with its process, so the list is made again
/// after the handles were opened, and only processes on both lists get the signal.
fn signal_all(list: impl Fn() -> Vec<u32>, signal: Signal) -> usize {
    let found = list();
    let handles: Vec<_> = found.iter().filter_map(|pid| Some((*pid, handle(raw_pid(*pid)?)?))).collect();
    if !handles.is_empty() {
        let still = list();
        for (_, handle) in handles.iter().filter(|(pid, _)| still.contains(pid)) {
            let _ = pidfd_send_signal(handle, signal);
        }
    }
    found.len()
}

/// Opens a handle of the process that has this id now.
fn handle(pid: Pid) -> Option<OwnedFd> {
    pidfd_open(pid, PidfdFlags::empty()).ok()
}

/// Lists the processes of a job: those with its mark and that of its supervisor, and all descendants of its supervisor.
fn processes_of(job: &str, supervisor: &ProcessIdentity) -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    if seeded_bug("leave_processes") {
        return Vec::new();
    }
    let marks = [format!("{MARK}={job}"), format!("{SUPERVISOR_MARK}={}", supervisor.start_time)];
    let own = std::process::id();
    let mut parents = Vec::new();
    let mut found = Vec::new();
    for pid in entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()) {
        if pid == own || is_zombie(pid) {
            continue;
        }
        parents.extend(parent(pid).map(|parent| (pid, parent)));
        if marks.iter().all(|mark| has_variable(pid, mark)) {
            found.push(pid);
        }
    }
    let mut above: Vec<u32> = ADOPTS.load(Ordering::Relaxed).then_some(own).into_iter().collect();
    while let Some(one) = above.pop() {
        for (pid, _) in parents.iter().filter(|(pid, parent)| *parent == one && *pid != own) {
            if !above.contains(pid) {
                above.push(*pid);
            }
            if !found.contains(pid) {
                found.push(*pid);
            }
        }
    }
    found
}

/// Reaps adopted processes that have exited.
fn reap() {
    use rustix::process::{WaitOptions, wait};
    while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
}

fn stat(pid: u32) -> Option<(char, u32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

fn is_zombie(pid: u32) -> bool {
    stat(pid).is_some_and(|(state, _)| matches!(state, 'Z' | 'X'))
}

fn parent(pid: u32) -> Option<u32> {
    stat(pid).map(|(_, parent)| parent)
}

fn raw_pid(pid: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(pid).ok()?)
}

/// Waits until one of these is ready or the timeout passes. A signal interrupts it.
fn wait_for_any(watched: &mut [PollFd<'_>], timeout: Duration) {
    let timeout = Timespec {
        tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: timeout.subsec_nanos().into(),
    };
    let _ = poll(watched, Some(&timeout));
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::job_log::{older, tail};

    /// Long enough for any test.
    const TEST_TIMEOUT: Duration = Duration::from_mins(1);
    const JOB: &str = "jb_000000000000";

    /// Other tests of this process end the processes of jobs with other ids.
    fn run(job: &str, script: &str, dir: &Path, limit: u64) -> Running {
        let command: Vec<_> = ["sh", "-c", script].map(str::to_owned).into();
        let variables = [("PATH".into(), "/usr/bin:/bin".into())];
        let log = dir.join("output.log");
        start(&Start {
            job,
            command: &command,
            dir,
            variables: &variables,
            log: &log,
            log_limit: limit,
            secrets: &Secrets::default(),
            confinement: None,
        })
        .expect("the command starts")
    }

    fn finish(mut running: Running, also: &impl std::os::fd::AsFd) -> Ended {
        let ended = running.wait(TEST_TIMEOUT, also).expect("the command is watched");
        running.end(TEST_TIMEOUT, ended).expect("the command exited")
    }

    #[test]
    fn output_is_kept_up_to_the_limit() {
        let dir = tempfile::tempdir().unwrap();
        let (also, _writer) = std::io::pipe().unwrap();
        let ended = finish(run(JOB, "echo one; echo two >&2; exit 3", dir.path(), 1 << 20), &also);
        assert_eq!(ended, Ended { code: Some(3), signal: None, dropped: 0, hits: Hits::default() });
        let log = dir.path().join("output.log");
        assert_eq!(tail(&log, 1000).bytes, b"one\ntwo\n");
        let ended = finish(run(JOB, "head -c 5000000 /dev/zero; echo end", dir.path(), 100_000), &also);
        assert!(ended.dropped > 4_000_000, "{ended:?}");
        let kept: u64 = [older(&log), log.clone()].iter().map(|path| fs::metadata(path).unwrap().len()).sum();
        assert!(kept <= 200_000, "{kept}");
        assert!(tail(&log, 100).bytes.ends_with(b"end\n"));
    }

    #[test]
    fn a_process_that_detached_itself_and_ignores_sigterm_ends_with_its_job() {
        let dir = tempfile::tempdir().unwrap();
        let (also, _writer) = std::io::pipe().unwrap();
        // The session leader ends, so that the process has another parent, another group and another session.
        let script = "setsid sh -c \"trap '' TERM; sleep 20 >/dev/null 2>&1 & echo \\$!\"; true";
        let mut running = run("jb_111111111111", script, dir.path(), 1 << 20);
        let ended = running.wait(TEST_TIMEOUT, &also).expect("the command is watched");
        let ended = running.end(Duration::from_millis(50), ended).expect("the command exited");
        assert_eq!(ended.code, Some(0));
        let printed = tail(&dir.path().join("output.log"), 100).bytes;
        let detached: u32 = String::from_utf8(printed).unwrap().trim().parse().unwrap();
        assert!(stat(detached).is_none() || is_zombie(detached), "{:?}", stat(detached));
    }

    #[test]
    fn the_error_for_a_missing_program_names_it() {
        let dir = tempfile::tempdir().unwrap();
        let command = ["no-such-program".to_owned()];
        let log = dir.path().join("log");
        let secrets = Secrets::default();
        let (job, dir) = ("x", dir.path());
        let request = Start {
            job,
            command: &command,
            dir,
            variables: &[],
            log: &log,
            log_limit: 1,
            secrets: &secrets,
            confinement: None,
        };
        let error = start(&request).err().unwrap();
        assert!(error.full_message().contains("no-such-program"), "{}", error.full_message());
    }
}
