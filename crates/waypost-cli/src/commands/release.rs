//! `way release`

use std::process::ExitCode;

use waypost_core::Result;

use crate::CommandContext;
use crate::issues::ids;
use waypost::issues::ledger::Change;

/// Release issues that you claimed
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way release way-1a2b")]
pub(crate) struct Args {
    /// Issue ids, or unique prefixes of them; - to read ids from standard input
    #[arg(required = true, value_name = "ISSUE")]
    issues: Vec<String>,
    /// Release even if another agent holds the issue
    #[arg(long)]
    force: bool,
}

impl Args {
    pub(crate) fn changes(&self) -> Result<Vec<Change>> {
        Ok(ids(&self.issues)?.into_iter().map(|id| Change::Release(id, self.force)).collect())
    }
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    cx.change(&args.changes()?, "Released")?;
    Ok(ExitCode::SUCCESS)
}
