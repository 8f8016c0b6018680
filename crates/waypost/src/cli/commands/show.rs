//! `way show`

use std::process::ExitCode;

use waypost_core::Result;
use waypost_core::ledger::issue::Issue;

use crate::cli::Cx;
use crate::cli::issues::OneOrMany;
use crate::cli::ui::{BOLD, DIM, Text, cell, styled};
use crate::ledger::Snapshot;

/// Show issues with everything that is known of them
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The issues: ids, or the beginnings of ids
    #[arg(required = true, value_name = "ISSUE")]
    issues: Vec<String>,
}

pub(crate) fn run(cx: &mut Cx, args: &Args) -> Result<ExitCode> {
    let desk = cx.desk()?;
    let snapshot = cx.snapshot(&desk)?;
    let found = args.issues.iter().map(|wanted| snapshot.find(wanted)).collect::<Result<Vec<_>>>()?;
    let data = OneOrMany(desk.json_list(found.iter().map(|entry| &entry.record))?);
    cx.ui.answer(&data, |text| {
        for (number, entry) in found.iter().enumerate() {
            if number > 0 {
                text.gap();
            }
            page(text, &entry.issue, &snapshot);
            let obstacles = snapshot.obstacles(&entry.issue, desk.now);
            if obstacles.is_empty() {
                text.line("It is ready.");
            }
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

fn page(text: &mut Text, issue: &Issue, snapshot: &Snapshot) {
    text.table(&[vec![styled(BOLD, &issue.id), styled(BOLD, &issue.title)]]);
    let time = |moment: Option<waypost_core::time::Timestamp>| moment.map(|moment| moment.to_string());
    let facts = [
        ("status", Some(issue.status.clone())),
        ("priority", Some(format!("P{}", issue.priority))),
        ("type", Some(issue.issue_type.clone())),
        ("assignee", issue.assignee.clone()),
        ("labels", Some(issue.labels.join(", ")).filter(|labels| !labels.is_empty())),
        ("parent", issue.parent_id.clone()),
        ("created", time(issue.created_at)),
        ("updated", time(issue.updated_at)),
        ("closed", time(issue.closed_at)),
        ("because", issue.close_reason.clone()),
        ("set aside", time(issue.defer_until)),
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
        let rows: Vec<_> = issue
            .dependencies
            .iter()
            .map(|edge| {
                let other = snapshot.get(&edge.depends_on_id).map(|entry| &entry.issue);
                vec![
                    styled(DIM, &edge.word),
                    cell(&edge.depends_on_id),
                    cell(other.map_or("not in this ledger", |other| other.status.as_str())),
                    cell(other.map_or("", |other| other.title.as_str())),
                ]
            })
            .collect();
        text.table(&rows);
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
}
