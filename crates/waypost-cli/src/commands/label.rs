//! `way label`

use std::process::ExitCode;

use serde_json::json;
use waypost_core::Result;

use crate::CommandContext;
use crate::issues::ids;
use crate::ui::{BOLD, header, number, styled};
use waypost::issues::ledger::{Change, Edit};

/// Add, remove and list labels
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way label add way-1a2b api urgent
  way label list")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Add labels to an issue
    Add(Labels),
    /// Remove labels from an issue
    #[command(visible_alias = "remove")]
    Rm(Labels),
    /// List the labels of issues that are not closed, with counts
    #[command(visible_alias = "ls")]
    List,
}

#[derive(clap::Args)]
struct Labels {
    /// Issue id, or a unique prefix of it; - to read ids from standard input
    #[arg(value_name = "ISSUE")]
    issue: String,
    /// Labels
    #[arg(required = true, value_name = "LABEL")]
    labels: Vec<String>,
}

impl Args {
    /// Returns the changes; empty for a query.
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
    let counts = ledger_cx.with_index(waypost_ledger::Index::labels)?;
    let data: Vec<_> = counts.iter().map(|(label, count)| json!({ "label": label, "count": count })).collect();
    cx.ui.answer(&data, |text| {
        let rows = counts.iter().map(|(label, count)| vec![styled(BOLD, label), number(count)]);
        text.list(header(["LABEL", "ISSUES"]), rows);
    })?;
    if counts.is_empty() {
        cx.ui.note("no labels yet; to add one: way label add ISSUE LABEL");
    }
    Ok(())
}
