//! `way delete`

use std::process::ExitCode;

use waypost_core::Result;

use crate::CommandContext;
use crate::issues::ids;
use waypost::issues::ledger::Change;

/// Delete issues, leaving tombstones so that no merge restores them
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way delete way-1a2b --reason 'A duplicate of way-3c4d'")]
pub(crate) struct Args {
    /// Issue ids, or unique prefixes of them; - to read ids from standard input
    #[arg(required = true, value_name = "ISSUE")]
    issues: Vec<String>,
    /// Reason to record
    #[arg(short, long, value_name = "TEXT")]
    reason: Option<String>,
    /// Delete even if another agent holds the issue
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
