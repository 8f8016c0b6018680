//! `way reopen`

use std::process::ExitCode;

use waypost_core::Result;
use waypost_core::ledger::change;

use crate::cli::Cx;

/// Open closed or deleted issues again
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The issues: ids, or the beginnings of ids
    #[arg(required = true, value_name = "ISSUE")]
    issues: Vec<String>,
}

pub(crate) fn run(cx: &mut Cx, args: &Args) -> Result<ExitCode> {
    let desk = cx.desk()?;
    let records = desk.edit_each(&args.issues, |record, author, statuses| change::reopen(record, statuses, author))?;
    cx.answer_changed(&desk, "Opened", &records)?;
    Ok(ExitCode::SUCCESS)
}
