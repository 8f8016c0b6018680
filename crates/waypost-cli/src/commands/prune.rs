//! `way prune`

use std::process::ExitCode;

use serde_json::json;
use waypost_core::{Kind, Result};

use crate::CommandContext;
use crate::issues::parse_time_ago;
use crate::ui::{BOLD, DIM, cell, styled};
use waypost::merge_driver::ensure_driver;
use waypost::prune::{Plan, Pruned, prune};

/// Take closed issues out of the ledger that nothing open depends on; exits with 6 if there are none
///
/// Version control keeps them, and way show finds them there. Only what is committed is taken out.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way prune --dry-run
  way prune --closed-before 30d --keep 20")]
pub(crate) struct Args {
    /// Those closed before a day, a time, or this long ago
    #[arg(long, value_name = "TIME", default_value = "14d")]
    closed_before: String,
    /// Keep this many of those that were closed last
    #[arg(long, value_name = "N", default_value_t = 0)]
    keep: usize,
    /// Show what would be taken out, and write nothing
    #[arg(long)]
    dry_run: bool,
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    let ledger_cx = cx.open_ledgers()?;
    let plan = Plan {
        before: parse_time_ago(&args.closed_before, ledger_cx.now)?,
        keep: args.keep,
        down_to: None,
        is_rehearsal: args.dry_run,
    };
    let mut pruned = Pruned { issues: Vec::new(), uncommitted: 0 };
    for number in ledger_cx.ledger.numbers() {
        let one = prune(&ledger_cx.ledger, number, plan)?;
        pruned.uncommitted += one.uncommitted;
        pruned.issues.extend(one.issues);
    }
    ensure_driver(&ledger_cx.place);
    if pruned.uncommitted > 0 {
        cx.ui.warn(&format!("{} more are not committed as they are, so they stay", pruned.uncommitted));
    }
    let ids: Vec<&str> = pruned.issues.iter().map(|entry| entry.issue.id.as_str()).collect();
    cx.ui.answer(&json!({ "pruned": ids, "uncommitted": pruned.uncommitted, "written": !args.dry_run }), |text| {
        let rows: Vec<_> = pruned
            .issues
            .iter()
            .map(|entry| {
                let closed = entry.issue.closed_at.map(|closed| closed.to_string()).unwrap_or_default();
                vec![styled(BOLD, &entry.issue.id), styled(DIM, closed), cell(&entry.issue.title)]
            })
            .collect();
        text.table(&rows);
    })?;
    match (pruned.issues.len(), args.dry_run) {
        (0, _) => {
            cx.ui.note("nothing to prune");
            return Ok(ExitCode::from(Kind::NothingToDo.exit_code()));
        }
        (count, true) => cx.ui.note(&format!("{count} would be taken out; nothing was written")),
        (count, false) => cx.ui.note(&format!("{count} taken out; way show finds them in version control")),
    }
    Ok(ExitCode::SUCCESS)
}
