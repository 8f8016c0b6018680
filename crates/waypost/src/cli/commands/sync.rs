//! `way sync`

use std::process::ExitCode;

use serde_json::json;
use waypost_core::Result;

use crate::cli::Cx;
use crate::cli::escape::escape;
use crate::sync::{Options, sync};

/// Bring the ledger together with that of the remote: fetch, merge, commit, push
///
/// Only the ledger is committed, and only commits of the ledger are pushed. Other files, staged or not, the branch one
/// is on, stashes and unpushed commits stay as they are.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way sync
  way sync --dry-run
  way sync --no-push")]
pub(crate) struct Args {
    /// Show every command that would be run, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Fetch, merge and commit, but push nothing
    #[arg(long)]
    no_push: bool,
}

pub(crate) fn run(cx: &mut Cx, args: &Args) -> Result<ExitCode> {
    let place = cx.place()?;
    let options = Options { push: !args.no_push, is_rehearsal: args.dry_run };
    let synced = {
        let ui = &cx.ui;
        // A closed stdout is said with the answer.
        sync(&place, options, &|step| drop(ui.progress(&escape(step))))?
    };
    for note in &synced.notes {
        if cx.ui.json {
            cx.ui.warn(note);
        } else {
            cx.ui.note(note);
        }
    }
    let data = json!({
        "upstream": synced.upstream,
        "merged": synced.is_merged,
        "committed": synced.committed,
        "pushed": synced.pushed,
        "commands": args.dry_run.then_some(&synced.commands),
    });
    cx.ui.answer(&data, |text| {
        for command in &synced.commands {
            text.line(command);
        }
        if args.dry_run {
            return;
        }
        match (&synced.committed, &synced.pushed) {
            (Some(commit), Some(_)) => text.line(format!("Committed and pushed the ledger as {}", short(commit))),
            (Some(commit), None) => text.line(format!("Committed the ledger as {}", short(commit))),
            (None, Some(commit)) => text.line(format!("Pushed the ledger as {}", short(commit))),
            (None, None) if synced.is_merged => text.line("The ledger has what the remote has now"),
            (None, None) => text.line("The ledger was in sync already"),
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

fn short(commit: &str) -> &str {
    commit.get(..12).unwrap_or(commit)
}
