//! Which file it is, whatever its name.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use waypost_core::model::Identity;

/// The device and inode of a file: two names with the same are the same file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileIdentity {
    device: u64,
    inode: u64,
}

impl From<FileIdentity> for Identity {
    fn from(identity: FileIdentity) -> Identity {
        Identity { device: identity.device, inode: identity.inode }
    }
}

impl From<Identity> for FileIdentity {
    fn from(identity: Identity) -> FileIdentity {
        FileIdentity { device: identity.device, inode: identity.inode }
    }
}

impl FileIdentity {
    /// Puts an identity together that was taken apart to be kept.
    pub fn new(device: u64, inode: u64) -> Self {
        FileIdentity { device, inode }
    }

    /// Returns the device.
    pub fn device(self) -> u64 {
        self.device
    }

    /// Returns the inode on it.
    pub fn inode(self) -> u64 {
        self.inode
    }

    /// Returns the identity of what a path leads to, links followed.
    pub fn of(path: &Path) -> io::Result<Self> {
        let metadata = std::fs::metadata(path)?;
        Ok(FileIdentity { device: metadata.dev(), inode: metadata.ino() })
    }

    /// Returns the identity of what a path names, be it a link.
    pub fn of_entry(path: &Path) -> io::Result<Self> {
        let metadata = std::fs::symlink_metadata(path)?;
        Ok(FileIdentity { device: metadata.dev(), inode: metadata.ino() })
    }

    /// Returns the identity of an open file. Needs no further descriptor, so it works when none is left.
    pub(crate) fn of_file(file: &File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        Ok(FileIdentity { device: metadata.dev(), inode: metadata.ino() })
    }

    /// Returns the identity of what a handle refers to.
    pub(crate) fn of_handle(file: impl AsFd) -> io::Result<Self> {
        FileIdentity::of_file(&File::from(file.as_fd().try_clone_to_owned()?))
    }
}
