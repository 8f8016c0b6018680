//! `way stale`

use std::process::ExitCode;

use waypost::ops::issue::{IssueContext, IssueQuery, Selector};
use waypost_core::Result;
use waypost_core::time::Timestamp;
use waypost_core::words::count;

use crate::CommandContext;
use crate::issues::list_limit;

/// List open issues without recent updates, oldest first
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way stale
  way stale --days 14")]
pub(crate) struct Args {
    /// Minimum number of days since the last update
    #[arg(long, value_name = "N", default_value_t = 30)]
    days: u32,
    /// Maximum number of issues; 0 for no limit
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,
}

impl IssueQuery for Args {
    fn limit(&self) -> usize {
        list_limit(self.limit)
    }

    fn selector<'a>(&'a self, context: &'a IssueContext) -> Result<Selector<'a>> {
        let since = Timestamp::from_millis(context.now.as_millis() - i64::from(self.days) * 86_400_000);
        Ok(Box::new(move |index, window| index.stale(since, window.limit)))
    }
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    let ledger_cx = cx.open_ledgers()?;
    if !cx.list(&ledger_cx, args, &[])? {
        cx.note_none(&ledger_cx, &format!("no open issue without an update for {}", count(args.days, "day")))?;
    }
    Ok(ExitCode::SUCCESS)
}
