//! `way list`

use std::process::ExitCode;

use waypost_core::time::Timestamp;
use waypost_core::{Error, Result};
use waypost_ledger::{Filter, Range, Sort};

use crate::cli::issues::{Column, moment_or_age};
use crate::cli::{Cx, in_one_line};

/// List issues; those that are not closed, if nothing else is said
///
/// Times are days, moments, or how long ago: 2026-12-01, 2026-12-01T09:00:00Z, 14d, 36h, 2w; +3d is ahead.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way list -p 0-1 --assignee ''         urgent, and nobody has it
  way list --any-label api --any-label web --no-label later
  way list --all --closed-after 7d --sort closed --columns id,closed,title")]
pub(crate) struct Args {
    /// Only these statuses; may be given several times
    #[arg(short, long, value_name = "STATUS")]
    status: Vec<String>,
    /// Only these types; may be given several times
    #[arg(short = 't', long = "type", value_name = "TYPE")]
    issue_type: Vec<String>,
    /// Only issues that have all these labels
    #[arg(short, long = "label", value_name = "LABEL")]
    labels: Vec<String>,
    /// Only issues that have one of these labels
    #[arg(long, value_name = "LABEL")]
    any_label: Vec<String>,
    /// Only issues that have none of these labels
    #[arg(long, value_name = "LABEL")]
    no_label: Vec<String>,
    /// Only these priorities: one, or a range such as 0-2
    #[arg(short, long, value_name = "N", value_parser = priorities)]
    priority: Vec<Priorities>,
    /// Only what this one does; an empty text for what nobody does
    #[arg(short, long, value_name = "NAME")]
    assignee: Option<String>,
    /// Only the parts of this issue; an empty text for those that are part of none
    #[arg(long, value_name = "ISSUE")]
    parent: Option<String>,
    /// Only issues with this text in title or description
    #[arg(long, value_name = "TEXT")]
    text: Option<String>,
    /// Only issues made since then
    #[arg(long, value_name = "TIME")]
    created_after: Option<String>,
    /// Only issues made before
    #[arg(long, value_name = "TIME")]
    created_before: Option<String>,
    /// Only issues changed since then
    #[arg(long, value_name = "TIME")]
    updated_after: Option<String>,
    /// Only issues not changed since then
    #[arg(long, value_name = "TIME")]
    updated_before: Option<String>,
    /// Only issues closed since then
    #[arg(long, value_name = "TIME")]
    closed_after: Option<String>,
    /// Only issues closed before
    #[arg(long, value_name = "TIME")]
    closed_before: Option<String>,
    /// Only issues due then or later
    #[arg(long, value_name = "TIME")]
    due_after: Option<String>,
    /// Only issues due before
    #[arg(long, value_name = "TIME")]
    due_before: Option<String>,
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

pub(crate) fn run(cx: &mut Cx, args: &Args) -> Result<ExitCode> {
    let desk = cx.desk()?;
    let filter = args.filter(desk.now)?;
    let columns = if args.columns.is_empty() { Column::USUAL } else { args.columns.as_slice() };
    let has_any = cx.list(&desk, args.limit, columns, |index, limit| {
        let parent = match filter.parent.as_deref() {
            Some(wanted) if !wanted.is_empty() => Some(index.find(wanted)?),
            other => other.map(str::to_owned),
        };
        index.list(&Filter { parent, ..filter.clone() }, args.sort, args.reverse, limit)
    })?;
    if !has_any {
        cx.ui.note("no issue fits");
    }
    Ok(ExitCode::SUCCESS)
}

impl Args {
    fn filter(&self, now: Timestamp) -> Result<Filter> {
        let range = |from: &Option<String>, until: &Option<String>| -> Result<Range> {
            let moment = |text: &Option<String>| text.as_deref().map(|text| moment_or_age(text, now)).transpose();
            Ok(Range { from: moment(from)?, until: moment(until)? })
        };
        let closed_at = range(&self.closed_after, &self.closed_before)?;
        Ok(Filter {
            statuses: self.status.clone(),
            // Who asks when something was closed wants to see what is closed.
            closed: self.all || closed_at != Range::default(),
            types: self.issue_type.clone(),
            labels: self.labels.clone(),
            any_label: self.any_label.clone(),
            without_labels: self.no_label.clone(),
            priorities: self.priority.iter().flat_map(|range| range.0..=range.1).collect(),
            assignee: self.assignee.clone(),
            parent: self.parent.clone(),
            text: self.text.clone(),
            created: range(&self.created_after, &self.created_before)?,
            updated: range(&self.updated_after, &self.updated_before)?,
            closed_at,
            due: range(&self.due_after, &self.due_before)?,
        })
    }
}

/// The first and the last priority of a range.
#[derive(Clone, Copy)]
struct Priorities(u8, u8);

fn priorities(text: &str) -> Result<Priorities, String> {
    let one = |text: &str| crate::cli::issues::priority(text);
    match text.split_once("..").or_else(|| text.split_once('-')) {
        Some((first, last)) => {
            let (first, last) = (one(first)?, one(last)?);
            if first > last {
                return Err(format!("a range goes up: {last}-{first}"));
            }
            Ok(Priorities(first, last))
        }
        None => one(text).map(|only| Priorities(only, only)),
    }
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
