//! `way close`

use std::process::ExitCode;

use waypost_core::Result;

use crate::CommandContext;
use crate::issues::ids;
use waypost::issues::ledger::Change;

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
    let ledger_cx = cx.open_ledgers_to_change()?;
    let unplaced: Vec<(&str, &Change)> = changes.iter().map(|change| ("", change)).collect();
    let outcome = cx.apply_placed(&ledger_cx, &unplaced, false)?;
    let verb = |id: &str| if outcome.over.contains(id) { "Already closed" } else { "Closed" };
    cx.answer_each(&ledger_cx, verb, &outcome.records)?;
    Ok(ExitCode::SUCCESS)
}
