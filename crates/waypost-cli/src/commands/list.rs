//! `way list`

use std::process::ExitCode;

use waypost_core::{Error, Result};
use waypost_ledger::{Filter, Sort};

use crate::filter::{FilterArgs, with_parent};
use crate::issues::Column;
use crate::{CommandContext, in_one_line};

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
    /// Sort key: priority, created, updated, closed, due, id or title
    #[arg(long, value_name = "KEY", default_value = "priority", value_parser = sort)]
    sort: Sort,
    /// Reverse the order
    #[arg(long)]
    reverse: bool,
    /// Maximum number of issues; 0 for no limit
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,
    /// Columns to show, separated by commas
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',', value_enum)]
    columns: Vec<Column>,
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    let ledger_cx = cx.open_ledgers()?;
    let filter = args.filter.to_filter(ledger_cx.now)?;
    let filter = Filter { closed: filter.closed || args.all, ..filter };
    let columns = if args.columns.is_empty() { Column::DEFAULT } else { args.columns.as_slice() };
    let has_any = cx.list(&ledger_cx, args.limit, columns, |index, limit| {
        index.list(&with_parent(&filter, index)?, args.sort, args.reverse, limit)
    })?;
    if !has_any {
        cx.ui.note("no matching issues");
    }
    Ok(ExitCode::SUCCESS)
}

fn sort(text: &str) -> Result<Sort, String> {
    let sorts = [
        ("priority", Sort::Priority),
        ("created", Sort::Created),
        ("updated", Sort::Updated),
        ("closed", Sort::Closed),
        ("due", Sort::Due),
        ("id", Sort::Id),
        ("title", Sort::Title),
    ];
    let known = sorts.iter().find(|(name, _)| *name == text).map(|(_, sort)| *sort);
    known.ok_or_else(|| {
        in_one_line(Error::invalid("unknown sort key").hint("use priority, created, updated, closed, due, id or title"))
    })
}
