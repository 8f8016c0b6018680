//! `way claim`

use std::process::ExitCode;

use serde_json::json;
use waypost_core::Result;

use crate::CommandContext;
use crate::spans::parse_duration;
use waypost::claims;
use waypost::ledger::Change;
use waypost::merge_driver::ensure_driver;

/// Take an issue to work on: the one that is named, else the first that is ready
///
/// Of several who claim one issue at once, one gets it and the others are told who. The claim lasts for a time, and
/// every sign of life renews it; when it ends, the issue is free again.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The issue: an id, or the beginning of one
    #[arg(value_name = "ISSUE")]
    issue: Option<String>,
    /// How long the claim lasts without a sign of life [default: 10m]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    ttl: Option<u64>,
}

impl Args {
    #[expect(clippy::unnecessary_wraps, reason = "as the other commands")]
    pub(crate) fn changes(&self) -> Result<Vec<Change>> {
        Ok(vec![Change::Claim(self.issue.clone())])
    }
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    let ledger_cx = cx.open_ledgers()?;
    let (id, lease) = claims::claim(&ledger_cx.place, &ledger_cx.ledger, args.issue.as_deref(), args.ttl)?;
    ensure_driver(&ledger_cx.place);
    let (mut record, number) =
        ledger_cx.ledger.with_index(|index| index.get_by_prefix(&id).map(|entry| (entry.record, entry.ledger)))?;
    record.set("lease", &json!({ "epoch": lease.epoch, "expires_at": lease.expires_at }))?;
    cx.answer_changed(&ledger_cx, "Claimed", &[(record, number)])?;
    Ok(ExitCode::SUCCESS)
}
