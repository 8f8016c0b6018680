//! The directories of workspaces and mirrors, and the name of this machine.

use std::path::{Path, PathBuf};
use std::time::Duration;

use waypost_core::id::WorkspaceId;
use waypost_core::{Error, Result};
use waypost_fs::FileLock;
use waypost_workspace::{NetworkOptions, workspaces as tools};

use crate::app::session::Session;
use crate::issues::sync;
use crate::machine::place::Place;
use crate::machine::system::SystemEntropy;

/// Maximum time to wait for another process that names this machine.
const LOCK_TIMEOUT: Duration = Duration::from_mins(2);

/// Returns the name of this machine. None if it never ran a job.
pub(super) fn known_machine(session: &Session) -> Option<String> {
    machine_of(&session.place)
}

/// Returns the name of this machine, without a session. None if it never ran a job.
pub(super) fn machine_of(place: &Place) -> Option<String> {
    if let Some(workspace) = place.workspace.as_ref().filter(|workspace| workspace.is_confined) {
        return workspace.registration.record.as_ref().map(|record| record.machine.clone());
    }
    let name = std::fs::read_to_string(place.in_home("machine")?.0).ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

/// Returns the name of this machine in the store. It is generated once and kept in the user's Waypost directory.
pub fn machine(session: &Session) -> Result<String> {
    if let Some(name) = known_machine(session) {
        return Ok(name);
    }
    let Some((path, _)) = session.place.in_home("machine") else {
        return Err(Error::invalid("workspaces need a home directory").hint("set HOME or WAYPOST_HOME"));
    };
    let cannot = |error| Error::unavailable(format!("cannot write {}", path.display())).because(error);
    waypost_fs::create_private_dir(path.parent().unwrap_or(Path::new("/"))).map_err(cannot)?;
    let _lock = FileLock::acquire(&path.with_extension("lock"), LOCK_TIMEOUT)?;
    if let Some(name) = known_machine(session) {
        return Ok(name);
    }
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let host: String = host.chars().filter(|char| char.is_ascii_alphanumeric() || "-._".contains(*char)).collect();
    let id = WorkspaceId::generate(&mut SystemEntropy);
    let name = format!("{host}-{}", &id.as_str()[id.as_str().len() - 6..]);
    waypost_fs::replace(&path, format!("{name}\n").as_bytes(), 0o600).map_err(cannot)?;
    Ok(name)
}

/// Returns the directory of all workspaces.
pub fn root(session: &Session) -> Result<PathBuf> {
    root_of(&session.place)
}

/// Returns the directory of all workspaces, without a session.
pub(super) fn root_of(place: &Place) -> Result<PathBuf> {
    let known = place.workspaces()?.map(|(path, _)| path);
    known.ok_or_else(|| Error::invalid("workspaces need a home directory").hint("set HOME or workspaces.path"))
}

/// Returns the mirror of the caller's repository, which may not exist yet. None if it is not a git repository.
pub(super) fn mirror(session: &Session) -> Result<Option<PathBuf>> {
    let checkout = session.place.require_checkout()?;
    match &checkout.git_dir {
        Some(_) => tools::mirror_of(&mirrors(session)?, checkout).map(Some),
        None => Ok(None),
    }
}

/// Returns the directory of this user's saved work, which is not a cache.
pub(super) fn saved_dir(place: &Place) -> Option<PathBuf> {
    place.in_home("saved").map(|(path, _)| path)
}

pub(super) fn mirrors(session: &Session) -> Result<PathBuf> {
    mirrors_of(&session.place)
}

/// Returns the directory of all mirrors, without a session.
pub(super) fn mirrors_of(place: &Place) -> Result<PathBuf> {
    let known = place.in_home("mirrors").map(|(path, _)| path);
    known.ok_or_else(|| Error::invalid("workspaces need a home directory").hint("set HOME or WAYPOST_HOME"))
}

/// Returns the user's settings for network access.
pub(super) fn network_options(session: &Session) -> NetworkOptions {
    sync::network_options(&session.place.variables, sync::sync_timeout(&session.place))
}
