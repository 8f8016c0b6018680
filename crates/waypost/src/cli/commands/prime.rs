//! `way prime`

use std::process::ExitCode;

use waypost_core::Result;
use waypost_core::op::Prime;

use crate::cli::Cx;

/// Print all that a new agent, or one whose context was cleared, has to know
///
/// Who it is, what it holds and how far that got, what waits for it, and which commands to use.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way prime --agent alice         at the beginning of a session, and after its context was compacted")]
pub(crate) struct Args {
    /// How many tokens it may have, four bytes each [default: 800]
    #[arg(long, value_name = "N")]
    budget: Option<u32>,
}

pub(crate) fn run(cx: &mut Cx, args: &Args) -> Result<ExitCode> {
    let context = cx.work()?.read(Prime { budget: args.budget, tools: false })?;
    cx.answer_context(&context)?;
    Ok(ExitCode::SUCCESS)
}
