//! `way worker`

use std::process::ExitCode;
use std::time::Duration;

use waypost_core::op::ListRepositories;
use waypost_core::{Error, Result};

use super::job::HowArgs;
use crate::CommandContext;
use crate::spans::parse_duration;
use waypost::worker::{Worker, WorkerEvent};
use waypost::workspaces;

/// Claim tasks as they become ready, and run each as a job
///
/// Runs the command once per task, in its own workspace, with the task in WAYPOST_TASK, the epoch of the lease in
/// WAYPOST_EPOCH and the context in WAYPOST_CONTEXT_DIR. The command completes the task with way task done.
///
/// On SIGINT, SIGTERM or SIGHUP the worker claims no more tasks and waits for its jobs. On a second signal, or after
/// --patience, it stops the jobs, without counting an attempt. Workers on many machines can share one PostgreSQL store.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way worker --concurrency 4 --agent builder -- ./agent.sh
  way worker --capability rust,sql --workflow release -- ./agent.sh
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
    /// Type of the jobs
    #[arg(long = "type", value_name = "TYPE", default_value = "agent")]
    kind: String,
    /// Exit when no tasks are left
    #[arg(long)]
    until_empty: bool,
    /// Maximum time to wait for running jobs after a signal to stop
    #[arg(long, value_name = "SPAN", value_parser = parse_duration, default_value = "30s")]
    patience: u64,
    #[command(flatten)]
    how: HowArgs,
    /// Command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    let mut session = cx.session()?;
    let mut repositories = Vec::new();
    if let Some(reference) = &cx.global.repo {
        let known = session.call(ListRepositories {})?.repositories;
        let path = session.place.cwd.join(reference);
        let path = path.canonicalize().unwrap_or(path);
        let found = known.iter().map(|seen| &seen.repository).find(|repository| {
            repository.id.as_str() == reference || repository.name == *reference || repository.path == path
        });
        let found = found.ok_or_else(|| {
            Error::not_found(format!("no repository {reference:?}")).hint("way repo list shows the known repositories")
        })?;
        repositories.push(found.id.clone());
    }
    if repositories.is_empty() {
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
        repositories,
        capabilities: args.capabilities.clone(),
        settings: args.how.settings(&session),
        until_empty: args.until_empty,
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
            WorkerEvent::Draining(left) => format!("stopping; waiting for {left} jobs"),
        };
        ui.progress(&line)
    })?;
    cx.ui.answer(&tally, |text| {
        text.line(format!(
            "{} started, {} completed, {} failed, {} interrupted",
            tally.started, tally.completed, tally.failed, tally.interrupted
        ));
    })?;
    Ok(ExitCode::SUCCESS)
}
