//! `way prime`

use std::process::ExitCode;

use waypost_core::Result;
use waypost_core::op::Prime;
use waypost_ledger::Summary;

use crate::CommandContext;

/// Print the context for an agent that starts or whose context was cleared
///
/// Contains the agent's name, its leases and their progress, its messages, ready work and the commands to use.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way prime --agent alice         at the start of a session, and after its context was compacted")]
pub(crate) struct Args {
    /// Maximum size in tokens of four bytes each [default: 800]
    #[arg(long, value_name = "N")]
    budget: Option<u32>,
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    let mut session = cx.work()?;
    let ready = if session.place.checkout.is_some() { ready(cx)? } else { Vec::new() };
    let context = session.read(Prime { budget: args.budget, ready, tools: false })?;
    cx.answer_context(&context)?;
    Ok(ExitCode::SUCCESS)
}

/// Maximum number of ready issues in the context.
const MAX_READY_ISSUES: usize = 3;

/// Returns descriptions of the first ready issues; one more than shown, so that the context can mention others.
fn ready(cx: &mut CommandContext) -> Result<Vec<String>> {
    let ledger_cx = cx.open_ledgers()?;
    let found = cx.with_index(&ledger_cx, |index| {
        index.ready(ledger_cx.now, Some(MAX_READY_ISSUES + 1 + ledger_cx.held.len()))
    })?;
    let is_free = |issue: &&Summary| !ledger_cx.held.contains_key(&issue.id);
    let line = |issue: &Summary| format!("{} {}, priority {}", issue.id, issue.title, issue.priority);
    Ok(found.iter().filter(is_free).take(MAX_READY_ISSUES + 1).map(line).collect())
}
