//! Replacing a file only if it is still the version that was read.
//!
//! Waypost's own processes serialize with a lock. Other programs do not: a checkout can replace the file at any moment.
//! A version that another program wrote must not be overwritten by a process that has not read it.

use std::ffi::OsString;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{CWD, OFlags, RenameFlags};
use rustix::io::Errno;
use waypost_core::seeded::seeded_bug;

use crate::replace::{follow_link, parent};
use crate::{Stamp, create_beside, rename_new, sync_dir};

/// The version of a file at the time it was read.
#[derive(Clone, Debug)]
pub struct FileVersion {
    /// The path of the file itself: not of a link to it.
    path: PathBuf,
    /// None if there was no file.
    state: Option<State>,
    /// None if there was no file, or if a change might keep the same stamp.
    stamp: Option<Stamp>,
}

impl FileVersion {
    /// Returns the stamp of the file. None if there was no file, or if it is so new that a change might keep the stamp.
    pub fn stamp(&self) -> Option<Stamp> {
        self.stamp
    }

    /// Returns whether there was a file.
    pub fn exists(&self) -> bool {
        self.state.is_some()
    }

    /// Returns the version that this process has just put in place.
    fn written(path: &Path, own: State, is_antedated: bool) -> FileVersion {
        let metadata = std::fs::symlink_metadata(path).ok().filter(|metadata| State::of(metadata) == own);
        let stamp = metadata.filter(|_| is_antedated).map(|metadata| Stamp::of(&metadata));
        FileVersion { path: path.to_owned(), state: Some(own), stamp }
    }

    /// Returns whether the file still has this version.
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

    /// Returns the state as part of a file name. The device number changes with a restart, so it is left out.
    fn label(&self) -> String {
        let (seconds, nanos) = self.modified;
        format!("{:x}-{:x}-{seconds:x}-{nanos:x}", self.inode, self.length)
    }
}

/// Reads a regular file and returns its version. A missing file is empty.
pub fn read_version(path: &Path) -> io::Result<(Vec<u8>, FileVersion)> {
    let (file, version) = open_version(path)?;
    let mut bytes = Vec::new();
    if let (Some(file), Some(state)) = (file, &version.state) {
        // Its size is known, so the system is not asked for it again.
        bytes.reserve_exact(usize::try_from(state.length).unwrap_or_default().saturating_add(1));
        file.take(u64::MAX).read_to_end(&mut bytes)?;
    }
    Ok((bytes, version))
}

/// Reads a regular file piece by piece and returns its version. A missing file is empty.
///
/// Reusing one buffer is much faster than allocating memory for the whole file.
pub fn scan_version(path: &Path, mut each: impl FnMut(&[u8])) -> io::Result<FileVersion> {
    let (file, version) = open_version(path)?;
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
    Ok(version)
}

/// Opens a regular file, if there is one, and returns its version.
fn open_version(path: &Path) -> io::Result<(Option<File>, FileVersion)> {
    let path = match follow_link(path) {
        Ok(real) => real,
        Err(error) if error.kind() == ErrorKind::NotFound && !path.is_symlink() => {
            return Ok((None, FileVersion { path: path.to_owned(), state: None, stamp: None }));
        }
        Err(error) => return Err(error),
    };
    // Opening a pipe would block until its other end is opened.
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
        return Err(io::Error::other("not a regular file"));
    }
    let stamp = Stamp::of(&metadata).settled_at(settled);
    Ok((Some(file), FileVersion { path, state: Some(State::of(&metadata)), stamp }))
}

/// The outcome of [`replace_if_unchanged`].
#[derive(Debug)]
pub enum Replaced {
    /// The new version is in place and survives a power cut. This is the version that was written.
    Done(FileVersion),
    /// The new version is in place, but its directory could not be synced: a power cut may bring the old one back.
    Unsynced(io::Error),
    /// Another program changed the file after it was read. Its version stays in place.
    Changed,
}

/// Parts of a file that are together shorter are written with one system call.
const WRITE_BUFFER: usize = 64 * 1024;

/// Replaces a file durably, if it still has the version that was read.
///
/// The content comes in parts, so that the caller need not copy them into one buffer. On an error the file is unchanged,
/// or another program's version of it is beside it, where [`restore_displaced`] finds it.
pub fn replace_if_unchanged(read: &FileVersion, content: &[&[u8]], mode: u32) -> io::Result<Replaced> {
    let (file, temporary) = create_beside(&read.path, mode)?;
    let written: io::Result<(State, bool)> = (|| {
        if let Ok(existing) = std::fs::metadata(&read.path) {
            file.set_permissions(existing.permissions())?;
        }
        // Short parts are written together.
        let mut parts = BufWriter::with_capacity(WRITE_BUFFER, &file);
        for part in content {
            parts.write_all(part)?;
        }
        parts.flush()?;
        drop(parts);
        let modified = antedate(&file);
        if !seeded_bug("skip_ledger_fsync") {
            file.sync_all()?;
        }
        let own = State::of(&file.metadata()?);
        // A file system may store times less exactly.
        Ok((own, modified == Some(own.modified)))
    })();
    let published = written.and_then(|(own, is_antedated)| Ok((own, is_antedated, publish(read, &temporary, own)?)));
    if !matches!(published, Ok((.., true))) {
        // No other program uses this name, so the file is this process's new version.
        let _ = std::fs::remove_file(&temporary);
    }
    let (own, is_antedated, is_published) = published?;
    if !is_published {
        return Ok(Replaced::Changed);
    }
    Ok(match sync_dir(&read.path) {
        Ok(()) => Replaced::Done(FileVersion::written(&read.path, own, is_antedated)),
        Err(error) => Replaced::Unsynced(error),
    })
}

/// How much older than the clock a new version looks. The clock of file times ticks at least this often.
const ANTEDATED: Duration = Duration::from_millis(20);

/// Sets the modification time of a new version to a time in the past, so that every later change of it shows, even one in
/// the same tick of the clock. Returns that time.
fn antedate(file: &File) -> Option<(i64, i64)> {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    let now = Duration::new(u64::try_from(now.tv_sec).ok()?, u32::try_from(now.tv_nsec).ok()?);
    let past = now.checked_sub(ANTEDATED)?;
    file.set_modified(SystemTime::UNIX_EPOCH + past).ok()?;
    Some((i64::try_from(past.as_secs()).ok()?, i64::from(past.subsec_nanos())))
}

fn publish(read: &FileVersion, temporary: &Path, own: State) -> io::Result<bool> {
    let Some(expected) = read.state else {
        return match rename_new(temporary, &read.path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            other => other.map(|()| true),
        };
    };
    if State::at(&read.path) != Some(expected) && !seeded_bug("replace_unchecked") {
        return Ok(false);
    }
    let exchange = Exchange::new(&read.path, own, expected)?;
    std::fs::rename(temporary, &exchange.aside)?;
    exchange.run()
}

/// The suffix of a file that takes part in an exchange.
const ASIDE_SUFFIX: &str = ".swap.tmp";

/// An exchange of two files' names: the new version and the version that was read.
///
/// The name of the new file contains the labels of both versions. If this process is killed, another one can tell whether
/// the file aside is one of these two or a version that no process has read yet.
struct Exchange {
    path: PathBuf,
    /// The path of the new version before the exchange, and of the displaced one afterwards.
    aside: PathBuf,
    own: String,
    expected: String,
}

impl Exchange {
    fn new(path: &Path, own: State, expected: State) -> io::Result<Exchange> {
        let (own, expected) = (own.label(), expected.label());
        let mut name = OsString::from(".");
        name.push(path.file_name().ok_or(ErrorKind::InvalidInput)?);
        name.push(format!(".{own}.{expected}{ASIDE_SUFFIX}"));
        Ok(Exchange { path: path.to_owned(), aside: path.with_file_name(name), own, expected })
    }

    /// Parses the name of a file beside `path`. Returns None if it takes part in no exchange.
    fn from_name(path: &Path, name: &str) -> Option<Exchange> {
        let stem = format!(".{}.", path.file_name()?.to_str()?);
        let (own, expected) = name.strip_prefix(&stem)?.strip_suffix(ASIDE_SUFFIX)?.split_once('.')?;
        let aside = path.with_file_name(name);
        Some(Exchange { path: path.to_owned(), aside, own: own.to_owned(), expected: expected.to_owned() })
    }

    /// Exchanges the names. Returns whether this displaced the version that was read; if not, the exchange is undone.
    fn run(&self) -> io::Result<bool> {
        match self.exchange() {
            Ok(()) if self.holds(&self.expected) => {
                // If it stays, the next change removes it.
                let _ = std::fs::remove_file(&self.aside);
                Ok(true)
            }
            Ok(()) if seeded_bug("replace_unchecked") => {
                self.remove_known();
                Ok(true)
            }
            Ok(()) => self.undo().map(|()| false),
            Err(error) => {
                let done = match error {
                    Errno::NOENT => Ok(false),
                    // Where names cannot be exchanged, a race between the check and the rename remains.
                    Errno::INVAL | Errno::NOSYS => std::fs::rename(&self.aside, &self.path).map(|()| true),
                    _ => Err(error.into()),
                };
                self.remove_known();
                done
            }
        }
    }

    /// Restores the name of another program's version.
    fn undo(&self) -> io::Result<()> {
        match self.exchange() {
            Ok(()) => self.remove_known(),
            // Another program has removed the file. The displaced version stays aside.
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

    /// Returns whether the file aside has this version.
    fn holds(&self, label: &str) -> bool {
        State::at(&self.aside).is_some_and(|state| state.label() == label)
    }

    /// Returns whether the file aside is a version that neither this process nor its caller has read.
    fn is_displaced(&self) -> bool {
        !self.holds(&self.own) && !self.holds(&self.expected)
    }

    /// Removes the file aside if it is the new version or the one that was read. Any other version is kept.
    fn remove_known(&self) {
        if !self.is_displaced() {
            let _ = std::fs::remove_file(&self.aside);
        }
    }
}

/// Returns the files beside `path` that hold versions which another program wrote and an exchange displaced.
///
/// While another process replaces the file, its version may be listed, too.
pub fn find_displaced(path: &Path) -> Vec<PathBuf> {
    let displaced =
        exchanges_of(path).into_iter().filter(|exchange| exchange.aside.exists() && exchange.is_displaced());
    displaced.map(|exchange| exchange.aside).collect()
}

/// Finishes exchanges of `path` that killed processes left incomplete, and removes their remains.
///
/// The caller must keep other processes from replacing the file. A displaced version gets its name back, unless the file
/// was replaced once more since. In that case it stays aside. Returns the versions that stay aside.
pub fn restore_displaced(path: &Path) -> Vec<PathBuf> {
    let mut kept = Vec::new();
    for exchange in exchanges_of(path) {
        if seeded_bug("skip_recovery") {
            break;
        }
        if exchange.is_displaced() && State::at(&exchange.path).is_some_and(|state| state.label() == exchange.own) {
            // The process died before it acknowledged its version, so no caller depends on it.
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
    // A replacement through a link replaces the link's target.
    let path = follow_link(path).unwrap_or_else(|_| path.to_owned());
    let entries = std::fs::read_dir(parent(&path)).into_iter().flatten().flatten();
    entries.filter_map(|entry| Exchange::from_name(&path, entry.file_name().to_str()?)).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::replace;

    fn replaces(read: &FileVersion) -> bool {
        matches!(replace_if_unchanged(read, &[b"ou", b"rs"], 0o600).unwrap(), Replaced::Done(now) if now.is_current())
    }

    /// Writes "read" to `path` and prepares an exchange with "ours", like a process that is killed before the exchange.
    fn exchange_and_die(path: &Path) -> Exchange {
        replace(path, b"read", 0o600).unwrap();
        let expected = State::at(path).unwrap();
        let (mut file, temporary) = create_beside(path, 0o600).unwrap();
        file.write_all(b"ours").unwrap();
        let exchange = Exchange::new(path, State::of(&file.metadata().unwrap()), expected).unwrap();
        fs::rename(temporary, &exchange.aside).unwrap();
        exchange
    }

    fn entry_count(dir: &Path) -> usize {
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
        assert_eq!((fs::read(&path).unwrap().as_slice(), entry_count(dir.path())), (&b"theirs"[..], 1));
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
            assert_eq!((fs::read(&path).unwrap().as_slice(), entry_count(dir.path())), (expected, 1));
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
        // The process is still alive and finds that it displaced a version that it has not read.
        exchange.undo().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"theirs");
        assert_eq!(restore_displaced(&path), std::slice::from_ref(&exchange.aside));
        assert_eq!(fs::read(&exchange.aside).unwrap(), b"newer");
        // Another program has removed the file before the undo.
        fs::remove_file(&path).unwrap();
        exchange.undo().unwrap();
        assert_eq!(find_displaced(&path), [exchange.aside]);
    }

    #[test]
    fn a_file_that_changed_since_it_was_read_is_not_replaced() {
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
        assert_eq!(entry_count(dir.path()), 1, "nothing is left behind");
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
