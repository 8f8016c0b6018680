//! `way search`

use std::process::ExitCode;

use waypost::ops::issue::SearchIssues;
use waypost_core::Result;

use crate::CommandContext;
use crate::issues::list_limit;

/// Search issues, including closed ones; every word must match
///
/// Searches all texts of an issue. A word also matches the beginning of a longer word: time matches timeout.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way search login timeout")]
pub(crate) struct Args {
    /// Words to search for
    #[arg(required = true, value_name = "WORD")]
    words: Vec<String>,
    /// Maximum number of issues; 0 for no limit
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    let ledger_cx = cx.open_ledgers()?;
    let busy = cx.ui.busy("Building the search index");
    ledger_cx.ledger.make_searchable(|| cx.ui.note("building the search index; this happens once"))?;
    drop(busy);
    let query =
        SearchIssues { text: args.words.join(" "), limit: Some(list_limit(args.limit)), after: None, repo: None };
    if !cx.list(&ledger_cx, &query, &[])? {
        cx.ui.note("no matching issues; every word must match, so try fewer");
    }
    Ok(ExitCode::SUCCESS)
}
