//! `way help`

use std::process::ExitCode;

use waypost_core::Result;

use crate::CommandContext;
use crate::help::print_help;

/// Explain a command or a format: plan, batch, filters, exit-codes
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way help
  way help job start
  way help plan")]
pub(crate) struct Args {
    /// Command or topic
    #[arg(value_name = "COMMAND|TOPIC")]
    words: Vec<String>,
}

pub(crate) fn run(_cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    print_help(&args.words).map(|()| ExitCode::SUCCESS)
}
