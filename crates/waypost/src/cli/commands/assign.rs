//! `way assign`

use std::process::ExitCode;

use waypost_core::Result;
use waypost_core::ledger::change::{self, Edit};

use crate::cli::Cx;

/// Say who does an issue, without starting it
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The issue: an id, or the beginning of one
    #[arg(value_name = "ISSUE")]
    issue: String,
    /// Who does it; an empty text means nobody
    name: String,
}

pub(crate) fn run(cx: &mut Cx, args: &Args) -> Result<ExitCode> {
    let desk = cx.desk()?;
    let edit = Edit { assignee: Some(args.name.clone()), ..Edit::default() };
    let records = desk.edit_each(std::slice::from_ref(&args.issue), |record, author, statuses| {
        change::update(record, &edit, statuses, author)
    })?;
    cx.answer_changed(&desk, "Assigned", &records)?;
    Ok(ExitCode::SUCCESS)
}
