//! Starts jobs, anew or again.

use std::process::ExitCode;

use serde_json::Value;
use waypost_core::{Error, Result};
use waypost_workspace::jobs as processes;

use super::follow::launch;
use super::options::HowArgs;
use crate::CommandContext;
use crate::work::json_or_text;
use waypost::app::session::Session;
use waypost::issues::Repo;
use waypost::machine::SystemEntropy;
use waypost::machine::place::expand;
use waypost::work::jobs::{self, Request};
use waypost::work::workspaces;

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
pub(super) struct StartArgs {
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
    /// Take the uncommitted changes of the checkout along, including untracked files; they stay uncommitted in
    /// the workspace
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

/// Run a job again, with the same options
#[derive(clap::Args)]
pub(super) struct RetryArgs {
    /// Id of the job, or a unique prefix
    job: String,
    /// Run in the workspace of the earlier job
    #[arg(long)]
    same_workspace: bool,
    /// Return as soon as the job runs
    #[arg(long, short)]
    detach: bool,
}

pub(super) fn start(cx: &mut CommandContext, session: &mut Session, args: &StartArgs) -> Result<ExitCode> {
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
            machine,
            new_machine: args.placement.new_machine,
            settings,
            ..Request::default()
        },
    )?;
    if is_queued {
        cx.ui.answer(&job, |text| text.line(format!("Queued job {}; it waits for a worker", job.job.id)))?;
        return Ok(ExitCode::SUCCESS);
    }
    launch(cx, session, &job, args.detach)
}

pub(super) fn retry(cx: &mut CommandContext, session: &mut Session, args: &RetryArgs) -> Result<ExitCode> {
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
            machine,
            new_machine: true,
            settings,
            retry_of: Some(before.id),
            ..Request::default()
        },
    )?;
    launch(cx, session, &job, args.detach)
}
