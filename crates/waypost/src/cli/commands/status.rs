//! `way status`

use std::process::ExitCode;

use serde_json::json;
use waypost_core::model::EventQuery;
use waypost_core::op::ListEvents;
use waypost_core::{Error, Result};

use super::worktree::table_of;
use crate::cli::Cx;
use crate::cli::ui::{DIM, cell, styled};
use crate::survey::{find, survey};

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
        worktree_id = Some(one.id.clone().ok_or_else(|| {
            Error::not_found(format!("worktree {} has never used Waypost, so there is nothing of it", one.name))
        })?);
        worktrees = vec![one];
    }
    let history = session.read(ListEvents { query: EventQuery { worktree_id, limit: RECENT } })?;
    let now = session.now()?;
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
        "events": history.events,
    });
    let name_of = |id: &waypost_core::id::WorktreeId| {
        let one = worktrees.iter().find(|worktree| worktree.id.as_ref() == Some(id));
        one.map_or_else(|| id.to_string(), |worktree| worktree.name.clone())
    };
    cx.ui.answer(&data, |text| {
        text.heading("Store");
        text.table(&[vec![
            cell(format!("  {}", choice.location)),
            styled(DIM, &choice.source),
            styled(DIM, format!("{} events", history.last)),
        ]]);
        text.gap();
        text.heading("Worktrees");
        text.table(&table_of(&worktrees, now));
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
                        cell(name_of(&event.worktree_id)),
                        cell(&event.actor),
                        styled(DIM, event.time.ago(now)),
                    ]
                })
                .collect();
            text.table(&rows);
        }
    })?;
    Ok(ExitCode::SUCCESS)
}
