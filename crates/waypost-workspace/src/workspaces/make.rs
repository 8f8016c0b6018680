//! Making what was planned, and taking back what was made in part.

use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use serde::{Deserialize, Serialize};
pub use waypost_core::model::Identity;
use waypost_core::{Error, Result};
use waypost_fs::{FileIdentity, copy_tree, create_private_dir, replace};

use super::mirror::Mirror;
use super::plan::{Plan, Strategy};
use super::remove::{delete, delete_trash, forget};
use super::{clone, overlay};
use crate::checkout::Checkout;
use crate::detect::{Environment, detect};
use crate::run::Own;
use crate::worktrees::{self, Add};

/// Where a workspace's directory says what it is.
const MARK: &str = "plan.json";

/// What making a workspace may use. Not for showing: there may be a secret in it.
#[derive(Clone, Copy, Default)]
pub struct Means<'a> {
    /// What the user's environment says about the network.
    pub own: Own,
    /// The address of a repository elsewhere, with its secrets, if there are any. It is used and not kept.
    pub url: Option<&'a str>,
}

/// Where the files of a workspace came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Files {
    /// They share their blocks with a template.
    Shared,
    /// They were copied.
    Copied,
    /// The version control checked them out.
    CheckedOut,
    /// They lie under it.
    Overlaid,
    /// They were there before.
    InPlace,
}

/// A workspace that is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Made {
    /// Which directory it is; none if it is the checkout itself, which is not ours to remove.
    pub identity: Option<Identity>,
    /// The commit it starts from.
    pub base: Option<String>,
    /// How it was made.
    pub strategy: Strategy,
    /// Where its files came from.
    pub files: Files,
    /// What a job in it should know.
    pub notes: Vec<String>,
}

/// Makes what was planned. On failure, nothing of it is left.
pub fn make(plan: &Plan, means: &Means<'_>) -> Result<Made> {
    if plan.strategy == Strategy::InPlace {
        let notes = vec!["nothing isolates it: this is the checkout itself".to_owned()];
        return Ok(Made { identity: None, base: None, strategy: plan.strategy, files: Files::InPlace, notes });
    }
    let identity = make_home(plan)?;
    let files = fill(plan, means).inspect_err(|_| {
        // The first error is the one that counts. What could not be taken back now, the caller's row still names.
        if let Err(error) = abandon(plan) {
            log::debug!("cannot take back workspace {}: {}", plan.name, error.full_message());
        }
    })?;
    let (base, strategy) = (plan.base.clone(), plan.strategy);
    Ok(Made { identity: Some(identity.into()), base, strategy, files, notes: notes(&plan.workspace) })
}

/// Takes back what was made of a plan, however much that is. Only for one that nobody was told of.
pub fn abandon(plan: &Plan) -> Result<()> {
    let home = plan.home();
    if plan.strategy == Strategy::InPlace {
        return Ok(());
    }
    match FileIdentity::of_entry(&home) {
        Ok(identity) => {
            if !is_ours(plan, &home)? {
                return Err(Error::refused(format!("{} was not made for this plan", home.display())));
            }
            if plan.strategy == Strategy::Overlay {
                overlay::leave(plan)?;
            }
            delete(plan, identity)?;
        }
        // Moved away by somebody who was interrupted, or never made.
        Err(error) if error.kind() == ErrorKind::NotFound => delete_trash(&plan.trash(), None)?,
        Err(error) => return Err(Error::unavailable(format!("cannot look at {}", home.display())).because(error)),
    }
    forget(plan)
}

/// Tells whether a directory was made for this very plan. An empty one was, and no more came of it.
pub(super) fn is_ours(plan: &Plan, home: &Path) -> Result<bool> {
    match fs::read(home.join(MARK)) {
        Ok(mark) => Ok(serde_json::from_slice::<Plan>(&mark).is_ok_and(|marked| {
            // Taken from the pool a moment ago: it lies here and says that it lies there.
            let is_slot = marked.mirror == plan.mirror && marked.home() != home && marked.workspaces != plan.workspaces;
            marked == *plan || is_slot
        })),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            // Or only the beginning of its mark.
            let is_beginning = |name: &str| name.starts_with(".plan.json.");
            let mut names = home.read_dir().into_iter().flatten().flatten().map(|entry| entry.file_name());
            Ok(home.is_dir() && names.all(|name| name.to_str().is_some_and(is_beginning)))
        }
        Err(error) => Err(Error::unavailable(format!("cannot read {}", home.display())).because(error)),
    }
}

/// Makes the directory of a workspace, which says what it is before anything else is in it.
fn make_home(plan: &Plan) -> Result<FileIdentity> {
    let home = plan.home();
    let failed = |error| Error::unavailable(format!("cannot make {}", home.display())).because(error);
    create_private_dir(&plan.workspaces).map_err(failed)?;
    DirBuilder::new().mode(0o700).create(&home).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => Error::conflict(format!("{} is there already", home.display())),
        _ => failed(error),
    })?;
    let identity = FileIdentity::of_entry(&home).map_err(failed)?;
    mark(plan, &home)?;
    fs::create_dir(plan.context()).map_err(failed)?;
    Ok(identity)
}

/// Writes down what a directory is.
pub(super) fn mark(plan: &Plan, home: &Path) -> Result<()> {
    let mark = serde_json::to_vec_pretty(plan).map_err(|error| Error::internal(error.to_string()))?;
    replace(&home.join(MARK), &mark, 0o600)
        .map_err(|error| Error::unavailable(format!("cannot write in {}", home.display())).because(error))
}

fn fill(plan: &Plan, means: &Means<'_>) -> Result<Files> {
    match plan.strategy {
        Strategy::Clone | Strategy::Overlay => {
            make_dir(&plan.workspace)?;
            clone::fill(plan, means)
        }
        Strategy::Worktree | Strategy::Jj => {
            let checkout = source(plan)?;
            let branch = plan.branch.as_deref().unwrap_or(plan.name.as_str());
            let add = Add { branch, path: Some(&plan.workspace), base: plan.base.as_deref() };
            let added = worktrees::add(&checkout, add)?;
            if !added.created {
                return Err(Error::conflict(format!("{branch} is checked out at {}", added.path.display())));
            }
            Ok(Files::CheckedOut)
        }
        Strategy::Copy => {
            let from = plan.checkout.as_deref().ok_or_else(|| Error::internal("a copy of nothing"))?;
            make_dir(&plan.workspace)?;
            // The store's file is opened by SQLite alone.
            let copied = copy_tree(from, &plan.workspace, &[".waypost/local"])?;
            Ok(if copied.is_shared { Files::Shared } else { Files::Copied })
        }
        Strategy::InPlace => Ok(Files::InPlace),
    }
}

/// Returns the checkout that a plan was made from.
pub(super) fn source(plan: &Plan) -> Result<Checkout> {
    let path = plan.checkout.as_deref().or(plan.source.as_deref());
    let path = path.ok_or_else(|| Error::not_found(format!("workspace {} comes from no checkout", plan.name)))?;
    detect(path, &Environment::default())?
        .ok_or_else(|| Error::not_found(format!("there is no repository at {} any more", path.display())))
}

fn make_dir(path: &Path) -> Result<()> {
    DirBuilder::new()
        .mode(0o755)
        .create(path)
        .map_err(|error| Error::unavailable(format!("cannot make {}", path.display())).because(error))
}

/// Says what is not there although a job may expect it.
fn notes(workspace: &Path) -> Vec<String> {
    let mut notes = Vec::new();
    if workspace.join(".gitmodules").is_file() {
        notes.push("submodules are empty directories; fetch them with: git submodule update --init".to_owned());
    }
    let attributes = fs::read_to_string(workspace.join(".gitattributes")).unwrap_or_default();
    if attributes.contains("filter=lfs") {
        notes.push("large files are pointers; fetch them with: git lfs pull".to_owned());
    }
    notes
}

/// Forgets what a plan made outside its directory: refs in the mirror, a mark on its template.
pub(super) fn release_mirror(plan: &Plan) -> Result<()> {
    if !plan.strategy.borrows() {
        return Ok(());
    }
    let mirror = Mirror::of(plan)?;
    super::template::leave_all(&mirror, &plan.name);
    mirror.release(&plan.name)
}
