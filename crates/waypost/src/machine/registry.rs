//! The user's register of workspaces, which names the owner of each.
//!
//! A workspace is not a repository of its own: `way` in it works for the repository, store and role that it was created
//! for. The register is in the user's Waypost directory, outside of every repository. So no content of a repository can
//! make a directory a workspace or name its owner, whatever files a clone or an archive brings along.
//!
//! An entry also has a copy of the workspace's record. So a workspace is still known after its store is gone: see
//! `workspaces/user.rs`.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use waypost_core::id::{JobId, RepositoryId, WorkspaceId, WorktreeId};
use waypost_core::model::{Identity, Repository, Strategy, Workspace, Worktree};
use waypost_core::{Error, Result, path_text};
use waypost_fs::{create_private_dir, replace};
use waypost_workspace::workspaces::Name;

use crate::machine::config;

/// The directory of the register in the user's Waypost directory.
const DIR: &str = "registry";
/// The last component of the path of every workspace. The one before it is the workspace's name.
const WORKSPACE_DIR: &str = "workspace";

/// The entry of a workspace in the register.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registration {
    /// The directory of the workspace.
    #[serde(with = "path_text::serde")]
    pub path: PathBuf,
    /// Its id in the store.
    pub workspace: WorkspaceId,
    /// The job that it was created for, or that used it last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobId>,
    /// How it was created.
    pub strategy: Strategy,
    /// The branch that it was created with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The repository that owns it, as the store knows it.
    pub repository: Repository,
    /// Whether the repository is on this machine.
    pub is_local: bool,
    /// The worktree of the repository that owns it.
    pub worktree: Worktree,
    /// The ledger of the repository, if it is on this machine.
    #[serde(with = "path_text::optional", default, skip_serializing_if = "Option::is_none")]
    pub ledger: Option<PathBuf>,
    /// The store that has its row: the text of a path, or a URL without a password.
    pub store: String,
    /// Whether the configuration of the repository chose the store.
    pub is_store_configured: bool,
    /// The user's role and routing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<RegisteredSetting>,
    /// Whether it is a clone of another repository, which the caller named by its URL. `way` in it does not work for the
    /// repository that it was requested from.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_foreign: bool,
    /// Its record, as this machine last changed it. The store has a newer one, as long as there is the store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<Workspace>,
}

/// A setting that a workspace was created with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisteredSetting {
    /// Its key.
    pub key: String,
    /// Its value. Paths are absolute.
    pub value: config::Value,
    /// Whether a flag or an environment variable set it. The files of the owner do not have it.
    pub is_explicit: bool,
}

impl Registration {
    /// Names the workspace in a sentence.
    pub fn title(&self) -> String {
        match &self.job {
            Some(job) => format!("workspace of job {job}"),
            None => format!("workspace {}", self.workspace),
        }
    }

    /// Returns the ids of the owner.
    pub fn owner_ids(&self) -> (RepositoryId, WorktreeId) {
        (self.repository.id.clone(), self.worktree.id.clone())
    }
}

/// Returns the file of a workspace's entry.
fn file(home: &Path, name: &str) -> PathBuf {
    home.join(DIR).join(format!("{name}.json"))
}

/// Enters a workspace into the register, or replaces its entry.
pub(crate) fn register(home: &Path, name: &Name, registration: &Registration) -> Result<()> {
    let file = file(home, name.as_str());
    let cannot = |error| Error::unavailable(format!("cannot write {}", file.display())).because(error);
    create_private_dir(&home.join(DIR)).map_err(cannot)?;
    let text = serde_json::to_vec_pretty(registration).map_err(|error| Error::internal(error.to_string()))?;
    replace(&file, &text, 0o600).map_err(cannot)
}

/// Changes the entry of a workspace, if it has one.
pub(crate) fn change(home: &Path, name: &Name, set: impl FnOnce(&mut Registration)) -> Result<()> {
    let Some(before) = entry(home, name)? else { return Ok(()) };
    let mut registration = before.clone();
    set(&mut registration);
    if registration == before { Ok(()) } else { register(home, name, &registration) }
}

/// Records the identity of a workspace's directory, once its creation is complete.
pub(crate) fn set_identity(home: &Path, name: &Name, identity: Option<Identity>) -> Result<()> {
    change(home, name, |registration| {
        if let Some(record) = &mut registration.record {
            record.identity = identity;
        }
    })
}

/// Returns the entry of a workspace, if it has one.
pub(crate) fn entry(home: &Path, name: &Name) -> Result<Option<Registration>> {
    read(&file(home, name.as_str()))
}

/// Removes the entry of a workspace.
pub(crate) fn unregister(home: &Path, name: &Name) -> Result<()> {
    let file = file(home, name.as_str());
    match std::fs::remove_file(&file) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(Error::unavailable(format!("cannot remove {}", file.display())).because(error))
        }
        _ => Ok(()),
    }
}

/// Returns the entry of the workspace at exactly this path, and its file. The path has no links.
pub(crate) fn find(home: &Path, dir: &Path) -> Result<Option<(Registration, PathBuf)>> {
    if dir.file_name().is_none_or(|name| name != WORKSPACE_DIR) {
        return Ok(None);
    }
    let name = dir.parent().and_then(Path::file_name).and_then(|name| name.to_str());
    let Some(name) = name.and_then(|name| Name::try_from(name.to_owned()).ok()) else { return Ok(None) };
    let file = file(home, name.as_str());
    let is_of_dir = |registration: &Registration| registration.path == dir && !registration.is_foreign;
    Ok(read(&file)?.filter(is_of_dir).map(|registration| (registration, file)))
}

/// The entries of the register.
#[derive(Default)]
pub(crate) struct Entries {
    /// Those that can be read, by the name of the workspace.
    pub found: Vec<(Name, Registration)>,
    /// An error for each of the others.
    pub failed: Vec<Error>,
}

/// Lists the entries of all workspaces.
pub(crate) fn list(home: &Path) -> Result<Entries> {
    let dir = home.join(DIR);
    let entries = match std::fs::read_dir(&dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Entries::default()),
        Err(error) => return Err(Error::unavailable(format!("cannot read {}", dir.display())).because(error)),
    };
    let (mut found, mut failed) = (Vec::new(), Vec::new());
    for entry in entries {
        let entry =
            entry.map_err(|error| Error::unavailable(format!("cannot read {}", dir.display())).because(error))?;
        let name = entry.file_name().to_str().and_then(|name| name.strip_suffix(".json")).map(str::to_owned);
        // Others are files that an interrupted replacement left.
        let Some(name) = name.and_then(|name| Name::try_from(name).ok()) else { continue };
        match read(&entry.path()) {
            Ok(registration) => found.extend(registration.map(|registration| (name, registration))),
            Err(error) => failed.push(error),
        }
    }
    found.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(Entries { found, failed })
}

fn read(file: &Path) -> Result<Option<Registration>> {
    match std::fs::read(file) {
        Ok(text) => serde_json::from_slice(&text).map(Some).map_err(|error| {
            Error::damaged(format!("cannot read {}, which names the owner of a workspace", file.display()))
                .because(error)
                .hint("without this file, the workspace is a repository of its own")
        }),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(Error::unavailable(format!("cannot read {}", file.display())).because(error)),
    }
}
