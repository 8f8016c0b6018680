//! Which workspaces go by themselves: the old, the many, the large.

use serde::Serialize;
use waypost_core::model::{Strategy, Workspace, WorkspaceStatus};
use waypost_core::time::{Timestamp, parse_duration_ms};
use waypost_core::{Error, Result};
use waypost_workspace::workspaces::{self as tools, Packed};

use super::places::{mirrors, root};
use super::records::{heal, is_pooled, list, measure};
use super::remove::{Force, Removed, examine, remove};
use crate::bytes;
use crate::session::Session;

/// Which workspaces go.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rules {
    /// Those that nobody used for so long, in milliseconds.
    pub older_than: Option<u64>,
    /// The oldest, until this many are left.
    pub keep: Option<usize>,
    /// The oldest, until all take no more than so many bytes.
    pub most_bytes: Option<u64>,
}

/// What is to become of one workspace, and why.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// The workspace.
    pub workspace: Workspace,
    /// Whether it goes.
    pub goes: bool,
    /// Why it goes, or why it stays although a rule is against it.
    pub why: String,
}

/// Judges the workspaces of this machine by rules, the oldest first. Those that no rule is against are left out.
pub fn judge(session: &mut Session, rules: &Rules, now: Timestamp) -> Result<Vec<Verdict>> {
    heal(session)?;
    let mut all: Vec<_> = list(session)?.into_iter().map(|seen| seen.workspace).collect();
    all.retain(|workspace| !is_pooled(workspace) && workspace.strategy != Strategy::InPlace);
    all.sort_by(|one, other| (one.updated_at, &one.id).cmp(&(other.updated_at, &other.id)));
    let mut bytes = Vec::new();
    for workspace in &all {
        let size = match (workspace.status, rules.most_bytes) {
            (WorkspaceStatus::Lost, _) => 0,
            (_, Some(_)) => measure(session, workspace)?,
            _ => workspace.size.unwrap_or_default(),
        };
        bytes.push(size);
    }
    let (mut left, mut taken) = (all.len(), bytes.iter().sum::<u64>());
    let mut verdicts = Vec::new();
    for (workspace, size) in all.into_iter().zip(bytes) {
        let age = u64::try_from(now.as_millis() - workspace.updated_at.as_millis()).unwrap_or_default();
        let why = if rules.older_than.is_some_and(|limit| age >= limit) {
            Some("nobody used it for long".to_owned())
        } else if rules.keep.is_some_and(|keep| left > keep) {
            Some(format!("there are {left}"))
        } else if rules.most_bytes.is_some_and(|most| taken > most) {
            Some(format!("all take {}", bytes::shown(taken)))
        } else if workspace.status == WorkspaceStatus::Lost {
            Some("its directory is gone".to_owned())
        } else {
            None
        };
        let Some(why) = why else { continue };
        let objections = match examine(&workspace) {
            Ok(examined) => examined.objections,
            // What cannot be looked at may have anything in it.
            Err(error) => vec![error.full_message()],
        };
        if objections.is_empty() {
            left -= 1;
            taken = taken.saturating_sub(size);
            verdicts.push(Verdict { workspace, goes: true, why });
        } else {
            verdicts.push(Verdict { workspace, goes: false, why: objections.join(", ") });
        }
    }
    Ok(verdicts)
}

/// Removes what goes, and what somebody else moved away and did not get to delete.
pub fn collect(session: &mut Session, verdicts: &[Verdict]) -> Result<Vec<Result<Removed>>> {
    let removed = verdicts.iter().filter(|verdict| verdict.goes);
    let removed = removed.map(|verdict| remove(session, &verdict.workspace, Force::No)).collect();
    for error in tools::sweep_trash(&root(session)?)? {
        log::debug!("the trash is not empty: {}", error.full_message());
    }
    Ok(removed)
}

/// Keeps what workspaces are made from in good order. That it cannot be done is no harm.
pub fn upkeep(session: &Session) -> Result<Vec<Packed>> {
    let (packed, failed) = tools::upkeep(&mirrors(session)?);
    for error in failed {
        log::debug!("a mirror is not packed: {}", error.full_message());
    }
    Ok(packed)
}

/// Makes sure that another workspace may be made, by the user's limits.
pub(super) fn make_room(session: &mut Session, say: &mut dyn FnMut(&str)) -> Result<()> {
    let config = &session.place.config;
    let Some(total) = config.text("workspaces.total").and_then(|text| bytes::parse(&text)) else { return Ok(()) };
    let evicts = config.text("workspaces.policy").as_deref() == Some("evict");
    let mut taken = 0;
    for seen in list(session)? {
        if seen.workspace.status.is_live() && seen.workspace.strategy != Strategy::InPlace {
            taken += measure(session, &seen.workspace).unwrap_or_default();
        }
    }
    if taken < total {
        return Ok(());
    }
    let full = |taken: u64| {
        Error::refused(format!("workspaces take {}, and may take {}", bytes::shown(taken), bytes::shown(total)))
            .hint("way ws gc removes what is safe to remove; workspaces.total is the limit")
    };
    if !evicts {
        return Err(full(taken));
    }
    let now = session.now()?;
    let rules = Rules { most_bytes: Some(total.saturating_sub(1)), ..Rules::default() };
    let verdicts = judge(session, &rules, now)?;
    let going: u64 = verdicts.iter().filter(|verdict| verdict.goes).filter_map(|verdict| verdict.workspace.size).sum();
    say(&format!("making room: {} of workspaces", bytes::shown(going)));
    for removed in collect(session, &verdicts)? {
        taken = taken.saturating_sub(removed?.freed.unwrap_or_default());
    }
    if taken < total { Ok(()) } else { Err(full(taken)) }
}

/// Returns what way ws gc goes by if nobody says: the user's configuration.
pub fn usual_rules(session: &Session) -> Result<Rules> {
    let config = &session.place.config;
    let older_than = match config.text("workspaces.keep_for").as_deref() {
        None | Some("forever") => None,
        Some(text) => Some(parse_duration_ms(text).map_err(|error| error.within("workspaces.keep_for"))?),
    };
    Ok(Rules {
        older_than,
        keep: config.text("workspaces.keep_count").and_then(|text| text.parse().ok()),
        most_bytes: config.text("workspaces.total").and_then(|text| bytes::parse(&text)),
    })
}
