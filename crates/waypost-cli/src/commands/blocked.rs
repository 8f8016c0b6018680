//! `way blocked`

use std::process::ExitCode;

use serde_json::json;
use waypost_core::Result;
use waypost_core::ledger::ready::Reason;

use crate::CommandContext;
use crate::ui::{BOLD, DIM, cell, styled};

/// List blocked issues with their blockers
#[derive(clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(cx: &mut CommandContext, _args: &Args) -> Result<ExitCode> {
    let ledger_cx = cx.open_ledgers()?;
    let is_blocker =
        |reason: &Reason| matches!(reason, Reason::BlockedBy(_) | Reason::Unresolved(_) | Reason::Ancestor(_));
    let blocked = cx.with_index(&ledger_cx, |index| {
        let blocked = index.blocked(ledger_cx.now)?;
        let obstacles = index.all_obstacles(blocked.iter().map(|summary| summary.id.as_str()), ledger_cx.now)?;
        let reasons = |obstacles: Vec<Reason>| -> Vec<String> {
            obstacles.iter().filter(|reason| is_blocker(reason)).map(ToString::to_string).collect()
        };
        Ok(obstacles.into_iter().map(reasons).zip(blocked).collect::<Vec<_>>())
    })?;
    let data: Vec<_> = blocked
        .iter()
        .map(|(reasons, issue)| json!({ "id": issue.id, "title": issue.title, "priority": issue.priority, "reasons": reasons }))
        .collect();
    cx.ui.answer(&data, |text| {
        let rows: Vec<_> = blocked
            .iter()
            .map(|(reasons, issue)| {
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
