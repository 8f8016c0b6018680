//! `way assign`

use std::process::ExitCode;

use waypost_core::Result;

use crate::CommandContext;
use crate::issues::ids;
use waypost::issues::ledger::{Change, Edit};

/// Assign an issue, without changing its status
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way assign way-1a2b me
  way assign way-1a2b ''                        unassign it")]
pub(crate) struct Args {
    /// Issue id, or a unique prefix of it; - to read ids from standard input
    #[arg(value_name = "ISSUE")]
    issue: String,
    /// Assignee; '' to unassign
    name: String,
}

impl Args {
    pub(crate) fn changes(&self) -> Result<Vec<Change>> {
        let edit = Edit { assignee: Some(self.name.clone()), ..Edit::default() };
        let ids = ids(std::slice::from_ref(&self.issue))?;
        Ok(ids.into_iter().map(|id| Change::Update(id, edit.clone())).collect())
    }
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    cx.change(&args.changes()?, "Assigned")?;
    Ok(ExitCode::SUCCESS)
}
