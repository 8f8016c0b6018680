//! Directories and files that only their owner can access.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use crate::sync_dir;

/// Creates a directory and its missing parents durably, with mode 0700. Does nothing if it exists.
pub fn create_private_dir(path: &Path) -> io::Result<()> {
    create_dir(path, 0o700)
}

/// Creates a directory and its missing parents durably: they survive a power cut. Does nothing if it exists.
pub fn create_durable_dir(path: &Path) -> io::Result<()> {
    create_dir(path, 0o777)
}

fn create_dir(path: &Path, mode: u32) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let missing: Vec<&Path> = path.ancestors().take_while(|dir| !dir.as_os_str().is_empty() && !dir.exists()).collect();
    for dir in missing.into_iter().rev() {
        match DirBuilder::new().mode(mode).create(dir) {
            // Another process created it first.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            other => other?,
        }
        sync_dir(dir)?;
    }
    if path.is_dir() { Ok(()) } else { Err(ErrorKind::NotADirectory.into()) }
}

/// Creates a new file with mode 0600. An existing file is an error.
pub fn create_private_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// Checks that only this user can access a file or directory, and that it is not a link. Returns the problem, if there is one.
pub fn check_private(path: &Path) -> io::Result<Option<String>> {
    let metadata = std::fs::symlink_metadata(path)?;
    if metadata.is_symlink() {
        return Ok(Some("is a link".to_owned()));
    }
    let us = rustix::process::geteuid().as_raw();
    if metadata.uid() != us {
        return Ok(Some(format!("belongs to user {}, not to user {us}", metadata.uid())));
    }
    let mode = metadata.mode() & 0o777;
    if mode & 0o077 != 0 {
        return Ok(Some(format!("mode {mode:03o} gives other users access")));
    }
    Ok(None)
}

/// Checks that no other user can replace a directory of this user or one above it. Returns the problem, if there is one.
///
/// In a directory with the sticky bit, as `/tmp`, other users cannot rename or remove what is ours.
pub fn check_path(path: &Path) -> io::Result<Option<String>> {
    let us = rustix::process::geteuid().as_raw();
    let our_group = rustix::process::getegid().as_raw();
    for (depth, dir) in path.ancestors().filter(|dir| !dir.as_os_str().is_empty()).enumerate() {
        let metadata = match std::fs::metadata(dir) {
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => continue,
            other => other?,
        };
        let (owner, mode, shown) = (metadata.uid(), metadata.mode(), dir.display());
        // Root may do everything anyway, but a directory of ours belongs to us.
        if owner != us && (depth == 0 || owner != 0) {
            return Ok(Some(format!("{shown} belongs to user {owner}, not to user {us}")));
        }
        let is_writable = mode & 0o002 != 0 || (mode & 0o020 != 0 && metadata.gid() != our_group);
        if is_writable && (depth == 0 || mode & 0o1000 == 0) {
            return Ok(Some(format!("other users can write to {shown}")));
        }
    }
    Ok(None)
}
