//! Jobs: commands that run in their own workspaces, each under a supervisor that outlives the process that started it.
//!
//! The caller records a job and starts its supervisor. The supervisor creates the workspace, runs the command, renews the
//! lease, and records how the command ended. If a supervisor is gone, the next process that lists jobs reaps its job.

mod base;
mod confine;
pub(crate) mod reap;
mod shared_log;
mod socket;
mod supervise;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use waypost_core::id::{JobId, RepositoryId, WorktreeId};
use waypost_core::model::{EventQuery, Job, JobStatus, ProcessIdentity, SandboxMode, Strategy};
use waypost_core::op::{AddJobRecord, FinishJob, JobView, ListEvents, ListJobs, ListWorktrees, ShowJob, ShowTask};
use waypost_core::work::base::{HEAD, PLAN};
use waypost_core::{Error, Result, tree};
use waypost_fs::create_private_dir;
use waypost_workspace::job_log;
use waypost_workspace::jobs::{self as processes, SUPERVISOR_ARGUMENTS};

pub(crate) use reap::bring_up_to_date;
pub use reap::recover_interrupted_work;
pub use shared_log::read_stored;
pub use socket::{JobSocket, Serve};
pub(crate) use supervise::MACHINE_INTERVAL;
pub use supervise::supervise;
pub use waypost_workspace::jobs::is_of_job;

use crate::app::session::Session;
use crate::machine::bytes;
use crate::machine::environment::WAYPOST_DB;
use crate::machine::place::Location;
use crate::work::workspaces::{self, WorkspaceRequest};

/// The exit code of a job that ran too long, as `timeout` reports it.
pub(crate) const TIMED_OUT: i32 = 124;
/// The exit code that is not the command's: the job could not be set up, or failed although its command did not. `env`,
/// `timeout` and `docker run` report their own failures in the same way.
pub const NOT_THE_COMMANDS: u8 = 125;
/// The exit code of a job whose program cannot be executed, as in a shell.
pub(crate) const NOT_EXECUTABLE: i32 = 126;
/// The exit code of a job whose program does not exist, as in a shell.
pub(crate) const NO_PROGRAM: i32 = 127;

/// A signal ends a command with this and the number of the signal, as in a shell.
pub(crate) const SIGNALLED: i32 = 128;

/// Longest time between two checks of a job that is starting.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// How to run a job. Stored with the job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// How to create its workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<Strategy>,
    /// What it starts from: `plan`, `head` or a revision. None: as its task or workflow says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// The branch it works on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// Whether to take uncommitted changes of the checkout along.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub include_changes: bool,
    /// The workspace it works in, if there is one already.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// Maximum run time, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Maximum size of its workspace, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_limit: Option<u64>,
    /// Maximum size of its kept output, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_limit: Option<u64>,
    /// Whether to remove its workspace after it ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cleanup: Option<bool>,
    /// Names of further environment variables that it inherits.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// How its files are restricted. None: not at all, or as the machine is configured that takes it from the queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxMode>,
    /// Whether it may use the network. None: yes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<bool>,
    /// Maximum memory of its processes together, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_limit: Option<u64>,
    /// Maximum number of its processes and threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process_limit: Option<u32>,
    /// The process that starts its supervisor. None if it waits for a worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub launcher: Option<ProcessIdentity>,
}

impl Settings {
    /// Returns whether the job can use only its own files.
    fn is_in_sandbox(&self) -> bool {
        self.sandbox.is_some_and(|mode| mode != SandboxMode::Off)
    }
}

/// A new job.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The kind of work.
    pub kind: String,
    /// Its purpose.
    pub description: String,
    /// Its input.
    pub input: Value,
    /// The command and its arguments.
    pub command: Vec<String>,
    /// The repository it works on [default: the caller's].
    pub repository: Option<RepositoryId>,
    /// The task it works on.
    pub task: Option<String>,
    /// The workflow of the task.
    pub workflow: Option<String>,
    /// The epoch of the lease on the task, if the caller holds it already.
    pub epoch: Option<u64>,
    /// Whether it works on the most urgent task that the caller can claim.
    pub next: bool,
    /// Restricts `next` to tasks planned in this worktree.
    pub next_worktree: Option<WorktreeId>,
    /// Restricts `next` to tasks of this repository; `all` for all [default: in a shared store, the caller's].
    pub next_repository: Option<String>,
    /// The machine it runs on. None if any worker may take it.
    pub machine: Option<String>,
    /// Whether the machine may be one that has not run a worker or a job in the store yet.
    pub new_machine: bool,
    /// How to run it.
    pub settings: Settings,
    /// The job that this one retries.
    pub retry_of: Option<JobId>,
}

/// Records a job and claims its task. Nothing runs yet.
pub fn create(session: &mut Session, request: Request) -> Result<JobView> {
    create_once(session, request, None)
}

/// Records a job once per key.
pub(crate) fn create_once(session: &mut Session, request: Request, key: Option<&str>) -> Result<JobView> {
    check(session, &request)?;
    let settings = serde_json::to_value(&request.settings).map_err(|error| Error::internal(error.to_string()))?;
    let operation = AddJobRecord {
        kind: request.kind,
        description: request.description,
        input: request.input,
        command: request.command,
        settings,
        repository: request.repository,
        task: request.task,
        workflow: request.workflow,
        epoch: request.epoch,
        next: request.next,
        next_worktree: request.next_worktree,
        next_repository: request.next_repository,
        ttl_ms: None,
        // This machine becomes known when its supervisor begins.
        new_machine: request.new_machine || request.settings.launcher.is_some(),
        machine: request.machine,
        work_dir: session.place.cwd.clone(),
        retry_of: request.retry_of,
    };
    // If the task stands for an issue, this job's agent claims the issue too.
    session.call_once(key, operation)
}

/// Refuses a job with settings that cannot work, before it is recorded and before it claims its task.
///
/// Only this machine is checked: a job for another one is checked there, by its supervisor.
fn check(session: &mut Session, request: &Request) -> Result<()> {
    let is_here = !request.next && request.settings.launcher.is_some();
    if request.settings.launcher.is_some() {
        confine::check(&request.settings)?;
    }
    if !is_here || request.settings.strategy == Some(Strategy::InPlace) {
        return Ok(());
    }
    let repository = match (&request.repository, &request.task) {
        (Some(repository), _) => Some(repository.clone()),
        (None, Some(task)) => {
            let task = ShowTask { task: task.clone(), workflow: request.workflow.clone(), repository: None };
            let task = session.read(task)?.task.task;
            let worktrees = session.read(ListWorktrees::all())?.worktrees;
            let planned_in = worktrees.into_iter().find(|worktree| worktree.id == task.worktree_id);
            task.repository_id.or(planned_in.map(|worktree| worktree.repository_id))
        }
        (None, None) => None,
    };
    check_settings(session, &request.settings, repository.as_ref(), request.task.is_some())
}

/// Refuses settings that cannot work in a repository [default: the caller's].
pub(crate) fn check_settings(
    session: &mut Session,
    settings: &Settings,
    repository: Option<&RepositoryId>,
    is_of_task: bool,
) -> Result<()> {
    if let Some(known) = &settings.workspace {
        let known = workspaces::find(session, known)?.workspace;
        workspaces::check_reusable(&known)?;
        return settings.base.as_deref().map_or(Ok(()), |base| workspaces::check_update(&known, base));
    }
    let request = WorkspaceRequest {
        repository,
        is_of_task,
        strategy: settings.strategy,
        base: settings.base.as_deref().filter(|base| ![PLAN, HEAD].contains(base)),
        branch: settings.branch.as_deref(),
        include_changes: settings.include_changes,
        ..WorkspaceRequest::default()
    };
    workspaces::check(session, &request)
}

/// Returns the settings of a job.
pub fn settings(job: &Job) -> Result<Settings> {
    tree::decode(&job.settings)
        .map_err(|error| Error::damaged(format!("cannot read the settings of job {}", job.id)).because(error))
}

/// Returns the directory of the records of a job: its output, and its context after its workspace is removed.
pub fn records_dir(session: &Session, job: &JobId) -> Result<PathBuf> {
    Ok(workspaces::root(session)?.join("jobs").join(job.as_str()))
}

/// Returns the file of the output of a job.
pub fn log_path(session: &Session, job: &JobId) -> Result<PathBuf> {
    Ok(records_dir(session, job)?.join("output.log"))
}

/// Starts the supervisor of a job. It keeps running after this process ends.
pub fn launch(session: &Session, job: &JobView) -> Result<ProcessIdentity> {
    let records = records_dir(session, &job.job.id)?;
    create_private_dir(&records)
        .map_err(|error| Error::unavailable(format!("cannot create {}", records.display())).because(error))?;
    let mut arguments: Vec<OsString> = Vec::new();
    if let Some(agent) = &job.agent {
        arguments.extend(["--agent".into(), agent.into()]);
    }
    for flag in session.place.config_flags() {
        arguments.extend(["--config".into(), flag.into()]);
    }
    arguments.extend(["-C".into(), session.place.cwd.clone().into()]);
    arguments.extend(SUPERVISOR_ARGUMENTS.map(OsString::from));
    arguments.push(job.job.id.as_str().into());
    // All users of the machine see the arguments of a process, and a URL can contain a password.
    let variables = [(WAYPOST_DB.into(), store_of(session))];
    processes::start_supervisor(&arguments, &variables, &records.join("supervisor.log"))
}

/// Returns the store as a value of `WAYPOST_DB`.
pub(crate) fn store_of(session: &Session) -> OsString {
    match &session.choice.location {
        Location::Sqlite(path) => path.clone().into(),
        Location::Postgres(url) | Location::Server(url) => url.into(),
        Location::UnnamedSqlite => OsString::new(),
    }
}

/// Returns a job, after orphaned jobs were reaped.
pub fn show(session: &mut Session, job: &str) -> Result<JobView> {
    session.call(ShowJob { job: job.to_owned() })
}

/// Tells the supervisors on this machine that their jobs were cancelled. One on another machine sees it within seconds, as one
/// here would.
pub(crate) fn stop_cancelled(session: &mut Session) {
    match session.read(ListJobs::live()) {
        Ok(live) => {
            let cancelled = live.jobs.iter().filter(|view| view.job.cancelled_at.is_some());
            cancelled.filter_map(|view| view.job.supervisor.as_ref()).for_each(|supervisor| {
                processes::terminate(supervisor);
            });
        }
        Err(error) => log::debug!("cannot list the cancelled jobs: {}", error.full_message()),
    }
}

/// Where the output of a job can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogPlace {
    /// In a file on this machine.
    File(PathBuf),
    /// In the store, which has the end of it.
    Store,
}

/// Returns a job, and where its output can be read from this machine.
pub fn job_and_log(session: &mut Session, job: &str) -> Result<(Job, LogPlace)> {
    let job = show(session, job)?.job;
    let is_here = job.machine.as_ref() == Some(&workspaces::machine(session)?);
    let log = job.log.clone().map_or_else(|| log_path(session, &job.id), Ok)?;
    match &job.machine {
        // A worker on another machine may take it.
        None if session.is_served() => Err(Error::not_found(format!("job {} has not started yet", job.id))),
        Some(machine) if !is_here && (session.is_served() || !log.exists()) => {
            // A job that prints nothing has no output anywhere.
            let is_silent = !session.is_served() && (!job.status.is_final() || job.output.is_none());
            if is_silent || read_stored(session, job.id.as_str(), None, 1)?.is_stored {
                return Ok((job, LogPlace::Store));
            }
            Err(Error::not_found(format!("the output of job {} is on {machine}", job.id))
                .hint("way job show prints the last lines; jobs.shared_log there keeps the output for other machines"))
        }
        // A log that is rotated has no file for a moment, but an older one.
        _ if job.started_at.is_some() && !log.exists() && !job_log::older(&log).exists() => {
            Err(Error::not_found(format!("the output of job {} was deleted: {} is gone", job.id, log.display()))
                .hint("way job show prints the last lines"))
        }
        _ => Ok((job, LogPlace::File(log))),
    }
}

/// Returns the number of bytes without an incomplete character at the end.
pub(crate) fn complete_characters(bytes: &[u8]) -> usize {
    let last = bytes.utf8_chunks().last();
    let incomplete = last.map_or(&[][..], |chunk| chunk.invalid());
    // Invalid bytes are the beginning of a character if the only error is that they end too early.
    match std::str::from_utf8(incomplete) {
        Err(error) if error.error_len().is_none() => bytes.len() - incomplete.len(),
        _ => bytes.len(),
    }
}

fn finish_operation(job: &JobId) -> FinishJob {
    FinishJob { job: job.to_string(), ..FinishJob::default() }
}

/// Returns the default settings of jobs, from the configuration.
pub fn default_settings(session: &Session) -> Settings {
    let config = &session.place.config;
    let size = |key: &str| config.text(key).and_then(|text| bytes::parse(&text));
    Settings {
        timeout_ms: config
            .duration("jobs.timeout")
            .and_then(|limit| u64::try_from(limit.as_millis()).ok())
            .filter(|ms| *ms > 0),
        size_limit: size("workspaces.limit"),
        log_limit: size("jobs.log_limit"),
        cleanup: Some(config.text("workspaces.cleanup_on_complete").as_deref() == Some("true")),
        env: config.list("jobs.env"),
        sandbox: config.text("jobs.sandbox").and_then(|mode| mode.parse().ok()),
        network: (config.text("jobs.network").as_deref() == Some("off")).then_some(false),
        memory_limit: size("jobs.memory_limit"),
        process_limit: config.text("jobs.process_limit").and_then(|number| number.parse().ok()),
        ..Settings::default()
    }
}

/// Waits until a launched job is running or has ended. Returns an error if its setup failed.
pub fn wait_until_started(session: &mut Session, job: &JobId) -> Result<JobView> {
    loop {
        let last = session.read(ListEvents { query: EventQuery { limit: 1, ..EventQuery::default() } })?.last;
        let now = show(session, job.as_str())?;
        match now.job.status {
            JobStatus::Pending => session.wait(last, POLL_INTERVAL)?,
            JobStatus::Running | JobStatus::Completed => return Ok(now),
            // Its command started and ended already. Its result is not an error of starting it.
            _ if now.job.started_at.is_some() => return Ok(now),
            status => {
                let why = now.job.error.clone().unwrap_or_else(|| "no reason".to_owned());
                return Err(Error::conflict(format!("job {job} is {status}"))
                    .because(why)
                    .hint(format!("way job show {job}")));
            }
        }
    }
}

/// Returns the exit code `way` uses to report this job: the command's own, or one that no command chooses by accident.
pub fn exit_code(job: &Job) -> u8 {
    match (job.status, job.exit_code) {
        (JobStatus::Completed, _) => 0,
        (_, Some(code)) if code != 0 => u8::try_from(code).unwrap_or(NOT_THE_COMMANDS),
        (JobStatus::Cancelled, _) => 130,
        _ => NOT_THE_COMMANDS,
    }
}

/// Reads the end of the output of a job.
pub fn tail(log: &Path, max_bytes: u64) -> Vec<u8> {
    job_log::tail(log, max_bytes).bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_not_split() {
        for (text, whole) in [("", 0), ("ab", 2), ("aü", 3), ("a🙂", 5)] {
            assert_eq!(complete_characters(text.as_bytes()), whole, "{text}");
        }
        for (bytes, whole) in [(&b"a\xc3"[..], 1), (b"a\xf0\x9f\x99", 1), (b"a\xff", 2), (b"a\xffb", 3), (b"\xc3", 0)] {
            assert_eq!(complete_characters(bytes), whole, "{bytes:?}");
        }
    }
}
