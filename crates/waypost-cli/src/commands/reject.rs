//! `way reject`

use std::process::ExitCode;

use waypost_core::Result;

use crate::CommandContext;

/// Reject a proposal as a maintainer; closes it, and the proposer sees the reason
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way reject way-1a2b --reason 'Out of scope'")]
pub(crate) struct Args {
    /// Issue id, or a unique prefix of it
    #[arg(value_name = "ISSUE")]
    issue: String,
    /// Reason to record
    #[arg(short, long, value_name = "TEXT")]
    reason: String,
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    let ledger_cx = cx.open_ledgers_to_change()?;
    let rejected = ledger_cx.reject(&args.issue, &args.reason)?;
    cx.answer_changed(&ledger_cx, "Rejected", &[rejected])?;
    Ok(ExitCode::SUCCESS)
}
