//! Garbage collection of workspaces: by age, number and size.

use serde::Serialize;
use waypost_core::model::{Strategy, Workspace, WorkspaceStatus};
use waypost_core::time::{Timestamp, parse_duration_ms};
use waypost_core::{Error, Result};
use waypost_workspace::workspaces::{self as tools, Packed};

use super::places::{mirrors_of, root_of, saved_dir};
use super::records::{is_pooled, recover_interrupted};
use super::remove::{Force, RemovedWorkspace, examine, examine_to_save, remove};
use super::results::release_results;
use super::user::{UserWorkspace, UserWorkspaces};
use crate::app::session::Session;
use crate::machine::bytes;
use crate::machine::place::Place;

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
    /// Its work that is saved before it is removed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub saves: Vec<String>,
    #[serde(skip)]
    target: UserWorkspace,
}

/// The workspaces that limits apply to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Those of the caller's store.
    Store,
    /// All of the user's, whatever store has their records.
    User,
}

/// Applies limits to the workspaces of this machine, the oldest first. Returns only workspaces that exceed a limit.
pub fn judge(workspaces: &mut UserWorkspaces<'_>, reach: Reach, rules: &Rules, now: Timestamp) -> Result<Vec<Verdict>> {
    if let Some(session) = workspaces.session() {
        recover_interrupted(session)?;
    }
    let mut all = workspaces.of_caller()?;
    if reach == Reach::User {
        all.extend(workspaces.elsewhere(true)?);
    }
    all.retain(|one| {
        let workspace = &one.view.workspace;
        // A pool that no repository takes from is not needed.
        (one.is_orphaned() || !is_pooled(workspace)) && workspace.strategy != Strategy::InPlace
    });
    let age = |one: &UserWorkspace| (one.view.workspace.updated_at, one.view.workspace.id.clone());
    all.sort_by_key(age);
    let mut bytes = Vec::new();
    for one in &all {
        let workspace = &one.view.workspace;
        let size = match (workspace.status, rules.max_bytes) {
            (WorkspaceStatus::Lost, _) => 0,
            (_, Some(_)) => workspaces.measure(one)?,
            _ => workspace.size.unwrap_or_default(),
        };
        bytes.push(size);
    }
    let (mut left, mut taken) = (all.len(), bytes.iter().sum::<u64>());
    let mut verdicts = Vec::new();
    for (target, size) in all.into_iter().zip(bytes) {
        let workspace = target.view.workspace.clone();
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
        let (objections, saves) = match objections(&target) {
            Ok(found) => found,
            // An unreadable workspace may contain any work.
            Err(error) => (vec![error.full_message()], Vec::new()),
        };
        let goes = objections.is_empty();
        if goes {
            left -= 1;
            taken = taken.saturating_sub(size);
        }
        let why = match (goes, saves.is_empty()) {
            (false, _) => objections.join(", "),
            (true, true) => why,
            (true, false) => format!("{why}; saved first: {}", saves.join(", ")),
        };
        verdicts.push(Verdict { workspace, goes, why, saves, target });
    }
    Ok(verdicts)
}

/// Returns the reasons why a workspace stays, and its work that is saved if it is removed.
///
/// The work of a workspace without a store is saved, because no repository is left that would use it.
fn objections(target: &UserWorkspace) -> Result<(Vec<String>, Vec<String>)> {
    let workspace = &target.view.workspace;
    match &target.unrecorded {
        Some(_) if target.is_orphaned() => examine_to_save(workspace),
        Some(why) => Ok((vec![why.clone()], Vec::new())),
        None => Ok((examine(workspace)?.objections, Vec::new())),
    }
}

/// Removes the selected workspaces, and trash that an interrupted process left.
pub fn collect(workspaces: &mut UserWorkspaces<'_>, verdicts: &[Verdict]) -> Result<Vec<Result<RemovedWorkspace>>> {
    let mut removed = Vec::new();
    for Verdict { workspace, target, .. } in verdicts.iter().filter(|verdict| verdict.goes) {
        let force = if target.is_orphaned() { Force::Save } else { Force::No };
        removed.push(workspaces.with_records(target, |records| remove(records, workspace, force)));
    }
    let place = workspaces.place();
    for error in tools::sweep_trash(&root_of(place)?, saved_dir(place).as_deref())? {
        log::debug!("cannot empty the trash: {}", error.full_message());
    }
    Ok(removed)
}

/// Packs the mirrors that workspaces are cloned from, and releases results that no workflow needs any more. Failures are
/// only logged.
pub fn upkeep(workspaces: &mut UserWorkspaces<'_>) -> Result<Vec<Packed>> {
    if let Some(Err(error)) = workspaces.session().map(release_results) {
        log::debug!("cannot release the results of workflows: {}", error.full_message());
    }
    let (packed, failed) = tools::upkeep(&mirrors_of(workspaces.place())?);
    for error in failed {
        log::debug!("cannot pack a mirror: {}", error.full_message());
    }
    Ok(packed)
}

/// Checks the total size limit before a workspace is created. It holds for all workspaces of the user together. Removes old
/// ones if the user allows that.
pub(super) fn make_room(session: &mut Session, report: &mut dyn FnMut(&str)) -> Result<()> {
    let config = &session.place.config;
    let Some(total) = config.text("workspaces.total").and_then(|text| bytes::parse(&text)) else { return Ok(()) };
    let evicts = config.text("workspaces.policy").as_deref() == Some("evict");
    let now = session.now()?;
    let mut workspaces = UserWorkspaces::new(session.place.clone(), Some(session));
    let mut all = workspaces.of_caller()?;
    all.extend(workspaces.elsewhere(false)?);
    let mut taken = 0;
    for one in &all {
        let workspace = &one.view.workspace;
        if workspace.status.is_live() && workspace.strategy != Strategy::InPlace {
            taken += match workspaces.measure(one) {
                Ok(size) => size,
                // Another command removed it.
                Err(_) if !workspace.path.exists() => 0,
                Err(error) => {
                    let message = format!("workspace {} cannot be measured, so it counts as too large", workspace.id);
                    return Err(Error::refused(message)
                        .because(error.full_message())
                        .hint(format!("remove it: way ws rm {}", workspace.id))
                        .hint("or set no limit: way config unset workspaces.total"));
                }
            };
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
        .hint("way ws gc --all removes workspaces that lose no work; workspaces.total sets the limit")
    };
    if !evicts {
        return Err(full(taken));
    }
    let rules = Rules { max_bytes: Some(total.saturating_sub(1)), ..Rules::default() };
    let verdicts = judge(&mut workspaces, Reach::User, &rules, now)?;
    let going: u64 = verdicts.iter().filter(|verdict| verdict.goes).filter_map(|verdict| verdict.workspace.size).sum();
    report(&format!("removing {} of workspaces", bytes::humanize(going)));
    for removed in collect(&mut workspaces, &verdicts)? {
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
pub fn default_rules(place: &Place) -> Result<Rules> {
    let config = &place.config;
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
