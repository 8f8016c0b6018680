//! `way stale`

use std::process::ExitCode;

use waypost_core::Result;
use waypost_core::time::Timestamp;

use crate::cli::Cx;
use crate::cli::issues::row;

/// List open issues that nobody touched for a while, the longest first
#[derive(clap::Args)]
pub(crate) struct Args {
    /// For how many days
    #[arg(long, value_name = "N", default_value_t = 30)]
    days: u32,
}

pub(crate) fn run(cx: &mut Cx, args: &Args) -> Result<ExitCode> {
    let desk = cx.desk()?;
    let snapshot = cx.snapshot(&desk)?;
    let since = Timestamp::from_millis(desk.now.as_millis() - i64::from(args.days) * 86_400_000);
    let touched = |issue: &waypost_core::ledger::issue::Issue| issue.updated_at.or(issue.created_at);
    let mut stale: Vec<_> = snapshot
        .entries()
        .filter(|entry| !desk.ledger.statuses.category(&entry.issue.status).is_over())
        .filter(|entry| touched(&entry.issue).is_none_or(|touched| touched < since))
        .collect();
    stale.sort_by_key(|entry| (touched(&entry.issue), entry.issue.id.clone()));
    let data = desk.json_list(stale.iter().map(|entry| &entry.record))?;
    cx.ui.answer(&data, |text| text.table(&stale.iter().map(|entry| row(&entry.issue)).collect::<Vec<_>>()))?;
    Ok(ExitCode::SUCCESS)
}
