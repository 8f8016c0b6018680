//! `way search`

use std::process::ExitCode;

use waypost_core::Result;
use waypost_core::ledger::issue::Issue;

use crate::cli::Cx;
use crate::cli::issues::row;

/// Find issues in which all words stand, in any of their texts; closed ones too
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The words
    #[arg(required = true, value_name = "WORD")]
    words: Vec<String>,
    /// At most this many
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
}

pub(crate) fn run(cx: &mut Cx, args: &Args) -> Result<ExitCode> {
    let desk = cx.desk()?;
    let snapshot = cx.snapshot(&desk)?;
    let words: Vec<String> =
        args.words.iter().flat_map(|words| words.split_whitespace()).map(str::to_lowercase).collect();
    let mut found: Vec<_> = snapshot
        .entries()
        .filter(|entry| entry.issue.status != "tombstone")
        .filter(|entry| {
            let text = text_of(&entry.issue);
            words.iter().all(|word| text.contains(word))
        })
        .collect();
    // What is still to be done comes first, and what stands in the title before what stands elsewhere.
    found.sort_by_key(|entry| {
        let title = entry.issue.title.to_lowercase();
        let is_over = desk.ledger.statuses.category(&entry.issue.status).is_over();
        (is_over, !words.iter().all(|word| title.contains(word)), entry.issue.priority, entry.issue.id.clone())
    });
    found.truncate(args.limit.unwrap_or(usize::MAX));
    let data = desk.json_list(found.iter().map(|entry| &entry.record))?;
    cx.ui.answer(&data, |text| text.table(&found.iter().map(|entry| row(&entry.issue)).collect::<Vec<_>>()))?;
    if found.is_empty() {
        cx.ui.note("no issue fits");
    }
    Ok(ExitCode::SUCCESS)
}

/// Everything that was written about an issue, in lower case.
fn text_of(issue: &Issue) -> String {
    let texts = [&issue.id, &issue.title, &issue.description, &issue.design, &issue.acceptance_criteria, &issue.notes];
    let comments = issue.comments.iter().map(|comment| &comment.text);
    texts.into_iter().chain(comments).map(|text| text.to_lowercase()).collect::<Vec<_>>().join("\n")
}
