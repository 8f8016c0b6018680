//! `way list`

use std::process::ExitCode;

use waypost::ops::issue::{IssueContext, ListIssues};
use waypost_core::Result;

use crate::CommandContext;
use crate::filter::FilterArgs;
use crate::issues::{Column, list_limit};

/// List issues; by default all that are not closed
///
/// A TIME is a day, a time or an age: 2026-12-01, 2026-12-01T09:00:00Z, 14d, 36h, 2w; +3d is in the future.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way list -p 0-1 --assignee ''         urgent and unassigned
  way list --any-label api --any-label web --no-label later
  way list --all --closed-after 7d --sort closed --columns id,closed,title")]
pub(crate) struct Args {
    #[command(flatten)]
    filter: FilterArgs,
    /// Include closed issues
    #[arg(long)]
    all: bool,
    /// Sort key: priority, created, updated, closed, due, id or title [default: priority]
    #[arg(long, value_name = "KEY")]
    sort: Option<String>,
    /// Reverse the order
    #[arg(long)]
    reverse: bool,
    /// Maximum number of issues; 0 for no limit
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,
    /// Columns to show, separated by commas [default: id, priority, type, status, assignee and title; repo, visibility and
    /// author if they differ]
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',', value_enum)]
    columns: Vec<Column>,
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    let ledger_cx = cx.open_ledgers()?;
    let query = ListIssues {
        closed: args.all,
        sort: args.sort.clone(),
        reverse: args.reverse,
        limit: Some(list_limit(args.limit)),
        ..args.filter.to_query()
    };
    print(cx, &ledger_cx, &query, &args.columns)
}

/// Prints the issues that a query finds.
pub(super) fn print(
    cx: &mut CommandContext,
    ledger_cx: &IssueContext,
    query: &ListIssues,
    columns: &[Column],
) -> Result<ExitCode> {
    if !cx.list(ledger_cx, query, columns)? {
        cx.note_none(
            ledger_cx,
            if query.closed { "no matching issues" } else { "no matching open issues; to include closed ones: --all" },
        )?;
    }
    Ok(ExitCode::SUCCESS)
}
