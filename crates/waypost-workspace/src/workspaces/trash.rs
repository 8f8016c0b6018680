//! Deletes a workspace's directory. It is moved to the trash first, where an interrupted deletion can be resumed.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use waypost_core::{Error, Result};
use waypost_fs::{FileIdentity, check_no_mount_in, create_private_dir, remove_tree, rename_new};

use super::model::Plan;

/// Moves a workspace's directory to the trash and deletes it there.
pub(super) fn delete(plan: &Plan, identity: FileIdentity) -> Result<()> {
    let (home, trash) = (plan.home(), plan.trash());
    // Before anything is deleted: a workspace with a mount in it stays complete, and under its name.
    check_no_mount_in(&home, None)?;
    move_to_trash(&home, &trash)?;
    // If the directory was exchanged between the check and the move, move it back.
    if FileIdentity::of_entry(&trash).ok() != Some(identity) {
        let _ = rename_new(&trash, &home);
        return Err(Error::refused(format!("{} is not the directory that Waypost made", home.display())));
    }
    delete_trash(&trash, Some(identity))
}

fn move_to_trash(home: &Path, trash: &Path) -> Result<()> {
    let dir = trash.parent().unwrap_or(Path::new("/"));
    let cannot = |error| Error::unavailable(format!("cannot move {} to the trash", home.display())).because(error);
    create_private_dir(dir).map_err(cannot)?;
    // A rename over a directory fails unless that is empty; either way nothing is lost.
    fs::rename(home, trash).map_err(cannot)?;
    waypost_fs::sync_dir(trash).map_err(cannot)
}

pub(super) fn delete_trash(path: &Path, expected: Option<FileIdentity>) -> Result<()> {
    let identity = match FileIdentity::of_entry(path) {
        Ok(identity) => identity,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Error::unavailable(format!("cannot access {}", path.display())).because(error)),
    };
    if expected.is_some_and(|expected| expected != identity) {
        return Err(Error::refused(format!("{} is not the directory that Waypost made", path.display())));
    }
    if path.symlink_metadata().is_ok_and(|found| !found.is_dir()) {
        return fs::remove_file(path)
            .map_err(|error| Error::unavailable(format!("cannot delete {}", path.display())).because(error));
    }
    match remove_tree(path, identity) {
        // Another process deleted it first.
        Err(_) if path.symlink_metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound) => Ok(()),
        other => other,
    }
}
