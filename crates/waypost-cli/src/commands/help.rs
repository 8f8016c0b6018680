//! `way help`

use std::path::PathBuf;
use std::process::ExitCode;

use waypost_core::Result;
use waypost_core::words::count;
use waypost_workspace::surroundings;

use crate::CommandContext;
use crate::help::print_help;
use crate::man;

/// Explain a command or a format: plan, batch, filters, exit-codes
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way help
  way help job start
  way help plan
  way help --man ~/.local/share/man/man1")]
pub(crate) struct Args {
    /// Command or topic
    #[arg(value_name = "COMMAND|TOPIC")]
    words: Vec<String>,
    /// Write the manual pages of all commands into a directory
    #[arg(long, value_name = "DIR", conflicts_with = "words")]
    man: Option<PathBuf>,
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    if let Some(dir) = &args.man {
        let written = man::write_pages(&surroundings::resolve(dir))?;
        cx.ui.answer(&written, |text| {
            text.line(format!("Wrote {} to {}", count(written.len(), "manual page"), dir.display()));
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    print_help(&cx.ui, &args.words).map(|()| ExitCode::SUCCESS)
}
