//! Workspaces: a directory in one works for the owner of the workspace.

use std::path::{Path, PathBuf};

use waypost_core::id::{RepositoryId, WorktreeId};
use waypost_core::{Error, Result};
use waypost_fs::PrivateDir;
use waypost_workspace::{Checkout, Environment, detect, is_adopted, repository_id, worktree_id};

use super::trust::check_owner;
use super::{Place, Source};
use crate::machine::config::Value;
use crate::machine::environment::{Variables, WAYPOST_SANDBOX};
use crate::machine::registry::{self, Registration};

/// A workspace that contains a directory.
#[derive(Clone, Debug)]
pub struct InWorkspace {
    /// Its entry in the user's register.
    pub registration: Registration,
    /// The file of the entry.
    pub file: PathBuf,
    /// The checkout that it is itself, if it has version control or issues.
    pub checkout: Option<Checkout>,
    /// Why its owner cannot be reached. None if it can.
    pub unreachable: Option<String>,
    /// Whether this is in a job's sandbox: the files of the owner can be read, but not its private directory.
    pub is_confined: bool,
}

impl InWorkspace {
    /// Names it in a sentence.
    pub fn title(&self) -> String {
        self.registration.title()
    }

    /// Returns the recorded settings that are in force: those that the owner's files do not have.
    pub(super) fn settings(&self) -> Vec<(&str, &Value)> {
        let settings = self.registration.settings.iter();
        let in_force = settings.filter(|setting| setting.is_explicit || self.unreachable.is_some());
        in_force.map(|setting| (setting.key.as_str(), &setting.value)).collect()
    }
}

impl Source {
    /// Adds to a rule that it holds for the owner of a workspace.
    #[must_use]
    pub fn of_owner(self, workspace: &InWorkspace) -> Source {
        match self.source {
            "default" => {
                let owner = &workspace.registration.repository.name;
                Source {
                    because: format!("{}, in {owner}, the owner of the {}", self.because, workspace.title()),
                    ..self
                }
            }
            _ => self,
        }
    }
}

impl Place {
    /// Returns whether this is in a job's sandbox: the user's Waypost directory and the private directory cannot be read.
    pub fn is_confined(&self) -> bool {
        self.workspace.as_ref().is_some_and(|workspace| workspace.is_confined)
    }

    /// Returns the checkout whose files the caller works on: in a workspace that of the workspace itself.
    pub fn work_checkout(&self) -> Result<&Checkout> {
        let inside = self.workspace.as_ref().and_then(|workspace| workspace.checkout.as_ref());
        inside.map_or_else(|| self.require_checkout(), Ok)
    }

    /// Returns the reason why the owner of this workspace cannot be reached.
    pub fn unreachable_owner(&self) -> Option<&str> {
        self.workspace.as_ref().and_then(|workspace| workspace.unreachable.as_deref())
    }

    /// Warns in a workspace that no register names: a moved one, or one that another user directory has.
    pub(super) fn warn_about_unregistered_workspace(&mut self) {
        if self.workspace.is_none()
            && let Some(checkout) = self.checkout.as_ref().filter(|checkout| is_adopted(&checkout.private_dir))
        {
            let home = self.home.as_ref().map_or_else(String::new, |(home, _)| format!(" in {}", home.display()));
            self.warnings.push(format!(
                "{} was made as a workspace, but is not registered{home}: it is used as a repository of its own",
                checkout.repository_path().display()
            ));
        }
    }

    /// Returns the ids of the owner of this workspace, if its own files cannot be reached.
    pub(crate) fn unreachable_owner_ids(&self) -> Option<(RepositoryId, WorktreeId)> {
        let workspace = self.workspace.as_ref().filter(|workspace| workspace.unreachable.is_some())?;
        Some(workspace.registration.owner_ids())
    }
}

/// The checkout that a directory works for, and the workspace that it is in.
pub(crate) struct Located {
    pub(crate) checkout: Option<Checkout>,
    pub(crate) workspace: Option<InWorkspace>,
}

/// Finds the checkout that a directory works for: its own, or in a workspace that of the workspace's owner.
pub(super) fn locate(
    dir: &Path,
    environment: &Environment,
    home: Option<&Path>,
    variables: &Variables,
) -> Result<Located> {
    let checkout = detect(dir, environment)?;
    if let Some(checkout) = &checkout {
        check_owner(checkout)?;
    }
    if let Some(registration) = confined_in(dir, variables)? {
        return Ok(confined(registration, checkout, environment, variables));
    }
    let Some((registration, file)) = registered(dir, checkout.as_ref(), environment, home)? else {
        checkout.iter().try_for_each(|checkout| checkout.private_dir.check())?;
        return Ok(Located { checkout, workspace: None });
    };
    let (owner, unreachable) = match owner_of(&registration, environment) {
        Ok(owner) => {
            check_owner(&owner)?;
            (Some(owner), None)
        }
        Err(reason) => (checkout.clone(), Some(reason)),
    };
    owner.iter().try_for_each(|checkout| checkout.private_dir.check())?;
    let workspace = InWorkspace { registration, file, checkout, unreachable, is_confined: false };
    Ok(Located { checkout: owner, workspace: Some(workspace) })
}

/// Returns the workspace that a directory is in, if this is in the sandbox of its job.
fn confined_in(dir: &Path, variables: &Variables) -> Result<Option<Registration>> {
    let Some(text) = variables.text(WAYPOST_SANDBOX) else { return Ok(None) };
    let registration: Registration = serde_json::from_str(&text)
        .map_err(|error| Error::invalid(format!("{WAYPOST_SANDBOX} does not describe a workspace")).because(error))?;
    let dir = std::fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned());
    Ok(dir.starts_with(&registration.path).then_some(registration))
}

/// Returns the checkout of a workspace's owner as a job sees it from its sandbox. What `way` would write into its private
/// directory, such as the index of the ledger, goes into the directory of the job's temporary files.
fn confined(
    registration: Registration,
    checkout: Option<Checkout>,
    environment: &Environment,
    variables: &Variables,
) -> Located {
    let environment = Environment { homes: environment.homes.clone(), ..Environment::default() };
    let owner = detect(&registration.worktree.path, &environment).ok().flatten().filter(|_| registration.is_local);
    let temporary = variables.path("TMPDIR").unwrap_or_else(|| registration.path.clone());
    let private = temporary.join("waypost");
    let owner = owner.or_else(|| checkout.clone()).map(|mut owner| {
        owner.private_dir = PrivateDir::from(private.clone()).with_user_dir(Some(temporary));
        owner.worktree_private_dir = private;
        owner
    });
    let unreachable = Some("the sandbox of a job has no access to the private directory".to_owned());
    let file = PathBuf::from(WAYPOST_SANDBOX);
    Located {
        checkout: owner,
        workspace: Some(InWorkspace { registration, file, checkout, unreachable, is_confined: true }),
    }
}

/// Returns the registered workspace that a directory is in. Another repository inside a workspace is not part of it, but
/// a worktree that was added to the workspace's own repository is.
fn registered(
    dir: &Path,
    checkout: Option<&Checkout>,
    environment: &Environment,
    home: Option<&Path>,
) -> Result<Option<(Registration, PathBuf)>> {
    let Some(home) = home else { return Ok(None) };
    let root = checkout.and_then(|checkout| checkout.root.as_deref());
    if environment.git_dir.is_none() {
        let is_real = root == Some(dir);
        let dir = if is_real { dir.to_owned() } else { std::fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned()) };
        for dir in dir.ancestors() {
            if let Some(found) = registry::find(home, dir)? {
                return Ok(Some(found));
            }
            if Some(dir) == root {
                break;
            }
        }
    }
    for dir in root.into_iter().chain(checkout.and_then(|checkout| checkout.main_root.as_deref())) {
        if let Some(found) = registry::find(home, dir)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Returns the checkout of a workspace's owner, or the reason why it cannot be reached.
fn owner_of(registration: &Registration, environment: &Environment) -> Result<Checkout, String> {
    let Registration { repository, worktree, .. } = registration;
    if !registration.is_local {
        return Err(format!("the repository {} is not on this machine", repository.name));
    }
    let (user_dir, homes) = (environment.user_dir.clone(), environment.homes.clone());
    let environment = Environment { user_dir, homes, ..Environment::default() };
    let open = |path: &Path| {
        let found = detect(path, &environment).ok().flatten()?;
        let id = repository_id(&found.private_dir).ok()?;
        // A repository without an id was cloned again to the same path.
        id.is_none_or(|id| id == repository.id).then_some(found)
    };
    let is_worktree = |dir: &Path| worktree_id(dir).ok().flatten().is_none_or(|id| id == worktree.id);
    if worktree.repository_id == repository.id
        && let Some(found) = open(&worktree.path)
        && found.root.as_ref() == Some(&worktree.path)
        && is_worktree(&found.worktree_private_dir)
    {
        return Ok(found);
    }
    let Some(main) = open(&repository.path) else {
        return Err(format!("the repository {} is not at {} any more", repository.name, repository.path.display()));
    };
    // The worktree may have been moved. If it was removed, the main worktree takes its place.
    let listed = main.worktrees().into_iter();
    let moved = listed.filter(|listed| worktree_id(&listed.private_dir).ok().flatten().as_ref() == Some(&worktree.id));
    let moved = moved.map(|listed| listed.path).find_map(|path| open(&path));
    Ok(moved.unwrap_or(main))
}
