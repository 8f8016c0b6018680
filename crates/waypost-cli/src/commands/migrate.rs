//! `way migrate`

use std::process::ExitCode;

use serde_json::json;
use waypost_core::{Kind, Result};

use crate::CommandContext;
use crate::issues::target;
use crate::ui::{BOLD, cell, styled};
use waypost::move_issues::{Which, migrate};

/// Move issues from one ledger to another; exits with 6 if none match
///
/// Writes the issues to the target before removing them from the source. Moves from all configured ledgers, or with --repo
/// from one.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way migrate --move-to ~/.waypost-planning --filter \"author=me status=open\" --dry-run
  way migrate --move-to ../docs --filter label=docs --repo .")]
pub(crate) struct Args {
    /// Target repository: a path, or the name of a configured repository
    #[arg(long, value_name = "REPO")]
    move_to: String,
    /// Conditions that must all match: author=NAME|me, status=, label=, type=, priority=, assignee=, id=
    #[arg(long, value_name = "FILTER")]
    filter: String,
    /// Show what would be moved, without writing
    #[arg(long)]
    dry_run: bool,
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    let from = cx.global.repo.take();
    let ledger_cx = cx.open_ledgers_to_change(&[Some(args.move_to.as_str()), from.as_deref()], args.dry_run)?;
    let to = target(&ledger_cx, Some(&args.move_to))?;
    let from = from.as_deref().map(|from| target(&ledger_cx, Some(from))).transpose()?;
    let which = Which::parse(&args.filter, ledger_cx.ledger.actor())?;
    let moved = migrate(&ledger_cx.ledger, from, to, &which, args.dry_run)?;
    let ids: Vec<&str> = moved.iter().map(|entry| entry.issue.id.as_str()).collect();
    cx.ui.answer(&json!({ "moved": ids, "written": !args.dry_run }), |text| {
        let row = |entry: &waypost_ledger::IndexedIssue| vec![styled(BOLD, &entry.issue.id), cell(&entry.issue.title)];
        text.table(&moved.iter().map(row).collect::<Vec<_>>());
    })?;
    match (moved.len(), args.dry_run) {
        (0, _) => {
            cx.ui.note("no matching issues");
            return Ok(ExitCode::from(Kind::NothingToDo.exit_code()));
        }
        (count, true) => cx.ui.note(&format!("{count} would be moved; nothing was written")),
        (count, false) => cx.ui.note(&format!("{count} moved")),
    }
    Ok(ExitCode::SUCCESS)
}
