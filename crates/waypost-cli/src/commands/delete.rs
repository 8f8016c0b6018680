//! `way delete`

use std::process::ExitCode;

use waypost_core::Result;

use crate::CommandContext;
use crate::issues::ids;
use waypost::ledger::Change;

/// Delete issues: a tombstone stays, so that no merge brings them back
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The issues: ids, or the beginnings of ids; - for standard input
    #[arg(required = true, value_name = "ISSUE")]
    issues: Vec<String>,
    /// Why
    #[arg(short, long, value_name = "TEXT")]
    reason: Option<String>,
    /// Do it although another agent holds the issue
    #[arg(long)]
    force: bool,
}

impl Args {
    pub(crate) fn changes(&self) -> Result<Vec<Change>> {
        let delete = |id| Change::Delete(id, self.reason.clone()).forced(self.force);
        Ok(ids(&self.issues)?.into_iter().map(delete).collect())
    }
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    cx.change(&args.changes()?, "Deleted")?;
    Ok(ExitCode::SUCCESS)
}
