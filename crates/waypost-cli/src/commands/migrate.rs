//! `way migrate`

use std::process::ExitCode;

use serde_json::json;
use waypost_core::words::count;
use waypost_core::{Error, Kind, Result, path_text};

use crate::CommandContext;
use crate::ui::{BOLD, header, prose, styled};
use waypost::issues::{Which, change_home, ensure_driver, migrate_issues};
use waypost::machine::place::LedgerHome;

/// Move issues to another ledger, or a ledger to another home; exits with 6 if no issue matches
///
/// Writes the issues to the target before removing them from the source. Moves from all configured ledgers, or with --repo
/// from one.
///
/// With --home, moves the whole ledger of this repository and keeps its history: to the main worktree (main), to each
/// worktree (branch), or to a branch of its own (separate), which no worktree has checked out. The setting is written to the
/// tracked configuration for you to commit; way sync shares the issues.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way migrate --move-to ~/.waypost-planning --filter \"author=me status=open\" --dry-run
  way migrate --move-to ../docs --filter label=docs --repo .
  way migrate --home separate")]
pub(crate) struct Args {
    /// Target repository: a path, or the name of a configured repository
    #[arg(long, value_name = "REPO", required_unless_present = "home", requires = "filter")]
    move_to: Option<String>,
    /// Conditions that must all match: author=NAME|me, status=, label=, type=, priority=, assignee=, id=
    #[arg(long, value_name = "FILTER", requires = "move_to")]
    filter: Option<String>,
    /// Home of the whole ledger: main, branch or separate
    #[arg(long, value_name = "HOME", conflicts_with_all = ["move_to", "filter"])]
    home: Option<LedgerHome>,
    /// Show what would be moved, without writing
    #[arg(long)]
    dry_run: bool,
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    if let Some(home) = args.home {
        return move_home(cx, home, args.dry_run);
    }
    let (move_to, filter) = (args.move_to.as_deref().unwrap_or_default(), args.filter.as_deref().unwrap_or_default());
    let from = cx.global.repo.take();
    let ledger_cx = cx.open_ledgers_to_change_with(&[Some(move_to), from.as_deref()], args.dry_run)?;
    let to = ledger_cx.target(Some(move_to))?;
    let from = from.as_deref().map(|from| ledger_cx.target(Some(from))).transpose()?;
    let which = Which::parse(filter, ledger_cx.ledger.actor())?;
    let busy = cx.ui.busy("Moving issues");
    let moved = migrate_issues(&ledger_cx.ledger, from, to, &which, args.dry_run)?;
    drop(busy);
    let ids: Vec<&str> = moved.iter().map(|entry| entry.issue.id.as_str()).collect();
    cx.ui.answer(&json!({ "moved": ids, "written": !args.dry_run }), |text| {
        let row = |entry: &waypost_ledger::IndexedIssue| vec![styled(BOLD, &entry.issue.id), prose(&entry.issue.title)];
        text.list(header(["ID", "TITLE"]), moved.iter().map(row));
    })?;
    match (moved.len(), args.dry_run) {
        (0, _) => {
            cx.ui.note("no matching issues; way list shows what there is");
            return Ok(ExitCode::from(Kind::NothingToDo.exit_code()));
        }
        (number, true) => cx.ui.note(&format!("{} would be moved; nothing was written", count(number, "issue"))),
        (number, false) => cx.ui.note(&format!("{} moved", count(number, "issue"))),
    }
    Ok(ExitCode::SUCCESS)
}

/// Moves the whole ledger to another home.
fn move_home(cx: &mut CommandContext, home: LedgerHome, dry_run: bool) -> Result<ExitCode> {
    if cx.global.repo.is_some() {
        return Err(Error::invalid("--home moves the ledger of the repository that you are in")
            .hint("use -C PATH instead of --repo"));
    }
    let place = cx.place()?;
    let busy = cx.ui.busy("Moving the ledger");
    if !dry_run {
        // Other clones may write to the former home until they know of the move.
        ensure_driver(&place);
    }
    let moved = change_home(&place, home, dry_run)?;
    drop(busy);
    let texts = |paths: &[std::path::PathBuf]| paths.iter().map(|path| path_text::to_text(path)).collect::<Vec<_>>();
    let data = json!({
        "from": moved.from,
        "home": moved.to,
        "ledger": path_text::to_text(&moved.path),
        "issues": moved.issues,
        "removed": texts(&moved.removed),
        "to_commit": texts(&moved.to_commit),
        "written": !dry_run,
    });
    cx.ui.answer(&data, |text| {
        let verb = if dry_run { "Would move" } else { "Moved" };
        text.line(format!("{verb} the ledger from {} to {}: {}", moved.from, moved.to, moved.path.display()));
        for path in &moved.to_commit {
            text.line(format!("To commit: {}", path.display()));
        }
        if moved.to == LedgerHome::Separate && !dry_run {
            text.line("way sync commits and pushes the branch waypost.");
        }
    })?;
    Ok(ExitCode::SUCCESS)
}
