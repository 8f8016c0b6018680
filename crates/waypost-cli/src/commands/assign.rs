//! `way assign`

use std::process::ExitCode;

use waypost_core::Result;

use crate::CommandContext;
use crate::issues::ids;
use waypost::ledger::{Change, Edit};

/// Say who does an issue, without starting it
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The issue: an id, or the beginning of one; - for standard input
    #[arg(value_name = "ISSUE")]
    issue: String,
    /// Who does it; an empty text means nobody
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
