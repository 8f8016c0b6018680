//! `way blocked`

use std::process::ExitCode;

use serde_json::json;
use waypost_core::Result;
use waypost_core::ledger::ready::Reason;

use crate::cli::Cx;
use crate::cli::ui::{BOLD, DIM, cell, styled};

/// List issues that wait for others, and what for
#[derive(clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(cx: &mut Cx, _args: &Args) -> Result<ExitCode> {
    let desk = cx.desk()?;
    let snapshot = cx.snapshot(&desk)?;
    let waits = |reason: &Reason| matches!(reason, Reason::BlockedBy(_) | Reason::Unresolved(_) | Reason::Ancestor(_));
    let mut blocked = Vec::new();
    for entry in snapshot.entries().filter(|entry| !desk.ledger.statuses.category(&entry.issue.status).is_over()) {
        let reasons: Vec<String> = snapshot
            .obstacles(&entry.issue, desk.now)
            .iter()
            .filter(|reason| waits(reason))
            .map(ToString::to_string)
            .collect();
        if !reasons.is_empty() {
            blocked.push((&entry.issue, reasons));
        }
    }
    blocked.sort_by_key(|(issue, _)| (issue.priority, issue.created_at, issue.id.clone()));
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
