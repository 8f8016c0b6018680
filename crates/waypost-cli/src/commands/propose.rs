//! `way propose`

use std::process::ExitCode;

use waypost_core::Result;

use crate::CommandContext;
use waypost::proposals::propose;

/// Propose an issue of your planning to a project: it is copied into the project's ledger, for you to commit
///
/// The copy is one line in the worktree you are in. Both copies say that it is proposed, and they are one issue. Proposed
/// again, both copies get the changes of either. If it was accepted meanwhile, the project's copy gets your changes.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The issue: an id, or the beginning of one
    #[arg(value_name = "ISSUE")]
    issue: String,
    /// The repository to propose it to; by default the one you are in
    #[arg(long, value_name = "REPO")]
    target: Option<String>,
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    let ledger_cx = cx.open_ledgers()?;
    let target = ledger_cx.target(args.target.as_deref())?;
    let record = propose(&ledger_cx.place, &ledger_cx.ledger, &args.issue, target)?;
    cx.answer_changed(&ledger_cx, "Proposed", &[(record, target)])?;
    cx.ui.note("commit the ledger with your change to propose it");
    Ok(ExitCode::SUCCESS)
}
