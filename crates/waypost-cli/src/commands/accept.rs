//! `way accept`

use std::process::ExitCode;

use waypost_core::Result;

use crate::CommandContext;

/// Accept a proposal as a maintainer; it becomes a regular issue of the project
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way accept way-1a2b")]
pub(crate) struct Args {
    /// Issue id, or a unique prefix of it
    #[arg(value_name = "ISSUE")]
    issue: String,
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    let ledger_cx = cx.open_ledgers_to_change()?;
    let accepted = ledger_cx.accept(&args.issue)?;
    cx.answer_changed(&ledger_cx, "Accepted", &[accepted])?;
    Ok(ExitCode::SUCCESS)
}
