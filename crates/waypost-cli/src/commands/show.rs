//! `way show`

use std::process::ExitCode;

use waypost_core::Result;
use waypost_core::time::Timestamp;
use waypost_core::words::count;
use waypost_ledger::Summary;

use crate::CommandContext;
use crate::issues::{OneOrMany, ids};
use crate::ui::{BOLD, Cell, DIM, Text, cell, header, prose, styled};
use waypost::issues::Repo;
use waypost::ops::issue::{IssueContext, IssueDetails, ListIssues};

/// Show issues with all details
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way show way-1a2b
  way show way-1a2b --json")]
pub(crate) struct Args {
    /// Issue ids, or unique prefixes of them; full ids for pruned issues; - to read ids from standard input;
    /// without any, lists all that are not closed
    #[arg(value_name = "ISSUE")]
    issues: Vec<String>,
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    show(cx, &args.issues)
}

/// Shows issues; without any, lists those that are not closed.
pub(super) fn show(cx: &mut CommandContext, issues: &[String]) -> Result<ExitCode> {
    let ledger_cx = cx.open_ledgers()?;
    if issues.is_empty() {
        return super::list::print(cx, &ledger_cx, &ListIssues { limit: Some(50), ..ListIssues::default() }, &[]);
    }
    let found = ids(issues)?.iter().map(|id| ledger_cx.details(id)).collect::<Result<Vec<_>>>()?;
    let data = OneOrMany(ledger_cx.shown_all(found.iter().map(|details| &details.record))?);
    cx.ui.answer(&data, |text| {
        for (number, details) in found.iter().enumerate() {
            if number > 0 {
                text.gap();
            }
            write(text, details, &ledger_cx);
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

fn write(text: &mut Text, details: &IssueDetails, ledger_cx: &IssueContext) {
    let issue = &details.issue;
    let repos = ledger_cx.ledger.repos();
    let repository = repos.get(details.record.1).filter(|_| repos.len() > 1).map(Repo::name);
    text.table(&[vec![styled(BOLD, &issue.id), styled(BOLD, &issue.title)]]);
    let time = |moment: Option<Timestamp>| moment.map(|moment| moment.to_string());
    let facts = [
        ("status", Some(issue.status.clone())),
        ("priority", Some(format!("P{}", issue.priority))),
        ("type", Some(issue.issue_type.clone())),
        ("assignee", issue.assignee.clone()),
        ("owner", issue.owner.clone()),
        ("repository", repository),
        ("visibility", issue.visibility().as_field().map(str::to_owned)),
        ("author", issue.created_by.clone()),
        ("labels", Some(issue.labels.join(", ")).filter(|labels| !labels.is_empty())),
        ("parent", issue.parent_id.clone()),
        ("created", time(issue.created_at)),
        ("updated", time(issue.updated_at)),
        ("due", time(issue.due_at)),
        ("closed", time(issue.closed_at)),
        ("because", issue.close_reason.clone()),
        ("set aside", time(issue.defer_until)),
        ("estimate", issue.estimated_minutes.map(|minutes| count(minutes, "minute"))),
        ("elsewhere", issue.external_ref.clone()),
    ];
    let rows: Vec<_> =
        facts.into_iter().filter_map(|(name, value)| Some(vec![styled(DIM, name), cell(value?)])).collect();
    text.table(&rows);
    for (name, body) in [
        ("Description", &issue.description),
        ("Design", &issue.design),
        ("Done when", &issue.acceptance_criteria),
        ("Notes", &issue.notes),
    ] {
        if !body.is_empty() {
            text.gap();
            text.heading(name);
            body.lines().for_each(|line| text.line(line));
        }
    }
    if !issue.dependencies.is_empty() {
        text.gap();
        text.heading("Depends on");
        let rows: Vec<Vec<Cell>> = issue
            .dependencies
            .iter()
            .map(|edge| {
                let other = details.dependencies.iter().find(|other| other.id == edge.depends_on_id);
                vec![
                    styled(DIM, &edge.word),
                    cell(&edge.depends_on_id),
                    cell(other.map_or("not in this ledger", |other| other.status.as_str())),
                    prose(other.map_or("", |other| other.title.as_str())),
                ]
            })
            .collect();
        text.list(header(["KIND", "ID", "STATUS", "TITLE"]), rows);
    }
    for (title, others) in [("Waiting for it", &details.waiting), ("Parts", &details.parts)] {
        if !others.is_empty() {
            text.gap();
            text.heading(title);
            let row = |other: &Summary| vec![cell(&other.id), cell(&other.status), prose(&other.title)];
            text.list(header(["ID", "STATUS", "TITLE"]), others.iter().map(row));
        }
    }
    if !issue.comments.is_empty() {
        text.gap();
        text.heading("Comments");
        for comment in &issue.comments {
            let when = time(comment.created_at).unwrap_or_default();
            text.table(&[vec![styled(BOLD, &comment.author), styled(DIM, when)]]);
            comment.text.lines().for_each(|line| text.line(line));
        }
    }
    if details.is_ready {
        text.line("It is ready.");
    }
}
