//! `way job`

use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::{Value, json};
use waypost_core::model::{JobStatus, Strategy};
use waypost_core::op::{JobView, ListJobs, NoteJob};
use waypost_core::time::Timestamp;
use waypost_core::{Error, Result};
use waypost_workspace::job_log::{self, Part};
use waypost_workspace::jobs as processes;

use super::ws::{self, amount};
use crate::CommandContext;
use crate::spans::{format_coarse_duration, parse_duration};
use crate::ui::{self, BAD, BOLD, Cell, DIM, GOOD, Style, WARN, cell, styled};
use crate::work::{json_or_text, parse_enum, wait_for};
use waypost::environment::WAYPOST_JOB;
use waypost::jobs::{self, Request, Settings};
use waypost::place::expand;
use waypost::repos::Repo;
use waypost::session::Session;
use waypost::signals::ShutdownSignal;
use waypost::system::SystemEntropy;
use waypost::workspaces;

/// Run commands in workspaces of their own, and see how they went
///
/// Every job gets an isolated directory before it starts, a supervisor that outlives the terminal it was started from, a
/// log, and a record that stays. A job with a task holds its lease, and fails if its command ends without having finished
/// the task.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way job start -- make test                       in its own workspace; streams the log, ends as the job does
  way job start --task build --agent me -- ./agent.sh
  way job start --detach --timeout 1h -- claude -p 'fix the tests'
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
}

/// Run a command in a workspace of its own
///
/// It sees WAYPOST_JOB, WAYPOST_TASK, WAYPOST_EPOCH, WAYPOST_AGENT, WAYPOST_WORKSPACE, WAYPOST_CONTEXT_DIR, WAYPOST_DB and
/// WAYPOST_TOKEN, and of your environment only what every program needs and what jobs.env or --env name. Interrupting this
/// command cancels the job.
#[derive(clap::Args)]
pub(crate) struct StartArgs {
    /// The task to work on; it is claimed for you
    #[arg(long)]
    task: Option<String>,
    /// The workflow it is in, if its name alone does not say
    #[arg(long, requires = "task")]
    workflow: Option<String>,
    /// The epoch of your lease on the task, if you hold it already
    #[arg(long, requires = "task", value_name = "N")]
    epoch: Option<u64>,
    /// What kind of work it is: builder, debugger, reviewer, anything
    #[arg(long = "type", value_name = "TYPE", default_value = "agent")]
    kind: String,
    /// What it is for
    #[arg(long)]
    description: Option<String>,
    /// What it is given: JSON or text, @FILE, or - for standard input; it finds it in its context directory
    #[arg(long, value_name = "JSON")]
    input: Option<String>,
    /// Return as soon as it runs
    #[arg(long, short)]
    detach: bool,
    /// Let a worker run it: on any machine, or on the one that --on names
    #[arg(long)]
    queue: bool,
    /// The machine that is to run it; implies --queue
    #[arg(long, value_name = "MACHINE")]
    on: Option<String>,
    #[command(flatten)]
    how: HowArgs,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// How jobs are run.
#[derive(clap::Args)]
pub(crate) struct HowArgs {
    /// How its workspace is made: clone, overlay, worktree, jj or copy; in-place works in the checkout itself [default: as
    /// configured, else as suits the repository]
    #[arg(long, value_parser = parse_enum::<Strategy>)]
    strategy: Option<Strategy>,
    #[command(flatten)]
    start: ws::StartingPoint,
    /// Work in this workspace, which another job left
    #[arg(long, value_name = "WORKSPACE", conflicts_with_all = ["strategy", "base", "branch"])]
    workspace: Option<String>,
    /// How long it may run
    #[arg(long, value_name = "SPAN", value_parser = parse_duration)]
    timeout: Option<u64>,
    /// How large its workspace may become
    #[arg(long, value_name = "BYTES", value_parser = amount)]
    size_limit: Option<u64>,
    /// Remove the workspace when the job has ended, unless work in it would be lost
    #[arg(long, conflicts_with = "keep")]
    cleanup: bool,
    /// Keep the workspace when the job has ended
    #[arg(long)]
    keep: bool,
    /// Let the job see this variable of your environment, too
    #[arg(long, value_name = "NAME")]
    env: Vec<String>,
}

/// List jobs
#[derive(clap::Args)]
struct ListArgs {
    /// Only those in this status
    #[arg(long, value_parser = parse_enum::<JobStatus>)]
    status: Option<JobStatus>,
    /// Only those of this task
    #[arg(long)]
    task: Option<String>,
    /// Only those that have not ended
    #[arg(long)]
    live: bool,
    /// At most this many
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: u32,
}

/// Show a job with all it went through
#[derive(clap::Args)]
struct OneArgs {
    /// Its id, or the beginning of it
    job: String,
}

/// Show what a job printed
#[derive(clap::Args)]
struct LogsArgs {
    /// Its id, or the beginning of it
    job: String,
    /// Go on until it has ended
    #[arg(long, short)]
    follow: bool,
    /// Only the last part, at most so much
    #[arg(long, value_name = "BYTES", value_parser = amount, conflicts_with = "follow")]
    tail: Option<u64>,
}

/// Wait until a job has ended; ends as the job did
#[derive(clap::Args)]
struct WaitArgs {
    /// Its id, or the beginning of it
    job: String,
    /// How long at most; then it ends with 6
    #[arg(long, value_name = "SPAN", value_parser = parse_duration)]
    timeout: Option<u64>,
}

/// Call a job off: all of its processes are ended, and its task is set aside
#[derive(clap::Args)]
struct CancelArgs {
    /// Its id, or the beginning of it
    job: String,
    /// Why
    #[arg(long)]
    reason: Option<String>,
}

/// Run a job again, as it was asked for
#[derive(clap::Args)]
struct RetryArgs {
    /// Its id, or the beginning of it
    job: String,
    /// Go on in the workspace that it left
    #[arg(long)]
    same_workspace: bool,
    /// Return as soon as it runs
    #[arg(long, short)]
    detach: bool,
}

/// Say how far a job is: for the command of the job itself
#[derive(clap::Args)]
struct NoteArgs {
    /// The job [default: WAYPOST_JOB]
    #[arg(long)]
    job: Option<String>,
    /// What it does now
    #[arg(long)]
    phase: Option<String>,
    /// More about it
    #[arg(long)]
    detail: Option<String>,
    /// What came out
    #[arg(long)]
    output: Option<String>,
    /// Tokens used so far
    #[arg(long)]
    tokens: Option<u64>,
    /// Money spent so far
    #[arg(long)]
    cost: Option<f64>,
}

/// Deliver what a job did: commit, push its branch to the real remote, and say where to open a pull request
#[derive(clap::Args)]
struct DeliverArgs {
    /// Its id, or the beginning of it
    job: String,
    #[command(flatten)]
    how: ws::DeliveryArgs,
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    // Which repository a job works on is said with the flag that says which issues are meant.
    let mut session = cx.work()?;
    if let Command::Supervise(args) = &args.command {
        let ended = jobs::supervise(&mut session, &args.job)?;
        return Ok(ExitCode::from(jobs::exit_code(&ended.job)));
    }
    jobs::reap_orphaned_jobs(&mut session)?;
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
        Command::Supervise(_) => Err(Error::internal("a job is supervised before anything else")),
    }
}

impl HowArgs {
    /// Returns how a job is run: as said, else as configured.
    pub(crate) fn settings(&self, session: &Session) -> Settings {
        let usual = jobs::default_settings(session);
        let cleanup = match (self.cleanup, self.keep) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            _ => usual.cleanup,
        };
        Settings {
            strategy: self.strategy,
            base: self.start.base.clone(),
            branch: self.start.branch.clone(),
            workspace: self.workspace.clone(),
            timeout_ms: self.timeout.or(usual.timeout_ms),
            size_limit: self.size_limit.or(usual.size_limit),
            cleanup,
            env: usual.env.into_iter().chain(self.env.clone()).collect(),
            ..usual
        }
    }
}

fn start(cx: &mut CommandContext, session: &mut Session, args: &StartArgs) -> Result<ExitCode> {
    let input = args.input.as_deref().map(|given| json_or_text("the input", given)).transpose()?;
    let is_queued = args.queue || args.on.is_some();
    let mut settings = args.how.settings(session);
    settings.launcher = (!is_queued).then(processes::own_identity);
    let repository = cx.global.repo.as_ref().map(|path| {
        let path = expand(path, &session.place.cwd, &session.place.variables)?;
        let repo = Repo::open(&path, &session.place.variables).map_err(|error| error.within(path.display()))?;
        let id = waypost_workspace::ensure_repository_id(&repo.checkout.private_dir, &mut SystemEntropy)?;
        session.write(waypost_core::op::AddRepository { repository: repo.as_known(id.clone()) })?;
        Ok(id)
    });
    let repository = repository.transpose()?;
    let machine = if is_queued { args.on.clone() } else { Some(workspaces::machine(session)?) };
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
            repositories: Vec::new(),
            machine,
            settings,
            retry_of: None,
        },
    )?;
    if is_queued {
        cx.ui.answer(&job, |text| text.line(format!("Job {} waits for a worker", job.job.id)))?;
        return Ok(ExitCode::SUCCESS);
    }
    launch(cx, session, &job, args.detach)
}

/// Starts a job, and stays with it unless that is not wanted.
fn launch(cx: &mut CommandContext, session: &mut Session, job: &JobView, detach: bool) -> Result<ExitCode> {
    jobs::launch(session, job)?;
    let id = job.job.id.to_string();
    if detach {
        let begun = jobs::wait_until_started(session, &job.job.id)?;
        cx.ui.answer(&begun, |text| {
            let place = begun.job.workspace_dir.as_ref().unwrap_or(&begun.job.work_dir);
            text.line(format!("Started job {id} in {}", place.display()));
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    cx.ui.note(&format!("job {id}"));
    let shutdown = ShutdownSignal::listen()?;
    let log = Log::Here(jobs::log_path(session, &job.job.id)?);
    let mut at = 0;
    let mut is_cancelled = false;
    let ended = loop {
        let now = wait_for(session, Some(200), |session| {
            let now = jobs::show(session, &id)?;
            Ok(Some(now).filter(|now| now.job.status.is_final()))
        })?;
        if !cx.ui.json {
            at = log.print(session, &id, at)?;
        }
        if let Some(now) = now {
            break now;
        }
        jobs::reap_orphaned_jobs(session)?;
        if !is_cancelled && shutdown.count() > 0 {
            is_cancelled = true;
            cx.ui.note("cancelling the job");
            match jobs::cancel(session, &id, Some("its terminal was interrupted".to_owned())) {
                Err(error) if error.kind() != waypost_core::Kind::Conflict => return Err(error),
                _ => {}
            }
        }
    };
    if !cx.ui.json {
        log.print(session, &id, at)?;
    }
    settle_for(session, &id)?;
    let ended = jobs::show(session, ended.job.id.as_str())?;
    for warning in &ended.job.warnings {
        cx.ui.warn(warning);
    }
    if cx.ui.json {
        cx.ui.answer(&ended, |_| {})?;
    } else if ended.job.status != JobStatus::Completed {
        cx.ui.warn(&ending(&ended));
    }
    Ok(ExitCode::from(jobs::exit_code(&ended.job)))
}

/// Waits until the supervisor of a job that has ended has tidied up.
fn settle_for(session: &mut Session, id: &str) -> Result<()> {
    let job = jobs::show(session, id)?;
    let Some(supervisor) = job.job.supervisor else { return Ok(()) };
    wait_for(session, Some(60_000), |_| Ok((!processes::is_running(&supervisor)).then_some(())))?;
    Ok(())
}

/// Says how a job ended that did not end well.
fn ending(job: &JobView) -> String {
    let why = job.job.error.as_ref().map_or_else(String::new, |error| format!(": {error}"));
    format!("job {} is {}{why}", job.job.id, job.job.status)
}

fn list(cx: &mut CommandContext, session: &mut Session, args: &ListArgs) -> Result<ExitCode> {
    let operation = ListJobs { status: args.status, live: args.live, task: args.task.clone(), limit: Some(args.limit) };
    let jobs = session.read(operation)?.jobs;
    let now = session.now()?;
    cx.ui.answer(&jobs, |text| {
        if !jobs.is_empty() {
            text.fitted_table(table_of(&jobs, now), 6);
        }
    })?;
    if jobs.is_empty() {
        cx.ui.note("there are no such jobs; way job start -- COMMAND starts one");
    }
    Ok(ExitCode::SUCCESS)
}

/// The table of jobs, as `status` shows it too.
pub(crate) fn table_of(jobs: &[JobView], now: Timestamp) -> Vec<Vec<Cell>> {
    let titles = ["ID", "STATUS", "TYPE", "TASK", "AGENT", "AGE", "COMMAND"];
    let rows = jobs.iter().map(|view| {
        let job = &view.job;
        let dash = || "-".to_owned();
        vec![
            cell(&job.id),
            styled(style(job.status), job.status),
            cell(&job.kind),
            cell(view.task.clone().unwrap_or_else(dash)),
            cell(view.agent.clone().unwrap_or_else(dash)),
            styled(DIM, job.created_at.ago(now)),
            cell(job.command.join(" ")),
        ]
    });
    std::iter::once(Vec::from(titles.map(|title| styled(DIM, title)))).chain(rows).collect()
}

fn style(status: JobStatus) -> Style {
    match status {
        JobStatus::Running | JobStatus::Completed => GOOD,
        JobStatus::Failed => BAD,
        JobStatus::Pending | JobStatus::Cancelled | JobStatus::Interrupted => WARN,
    }
}

fn show(cx: &mut CommandContext, session: &mut Session, args: &OneArgs) -> Result<ExitCode> {
    let view = jobs::show(session, &args.job)?;
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
        let ran = job.started_at.map(|started| format_coarse_duration(job.finished_at.unwrap_or(now).since(started)));
        let further = [
            ("about", Some(job.description.clone()).filter(|text| !text.is_empty())),
            ("task", view.task.clone()),
            ("agent", view.agent.clone()),
            ("machine", job.machine.clone()),
            ("ran for", ran),
            ("exit code", job.exit_code.map(|code| code.to_string())),
            ("error", job.error.clone()),
            ("workspace", job.workspace_id.as_ref().map(ToString::to_string)),
            ("works in", path(&job.workspace_dir)),
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
    let (id, log) = match jobs::job_and_log(session, &args.job) {
        Ok((job, log)) => (job.id.to_string(), Log::Here(log)),
        // Where it runs may be where the server does.
        Err(error) if error.kind() == waypost_core::Kind::NotFound && session.is_served() => {
            (jobs::show(session, &args.job)?.job.id.to_string(), Log::There)
        }
        Err(error) => return Err(error),
    };
    if cx.ui.json {
        let printed = log.end(session, &id, args.tail)?;
        let data = json!({ "job": id, "log": String::from_utf8_lossy(&printed) });
        cx.ui.answer(&data, |_| {})?;
        return Ok(ExitCode::SUCCESS);
    }
    if !args.follow {
        ui::print_document(&log.end(session, &id, args.tail)?)?;
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
        jobs::reap_orphaned_jobs(session)?;
    }
}

/// Where what a job printed is kept.
enum Log {
    /// In this file.
    Here(PathBuf),
    /// With the server.
    There,
}

impl Log {
    /// Prints what was printed from a byte on, and returns where to go on.
    fn print(&self, session: &mut Session, job: &str, mut at: u64) -> Result<u64> {
        loop {
            let (part, next) = self.read_on(session, job, at)?;
            if next == at {
                return Ok(at);
            }
            ui::print_document(&part)?;
            at = next;
        }
    }

    /// Returns the end of it, or all.
    fn end(&self, session: &mut Session, job: &str, most: Option<u64>) -> Result<Vec<u8>> {
        match (self, most) {
            (Log::Here(file), most) => Ok(jobs::tail(file, most.unwrap_or(u64::MAX))),
            (Log::There, Some(most)) => fetch_log(session, &json!({ "job": job, "tail": most })).map(|(end, _)| end),
            (Log::There, None) => {
                let (mut all, mut at) = (Vec::new(), 0);
                loop {
                    let (part, next) = self.read_on(session, job, at)?;
                    if next == at {
                        return Ok(all);
                    }
                    all.extend(part);
                    at = next;
                }
            }
        }
    }

    /// Reads a part from a byte on, and returns where the next one begins.
    fn read_on(&self, session: &mut Session, job: &str, at: u64) -> Result<(Vec<u8>, u64)> {
        match self {
            Log::Here(file) => {
                let part: Part = job_log::read_from(file, at, 1 << 20);
                let next = part.next();
                Ok((part.bytes, next))
            }
            Log::There => fetch_log(session, &json!({ "job": job, "from": at })),
        }
    }
}

/// Asks the server what a job printed.
fn fetch_log(session: &mut Session, wanted: &Value) -> Result<(Vec<u8>, u64)> {
    let part = session.ask_server("get_log", wanted)?;
    let log = part["log"].as_str().unwrap_or_default().as_bytes().to_vec();
    Ok((log, part["next"].as_u64().unwrap_or_default()))
}

fn wait(cx: &mut CommandContext, session: &mut Session, args: &WaitArgs) -> Result<ExitCode> {
    let ended = wait_for(session, args.timeout, |session| {
        jobs::reap_orphaned_jobs(session)?;
        Ok(Some(jobs::show(session, &args.job)?).filter(|now| now.job.status.is_final()))
    })?;
    let Some(ended) = ended else {
        return Err(Error::new(waypost_core::Kind::NothingToDo, format!("job {} still runs", args.job)));
    };
    if ended.job.status != JobStatus::Completed {
        cx.ui.warn(&ending(&ended));
    }
    cx.ui.answer(&ended, |text| text.line(format!("Job {} is {}", ended.job.id, ended.job.status)))?;
    Ok(ExitCode::from(jobs::exit_code(&ended.job)))
}

fn cancel(cx: &mut CommandContext, session: &mut Session, args: &CancelArgs) -> Result<ExitCode> {
    let cancelled = jobs::cancel(session, &args.job, args.reason.clone())?;
    let id = cancelled.job.id.to_string();
    // On this machine it is over when this returns; elsewhere its supervisor was shutdown.
    let machine = workspaces::machine(session)?;
    let is_here = cancelled.job.machine.as_ref() == Some(&machine);
    let ended = if is_here {
        wait_for(session, Some(60_000), |session| {
            jobs::reap_orphaned_jobs(session)?;
            Ok(Some(jobs::show(session, &id)?).filter(|now| now.job.status.is_final()))
        })?
    } else {
        None
    };
    let now = ended.unwrap_or(cancelled);
    cx.ui.answer(&now, |text| {
        let is_over = now.job.status.is_final();
        text.line(if is_over {
            format!("Job {id} is {}", now.job.status)
        } else {
            format!("Job {id} was told to end")
        });
    })?;
    Ok(ExitCode::SUCCESS)
}

fn retry(cx: &mut CommandContext, session: &mut Session, args: &RetryArgs) -> Result<ExitCode> {
    let before = jobs::show(session, &args.job)?.job;
    if !before.status.is_final() {
        return Err(
            Error::conflict(format!("job {} is {}", before.id, before.status)).hint("way job cancel ends it first")
        );
    }
    let mut settings = jobs::settings(&before)?;
    settings.launcher = Some(processes::own_identity());
    if args.same_workspace {
        let known = before.workspace_id.as_ref().ok_or_else(|| {
            Error::not_found(format!("job {} had no workspace", before.id)).hint("leave out --same-workspace")
        })?;
        settings.workspace = Some(known.to_string());
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
            repositories: Vec::new(),
            machine,
            settings,
            retry_of: Some(before.id),
        },
    )?;
    launch(cx, session, &job, args.detach)
}

fn note(cx: &mut CommandContext, session: &mut Session, args: &NoteArgs) -> Result<ExitCode> {
    let job = args.job.clone().or_else(|| cx.variables.text(WAYPOST_JOB));
    let job = job.ok_or_else(|| Error::invalid("which job?").hint("--job JOB, or WAYPOST_JOB in the environment"))?;
    let NoteArgs { phase, detail, output, tokens, cost, .. } = args;
    let operation = NoteJob {
        job,
        phase: phase.clone(),
        detail: detail.clone(),
        output: output.clone(),
        warning: None,
        tokens: *tokens,
        cost: *cost,
    };
    let noted = session.write(operation)?;
    cx.ui.answer(&noted, |text| text.line(format!("Noted for job {}", noted.job.id)))?;
    Ok(ExitCode::SUCCESS)
}
