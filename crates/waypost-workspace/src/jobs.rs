//! Running the command of a job: in a process group of its own, with what it prints kept in a file of bounded size, and
//! ended with everything it started.
//!
//! Whoever runs a job adopts what the job leaves behind, so a process that detached itself is found and ended as well.
//! Linux only; elsewhere the process group is all that is known.

use std::ffi::OsString;
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
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use waypost_core::model::ProcessIdentity;
use waypost_core::{Error, Result};
use waypost_fs::{boot_id, process_start};

use crate::job_log::Log;

/// How long the last output of a job that has ended is waited for.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// How often those who remain are looked at while they are being ended.
const GLANCE: Duration = Duration::from_millis(20);
/// The variable by which a job's processes are known.
pub const MARK: &str = "WAYPOST_JOB";
/// The variable by which the tools are known that a process runs.
pub(crate) const TOOL_MARK: &str = "WAYPOST_TOOL_OF";

/// A command to run.
pub struct Start<'a> {
    /// The job it is for.
    pub job: &'a str,
    /// The program and its arguments.
    pub command: &'a [String],
    /// Where it starts.
    pub dir: &'a Path,
    /// All variables it sees.
    pub variables: &'a [(OsString, OsString)],
    /// Where what it prints goes.
    pub log: &'a Path,
    /// How much of that is kept, in bytes. The beginning of it goes first.
    pub log_limit: u64,
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Its exit code; none if a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// How many bytes of what it printed were not kept.
    pub dropped: u64,
}

/// A command that runs.
pub struct Running {
    child: Child,
    /// Which process it is.
    pub identity: ProcessIdentity,
    job: String,
    watch: Option<OwnedFd>,
    printed: Receiver<u64>,
}

/// Whether all that descends from this process belongs to the job it runs.
static ADOPTS: AtomicBool = AtomicBool::new(false);

/// Makes this process the one that a job's orphans come to. It runs one job, and nothing else.
pub fn adopt_orphans() {
    ADOPTS.store(true, Ordering::Relaxed);
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::set_child_subreaper(Some(rustix::process::getpid())) {
        log::debug!("what a job leaves behind goes elsewhere: {error}");
    }
}

/// Returns which process this is.
pub fn own_identity() -> ProcessIdentity {
    known(std::process::id())
}

/// Returns which process has a number; none if there is none.
pub fn identity(pid: u32) -> Option<ProcessIdentity> {
    let boot_id = boot_id().unwrap_or_default().to_owned();
    process_start(pid).map(|start_time| ProcessIdentity { boot_id, pid, start_time })
}

/// Returns which process has a number that is ours, or our child's. One that has ended already began at no time we know.
fn known(pid: u32) -> ProcessIdentity {
    let gone = || ProcessIdentity { boot_id: boot_id().unwrap_or_default().to_owned(), pid, start_time: 0 };
    identity(pid).unwrap_or_else(gone)
}

/// Returns whether a process is there, and is still the same one. One of another machine is not.
pub fn is_running(process: &ProcessIdentity) -> bool {
    boot_id().unwrap_or_default() == process.boot_id
        && process_start(process.pid) == Some(process.start_time)
        && !is_zombie(process.pid)
}

/// Returns what the tools of this process are marked with.
pub(crate) fn own_mark() -> &'static str {
    static MARK: OnceLock<String> = OnceLock::new();
    MARK.get_or_init(|| mark_of(&own_identity()))
}

fn mark_of(process: &ProcessIdentity) -> String {
    format!("{}-{}", process.pid, process.start_time)
}

/// Ends the tools that a process left behind when it was killed. They would go on with what it had begun.
pub fn end_tools(process: &ProcessIdentity) {
    if boot_id().unwrap_or_default() != process.boot_id {
        return;
    }
    let mark = format!("{TOOL_MARK}={}", mark_of(process));
    // Asked to end, git takes back what it has made in part.
    for signal in [Signal::TERM, Signal::KILL] {
        let until = Instant::now() + LAST_WORDS;
        signal_all(&marked(&mark), signal);
        while Instant::now() < until {
            if marked(&mark).is_empty() {
                return;
            }
            pause(&mut [], GLANCE);
        }
    }
}

/// Lists the processes whose environment has a variable.
fn marked(variable: &str) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    processes.filter(|pid| !is_zombie(*pid) && has_variable(*pid, variable)).collect()
}

fn has_variable(pid: u32, variable: &str) -> bool {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|known| known == variable.as_bytes())
}

/// Asks a process to end, if it is still the same one.
pub fn ask_to_end(process: &ProcessIdentity) -> bool {
    let Some(pid) = Some(process).filter(|process| is_running(process)).and_then(|process| number(process.pid)) else {
        return false;
    };
    kill_process(pid, Signal::TERM).is_ok()
}

/// Starts a supervisor of a job: this very program with other arguments, which goes on when we end.
pub fn start_supervisor(arguments: &[OsString], log: &Path) -> Result<ProcessIdentity> {
    let cannot = |error| Error::unavailable("cannot start the supervisor of the job").because(error);
    let program = std::env::current_exe().map_err(cannot)?;
    let errors = OpenOptions::new().append(true).create(true).mode(0o600).open(log).map_err(cannot)?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors);
    // It is nobody's tool, wherever we were started.
    command.env_remove(TOOL_MARK);
    let child = command.spawn().map_err(cannot)?;
    Ok(known(child.id()))
}

/// Leaves the terminal and the session of whoever started us, so that their end is not ours.
pub fn detach() {
    // It fails for whoever leads a group, which is then nobody's to end either.
    let _ = rustix::process::setsid();
}

/// Starts a command.
pub fn start(start: &Start<'_>) -> Result<Running> {
    let (program, arguments) = start.command.split_first().ok_or_else(|| Error::invalid("a job needs a command"))?;
    let cannot = |error| Error::unavailable(format!("cannot start {program}")).because(error);
    let (reader, writer) = std::io::pipe().map_err(cannot)?;
    let log = Log::open(start.log, start.log_limit)?;
    let mut command = Command::new(program);
    command.args(arguments).current_dir(start.dir).env_clear().process_group(0).stdin(Stdio::null());
    command.envs(start.variables.iter().map(|(name, value)| (name, value))).env(MARK, start.job);
    command.stdout(writer.try_clone().map_err(cannot)?).stderr(writer);
    let (sender, printed) = mpsc::channel();
    // Before the command, which would run unobserved if the thread could not be started. It reads until the last writing
    // end of the pipe is closed, so it ends as well if the command cannot be started.
    let keep_log = move || sender.send(log.keep(reader));
    std::thread::Builder::new().spawn(keep_log).map_err(cannot)?;
    let child = command.spawn().map_err(|error| match error.kind() {
        ErrorKind::NotFound => Error::not_found(format!("there is no program {program}")).because(error),
        _ => cannot(error),
    })?;
    // The command has the only writing ends of the pipe that are left.
    drop(command);
    let identity = known(child.id());
    #[cfg(target_os = "linux")]
    let watch = rustix::process::pidfd_open(Pid::from_child(&child), rustix::process::PidfdFlags::empty()).ok();
    #[cfg(not(target_os = "linux"))]
    let watch = None;
    Ok(Running { child, identity, job: start.job.to_owned(), watch, printed })
}

impl Running {
    /// Waits for its end, or until time is up, or until there is something to read from `also`.
    pub fn wait(&mut self, at_most: Duration, also: &impl std::os::fd::AsFd) -> Result<Option<Ended>> {
        let until = Instant::now() + at_most;
        if let Some(ended) = self.look()? {
            return Ok(Some(ended));
        }
        let left = until.saturating_duration_since(Instant::now());
        // Without a handle on it, its end has to be looked for.
        let left = if self.watch.is_some() { left } else { left.min(Duration::from_millis(100)) };
        let mut watched = vec![PollFd::from_borrowed_fd(also.as_fd(), PollFlags::IN)];
        watched.extend(self.watch.as_ref().map(|watch| PollFd::new(watch, PollFlags::IN)));
        pause(&mut watched, left);
        self.look()
    }

    fn look(&mut self) -> Result<Option<Ended>> {
        let status = self.child.try_wait();
        let status = status.map_err(|error| Error::unavailable("cannot watch the command").because(error))?;
        let Some(status) = status else { return Ok(None) };
        Ok(Some(Ended { code: status.code(), signal: status.signal(), dropped: 0 }))
    }

    /// Ends it with all that it started: asks first, and insists after a while. Returns how it ended.
    pub fn end(mut self, patience: Duration, ended: Option<Ended>) -> Result<Ended> {
        let mut ended = ended;
        let until = Instant::now() + patience;
        self.signal(Signal::TERM);
        loop {
            if ended.is_none() {
                ended = self.look()?;
            }
            if ADOPTS.load(Ordering::Relaxed) {
                reap();
            }
            if ended.is_some() && remains(&self.job).is_empty() {
                break;
            }
            if Instant::now() >= until {
                self.signal(Signal::KILL);
            }
            // A second time as long again, and whoever still is there cannot be ended.
            if Instant::now() >= until + patience.max(LAST_WORDS) {
                break;
            }
            pause(&mut [], GLANCE);
        }
        let mut ended = ended.ok_or_else(|| Error::unavailable("the command could not be ended"))?;
        ended.dropped = self.printed.recv_timeout(LAST_WORDS).unwrap_or_default();
        Ok(ended)
    }

    fn signal(&self, signal: Signal) {
        // As long as it was not waited for, its number is nobody else's; afterwards its group may still be there.
        let _ = kill_process_group(Pid::from_child(&self.child), signal);
        signal_all(&remains(&self.job), signal);
    }
}

/// Ends everything that is left of a job whose supervisor is gone. Returns how many processes that were.
pub fn end_remains(job: &str, patience: Duration) -> usize {
    let found = remains(job);
    signal_all(&found, Signal::TERM);
    let until = Instant::now() + patience;
    while !remains(job).is_empty() && Instant::now() < until {
        pause(&mut [], GLANCE);
    }
    let stubborn = remains(job);
    signal_all(&stubborn, Signal::KILL);
    let until = Instant::now() + LAST_WORDS;
    while !remains(job).is_empty() && Instant::now() < until {
        pause(&mut [], GLANCE);
    }
    found.len()
}

fn signal_all(processes: &[u32], signal: Signal) {
    for pid in processes.iter().filter_map(|pid| number(*pid)) {
        let _ = kill_process(pid, signal);
    }
}

/// Lists the processes of a job: those that carry its mark, and those that descend from whoever runs it.
fn remains(job: &str) -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let mark = format!("{MARK}={job}");
    let own = std::process::id();
    let mut parents = Vec::new();
    let mut found = Vec::new();
    for pid in entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()) {
        if pid == own || is_zombie(pid) {
            continue;
        }
        parents.extend(parent(pid).map(|parent| (pid, parent)));
        if has_variable(pid, &mark) {
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

/// Takes note of the ends of adopted processes, so that they go.
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

fn number(pid: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(pid).ok()?)
}

/// Waits for one of these, at most for so long. A signal ends it early.
fn pause(watched: &mut [PollFd<'_>], at_most: Duration) {
    let at_most = Timespec {
        tv_sec: i64::try_from(at_most.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: at_most.subsec_nanos().into(),
    };
    let _ = poll(watched, Some(&at_most));
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::job_log::{older, tail};

    /// Long enough for anything.
    const LONG: Duration = Duration::from_mins(1);

    fn run(script: &str, dir: &Path, limit: u64) -> Running {
        let command: Vec<_> = ["sh", "-c", script].map(str::to_owned).into();
        let variables = [("PATH".into(), "/usr/bin:/bin".into())];
        let log = dir.join("output.log");
        let job = "jb_000000000000";
        start(&Start { job, command: &command, dir, variables: &variables, log: &log, log_limit: limit })
            .expect("it starts")
    }

    fn finish(mut running: Running, also: &impl std::os::fd::AsFd) -> Ended {
        let ended = running.wait(LONG, also).expect("it is watched");
        running.end(LONG, ended).expect("it ended")
    }

    #[test]
    fn what_is_printed_is_kept_and_only_so_much_of_it() {
        let dir = tempfile::tempdir().unwrap();
        let (also, _writer) = std::io::pipe().unwrap();
        let ended = finish(run("echo one; echo two >&2; exit 3", dir.path(), 1 << 20), &also);
        assert_eq!(ended, Ended { code: Some(3), signal: None, dropped: 0 });
        let log = dir.path().join("output.log");
        assert_eq!(tail(&log, 1000).bytes, b"one\ntwo\n");
        let ended = finish(run("head -c 5000000 /dev/zero; echo end", dir.path(), 100_000), &also);
        assert!(ended.dropped > 4_000_000, "{ended:?}");
        let kept: u64 = [older(&log), log.clone()].iter().map(|path| fs::metadata(path).unwrap().len()).sum();
        assert!(kept <= 200_000, "{kept}");
        assert!(tail(&log, 100).bytes.ends_with(b"end\n"));
    }

    #[test]
    fn a_program_that_is_not_there_is_an_error_that_names_it() {
        let dir = tempfile::tempdir().unwrap();
        let command = ["no-such-program".to_owned()];
        let log = dir.path().join("log");
        let start_it = Start { job: "x", command: &command, dir: dir.path(), variables: &[], log: &log, log_limit: 1 };
        let error = start(&start_it).err().unwrap();
        assert!(error.full_message().contains("no-such-program"), "{}", error.full_message());
    }
}
