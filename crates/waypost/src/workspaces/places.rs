//! Where workspaces and what they are made from live, and which machine this is.

use std::path::{Path, PathBuf};
use std::time::Duration;

use waypost_core::id::WorkspaceId;
use waypost_core::{Error, Result};
use waypost_fs::FileLock;
use waypost_workspace::{Own, workspaces as tools};

use crate::session::Session;
use crate::sync;
use crate::system::SystemEntropy;

/// How long somebody else who makes or removes workspaces by the rules is waited for.
const PATIENCE: Duration = Duration::from_mins(2);

/// Returns the name of this machine, if it has one: it never ran a job otherwise.
pub(super) fn known_machine(session: &Session) -> Option<String> {
    let name = std::fs::read_to_string(session.place.in_home("machine")?.0).ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

/// Returns the name of this machine as the store knows it: made once, kept in the user's own directory.
pub fn machine(session: &Session) -> Result<String> {
    if let Some(name) = known_machine(session) {
        return Ok(name);
    }
    let Some((path, _)) = session.place.in_home("machine") else {
        return Err(Error::invalid("workspaces need a home directory").hint("set HOME or WAYPOST_HOME"));
    };
    let cannot = |error| Error::unavailable(format!("cannot write {}", path.display())).because(error);
    waypost_fs::create_private_dir(path.parent().unwrap_or(Path::new("/"))).map_err(cannot)?;
    let _lock = FileLock::acquire(&path.with_extension("lock"), PATIENCE)?;
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
    let known = session.place.workspaces()?.map(|(path, _)| path);
    known.ok_or_else(|| Error::invalid("workspaces need a home directory").hint("set HOME or workspaces.path"))
}

/// Returns the mirror of the repository we stand in, which may not be there yet. None if git knows nothing of it.
pub(super) fn mirror(session: &Session) -> Result<Option<PathBuf>> {
    let checkout = session.place.require_checkout()?;
    match &checkout.git_dir {
        Some(_) => tools::mirror_of(&mirrors(session)?, checkout).map(Some),
        None => Ok(None),
    }
}

pub(super) fn mirrors(session: &Session) -> Result<PathBuf> {
    let known = session.place.in_home("mirrors").map(|(path, _)| path);
    known.ok_or_else(|| Error::invalid("workspaces need a home directory").hint("set HOME or WAYPOST_HOME"))
}

/// What the user says about the network.
pub(super) fn own(session: &Session) -> Own {
    sync::own(&session.place.variables, sync::limit(&session.place))
}
