//! `way prime`

use std::process::ExitCode;

use waypost_core::Result;

use crate::CommandContext;
use waypost::ops::Prime;

/// Print the context for an agent that starts, or starts again
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
    let prime = Prime { budget: args.budget, tools: false, repo: cx.global.repo.clone() };
    let context = cx.session()?.call_app(prime)?;
    cx.answer_context(&context)?;
    Ok(ExitCode::SUCCESS)
}
