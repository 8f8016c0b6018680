//! `way job`

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::{Value, json};
use waypost_core::model::{JobStatus, SandboxMode, Strategy, WorkspaceStatus};
use waypost_core::op::{CancelJob, JobView, ListJobs, Operation as _, ShowJob, UpdateJob};
use waypost_core::time::Timestamp;
use waypost_core::{Error, Result};
use waypost_workspace::job_log::{self, Part};
use waypost_workspace::jobs as processes;
use waypost_workspace::sandbox;

use super::serve::serve_job;
use super::ws::{self, parse_bytes};
use crate::CommandContext;
use crate::places::{PlaceColumns, describe_worktree};
use crate::spans::{format_duration, parse_duration};
use crate::ui::{self, BAD, BOLD, Cell, DIM, GOOD, Style, WARN, cell, header, prose, styled};
use crate::work::{json_or_text, parse_enum, wait_for};
use waypost::app::session::Session;
use waypost::issues::repos::Repo;
use waypost::machine::environment::WAYPOST_JOB;
use waypost::machine::place::expand;
use waypost::machine::signals::ShutdownSignal;
use waypost::machine::system::SystemEntropy;
use waypost::ops::job::ShowLog;
use waypost::work::jobs::{self, LogPlace, Request, Settings};
use waypost::work::workspaces;

/// Run commands as jobs, each in its own workspace
///
/// Every job gets an isolated directory, a supervisor that outlives the terminal, a log and a permanent record. A job
/// with a task holds the lease of the task, and fails if its command exits without finishing the task.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way job start -- make test                       streams the log, exits with the job's exit code
  way job start --task build --agent me -- ./agent.sh
  way job start --detach --timeout 1h -- claude -p 'fix the tests'
  way job start --sandbox --no-network --memory-limit 4GiB -- cargo test --offline
  way job list
  way job logs -f jb_4k2j
  way job cancel jb_4k2j
  way job deliver jb_4k2j --commit 'Fix the tests'")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    #[command(visible_alias = "run")]
    Start(Box<StartArgs>),
    #[command(visible_alias = "ls")]
    List(ListArgs),
    Show(OneArgs),
    Logs(LogsArgs),
    Wait(WaitArgs),
    Cancel(CancelArgs),
    Retry(RetryArgs),
    Note(NoteArgs),
    Deliver(DeliverArgs),
    #[command(hide = true)]
    Supervise(OneArgs),
    /// Restrict this process as its supervisor says, and execute the command of a job
    #[command(hide = true)]
    Confine(ConfineArgs),
}

#[derive(clap::Args)]
struct ConfineArgs {
    /// The file that says so for a tool in the workspace of a job
    file: Option<PathBuf>,
    /// The tool
    #[arg(last = true)]
    tool: Vec<OsString>,
}

/// Run a command in its own workspace
///
/// The command gets WAYPOST_JOB, WAYPOST_TASK, WAYPOST_EPOCH, WAYPOST_AGENT, WAYPOST_WORKSPACE, WAYPOST_CONTEXT_DIR,
/// WAYPOST_DB and WAYPOST_TOKEN. From your environment it gets only basic variables such as PATH and HOME, your
/// name for git (GIT_AUTHOR_NAME and its like), and those that jobs.env or --env name. What it leaves uncommitted when it
/// finishes its task is committed for the tasks that depend on it. With a store on PostgreSQL, and in a sandbox, WAYPOST_DB is a socket on which only this
/// token is valid, so the command gets neither a password nor the file. Interrupting way job start cancels the job.
///
/// Exits as a shell would with the command: with its exit code, 127 if the program does not exist, 126 if it cannot be
/// executed, 128 and the number of the signal that ended it, 124 if it ran longer than --timeout, 130 if it was
/// cancelled. From the moment the job exists, every other failure is 125: its workspace cannot be set up, its command
/// ends without finishing the task, the store cannot be read. Attempts with 125 before the command starts, 126 and 127
/// are not counted for the task. A task has one job at a time.
#[derive(clap::Args)]
pub(crate) struct StartArgs {
    /// Task to work on; the job claims it
    #[arg(long)]
    task: Option<String>,
    /// Workflow of the task, if its name is ambiguous
    #[arg(long, requires = "task")]
    workflow: Option<String>,
    /// Epoch of your lease, if you hold the task already
    #[arg(long, requires = "task", value_name = "N")]
    epoch: Option<u64>,
    /// Type of the job: builder, debugger, reviewer or any other word
    #[arg(long = "type", value_name = "TYPE", default_value = "agent")]
    kind: String,
    /// Description of the job
    #[arg(long)]
    description: Option<String>,
    /// Input for the job, stored in its context directory: JSON or text, @FILE, or - for standard input
    #[arg(long, value_name = "JSON")]
    input: Option<String>,
    /// Return as soon as the job runs
    #[arg(long, short)]
    detach: bool,
    #[command(flatten)]
    placement: PlacementArgs,
    /// Take the uncommitted changes of the checkout along, including untracked files; they are uncommitted in the
    /// workspace, too
    #[arg(long, conflicts_with_all = ["workspace", "queue", "on"])]
    include_changes: bool,
    #[command(flatten)]
    how: HowArgs,
    /// Command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// The options that say where a job runs.
#[derive(clap::Args)]
struct PlacementArgs {
    /// Queue the job for a worker, on any machine or on the one that --on names
    #[arg(long)]
    queue: bool,
    /// Machine that runs the job, as way machine list names it; implies --queue
    #[arg(long, value_name = "MACHINE")]
    on: Option<String>,
    /// Accept a machine that has not run a worker or a job in this store yet
    #[arg(long, requires = "on")]
    new_machine: bool,
}

/// The options that say how a job runs.
#[derive(clap::Args)]
pub(crate) struct HowArgs {
    /// Kind of workspace: clone, overlay, worktree, jj or copy; in-place runs in the checkout itself [default:
    /// configured, else chosen for the repository]
    #[arg(long, value_parser = parse_enum::<Strategy>)]
    strategy: Option<Strategy>,
    /// What to start from: plan (the work of the tasks that the task depends on), head, or a revision [default: as the
    /// task or its workflow says, else plan]
    #[arg(long, value_name = "BASE")]
    base: Option<String>,
    /// Branch to work on [default: waypost/ and the id]
    #[arg(long)]
    branch: Option<String>,
    /// Existing workspace of an earlier job to run in, as it is; with --base it is fast-forwarded first, which fails if it
    /// has diverged
    #[arg(long, value_name = "WORKSPACE", conflicts_with_all = ["strategy", "branch"])]
    workspace: Option<String>,
    /// Maximum run time, e.g. 1h
    #[arg(long, value_name = "SPAN", value_parser = parse_duration)]
    timeout: Option<u64>,
    /// Maximum size of the workspace
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    size_limit: Option<u64>,
    /// Remove the workspace after the job, unless work in it would be lost
    #[arg(long, conflicts_with = "keep")]
    cleanup: bool,
    /// Keep the workspace after the job
    #[arg(long)]
    keep: bool,
    /// Variable of your environment to pass to the job; may be given repeatedly
    #[arg(long, value_name = "NAME")]
    env: Vec<String>,
    /// Let the job use only its own files: on, off, landlock or bubblewrap. It can change its workspace and read
    /// programs; jobs.sandbox_read and jobs.sandbox_write name further paths [default: configured, else off]
    #[arg(long, value_name = "MODE", num_args = 0..=1, require_equals = true, default_missing_value = "on",
        value_parser = parse_enum::<SandboxMode>)]
    sandbox: Option<SandboxMode>,
    /// Give the job a network of its own, with nothing but a loopback interface
    #[arg(long)]
    no_network: bool,
    /// Maximum memory of the processes of the job together
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    memory_limit: Option<u64>,
    /// Maximum number of processes and threads of the job
    #[arg(long, value_name = "N")]
    process_limit: Option<u32>,
}

/// List jobs
#[derive(clap::Args)]
struct ListArgs {
    /// Only jobs with this status
    #[arg(long, value_parser = parse_enum::<JobStatus>)]
    status: Option<JobStatus>,
    /// Only jobs of this task
    #[arg(long)]
    task: Option<String>,
    /// Only jobs that have not ended
    #[arg(long)]
    live: bool,
    /// Maximum number of jobs
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: u32,
}

/// Show a job and its phases
#[derive(clap::Args)]
struct OneArgs {
    /// Id of the job, or a unique prefix
    job: String,
}

/// Show the log of a job
#[derive(clap::Args)]
struct LogsArgs {
    /// Id of the job, or a unique prefix
    job: String,
    /// Follow the log until the job ends
    #[arg(long, short)]
    follow: bool,
    /// Only the end of the log, at most this many bytes
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, conflicts_with = "follow")]
    tail: Option<u64>,
}

/// Wait until a job ends, and exit with its exit code
///
/// Prints the job on standard output once it has ended, and exits as way job start does. If nothing is printed there, the
/// exit code is that of way itself: 3 if there is no such job, 6 after --timeout.
#[derive(clap::Args)]
struct WaitArgs {
    /// Id of the job, or a unique prefix
    job: String,
    /// Maximum time to wait, e.g. 10m; then exits with 6 [default: no limit]
    #[arg(long, value_name = "SPAN", value_parser = parse_duration)]
    timeout: Option<u64>,
}

/// Cancel a job: kill its processes and pause its task
#[derive(clap::Args)]
struct CancelArgs {
    /// Id of the job, or a unique prefix
    job: String,
    /// Reason
    #[arg(long)]
    reason: Option<String>,
}

/// Run a job again, with the same options
#[derive(clap::Args)]
struct RetryArgs {
    /// Id of the job, or a unique prefix
    job: String,
    /// Run in the workspace of the earlier job
    #[arg(long)]
    same_workspace: bool,
    /// Return as soon as the job runs
    #[arg(long, short)]
    detach: bool,
}

/// Report the progress of a job, from within the job
#[derive(clap::Args)]
struct NoteArgs {
    /// Id of the job [default: WAYPOST_JOB]
    #[arg(long)]
    job: Option<String>,
    /// Current phase
    #[arg(long)]
    phase: Option<String>,
    /// Details of the phase
    #[arg(long)]
    detail: Option<String>,
    /// Output of the job
    #[arg(long)]
    output: Option<String>,
    /// Tokens used so far
    #[arg(long)]
    tokens: Option<u64>,
    /// Cost so far
    #[arg(long)]
    cost: Option<f64>,
}

/// Deliver the work of a job: commit, push its branch, and print where to open a pull request
///
/// Without a remote, brings the branch into the source repository. Once it is merged there, way ws gc may remove the
/// workspace.
#[derive(clap::Args)]
struct DeliverArgs {
    /// Id of the job, or a unique prefix
    job: String,
    #[command(flatten)]
    how: ws::DeliveryArgs,
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    if let Command::Confine(args) = &args.command {
        // Before anything of the place is read: the process has the environment of the job.
        let file = args.file.as_ref();
        return file.map_or_else(sandbox::enter, |file| sandbox::enter_for_tool(file, &args.tool)).map(ExitCode::from);
    }
    // The global option --repo names the repository of the job.
    let mut session = if matches!(args.command, Command::Start(_)) { cx.session_to_write()? } else { cx.session()? };
    if let Command::Supervise(args) = &args.command {
        let ended = jobs::supervise(&mut session, &args.job, serve_job)?;
        return Ok(ExitCode::from(jobs::exit_code(&ended.job)));
    }
    let session = &mut session;
    match &args.command {
        Command::Start(args) => start(cx, session, args),
        Command::List(args) => list(cx, session, args),
        Command::Show(args) => show(cx, session, args),
        Command::Logs(args) => logs(cx, session, args),
        Command::Wait(args) => wait(cx, session, args),
        Command::Cancel(args) => cancel(cx, session, args),
        Command::Retry(args) => retry(cx, session, args),
        Command::Note(args) => note(cx, session, args),
        Command::Deliver(args) => {
            let workspace = workspaces::find(session, &args.job)?.workspace;
            ws::deliver(cx, session, &workspace, &args.how)
        }
        Command::Supervise(_) | Command::Confine(_) => {
            Err(Error::internal("supervise and confine are handled before the other commands"))
        }
    }
}

impl HowArgs {
    pub(crate) fn strategy(&self) -> Option<Strategy> {
        self.strategy
    }

    /// Returns the settings of the job: the options, else the configuration.
    pub(crate) fn settings(&self, session: &Session) -> Settings {
        let defaults = jobs::default_settings(session);
        let cleanup = match (self.cleanup, self.keep) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            _ => defaults.cleanup,
        };
        Settings {
            strategy: self.strategy,
            base: self.base.clone(),
            branch: self.branch.clone(),
            workspace: self.workspace.clone(),
            timeout_ms: self.timeout.or(defaults.timeout_ms),
            size_limit: self.size_limit.or(defaults.size_limit),
            cleanup,
            sandbox: self.sandbox.or(defaults.sandbox),
            network: if self.no_network { Some(false) } else { defaults.network },
            memory_limit: self.memory_limit.or(defaults.memory_limit),
            process_limit: self.process_limit.or(defaults.process_limit),
            env: defaults.env.into_iter().chain(self.env.clone()).collect(),
            ..defaults
        }
    }
}

fn start(cx: &mut CommandContext, session: &mut Session, args: &StartArgs) -> Result<ExitCode> {
    let input = args.input.as_deref().map(|given| json_or_text("the input", given)).transpose()?;
    let is_queued = args.placement.queue || args.placement.on.is_some();
    let mut settings = args.how.settings(session);
    settings.launcher = (!is_queued).then(processes::own_identity);
    let repository = cx.global.repo.as_ref().map(|path| {
        let path = expand(path, &session.place.cwd, &session.place.variables)?;
        let repo = Repo::open(&path, &session.place.variables).map_err(|error| error.within(path.display()))?;
        let id = repo.checkout.ensure_repository_id(&mut SystemEntropy)?;
        session.call(waypost_core::op::AddRepository { repository: repo.as_known(id.clone()) })?;
        Ok(id)
    });
    let repository = repository.transpose()?;
    settings.include_changes = args.include_changes;
    if !args.include_changes && args.how.workspace.is_none() && repository.is_none() {
        let on = args.how.base.as_deref().or(args.task.as_ref().map(|_| "the base of its task"));
        if let Some(warning) = workspaces::uncommitted_warning(session, args.how.strategy, on)? {
            cx.ui.warn(&format!("{warning}; --include-changes takes them along"));
        }
    }
    let machine = if is_queued { args.placement.on.clone() } else { Some(workspaces::machine(session)?) };
    let job = jobs::create(
        session,
        Request {
            kind: args.kind.clone(),
            description: args.description.clone().unwrap_or_default(),
            input: input.unwrap_or(Value::Null),
            command: args.command.clone(),
            repository,
            task: args.task.clone(),
            workflow: args.workflow.clone(),
            epoch: args.epoch,
            next: false,
            next_worktree: None,
            next_repository: None,
            machine,
            new_machine: args.placement.new_machine,
            settings,
            retry_of: None,
        },
    )?;
    if is_queued {
        cx.ui.answer(&job, |text| text.line(format!("Queued job {}; it waits for a worker", job.job.id)))?;
        return Ok(ExitCode::SUCCESS);
    }
    launch(cx, session, &job, args.detach)
}

/// Starts a job. Unless detached, streams its log, waits until it ends and exits as it did.
fn launch(cx: &mut CommandContext, session: &mut Session, job: &JobView, detach: bool) -> Result<ExitCode> {
    let id = job.job.id.to_string();
    if detach {
        jobs::launch(session, job)?;
        let started = jobs::wait_until_started(session, &job.job.id)?;
        cx.ui.answer(&started, |text| {
            let dir = started.job.workspace_dir.as_ref().unwrap_or(&started.job.work_dir);
            text.line(format!("Started job {id} in {}", dir.display()));
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    cx.ui.note(&format!("job {id}"));
    match jobs::launch(session, job).and_then(|_| follow(cx, session, job)) {
        Ok(code) => Ok(ExitCode::from(code)),
        // The codes of errors are also codes of commands, so an error here has one of its own.
        Err(error) => {
            let hint = format!("the job may still run: way job show {id}");
            cx.ui.error(&error.hint(hint), None);
            Ok(ExitCode::from(jobs::NOT_THE_COMMANDS))
        }
    }
}

/// Streams the log of a job until it ends, and returns its exit code.
fn follow(cx: &mut CommandContext, session: &mut Session, job: &JobView) -> Result<u8> {
    let id = job.job.id.to_string();
    let shutdown = ShutdownSignal::listen()?;
    let log = Log::Local(jobs::log_path(session, &job.job.id)?);
    let mut at = 0;
    let mut is_cancelled = false;
    let mut busy = Some(cx.ui.busy("Preparing the workspace"));
    let ended = loop {
        let now = wait_for(session, Some(200), |session| {
            let now = jobs::show(session, &id)?;
            busy.take_if(|_| now.job.started_at.is_some());
            Ok(Some(now).filter(|now| now.job.status.is_final()))
        })?;
        if !cx.ui.json {
            at = log.print(session, &id, at)?;
        }
        if let Some(now) = now {
            break now;
        }
        if !is_cancelled && shutdown.count() > 0 {
            is_cancelled = true;
            cx.ui.note("cancelling the job");
            let reason = Some("interrupted from the terminal".to_owned());
            match session.call(CancelJob { job: id.clone(), reason }) {
                Err(error) if error.kind() != waypost_core::Kind::Conflict => return Err(error),
                _ => {}
            }
        }
    };
    if !cx.ui.json {
        log.print(session, &id, at)?;
    }
    wait_for_supervisor(session, &id)?;
    let ended = jobs::show(session, ended.job.id.as_str())?;
    for warning in &ended.job.warnings {
        cx.ui.warn(warning);
    }
    if cx.ui.json {
        cx.ui.answer(&ended, |_| {})?;
    } else if ended.job.status != JobStatus::Completed {
        cx.ui.warn(&describe_failure(&ended));
    }
    Ok(jobs::exit_code(&ended.job))
}

/// Waits until the supervisor of an ended job has cleaned up.
fn wait_for_supervisor(session: &mut Session, id: &str) -> Result<()> {
    let job = jobs::show(session, id)?;
    let Some(supervisor) = job.job.supervisor else { return Ok(()) };
    wait_for(session, Some(60_000), |_| Ok((!processes::is_running(&supervisor)).then_some(())))?;
    Ok(())
}

/// Describes how an unsuccessful job ended.
fn describe_failure(job: &JobView) -> String {
    let why = job.job.error.as_ref().map_or_else(String::new, |error| format!(": {error}"));
    format!("job {} is {}{why}", job.job.id, job.job.status)
}

fn list(cx: &mut CommandContext, session: &mut Session, args: &ListArgs) -> Result<ExitCode> {
    let operation = ListJobs {
        status: args.status,
        live: args.live,
        task: args.task.clone(),
        worktree_id: cx.worktree_filter(session)?,
        repository: cx.repository_filter(session)?,
        limit: Some(args.limit),
        after: None,
    };
    let jobs = session.call(operation)?.jobs;
    let now = session.now()?;
    cx.ui.answer(&jobs, |text| {
        if !jobs.is_empty() {
            let places = PlaceColumns::of(session, &jobs);
            text.table(&table_of(&jobs, now, places));
        }
    })?;
    if jobs.is_empty() {
        let is_filtered = args.status.is_some() || args.live || args.task.is_some() || cx.has_place_filter();
        let none = if is_filtered { "no matching jobs" } else { "no jobs yet" };
        cx.ui.note(&format!("{none}; to start one: way job start -- COMMAND"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the table of jobs.
fn table_of(jobs: &[JobView], now: Timestamp, places: PlaceColumns) -> Vec<Vec<Cell>> {
    let titles = header(["ID", "STATUS", "TYPE", "TASK", "AGENT", "AGE"]);
    let titles = titles.into_iter().chain(places.titles()).chain([styled(DIM, "COMMAND")]).collect();
    let rows = jobs.iter().map(|view| {
        let job = &view.job;
        let dash = || "-".to_owned();
        let status = match gone(view) {
            Some(_) => format!("{}, workspace gone", job.status),
            None => job.status.to_string(),
        };
        let cells = [
            cell(&job.id),
            styled(style(job.status), status),
            cell(&job.kind),
            cell(view.task.clone().unwrap_or_else(dash)),
            cell(view.agent.clone().unwrap_or_else(dash)),
            styled(DIM, job.created_at.ago(now)),
        ];
        cells.into_iter().chain(places.cells(view)).chain([prose(job.command.join(" "))]).collect()
    });
    std::iter::once(titles).chain(rows).collect()
}

/// Describes why the directory of a job's workspace is gone, if it is.
fn gone(view: &JobView) -> Option<&'static str> {
    match view.workspace_status? {
        WorkspaceStatus::Creating | WorkspaceStatus::Active | WorkspaceStatus::Kept => None,
        WorkspaceStatus::Snapshotted => Some("removed, its work is saved in a snapshot"),
        WorkspaceStatus::Removed => Some("removed"),
        WorkspaceStatus::Lost => Some("lost, its directory is missing"),
    }
}

fn style(status: JobStatus) -> Style {
    match status {
        JobStatus::Running | JobStatus::Completed => GOOD,
        JobStatus::Failed => BAD,
        JobStatus::Pending | JobStatus::Cancelled | JobStatus::Interrupted => WARN,
    }
}

/// Adds a note in parentheses.
fn with_note(text: String, note: Option<&str>) -> String {
    match note {
        Some(note) => format!("{text} ({note})"),
        None => text,
    }
}

fn show(cx: &mut CommandContext, session: &mut Session, args: &OneArgs) -> Result<ExitCode> {
    let view = session.call(ShowJob { job: args.job.clone() })?;
    let now = session.now()?;
    cx.ui.answer(&view, |text| {
        let job = &view.job;
        let field = |label: &str, value: Cell| vec![styled(BOLD, label), value];
        let mut rows = vec![
            field("job", cell(&job.id)),
            field("status", styled(style(job.status), job.status)),
            field("type", cell(&job.kind)),
            field("command", cell(job.command.join(" "))),
            field("repository", cell(&view.repository)),
            field("created", cell(job.created_at.ago(now))),
        ];
        let path = |path: &Option<std::path::PathBuf>| path.as_ref().map(|path| path.display().to_string());
        let ran = job.started_at.map(|started| format_duration(job.finished_at.unwrap_or(now).since(started)));
        let further = [
            ("description", Some(job.description.clone()).filter(|text| !text.is_empty())),
            ("task", view.task.clone()),
            ("agent", view.agent.clone()),
            ("machine", job.machine.clone()),
            ("ran for", ran),
            ("exit code", job.exit_code.map(|code| code.to_string())),
            ("error", job.error.clone()),
            ("worktree", describe_worktree(&view)),
            ("workspace", job.workspace_id.as_ref().map(|id| with_note(id.to_string(), gone(&view)))),
            ("started from", job.started_from.clone()),
            ("result", job.result.clone()),
            ("directory", path(&job.workspace_dir).map(|path| with_note(path, gone(&view).map(|_| "gone")))),
            ("context", path(&job.context_dir)),
            ("log", path(&job.log)),
            ("tokens", job.tokens.map(|tokens| tokens.to_string())),
            ("cost", job.cost.map(|cost| cost.to_string())),
            ("retry of", job.retry_of.as_ref().map(ToString::to_string)),
            ("output", job.output.as_ref().and_then(|output| output.lines().last().map(str::to_owned))),
        ];
        rows.extend(further.into_iter().filter_map(|(label, value)| Some(field(label, cell(value?)))));
        rows.extend(job.warnings.iter().map(|warning| field("warning", styled(WARN, warning))));
        for phase in &job.phases {
            let detail = phase.detail.as_ref().map_or_else(String::new, |detail| format!(": {detail}"));
            rows.push(field("phase", cell(format!("{}{detail}, {}", phase.name, phase.at.ago(now)))));
        }
        text.table(&rows);
    })?;
    Ok(ExitCode::SUCCESS)
}

fn logs(cx: &mut CommandContext, session: &mut Session, args: &LogsArgs) -> Result<ExitCode> {
    let (id, log) = Log::of(session, &args.job)?;
    if cx.ui.json {
        let bytes = log.tail(session, &id, args.tail)?;
        let data = json!({ "job": id, "log": String::from_utf8_lossy(&bytes) });
        cx.ui.answer(&data, |_| {})?;
        return Ok(ExitCode::SUCCESS);
    }
    if !args.follow {
        ui::print_document(&log.tail(session, &id, args.tail)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut at = 0;
    loop {
        let now = wait_for(session, Some(200), |session| {
            Ok(Some(jobs::show(session, &id)?).filter(|now| now.job.status.is_final()))
        })?;
        at = log.print(session, &id, at)?;
        if now.is_some() || ui::is_closed() {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

/// The log of a job.
pub(crate) enum Log {
    /// A file of this machine.
    Local(PathBuf),
    /// The end of it, which the store has.
    Stored,
    /// A file that the server reads.
    Remote,
}

impl Log {
    /// Returns the id of a job, and where its log is.
    pub(crate) fn of(session: &mut Session, job: &str) -> Result<(String, Log)> {
        match jobs::job_and_log(session, job) {
            Ok((job, LogPlace::File(file))) => Ok((job.id.to_string(), Log::Local(file))),
            Ok((job, LogPlace::Store)) => Ok((job.id.to_string(), Log::Stored)),
            // The job may run on the server's machine.
            Err(error) if error.kind() == waypost_core::Kind::NotFound && session.is_served() => {
                Ok((jobs::show(session, job)?.job.id.to_string(), Log::Remote))
            }
            Err(error) => Err(error),
        }
    }

    /// Prints the log from an offset on, and returns the offset of its end.
    fn print(&self, session: &mut Session, job: &str, mut at: u64) -> Result<u64> {
        loop {
            let (part, next) = self.read_from(session, job, at)?;
            if next == at {
                return Ok(at);
            }
            ui::print_document(&part)?;
            at = next;
        }
    }

    /// Returns the last `max` bytes of the log, or all of it.
    fn tail(&self, session: &mut Session, job: &str, max: Option<u64>) -> Result<Vec<u8>> {
        match (self, max) {
            (Log::Local(file), max) => Ok(jobs::tail(file, max.unwrap_or(u64::MAX))),
            (Log::Stored, Some(max)) => Ok(jobs::read_stored(session, job, None, max)?.text.into_bytes()),
            (Log::Remote, Some(max)) => fetch_log(session, &json!({ "job": job, "tail": max })).map(|(end, _)| end),
            (Log::Remote | Log::Stored, None) => {
                let (mut all, mut at) = (Vec::new(), 0);
                loop {
                    let (part, next) = self.read_from(session, job, at)?;
                    if next == at {
                        return Ok(all);
                    }
                    all.extend(part);
                    at = next;
                }
            }
        }
    }

    /// Reads a part of the log from an offset on, and returns the offset of the next part.
    pub(crate) fn read_from(&self, session: &mut Session, job: &str, at: u64) -> Result<(Vec<u8>, u64)> {
        match self {
            Log::Local(file) => {
                let part: Part = job_log::read_from(file, at, 1 << 20);
                let next = part.next();
                Ok((part.bytes, next))
            }
            Log::Stored => {
                let part = jobs::read_stored(session, job, Some(at), 1 << 20)?;
                let next = part.from + part.text.len() as u64;
                // Without new output, the position stays.
                Ok(if part.text.is_empty() { (Vec::new(), at) } else { (part.text.into_bytes(), next) })
            }
            Log::Remote => fetch_log(session, &json!({ "job": job, "from": at })),
        }
    }
}

/// Fetches a part of a job's log from the server, and the offset of the next part.
fn fetch_log(session: &mut Session, request: &Value) -> Result<(Vec<u8>, u64)> {
    let part = session.ask_server(ShowLog::NAME, request)?;
    let log = part["log"].as_str().unwrap_or_default().as_bytes().to_vec();
    Ok((log, part["next"].as_u64().unwrap_or_default()))
}

fn wait(cx: &mut CommandContext, session: &mut Session, args: &WaitArgs) -> Result<ExitCode> {
    let ended = wait_for(session, args.timeout, |session| {
        Ok(Some(jobs::show(session, &args.job)?).filter(|now| now.job.status.is_final()))
    })?;
    let Some(ended) = ended else {
        return Err(Error::new(waypost_core::Kind::NothingToDo, format!("job {} is still running", args.job)));
    };
    if ended.job.status != JobStatus::Completed {
        cx.ui.warn(&describe_failure(&ended));
    }
    cx.ui.answer(&ended, |text| text.line(format!("Job {} is {}", ended.job.id, ended.job.status)))?;
    Ok(ExitCode::from(jobs::exit_code(&ended.job)))
}

fn cancel(cx: &mut CommandContext, session: &mut Session, args: &CancelArgs) -> Result<ExitCode> {
    let cancelled = session.call(CancelJob { job: args.job.clone(), reason: args.reason.clone() })?;
    let id = cancelled.job.id.to_string();
    // A local job has ended when this command returns; the supervisor on another machine ends the job later.
    let machine = workspaces::machine(session)?;
    let is_here = cancelled.job.machine.as_ref() == Some(&machine);
    let ended = if is_here {
        wait_for(session, Some(60_000), |session| {
            Ok(Some(jobs::show(session, &id)?).filter(|now| now.job.status.is_final()))
        })?
    } else {
        None
    };
    let now = ended.unwrap_or(cancelled);
    cx.ui.answer(&now, |text| {
        let is_final = now.job.status.is_final();
        text.line(if is_final {
            format!("Job {id} is {}", now.job.status)
        } else {
            format!("Requested cancellation of job {id}")
        });
    })?;
    Ok(ExitCode::SUCCESS)
}

fn retry(cx: &mut CommandContext, session: &mut Session, args: &RetryArgs) -> Result<ExitCode> {
    let before = jobs::show(session, &args.job)?.job;
    if !before.status.is_final() {
        return Err(Error::conflict(format!("job {} is {}", before.id, before.status))
            .hint(format!("wait until it ends, or cancel it: way job cancel {}", before.id)));
    }
    let mut settings = jobs::settings(&before)?;
    settings.launcher = Some(processes::own_identity());
    if args.same_workspace {
        let workspace = before.workspace_id.as_ref().ok_or_else(|| {
            Error::not_found(format!("job {} has no workspace", before.id)).hint("omit --same-workspace")
        })?;
        settings.workspace = Some(workspace.to_string());
    }
    let machine = Some(workspaces::machine(session)?);
    let job = jobs::create(
        session,
        Request {
            kind: before.kind,
            description: before.description,
            input: before.input,
            command: before.command,
            repository: Some(before.repository_id),
            task: before.task_id.map(|id| id.to_string()),
            workflow: None,
            epoch: None,
            next: false,
            next_worktree: None,
            next_repository: None,
            machine,
            new_machine: true,
            settings,
            retry_of: Some(before.id),
        },
    )?;
    launch(cx, session, &job, args.detach)
}

fn note(cx: &mut CommandContext, session: &mut Session, args: &NoteArgs) -> Result<ExitCode> {
    let job = args.job.clone().or_else(|| cx.variables.text(WAYPOST_JOB));
    let job = job.ok_or_else(|| Error::invalid("no job given").hint("use --job JOB, or set WAYPOST_JOB"))?;
    let NoteArgs { phase, detail, output, tokens, cost, .. } = args;
    let operation = UpdateJob {
        job,
        phase: phase.clone(),
        detail: detail.clone(),
        output: output.clone(),
        warning: None,
        tokens: *tokens,
        cost: *cost,
    };
    let noted = session.call(operation)?;
    cx.ui.answer(&noted, |text| text.line(format!("Updated job {}", noted.job.id)))?;
    Ok(ExitCode::SUCCESS)
}
