//! Snapshots of workspaces.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use waypost_core::model::{Vcs, Workspace};
use waypost_core::{Error, Result};
use waypost_workspace::workspaces::{self as tools, DamagedMirror, Name, Plan, Restored, Snapshot};

use super::places::{mirrors, mirrors_of, root_of, saved_dir};
use super::records::{Records, change, plan_of};
use crate::app::session::Session;
use crate::machine::place::Place;

/// Saves all work of a workspace.
pub fn snapshot(records: &mut dyn Records, workspace: &Workspace) -> Result<Snapshot> {
    let plan = plan_of(workspace)?;
    let name = free_snapshot_name(&plan, plan.name.as_str())?;
    let saved = tools::snapshot(&plan, &name)?;
    record_snapshot(records, workspace, &saved)?;
    Ok(saved)
}

/// Records the last snapshot of a workspace.
fn record_snapshot(records: &mut dyn Records, workspace: &Workspace, saved: &Snapshot) -> Result<()> {
    change(records, &workspace.id, |change| change.snapshot = Some(saved.id.to_string()))
        .map(drop)
        .map_err(|error| error.hint(format!("the work is saved as snapshot {}", saved.id)))
}

/// Saves all files of a workspace whose repository cannot be read.
pub(super) fn save_files(records: &mut dyn Records, workspace: &Workspace) -> Result<Snapshot> {
    let plan = plan_of(workspace)?;
    let taken = tools::copies(&plan.workspaces, plan.saved.as_deref(), None)?;
    let saved = tools::save_copy(&plan, &first_free_name(&taken, plan.name.as_str())?)?;
    record_snapshot(records, workspace, &saved)?;
    Ok(saved)
}

/// Returns the first free name of a snapshot: a prefix and a number.
fn free_snapshot_name(plan: &Plan, prefix: &str) -> Result<Name> {
    first_free_name(&tools::snapshots(plan)?, prefix)
}

fn first_free_name(taken: &[Snapshot], prefix: &str) -> Result<Name> {
    let taken: Vec<_> = taken.iter().map(|snapshot| snapshot.id.to_string()).collect();
    let number = (1..=taken.len() + 1).find(|number| !taken.contains(&format!("{prefix}-{number}")));
    Name::try_from(format!("{prefix}-{}", number.unwrap_or_default()))
}

/// Restores a snapshot into a workspace. Saves the current files first, unless the workspace is new.
pub fn restore(workspace: &Workspace, snapshot: &Name, is_new: bool) -> Result<Restored> {
    let plan = plan_of(workspace)?;
    let before = if is_new { None } else { Some(free_snapshot_name(&plan, &format!("{}-before", plan.name))?) };
    tools::restore(&plan, snapshot, before.as_ref())
}

/// Lists everything that was saved of the caller's repository: workspaces, and worktrees that were removed. The oldest comes
/// first.
pub fn snapshots(place: &Place) -> Result<Vec<Snapshot>> {
    let checkout = place.require_checkout()?;
    let mut all = Vec::new();
    // Mirrors come last: they are caches, and what they have is also kept elsewhere.
    if let Some(git_dir) = &checkout.git_dir {
        all.extend(tools::saved_in(git_dir)?);
        let mirror = tools::mirror_of(&mirrors_of(place)?, checkout)?;
        let own = mirror.file_name().and_then(|name| Some(saved_dir(place)?.join(name)));
        all.extend(own.map(|own| tools::saved_in(&own)).transpose()?.unwrap_or_default());
        all.extend(tools::snapshots_of(&mirror)?);
    }
    if checkout.vcs == Vcs::Hg {
        all.extend(tools::saved_in_hg(checkout)?);
    }
    all.extend(tools::copies(&root_of(place)?, saved_dir(place).as_deref(), Some(checkout.repository_path()))?);
    Ok(in_order(all))
}

/// Lists everything that was saved of the user's workspaces, whatever their repositories. The oldest comes first.
pub fn all_snapshots(place: &Place) -> Result<Vec<Snapshot>> {
    let mut all = Vec::new();
    if let Some(saved) = saved_dir(place) {
        for repository in repositories_in(&saved)? {
            all.extend(tools::saved_in(&repository)?);
        }
    }
    for mirror in repositories_in(&mirrors_of(place)?)? {
        all.extend(tools::snapshots_of(&mirror)?);
    }
    all.extend(tools::copies(&root_of(place)?, saved_dir(place).as_deref(), None)?);
    Ok(in_order(all))
}

/// Lists the bare repositories in a directory. A missing directory has none.
fn repositories_in(dir: &Path) -> Result<Vec<PathBuf>> {
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Error::unavailable(format!("cannot read {}", dir.display())).because(error)),
    };
    let mut found: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    found.retain(|path| path.extension().is_some_and(|extension| extension == "git") && path.is_dir());
    found.sort();
    Ok(found)
}

/// Sorts snapshots by age. Of several with one name, the first stays.
fn in_order(mut all: Vec<Snapshot>) -> Vec<Snapshot> {
    let mut seen = BTreeSet::new();
    all.retain(|one| seen.insert(one.id.clone()));
    all.sort_by(|one, other| (one.time, &one.id).cmp(&(other.time, &other.id)));
    all
}

/// Deletes a snapshot from everywhere.
pub fn remove_snapshot(place: &Place, name: &Name) -> Result<Snapshot> {
    let found = find_snapshot(place, name)?;
    tools::remove_snapshot(&found)?;
    let mirrors = mirrors_of(place)?;
    let own = place.checkout.as_ref().filter(|checkout| checkout.git_dir.is_some());
    let own = own.map(|checkout| tools::mirror_of(&mirrors, checkout)).transpose()?;
    // The mirror and the repository that keeps its snapshots have one name.
    let of_keeper = found.kept_in.as_ref().and_then(|kept_in| kept_in.file_name()).map(|name| mirrors.join(name));
    for mirror in own.into_iter().chain(of_keeper) {
        tools::remove_from_mirror(&mirror, name)?;
    }
    Ok(found)
}

/// Lists the mirrors of this user that a power cut damaged. Snapshots are in mirrors.
pub fn damaged_mirrors(session: &Session) -> Result<Vec<DamagedMirror>> {
    tools::damaged_mirrors(&mirrors(session)?)
}

/// Returns a snapshot of the caller's repository, else of any of the user's workspaces.
pub fn find_snapshot(place: &Place, name: &Name) -> Result<Snapshot> {
    let own = if place.checkout.is_some() { snapshots(place)? } else { Vec::new() };
    let found = match own.into_iter().find(|one| one.id == *name) {
        None => all_snapshots(place)?.into_iter().find(|one| one.id == *name),
        found => found,
    };
    found.ok_or_else(|| Error::not_found(format!("there is no snapshot {name}")).hint("way ws snapshots --all"))
}

/// Writes a snapshot with its history into a bundle, which git can clone and fetch from.
pub fn export(place: &Place, snapshot: &Name, file: &Path) -> Result<()> {
    let found = find_snapshot(place, snapshot)?;
    if let Some(path) = &found.path {
        return Err(Error::refused(format!("snapshot {snapshot} is a copy of files, without git history"))
            .hint(format!("its files are in {}", path.join("files").display())));
    }
    tools::export(&found, file)
}
