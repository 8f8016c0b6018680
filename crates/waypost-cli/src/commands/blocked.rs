//! `way blocked`

use std::process::ExitCode;

use serde_json::json;
use waypost_core::Result;

use crate::CommandContext;
use crate::ui::{BOLD, DIM, cell, styled};
use waypost::claims;

/// List blocked issues with their blockers
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way blocked
  way blocked --json")]
pub(crate) struct Args {}

pub(crate) fn run(cx: &mut CommandContext, _args: &Args) -> Result<ExitCode> {
    let ledger_cx = cx.open_ledgers()?;
    let blocked = ledger_cx.with_index(|index| claims::blocked(index, ledger_cx.now, None.into()))?;
    let data: Vec<_> = blocked
        .iter()
        .map(|(issue, reasons)| json!({ "id": issue.id, "title": issue.title, "priority": issue.priority, "reasons": reasons }))
        .collect();
    cx.ui.answer(&data, |text| {
        let rows: Vec<_> = blocked
            .iter()
            .map(|(issue, reasons)| {
                vec![
                    styled(BOLD, &issue.id),
                    cell(format!("P{}", issue.priority)),
                    cell(&issue.title),
                    styled(DIM, reasons.join("; ")),
                ]
            })
            .collect();
        text.table(&rows);
    })?;
    Ok(ExitCode::SUCCESS)
}
