//! `way checkpoint`

use std::process::ExitCode;

use waypost_core::Result;
use waypost_core::op::{CheckpointView, ListCheckpoints};
use waypost_core::time::Timestamp;

use crate::CommandContext;
use crate::places::PlaceColumns;
use crate::ui::{DIM, Text, header, number, prose, styled};
use crate::work::{TaskArg, first_line};

/// List the checkpoints of tasks; way task checkpoint records one
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way checkpoint list build")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    #[command(visible_alias = "ls")]
    List(ListArgs),
}

/// List the checkpoints of a task, newest first
#[derive(clap::Args)]
struct ListArgs {
    #[command(flatten)]
    task: TaskArg,
    /// Maximum number of checkpoints; 0 for no limit
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: u32,
    /// Only checkpoints before this number
    #[arg(long, value_name = "N")]
    before: Option<u32>,
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    let Command::List(args) = &args.command;
    let mut session = cx.session()?;
    let operation = ListCheckpoints {
        task: args.task.task.clone(),
        workflow: args.task.within.workflow.clone(),
        repository: cx.repository_filter(&mut session)?,
        before: args.before,
        limit: if args.limit == 0 { u32::MAX >> 1 } else { args.limit },
        after: None,
    };
    let list = session.call(operation)?;
    // Checkpoints are numbered without gaps.
    let earliest = list.checkpoints.last().map(|view| &view.checkpoint);
    let more = earliest.filter(|last| last.sequence > 1).map(|last| {
        format!(
            "{} of {} checkpoints are earlier; to list them: --before {}",
            last.sequence - 1,
            list.total,
            last.sequence
        )
    });
    if let Some(more) = more.as_ref().filter(|_| cx.ui.json) {
        cx.ui.warn(more);
    }
    let now = session.now()?;
    let places = PlaceColumns::of(&session, &list.checkpoints);
    cx.ui.answer(&list.checkpoints, |text| write(text, &list.checkpoints, now, places))?;
    match more {
        Some(more) => cx.ui.note(&more),
        None if list.checkpoints.is_empty() => {
            cx.ui.note(&format!("no checkpoints yet; the agent adds one: way task checkpoint {} TEXT", args.task.task));
        }
        None => {}
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes a table of checkpoints.
pub(super) fn write(text: &mut Text, checkpoints: &[CheckpointView], now: Timestamp, places: PlaceColumns) {
    let has_files = checkpoints.iter().any(|view| !view.checkpoint.files.is_empty());
    let titles = header(["N", "KIND", "EPOCH", "AGE"]);
    let files_title = has_files.then(|| styled(DIM, "FILES"));
    let titles = titles.into_iter().chain(places.titles()).chain([styled(DIM, "SUMMARY")]).chain(files_title).collect();
    let row = |view: &CheckpointView| {
        let checkpoint = &view.checkpoint;
        let cells = [
            number(checkpoint.sequence),
            styled(DIM, checkpoint.kind),
            number(checkpoint.epoch),
            styled(DIM, checkpoint.created_at.ago(now)),
        ];
        let files = has_files.then(|| styled(DIM, checkpoint.files.join(", ")).cuttable());
        cells
            .into_iter()
            .chain(places.cells(view))
            .chain([prose(first_line(&checkpoint.summary))])
            .chain(files)
            .collect()
    };
    text.list(titles, checkpoints.iter().map(row));
}
