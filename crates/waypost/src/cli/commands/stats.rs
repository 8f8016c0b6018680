//! `way stats`

use std::collections::BTreeMap;
use std::process::ExitCode;

use serde_json::json;
use waypost_core::Result;

use crate::cli::Cx;
use crate::cli::ui::{BOLD, cell, styled};

/// Count issues by status, type and priority
#[derive(clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(cx: &mut Cx, _args: &Args) -> Result<ExitCode> {
    let desk = cx.desk()?;
    let snapshot = cx.snapshot(&desk)?;
    let mut by_status: BTreeMap<String, usize> = BTreeMap::new();
    let mut by_type: BTreeMap<String, usize> = BTreeMap::new();
    let mut by_priority: BTreeMap<String, usize> = BTreeMap::new();
    for issue in snapshot.entries().map(|entry| &entry.issue) {
        *by_status.entry(issue.status.clone()).or_default() += 1;
        if !desk.ledger.statuses.category(&issue.status).is_over() {
            *by_type.entry(issue.issue_type.clone()).or_default() += 1;
            *by_priority.entry(format!("P{}", issue.priority)).or_default() += 1;
        }
    }
    let ready = snapshot.ready(desk.now).len();
    let data =
        json!({ "ready": ready, "by_status": by_status, "open_by_type": by_type, "open_by_priority": by_priority });
    cx.ui.answer(&data, |text| {
        let mut rows = vec![vec![styled(BOLD, "ready"), cell(ready)]];
        for (title, counts) in [("status", &by_status), ("type, open", &by_type), ("priority, open", &by_priority)] {
            for (number, (name, count)) in counts.iter().enumerate() {
                let title = if number == 0 { title } else { "" };
                rows.push(vec![styled(BOLD, title), cell(count), cell(name)]);
            }
        }
        text.table(&rows);
    })?;
    Ok(ExitCode::SUCCESS)
}
