//! `way resolve`

use std::process::ExitCode;

use serde_json::json;
use waypost_core::words::count;
use waypost_core::{Error, Kind, Result, path_text};

use crate::CommandContext;
use waypost::issues::resolve_conflicts;

/// Resolve conflict markers in the ledger; exits with 6 if there are none
///
/// Takes the changes of both sides. If both sides changed the same field, takes the later change and keeps the other one in
/// a comment.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way resolve
  way resolve --stage && git merge --continue")]
pub(crate) struct Args {
    /// Run git add on the ledger, and on nothing else
    #[arg(long)]
    stage: bool,
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    let ledger_cx = cx.open_ledgers_to_change()?;
    let Some(resolved) = resolve_conflicts(&ledger_cx.place, &ledger_cx.ledger, args.stage)? else {
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
            Some(merged) => text.line(format!("Merged {} in {}", count(merged, "issue"), path.display())),
            None => text.line(format!("No conflict markers in {}", path.display())),
        }
        if resolved.is_staged {
            text.line("Staged the ledger.");
        }
        if let Some(next) = &resolved.next {
            text.line(format!("To continue: {next}"));
        }
    })?;
    Ok(ExitCode::SUCCESS)
}
