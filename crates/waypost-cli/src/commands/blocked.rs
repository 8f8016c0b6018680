//! `way blocked`

use std::process::ExitCode;

use serde_json::json;
use waypost_core::Result;

use crate::CommandContext;
use crate::ui::{BOLD, DIM, cell, header, prose, styled};
use waypost::issues::blocked;

/// List blocked issues with their blockers
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way blocked
  way blocked --json")]
pub(crate) struct Args {}

pub(crate) fn run(cx: &mut CommandContext, _args: &Args) -> Result<ExitCode> {
    let ledger_cx = cx.open_ledgers()?;
    let blocked = ledger_cx.with_index(|index| blocked(index, ledger_cx.now, None.into()))?;
    let data: Vec<_> = blocked
        .iter()
        .map(|(issue, reasons)| json!({ "id": issue.id, "title": issue.title, "priority": issue.priority, "reasons": reasons }))
        .collect();
    cx.ui.answer(&data, |text| {
        let rows = blocked.iter().map(|(issue, reasons)| {
            vec![
                styled(BOLD, &issue.id),
                cell(format!("P{}", issue.priority)),
                prose(&issue.title),
                // It names the blockers.
                styled(DIM, reasons.join("; ")),
            ]
        });
        text.list(header(["ID", "PRIO", "TITLE", "REASON"]), rows);
    })?;
    if blocked.is_empty() {
        cx.note_none(&ledger_cx, "no issue is blocked; way ready lists those that can be worked on")?;
    }
    Ok(ExitCode::SUCCESS)
}
