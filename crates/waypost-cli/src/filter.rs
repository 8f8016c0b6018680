//! The filter arguments that `way list` and `way export` share.

use waypost_core::Result;
use waypost_core::time::Timestamp;
use waypost_ledger::{Filter, Index, Range};

use super::issues::parse_time_ago;

#[derive(clap::Args)]
pub(crate) struct FilterArgs {
    /// Only issues with this status; repeatable
    #[arg(short, long, value_name = "STATUS")]
    status: Vec<String>,
    /// Only issues of this type; repeatable
    #[arg(short = 't', long = "type", value_name = "TYPE")]
    issue_type: Vec<String>,
    /// Only issues with this label; if repeated, with all of them
    #[arg(short, long = "label", value_name = "LABEL")]
    labels: Vec<String>,
    /// Only issues with at least one of these labels; repeatable
    #[arg(long, value_name = "LABEL")]
    any_label: Vec<String>,
    /// Only issues with none of these labels; repeatable
    #[arg(long, value_name = "LABEL")]
    no_label: Vec<String>,
    /// Only issues with this priority, or in a range such as 0-2; repeatable
    #[arg(short, long, value_name = "N", value_parser = priorities)]
    priority: Vec<Priorities>,
    /// Only issues assigned to this name; '' for unassigned issues
    #[arg(short, long, value_name = "NAME")]
    assignee: Option<String>,
    /// Only children of this issue; '' for issues without a parent
    #[arg(long, value_name = "ISSUE")]
    parent: Option<String>,
    /// Only issues whose title or description contains this text
    #[arg(long, value_name = "TEXT")]
    text: Option<String>,
    /// Only issues created at or after this time
    #[arg(long, value_name = "TIME")]
    created_after: Option<String>,
    /// Only issues created before this time
    #[arg(long, value_name = "TIME")]
    created_before: Option<String>,
    /// Only issues updated at or after this time
    #[arg(long, value_name = "TIME")]
    updated_after: Option<String>,
    /// Only issues last updated before this time
    #[arg(long, value_name = "TIME")]
    updated_before: Option<String>,
    /// Only issues closed at or after this time
    #[arg(long, value_name = "TIME")]
    closed_after: Option<String>,
    /// Only issues closed before this time
    #[arg(long, value_name = "TIME")]
    closed_before: Option<String>,
    /// Only issues due at or after this time
    #[arg(long, value_name = "TIME")]
    due_after: Option<String>,
    /// Only issues due before this time
    #[arg(long, value_name = "TIME")]
    due_before: Option<String>,
}

impl FilterArgs {
    /// Returns the filter. A filter on the closing time includes closed issues.
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

/// Returns the filter with the prefix of the parent's id expanded to the full id.
pub(crate) fn with_parent(filter: &Filter, index: &Index) -> Result<Filter> {
    let parent = match filter.parent.as_deref() {
        Some(prefix) if !prefix.is_empty() => Some(index.find(prefix)?),
        other => other.map(str::to_owned),
    };
    Ok(Filter { parent, ..filter.clone() })
}

/// A range of priorities, first and last included.
#[derive(Clone, Copy)]
struct Priorities(u8, u8);

fn priorities(text: &str) -> Result<Priorities, String> {
    let one = |text: &str| crate::issues::parse_priority(text);
    match text.split_once("..").or_else(|| text.split_once('-')) {
        Some((first, last)) => {
            let (first, last) = (one(first)?, one(last)?);
            if first > last {
                return Err(format!("a range must ascend: {last}-{first}"));
            }
            Ok(Priorities(first, last))
        }
        None => one(text).map(|only| Priorities(only, only)),
    }
}
