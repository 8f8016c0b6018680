//! `way claim`

use std::process::ExitCode;

use waypost_core::ledger::change;
use waypost_core::ledger::ready::{NO_AUTO_CLAIM, Reason};
use waypost_core::time::Timestamp;
use waypost_core::{Error, Kind, Result};

use crate::cli::Cx;
use crate::ledger::Snapshot;

/// Take an issue to work on: the one that is named, else the first that is ready
///
/// Of several who claim one issue at once, one gets it and the others are told who.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The issue: an id, or the beginning of one
    #[arg(value_name = "ISSUE")]
    issue: Option<String>,
}

pub(crate) fn run(cx: &mut Cx, args: &Args) -> Result<ExitCode> {
    let desk = cx.desk()?;
    let record = desk.ledger.change(|draft| {
        let id = match &args.issue {
            Some(wanted) => named(&draft.snapshot, wanted, desk.now)?,
            None => first_ready(&draft.snapshot, desk.now)?,
        };
        draft.edit(&id, |record| change::claim(record, &desk.ledger.statuses, desk.author()))
    })?;
    cx.ui.answer(&desk.json(&record)?, |text| {
        let field = |key: &str| record.text(key).unwrap_or_default();
        text.line(format!("Claimed {}  {}", field("id"), field("title")));
    })?;
    Ok(ExitCode::SUCCESS)
}

fn named(snapshot: &Snapshot, wanted: &str, now: Timestamp) -> Result<String> {
    let issue = &snapshot.find(wanted)?.issue;
    let obstacles = snapshot.obstacles(issue, now);
    // If somebody has it already, or it is over, the claim itself says so.
    if obstacles.iter().any(|reason| matches!(reason, Reason::Status(_))) {
        return Ok(issue.id.clone());
    }
    match obstacles.first() {
        Some(reason) => Err(Error::conflict(format!("issue {} is not ready: {reason}", issue.id))),
        None => Ok(issue.id.clone()),
    }
}

fn first_ready(snapshot: &Snapshot, now: Timestamp) -> Result<String> {
    let ready = snapshot.ready(now);
    let chosen = ready.iter().find(|entry| !entry.issue.has_label(NO_AUTO_CLAIM));
    chosen
        .map(|entry| entry.issue.id.clone())
        .ok_or_else(|| Error::new(Kind::NothingToDo, "nothing is ready").hint("way ready --explain says why"))
}
