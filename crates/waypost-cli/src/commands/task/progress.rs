//! What the holder of a task reports while it works: checkpoints, heartbeats and questions.

use waypost_core::Result;
use waypost_core::model::CheckpointKind;
use waypost_core::op::{AddCheckpoint, Alive, AskQuestion, Heartbeat};
use waypost_core::words::count;

use crate::CommandContext;
use crate::issues::text_or_stdin;
use crate::ui::{Text, cell, header, number};
use crate::work::{EpochArg, TaskArg, WorkflowArg, format_duration, json_or_text, parse_enum};

/// Record the progress of a task, so that another agent can continue from there
#[derive(clap::Args)]
pub(super) struct CheckpointArgs {
    #[command(flatten)]
    task: TaskArg,
    #[command(flatten)]
    epoch: EpochArg,
    /// Type: plan, replan, progress, decision, error, recovery or complete
    #[arg(long = "type", value_name = "TYPE", value_parser = parse_enum::<CheckpointKind>, default_value = "progress")]
    kind: CheckpointKind,
    /// Summary line; - for standard input
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    summary: String,
    /// Details: text or JSON, @FILE, or - for standard input
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    detail: Option<String>,
    /// Changed file; may be given repeatedly
    #[arg(long, value_name = "PATH")]
    file: Vec<String>,
    /// Tokens used so far
    #[arg(long, value_name = "N")]
    tokens: Option<u64>,
    /// Cost so far
    #[arg(long, value_name = "X")]
    cost: Option<f64>,
    /// Idempotency key: a repeated command with the same key returns the first result
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
}

/// Send a heartbeat, and renew your leases
#[derive(clap::Args)]
pub(super) struct HeartbeatArgs {
    /// Task whose lease to renew: an id, a name, or workflow/name [default: all leases]
    #[arg(value_name = "TASK")]
    task: Option<String>,
    #[command(flatten)]
    within: WorkflowArg,
    #[command(flatten)]
    epoch: EpochArg,
}

/// Ask a person a question about a task, and release the task until it is answered
#[derive(clap::Args)]
pub(super) struct AskArgs {
    #[command(flatten)]
    task: TaskArg,
    #[command(flatten)]
    epoch: EpochArg,
    /// Question; - for standard input
    #[arg(value_name = "TEXT", required_unless_present = "question")]
    text: Option<String>,
    /// Question, as an option
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, conflicts_with = "text")]
    question: Option<String>,
}

pub(super) fn checkpoint(cx: &mut CommandContext, args: &CheckpointArgs) -> Result<()> {
    let operation = AddCheckpoint {
        task: args.task.task.clone(),
        workflow: args.task.within.workflow.clone(),
        epoch: args.epoch.of(cx, Some(&args.task.task)),
        kind: args.kind,
        summary: text_or_stdin(&args.summary)?,
        detail: match &args.detail {
            Some(detail) => json_or_text("--detail", detail)?,
            None => serde_json::Value::Null,
        },
        files: args.file.clone(),
        tokens: args.tokens,
        cost: args.cost,
    };
    let recorded = cx.session()?.call_once(args.key.as_deref(), operation)?;
    cx.ui.answer(&recorded, |text| {
        let (checkpoint, lease) = (&recorded.checkpoint, &recorded.lease);
        text.line(format!(
            "Recorded checkpoint {}  number {}, lease until {}{}",
            checkpoint.id,
            checkpoint.sequence,
            lease.end(),
            unread(recorded.unread)
        ));
    })
}

/// Describes the number of unread messages.
fn unread(messages: u64) -> String {
    if messages == 0 { String::new() } else { format!(", {}", count(messages, "unread message")) }
}

pub(super) fn heartbeat(cx: &mut CommandContext, args: &HeartbeatArgs) -> Result<()> {
    let operation = Heartbeat {
        task: args.task.clone(),
        workflow: args.within.workflow.clone(),
        epoch: args.epoch.of(cx, args.task.as_deref()),
    };
    let alive = cx.session()?.call(operation)?;
    cx.ui.answer(&alive, |text| write_alive(text, &alive))
}

fn write_alive(text: &mut Text, alive: &Alive) {
    if alive.is_cancelled {
        text.line("The task was cancelled: stop working on it");
    }
    let next = format_duration(alive.next_ms);
    text.line(format!("{} held{}, next heartbeat within {next}", alive.leases.len(), unread(alive.unread)));
    let row = |lease: &waypost_core::model::Lease| vec![cell(&lease.subject), number(lease.epoch), cell(lease.end())];
    text.list(header(["HOLDS", "EPOCH", "UNTIL"]), alive.leases.iter().map(row));
}

pub(super) fn ask(cx: &mut CommandContext, args: &AskArgs) -> Result<()> {
    let operation = AskQuestion {
        task: args.task.task.clone(),
        workflow: args.task.within.workflow.clone(),
        epoch: args.epoch.of(cx, Some(&args.task.task)),
        question: text_or_stdin(args.text.as_ref().or(args.question.as_ref()).map_or("", String::as_str))?,
    };
    let task = cx.session()?.call(operation)?;
    cx.answer_task("Asked", &task)
}
