//! `way delete`

use std::process::ExitCode;

use waypost_core::Result;
use waypost_core::ledger::change;

use crate::cli::Cx;

/// Delete issues: a tombstone stays, so that no merge brings them back
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The issues: ids, or the beginnings of ids
    #[arg(required = true, value_name = "ISSUE")]
    issues: Vec<String>,
    /// Why
    #[arg(short, long, value_name = "TEXT")]
    reason: Option<String>,
}

pub(crate) fn run(cx: &mut Cx, args: &Args) -> Result<ExitCode> {
    let desk = cx.desk()?;
    let records =
        desk.edit_each(&args.issues, |record, author, _| change::delete(record, args.reason.as_deref(), author))?;
    cx.answer_changed(&desk, "Deleted", &records)?;
    Ok(ExitCode::SUCCESS)
}
