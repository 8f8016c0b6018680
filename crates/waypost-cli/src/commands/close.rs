//! `way close`

use std::process::ExitCode;

use waypost_core::Result;

use crate::CommandContext;
use crate::issues::ids;
use waypost::ledger::{Change, IndexedIssue};

/// Close issues; those that waited for them may be ready then
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The issues: ids, or the beginnings of ids; - for standard input
    #[arg(required = true, value_name = "ISSUE")]
    issues: Vec<String>,
    /// Why
    #[arg(short, long, value_name = "TEXT")]
    reason: Option<String>,
    /// Do it although another agent holds the issue
    #[arg(long)]
    force: bool,
}

impl Args {
    pub(crate) fn changes(&self) -> Result<Vec<Change>> {
        let close = |id| Change::Close(id, self.reason.clone()).forced(self.force);
        Ok(ids(&self.issues)?.into_iter().map(close).collect())
    }
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    let changes = args.changes()?;
    let ledger_cx = cx.open_ledgers()?;
    let before = ledger_cx.ledger.with_index(|index| {
        let named =
            changes.iter().filter_map(|change| if let Change::Close(id, _) = change.plain() { Some(id) } else { None });
        // What is not there, the change itself complains about.
        let found = named.filter_map(|id| index.get_by_prefix(id).ok());
        let is_over = |entry: &IndexedIssue| ledger_cx.ledger.terms().statuses.category(&entry.issue.status).is_over();
        Ok(found.filter(is_over).map(|entry| entry.issue.id).collect::<Vec<String>>())
    })?;
    let records = ledger_cx.apply(&changes)?;
    cx.prune_if_large(&ledger_cx);
    let verb = |id: &str| if before.iter().any(|known| known == id) { "Already closed" } else { "Closed" };
    cx.answer_each(&ledger_cx, verb, &records)?;
    Ok(ExitCode::SUCCESS)
}
