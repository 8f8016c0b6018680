//! Starts, pauses, resumes and ends workflows, and waits for their end.

use waypost_core::model::WorkflowStatus;
use waypost_core::op::{CancelWorkflow, PauseWorkflow, RecordMerge, ResumeWorkflow, ShowWorkflow, StartWorkflow};
use waypost_core::{Error, Kind, Result};

use super::NamedArgs;
use crate::CommandContext;
use crate::work::{format_duration, humanize, parse_duration, progress, wait_for};

/// Cancel a workflow and all its unfinished tasks
#[derive(clap::Args)]
pub(super) struct CancelArgs {
    /// Workflow: an id or a name
    #[arg(value_name = "WORKFLOW")]
    workflow: String,
    /// Reason
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    reason: Option<String>,
}

/// Wait until a workflow ends
///
/// Exits with 0 if the workflow is completed, with 4 if it failed or was cancelled, and with 6 on timeout.
#[derive(clap::Args)]
pub(super) struct WaitArgs {
    /// Workflow: an id or a name
    #[arg(value_name = "WORKFLOW")]
    workflow: String,
    /// Maximum time to wait, e.g. 10m [default: no limit]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    timeout: Option<u64>,
}

pub(super) fn start(cx: &mut CommandContext, args: &NamedArgs) -> Result<()> {
    let started = cx.session()?.call(StartWorkflow { workflow: args.workflow.clone() })?;
    cx.answer_workflow("Started", &started)
}

pub(super) fn pause(cx: &mut CommandContext, args: &NamedArgs) -> Result<()> {
    let paused = cx.session()?.call(PauseWorkflow { workflow: args.workflow.clone() })?;
    cx.answer_workflow("Paused", &paused)
}

pub(super) fn resume(cx: &mut CommandContext, args: &NamedArgs) -> Result<()> {
    let resumed = cx.session()?.call(ResumeWorkflow { workflow: args.workflow.clone() })?;
    cx.answer_workflow("Resumed", &resumed)
}

pub(super) fn merged(cx: &mut CommandContext, args: &NamedArgs) -> Result<()> {
    let merged = cx.session()?.call(RecordMerge { workflow: args.workflow.clone(), merged: true })?;
    cx.answer_workflow("Merged", &merged)
}

pub(super) fn cancel(cx: &mut CommandContext, args: &CancelArgs) -> Result<()> {
    let operation = CancelWorkflow { workflow: args.workflow.clone(), reason: args.reason.clone() };
    let cancelled = cx.session()?.call(operation)?;
    cx.answer_workflow("Cancelled", &cancelled)
}

pub(super) fn wait(cx: &mut CommandContext, args: &WaitArgs) -> Result<()> {
    let mut session = cx.session()?;
    // Use the id from here on: another workflow may get the name.
    let id = session.call(ShowWorkflow { workflow: args.workflow.clone() })?.workflow.workflow.id;
    let mut seen = None;
    let ended = wait_for(&mut session, args.timeout, |session| {
        let page = session.call(ShowWorkflow { workflow: id.to_string() })?;
        let has_ended = page.workflow.workflow.status.is_final();
        seen = Some(page.workflow);
        Ok(if has_ended { seen.take() } else { None })
    })?;
    match (ended, seen) {
        (Some(ended), _) if ended.workflow.status == WorkflowStatus::Completed => cx.answer_workflow("Ended", &ended),
        (Some(ended), _) => {
            let workflow = &ended.workflow;
            let error =
                Error::conflict(format!("workflow {} is {}", workflow.name, humanize(workflow.status.as_str())));
            let error = workflow.reason.iter().fold(error, Error::because);
            Err(error.hint(format!("way workflow summary {}", workflow.id)))
        }
        (None, seen) => {
            let progress = seen.as_ref().map(progress).unwrap_or_default();
            let waited = format_duration(args.timeout.unwrap_or_default());
            Err(Error::new(Kind::NothingToDo, format!("workflow {id} has not ended after {waited}: {progress}")))
        }
    }
}
