//! `way resolve`

use std::process::ExitCode;

use serde_json::json;
use waypost_core::{Error, Kind, Result, path_text};

use crate::CommandContext;
use waypost::merge_driver::resolve;

/// Merge the versions that conflict markers left in the ledger; exits with 6 if there are none
///
/// No version loses: what was changed on one side is taken, and where both sides changed the same, the later change is,
/// with the other one in a comment.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way resolve
  way resolve --stage && git merge --continue")]
pub(crate) struct Args {
    /// Tell git that the ledger is merged: git add of this file alone
    #[arg(long)]
    stage: bool,
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    let ledger_cx = cx.open_ledgers()?;
    let Some(resolved) = resolve(&ledger_cx.place, &ledger_cx.ledger, args.stage)? else {
        return Err(Error::new(Kind::NothingToDo, "the ledger has no conflict markers"));
    };
    let path = &resolved.path;
    let data = json!({
        "path": path_text::to_text(path),
        "merged": resolved.merged,
        "staged": resolved.is_staged,
        "next": resolved.next,
    });
    cx.ui.answer(&data, |text| {
        match resolved.merged {
            Some(1) => text.line(format!("Merged 1 issue in {}", path.display())),
            Some(count) => text.line(format!("Merged {count} issues in {}", path.display())),
            None => text.line(format!("There are no conflict markers in {}", path.display())),
        }
        if resolved.is_staged {
            text.line("Git knows that it is merged.");
        }
        if let Some(next) = &resolved.next {
            text.line(format!("To go on: {next}"));
        }
    })?;
    Ok(ExitCode::SUCCESS)
}
