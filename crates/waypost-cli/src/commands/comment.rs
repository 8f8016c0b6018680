//! `way comment`

use std::process::ExitCode;

use waypost_core::Result;

use crate::CommandContext;
use crate::issues::text_or_stdin;
use waypost::issues::ledger::Change;

/// Add a comment to an issue
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way comment way-1a2b 'Half done: the parser works'")]
pub(crate) struct Args {
    /// Issue id, or a unique prefix of it
    #[arg(value_name = "ISSUE")]
    issue: String,
    /// Text of the comment; - for standard input
    text: String,
}

impl Args {
    pub(crate) fn changes(&self) -> Result<Vec<Change>> {
        Ok(vec![Change::Comment(self.issue.clone(), text_or_stdin(&self.text)?)])
    }
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    cx.change(&args.changes()?, "Commented")?;
    Ok(ExitCode::SUCCESS)
}
