//! `way status`

use std::process::ExitCode;

use serde_json::{Value, json};
use waypost_core::model::EventQuery;
use waypost_core::op::ListEvents;
use waypost_core::time::Timestamp;
use waypost_core::{Error, Result};

use super::worktree::table_of;
use crate::cli::Cx;
use crate::cli::ui::{DIM, cell, styled};
use crate::ledger::Ledger;
use crate::session::Session;
use crate::survey::{State, find, survey};

/// How much of the history is shown.
const RECENT: u32 = 5;

/// Show what is there, across all worktrees
#[derive(clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(cx: &mut Cx, _args: &Args) -> Result<ExitCode> {
    let mut session = cx.session()?;
    let mut worktrees = survey(&mut session)?;
    let mut worktree_id = None;
    if let Some(wanted) = &cx.global.worktree {
        let one = find(&worktrees, wanted, &session.place.cwd)?.clone();
        if one.last_seen.is_none() {
            return Err(Error::not_found(format!("worktree {} has never used this store", one.name)));
        }
        worktree_id.clone_from(&one.id);
        worktrees = vec![one];
    }
    let history =
        session.read(ListEvents { query: EventQuery { worktree_id, limit: RECENT, ..EventQuery::default() } })?;
    let now = session.now()?;
    let issues = issues(&session, now)?;
    let choice = &session.choice;
    let data = json!({
        "store": {
            "path": choice.location.to_string(),
            "kind": choice.location.kind(),
            "scope": choice.scope,
            "source": choice.source.source,
            "because": choice.source.because,
            "events": history.last,
        },
        "worktrees": worktrees,
        "issues": issues,
        "events": history.events,
    });
    let (hidden, shown): (Vec<_>, Vec<_>) = worktrees.iter().cloned().partition(|one| one.state == State::Removed);
    let shown = if cx.global.worktree.is_some() { worktrees.clone() } else { shown };
    // Ids of worktrees and of the repository are shown as their names; other subjects are what they are.
    let name_of = |id: &str| {
        let worktree = worktrees.iter().find(|one| one.id.as_ref().is_some_and(|known| known.as_str() == id));
        let repository = worktrees.iter().find(|one| one.repository_id.as_str() == id);
        let name = worktree.map(|one| &one.name).or_else(|| repository.map(|one| &one.repository));
        name.cloned().unwrap_or_else(|| id.to_owned())
    };
    cx.ui.answer(&data, |text| {
        text.heading("Store");
        text.table(&[vec![
            cell(format!("  {}", choice.location)),
            styled(DIM, &choice.source),
            styled(DIM, format!("{} events", history.last)),
        ]]);
        if let Some(issues) = &issues {
            text.gap();
            text.heading("Issues");
            let counts = ["ready", "open", "in_progress", "closed"]
                .map(|key| cell(format!("  {} {}", issues[key], key.replace('_', " "))));
            text.table(&[Vec::from(counts)]);
        }
        text.gap();
        text.heading("Worktrees");
        text.table(&table_of(&shown, now));
        if !hidden.is_empty() && shown.len() < worktrees.len() {
            text.line(format!("  and {} removed: way worktree list", hidden.len()));
        }
        if !history.events.is_empty() {
            text.gap();
            text.heading("Latest");
            let rows: Vec<_> = history
                .events
                .iter()
                .map(|event| {
                    vec![
                        styled(DIM, format!("  {}", event.sequence)),
                        cell(&event.kind),
                        cell(name_of(&event.subject)),
                        styled(DIM, format!("by {} in {}", event.actor, name_of(event.worktree_id.as_str()))),
                        styled(DIM, event.time.ago(now)),
                    ]
                })
                .collect();
            text.table(&rows);
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Counts the issues, if there is a ledger.
fn issues(session: &Session, now: Timestamp) -> Result<Option<Value>> {
    if session.place.ledger().is_none_or(|(path, _)| !path.exists()) {
        return Ok(None);
    }
    let counts = Ledger::of(&session.place)?.look(|index| index.counts(now))?;
    let of = |status: &str| counts.by_status.iter().find(|(known, _)| known == status).map_or(0, |(_, count)| *count);
    let counts = json!({
        "ready": counts.ready,
        "open": of("open"),
        "in_progress": of("in_progress"),
        "closed": of("closed"),
    });
    Ok(Some(counts))
}
