//! Removes a workspace: examines it, moves it to the trash, and deletes it by handle.
//!
//! An interrupted removal can be repeated. The refs in the mirror are deleted last: as long as anything is left of a
//! workspace, the objects that it borrows exist.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use waypost_core::{Error, Result};
use waypost_fs::{FileIdentity, check_no_mount_in};

use super::abandon::forget;
use super::examine::examine;
use super::files_lock::lock_files;
use super::model::{Identity, Plan, Strategy};
use super::open_processes::check_no_process_in;
use super::plan::is_source_gone;
use super::trash::{delete, delete_trash};
use super::{copies, files_lock, overlay};
use crate::worktrees;

/// Whether a removal may delete unsaved work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// The removal fails if work would be lost.
    MustBeSafe,
    /// The work was saved, or the user discards it.
    MayGo,
}

/// Removes a workspace, if it is still the directory that Waypost made and no process uses it.
///
/// After an interruption, call it again with the same arguments.
pub fn remove(plan: &Plan, identity: Identity, work: Work) -> Result<()> {
    let home = plan.home();
    if plan.strategy == Strategy::InPlace {
        return Err(Error::refused(format!("{} is the checkout itself", plan.workspace.display())));
    }
    let _files = lock_files(plan)?;
    let identity = FileIdentity::from(identity);
    match FileIdentity::of_entry(&home) {
        Ok(found) if found == identity => {
            check(plan, work)?;
            if plan.strategy == Strategy::Overlay {
                overlay::leave(plan)?;
            }
            delete(plan, identity)?;
        }
        Ok(_) => return Err(Error::refused(format!("{} is not the directory that Waypost made", home.display()))),
        // An interrupted removal moved it to the trash.
        Err(error) if error.kind() == ErrorKind::NotFound => delete_trash(&plan.trash(), Some(identity))?,
        Err(error) => return Err(Error::unavailable(format!("cannot access {}", home.display())).because(error)),
    }
    forget(plan)
}

/// Deletes everything in the trash, and incomplete copies. Returns an error for each entry that could not be deleted.
pub fn sweep_trash(workspaces: &Path, saved: Option<&Path>) -> Result<Vec<Error>> {
    let mut failed = Vec::new();
    let pools = entries(&workspaces.join("pool"))?;
    for dir in pools.into_iter().filter(|pool| pool.is_dir()).chain([workspaces.to_owned()]) {
        let trash = entries(&dir.join("trash"))?;
        failed.extend(trash.iter().filter_map(|path| delete_trash(path, None).err()));
    }
    failed.extend(copies::sweep(workspaces, saved).err());
    files_lock::sweep(&entries(workspaces)?);
    Ok(failed)
}

/// Lists the entries of a directory. A missing directory has none.
fn entries(dir: &Path) -> Result<Vec<PathBuf>> {
    match fs::read_dir(dir) {
        Ok(entries) => Ok(entries.flatten().map(|entry| entry.path()).collect()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(Error::unavailable(format!("cannot read {}", dir.display())).because(error)),
    }
}

fn check(plan: &Plan, work: Work) -> Result<()> {
    let own = Some(plan.workspace.as_path()).filter(|_| plan.strategy == Strategy::Overlay);
    check_no_mount_in(&plan.home(), own)?;
    check_no_process_in(&plan.home())?;
    if plan.strategy == Strategy::Jj && !is_source_gone(plan) {
        // It takes one command, and the snapshot stays in the repository.
        worktrees::snapshot_jj(&plan.workspace)?;
    }
    if work == Work::MayGo {
        return Ok(());
    }
    let findings = examine(plan)?;
    match findings.at_risk().first() {
        None => Ok(()),
        Some(first) => {
            Err(Error::refused(format!("{} has {first}", plan.workspace.display())).hint("take a snapshot first"))
        }
    }
}
