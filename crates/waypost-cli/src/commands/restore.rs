//! `way restore`

use std::process::ExitCode;

use serde_json::json;
use waypost_core::{Error, Kind, Result};

use crate::CommandContext;

/// Write again what another program took back from the ledger; exits with 6 if nothing was taken back
///
/// A change of an issue is kept until a commit or a stash has it. If another program writes an older version of the ledger,
/// as `git checkout -- .` does, lists show the change nevertheless, and the next change writes it again. This command
/// writes it now, or discards it.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way restore
  way restore --drop        after git checkout -- . on purpose")]
pub(crate) struct Args {
    /// Discard the changes that were taken back: the ledger stays as it is now
    #[arg(long)]
    drop: bool,
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    let ledger_cx = cx.open_ledgers_to_change()?;
    let ledger = &ledger_cx.ledger;
    let mut issues = Vec::new();
    for number in ledger.numbers() {
        let taken_back = ledger.taken_back(number)?;
        if taken_back.is_empty() {
            continue;
        }
        if args.drop {
            ledger.drop_kept(number)?;
        } else {
            ledger.put_back(number)?;
        }
        issues.extend(taken_back);
    }
    if issues.is_empty() {
        return Err(Error::new(Kind::NothingToDo, "no other program took back a change"));
    }
    let listed: Vec<_> = issues.iter().map(|(id, title)| json!({ "id": id, "title": title })).collect();
    cx.ui.answer(&json!({ "issues": listed, "dropped": args.drop }), |text| {
        let done = if args.drop { "Discarded" } else { "Restored" };
        for (id, title) in &issues {
            match title {
                Some(title) => text.line(format!("{done} {id} {title}")),
                None => text.line(format!("{done} the removal of {id}")),
            }
        }
    })?;
    Ok(ExitCode::SUCCESS)
}
