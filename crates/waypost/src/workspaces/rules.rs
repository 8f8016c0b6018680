//! Garbage collection of workspaces: by age, number and size.

use serde::Serialize;
use waypost_core::model::{Strategy, Workspace, WorkspaceStatus};
use waypost_core::time::{Timestamp, parse_duration_ms};
use waypost_core::{Error, Result};
use waypost_workspace::workspaces::{self as tools, Packed};

use super::places::{mirrors, root, saved_dir};
use super::records::{is_pooled, list, measure, recover_interrupted};
use super::remove::{Force, Removed, examine, remove};
use super::results::release_results;
use crate::bytes;
use crate::session::Session;

/// The limits of garbage collection.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rules {
    /// Remove workspaces that have been idle for this long, in milliseconds.
    pub older_than: Option<u64>,
    /// Remove the oldest until this many are left.
    pub keep: Option<usize>,
    /// Remove the oldest until all together have at most this size.
    pub max_bytes: Option<u64>,
}

/// The decision about one workspace.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// The workspace.
    pub workspace: Workspace,
    /// Whether to remove it.
    pub goes: bool,
    /// Why it is removed, or why it stays although it exceeds a limit.
    pub why: String,
}

/// Applies limits to the workspaces of this machine, the oldest first. Returns only workspaces that exceed a limit.
pub fn judge(session: &mut Session, rules: &Rules, now: Timestamp) -> Result<Vec<Verdict>> {
    recover_interrupted(session)?;
    let mut all: Vec<_> = list(session)?.into_iter().map(|seen| seen.workspace).collect();
    all.retain(|workspace| !is_pooled(workspace) && workspace.strategy != Strategy::InPlace);
    all.sort_by(|one, other| (one.updated_at, &one.id).cmp(&(other.updated_at, &other.id)));
    let mut bytes = Vec::new();
    for workspace in &all {
        let size = match (workspace.status, rules.max_bytes) {
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
            Some(format!("idle for {}", format_age(age)))
        } else if rules.keep.is_some_and(|keep| left > keep) {
            Some(format!("there are {left} workspaces"))
        } else if rules.max_bytes.is_some_and(|most| taken > most) {
            Some(format!("all workspaces take {}", bytes::humanize(taken)))
        } else if workspace.status == WorkspaceStatus::Lost {
            Some("its directory is missing".to_owned())
        } else {
            None
        };
        let Some(why) = why else { continue };
        let objections = match examine(&workspace) {
            Ok(examined) => examined.objections,
            // An unreadable workspace may contain any work.
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

/// Removes the selected workspaces, and trash that an interrupted process left.
pub fn collect(session: &mut Session, verdicts: &[Verdict]) -> Result<Vec<Result<Removed>>> {
    let removed = verdicts.iter().filter(|verdict| verdict.goes);
    let removed = removed.map(|verdict| remove(session, &verdict.workspace, Force::No)).collect();
    for error in tools::sweep_trash(&root(session)?, saved_dir(session).as_deref())? {
        log::debug!("cannot empty the trash: {}", error.full_message());
    }
    Ok(removed)
}

/// Packs the mirrors that workspaces are cloned from, and releases results that no workflow needs any more. Failures are
/// only logged.
pub fn upkeep(session: &mut Session) -> Result<Vec<Packed>> {
    if let Err(error) = release_results(session) {
        log::debug!("cannot release the results of workflows: {}", error.full_message());
    }
    let (packed, failed) = tools::upkeep(&mirrors(session)?);
    for error in failed {
        log::debug!("cannot pack a mirror: {}", error.full_message());
    }
    Ok(packed)
}

/// Checks the total size limit before a workspace is created. Removes old ones if the user allows that.
pub(super) fn make_room(session: &mut Session, report: &mut dyn FnMut(&str)) -> Result<()> {
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
        Error::refused(format!(
            "workspaces take {}, and the limit is {}",
            bytes::humanize(taken),
            bytes::humanize(total)
        ))
        .hint("way ws gc removes workspaces that lose no work; workspaces.total sets the limit")
    };
    if !evicts {
        return Err(full(taken));
    }
    let now = session.now()?;
    let rules = Rules { max_bytes: Some(total.saturating_sub(1)), ..Rules::default() };
    let verdicts = judge(session, &rules, now)?;
    let going: u64 = verdicts.iter().filter(|verdict| verdict.goes).filter_map(|verdict| verdict.workspace.size).sum();
    report(&format!("removing {} of workspaces", bytes::humanize(going)));
    for removed in collect(session, &verdicts)? {
        taken = taken.saturating_sub(removed?.freed.unwrap_or_default());
    }
    if taken < total { Ok(()) } else { Err(full(taken)) }
}

/// Formats the age of a workspace: `9 days`, `3 hours`, `5 minutes`.
fn format_age(millis: u64) -> String {
    let units = [("day", 86_400_000), ("hour", 3_600_000), ("minute", 60_000)];
    let (unit, size) = units.into_iter().find(|(_, size)| millis >= *size).unwrap_or(("second", 1000));
    match millis / size {
        1 => format!("1 {unit}"),
        count => format!("{count} {unit}s"),
    }
}

/// Returns the default limits of `way ws gc`, from the configuration.
pub fn default_rules(session: &Session) -> Result<Rules> {
    let config = &session.place.config;
    let older_than = match config.text("workspaces.keep_for").as_deref() {
        None | Some("forever") => None,
        Some(text) => Some(parse_duration_ms(text).map_err(|error| error.within("workspaces.keep_for"))?),
    };
    Ok(Rules {
        older_than,
        keep: config.text("workspaces.keep_count").and_then(|text| text.parse().ok()),
        max_bytes: config.text("workspaces.total").and_then(|text| bytes::parse(&text)),
    })
}
