//! `way release`

use std::process::ExitCode;

use waypost_core::Result;
use waypost_core::ledger::change;

use crate::cli::Cx;

/// Give issues back that you claimed
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The issues: ids, or the beginnings of ids
    #[arg(required = true, value_name = "ISSUE")]
    issues: Vec<String>,
    /// Take it from somebody else
    #[arg(long)]
    force: bool,
}

pub(crate) fn run(cx: &mut Cx, args: &Args) -> Result<ExitCode> {
    let desk = cx.desk()?;
    let records =
        desk.edit_each(&args.issues, |record, author, statuses| change::release(record, args.force, statuses, author))?;
    cx.answer_changed(&desk, "Released", &records)?;
    Ok(ExitCode::SUCCESS)
}
