//! `way list`

use std::process::ExitCode;

use waypost_core::{Error, Result};
use waypost_ledger::{Filter, Sort};

use crate::filter::{FilterArgs, with_parent};
use crate::issues::Column;
use crate::{CommandContext, in_one_line};

/// List issues; those that are not closed, if nothing else is said
///
/// Times are days, moments, or how long ago: 2026-12-01, 2026-12-01T09:00:00Z, 14d, 36h, 2w; +3d is ahead.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way list -p 0-1 --assignee ''         urgent, and nobody has it
  way list --any-label api --any-label web --no-label later
  way list --all --closed-after 7d --sort closed --columns id,closed,title")]
pub(crate) struct Args {
    #[command(flatten)]
    filter: FilterArgs,
    /// Closed ones too
    #[arg(long)]
    all: bool,
    /// priority, created, updated, closed, due, id or title
    #[arg(long, value_name = "KEY", default_value = "priority", value_parser = sort)]
    sort: Sort,
    /// The other way round
    #[arg(long)]
    reverse: bool,
    /// At most this many; 0 for all
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,
    /// What to show, with commas between
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
        cx.ui.note("no issue fits");
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
        in_one_line(
            Error::invalid("there is no such key").hint("it is priority, created, updated, closed, due, id or title"),
        )
    })
}
