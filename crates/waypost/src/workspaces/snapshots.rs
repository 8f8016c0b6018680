//! Snapshots of workspaces.

use std::collections::BTreeSet;
use std::path::Path;

use waypost_core::model::{Vcs, Workspace};
use waypost_core::{Error, Result};
use waypost_workspace::workspaces::{self as tools, DamagedMirror, Name, Plan, Restored, Snapshot};

use super::places::{mirror, mirrors, root, saved_dir};
use super::records::{change, plan_of};
use crate::session::Session;

/// Saves all work of a workspace.
pub fn snapshot(session: &mut Session, workspace: &Workspace) -> Result<Snapshot> {
    let plan = plan_of(workspace)?;
    let name = free_snapshot_name(&plan, plan.name.as_str())?;
    let saved = tools::snapshot(&plan, &name)?;
    change(session, &workspace.id, |change| change.snapshot = Some(saved.id.to_string()))?;
    Ok(saved)
}

/// Saves all files of a workspace whose repository cannot be read.
pub(super) fn save_files(session: &mut Session, workspace: &Workspace) -> Result<Snapshot> {
    let plan = plan_of(workspace)?;
    let taken = tools::copies(&plan.workspaces, plan.saved.as_deref(), None)?;
    let saved = tools::save_copy(&plan, &first_free_name(&taken, plan.name.as_str())?)?;
    change(session, &workspace.id, |change| change.snapshot = Some(saved.id.to_string()))?;
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
pub fn snapshots(session: &Session) -> Result<Vec<Snapshot>> {
    let checkout = session.place.require_checkout()?;
    let mut all = Vec::new();
    // Mirrors come last: they are caches, and what they have is also kept elsewhere.
    if let Some(git_dir) = &checkout.git_dir {
        all.extend(tools::saved_in(git_dir)?);
    }
    if let Some(mirror) = mirror(session)? {
        let own = mirror.file_name().and_then(|name| Some(saved_dir(session)?.join(name)));
        all.extend(own.map(|own| tools::saved_in(&own)).transpose()?.unwrap_or_default());
        all.extend(tools::snapshots_of(&mirror)?);
    }
    if checkout.vcs == Vcs::Hg {
        all.extend(tools::saved_in_hg(checkout)?);
    }
    let copies = tools::copies(&root(session)?, saved_dir(session).as_deref(), Some(checkout.repository_path()))?;
    all.extend(copies);
    let mut seen = BTreeSet::new();
    all.retain(|one| seen.insert(one.id.clone()));
    all.sort_by(|one, other| (one.time, &one.id).cmp(&(other.time, &other.id)));
    Ok(all)
}

/// Deletes a snapshot from everywhere.
pub fn remove_snapshot(session: &Session, name: &Name) -> Result<Snapshot> {
    let found = find_snapshot(session, name)?;
    tools::remove_snapshot(&found)?;
    if let Some(mirror) = mirror(session)? {
        tools::remove_from_mirror(&mirror, name)?;
    }
    Ok(found)
}

/// Lists the mirrors of this user that a power cut damaged. Snapshots are in mirrors.
pub fn damaged_mirrors(session: &Session) -> Result<Vec<DamagedMirror>> {
    tools::damaged_mirrors(&mirrors(session)?)
}

/// Returns a snapshot of the caller's repository.
pub fn find_snapshot(session: &Session, name: &Name) -> Result<Snapshot> {
    let found = snapshots(session)?.into_iter().find(|one| one.id == *name);
    found.ok_or_else(|| Error::not_found(format!("there is no snapshot {name}")).hint("way ws snapshots"))
}

/// Writes a snapshot with its history into a bundle, which git can clone and fetch from.
pub fn export(session: &Session, snapshot: &Name, file: &Path) -> Result<()> {
    let found = find_snapshot(session, snapshot)?;
    if let Some(path) = &found.path {
        return Err(Error::refused(format!("snapshot {snapshot} is a copy of files, without git history"))
            .hint(format!("its files are in {}", path.join("files").display())));
    }
    tools::export(&found, file)
}
