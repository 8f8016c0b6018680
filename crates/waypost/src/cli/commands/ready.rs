//! `way ready`

use std::process::ExitCode;

use serde_json::{Value, json};
use waypost_core::{Kind, Result};

use crate::cli::Cx;
use crate::cli::issues::row;
use crate::cli::ui::{BOLD, GOOD, cell, styled};

/// List what can be worked on now, the first one first; exits with 6 if there is nothing
#[derive(clap::Args)]
pub(crate) struct Args {
    /// At most this many
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    /// Say why an issue is or is not ready; without one, say it of all that are open
    #[arg(long, value_name = "ISSUE", num_args = 0..=1, default_missing_value = "")]
    explain: Option<String>,
}

pub(crate) fn run(cx: &mut Cx, args: &Args) -> Result<ExitCode> {
    if let Some(wanted) = &args.explain {
        return explain(cx, wanted);
    }
    let desk = cx.desk()?;
    let snapshot = cx.snapshot(&desk)?;
    let mut ready = snapshot.ready(desk.now);
    ready.truncate(args.limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX));
    let data = desk.json_list(ready.iter().map(|entry| &entry.record))?;
    cx.ui.answer(&data, |text| text.table(&ready.iter().map(|entry| row(&entry.issue)).collect::<Vec<_>>()))?;
    if ready.is_empty() {
        cx.ui.note("nothing is ready; way ready --explain says why");
        return Ok(ExitCode::from(Kind::NothingToDo.exit_code()));
    }
    Ok(ExitCode::SUCCESS)
}

fn explain(cx: &mut Cx, wanted: &str) -> Result<ExitCode> {
    let desk = cx.desk()?;
    let snapshot = cx.snapshot(&desk)?;
    let is_open = |status: &str| !desk.ledger.statuses.category(status).is_over();
    let entries: Vec<_> = if wanted.is_empty() {
        snapshot.entries().filter(|entry| is_open(&entry.issue.status)).collect()
    } else {
        vec![snapshot.find(wanted)?]
    };
    let explained: Vec<_> = entries
        .iter()
        .map(|entry| {
            let reasons = snapshot.obstacles(&entry.issue, desk.now);
            (&entry.issue, reasons.iter().map(ToString::to_string).collect::<Vec<_>>())
        })
        .collect();
    let data: Vec<Value> = explained.iter().map(|(issue, reasons)| json!({ "id": issue.id, "title": issue.title, "ready": reasons.is_empty(), "reasons": reasons })).collect();
    let data = if wanted.is_empty() { Value::Array(data) } else { data.into_iter().next().unwrap_or_default() };
    cx.ui.answer(&data, |text| {
        let rows: Vec<_> = explained
            .iter()
            .map(|(issue, reasons)| {
                let verdict = if reasons.is_empty() { styled(GOOD, "ready") } else { cell(reasons.join("; ")) };
                vec![styled(BOLD, &issue.id), cell(&issue.title), verdict]
            })
            .collect();
        text.table(&rows);
    })?;
    Ok(ExitCode::SUCCESS)
}
