//! `way claim`

use std::process::ExitCode;

use serde_json::json;
use waypost_core::Result;

use crate::CommandContext;
use crate::spans::parse_duration;
use waypost::issues::ledger::Change;

/// Claim an issue to work on: the named one, or the first ready one
///
/// If several agents claim an issue at the same time, only one wins; the others learn who holds it. A person's claim lasts
/// until it is released. An agent's claim expires after its TTL unless a heartbeat or another command of its holder renews
/// it; then the issue is free again.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way claim                                       the first ready issue
  way claim way-1a2b --agent me --ttl 30m")]
pub(crate) struct Args {
    /// Issue id, or a unique prefix of it [default: the first ready issue]
    #[arg(value_name = "ISSUE")]
    issue: Option<String>,
    /// Time until the claim expires without a renewal [default: lease.ttl or lease.ttl_human; else 30m for agents, unlimited for people]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    ttl: Option<u64>,
}

impl Args {
    #[expect(clippy::unnecessary_wraps, reason = "same signature as the other commands")]
    pub(crate) fn changes(&self) -> Result<Vec<Change>> {
        Ok(vec![Change::Claim(self.issue.clone())])
    }
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    let ledger_cx = cx.open_ledgers_to_change()?;
    let ((mut record, number), lease) = ledger_cx.claim(args.issue.as_deref(), args.ttl)?;
    record.set("lease", &json!({ "epoch": lease.epoch, "expires_at": lease.expires_at.unless_never() }))?;
    cx.answer_changed(&ledger_cx, "Claimed", &[(record, number)])?;
    Ok(ExitCode::SUCCESS)
}
