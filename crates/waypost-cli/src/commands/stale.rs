//! `way stale`

use std::process::ExitCode;

use waypost_core::Result;
use waypost_core::time::Timestamp;

use crate::CommandContext;
use crate::issues::Column;

/// List open issues without recent updates, oldest first
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Minimum number of days since the last update
    #[arg(long, value_name = "N", default_value_t = 30)]
    days: u32,
    /// Maximum number of issues; 0 for no limit
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    let ledger_cx = cx.open_ledgers()?;
    let since = Timestamp::from_millis(ledger_cx.now.as_millis() - i64::from(args.days) * 86_400_000);
    cx.list(&ledger_cx, args.limit, Column::DEFAULT, |index, limit| index.stale(since, limit))?;
    Ok(ExitCode::SUCCESS)
}
