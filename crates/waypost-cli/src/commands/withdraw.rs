//! `way withdraw`

use std::process::ExitCode;

use waypost_core::Result;

use crate::CommandContext;

/// Withdraw a proposal: removes its copy from the project's ledger
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way withdraw way-1a2b")]
pub(crate) struct Args {
    /// Issue id, or a unique prefix of it
    #[arg(value_name = "ISSUE")]
    issue: String,
    /// Repository it was proposed to [default: the current one]
    #[arg(long, value_name = "REPO")]
    target: Option<String>,
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    let ledger_cx = cx.open_ledgers_to_change()?;
    let withdrawn = ledger_cx.withdraw(&args.issue, args.target.as_deref())?;
    cx.answer_changed(&ledger_cx, "Withdrawn", &[withdrawn])?;
    Ok(ExitCode::SUCCESS)
}
