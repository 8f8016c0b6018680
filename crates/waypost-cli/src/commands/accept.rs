//! `way accept`

use std::process::ExitCode;

use waypost_core::Result;

use crate::CommandContext;
use waypost::proposals::accept;

/// Accept a proposal, as a maintainer: it is everybody's issue from now on
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The issue: an id, or the beginning of one
    #[arg(value_name = "ISSUE")]
    issue: String,
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    let desk = cx.desk()?;
    let accepted = accept(&desk.place, &desk.ledger, &args.issue)?;
    cx.answer_changed(&desk, "Accepted", &[accepted])?;
    Ok(ExitCode::SUCCESS)
}
