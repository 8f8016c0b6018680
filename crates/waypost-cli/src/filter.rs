//! Which issues are meant: the arguments that lists and exports share.

use waypost_core::Result;
use waypost_core::time::Timestamp;
use waypost_ledger::{Filter, Index, Range};

use super::issues::parse_time_ago;

#[derive(clap::Args)]
pub(crate) struct FilterArgs {
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
}

impl FilterArgs {
    /// Returns what was asked for. Who asks when something was closed wants to see what is closed.
    pub(crate) fn to_filter(&self, now: Timestamp) -> Result<Filter> {
        let range = |from: &Option<String>, until: &Option<String>| -> Result<Range> {
            let moment = |text: &Option<String>| text.as_deref().map(|text| parse_time_ago(text, now)).transpose();
            Ok(Range { from: moment(from)?, until: moment(until)? })
        };
        let closed_at = range(&self.closed_after, &self.closed_before)?;
        Ok(Filter {
            deleted: false,
            statuses: self.status.clone(),
            closed: closed_at != Range::default(),
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

/// Returns a filter whose parent is a whole id, and not the beginning of one.
pub(crate) fn with_parent(filter: &Filter, index: &Index) -> Result<Filter> {
    let parent = match filter.parent.as_deref() {
        Some(prefix) if !prefix.is_empty() => Some(index.find(prefix)?),
        other => other.map(str::to_owned),
    };
    Ok(Filter { parent, ..filter.clone() })
}

/// The first and the last priority of a range.
#[derive(Clone, Copy)]
struct Priorities(u8, u8);

fn priorities(text: &str) -> Result<Priorities, String> {
    let one = |text: &str| crate::issues::parse_priority(text);
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
