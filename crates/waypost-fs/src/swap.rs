//! Replacing a file only if it is still the one that was read.
//!
//! Our own processes wait for each other at a lock. Others do not: a checkout swaps the file at any moment. What was
//! written meanwhile must not be overwritten by somebody who has not read it.

use std::ffi::OsString;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, OFlags, RenameFlags};
use rustix::io::Errno;

use crate::{Stamp, create_beside, rename_new, sync_dir};

/// A file as it was when it was read.
#[derive(Clone, Debug)]
pub struct FileVersion {
    /// Where it really is, links resolved.
    path: PathBuf,
    /// None if there was no file.
    state: Option<State>,
    /// None if there was no file, or if a change to it might go unnoticed.
    stamp: Option<Stamp>,
}

impl FileVersion {
    /// Returns the stamp of the file. None if there was none, or if it is so new that a change might leave it as it is.
    pub fn stamp(&self) -> Option<Stamp> {
        self.stamp
    }

    /// Tells whether there was a file.
    pub fn exists(&self) -> bool {
        self.state.is_some()
    }

    /// Tells whether the file is of this version now.
    pub fn is_current(&self) -> bool {
        State::at(&self.path) == self.state
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

    fn at(path: &Path) -> Option<State> {
        std::fs::symlink_metadata(path).ok().filter(Metadata::is_file).map(|metadata| State::of(&metadata))
    }

    /// Returns the state as part of a file name. The device has another number after a restart, and is left out.
    fn label(&self) -> String {
        let (seconds, nanos) = self.modified;
        format!("{:x}-{:x}-{seconds:x}-{nanos:x}", self.inode, self.length)
    }
}

/// Reads a regular file, and remembers which one it was. A missing file is empty.
pub fn read_version(path: &Path) -> io::Result<(Vec<u8>, FileVersion)> {
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
pub fn scan_seen(path: &Path, mut each: impl FnMut(&[u8])) -> io::Result<FileVersion> {
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
fn open_seen(path: &Path) -> io::Result<(Option<File>, FileVersion)> {
    let path = match std::fs::canonicalize(path) {
        Ok(real) => real,
        Err(error) if error.kind() == ErrorKind::NotFound && !path.is_symlink() => {
            return Ok((None, FileVersion { path: path.to_owned(), state: None, stamp: None }));
        }
        Err(error) => return Err(error),
    };
    // A pipe would keep us waiting for its other end.
    let no_wait = OFlags::NONBLOCK.bits().cast_signed();
    let file = match OpenOptions::new().read(true).custom_flags(no_wait).open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Ok((None, FileVersion { path, state: None, stamp: None }));
        }
        Err(error) => return Err(error),
    };
    let settled = Stamp::clock();
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let stamp = Stamp::of(&metadata).settled_at(settled);
    Ok((Some(file), FileVersion { path, state: Some(State::of(&metadata)), stamp }))
}

/// The outcome of [`replace_if_unchanged`].
#[derive(Debug)]
pub enum Replaced {
    /// The new version is in place and survives a power cut. This is the version that was written.
    Durably(FileVersion),
    /// The new version is in place, but its directory could not be synced: a power cut may bring the old one back.
    Unsynced(io::Error),
    /// Another program changed the file after it was read. Its version stays in place.
    Changed,
}

/// Replaces a file durably, if it is still as it was seen.
///
/// The content comes in parts, so that the caller need not copy them into one buffer. On an error the file is as it was,
/// or another program's version of it lies beside it, where [`restore_displaced`] finds it.
pub fn replace_if_unchanged(seen: &FileVersion, content: &[&[u8]], mode: u32) -> io::Result<Replaced> {
    let (mut file, temporary) = create_beside(&seen.path, mode)?;
    let written: io::Result<State> = (|| {
        if let Ok(existing) = std::fs::metadata(&seen.path) {
            file.set_permissions(existing.permissions())?;
        }
        for part in content {
            file.write_all(part)?;
        }
        file.sync_all()?;
        Ok(State::of(&file.metadata()?))
    })();
    let published = written.and_then(|own| Ok((own, publish(seen, &temporary, own)?)));
    // Only our own new version is ever under this name, and no other program knows it.
    let _ = std::fs::remove_file(&temporary);
    let (own, is_published) = published?;
    if !is_published {
        return Ok(Replaced::Changed);
    }
    Ok(match sync_dir(&seen.path) {
        Ok(()) => Replaced::Durably(FileVersion { path: seen.path.clone(), state: Some(own), stamp: None }),
        Err(error) => Replaced::Unsynced(error),
    })
}

fn publish(seen: &FileVersion, temporary: &Path, own: State) -> io::Result<bool> {
    let Some(expected) = seen.state else {
        return match rename_new(temporary, &seen.path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            other => other.map(|()| true),
        };
    };
    if State::at(&seen.path) != Some(expected) {
        return Ok(false);
    }
    let exchange = Exchange::new(&seen.path, own, expected)?;
    std::fs::rename(temporary, &exchange.aside)?;
    exchange.run()
}

/// How the name of a file ends that takes part in an exchange.
const ASIDE: &str = ".swap.tmp";

/// An exchange of two files' names, ours and the one that was read.
///
/// Our file's name says which version of which file is ours and which one was read. So another process can tell, after
/// this one was killed, whether the file of that name is one of these two or a version that no command has read yet.
struct Exchange {
    path: PathBuf,
    /// The name of our file before the exchange, and of the other one afterwards.
    aside: PathBuf,
    own: String,
    expected: String,
}

impl Exchange {
    fn new(path: &Path, own: State, expected: State) -> io::Result<Exchange> {
        let (own, expected) = (own.label(), expected.label());
        let mut name = OsString::from(".");
        name.push(path.file_name().ok_or(ErrorKind::InvalidInput)?);
        name.push(format!(".{own}.{expected}{ASIDE}"));
        Ok(Exchange { path: path.to_owned(), aside: path.with_file_name(name), own, expected })
    }

    /// Reads what the name of a file says that lies beside `path`.
    fn from_name(path: &Path, name: &str) -> Option<Exchange> {
        let stem = format!(".{}.", path.file_name()?.to_str()?);
        let (own, expected) = name.strip_prefix(&stem)?.strip_suffix(ASIDE)?.split_once('.')?;
        let aside = path.with_file_name(name);
        Some(Exchange { path: path.to_owned(), aside, own: own.to_owned(), expected: expected.to_owned() })
    }

    /// Exchanges the names. Returns whether the version that was read came out; if not, it is undone.
    fn run(&self) -> io::Result<bool> {
        match self.exchange() {
            Ok(()) if self.holds(&self.expected) => {
                self.remove_known();
                Ok(true)
            }
            Ok(()) => self.undo().map(|()| false),
            Err(error) => {
                let done = match error {
                    Errno::NOENT => Ok(false),
                    // Where names cannot be exchanged, the moment between looking and renaming stays open.
                    Errno::INVAL | Errno::NOSYS => std::fs::rename(&self.aside, &self.path).map(|()| true),
                    _ => Err(error.into()),
                };
                self.remove_known();
                done
            }
        }
    }

    /// Gives another program's version its name back.
    fn undo(&self) -> io::Result<()> {
        match self.exchange() {
            Ok(()) => self.remove_known(),
            // A program removed the file meanwhile. The version that came out stays beside it.
            Err(Errno::NOENT) => {}
            Err(error) => {
                let text = format!("{error}; another program's version of it is in {}", self.aside.display());
                return Err(io::Error::new(io::Error::from(error).kind(), text));
            }
        }
        Ok(())
    }

    fn exchange(&self) -> rustix::io::Result<()> {
        rustix::fs::renameat_with(CWD, &self.aside, CWD, &self.path, RenameFlags::EXCHANGE)
    }

    /// Tells whether the file aside is of this version.
    fn holds(&self, label: &str) -> bool {
        State::at(&self.aside).is_some_and(|state| state.label() == label)
    }

    /// Tells whether the file aside is a version that neither this process nor its caller has seen.
    fn is_displaced(&self) -> bool {
        !self.holds(&self.own) && !self.holds(&self.expected)
    }

    /// Removes the file aside if it is our own new version or the one that was read. Any other version is kept.
    fn remove_known(&self) {
        if !self.is_displaced() {
            let _ = std::fs::remove_file(&self.aside);
        }
    }
}

/// Returns the files beside `path` that hold a version of it which another program wrote and an exchange displaced.
///
/// While another process replaces the file, its version may be listed as well.
pub fn find_displaced(path: &Path) -> Vec<PathBuf> {
    let displaced =
        exchanges_of(path).into_iter().filter(|exchange| exchange.aside.exists() && exchange.is_displaced());
    displaced.map(|exchange| exchange.aside).collect()
}

/// Finishes exchanges of `path` that killed processes left half done, and removes their remains.
///
/// The caller must keep other processes from replacing the file. A version of another program gets its name back, unless
/// the file was replaced once more since. Then the version stays beside it: those are returned.
pub fn restore_displaced(path: &Path) -> Vec<PathBuf> {
    let mut kept = Vec::new();
    for exchange in exchanges_of(path) {
        if exchange.is_displaced() && State::at(&exchange.path).is_some_and(|state| state.label() == exchange.own) {
            // The process died before it acknowledged its version, so no caller relies on it.
            let _ = exchange.undo().and_then(|()| sync_dir(&exchange.path));
        }
        exchange.remove_known();
        if exchange.aside.exists() {
            kept.push(exchange.aside);
        }
    }
    kept
}

fn exchanges_of(path: &Path) -> Vec<Exchange> {
    // Through a link, what it leads to is replaced.
    let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let entries = path.parent().and_then(|dir| std::fs::read_dir(dir).ok()).into_iter().flatten().flatten();
    entries.filter_map(|entry| Exchange::from_name(&path, entry.file_name().to_str()?)).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::replace;

    fn replaces(seen: &FileVersion) -> bool {
        matches!(replace_if_unchanged(seen, &[b"ou", b"rs"], 0o600).unwrap(), Replaced::Durably(now) if now.is_current())
    }

    /// Exchanges "ours" for what is at `path` after it was read there as "read", as a process that is killed then.
    fn exchange_and_die(path: &Path) -> Exchange {
        replace(path, b"read", 0o600).unwrap();
        let expected = State::at(path).unwrap();
        let (mut file, temporary) = create_beside(path, 0o600).unwrap();
        file.write_all(b"ours").unwrap();
        let exchange = Exchange::new(path, State::of(&file.metadata().unwrap()), expected).unwrap();
        fs::rename(temporary, &exchange.aside).unwrap();
        exchange
    }

    fn names(dir: &Path) -> usize {
        fs::read_dir(dir).unwrap().count()
    }

    #[test]
    fn a_version_displaced_by_a_killed_process_gets_its_name_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let exchange = exchange_and_die(&path);
        replace(&path, b"theirs", 0o600).unwrap();
        exchange.exchange().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"ours");
        assert_eq!(find_displaced(&path), std::slice::from_ref(&exchange.aside));
        assert!(restore_displaced(&path).is_empty());
        assert_eq!((fs::read(&path).unwrap().as_slice(), names(dir.path())), (&b"theirs"[..], 1));
    }

    #[test]
    fn the_remains_of_a_killed_process_are_removed_if_nothing_was_displaced() {
        for is_exchanged in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("file");
            let exchange = exchange_and_die(&path);
            if is_exchanged {
                exchange.exchange().unwrap();
            }
            assert!(find_displaced(&path).is_empty() && restore_displaced(&path).is_empty());
            let expected: &[u8] = if is_exchanged { b"ours" } else { b"read" };
            assert_eq!((fs::read(&path).unwrap().as_slice(), names(dir.path())), (expected, 1));
        }
    }

    #[test]
    fn a_version_that_cannot_get_its_name_back_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        // The file is replaced once more after the exchange.
        let exchange = exchange_and_die(&path);
        replace(&path, b"theirs", 0o600).unwrap();
        exchange.exchange().unwrap();
        replace(&path, b"newer", 0o600).unwrap();
        assert_eq!(restore_displaced(&path), std::slice::from_ref(&exchange.aside));
        assert_eq!(fs::read(&exchange.aside).unwrap(), b"theirs");
        // Now the process that exchanged them notices that it was not the version it read, while it still lives.
        exchange.undo().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"theirs");
        assert_eq!(restore_displaced(&path), std::slice::from_ref(&exchange.aside));
        assert_eq!(fs::read(&exchange.aside).unwrap(), b"newer");
        // Or the file is gone by then.
        fs::remove_file(&path).unwrap();
        exchange.undo().unwrap();
        assert_eq!(find_displaced(&path), [exchange.aside]);
    }

    #[test]
    fn a_file_that_changed_since_it_was_read_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let (bytes, seen) = read_version(&path).unwrap();
        assert!(bytes.is_empty());
        replace(&path, b"theirs", 0o600).unwrap();
        assert!(!replaces(&seen), "it appeared");
        let (bytes, seen) = read_version(&path).unwrap();
        assert_eq!(bytes, b"theirs");
        replace(&path, b"others", 0o600).unwrap();
        assert!(!replaces(&seen), "it was replaced");
        let (_, seen) = read_version(&path).unwrap();
        fs::remove_file(&path).unwrap();
        assert!(!replaces(&seen), "it is gone");
        replace(&path, b"others", 0o600).unwrap();
        let (_, seen) = read_version(&path).unwrap();
        assert!(replaces(&seen));
        assert_eq!(fs::read(&path).unwrap(), b"ours");
        assert_eq!(names(dir.path()), 1, "nothing is left behind");
    }

    #[test]
    fn only_regular_files_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        rustix::fs::mknodat(CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::from_raw_mode(0o600), 0).unwrap();
        assert!(read_version(&pipe).is_err());
        assert!(read_version(dir.path()).is_err());
        assert!(read_version(Path::new("/dev/zero")).is_err());
    }
}
