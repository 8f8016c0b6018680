//! Makes and removes Waypost's own directories.

use std::fs::DirBuilder;
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use waypost_core::{Error, Result};
use waypost_fs::{FileIdentity, remove_tree};

/// Removes a directory, if it exists.
pub(super) fn remove_if_there(path: &Path) -> Result<()> {
    match FileIdentity::of_entry(path) {
        Ok(identity) => remove_tree(path, identity),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Error::unavailable(format!("cannot access {}", path.display())).because(error)),
    }
}

/// Makes a directory that only this user can access.
pub(super) fn private_dir(path: &Path) -> Result<()> {
    DirBuilder::new()
        .mode(0o700)
        .create(path)
        .map_err(|error| Error::unavailable(format!("cannot make {}", path.display())).because(error))
}

/// Makes a directory that others may read.
pub(super) fn make_dir(path: &Path) -> Result<()> {
    DirBuilder::new()
        .mode(0o755)
        .create(path)
        .map_err(|error| Error::unavailable(format!("cannot make {}", path.display())).because(error))
}
