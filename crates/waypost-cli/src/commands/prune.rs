//! `way prune`

use std::process::ExitCode;

use serde_json::json;
use waypost_core::words::count;
use waypost_core::{Kind, Result};

use crate::CommandContext;
use crate::ui::{BOLD, DIM, header, prose, styled};
use waypost::issues::{PrunePlan, Pruned, ensure_driver, prune};
use waypost_core::ledger::issue::parse_time_ago;

/// Remove old closed issues from the ledger; exits with 6 if there are none
///
/// Keeps issues that an open issue depends on and issues that are not committed. Version control keeps the removed ones,
/// and way show finds them there.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way prune --dry-run
  way prune --closed-before 30d --keep 20")]
pub(crate) struct Args {
    /// Remove issues closed before this day, time or age
    #[arg(long, value_name = "TIME", default_value = "14d")]
    closed_before: String,
    /// Number of most recently closed issues to keep
    #[arg(long, value_name = "N", default_value_t = 0)]
    keep: usize,
    /// Show what would be removed, without writing
    #[arg(long)]
    dry_run: bool,
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    let ledger_cx = cx.open_ledgers_to_change_with(&[], args.dry_run)?;
    let plan = PrunePlan {
        before: parse_time_ago(&args.closed_before, ledger_cx.now)?,
        keep: args.keep,
        down_to: None,
        dry_run: args.dry_run,
    };
    let busy = cx.ui.busy("Pruning the ledger");
    let mut pruned = Pruned { issues: Vec::new(), uncommitted: 0 };
    for number in ledger_cx.ledger.numbers() {
        let one = prune(&ledger_cx.ledger, number, plan)?;
        pruned.uncommitted += one.uncommitted;
        pruned.issues.extend(one.issues);
    }
    ensure_driver(&ledger_cx.place);
    drop(busy);
    if pruned.uncommitted > 0 {
        cx.ui.warn(&format!("kept {} with uncommitted changes", count(pruned.uncommitted, "more issue")));
    }
    let ids: Vec<&str> = pruned.issues.iter().map(|entry| entry.issue.id.as_str()).collect();
    cx.ui.answer(&json!({ "pruned": ids, "uncommitted": pruned.uncommitted, "written": !args.dry_run }), |text| {
        let rows = pruned.issues.iter().map(|entry| {
            let closed = entry.issue.closed_at.map(|closed| closed.to_string()).unwrap_or_default();
            vec![styled(BOLD, &entry.issue.id), styled(DIM, closed), prose(&entry.issue.title)]
        });
        text.list(header(["ID", "CLOSED", "TITLE"]), rows);
    })?;
    match (pruned.issues.len(), args.dry_run) {
        (0, _) => {
            cx.ui.note("nothing to prune: no issue was closed that long ago");
            return Ok(ExitCode::from(Kind::NothingToDo.exit_code()));
        }
        (number, true) => cx.ui.note(&format!("{} would be removed; nothing was written", count(number, "issue"))),
        (number, false) => {
            cx.ui.note(&format!("{} removed; way show finds them in version control", count(number, "issue")));
        }
    }
    Ok(ExitCode::SUCCESS)
}
