//! `way release`

use std::process::ExitCode;

use waypost_core::Result;

use crate::CommandContext;
use crate::issues::ids;
use waypost::ledger::Change;

/// Give issues back that you claimed
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The issues: ids, or the beginnings of ids; - for standard input
    #[arg(required = true, value_name = "ISSUE")]
    issues: Vec<String>,
    /// Take it from somebody else
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
