//! The supervisor of one job: makes its workspace, runs its command, and writes down how it ended.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use jiff::SignedDuration;
use serde_json::json;
use waypost_core::model::{Job, JobStatus, Strategy, Workspace};
use waypost_core::op::{
    BeginSupervision, FinishJob, GetContext, Heartbeat, JobView, NoteJob, RecordJobStarted, ShowJob,
};
use waypost_core::{Error, Kind, Result, path_text};
use waypost_fs::{create_private_dir, replace};
use waypost_workspace::jobs::{self as processes, Ended, Running, Start};

use super::{Settings, finished, log_of, records, settings, store_of};
use crate::session::Session;
use crate::signals::ShutdownSignal;
use crate::tokens;
use crate::workspaces::{self, WorkspaceRequest};

/// How often the store is asked whether somebody called the job off.
const GLANCE: Duration = Duration::from_secs(1);
/// How often the workspace is measured, if it may not become too large.
const MEASURED: Duration = Duration::from_secs(2);
/// How much of what a job printed is kept as what came out, if it said nothing itself.
const LAST_WORDS: u64 = 2000;
/// How long a store that cannot be reached is tried to be told how a job ended.
const PATIENCE: Duration = Duration::from_mins(10);
/// Time between asking a job to end and killing it, if `jobs.grace` is not set.
const DEFAULT_GRACE: Duration = Duration::from_secs(3);
/// The variables of the user's environment that every job sees.
const ALLOWED: &[&str] =
    &["HOME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "SHELL", "SSH_AUTH_SOCK", "TERM", "TMPDIR", "TZ", "USER"];

/// What the tokens of jobs begin with.
pub(super) const TOKEN: &str = "wpj_";

/// Why a job is ended before it ends by itself.
enum Stop {
    /// Somebody called it off.
    Cancelled,
    /// We were told to stop.
    ShutdownSignal,
    /// It went beyond a limit, or lost its lease.
    Wrong(String),
}

/// Watches over a job from its beginning to its end.
pub fn supervise(session: &mut Session, id: &str) -> Result<JobView> {
    processes::detach();
    processes::adopt_orphans();
    let shutdown = ShutdownSignal::listen()?;
    let machine = workspaces::machine(session)?;
    let supervisor = processes::own_identity();
    let job = session.write(BeginSupervision { job: id.to_owned(), machine, supervisor })?;
    let settings = settings(&job.job)?;
    let prepared = prepare(session, &job, &settings, &shutdown);
    let (outcome, place) = match prepared {
        Ok(place) => (run(session, &job, &settings, &place, &shutdown), Some(place)),
        Err(stop) => (Err(stop), None),
    };
    let mut operation = finished(&job.job.id);
    match outcome {
        Ok(ended) => tell_ending(&mut operation, &ended),
        Err(Stop::Cancelled) => {}
        Err(Stop::ShutdownSignal) => operation.stopped = true,
        Err(Stop::Wrong(why)) => operation.error = Some(why),
    }
    let said = super::tail(&log_of(session, &job.job.id)?, LAST_WORDS);
    operation.output = Some(String::from_utf8_lossy(&said).replace('\0', "").trim_end().to_owned());
    operation.output = operation.output.filter(|said| !said.is_empty());
    let ended = tell(session, &operation)?;
    if let Some(workspace) = place.and_then(|place| place.workspace) {
        tidy(session, &ended.job, &workspace, &settings);
    }
    session.read(ShowJob { job: id.to_owned() })
}

/// Where a job runs.
struct JobDirs {
    workspace: Option<Workspace>,
    dir: PathBuf,
    context: PathBuf,
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Wrong(error.full_message())
    }
}

/// Makes the workspace and writes down what the job is shutdown. Nothing runs if any of it fails.
fn prepare(
    session: &mut Session,
    view: &JobView,
    settings: &Settings,
    shutdown: &ShutdownSignal,
) -> Result<JobDirs, Stop> {
    let job = &view.job;
    let ground = if settings.strategy == Some(Strategy::InPlace) {
        let context = records(session, &job.id)?.join("context");
        create_private_dir(&context)
            .map_err(|error| Stop::Wrong(format!("cannot make {}: {error}", context.display())))?;
        JobDirs { workspace: None, dir: job.work_dir.clone(), context }
    } else if let Some(known) = &settings.workspace {
        let known = workspaces::find(session, known)?.workspace;
        let workspace = workspaces::reuse(session, &known, job)?;
        let context = workspaces::plan_of(&workspace)?.context();
        JobDirs { dir: workspace.path.clone(), workspace: Some(workspace), context }
    } else {
        let wanted = WorkspaceRequest {
            job: Some(job),
            strategy: settings.strategy,
            base: settings.base.as_deref(),
            branch: settings.branch.as_deref(),
            remote: None,
        };
        let mut steps = Vec::new();
        let created = workspaces::create(session, &wanted, &mut |step| steps.push(step.to_owned()))?;
        for note in &created.notes {
            note_job(session, job, |operation| operation.warning = Some(note.clone()))?;
        }
        let detail = steps.join("; ");
        note_job(session, job, |operation| {
            operation.phase = Some("prepared".to_owned());
            operation.detail = Some(detail);
        })?;
        let context = workspaces::plan_of(&created.workspace)?.context();
        JobDirs { dir: created.workspace.path.clone(), workspace: Some(created.workspace), context }
    };
    write_context(session, view, &ground)?;
    if session.read(ShowJob { job: job.id.to_string() })?.job.cancelled_at.is_some() {
        return Err(Stop::Cancelled);
    }
    if shutdown.count() > 0 {
        return Err(Stop::ShutdownSignal);
    }
    Ok(ground)
}

fn note_job(session: &mut Session, job: &Job, set: impl FnOnce(&mut NoteJob)) -> Result<()> {
    let mut operation = NoteJob {
        job: job.id.to_string(),
        phase: None,
        detail: None,
        output: None,
        warning: None,
        tokens: None,
        cost: None,
    };
    set(&mut operation);
    session.write(operation).map(drop)
}

/// Writes what the job is told into its context directory: its input, its task, and all there is to know about it.
fn write_context(session: &mut Session, view: &JobView, ground: &JobDirs) -> Result<()> {
    let write = |name: &str, text: &[u8]| {
        let path = ground.context.join(name);
        replace(&path, text, 0o600)
            .map_err(|error| Error::unavailable(format!("cannot write {}", path.display())).because(error))
    };
    let pretty = |value: &serde_json::Value| serde_json::to_vec_pretty(value).unwrap_or_default();
    let job = &view.job;
    write("input.json", &pretty(&job.input))?;
    let shutdown = json!({
        "job": job.id, "type": job.kind, "description": job.description, "task": job.task_id, "task_name": view.task,
        "epoch": job.epoch, "agent": view.agent, "workspace": path_text::to_text(&ground.dir), "repository": view.repository,
    });
    write("job.json", &pretty(&shutdown))?;
    if let Some(task) = &job.task_id {
        let context = session.read(GetContext { task: task.to_string(), workflow: None, budget: None })?;
        write("context.md", context.text.as_bytes())?;
        let whole = serde_json::to_value(&context).map_err(|error| Error::internal(error.to_string()))?;
        write("context.json", &pretty(&whole))?;
    }
    let notes = ground.context.join("notes");
    create_private_dir(&notes)
        .map_err(|error| Error::unavailable(format!("cannot make {}", notes.display())).because(error))
}

/// Returns all variables that a job sees: a few of the user's, those that were asked for, and ours.
fn variables(
    session: &Session,
    view: &JobView,
    settings: &Settings,
    ground: &JobDirs,
    token: &str,
) -> Vec<(OsString, OsString)> {
    let own = &session.place.variables;
    let wanted = ALLOWED.iter().map(|name| (*name).to_owned()).chain(settings.env.iter().cloned());
    let mut all: Vec<(OsString, OsString)> = wanted
        .filter_map(|name| Some((OsString::from(&name), own.get(&name)?.to_owned())))
        .chain(own.starting_with("LC_"))
        .collect();
    let job = &view.job;
    let mut set = |name: &str, value: OsString| {
        all.retain(|(known, _)| known != name);
        all.push((name.into(), value));
    };
    set("WAYPOST_JOB", job.id.as_str().into());
    set("WAYPOST_JOB_TYPE", job.kind.clone().into());
    set("WAYPOST_WORKSPACE", ground.dir.clone().into());
    set("WAYPOST_CONTEXT_DIR", ground.context.clone().into());
    set("WAYPOST_TOKEN", token.into());
    set("WAYPOST_DB", store_of(session));
    if let Some(home) = &session.place.home {
        set("WAYPOST_HOME", home.0.clone().into());
    }
    if let Some(agent) = &view.agent {
        set("WAYPOST_AGENT", agent.into());
    }
    if let Some(task) = &job.task_id {
        set("WAYPOST_TASK", task.as_str().into());
    }
    if let Some(epoch) = job.epoch {
        set("WAYPOST_EPOCH", epoch.to_string().into());
    }
    all
}

/// Runs the command until it ends, or has to be ended.
fn run(
    session: &mut Session,
    view: &JobView,
    settings: &Settings,
    ground: &JobDirs,
    shutdown: &ShutdownSignal,
) -> Result<Ended, Stop> {
    let job = &view.job;
    let log = log_of(session, &job.id)?;
    let token = format!("{TOKEN}{}", tokens::random_hex(32));
    let variables = variables(session, view, settings, ground, &token);
    let command = command(job, ground);
    let mut running = processes::start(&Start {
        job: job.id.as_str(),
        command: &command,
        dir: &ground.dir,
        variables: &variables,
        log: &log,
        log_limit: settings.log_limit.unwrap_or(64 << 20),
    })?;
    let grace = session.place.config.duration("jobs.grace").unwrap_or(DEFAULT_GRACE);
    let token_hash = tokens::hash(&token);
    let started = RecordJobStarted {
        job: job.id.to_string(),
        process: running.identity.clone(),
        log: Some(log),
        token_hash: Some(token_hash),
    };
    let started = session.write(started);
    let watched = match started {
        Ok(_) => watch(session, view, settings, ground, shutdown, &mut running),
        // Called off in the very last moment, or the store is gone: it does not run unwatched.
        Err(error) => Err(Stop::Wrong(error.full_message())),
    };
    match watched {
        Ok(ended) => Ok(running.end(grace, Some(ended))?),
        Err(stop) => {
            running.end(grace, None)?;
            Err(stop)
        }
    }
}

/// Returns the command. A program that is named by its place and is not in the workspace is one that whoever asked for the
/// job sees from where they are.
fn command(job: &Job, ground: &JobDirs) -> Vec<String> {
    let mut command = job.command.clone();
    if let Some(program) = command.first_mut().filter(|program| program.contains('/')) {
        let there = job.work_dir.join(&*program);
        if !ground.dir.join(&*program).exists() && there.exists() {
            *program = there.to_string_lossy().into_owned();
        }
    }
    command
}

/// Waits for the end of the command; meanwhile says that it is alive, and looks whether it may go on.
fn watch(
    session: &mut Session,
    view: &JobView,
    settings: &Settings,
    ground: &JobDirs,
    shutdown: &ShutdownSignal,
    running: &mut Running,
) -> Result<Ended, Stop> {
    let job = &view.job;
    let began = Instant::now();
    let mut next_beat = began;
    let mut next_measure = began + MEASURED;
    loop {
        if let Some(ended) = running.wait(GLANCE, shutdown)? {
            return Ok(ended);
        }
        let was_told = shutdown.count() > 0;
        match session.read(ShowJob { job: job.id.to_string() }) {
            Ok(now) if now.job.cancelled_at.is_some() || now.job.status == JobStatus::Cancelled => {
                return Err(Stop::Cancelled);
            }
            Ok(now) if now.job.status.is_final() => {
                return Err(Stop::Wrong(format!("somebody else wrote down that it is {}", now.job.status)));
            }
            Ok(_) => {}
            // What cannot be reached now may be reached again before the lease ends.
            Err(error) => log::warn!("{}", error.full_message()),
        }
        if was_told {
            return Err(Stop::ShutdownSignal);
        }
        if let Some(limit) = settings.timeout_ms.map(Duration::from_millis).filter(|limit| began.elapsed() >= *limit) {
            return Err(Stop::Wrong(format!("it ran for longer than {}", shown(limit))));
        }
        if let (Some(limit), true) = (settings.size_limit, Instant::now() >= next_measure) {
            next_measure = Instant::now() + MEASURED;
            if let Some(size) =
                ground.workspace.as_ref().and_then(|workspace| workspaces::measure(session, workspace).ok())
                && size > limit
            {
                let (size, limit) = (crate::bytes::shown(size), crate::bytes::shown(limit));
                return Err(Stop::Wrong(format!("its workspace takes {size}, and may take {limit}")));
            }
        }
        if job.task_id.is_some() && Instant::now() >= next_beat {
            match beat(session, job) {
                Ok(Some(next)) => next_beat = Instant::now() + next,
                Ok(None) => return Err(Stop::Wrong("its task was called off".to_owned())),
                Err(error) if error.kind() == Kind::LeaseLost => {
                    // Finished by the command itself: it may have something left to do.
                    if is_over(session, job)? {
                        next_beat = Instant::now() + Duration::from_mins(1);
                    } else {
                        return Err(Stop::Wrong(error.full_message()));
                    }
                }
                Err(error) => {
                    log::warn!("{}", error.full_message());
                    next_beat = Instant::now() + GLANCE;
                }
            }
        }
    }
}

/// Renews the lease on the job's task. Returns when to do so again; none if the task was called off.
fn beat(session: &mut Session, job: &Job) -> Result<Option<Duration>> {
    let task = job.task_id.as_ref().map(ToString::to_string);
    let alive = session.write(Heartbeat { task, workflow: None, epoch: job.epoch })?;
    Ok((!alive.is_cancelled).then_some(Duration::from_millis(alive.next_ms.max(300))))
}

/// Tells whether the job's own lease ended by what its command did, and not by somebody else.
fn is_over(session: &mut Session, job: &Job) -> Result<bool> {
    let Some(task) = &job.task_id else { return Ok(true) };
    let page = session.read(waypost_core::op::ShowTask { task: task.to_string(), workflow: None })?;
    Ok(page.task.epoch == job.epoch && page.task.holder.is_none())
}

fn tell_ending(operation: &mut FinishJob, ended: &Ended) {
    operation.exit_code = ended.code;
    operation.error = match (ended.code, ended.signal) {
        (Some(0), _) => None,
        (Some(code), _) => Some(format!("its command ended with {code}")),
        (None, Some(signal)) => Some(format!("its command was ended by signal {signal}")),
        (None, None) => Some("its command ended in an unknown way".to_owned()),
    };
}

/// Writes down how a job ended, as soon as the store can be reached.
fn tell(session: &mut Session, operation: &FinishJob) -> Result<JobView> {
    let began = Instant::now();
    loop {
        match session.write(operation.clone()) {
            Err(error) if error.kind() == Kind::Unavailable && began.elapsed() < PATIENCE => {
                log::warn!("{}", error.full_message());
                let _ = session.wait(u64::MAX, GLANCE);
            }
            outcome => return outcome,
        }
    }
}

/// Measures the workspace of a job that has ended, and lets it go if that was wanted. That it stays is no failure of the
/// job, but it is said.
fn tidy(session: &mut Session, job: &Job, workspace: &Workspace, settings: &Settings) {
    let warn = |session: &mut Session, warning: String| {
        if let Err(error) = note_job(session, job, |operation| operation.warning = Some(warning)) {
            log::warn!("{}", error.full_message());
        }
    };
    let workspace = match workspaces::find(session, workspace.id.as_str()) {
        Ok(found) => found.workspace,
        Err(error) => return warn(session, error.full_message()),
    };
    if let Err(error) = workspaces::measure(session, &workspace) {
        log::warn!("{}", error.full_message());
    }
    if settings.cleanup != Some(true) {
        return;
    }
    match workspaces::clean_up(session, &workspace) {
        Ok(None) => {}
        Ok(Some(why)) => warn(session, format!("its workspace stays: {why}")),
        Err(error) => warn(session, format!("its workspace could not be removed: {}", error.full_message())),
    }
}

fn shown(span: Duration) -> String {
    SignedDuration::try_from(span).map_or_else(|_| format!("{span:?}"), |span| format!("{span:#}"))
}
