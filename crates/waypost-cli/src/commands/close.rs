//! `way close`

use std::process::ExitCode;

use waypost_core::Result;

use crate::CommandContext;
use crate::issues::ids;
use waypost::ledger::{Change, IndexedIssue};

/// Close issues; issues they blocked may become ready
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way close way-1a2b --reason 'The login works again'
  way close way-1a2b way-3c4d")]
pub(crate) struct Args {
    /// Issue ids, or unique prefixes of them; - to read ids from standard input
    #[arg(required = true, value_name = "ISSUE")]
    issues: Vec<String>,
    /// Reason to record
    #[arg(short, long, value_name = "TEXT")]
    reason: Option<String>,
    /// Close even if another agent holds the issue
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
        // Applying the change reports unknown issues.
        let found = named.filter_map(|id| index.get_by_prefix(id).ok());
        let is_over = |entry: &IndexedIssue| ledger_cx.ledger.terms().statuses.category(&entry.issue.status).is_over();
        Ok(found.filter(is_over).map(|entry| entry.issue.id).collect::<Vec<String>>())
    })?;
    let records = cx.apply(&ledger_cx, &changes)?;
    let verb = |id: &str| if before.iter().any(|known| known == id) { "Already closed" } else { "Closed" };
    cx.answer_each(&ledger_cx, verb, &records)?;
    Ok(ExitCode::SUCCESS)
}
