//! Removing a workspace: what is in it is looked at, then it is moved away, then deleted by handle.
//!
//! Whoever is interrupted can be started again. The refs in the mirror go last: as long as anything is left of a
//! workspace, what it borrows is there.

use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use waypost_core::time::Timestamp;
use waypost_core::{Error, Result};
use waypost_fs::{FileIdentity, create_private_dir, remove_tree, rename_new};

use super::copies;
use super::examine::examine;
use super::make::{Identity, release_mirror, source};
use super::overlay;
use super::plan::{Plan, Strategy};
use crate::run::Git;
use crate::worktrees;

/// What may become of work that is in a workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// If there is any that would be lost, nothing is removed.
    MustBeSafe,
    /// It was saved, or nobody wants it.
    MayGo,
}

/// Removes a workspace, if it is still the directory that was made. Nobody may live in it.
///
/// Interrupted, it is called again with the same arguments.
pub fn remove(plan: &Plan, identity: Identity, work: Work) -> Result<()> {
    let home = plan.home();
    if plan.strategy == Strategy::InPlace {
        return Err(Error::refused(format!("{} is the checkout itself", plan.workspace.display())));
    }
    let identity = FileIdentity::from(identity);
    match FileIdentity::of_entry(&home) {
        Ok(found) if found == identity => {
            check(plan, work)?;
            if plan.strategy == Strategy::Overlay {
                overlay::leave(plan)?;
            }
            delete(plan, identity)?;
        }
        Ok(_) => return Err(Error::refused(format!("{} is not the directory that was made", home.display()))),
        // Moved away by somebody who was interrupted.
        Err(error) if error.kind() == ErrorKind::NotFound => delete_trash(&plan.trash(), Some(identity))?,
        Err(error) => return Err(Error::unavailable(format!("cannot look at {}", home.display())).because(error)),
    }
    forget(plan)
}

/// Deletes everything that was moved away or copied in part and is still there. Returns what could not be deleted, and why.
pub fn sweep_trash(workspaces: &Path) -> Result<Vec<Error>> {
    let mut failed = Vec::new();
    let pools = entries(&workspaces.join("pool"))?;
    for dir in pools.into_iter().filter(|pool| pool.is_dir()).chain([workspaces.to_owned()]) {
        let trash = entries(&dir.join("trash"))?;
        failed.extend(trash.iter().filter_map(|path| delete_trash(path, None).err()));
    }
    failed.extend(copies::sweep(workspaces).err());
    Ok(failed)
}

/// Lists what is in a directory. One that is not there has nothing in it.
fn entries(dir: &Path) -> Result<Vec<PathBuf>> {
    match fs::read_dir(dir) {
        Ok(entries) => Ok(entries.flatten().map(|entry| entry.path()).collect()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(Error::unavailable(format!("cannot read {}", dir.display())).because(error)),
    }
}

/// Moves a workspace's directory to the trash, and deletes it there.
pub(super) fn delete(plan: &Plan, identity: FileIdentity) -> Result<()> {
    let (home, trash) = (plan.home(), plan.trash());
    move_to_trash(&home, &trash)?;
    // Between the look and the move it may have been exchanged. Then it goes back.
    if FileIdentity::of_entry(&trash).ok() != Some(identity) {
        let _ = rename_new(&trash, &home);
        return Err(Error::refused(format!("{} is not the directory that was made", home.display())));
    }
    delete_trash(&trash, Some(identity))
}

pub(super) fn move_to_trash(home: &Path, trash: &Path) -> Result<()> {
    let dir = trash.parent().unwrap_or(Path::new("/"));
    let cannot = |error| Error::unavailable(format!("cannot move {} to the trash", home.display())).because(error);
    create_private_dir(dir).map_err(cannot)?;
    // A rename over a directory would be refused unless it is empty; either way nothing is lost.
    fs::rename(home, trash).map_err(cannot)?;
    waypost_fs::sync_dir(trash).map_err(cannot)
}

pub(super) fn delete_trash(path: &Path, expected: Option<FileIdentity>) -> Result<()> {
    let identity = match FileIdentity::of_entry(path) {
        Ok(identity) => identity,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Error::unavailable(format!("cannot look at {}", path.display())).because(error)),
    };
    if expected.is_some_and(|expected| expected != identity) {
        return Err(Error::refused(format!("{} is not the directory that was made", path.display())));
    }
    if path.symlink_metadata().is_ok_and(|found| !found.is_dir()) {
        return fs::remove_file(path)
            .map_err(|error| Error::unavailable(format!("cannot delete {}", path.display())).because(error));
    }
    match remove_tree(path, identity) {
        // Somebody else was quicker.
        Err(_) if path.symlink_metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound) => Ok(()),
        other => other,
    }
}

/// Makes everybody else forget a workspace whose directory is gone: the source, and last of all the mirror.
pub(super) fn forget(plan: &Plan) -> Result<()> {
    if matches!(plan.strategy, Strategy::Worktree | Strategy::Jj) {
        let checkout = source(plan)?;
        match (plan.strategy, &plan.branch) {
            (Strategy::Jj, Some(name)) => worktrees::forget_named(&checkout, name)?,
            _ => worktrees::forget(&checkout, &plan.workspace)?,
        }
        // Git worktrees that a job added beside its own went with the directory.
        for listed in checkout.worktrees().iter().filter(|listed| listed.path.starts_with(plan.home())) {
            worktrees::forget(&checkout, &listed.path)?;
        }
        if let (Strategy::Worktree, Some(git_dir), Some(branch), Some(base)) =
            (plan.strategy, &plan.git_dir, &plan.branch, &plan.base)
        {
            // A branch on which nothing happened says nothing. One with commits stays.
            let git = Git::of_repository(git_dir)?;
            let _ = git.command().args(["update-ref", "-d", &format!("refs/heads/{branch}"), base]).succeeds()?;
        }
    }
    release_mirror(plan)
}

fn check(plan: &Plan, work: Work) -> Result<()> {
    let living = super::open_processes::living_in(&plan.home())?;
    if let Some(first) = living.first() {
        return Err(Error::refused(format!(
            "process {} ({}) lives in {}",
            first.id,
            first.name,
            plan.home().display()
        ))
        .hint("end it first"));
    }
    if plan.strategy == Strategy::Jj {
        // It is one command, and what it saves stays in the repository.
        worktrees::save(&source(plan)?, &plan.workspace, plan.name.as_str(), Timestamp::from_millis(0))?;
    }
    if work == Work::MayGo {
        return Ok(());
    }
    let findings = examine(plan)?;
    match findings.at_risk().first() {
        None => Ok(()),
        Some(first) => {
            Err(Error::refused(format!("{} has {first}", plan.workspace.display()))
                .hint("save it first with a snapshot"))
        }
    }
}

/// Makes a directory only for us.
pub(super) fn private_dir(path: &Path) -> Result<()> {
    DirBuilder::new()
        .mode(0o700)
        .create(path)
        .map_err(|error| Error::unavailable(format!("cannot make {}", path.display())).because(error))
}
