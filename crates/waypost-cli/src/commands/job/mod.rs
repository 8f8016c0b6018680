//! `way job`

mod change;
mod follow;
mod inspect;
mod logs;
mod options;
mod start;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use waypost_core::{Error, Result};
use waypost_workspace::sandbox;

pub(crate) use logs::Log;
pub(crate) use options::HowArgs;

use super::serve::serve_job;
use super::ws;
use crate::CommandContext;
use waypost::work::jobs;

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
    Start(Box<start::StartArgs>),
    #[command(visible_alias = "ls")]
    List(inspect::ListArgs),
    /// Show a job and its phases
    Show(OneArgs),
    Logs(logs::LogsArgs),
    Wait(follow::WaitArgs),
    Cancel(change::CancelArgs),
    Retry(start::RetryArgs),
    Note(change::NoteArgs),
    Deliver(DeliverArgs),
    /// Run the command of a job, keep its log and record its end
    #[command(hide = true)]
    Supervise(OneArgs),
    /// Restrict this process as the supervisor of a job says, and execute the command of the job
    #[command(hide = true)]
    Confine(ConfineArgs),
}

#[derive(clap::Args)]
struct ConfineArgs {
    /// File with the restrictions of a tool that works in the workspace of a job
    file: Option<PathBuf>,
    /// The tool
    #[arg(last = true)]
    tool: Vec<OsString>,
}

#[derive(clap::Args)]
struct OneArgs {
    /// Id of the job, or a unique prefix
    job: String,
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
        Command::Start(args) => start::start(cx, session, args),
        Command::List(args) => inspect::list(cx, session, args),
        Command::Show(args) => inspect::show(cx, session, args),
        Command::Logs(args) => logs::logs(cx, session, args),
        Command::Wait(args) => follow::wait(cx, session, args),
        Command::Cancel(args) => change::cancel(cx, session, args),
        Command::Retry(args) => start::retry(cx, session, args),
        Command::Note(args) => change::note(cx, session, args),
        Command::Deliver(args) => ws::deliver(cx, session, &args.job, &args.how),
        Command::Supervise(_) | Command::Confine(_) => {
            Err(Error::internal("supervise and confine are handled before the other commands"))
        }
    }
}
