//! `way claim`

use std::process::ExitCode;

use waypost_core::Result;

use crate::cli::Cx;
use crate::ledger::Change;

/// Take an issue to work on: the one that is named, else the first that is ready
///
/// Of several who claim one issue at once, one gets it and the others are told who.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The issue: an id, or the beginning of one
    #[arg(value_name = "ISSUE")]
    issue: Option<String>,
}

impl Args {
    #[expect(clippy::unnecessary_wraps, reason = "as the other commands")]
    pub(crate) fn changes(&self) -> Result<Vec<Change>> {
        Ok(vec![Change::Claim(self.issue.clone())])
    }
}

pub(crate) fn run(cx: &mut Cx, args: &Args) -> Result<ExitCode> {
    cx.change(&args.changes()?, "Claimed")?;
    Ok(ExitCode::SUCCESS)
}
