//! Jobs: commands that run in workspaces of their own, watched over by a process that outlives whoever started them.
//!
//! A job is written down, then a supervisor is started for it, which makes the workspace, runs the command, says that it
//! is alive, and writes down how it ended. Whoever looks next at jobs whose supervisor is gone ends what is left of them.

mod supervise;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use waypost_core::id::{JobId, RepositoryId};
use waypost_core::model::{EventQuery, Job, JobStatus, ProcessIdentity, Strategy};
use waypost_core::op::{CancelJob, CreateJobRecord, FinishJob, JobView, ListEvents, ListJobs, ShowJob};
use waypost_core::{Error, Result};
use waypost_fs::create_private_dir;
use waypost_workspace::{job_log, jobs as processes};

pub use supervise::supervise;

use crate::bytes;
use crate::claims;
use crate::place::Location;
use crate::session::Session;
use crate::tokens;
use crate::workspaces;

/// How long what is left of an abandoned job is asked to end.
const GRACE: Duration = Duration::from_secs(10);
/// How often a job that begins is looked at although nothing was written.
const LOOK: Duration = Duration::from_secs(1);

/// How a job is run. Kept with it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// How its workspace is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<Strategy>,
    /// The commit it starts from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// The branch it works on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The workspace it works in, if there is one already.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// How long it may run, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// How large its workspace may become, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_limit: Option<u64>,
    /// How much of what it prints is kept, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_limit: Option<u64>,
    /// Whether its workspace goes when it has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cleanup: Option<bool>,
    /// Names of further variables that it sees.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// Who was to start its supervisor. None if it waits for a worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub launcher: Option<ProcessIdentity>,
}

/// A job that somebody wants.
#[derive(Clone, Debug)]
pub struct Request {
    /// What kind of work it is.
    pub kind: String,
    /// What it is for.
    pub description: String,
    /// What it is given.
    pub input: Value,
    /// The command and its arguments.
    pub command: Vec<String>,
    /// The repository it works on; the one we stand in, if nobody says.
    pub repository: Option<RepositoryId>,
    /// The task it works on.
    pub task: Option<String>,
    /// The workflow of the task.
    pub workflow: Option<String>,
    /// The epoch of the lease on it, if we hold it already.
    pub epoch: Option<u64>,
    /// Works on the most urgent task that the caller may have.
    pub next: bool,
    /// Only a task of one of these repositories.
    pub repositories: Vec<RepositoryId>,
    /// The machine it runs on; whichever worker takes it, if it is not started here.
    pub machine: Option<String>,
    /// How it is run.
    pub settings: Settings,
    /// The job that this one is another try of.
    pub retry_of: Option<JobId>,
}

/// Writes a job down, and claims its task. Nothing runs yet.
pub fn create(session: &mut Session, request: Request) -> Result<JobView> {
    create_once(session, request, None)
}

/// The same, once per key.
pub(crate) fn create_once(session: &mut Session, request: Request, key: Option<&str>) -> Result<JobView> {
    let settings = serde_json::to_value(&request.settings).map_err(|error| Error::internal(error.to_string()))?;
    let operation = CreateJobRecord {
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
        repositories: request.repositories,
        ttl_ms: None,
        machine: request.machine,
        work_dir: session.place.cwd.clone(),
        retry_of: request.retry_of,
    };
    // The task may stand for an issue, which this job's agent holds then.
    claims::set_mark(&session.place)?;
    let job = session.write_once(key, operation)?;
    let issue = match &job.job.task_id {
        Some(task) => claims::issue_of(session, task.as_str())?,
        None => None,
    };
    if let Some(warning) = claims::complete_claim(&session.place, issue.as_deref())? {
        log::warn!("job {}: {warning}", job.job.id);
    }
    Ok(job)
}

/// Returns how a job is run.
pub fn settings(job: &Job) -> Result<Settings> {
    serde_json::from_value(job.settings.clone())
        .map_err(|error| Error::damaged(format!("how job {} is run cannot be read", job.id)).because(error))
}

/// Returns the directory of what a job leaves behind: what it printed, and what it was told once its workspace is gone.
pub fn records(session: &Session, job: &JobId) -> Result<PathBuf> {
    Ok(workspaces::root(session)?.join("jobs").join(job.as_str()))
}

/// Returns the file that what a job prints goes to.
pub fn log_of(session: &Session, job: &JobId) -> Result<PathBuf> {
    Ok(records(session, job)?.join("output.log"))
}

/// Starts the supervisor of a job, which goes on when we end.
pub fn launch(session: &Session, job: &JobView) -> Result<ProcessIdentity> {
    let records = records(session, &job.job.id)?;
    create_private_dir(&records)
        .map_err(|error| Error::unavailable(format!("cannot make {}", records.display())).because(error))?;
    let mut arguments: Vec<OsString> = vec!["--db".into(), store_of(session)];
    if let Some(agent) = &job.agent {
        arguments.extend(["--agent".into(), agent.into()]);
    }
    for flag in session.place.config_flags() {
        arguments.extend(["--config".into(), flag.into()]);
    }
    let strings = ["-C".into(), session.place.cwd.clone().into(), "job".into(), "supervise".into()];
    arguments.extend(strings);
    arguments.push(job.job.id.as_str().into());
    processes::start_supervisor(&arguments, &records.join("supervisor.log"))
}

/// Returns the store as others have to name it.
pub(crate) fn store_of(session: &Session) -> OsString {
    match &session.choice.location {
        Location::Sqlite(path) => path.clone().into(),
        Location::Postgres(url) | Location::Server(url) => url.into(),
        Location::UnnamedSqlite => OsString::new(),
    }
}

/// Shows a job.
pub fn show(session: &mut Session, job: &str) -> Result<JobView> {
    session.read(ShowJob { job: job.to_owned() })
}

/// Calls a job off. On this machine its supervisor hears of it at once, elsewhere within seconds.
pub fn cancel(session: &mut Session, job: &str, reason: Option<String>) -> Result<JobView> {
    let cancelled = session.write(CancelJob { job: job.to_owned(), reason })?;
    if let Some(supervisor) = &cancelled.job.supervisor {
        processes::ask_to_end(supervisor);
    }
    Ok(cancelled)
}

/// Ends what is left of jobs of this machine whose supervisor is gone, and writes down that they were interrupted.
pub fn reap_orphaned_jobs(session: &mut Session) -> Result<()> {
    let live = session.read(ListJobs { status: None, live: true, task: None, limit: Some(u32::MAX) })?.jobs;
    if live.is_empty() {
        return Ok(());
    }
    let machine = workspaces::machine(session)?;
    for job in live.into_iter().map(|view| view.job).filter(|job| job.machine.as_ref() == Some(&machine)) {
        look_at(session, &job)?;
    }
    Ok(())
}

/// The same for one live job of this machine.
fn look_at(session: &mut Session, job: &Job) -> Result<()> {
    let is_watched = match (&job.supervisor, settings(job)?.launcher) {
        (Some(supervisor), _) => processes::is_running(supervisor),
        (None, Some(launcher)) => processes::is_running(&launcher),
        // It waits for a worker.
        (None, None) => true,
    };
    if is_watched {
        return Ok(());
    }
    // Whoever watched over it may be gone because it was done, or because somebody else does since.
    let now = show(session, job.id.as_str())?.job;
    if (now.status, &now.supervisor, &now.settings) != (job.status, &job.supervisor, &job.settings) {
        return Ok(());
    }
    let ended = processes::end_remains(job.id.as_str(), GRACE);
    log::debug!("job {} lost its supervisor; {ended} processes were left of it", job.id);
    let mut operation = finished(&job.id);
    operation.abandoned = true;
    session.write(operation)?;
    // Its workspace may be made in part, by a git that still goes on.
    workspaces::heal(session)
}

/// Returns a job that is looked at, and where what it prints is kept on this machine.
pub fn printed(session: &mut Session, job: &str) -> Result<(Job, PathBuf)> {
    let mut job = show(session, job)?.job;
    let is_here = job.machine.as_ref() == Some(&workspaces::machine(session)?);
    if is_here && !job.status.is_final() {
        look_at(session, &job)?;
        job = show(session, job.id.as_str())?.job;
    }
    let log = job.log.clone().map_or_else(|| log_of(session, &job.id), Ok)?;
    match &job.machine {
        // Whoever takes it may be there.
        None if session.is_served() => Err(Error::not_found(format!("job {} was not started yet", job.id))),
        Some(machine) if !is_here && (session.is_served() || !log.exists()) => {
            Err(Error::not_found(format!("job {} printed on {machine}", job.id))
                .hint("its last lines are its output: way job show"))
        }
        _ => Ok((job, log)),
    }
}

fn finished(job: &JobId) -> FinishJob {
    FinishJob { job: job.to_string(), exit_code: None, error: None, stopped: false, abandoned: false, output: None }
}

/// Returns what is configured for jobs, where a job says nothing itself.
pub fn usual_settings(session: &Session) -> Settings {
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
        ..Settings::default()
    }
}

/// Waits until a job that was launched runs, or has ended. One that could not be set up is an error.
pub fn begun(session: &mut Session, job: &JobId) -> Result<JobView> {
    loop {
        let last = session.read(ListEvents { query: EventQuery { limit: 1, ..EventQuery::default() } })?.last;
        reap_orphaned_jobs(session)?;
        let now = show(session, job.as_str())?;
        match now.job.status {
            JobStatus::Pending => session.wait(last, LOOK)?,
            JobStatus::Running | JobStatus::Completed => return Ok(now),
            // Its command may have been quicker than we; what it did is its own affair.
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

/// Tells how a command is ended with that the job is to be told by: as its exit code, or as its failure.
pub fn exit_code(job: &Job) -> u8 {
    match (job.status, job.exit_code) {
        (JobStatus::Completed, _) => 0,
        (_, Some(code)) if code != 0 => u8::try_from(code).unwrap_or(1),
        (JobStatus::Cancelled, _) => 130,
        _ => 1,
    }
}

/// Returns what the token of a job hashes to; none if it is no such token.
pub fn hash_of_token(secret: &str) -> Option<String> {
    secret.starts_with(supervise::TOKEN).then(|| tokens::hash(secret))
}

/// Reads what a job printed last.
pub fn tail(log: &Path, most: u64) -> Vec<u8> {
    job_log::tail(log, most).bytes
}
