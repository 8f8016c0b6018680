//! The rows of workspaces in the store: finds, lists and changes them, and reconciles them with the disk.

use std::path::Path;

use serde::{Deserialize, Serialize};
use waypost_core::id::{WorkspaceId, WorktreeId};
use waypost_core::model::{Job, ProcessIdentity, Strategy, Workspace, WorkspaceStatus};
use waypost_core::op::{
    AddWorkspace, ListLiveWorkspaces, ListWorkspaces, ListWorktrees, RemoveWorktree, ShowWorkspace, UpdateWorkspace,
    WorkspaceView,
};
use waypost_core::time::Timestamp;
use waypost_core::{Error, Kind, Result, tree};
use waypost_fs::FileIdentity;
use waypost_workspace::jobs;
use waypost_workspace::workspaces::{self as tools, Diff, Plan, Snapshot, Work};

use super::places::known_machine;
use crate::app::session::Session;
use crate::machine::place::Place;
use crate::machine::registry;

/// The note of a row while its directory is being removed.
pub(super) const REMOVING: &str = "it is being removed";
// Start of the note of a row whose directory could not be removed.
pub use waypost_core::work::attention::REMOVAL_FAILED;
/// The note of a row of a workspace in the pool.
pub(super) const IN_POOL: &str = "it waits in the pool";

/// The data that the store keeps to undo the creation of a workspace.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) plan: Plan,
    pub(super) maker: ProcessIdentity,
}

pub(super) fn record(
    session: &mut Session,
    id: &WorkspaceId,
    job: Option<&Job>,
    machine: &str,
    plan: &Plan,
    started_from: Option<String>,
) -> Result<Workspace> {
    let record = Record { plan: plan.clone(), maker: jobs::own_identity() };
    let record = serde_json::to_value(record).map_err(|error| Error::internal(error.to_string()))?;
    session.write(AddWorkspace {
        id: id.clone(),
        job: job.map(|job| job.id.to_string()),
        repository: None,
        machine: machine.to_owned(),
        path: plan.workspace.clone(),
        context: Some(plan.context()),
        strategy: plan.strategy,
        branch: plan.branch.clone(),
        base: plan.base.clone(),
        started_from,
        plan: record,
    })
}

/// Where the record of a workspace is kept: in a store, or only in the user's register.
pub trait Records {
    /// Returns the place of the caller.
    fn place(&self) -> &Place;

    /// Returns the current time.
    fn time(&mut self) -> Result<Timestamp>;

    /// Changes a record, and its copy in the user's register.
    fn change(&mut self, change: UpdateWorkspace) -> Result<Workspace>;

    /// Records that the worktree at a path is removed, if it is known.
    fn remove_worktree(&mut self, id: WorktreeId, path: &Path) -> Result<()>;

    /// Returns how to get the work of a snapshot back.
    fn way_to_restore(&self, snapshot: &Snapshot) -> String {
        format!("way ws restore {}", snapshot.id)
    }
}

impl Records for Session {
    fn place(&self) -> &Place {
        &self.place
    }

    fn time(&mut self) -> Result<Timestamp> {
        self.now()
    }

    fn change(&mut self, change: UpdateWorkspace) -> Result<Workspace> {
        let workspace = self.write(change)?;
        // The store has the change, and the next change of the record updates its copy.
        let failed = update_register(&self.place, &workspace).err();
        self.warnings().add(failed.map(|error| error.full_message()));
        Ok(workspace)
    }

    fn remove_worktree(&mut self, id: WorktreeId, path: &Path) -> Result<()> {
        let known = self.read(ListWorktrees::all())?.worktrees;
        if known.iter().any(|one| one.id == id && one.path == path && one.removed_at.is_none()) {
            self.write(RemoveWorktree { id })?;
        }
        Ok(())
    }
}

/// Updates the record of a workspace.
pub(super) fn change(
    records: &mut dyn Records,
    id: &WorkspaceId,
    set: impl FnOnce(&mut UpdateWorkspace),
) -> Result<Workspace> {
    let mut operation = UpdateWorkspace::of(id.as_str());
    set(&mut operation);
    records.change(operation)
}

/// Updates the copy of a record in the user's register.
pub(super) fn update_register(place: &Place, workspace: &Workspace) -> Result<()> {
    let (Some((home, _)), Ok(plan)) = (&place.home, plan_of(workspace)) else { return Ok(()) };
    let is_gone = matches!(workspace.status, WorkspaceStatus::Removed | WorkspaceStatus::Snapshotted);
    if is_gone && plan.home().symlink_metadata().is_err() {
        registry::unregister(home, &plan.name)
    } else {
        registry::change(home, &plan.name, |registration| registration.record = Some(workspace.clone()))
    }
}

/// Returns the plan of a workspace.
pub fn plan_of(workspace: &Workspace) -> Result<Plan> {
    let record: Record = tree::decode(&workspace.plan).map_err(|error| {
        Error::damaged(format!("cannot read the plan of workspace {}", workspace.id)).because(error)
    })?;
    Ok(record.plan)
}

/// Returns the changes in a workspace since the commit that it started from.
pub fn diff(workspace: &Workspace, max_bytes: u64) -> Result<Diff> {
    tools::diff(&plan_of(workspace)?, max_bytes)
}

/// Refuses a workspace on another machine: its files are not here.
pub fn require_here(session: &Session, workspace: &Workspace) -> Result<()> {
    if known_machine(session).as_ref() == Some(&workspace.machine) {
        return Ok(());
    }
    let or = if session.is_served() { "" } else { ", or use a server there as the store: --db URL" };
    Err(Error::refused(format!("workspace {} is on the machine {}, not on this one", workspace.id, workspace.machine))
        .hint(format!("run the command on {}{or}", workspace.machine)))
}

/// Returns whether a workspace is on another machine, and the store is used through a server: if that runs on the same machine,
/// it can be asked to work on the files.
pub fn is_at_server(session: &mut Session, reference: &str) -> Result<bool> {
    if !session.is_served() {
        return Ok(false);
    }
    match session.read(ShowWorkspace { workspace: reference.to_owned() }) {
        Ok(found) => Ok(known_machine(session).as_ref() != Some(&found.workspace.machine)),
        Err(error) if error.kind() == Kind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Finds a workspace on this machine by its id, the start of its id, its job, or a path in it.
pub fn find(session: &mut Session, reference: &str) -> Result<WorkspaceView> {
    let error = match session.read(ShowWorkspace { workspace: reference.to_owned() }) {
        Err(error) if error.kind() == Kind::NotFound => error,
        found => {
            let found = found?;
            return require_here(session, &found.workspace).map(|()| found);
        }
    };
    match containing(session, Path::new(reference))? {
        Some(found) => Ok(found),
        None => Err(error.hint("way ws list")),
    }
}

/// Returns the workspace that contains a path.
pub fn containing(session: &mut Session, path: &Path) -> Result<Option<WorkspaceView>> {
    let path = session.place.cwd.join(path);
    let path = path.canonicalize().unwrap_or(path);
    let Some(machine) = known_machine(session) else { return Ok(None) };
    let all = session
        .read(ListWorkspaces { machine: Some(machine), all: true, limit: Some(u32::MAX), ..ListWorkspaces::default() })?
        .workspaces;
    // The row of the workspace comes before the row of the pool slot that it came from.
    Ok(all.into_iter().find(|seen| {
        let home = seen.workspace.path.parent().unwrap_or(&seen.workspace.path);
        seen.workspace.strategy != Strategy::InPlace && path.starts_with(home)
    }))
}

/// Lists the existing workspaces of this machine, newest first.
pub fn list(session: &mut Session) -> Result<Vec<WorkspaceView>> {
    let Some(machine) = known_machine(session) else { return Ok(Vec::new()) };
    let all =
        session.read(ListWorkspaces { machine: Some(machine), limit: Some(u32::MAX), ..ListWorkspaces::default() })?;
    Ok(all.workspaces)
}

/// Returns whether a workspace is in the pool.
pub fn is_pooled(workspace: &Workspace) -> bool {
    workspace.note.as_deref() == Some(IN_POOL)
}

/// Recovers workspaces whose creation or removal was interrupted, and marks those whose directory is missing.
pub(crate) fn recover_interrupted(session: &mut Session) -> Result<()> {
    let Some(machine) = known_machine(session) else { return Ok(()) };
    for seen in session.read(ListLiveWorkspaces { machine })?.workspaces {
        if !is_inconsistent(&seen) {
            continue;
        }
        // Another process works on it: it is not interrupted.
        let Ok(plan) = plan_of(&seen) else { continue };
        let Some(_files) = tools::try_lock_files(&plan) else { continue };
        // It may have finished since the list was read.
        let now = session.read(ShowWorkspace { workspace: seen.id.to_string() })?.workspace;
        if (now.status, &now.note) != (seen.status, &seen.note) {
            continue;
        }
        if let Some((status, note)) = recover(&now) {
            change(session, &now.id, |change| {
                change.status = Some(status);
                change.note = Some(note.to_owned());
            })?;
        }
    }
    Ok(())
}

/// Returns whether the disk contradicts the row, and no process is working on it.
pub(super) fn is_inconsistent(workspace: &Workspace) -> bool {
    let Ok(record) = tree::decode::<Record>(&workspace.plan) else { return false };
    match workspace.status {
        WorkspaceStatus::Creating => !jobs::is_running(&record.maker),
        WorkspaceStatus::Active | WorkspaceStatus::Kept => !is_there(&record.plan),
        WorkspaceStatus::Lost => is_there(&record.plan) && is_same(workspace, &record.plan),
        _ => false,
    }
}

fn is_there(plan: &Plan) -> bool {
    plan.home().symlink_metadata().is_ok() || plan.strategy == Strategy::InPlace
}

/// Completes an interrupted creation or removal. Returns the new status and the note.
pub(super) fn recover(workspace: &Workspace) -> Option<(WorkspaceStatus, &'static str)> {
    let record = tree::decode::<Record>(&workspace.plan).ok()?;
    let plan = record.plan;
    match workspace.status {
        WorkspaceStatus::Creating => {
            // A git process that its creator started would go on and create files again.
            jobs::kill_tools_of(&record.maker);
            match tools::abandon(&plan) {
                Ok(()) => Some((WorkspaceStatus::Removed, "its creation was interrupted")),
                Err(error) => {
                    log::debug!("cannot undo the creation of workspace {}: {}", workspace.id, error.full_message());
                    None
                }
            }
        }
        WorkspaceStatus::Active | WorkspaceStatus::Kept => {
            let is_pooled = is_pooled(workspace);
            let is_expected = is_pooled || workspace.note.as_deref() == Some(REMOVING);
            match (is_expected, workspace.identity) {
                // Also removes its files outside its directory, which an interrupted process may have left.
                (true, Some(identity)) if tools::remove(&plan, identity, Work::MayGo).is_ok() => {
                    let is_saved = workspace.snapshot.is_some();
                    let status = if is_saved { WorkspaceStatus::Snapshotted } else { WorkspaceStatus::Removed };
                    Some((status, if is_pooled { "a job took it" } else { "" }))
                }
                _ => Some((WorkspaceStatus::Lost, "its directory is missing")),
            }
        }
        _ => Some((WorkspaceStatus::Kept, "")),
    }
}

pub(super) fn is_same(workspace: &Workspace, plan: &Plan) -> bool {
    let found = FileIdentity::of_entry(&plan.home()).ok().map(waypost_core::model::Identity::from);
    found.is_some() && found == workspace.identity
}

/// Measures a workspace and stores its size.
pub fn measure(records: &mut dyn Records, workspace: &Workspace) -> Result<u64> {
    let size = tools::measure(&plan_of(workspace)?)?.bytes;
    if workspace.size != Some(size) {
        change(records, &workspace.id, |change| change.size = Some(size))?;
    }
    Ok(size)
}

/// Pins or unpins a workspace. A pinned workspace is never removed.
pub fn pin(records: &mut dyn Records, workspace: &Workspace, pinned: bool) -> Result<Workspace> {
    change(records, &workspace.id, |change| change.pinned = Some(pinned))
}
