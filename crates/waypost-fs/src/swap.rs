//! Replacing a file only if it is still the one that was read.
//!
//! Our own processes wait for each other at a lock. Others do not: a checkout swaps the file at any moment. What was
//! written meanwhile must not be overwritten by somebody who has not read it.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, OFlags, RenameFlags};
use rustix::io::Errno;

use crate::{Stamp, create_beside, rename_new, sync_dir};

/// A file as it was when it was read.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Where it really is, links resolved.
    path: PathBuf,
    /// None if there was no file.
    state: Option<State>,
    /// None if there was no file, or if a change to it might go unnoticed.
    stamp: Option<Stamp>,
}

impl Seen {
    /// Returns the stamp of the file. None if there was none, or if it is so new that a change might leave it as it is.
    pub fn stamp(&self) -> Option<Stamp> {
        self.stamp
    }

    /// Tells whether there was a file.
    pub fn exists(&self) -> bool {
        self.state.is_some()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    device: u64,
    inode: u64,
    length: u64,
    modified: (i64, i64),
}

impl State {
    fn of(metadata: &Metadata) -> Self {
        State {
            device: metadata.dev(),
            inode: metadata.ino(),
            length: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        }
    }
}

/// Reads a regular file, and remembers which one it was. A missing file is empty.
pub fn read_seen(path: &Path) -> io::Result<(Vec<u8>, Seen)> {
    let (file, seen) = open_seen(path)?;
    let mut bytes = Vec::new();
    if let Some(mut file) = file {
        file.read_to_end(&mut bytes)?;
    }
    Ok((bytes, seen))
}

/// Reads a regular file piece by piece, and remembers which one it was. A missing file is empty.
///
/// Memory that is used again and again is much faster than as much new memory as the file is long.
pub fn scan_seen(path: &Path, mut each: impl FnMut(&[u8])) -> io::Result<Seen> {
    let (file, seen) = open_seen(path)?;
    if let Some(mut file) = file {
        let mut piece = vec![0; 256 * 1024];
        loop {
            match file.read(&mut piece) {
                Ok(0) => break,
                Ok(length) => each(&piece[..length]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(seen)
}

/// Opens a regular file, if there is one, and remembers which one it was.
fn open_seen(path: &Path) -> io::Result<(Option<File>, Seen)> {
    let path = match std::fs::canonicalize(path) {
        Ok(real) => real,
        Err(error) if error.kind() == ErrorKind::NotFound && !path.is_symlink() => {
            return Ok((None, Seen { path: path.to_owned(), state: None, stamp: None }));
        }
        Err(error) => return Err(error),
    };
    // A pipe would keep us waiting for its other end.
    let no_wait = OFlags::NONBLOCK.bits().cast_signed();
    let file = match OpenOptions::new().read(true).custom_flags(no_wait).open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Ok((None, Seen { path, state: None, stamp: None }));
        }
        Err(error) => return Err(error),
    };
    let settled = Stamp::clock();
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let stamp = Stamp::of(&metadata).settled_at(settled);
    Ok((Some(file), Seen { path, state: Some(State::of(&metadata)), stamp }))
}

/// Replaces a file durably, if it is still as it was seen. Returns whether it was; if not, nothing was changed.
///
/// The content comes in parts, so that nobody has to put them together in memory.
pub fn replace_seen(seen: &Seen, content: &[&[u8]], mode: u32) -> io::Result<bool> {
    let (mut file, temporary) = create_beside(&seen.path, mode)?;
    let replaced = (|| {
        if let Ok(existing) = std::fs::metadata(&seen.path) {
            file.set_permissions(existing.permissions())?;
        }
        for part in content {
            file.write_all(part)?;
        }
        file.sync_all()?;
        let replaced = publish(seen, &temporary)?;
        if replaced {
            sync_dir(&seen.path)?;
        }
        Ok(replaced)
    })();
    // Either it has its name now, or it is ours alone; after an exchange it is what was there before.
    let _ = std::fs::remove_file(&temporary);
    replaced
}

fn publish(seen: &Seen, temporary: &Path) -> io::Result<bool> {
    let Some(expected) = seen.state else {
        return match rename_new(temporary, &seen.path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            other => other.map(|()| true),
        };
    };
    let is_as_seen =
        |path: &Path| File::open(path).and_then(|file| file.metadata()).is_ok_and(|now| State::of(&now) == expected);
    if !is_as_seen(&seen.path) {
        return Ok(false);
    }
    match rustix::fs::renameat_with(CWD, temporary, CWD, &seen.path, RenameFlags::EXCHANGE) {
        Ok(()) if is_as_seen(temporary) => Ok(true),
        Ok(()) => {
            // Somebody put another file there in this very moment. It gets its place back.
            rustix::fs::renameat_with(CWD, temporary, CWD, &seen.path, RenameFlags::EXCHANGE)?;
            Ok(false)
        }
        Err(Errno::NOENT) => Ok(false),
        // Where names cannot be exchanged, the moment between looking and renaming stays open.
        Err(Errno::INVAL | Errno::NOSYS) => std::fs::rename(temporary, &seen.path).map(|()| true),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::replace;

    #[test]
    fn a_file_that_changed_since_it_was_read_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let (bytes, seen) = read_seen(&path).unwrap();
        assert!(bytes.is_empty());
        replace(&path, b"theirs", 0o600).unwrap();
        assert!(!replace_seen(&seen, &[b"ou", b"rs"], 0o600).unwrap(), "it appeared");
        let (bytes, seen) = read_seen(&path).unwrap();
        assert_eq!(bytes, b"theirs");
        replace(&path, b"others", 0o600).unwrap();
        assert!(!replace_seen(&seen, &[b"ou", b"rs"], 0o600).unwrap(), "it was replaced");
        let (_, seen) = read_seen(&path).unwrap();
        fs::remove_file(&path).unwrap();
        assert!(!replace_seen(&seen, &[b"ou", b"rs"], 0o600).unwrap(), "it is gone");
        replace(&path, b"others", 0o600).unwrap();
        let (_, seen) = read_seen(&path).unwrap();
        assert!(replace_seen(&seen, &[b"ou", b"rs"], 0o600).unwrap());
        assert_eq!(fs::read(&path).unwrap(), b"ours");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left behind");
    }

    #[test]
    fn only_regular_files_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        rustix::fs::mknodat(CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::from_raw_mode(0o600), 0).unwrap();
        assert!(read_seen(&pipe).is_err());
        assert!(read_seen(dir.path()).is_err());
        assert!(read_seen(Path::new("/dev/zero")).is_err());
    }
}
