//! `way label`

use std::process::ExitCode;

use serde_json::json;
use waypost_core::Result;

use crate::CommandContext;
use crate::issues::ids;
use crate::ui::{BOLD, cell, styled};
use waypost::ledger::{Change, Edit};

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
    /// The issue: an id, or the beginning of one; - for standard input
    #[arg(value_name = "ISSUE")]
    issue: String,
    /// The labels
    #[arg(required = true, value_name = "LABEL")]
    labels: Vec<String>,
}

impl Args {
    /// Returns what is to be changed; nothing, if something is only asked.
    pub(crate) fn changes(&self) -> Result<Vec<Change>> {
        let (issue, edit) = match &self.command {
            Command::Add(Labels { issue, labels }) => (issue, Edit { add_labels: labels.clone(), ..Edit::default() }),
            Command::Rm(Labels { issue, labels }) => (issue, Edit { remove_labels: labels.clone(), ..Edit::default() }),
            Command::List => return Ok(Vec::new()),
        };
        let ids = ids(std::slice::from_ref(issue))?;
        Ok(ids.into_iter().map(|id| Change::Update(id, edit.clone())).collect())
    }
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    match args.changes()?.as_slice() {
        [] => list(cx)?,
        changes => cx.change(changes, "Labelled")?,
    }
    Ok(ExitCode::SUCCESS)
}

fn list(cx: &mut CommandContext) -> Result<()> {
    let ledger_cx = cx.open_ledgers()?;
    let counts = cx.with_index(&ledger_cx, waypost_ledger::Index::labels)?;
    let data: Vec<_> = counts.iter().map(|(label, count)| json!({ "label": label, "count": count })).collect();
    cx.ui.answer(&data, |text| {
        text.table(&counts.iter().map(|(label, count)| vec![styled(BOLD, label), cell(count)]).collect::<Vec<_>>());
    })
}
