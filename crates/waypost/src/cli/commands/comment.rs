//! `way comment`

use std::process::ExitCode;

use waypost_core::ledger::{change, issue_id};
use waypost_core::{Error, Result};

use crate::cli::Cx;
use crate::cli::issues::text_or_stdin;
use crate::session::SystemEntropy;

/// Say something about an issue
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The issue: an id, or the beginning of one
    #[arg(value_name = "ISSUE")]
    issue: String,
    /// What to say; - for standard input
    text: String,
}

pub(crate) fn run(cx: &mut Cx, args: &Args) -> Result<ExitCode> {
    let desk = cx.desk()?;
    let text = text_or_stdin(&args.text)?;
    if text.trim().is_empty() {
        return Err(Error::invalid("a comment says something"));
    }
    let id = issue_id::generate("c", &text, &args.issue, desk.now, &mut SystemEntropy);
    let records = desk.edit_each(std::slice::from_ref(&args.issue), |record, author, _| {
        change::comment(record, &id, &text, author)
    })?;
    cx.answer_changed(&desk, "Commented", &records)?;
    Ok(ExitCode::SUCCESS)
}
