//! `way worker`

use std::process::ExitCode;
use std::time::Duration;

use waypost_core::op::ListRepositories;
use waypost_core::{Error, Result};

use super::job::HowArgs;
use crate::CommandContext;
use crate::spans::parse_duration;
use waypost::worker::{Worker, WorkerEvent};

/// Take tasks as they become ready, and run each as a job
///
/// The command runs once per task, in a workspace of its own, and finds the task in WAYPOST_TASK, the lease in
/// WAYPOST_EPOCH and all there is to know in WAYPOST_CONTEXT_DIR. It says that the task is done with way task done.
///
/// A worker that is asked to stop takes nothing more and waits for its jobs; asked again, or after --patience, it stops
/// them, which costs their tasks no attempt. Workers on many machines may share one PostgreSQL store.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way worker --concurrency 4 --agent builder -- ./agent.sh
  way worker --capability rust,sql --workflow release -- ./agent.sh
  way worker --until-empty -- sh -c 'make && way task done $WAYPOST_TASK --outcome built'")]
pub(crate) struct Args {
    /// How many jobs run at once
    #[arg(long, short = 'n', value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    concurrency: u16,
    /// What it can do; several with commas, or said several times
    #[arg(long = "capability", value_name = "CAPABILITY", value_delimiter = ',')]
    capabilities: Vec<String>,
    /// Only tasks of this workflow
    #[arg(long)]
    workflow: Option<String>,
    /// What kind of work its jobs are
    #[arg(long = "type", value_name = "TYPE", default_value = "agent")]
    kind: String,
    /// End when nothing is left to do
    #[arg(long)]
    until_empty: bool,
    /// How long running jobs may take to end once it is asked to stop
    #[arg(long, value_name = "SPAN", value_parser = parse_duration, default_value = "30s")]
    patience: u64,
    #[command(flatten)]
    how: HowArgs,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    let mut session = cx.work()?;
    let mut repositories = Vec::new();
    if let Some(wanted) = &cx.global.repo {
        let known = session.read(ListRepositories {})?.repositories;
        let path = session.place.cwd.join(wanted);
        let path = path.canonicalize().unwrap_or(path);
        let found = known.iter().map(|seen| &seen.repository).find(|repository| {
            repository.id.as_str() == wanted || repository.name == *wanted || repository.path == path
        });
        let found = found.ok_or_else(|| {
            Error::not_found(format!("no repository {wanted:?}")).hint("way repo list shows those that the store knows")
        })?;
        repositories.push(found.id.clone());
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
    let tally = worker.run(&mut session, &mut |news| {
        let line = match news {
            WorkerEvent::Started(job) => {
                format!("started {}  {}", job.job.id, job.task.as_deref().unwrap_or(&job.job.description))
            }
            WorkerEvent::Ended(job) => {
                let why = job.job.error.as_ref().map_or_else(String::new, |error| format!(": {error}"));
                format!("{} {}  {}{why}", job.job.status, job.job.id, job.task.as_deref().unwrap_or("-"))
            }
            WorkerEvent::Draining(0) => "asked to stop".to_owned(),
            WorkerEvent::Draining(left) => format!("asked to stop; {left} jobs still run"),
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
