//! `way ready`

use std::process::ExitCode;

use serde_json::{Value, json};
use waypost_core::{Kind, Result};
use waypost_ledger::{Filter, Index, Sort};

use crate::CommandContext;
use crate::issues::Column;
use crate::ui::{BOLD, GOOD, cell, styled};
use waypost::claims;

/// List issues that can be worked on now, in order of priority; exits with 6 if there are none
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Maximum number of issues; 0 for no limit
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
    /// Explain why an issue is or is not ready; without ISSUE, explain all open issues
    #[arg(long, value_name = "ISSUE", num_args = 0..=1, default_missing_value = "")]
    explain: Option<String>,
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    if let Some(id_or_prefix) = &args.explain {
        return explain(cx, id_or_prefix);
    }
    let ledger_cx = cx.open_ledgers()?;
    let ready = |index: &Index, limit: Option<usize>| claims::ready(index, &ledger_cx.held, ledger_cx.now, limit);
    if cx.list(&ledger_cx, args.limit, Column::DEFAULT, ready)? {
        return Ok(ExitCode::SUCCESS);
    }
    cx.ui.note("no issue is ready; way ready --explain shows why");
    Ok(ExitCode::from(Kind::NothingToDo.exit_code()))
}

fn explain(cx: &mut CommandContext, id_or_prefix: &str) -> Result<ExitCode> {
    let ledger_cx = cx.open_ledgers()?;
    let held = &ledger_cx.held;
    let explained = cx.with_index(&ledger_cx, |index| {
        let found = if id_or_prefix.is_empty() {
            index.list(&Filter::default(), Sort::Id, false, None)?
        } else {
            index.summary(&index.find(id_or_prefix)?)?.into_iter().collect()
        };
        let obstacles = index.all_obstacles(found.iter().map(|summary| summary.id.as_str()), ledger_cx.now)?;
        let explained = obstacles
            .iter()
            .zip(found)
            .map(|(obstacles, summary)| (claims::reasons(held, &summary.id, obstacles), summary));
        Ok(explained.collect::<Vec<_>>())
    })?;
    let data: Vec<Value> = explained.iter().map(|(reasons, issue)| json!({ "id": issue.id, "title": issue.title, "ready": reasons.is_empty(), "reasons": reasons })).collect();
    let data = if id_or_prefix.is_empty() { Value::Array(data) } else { data.into_iter().next().unwrap_or_default() };
    cx.ui.answer(&data, |text| {
        let rows: Vec<_> = explained
            .iter()
            .map(|(reasons, issue)| {
                let verdict = if reasons.is_empty() { styled(GOOD, "ready") } else { cell(reasons.join("; ")) };
                vec![styled(BOLD, &issue.id), cell(&issue.title), verdict]
            })
            .collect();
        text.table(&rows);
    })?;
    Ok(ExitCode::SUCCESS)
}
