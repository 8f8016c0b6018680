//! Which file it is, whatever its name.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The device and inode of a file: two names with the same are the same file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileIdentity {
    device: u64,
    inode: u64,
}

impl FileIdentity {
    /// Returns the identity of what a path leads to, links followed.
    pub fn of(path: &Path) -> io::Result<Self> {
        let metadata = std::fs::metadata(path)?;
        Ok(FileIdentity { device: metadata.dev(), inode: metadata.ino() })
    }

    /// Returns the identity of an open file.
    pub(crate) fn of_handle(file: impl AsFd) -> Result<Self, rustix::io::Errno> {
        let stat = rustix::fs::fstat(file)?;
        Ok(FileIdentity { device: stat.st_dev, inode: stat.st_ino })
    }
}
