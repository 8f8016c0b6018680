//! `way prime`

use std::process::ExitCode;

use waypost_core::Result;
use waypost_core::op::Prime;
use waypost_ledger::Summary;

use crate::CommandContext;

/// Print all that a new agent, or one whose context was cleared, has to know
///
/// Who it is, what it holds and how far that got, what waits for it, what is ready, and which commands to use.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way prime --agent alice         at the beginning of a session, and after its context was compacted")]
pub(crate) struct Args {
    /// How many tokens it may have, four bytes each [default: 800]
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

/// How many issues that are ready are told of.
const MAX_READY_ISSUES: usize = 3;

/// Returns the first issues that can be worked on, in words; one more than is shown.
fn ready(cx: &mut CommandContext) -> Result<Vec<String>> {
    let ledger_cx = cx.open_ledgers()?;
    let found = cx.with_index(&ledger_cx, |index| {
        index.ready(ledger_cx.now, Some(MAX_READY_ISSUES + 1 + ledger_cx.held.len()))
    })?;
    let is_free = |issue: &&Summary| !ledger_cx.held.contains_key(&issue.id);
    let line = |issue: &Summary| format!("{} {}, priority {}", issue.id, issue.title, issue.priority);
    Ok(found.iter().filter(is_free).take(MAX_READY_ISSUES + 1).map(line).collect())
}
