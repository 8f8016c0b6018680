//! Ends the attempt of a holder: done, failed, released or paused.

use waypost_core::Result;
use waypost_core::model::TaskStatus;
use waypost_core::op::{FailTask, FinishTask, PauseTask, ReleaseTask};
use waypost_core::words::count;

use crate::CommandContext;
use crate::issues::text_or_stdin;
use crate::work::{EpochArg, TaskArg, format_deadline, task_line};

/// Complete a task that you hold
///
/// If the task has an issue, closes the issue with the outcome as the reason.
#[derive(clap::Args)]
pub(super) struct DoneArgs {
    #[command(flatten)]
    task: TaskArg,
    #[command(flatten)]
    epoch: EpochArg,
    /// Outcome of the task; - for standard input
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    outcome: String,
    /// Evidence for the outcome, e.g. a command and its output
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    evidence: Option<String>,
    /// Idempotency key: a repeated command with the same key returns the first result
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
}

/// Fail the current attempt; the task is retried while attempts remain
#[derive(clap::Args)]
pub(super) struct FailArgs {
    #[command(flatten)]
    task: TaskArg,
    #[command(flatten)]
    epoch: EpochArg,
    /// Error message; - for standard input
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    error: String,
    /// Do not retry the task
    #[arg(long)]
    hopeless: bool,
    /// Idempotency key: a repeated command with the same key returns the first result
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
}

/// Release a task without counting an attempt
#[derive(clap::Args)]
pub(super) struct ReleaseArgs {
    #[command(flatten)]
    task: TaskArg,
    #[command(flatten)]
    epoch: EpochArg,
    /// Release a task that another agent holds; only for coordinators and people
    #[arg(long)]
    force: bool,
    /// Reason
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    reason: Option<String>,
}

/// Pause a task until an agent claims it by name
#[derive(clap::Args)]
pub(super) struct PauseArgs {
    #[command(flatten)]
    task: TaskArg,
    #[command(flatten)]
    epoch: EpochArg,
    /// Reason
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    reason: Option<String>,
}

pub(super) fn done(cx: &mut CommandContext, args: &DoneArgs) -> Result<()> {
    let mut session = cx.session()?;
    let operation = FinishTask {
        task: args.task.task.clone(),
        workflow: args.task.within.workflow.clone(),
        epoch: args.epoch.of(cx, Some(&args.task.task)),
        outcome: text_or_stdin(&args.outcome)?,
        evidence: args.evidence.clone(),
    };
    let finished = session.call_once(args.key.as_deref(), operation)?;
    cx.ui.answer(&finished, |text| {
        text.line(task_line("Finished", &finished.task));
        if let Some(issue) = &finished.closed_issue {
            text.line(format!("Closed {issue}"));
        }
    })
}

pub(super) fn fail(cx: &mut CommandContext, args: &FailArgs) -> Result<()> {
    let mut session = cx.session()?;
    let operation = FailTask {
        task: args.task.task.clone(),
        workflow: args.task.within.workflow.clone(),
        epoch: args.epoch.of(cx, Some(&args.task.task)),
        error: text_or_stdin(&args.error)?,
        hopeless: args.hopeless,
    };
    let task = session.call_once(args.key.as_deref(), operation)?;
    let now = session.now()?;
    cx.ui.answer(&task, |text| {
        let (attempts, max_attempts) = (task.task.attempts, task.task.max_attempts);
        let next = match (task.task.status, task.task.due_at) {
            (TaskStatus::Dead, _) => ", no retry".to_owned(),
            (TaskStatus::Failed, Some(due)) => format!(", retry {}", format_deadline(due, now)),
            _ => String::new(),
        };
        text.line(format!("{}, {attempts} of {}{next}", task_line("Failed", &task), count(max_attempts, "attempt")));
    })
}

pub(super) fn release(cx: &mut CommandContext, args: &ReleaseArgs) -> Result<()> {
    let operation = ReleaseTask {
        task: args.task.task.clone(),
        workflow: args.task.within.workflow.clone(),
        epoch: args.epoch.of(cx, Some(&args.task.task)),
        force: args.force,
        reason: args.reason.clone(),
    };
    let task = cx.session()?.call(operation)?;
    cx.answer_task("Released", &task)
}

pub(super) fn pause(cx: &mut CommandContext, args: &PauseArgs) -> Result<()> {
    let operation = PauseTask {
        task: args.task.task.clone(),
        workflow: args.task.within.workflow.clone(),
        epoch: args.epoch.of(cx, Some(&args.task.task)),
        reason: args.reason.clone(),
    };
    let task = cx.session()?.call(operation)?;
    cx.answer_task("Paused", &task)?;
    cx.ui.note(&format!("to continue the task: way task claim {}", task.task.id));
    Ok(())
}
