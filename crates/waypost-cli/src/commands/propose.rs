//! `way propose`

use std::process::ExitCode;

use waypost_core::Result;

use crate::CommandContext;

/// Propose an issue of your planning repository to a project
///
/// Copies the issue to the project's ledger in the current worktree, for you to commit. Both copies are marked as proposed
/// and keep the same id. Proposing again merges the changes of both copies; if a maintainer accepted the issue meanwhile,
/// the project's copy gets your changes.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way propose way-1a2b
  way propose way-1a2b --target ../project")]
pub(crate) struct Args {
    /// Issue id, or a unique prefix of it
    #[arg(value_name = "ISSUE")]
    issue: String,
    /// Repository to propose it to [default: the current one]
    #[arg(long, value_name = "REPO")]
    target: Option<String>,
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    let ledger_cx = cx.open_ledgers_to_change()?;
    let proposed = ledger_cx.propose(&args.issue, args.target.as_deref())?;
    cx.answer_changed(&ledger_cx, "Proposed", &[proposed])?;
    cx.ui.note("commit the ledger together with your change to submit the proposal");
    Ok(ExitCode::SUCCESS)
}
