//! `way delete`

use std::process::ExitCode;

use waypost_core::Result;

use crate::cli::Cx;
use crate::cli::issues::ids;
use crate::ledger::Change;

/// Delete issues: a tombstone stays, so that no merge brings them back
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The issues: ids, or the beginnings of ids; - for standard input
    #[arg(required = true, value_name = "ISSUE")]
    issues: Vec<String>,
    /// Why
    #[arg(short, long, value_name = "TEXT")]
    reason: Option<String>,
}

impl Args {
    pub(crate) fn changes(&self) -> Result<Vec<Change>> {
        Ok(ids(&self.issues)?.into_iter().map(|id| Change::Delete(id, self.reason.clone())).collect())
    }
}

pub(crate) fn run(cx: &mut Cx, args: &Args) -> Result<ExitCode> {
    cx.change(&args.changes()?, "Deleted")?;
    Ok(ExitCode::SUCCESS)
}
