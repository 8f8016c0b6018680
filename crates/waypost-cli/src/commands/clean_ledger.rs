//! `way clean-ledger`

use std::io::{Read as _, Write as _};
use std::process::ExitCode;

use waypost_core::ledger::document::Document;
use waypost_core::{Error, Result};

use crate::CommandContext;

/// Copy a ledger from standard input to standard output, with appended changes in their places
///
/// A change of a large ledger is appended to the file, which is much faster than writing all of it. Git runs this command
/// when it compares or stores the ledger, so that commits have one line for each issue, sorted by id.
#[derive(clap::Args)]
#[command(
    hide = true,
    after_help = "Example:
  way clean-ledger < .waypost/issues.jsonl         as git's filter.waypost.clean"
)]
pub(crate) struct Args {}

pub(crate) fn run(_: &mut CommandContext, _: &Args) -> Result<ExitCode> {
    let mut content = Vec::new();
    std::io::stdin()
        .lock()
        .read_to_end(&mut content)
        .map_err(|error| Error::unavailable("cannot read the ledger from standard input").because(error))?;
    let document = Document::parse(content);
    let mut output = std::io::stdout().lock();
    let written = document.parts().into_iter().try_for_each(|part| output.write_all(part));
    written
        .and_then(|()| output.flush())
        .map_err(|error| Error::unavailable("cannot write the ledger to standard output").because(error))?;
    Ok(ExitCode::SUCCESS)
}
