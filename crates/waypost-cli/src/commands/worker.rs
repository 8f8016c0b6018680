//! `way worker`

use std::process::ExitCode;
use std::time::Duration;

use waypost_core::words::count;
use waypost_core::{Error, Kind, Result};

use super::job::HowArgs;
use crate::CommandContext;
use crate::spans::parse_duration;
use waypost::work::{ALL_REPOSITORIES, Worker, WorkerEvent, workspaces};

/// Claim tasks as they become ready, and run each as a job
///
/// Runs the command once per task, in its own workspace, with the task in WAYPOST_TASK, the epoch of the lease in
/// WAYPOST_EPOCH and the context in WAYPOST_CONTEXT_DIR. The command completes the task with way task done.
///
/// Takes the tasks of this worktree first, then those that other worktrees share; --worktree takes those of another
/// worktree. In a store that repositories share, it takes only tasks of this repository, or of the one that --repo names;
/// --any-repo takes any. The workspace of a task starts from the branch of the worktree in which it was planned.
///
/// Exits with 0 if no work failed: the last job of every task was completed, or was interrupted without counting an
/// attempt. Exits with 4 if the last job of a task failed, with 3 if the program does not exist, and with 8 if no job can
/// be set up.
///
/// On SIGINT, SIGTERM or SIGHUP the worker claims no more tasks and waits for its jobs. On a second signal, or after
/// --patience, it stops the jobs, without counting an attempt. Workers on many machines can share one PostgreSQL store.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way worker --concurrency 4 --agent builder -- ./agent.sh
  way worker --capability rust,sql --workflow release -- ./agent.sh
  way worker --worktree topic -- ./agent.sh         only tasks planned in that worktree
  way --global worker --any-repo -- ./agent.sh
  way worker --until-empty -- sh -c 'make && way task done $WAYPOST_TASK --outcome built'")]
pub(crate) struct Args {
    /// Maximum number of jobs at once
    #[arg(long, short = 'n', value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    concurrency: u16,
    /// Capabilities of the worker, separated by commas or given repeatedly
    #[arg(long = "capability", value_name = "CAPABILITY", value_delimiter = ',')]
    capabilities: Vec<String>,
    /// Only tasks of this workflow
    #[arg(long)]
    workflow: Option<String>,
    /// Take tasks of all repositories that share the store; same as --repo all
    #[arg(long)]
    any_repo: bool,
    /// Type of the jobs
    #[arg(long = "type", value_name = "TYPE", default_value = "agent")]
    kind: String,
    /// Exit when no tasks are left
    #[arg(long)]
    until_empty: bool,
    /// Maximum time to wait for running jobs after a signal to stop
    #[arg(long, value_name = "SPAN", value_parser = parse_duration, default_value = "30s")]
    patience: u64,
    /// Stop when standard input ends, as on a signal: for a program that starts workers and may be killed
    #[arg(long)]
    stop_with_input: bool,
    #[command(flatten)]
    how: HowArgs,
    /// Command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    let mut session = cx.session_to_write()?;
    let repository = match (args.any_repo, cx.repository_filter(&mut session)?) {
        (true, Some(_)) => return Err(Error::invalid("--any-repo and --repo exclude each other")),
        (true, None) => Some(ALL_REPOSITORIES.to_owned()),
        (false, repository) => repository,
    };
    if repository.is_none() {
        let on = Some("the bases of its tasks");
        if let Some(warning) = workspaces::uncommitted_warning(&session, args.how.strategy(), on)? {
            cx.ui.warn(&warning);
        }
    }
    let worker = Worker {
        concurrency: usize::from(args.concurrency),
        command: args.command.clone(),
        kind: args.kind.clone(),
        workflow: args.workflow.clone(),
        worktree_id: cx.worktree_filter(&mut session)?,
        repository,
        capabilities: args.capabilities.clone(),
        settings: args.how.settings(&session),
        until_empty: args.until_empty,
        stop_with_input: args.stop_with_input,
        drain_timeout: Duration::from_millis(args.patience),
    };
    let ui = &cx.ui;
    let tally = worker.run(&mut session, &mut |event| {
        let line = match event {
            WorkerEvent::Started(job) => {
                format!("started {}  {}", job.job.id, job.task.as_deref().unwrap_or(&job.job.description))
            }
            WorkerEvent::Ended(job) => {
                let why = job.job.error.as_ref().map_or_else(String::new, |error| format!(": {error}"));
                format!("{} {}  {}{why}", job.job.status, job.job.id, job.task.as_deref().unwrap_or("-"))
            }
            WorkerEvent::Draining(0) => "stopping".to_owned(),
            WorkerEvent::Draining(left) => format!("stopping; waiting for {}", count(left, "job")),
        };
        ui.progress(&line)
    })?;
    let failed = tally.unfinished.len();
    if failed > 0 {
        cx.ui.warn(&format!("{} failed; way job list --status failed shows why", count(failed, "task")));
    }
    cx.ui.answer(&tally, |text| {
        text.line(format!(
            "{} started, {} completed, {} failed, {} interrupted",
            tally.started, tally.completed, tally.failed, tally.interrupted
        ));
    })?;
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::from(Kind::Conflict.exit_code()) })
}
