//! The filter arguments that `way list` and `way export` share.

use waypost::ops::issue::ListIssues;
use waypost_core::Result;

#[derive(clap::Args)]
pub(crate) struct FilterArgs {
    /// Only issues with this status; repeatable, or separated by commas
    #[arg(short, long, value_name = "STATUS")]
    status: Vec<String>,
    /// Only issues of this type; repeatable, or separated by commas
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
    #[arg(short, long, value_name = "N", value_delimiter = ',', value_parser = priorities)]
    priority: Vec<Priorities>,
    /// Only issues assigned to this name, or to me; '' for unassigned issues
    #[arg(short, long, value_name = "NAME")]
    assignee: Option<String>,
    /// Only children of this issue; '' for issues without a parent
    #[arg(long, value_name = "ISSUE")]
    parent: Option<String>,
    /// Only issues with this visibility: local, proposed or canonical
    #[arg(long, value_name = "VISIBILITY")]
    visibility: Option<String>,
    /// Only issues created by this name, or by me; '' for issues without an author
    #[arg(long, value_name = "NAME")]
    author: Option<String>,
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
    /// Returns the query.
    pub(crate) fn to_query(&self) -> ListIssues {
        ListIssues {
            statuses: self.status.clone(),
            types: self.issue_type.clone(),
            labels: self.labels.clone(),
            any_label: self.any_label.clone(),
            no_label: self.no_label.clone(),
            priorities: self.priority.iter().flat_map(|range| range.0..=range.1).collect(),
            assignee: self.assignee.clone(),
            parent: self.parent.clone(),
            visibility: self.visibility.clone(),
            author: self.author.clone(),
            text: self.text.clone(),
            created_after: self.created_after.clone(),
            created_before: self.created_before.clone(),
            updated_after: self.updated_after.clone(),
            updated_before: self.updated_before.clone(),
            closed_after: self.closed_after.clone(),
            closed_before: self.closed_before.clone(),
            due_after: self.due_after.clone(),
            due_before: self.due_before.clone(),
            ..ListIssues::default()
        }
    }
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
