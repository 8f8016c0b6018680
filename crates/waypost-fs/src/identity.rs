//! The identity of a file, independent of its name.

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use waypost_core::model::Identity;

/// The device and inode of a file. Two paths with the same identity are the same file.
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
    /// Restores an identity from its stored parts.
    pub fn new(device: u64, inode: u64) -> Self {
        FileIdentity { device, inode }
    }

    /// Returns the device.
    pub fn device(self) -> u64 {
        self.device
    }

    /// Returns the inode on the device.
    pub fn inode(self) -> u64 {
        self.inode
    }

    /// Returns the identity of the file that a path leads to. Links are followed.
    pub fn of(path: &Path) -> io::Result<Self> {
        std::fs::metadata(path).map(|metadata| FileIdentity::of_metadata(&metadata))
    }

    /// Returns the identity of the file that has this metadata.
    pub fn of_metadata(metadata: &Metadata) -> Self {
        FileIdentity { device: metadata.dev(), inode: metadata.ino() }
    }

    /// Returns the identity of the directory entry itself. A link is not followed.
    pub fn of_entry(path: &Path) -> io::Result<Self> {
        let metadata = std::fs::symlink_metadata(path)?;
        Ok(FileIdentity { device: metadata.dev(), inode: metadata.ino() })
    }

    /// Returns the identity of an open file. Opens no descriptor, so it works when none is left.
    pub(crate) fn of_file(file: &File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        Ok(FileIdentity { device: metadata.dev(), inode: metadata.ino() })
    }

    /// Returns the identity of the file behind a handle.
    pub(crate) fn of_handle(file: impl AsFd) -> io::Result<Self> {
        FileIdentity::of_file(&File::from(file.as_fd().try_clone_to_owned()?))
    }
}
