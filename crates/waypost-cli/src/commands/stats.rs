//! `way stats`

use std::process::ExitCode;

use serde_json::{Map, Value, json};
use waypost_core::Result;

use crate::CommandContext;
use crate::ui::{BOLD, cell, header, number, styled};

/// Count issues by status, type and priority
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way stats
  way stats --json")]
pub(crate) struct Args {}

pub(crate) fn run(cx: &mut CommandContext, _args: &Args) -> Result<ExitCode> {
    let ledger_cx = cx.open_ledgers()?;
    let counts = ledger_cx.with_index(|index| index.counts(ledger_cx.now))?;
    let by_priority: Vec<(String, usize)> =
        counts.open_by_priority.iter().map(|(priority, count)| (format!("P{priority}"), *count)).collect();
    let object = |counts: &[(String, usize)]| -> Map<String, Value> {
        counts.iter().map(|(name, count)| (name.clone(), json!(count))).collect()
    };
    let data = json!({
        "ready": counts.ready,
        "blocked": counts.blocked,
        "by_status": object(&counts.by_status),
        "open_by_type": object(&counts.open_by_type),
        "open_by_priority": object(&by_priority),
    });
    cx.ui.answer(&data, |text| {
        let mut rows = vec![
            vec![styled(BOLD, "work"), number(counts.ready), cell("ready")],
            vec![styled(BOLD, ""), number(counts.blocked), cell("blocked")],
        ];
        let groups =
            [("status", &counts.by_status), ("type, open", &counts.open_by_type), ("priority, open", &by_priority)];
        for (title, counts) in groups {
            for (at, (name, count)) in counts.iter().enumerate() {
                let title = if at == 0 { title } else { "" };
                rows.push(vec![styled(BOLD, title), number(count), cell(name)]);
            }
        }
        text.list(header(["BY", "ISSUES", "VALUE"]), rows);
    })?;
    Ok(ExitCode::SUCCESS)
}
