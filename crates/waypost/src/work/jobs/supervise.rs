//! The supervisor of one job: creates its workspace, runs its command, and records how it ended.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jiff::SignedDuration;
use serde_json::json;
use waypost_core::model::{Job, JobStatus, Strategy, TaskStatus, Workspace};
use waypost_core::op::{
    AskQuestion, FinishJob, Heartbeat, JobView, RecordJobStarted, RecordMachine, RegisterSupervisor, ShowContext,
    ShowJob, ShowTask, UpdateJob,
};
use waypost_core::{Error, Kind, Result, path_text};
use waypost_fs::{FileIdentity, create_private_dir, remove_tree, replace_entry};
use waypost_workspace::jobs::{self as processes, Ended, Hits, Running, Start};
use waypost_workspace::sandbox::{self, Confinement};

use super::base::{self, Base};
use super::confine;
use super::shared_log::SharedLog;
use super::socket::{Serve, Served};
use super::{Settings, finish_operation, log_path, records_dir, settings, store_of};
use crate::app::session::Session;
use crate::issues::claims;
use crate::machine::environment::WAYPOST_SANDBOX;
use crate::machine::place::Location;
use crate::machine::registry;
use crate::machine::signals::ShutdownSignal;
use crate::serving::tokens;
use crate::work::workspaces::{self, Created, Creation, WorkspaceRequest};

/// Time between two checks whether the job was cancelled.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Time between two measurements of a workspace with a size limit.
const MEASURE_INTERVAL: Duration = Duration::from_secs(2);
/// Time between two reports that this machine is there, to a store that machines share.
pub(crate) const MACHINE_INTERVAL: Duration = Duration::from_secs(30);
/// Size of the end of the log that becomes the output of a job that recorded none.
const OUTPUT_TAIL_BYTES: u64 = 2000;
/// Maximum time to retry recording the end of a job while the store is unavailable.
const RECORD_TIMEOUT: Duration = Duration::from_mins(10);
/// Maximum time to retry that after a shutdown signal: any other process can record the end.
const RECORD_TIMEOUT_AFTER_SIGNAL: Duration = Duration::from_secs(2);
/// How long repository and store must be gone until they count as deleted. A disk may be unmounted for a moment.
const DELETED_AFTER: Duration = Duration::from_secs(3);
/// Time until the next heartbeat of a task that the command finished itself.
const FINISHED_TASK_INTERVAL: Duration = Duration::from_mins(1);
/// Maximum size of the kept output, if the job has no limit.
const DEFAULT_LOG_BYTES: u64 = 64 << 20;
/// Time between asking a job to end and killing it, if `jobs.grace` is not set.
const DEFAULT_GRACE: Duration = Duration::from_secs(3);

/// Why the supervisor ends a job before its command ends.
enum Stop {
    /// The job was cancelled.
    Cancelled,
    /// The supervisor got a shutdown signal.
    ShutdownSignal,
    /// It exceeded a limit, lost its lease, or could not be set up.
    Failed(String),
    /// Its command could not be started, or ran too long. The exit code is that of a shell, or of `timeout`.
    WithCode(i32, String),
}

/// Supervises a job from its start to its end. `serve` answers on the socket that the job gets instead of an address with
/// a password.
pub fn supervise(session: &mut Session, id: &str, serve: Serve) -> Result<JobView> {
    processes::detach();
    processes::adopt_orphans();
    let shutdown = ShutdownSignal::listen()?;
    let machine = workspaces::machine(session)?;
    let supervisor = processes::own_identity();
    let token = format!("{}{}", tokens::JOB_PREFIX, tokens::random_hex(32));
    let token_hash = Some(tokens::hash_token(&token));
    let job = session.write(RegisterSupervisor { job: id.to_owned(), machine, supervisor, token_hash })?;
    let settings = confine::for_this_machine(session, settings(&job.job)?);
    let mut log = SharedLog::of(session, &job.job)?;
    let prepared = prepare(session, &job, &settings, &shutdown);
    let (outcome, dirs) = match prepared {
        Ok(dirs) => (run(session, &job, &settings, &dirs, (&shutdown, &mut log), (&token, serve)), Some(dirs)),
        Err(stop) => (Err(stop), None),
    };
    let mut operation = finish_operation(&job.job.id);
    match outcome {
        Ok(ended) => set_result(&mut operation, &ended),
        Err(Stop::Cancelled) => {}
        Err(Stop::ShutdownSignal) => operation.stopped = true,
        Err(Stop::Failed(why)) => operation.error = Some(why),
        Err(Stop::WithCode(code, why)) => (operation.exit_code, operation.error) = (Some(code), Some(why)),
    }
    operation.result = dirs.as_ref().and_then(|dirs| keep_result(session, &job.job, dirs));
    if settings.is_in_sandbox()
        && let Err(error) = claims::deliver_notices(session)
    {
        // Its changes of issues wait in the store, because no sandbox opens the ledger. The next change delivers them then.
        log::warn!("{}", error.full_message());
    }
    let printed = super::tail(&log_path(session, &job.job.id)?, OUTPUT_TAIL_BYTES);
    let printed = String::from_utf8_lossy(&printed).replace('\0', "").trim_end().to_owned();
    operation.output = Some(printed).filter(|printed| !printed.is_empty());
    let ended = record_end(session, &operation, dirs.as_ref().map(|dirs| dirs.dir.as_path()), &shutdown, log.as_mut())?;
    if let Some(temporary) = dirs.as_ref().map(|dirs| &dirs.temporary) {
        remove_temporary(temporary);
    }
    if let Some(workspace) = dirs.and_then(|dirs| dirs.workspace) {
        clean_up(session, &ended.job, &workspace, &settings);
    }
    session.read(ShowJob { job: id.to_owned() })
}

/// The directories of a job.
struct JobDirs {
    workspace: Option<Workspace>,
    dir: PathBuf,
    context: PathBuf,
    /// The directory of temporary files of a job in a sandbox.
    temporary: PathBuf,
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Failed(error.full_message())
    }
}

/// Creates the workspace and writes the context of the job. If any step fails, nothing runs.
fn prepare(
    session: &mut Session,
    view: &JobView,
    settings: &Settings,
    shutdown: &ShutdownSignal,
) -> Result<JobDirs, Stop> {
    let job = &view.job;
    confine::check(settings)?;
    let temporary = records_dir(session, &job.id)?.join("tmp");
    let dirs = if settings.strategy == Some(Strategy::InPlace) {
        let context = records_dir(session, &job.id)?.join("context");
        create_private_dir(&context)
            .map_err(|error| Stop::Failed(format!("cannot create {}: {error}", context.display())))?;
        JobDirs { workspace: None, dir: job.work_dir.clone(), context, temporary }
    } else if let Some(known) = &settings.workspace {
        let known = workspaces::find(session, known)?.workspace;
        let workspace = workspaces::reuse(session, &known, job)?;
        if settings.base.is_some() {
            workspaces::update(&known, settings.base.as_deref())?;
        } else if let Some(warning) = workspaces::behind_warning(&workspace)? {
            note_job(session, job, |operation| operation.warning = Some(warning))?;
        }
        let context = workspaces::plan_of(&workspace)?.context();
        JobDirs { dir: workspace.path.clone(), workspace: Some(workspace), context, temporary }
    } else {
        let created = create_workspace(session, job, settings, shutdown)?;
        for note in &created.notes {
            note_job(session, job, |operation| operation.warning = Some(note.clone()))?;
        }
        let context = workspaces::plan_of(&created.workspace)?.context();
        JobDirs { dir: created.workspace.path.clone(), workspace: Some(created.workspace), context, temporary }
    };
    write_context(session, view, &dirs)?;
    if settings.is_in_sandbox() {
        create_private_dir(&dirs.temporary)
            .map_err(|error| Stop::Failed(format!("cannot create {}: {error}", dirs.temporary.display())))?;
    }
    if session.read(ShowJob { job: job.id.to_string() })?.job.cancelled_at.is_some() {
        return Err(Stop::Cancelled);
    }
    if shutdown.count() > 0 {
        return Err(Stop::ShutdownSignal);
    }
    Ok(dirs)
}

/// Creates the workspace of a job. If the work that it should start from conflicts or is not here, its task asks a person.
fn create_workspace(
    session: &mut Session,
    job: &Job,
    settings: &Settings,
    shutdown: &ShutdownSignal,
) -> Result<Created, Stop> {
    let mut may_wait = |session: &mut Session| {
        let is_cancelled = session.read(ShowJob { job: job.id.to_string() })?.job.cancelled_at.is_some();
        Ok(!is_cancelled && shutdown.count() == 0)
    };
    let Base { revision, from } = base::choose(session, job, settings.base.as_deref(), &mut may_wait)?;
    let request = WorkspaceRequest {
        job: Some(job),
        repository: Some(&job.repository_id),
        is_of_task: job.task_id.is_some(),
        strategy: settings.strategy,
        base: revision.as_deref(),
        branch: settings.branch.as_deref(),
        remote: None,
        from: Some(&from),
        include_changes: settings.include_changes,
    };
    let mut steps = Vec::new();
    let task = job.task_id.as_ref().map(ToString::to_string).unwrap_or_default();
    let created = match workspaces::create_from_work(session, &request, &mut |step| steps.push(step.to_owned()))? {
        Creation::Created(created) => *created,
        Creation::Missing(work) => {
            let machine = job.machine.as_deref().unwrap_or("this machine");
            ask(session, job, base::missing_question(&work, &task, machine))?;
            return Err(Stop::Failed(format!("the work of task {} is not on {machine}", work.task)));
        }
    };
    if let Some(conflict) = created.conflict.as_ref().filter(|_| !from.may_leave_conflict) {
        ask(session, job, base::conflict_question(conflict, &created.workspace.path, &task))?;
        return Err(Stop::Failed(format!(
            "the work of task {} conflicts with that of {} in {}",
            conflict.task,
            conflict.merged.join(", "),
            conflict.files.join(", ")
        )));
    }
    let detail = steps.join("; ");
    note_job(session, job, |operation| {
        operation.phase = Some("prepared".to_owned());
        operation.detail = Some(detail);
    })?;
    Ok(created)
}

/// Asks a person about the task of a job. The job then ends without counting an attempt.
fn ask(session: &mut Session, job: &Job, question: String) -> Result<()> {
    let Some(task) = &job.task_id else { return Ok(()) };
    session.write(AskQuestion { task: task.to_string(), workflow: None, epoch: job.epoch, question }).map(drop)
}

/// Keeps the commit that a job leaves for the tasks that depend on its task, if it finished its task. The job does not
/// fail because of that. It says so if later tasks do not get the work.
fn keep_result(session: &mut Session, job: &Job, dirs: &JobDirs) -> Option<String> {
    let kept = (|| {
        let Some(task) = &job.task_id else { return Ok(None) };
        let page = session.read(ShowTask { task: task.to_string(), ..ShowTask::default() })?;
        let is_finished = page.task.task.status == TaskStatus::Completed && page.task.epoch == job.epoch;
        if !is_finished {
            return Ok(None);
        }
        let has_commits = |workspace: &&Workspace| workspace.strategy != Strategy::Copy;
        let Some(workspace) = dirs.workspace.as_ref().filter(has_commits) else {
            let is_lost = dirs.workspace.is_some()
                || workspaces::uncommitted_warning(session, Some(Strategy::Clone), None)?.is_some();
            if is_lost {
                let (name, dir) = (&page.task.task.name, dirs.dir.display());
                let lost = "later tasks do not get what is not committed in a clone or a worktree";
                warn(session, job, format!("the work of task {name} is in {dir} alone: {lost}"));
            }
            return Ok(None);
        };
        let kept = workspaces::keep_result(workspace, &page.task.task.workflow_id, &page.task.task.name, false)?;
        if let Some(note) = kept.note {
            warn(session, job, note);
        }
        Ok(kept.commit)
    })();
    kept.unwrap_or_else(|error: Error| {
        warn(session, job, format!("cannot keep its work for later tasks: {}", error.full_message()));
        None
    })
}

/// Adds a warning to a job, which goes on in any case.
fn warn(session: &mut Session, job: &Job, warning: String) {
    if let Err(error) = note_job(session, job, |operation| operation.warning = Some(warning)) {
        log::warn!("{}", error.full_message());
    }
}

fn note_job(session: &mut Session, job: &Job, set: impl FnOnce(&mut UpdateJob)) -> Result<()> {
    let mut operation = UpdateJob { job: job.id.to_string(), ..UpdateJob::default() };
    set(&mut operation);
    session.write(operation).map(drop)
}

/// Writes the context directory of the job: its input, its task, and the context of the task. Earlier jobs in the workspace
/// wrote there, too, so no link is followed.
fn write_context(session: &mut Session, view: &JobView, dirs: &JobDirs) -> Result<()> {
    let write = |name: &str, text: &[u8]| {
        let path = dirs.context.join(name);
        replace_entry(&path, text, 0o600)
            .map_err(|error| Error::unavailable(format!("cannot write {}", path.display())).because(error))
    };
    let pretty = |value: &serde_json::Value| serde_json::to_vec_pretty(value).unwrap_or_default();
    let job = &view.job;
    write("input.json", &pretty(&job.input))?;
    let description = json!({
        "job": job.id, "type": job.kind, "description": job.description, "task": job.task_id, "task_name": view.task,
        "epoch": job.epoch, "agent": view.agent, "workspace": path_text::to_text(&dirs.dir), "repository": view.repository,
    });
    write("job.json", &pretty(&description))?;
    if let Some(task) = &job.task_id {
        let context = session.read(ShowContext { task: task.to_string(), ..ShowContext::default() })?;
        write("context.md", context.text.as_bytes())?;
        let whole = serde_json::to_value(&context).map_err(|error| Error::internal(error.to_string()))?;
        write("context.json", &pretty(&whole))?;
    }
    let notes = dirs.context.join("notes");
    // An earlier job in the same workspace may have left something else under this name.
    if notes.symlink_metadata().is_ok_and(|found| !found.is_dir()) {
        std::fs::remove_file(&notes)
            .map_err(|error| Error::unavailable(format!("cannot remove {}", notes.display())).because(error))?;
    }
    create_private_dir(&notes)
        .map_err(|error| Error::unavailable(format!("cannot create {}", notes.display())).because(error))
}

/// Returns the environment of a job: a few variables of the user, those of its settings, and those of Waypost.
fn variables(
    session: &Session,
    view: &JobView,
    settings: &Settings,
    dirs: &JobDirs,
    (store, token): (OsString, &str),
) -> Result<Vec<(OsString, OsString)>> {
    let mut all = session.place.variables.inherited(&settings.env);
    let job = &view.job;
    let mut set = |name: &str, value: OsString| {
        all.retain(|(known, _)| known != name);
        all.push((name.into(), value));
    };
    set("WAYPOST_JOB", job.id.as_str().into());
    set("WAYPOST_JOB_TYPE", job.kind.clone().into());
    set("WAYPOST_WORKSPACE", dirs.dir.clone().into());
    set("WAYPOST_CONTEXT_DIR", dirs.context.clone().into());
    set("WAYPOST_TOKEN", token.into());
    if settings.is_in_sandbox() {
        set("TMPDIR", dirs.temporary.clone().into());
        if let Some((home, _)) = &session.place.home
            && let Some((registration, _)) = registry::find(home, &dirs.dir)?
        {
            let text = serde_json::to_string(&registration).map_err(|error| Error::internal(error.to_string()))?;
            set(WAYPOST_SANDBOX, text.into());
        }
    }
    set("WAYPOST_DB", store);
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
    // Through the agent, a job could use keys that it cannot read.
    let is_named = settings.env.iter().any(|name| name == confine::SSH_AUTH_SOCK);
    all.retain(|(name, _)| is_named || !settings.is_in_sandbox() || name != confine::SSH_AUTH_SOCK);
    Ok(all)
}

/// Runs the command until it ends or the supervisor ends it.
fn run(
    session: &mut Session,
    view: &JobView,
    settings: &Settings,
    dirs: &JobDirs,
    (shutdown, shared_log): (&ShutdownSignal, &mut Option<SharedLog>),
    (token, serve): (&str, Serve),
) -> Result<Ended, Stop> {
    let job = &view.job;
    let log = log_path(session, &job.id)?;
    // The address of a database may contain a password. A command that can write the file of a store can also queue jobs
    // without a sandbox.
    let needs_socket = match &session.choice.location {
        Location::Postgres(_) => true,
        Location::Sqlite(_) | Location::UnnamedSqlite => settings.is_in_sandbox(),
        Location::Server(_) => false,
    };
    let socket = needs_socket.then(|| Served::start(session, view, tokens::hash_token(token), serve)).transpose()?;
    let store = socket.as_ref().map_or_else(|| store_of(session), Served::address);
    let variables = variables(session, view, settings, dirs, (store, token))?;
    let command = command(job, dirs);
    let confinement = confine(session, job, settings, (dirs, socket.as_ref()), &command)?;
    let mut running = processes::start(&Start {
        job: job.id.as_str(),
        command: &command,
        dir: &dirs.dir,
        variables: &variables,
        log: &log,
        log_limit: settings.log_limit.unwrap_or(DEFAULT_LOG_BYTES),
        secrets: &session.place.secrets(),
        confinement: confinement.as_ref(),
    })
    .map_err(|error| match error.kind() {
        Kind::NotFound => Stop::WithCode(super::NO_PROGRAM, error.full_message()),
        Kind::Refused => Stop::WithCode(super::NOT_EXECUTABLE, error.full_message()),
        _ => Stop::Failed(error.full_message()),
    })?;
    let grace = session.place.config.duration("jobs.grace").unwrap_or(DEFAULT_GRACE);
    let started = RecordJobStarted { job: job.id.to_string(), process: running.identity.clone(), log: Some(log) };
    let started = session.write(started);
    let watched = match started {
        Ok(_) => watch(session, view, settings, dirs, (shutdown, shared_log), &mut running),
        // The job was just cancelled, or the store is unavailable. Do not run it unsupervised.
        Err(error) => Err(Stop::Failed(error.full_message())),
    };
    let per_process = settings.memory_limit.filter(|_| !running.has_cgroup());
    let (ended, outcome) = match watched {
        Ok(ended) => {
            let ended = running.end(grace, Some(ended))?;
            (ended.clone(), Ok(ended))
        }
        Err(stop) => (running.end(grace, None)?, Err(stop)),
    };
    for warning in limit_warnings(settings, ended.hits, per_process) {
        warn(session, job, warning);
    }
    outcome
}

/// Removes the temporary files of a job that was in a sandbox.
fn remove_temporary(dir: &Path) {
    let removed = FileIdentity::of(dir).map(|identity| remove_tree(dir, identity));
    if let Ok(Err(error)) = removed {
        log::warn!("{}", error.full_message());
    }
}

/// Returns the restrictions of a job, and records them.
fn confine(
    session: &mut Session,
    job: &Job,
    settings: &Settings,
    (dirs, socket): (&JobDirs, Option<&Served>),
    command: &[String],
) -> Result<Option<Confinement>, Stop> {
    let plan = dirs.workspace.as_ref().map(workspaces::plan_of).transpose()?;
    let own = confine::Dirs {
        plan: plan.as_ref(),
        dir: &dirs.dir,
        context: &dirs.context,
        temporary: &dirs.temporary,
        socket: socket.map(Served::dir),
    };
    let confinement = confine::confinement(session, settings, &own, command)?;
    if let Some(confinement) = &confinement {
        if let Some(plan) = &plan {
            let common_dir = plan.git_dir.as_deref().filter(|_| plan.strategy == Strategy::Worktree);
            sandbox::record(&plan.workspace, common_dir, confinement)?;
        }
        let detail = confine::describe(confinement)?;
        let is_unreachable = !confinement.network && session.is_served();
        note_job(session, job, |operation| {
            operation.phase = Some("confined".to_owned());
            operation.detail = Some(detail);
            let warning = "it has no network: commands of way in it cannot reach the server of its store";
            operation.warning = is_unreachable.then(|| warning.to_owned());
        })?;
    }
    Ok(confinement)
}

/// Describes which limits of a job took effect, and which is weaker than it says.
fn limit_warnings(settings: &Settings, hits: Hits, per_process: Option<u64>) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Some(limit) = per_process {
        let limit = crate::machine::bytes::humanize(limit);
        warnings.push(format!("the memory limit of {limit} was that of each process: there is no cgroup for the job"));
    }
    if let (Some(limit), true) = (settings.memory_limit, hits.killed > 0) {
        let limit = crate::machine::bytes::humanize(limit);
        let killed = match hits.killed {
            1 => "1 of its processes was".to_owned(),
            count => format!("{count} of its processes were"),
        };
        warnings.push(format!("{killed} killed at the memory limit of {limit}"));
    }
    if let (Some(limit), true) = (settings.process_limit, hits.refused > 0) {
        warnings.push(format!("it tried to exceed the limit of {limit} processes"));
    }
    warnings
}

/// Returns the command. A relative path of a program that is not in the workspace refers to the directory in which the
/// caller created the job.
fn command(job: &Job, dirs: &JobDirs) -> Vec<String> {
    let mut command = job.command.clone();
    if let Some(program) = command.first_mut().filter(|program| program.contains('/')) {
        let there = job.work_dir.join(&*program);
        if !dirs.dir.join(&*program).exists() && there.exists() {
            *program = there.to_string_lossy().into_owned();
        }
    }
    command
}

/// Waits for the command to end. Meanwhile renews the lease and checks cancellation and limits.
fn watch(
    session: &mut Session,
    view: &JobView,
    settings: &Settings,
    dirs: &JobDirs,
    (shutdown, shared_log): (&ShutdownSignal, &mut Option<SharedLog>),
    running: &mut Running,
) -> Result<Ended, Stop> {
    let job = &view.job;
    let began = Instant::now();
    let mut next_heartbeat = began;
    let mut next_report = began + MACHINE_INTERVAL;
    let mut next_measure = began + MEASURE_INTERVAL;
    let mut gone_since = None;
    loop {
        if let Some(ended) = running.wait(POLL_INTERVAL, shutdown)? {
            return Ok(ended);
        }
        let is_signalled = shutdown.count() > 0;
        match session.read(ShowJob { job: job.id.to_string() }) {
            Ok(now) if now.job.cancelled_at.is_some() || now.job.status == JobStatus::Cancelled => {
                return Err(Stop::Cancelled);
            }
            Ok(now) if now.job.status.is_final() => {
                return Err(Stop::Failed(format!("another process recorded that it is {}", now.job.status)));
            }
            Ok(_) => {}
            Err(error) if is_deleted(session, Some(&dirs.dir), &mut gone_since) => {
                return Err(Stop::Failed(error.full_message()));
            }
            // The store may be available again before the lease expires.
            Err(error) => log::warn!("{}", error.full_message()),
        }
        if is_signalled {
            return Err(Stop::ShutdownSignal);
        }
        // The file has the output, so the next check can store what this one cannot.
        if let Some(Err(error)) = shared_log.as_mut().map(|log| log.update(session)) {
            log::warn!("{}", error.full_message());
        }
        if let (true, Some(machine), true) = (session.is_remote(), &view.job.machine, Instant::now() >= next_report) {
            next_report = Instant::now() + MACHINE_INTERVAL;
            if let Err(error) = session.write(RecordMachine { machine: machine.clone(), worker: false }) {
                log::warn!("{}", error.full_message());
            }
        }
        if let Some(limit) = settings.timeout_ms.map(Duration::from_millis).filter(|limit| began.elapsed() >= *limit) {
            let why = format!("it ran for longer than {}", format_duration(limit));
            return Err(Stop::WithCode(super::TIMED_OUT, why));
        }
        if let (Some(limit), true) = (settings.size_limit, Instant::now() >= next_measure) {
            next_measure = Instant::now() + MEASURE_INTERVAL;
            if let Some(size) =
                dirs.workspace.as_ref().and_then(|workspace| workspaces::measure(session, workspace).ok())
                && size > limit
            {
                let (size, limit) = (crate::machine::bytes::humanize(size), crate::machine::bytes::humanize(limit));
                return Err(Stop::Failed(format!("its workspace has {size}, and the limit is {limit}")));
            }
        }
        if job.task_id.is_some() && Instant::now() >= next_heartbeat {
            match renew_lease(session, job) {
                Ok(Some(next)) => next_heartbeat = Instant::now() + next,
                Ok(None) => return Err(Stop::Failed("its task was cancelled".to_owned())),
                Err(error) if error.kind() == Kind::LeaseLost => {
                    // The command finished the task itself, and may have work left.
                    if is_lease_ended_by_job(session, job)? {
                        next_heartbeat = Instant::now() + FINISHED_TASK_INTERVAL;
                    } else {
                        return Err(Stop::Failed(error.full_message()));
                    }
                }
                Err(error) => {
                    log::warn!("{}", error.full_message());
                    next_heartbeat = Instant::now() + POLL_INTERVAL;
                }
            }
        }
    }
}

/// Renews the lease on the job's task. Returns the time until the next renewal. None if the task was cancelled.
fn renew_lease(session: &mut Session, job: &Job) -> Result<Option<Duration>> {
    let task = job.task_id.as_ref().map(ToString::to_string);
    let alive = session.write(Heartbeat { task, workflow: None, epoch: job.epoch })?;
    Ok((!alive.is_cancelled).then_some(Duration::from_millis(alive.next_ms.max(300))))
}

/// Returns whether the command of the job ended the lease itself, and no other agent holds the task.
fn is_lease_ended_by_job(session: &mut Session, job: &Job) -> Result<bool> {
    let Some(task) = &job.task_id else { return Ok(true) };
    let page = session.read(ShowTask { task: task.to_string(), ..ShowTask::default() })?;
    Ok(page.task.epoch == job.epoch && page.task.holder.is_none())
}

fn set_result(operation: &mut FinishJob, ended: &Ended) {
    operation.exit_code = ended.code.or(ended.signal.map(|signal| super::SIGNALLED + signal));
    operation.error = match (ended.code, ended.signal) {
        (Some(0), _) => None,
        (Some(code), _) => Some(format!("its command ended with exit code {code}")),
        (None, Some(signal)) => Some(format!("signal {signal} ended its command")),
        (None, None) => Some("its command ended in an unknown way".to_owned()),
    };
}

/// Returns whether the directory of the store has been gone for a while, with the repository or the directory that the job runs
/// in: they were deleted. A store that is gone alone can be put back.
fn is_deleted(session: &Session, dir: Option<&Path>, gone_since: &mut Option<Instant>) -> bool {
    let Location::Sqlite(store) = &session.choice.location else { return false };
    let is_gone =
        |path: &Path| path.symlink_metadata().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound);
    let repository = session.place.checkout.as_ref().map_or(&*session.place.cwd, |checkout| &*checkout.shared_dir);
    if !store.parent().is_some_and(is_gone) || !(is_gone(repository) || dir.is_some_and(is_gone)) {
        *gone_since = None;
        return false;
    }
    gone_since.get_or_insert_with(Instant::now).elapsed() >= DELETED_AFTER
}

/// Records how a job ended, after the rest of its output. Retries while the store is unavailable.
fn record_end(
    session: &mut Session,
    operation: &FinishJob,
    dir: Option<&Path>,
    shutdown: &ShutdownSignal,
    mut log: Option<&mut SharedLog>,
) -> Result<JobView> {
    let began = Instant::now();
    let mut gone_since = None;
    loop {
        let stored = log.as_mut().map_or(Ok(()), |log| log.finish(session)).or_else(|error| {
            let is_final = error.kind() != Kind::Unavailable;
            if is_final {
                log::warn!("cannot store the output of the job: {}", error.full_message());
            }
            if is_final { Ok(()) } else { Err(error) }
        });
        match stored.and_then(|()| session.write(operation.clone())) {
            Err(error)
                if error.kind() == Kind::Unavailable
                    && began.elapsed()
                        < if shutdown.count() > 0 { RECORD_TIMEOUT_AFTER_SIGNAL } else { RECORD_TIMEOUT }
                    && !is_deleted(session, dir, &mut gone_since) =>
            {
                log::warn!("{}", error.full_message());
                shutdown.wait(POLL_INTERVAL);
            }
            outcome => return outcome,
        }
    }
}

/// Measures the workspace of an ended job and removes it if the settings say so. If it stays, the job gets a warning and
/// does not fail.
fn clean_up(session: &mut Session, job: &Job, workspace: &Workspace, settings: &Settings) {
    let workspace = match workspaces::find(session, workspace.id.as_str()) {
        Ok(found) => found.workspace,
        Err(error) => return warn(session, job, error.full_message()),
    };
    if let Err(error) = workspaces::measure(session, &workspace) {
        log::warn!("{}", error.full_message());
    }
    if settings.cleanup != Some(true) {
        return;
    }
    match workspaces::clean_up(session, &workspace) {
        Ok(None) => {}
        Ok(Some(why)) => warn(session, job, format!("its workspace stays: {why}")),
        Err(error) => warn(session, job, format!("cannot remove its workspace: {}", error.full_message())),
    }
}

fn format_duration(duration: Duration) -> String {
    SignedDuration::try_from(duration).map_or_else(|_| format!("{duration:?}"), |duration| format!("{duration:#}"))
}
