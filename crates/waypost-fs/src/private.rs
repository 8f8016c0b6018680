//! Directories and files that are for one user alone.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;

/// Makes a directory with mode 0700, and its missing parents likewise. Does nothing if it is there.
pub fn create_private_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Says what is wrong with a file or directory that only its owner should reach, if anything is.
pub fn check_private(path: &Path) -> io::Result<Option<String>> {
    let metadata = std::fs::metadata(path)?;
    let us = rustix::process::geteuid().as_raw();
    if metadata.uid() != us {
        return Ok(Some(format!("belongs to user {}, not to user {us}", metadata.uid())));
    }
    let mode = metadata.mode() & 0o777;
    if mode & 0o077 != 0 {
        return Ok(Some(format!("mode {mode:03o} lets other users in")));
    }
    Ok(None)
}
