//! `way list`

use std::process::ExitCode;

use waypost_core::Result;
use waypost_core::ledger::issue::Issue;
use waypost_core::ledger::vocabulary::Category;

use crate::cli::Cx;
use crate::cli::issues::{priority, row};

/// List issues; those that are not closed, if nothing else is said
#[derive(clap::Args)]
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
    /// Only these priorities; may be given several times
    #[arg(short, long, value_name = "N", value_parser = priority)]
    priority: Vec<u8>,
    /// Only what this one does
    #[arg(short, long, value_name = "NAME")]
    assignee: Option<String>,
    /// Only the parts of this issue
    #[arg(long, value_name = "ISSUE")]
    parent: Option<String>,
    /// Only issues with this text in title or description
    #[arg(long, value_name = "TEXT")]
    text: Option<String>,
    /// Closed ones too
    #[arg(long)]
    all: bool,
    /// At most this many
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
}

pub(crate) fn run(cx: &mut Cx, args: &Args) -> Result<ExitCode> {
    let desk = cx.desk()?;
    let snapshot = cx.snapshot(&desk)?;
    let parent =
        args.parent.as_ref().map(|wanted| snapshot.find(wanted)).transpose()?.map(|entry| entry.issue.id.clone());
    let needle = args.text.as_ref().map(|text| text.to_lowercase());
    let wanted = |issue: &Issue| {
        let category = desk.ledger.statuses.category(&issue.status);
        let by_status = match args.status.as_slice() {
            [] => category != Category::Deleted && (args.all || category != Category::Done),
            statuses => statuses.contains(&issue.status),
        };
        by_status
            && (args.issue_type.is_empty() || args.issue_type.contains(&issue.issue_type))
            && args.labels.iter().all(|label| issue.has_label(label))
            && (args.priority.is_empty() || args.priority.contains(&issue.priority))
            && args.assignee.as_ref().is_none_or(|name| issue.assignee.as_ref() == Some(name))
            && parent.as_ref().is_none_or(|parent| issue.parent_id.as_ref() == Some(parent))
            && needle.as_ref().is_none_or(|needle| {
                issue.title.to_lowercase().contains(needle) || issue.description.to_lowercase().contains(needle)
            })
    };
    let mut found: Vec<_> = snapshot.entries().filter(|entry| wanted(&entry.issue)).collect();
    found.sort_by_key(|entry| (entry.issue.priority, entry.issue.created_at, entry.issue.id.clone()));
    let all = found.len();
    found.truncate(args.limit.unwrap_or(usize::MAX));
    let data = desk.json_list(found.iter().map(|entry| &entry.record))?;
    cx.ui.answer(&data, |text| text.table(&found.iter().map(|entry| row(&entry.issue)).collect::<Vec<_>>()))?;
    if found.len() < all {
        cx.ui.note(&format!("{} more", all - found.len()));
    } else if found.is_empty() {
        cx.ui.note("no issue fits");
    }
    Ok(ExitCode::SUCCESS)
}
