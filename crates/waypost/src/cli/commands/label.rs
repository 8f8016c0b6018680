//! `way label`

use std::collections::BTreeMap;
use std::process::ExitCode;

use serde_json::json;
use waypost_core::Result;
use waypost_core::ledger::change::{self, Edit};

use crate::cli::Cx;
use crate::cli::ui::{BOLD, cell, styled};

/// Put labels on issues, take them off, list them
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Put labels on an issue
    Add(Labels),
    /// Take labels off an issue
    #[command(visible_alias = "remove")]
    Rm(Labels),
    /// List all labels of issues that are not closed, and how many have them
    #[command(visible_alias = "ls")]
    List,
}

#[derive(clap::Args)]
struct Labels {
    /// The issue: an id, or the beginning of one
    #[arg(value_name = "ISSUE")]
    issue: String,
    /// The labels
    #[arg(required = true, value_name = "LABEL")]
    labels: Vec<String>,
}

pub(crate) fn run(cx: &mut Cx, args: &Args) -> Result<ExitCode> {
    match &args.command {
        Command::Add(Labels { issue, labels }) => {
            change_labels(cx, issue, &Edit { add_labels: labels.clone(), ..Edit::default() })
        }
        Command::Rm(Labels { issue, labels }) => {
            change_labels(cx, issue, &Edit { remove_labels: labels.clone(), ..Edit::default() })
        }
        Command::List => list(cx),
    }
}

fn change_labels(cx: &mut Cx, issue: &str, edit: &Edit) -> Result<ExitCode> {
    let desk = cx.desk()?;
    let records =
        desk.edit_each(&[issue.to_owned()], |record, author, statuses| change::update(record, edit, statuses, author))?;
    cx.answer_changed(&desk, "Labelled", &records)?;
    Ok(ExitCode::SUCCESS)
}

fn list(cx: &mut Cx) -> Result<ExitCode> {
    let desk = cx.desk()?;
    let snapshot = cx.snapshot(&desk)?;
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for entry in snapshot.entries().filter(|entry| !desk.ledger.statuses.category(&entry.issue.status).is_over()) {
        for label in &entry.issue.labels {
            *counts.entry(label).or_default() += 1;
        }
    }
    let data: Vec<_> = counts.iter().map(|(label, count)| json!({ "label": label, "count": count })).collect();
    cx.ui.answer(&data, |text| {
        text.table(&counts.iter().map(|(label, count)| vec![styled(BOLD, label), cell(count)]).collect::<Vec<_>>());
    })?;
    Ok(ExitCode::SUCCESS)
}
