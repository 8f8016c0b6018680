//! `way search`

use std::process::ExitCode;

use waypost_core::Result;

use crate::CommandContext;
use crate::issues::Column;

/// Find issues in which all words stand, in any of their texts; closed ones too
///
/// A word is found at the beginning of longer ones too: time finds timeout.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The words
    #[arg(required = true, value_name = "WORD")]
    words: Vec<String>,
    /// At most this many; 0 for all
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    let ledger_cx = cx.open_ledgers()?;
    ledger_cx.ledger.make_searchable(|| cx.ui.note("reading the words of all issues, once"))?;
    if !cx.list(&ledger_cx, args.limit, Column::DEFAULT, |index, limit| index.search(&args.words, limit))? {
        cx.ui.note("no issue fits");
    }
    Ok(ExitCode::SUCCESS)
}
