//! `way search`

use std::process::ExitCode;

use waypost::ops::issue::SearchIssues;
use waypost_core::Result;
use waypost_core::words::count;
use waypost_ledger::COMMON_WORDS;

use crate::CommandContext;
use crate::issues::list_limit;

/// Search issues, including closed ones; every word must match
///
/// Searches all texts of an issue. A word also matches the beginning of a longer word: time matches timeout. Open issues
/// come first, then the best matches. If more than 1,000 issues match, matches in the title come first, then open issues
/// by priority, last changed first.
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
    let is_common = ledger_cx.with_index(|index| index.are_common(&args.words))?;
    let common = format!(
        "more than {} match and are not ranked by how well they match; add words",
        count(COMMON_WORDS, "issue")
    );
    if is_common && cx.ui.json {
        cx.ui.warn(&common);
    }
    if !cx.list(&ledger_cx, &query, &[])? {
        cx.note_none(&ledger_cx, "no matching issues; every word must match, so try fewer")?;
    }
    if is_common {
        cx.ui.note(&common);
    }
    Ok(ExitCode::SUCCESS)
}
