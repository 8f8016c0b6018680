//! `way withdraw`

use std::process::ExitCode;

use waypost_core::Result;

use crate::CommandContext;
use waypost::proposals::withdraw;

/// Take a proposal back: its copy leaves the project's ledger, and yours is local again
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The issue: an id, or the beginning of one
    #[arg(value_name = "ISSUE")]
    issue: String,
    /// The repository it was proposed to; by default the one you are in
    #[arg(long, value_name = "REPO")]
    target: Option<String>,
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    let ledger_cx = cx.open_ledgers()?;
    let target = ledger_cx.target(args.target.as_deref())?;
    let record = withdraw(&ledger_cx.place, &ledger_cx.ledger, &args.issue, target)?;
    cx.answer_changed(&ledger_cx, "Withdrawn", &[(record, ledger_cx.ledger.route().number)])?;
    Ok(ExitCode::SUCCESS)
}
