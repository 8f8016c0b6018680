//! `way reopen`

use std::process::ExitCode;

use waypost_core::Result;

use crate::cli::Cx;
use crate::cli::issues::ids;
use crate::ledger::Change;

/// Open closed or deleted issues again
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The issues: ids, or the beginnings of ids; - for standard input
    #[arg(required = true, value_name = "ISSUE")]
    issues: Vec<String>,
}

impl Args {
    pub(crate) fn changes(&self) -> Result<Vec<Change>> {
        Ok(ids(&self.issues)?.into_iter().map(Change::Reopen).collect())
    }
}

pub(crate) fn run(cx: &mut Cx, args: &Args) -> Result<ExitCode> {
    cx.change(&args.changes()?, "Opened")?;
    Ok(ExitCode::SUCCESS)
}
