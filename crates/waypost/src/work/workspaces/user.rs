//! All workspaces of the user, whatever store has their records.
//!
//! Workspaces are in the user's directory, and their records are in the stores of repositories. A repository that is deleted
//! takes its store along, but not its workspaces. The user's register names them all, with a copy of each record, so that
//! they can still be listed, measured, saved and removed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;
use waypost_core::id::WorktreeId;
use waypost_core::model::{Workspace, WorkspaceStatus};
use waypost_core::op::{ListWorkspaces, ShowWorkspace, UpdateWorkspace, WorkspaceView};
use waypost_core::time::Timestamp;
use waypost_core::work::places::WorktreeSummary;
use waypost_core::{Error, Kind, Result};
use waypost_workspace::jobs;
use waypost_workspace::workspaces::{self as tools, Name, Snapshot};

use super::places::machine_of;
use super::records::{
    REMOVING, Records, containing, find, is_inconsistent, is_pooled, is_same, list, measure, plan_of, recover,
    recover_interrupted, update_register,
};
use crate::app::session::Session;
use crate::machine::place::{Location, Place};
use crate::machine::registry::{self, Entries, Registration};
use crate::machine::system::clock;

/// A workspace of the user, with the store that has its record.
#[derive(Clone, Debug, Serialize)]
pub struct UserWorkspace {
    /// The workspace.
    #[serde(flatten)]
    pub view: WorkspaceView,
    /// Its store: a path, or a URL without a password. None if it is the caller's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store: Option<String>,
    /// Why only the register knows it, or why its store cannot be used. None if its store has its record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unrecorded: Option<String>,
    #[serde(skip)]
    keeper: Keeper,
}

/// Where the record of a workspace is kept.
#[derive(Clone, Debug)]
enum Keeper {
    /// In the caller's store.
    Caller,
    /// In another store, by its location.
    Other(String),
    /// Only in the register, under this name.
    Register(Name),
    /// In a store that cannot be used.
    Unusable(Error),
}

impl UserWorkspace {
    fn of_caller(view: WorkspaceView) -> UserWorkspace {
        UserWorkspace { view, store: None, unrecorded: None, keeper: Keeper::Caller }
    }

    /// Returns the directory that holds it and its context.
    fn home(&self) -> &Path {
        let path = &self.view.workspace.path;
        path.parent().unwrap_or(path)
    }

    /// Returns whether only the register knows it.
    pub fn is_orphaned(&self) -> bool {
        matches!(self.keeper, Keeper::Register(_))
    }
}

/// The workspaces of the user, from the caller's store and from the register.
pub struct UserWorkspaces<'a> {
    place: Place,
    session: Option<&'a mut Session>,
    others: BTreeMap<String, Session>,
}

/// The record of a workspace that only the register has.
struct RegisterRecord {
    place: Place,
    home: PathBuf,
    name: Name,
}

impl Records for RegisterRecord {
    fn place(&self) -> &Place {
        &self.place
    }

    fn time(&mut self) -> Result<Timestamp> {
        Ok(clock(&self.place.variables)?.now())
    }

    fn change(&mut self, change: UpdateWorkspace) -> Result<Workspace> {
        let known = registry::entry(&self.home, &self.name)?.and_then(|registration| registration.record);
        let mut workspace = known.ok_or_else(|| Error::not_found(format!("no workspace {}", change.workspace)))?;
        if workspace.status == WorkspaceStatus::Active {
            // No store has a job that uses it.
            workspace.status = WorkspaceStatus::Kept;
        }
        change.apply_to(&mut workspace, self.time()?)?;
        update_register(&self.place, &workspace)?;
        Ok(workspace)
    }

    fn remove_worktree(&mut self, _id: WorktreeId, _path: &Path) -> Result<()> {
        Ok(())
    }

    fn way_to_restore(&self, snapshot: &Snapshot) -> String {
        match &snapshot.path {
            Some(path) => format!("its files are in {}", path.join("files").display()),
            None => format!("way ws export {} FILE, and git clone FILE", snapshot.id),
        }
    }
}

/// Returns the record of a workspace without a store, with the status that its files and processes show.
fn as_found(mut workspace: Workspace) -> Workspace {
    let Ok(plan) = plan_of(&workspace) else { return workspace };
    let is_used = workspace.job_id.as_ref().is_some_and(|job| jobs::has_processes(job.as_str()));
    let is_here = match workspace.identity {
        Some(_) => is_same(&workspace, &plan),
        None => plan.home().symlink_metadata().is_ok(),
    };
    workspace.status = match workspace.status {
        WorkspaceStatus::Creating if workspace.identity.is_none() => WorkspaceStatus::Creating,
        _ if !is_here => WorkspaceStatus::Lost,
        _ if is_used => WorkspaceStatus::Active,
        _ => WorkspaceStatus::Kept,
    };
    workspace
}

impl<'a> UserWorkspaces<'a> {
    /// Uses the caller's store, if there is one.
    pub fn new(place: Place, session: Option<&'a mut Session>) -> UserWorkspaces<'a> {
        UserWorkspaces { place, session, others: BTreeMap::new() }
    }

    /// Returns the place of the caller.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Returns the session of the caller's store, if there is one.
    pub fn session(&mut self) -> Option<&mut Session> {
        self.session.as_deref_mut()
    }

    /// Lists the existing workspaces on this machine that the caller's store has.
    pub fn of_caller(&mut self) -> Result<Vec<UserWorkspace>> {
        let Some(session) = self.session() else { return Ok(Vec::new()) };
        Ok(list(session)?.into_iter().map(UserWorkspace::of_caller).collect())
    }

    /// Returns the current time.
    pub fn now(&mut self) -> Result<Timestamp> {
        match &mut self.session {
            Some(session) => session.now(),
            None => Ok(clock(&self.place.variables)?.now()),
        }
    }

    /// Lists the workspaces on this machine that the caller's store has no record of. With `opens`, every store is opened
    /// that has one; else only files are, and the copy in the register stands for the records in databases and servers.
    pub fn elsewhere(&mut self, opens: bool) -> Result<Vec<UserWorkspace>> {
        let Some((home, _)) = self.place.home.clone() else { return Ok(Vec::new()) };
        let Entries { found: entries, failed } = registry::list(&home)?;
        for error in failed {
            log::warn!("{}", error.full_message());
        }
        let known = match (&mut self.session, machine_of(&self.place)) {
            (Some(session), Some(machine)) if !entries.is_empty() => {
                let all = ListWorkspaces {
                    machine: Some(machine),
                    all: true,
                    limit: Some(u32::MAX),
                    ..ListWorkspaces::default()
                };
                session.read(all)?.workspaces.into_iter().map(|view| view.workspace.id).collect()
            }
            _ => Vec::new(),
        };
        let mut found = Vec::new();
        for (name, registration) in entries {
            if !known.contains(&registration.workspace) {
                found.extend(self.registered(&home, name, &registration, opens)?);
            }
        }
        found.sort_by_key(|one| std::cmp::Reverse(one.view.workspace.created_at));
        Ok(found)
    }

    /// Returns a registered workspace. None if its removal was complete but for the register.
    fn registered(
        &mut self,
        home: &Path,
        name: Name,
        registration: &Registration,
        opens: bool,
    ) -> Result<Option<UserWorkspace>> {
        let Some(record) = registration.record.clone() else { return Ok(None) };
        let location = self.location_of(registration);
        let in_store = match &location {
            Ok(Location::Sqlite(path)) if !path.exists() => Ok(None),
            Ok(location) => self.in_store(location, registration, opens),
            Err(error) => Err(error.clone()),
        };
        let store = location.map_or_else(|_| registration.store.clone(), |location| location.to_string());
        let (view, unrecorded, keeper) = match in_store {
            Ok(Some((view, keeper))) => (view, None, keeper),
            Ok(None) => {
                let workspace = as_found(record);
                if is_recovered(&workspace) {
                    registry::unregister(home, &name)?;
                    return Ok(None);
                }
                let why = format!("the store {store} is gone, or has no record of it");
                (unrecorded_view(registration, workspace), Some(why), Keeper::Register(name))
            }
            Err(error) => {
                let why = error.full_message();
                (unrecorded_view(registration, as_found(record)), Some(why), Keeper::Unusable(error))
            }
        };
        if matches!(view.workspace.status, WorkspaceStatus::Removed | WorkspaceStatus::Snapshotted) {
            return Ok(None);
        }
        Ok(Some(UserWorkspace { view, store: Some(store), unrecorded, keeper }))
    }

    /// Returns the store of a workspace: the one that a command in it would use.
    fn location_of(&self, registration: &Registration) -> Result<Location> {
        self.place_of(registration)?.store().map(|choice| choice.location)
    }

    /// Returns the place of a workspace, whatever store the caller named.
    fn place_of(&self, registration: &Registration) -> Result<Place> {
        if registration.path.is_dir()
            && !registration.is_foreign
            && let Ok(place) = self.place.as_in(&registration.path, None)
        {
            return Ok(place);
        }
        // It cannot be read, is gone, or is not a part of its repository: use its store from where it was requested.
        let dir = Some(&registration.worktree.path).filter(|dir| dir.is_dir());
        self.place.as_in(dir.unwrap_or(&self.place.cwd), Some(&registration.store))
    }

    /// Returns the record of a workspace in its store. None if the store has none.
    fn in_store(
        &mut self,
        location: &Location,
        registration: &Registration,
        opens: bool,
    ) -> Result<Option<(WorkspaceView, Keeper)>> {
        let key = location.to_string();
        let is_caller = self.session.as_ref().is_some_and(|session| session.choice.location.to_string() == key);
        if !is_caller && !opens && !matches!(location, Location::Sqlite(_)) {
            let record = registration.record.clone().map(as_found);
            return Ok(record.map(|record| (unrecorded_view(registration, record), Keeper::Other(key))));
        }
        if !is_caller && !self.others.contains_key(&key) {
            let mut session = Session::open_existing(self.place_of(registration)?)?;
            if session.is_absent() {
                return Ok(None);
            }
            if let Some(caller) = &self.session {
                session.collect_warnings_in(caller.warnings().clone());
            }
            recover_interrupted(&mut session)?;
            self.others.insert(key.clone(), session);
        }
        let session = if is_caller { self.session.as_deref_mut() } else { self.others.get_mut(&key) };
        let Some(session) = session else { return Ok(None) };
        match session.read(ShowWorkspace { workspace: registration.workspace.to_string() }) {
            Ok(view) => Ok(Some((view, if is_caller { Keeper::Caller } else { Keeper::Other(key) }))),
            Err(error) if error.kind() == Kind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Finds a workspace by its id, the start of its id, its job, or a path in it: in the caller's store, else in the
    /// register.
    pub fn find(&mut self, reference: &str) -> Result<UserWorkspace> {
        let error = match &mut self.session {
            Some(session) => match find(session, reference) {
                Ok(view) => return Ok(UserWorkspace::of_caller(view)),
                Err(error) if error.kind() == Kind::NotFound => error,
                Err(error) => return Err(error),
            },
            None => Error::not_found(format!("no workspace {reference}")).hint("way ws list --all"),
        };
        let path = self.place.cwd.join(reference);
        let path = path.canonicalize().unwrap_or(path);
        let is_named = |one: &UserWorkspace| {
            let workspace = &one.view.workspace;
            let is_job = workspace.job_id.as_ref().is_some_and(|job| job.as_str() == reference);
            workspace.id.as_str().starts_with(reference) || is_job || path.starts_with(one.home())
        };
        let mut found: Vec<_> = self.elsewhere(true)?.into_iter().filter(is_named).collect();
        match (found.pop(), found.len()) {
            (Some(one), 0) => Ok(one),
            (Some(one), _) => {
                let ids = found.iter().chain([&one]).map(|one| one.view.workspace.id.to_string());
                let ids: Vec<_> = ids.collect();
                Err(Error::invalid(format!("{reference} is ambiguous: {}", ids.join(", "))))
            }
            (None, _) => Err(error),
        }
    }

    /// Returns the workspace that contains a path.
    pub fn containing(&mut self, path: &Path) -> Result<Option<UserWorkspace>> {
        if let Some(session) = self.session()
            && let Some(view) = containing(session, path)?
        {
            return Ok(Some(UserWorkspace::of_caller(view)));
        }
        let path = self.place.cwd.join(path);
        let path = path.canonicalize().unwrap_or(path);
        let is_in = |one: &UserWorkspace| path.starts_with(one.home());
        Ok(self.elsewhere(false)?.into_iter().find(is_in))
    }

    /// Measures a workspace, and stores its size where its record is kept, if that is open.
    pub fn measure(&mut self, one: &UserWorkspace) -> Result<u64> {
        let workspace = &one.view.workspace;
        let is_open = match &one.keeper {
            Keeper::Caller | Keeper::Register(_) => true,
            Keeper::Other(key) => self.others.contains_key(key),
            Keeper::Unusable(_) => false,
        };
        if is_open {
            self.with_records(one, |records| measure(records, workspace))
        } else {
            Ok(tools::measure(&plan_of(workspace)?)?.bytes)
        }
    }

    /// Calls `work` with where the record of a workspace is kept.
    pub fn with_records<T>(
        &mut self,
        workspace: &UserWorkspace,
        work: impl FnOnce(&mut dyn Records) -> Result<T>,
    ) -> Result<T> {
        let closed = || Error::internal(format!("the store of workspace {} is not open", workspace.view.workspace.id));
        match &workspace.keeper {
            Keeper::Caller => work(self.session().ok_or_else(closed)?),
            Keeper::Other(key) => work(self.others.get_mut(key).ok_or_else(closed)?),
            Keeper::Register(name) => {
                let home = self.place.home.as_ref().map(|(home, _)| home.clone()).ok_or_else(closed)?;
                work(&mut RegisterRecord { place: self.place.clone(), home, name: name.clone() })
            }
            Keeper::Unusable(error) => Err(Error::refused(format!(
                "workspace {} stays as it is, because its store cannot be used",
                workspace.view.workspace.id
            ))
            .because(error.full_message())),
        }
    }
}

/// Completes an interrupted creation or removal of a workspace without a store. Returns whether it is gone then.
fn is_recovered(workspace: &Workspace) -> bool {
    let was_removed = workspace.note.as_deref() == Some(REMOVING) || is_pooled(workspace);
    let interrupted = match workspace.status {
        WorkspaceStatus::Creating if is_inconsistent(workspace) => workspace.clone(),
        // The directory is gone already, but what belongs to it elsewhere may not be.
        WorkspaceStatus::Lost if was_removed => Workspace { status: WorkspaceStatus::Kept, ..workspace.clone() },
        _ => return false,
    };
    let Some(_files) = plan_of(workspace).ok().and_then(|plan| tools::try_lock_files(&plan)) else { return false };
    matches!(recover(&interrupted), Some((WorkspaceStatus::Removed | WorkspaceStatus::Snapshotted, _)))
}

/// Describes a workspace by its entry in the register.
fn unrecorded_view(registration: &Registration, workspace: Workspace) -> WorkspaceView {
    let worktree = &registration.worktree;
    WorkspaceView {
        workspace,
        repository: registration.repository.name.clone(),
        job_status: None,
        task: None,
        worktree: Some(WorktreeSummary {
            id: worktree.id.clone(),
            name: worktree.name.clone(),
            path: worktree.path.clone(),
            branch: worktree.branch.clone(),
            repository_id: worktree.repository_id.clone(),
            repository: registration.repository.name.clone(),
            removed_at: worktree.removed_at,
        }),
    }
}
