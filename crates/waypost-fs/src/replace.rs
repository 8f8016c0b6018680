//! Atomic replacement: a file has either its old content or the new one, even after a crash or a power cut.

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions, Permissions, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::OFlags;
use waypost_core::seeded::seeded_bug;

/// Replaces `path` with `content` durably: temporary file, fsync, rename, fsync of the directory.
///
/// If `path` is a link, its target is replaced. An existing file keeps its permissions; a new one gets `mode`. On an
/// error the file has its old content, or the new one if only the last fsync failed.
pub fn replace(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let target = follow_link(path).or_else(|error| match error.kind() {
        ErrorKind::NotFound => Ok(path.to_owned()),
        _ => Err(error),
    })?;
    let permissions = std::fs::metadata(&target).ok().map(|existing| existing.permissions());
    put(&target, content, mode, permissions)
}

/// Replaces `path` with `content` durably, as `replace` does, but never what a link leads to: for directories in which
/// others write. The file always gets `mode`.
pub fn replace_entry(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    put(path, content, mode, None)
}

fn put(target: &Path, content: &[u8], mode: u32, permissions: Option<Permissions>) -> io::Result<()> {
    let (mut file, temporary) = create_beside(target, mode)?;
    let written = (|| {
        if let Some(permissions) = permissions {
            file.set_permissions(permissions)?;
        }
        let written = file.write_all(content);
        if !seeded_bug("swallow_write_error") {
            written?;
        }
        if !seeded_bug("skip_fsync") {
            file.sync_all()?;
        }
        std::fs::rename(&temporary, target)?;
        sync_dir(target)
    })();
    if written.is_err() {
        // No other process uses this name, and after a successful rename it does not exist.
        let _ = std::fs::remove_file(&temporary);
    }
    written
}

/// Returns the target of a path that is a link, and any other path as it is. An error if there is no file.
///
/// What is beside a file is found through its directory, whatever links lead there, so only the last part of a path matters.
/// Resolving all of it takes a system call for each part.
pub(crate) fn follow_link(path: &Path) -> io::Result<PathBuf> {
    match std::fs::read_link(path) {
        Ok(_) => std::fs::canonicalize(path),
        // The system's answer for what is not a link.
        Err(error) if error.kind() == ErrorKind::InvalidInput => Ok(path.to_owned()),
        Err(error) => Err(error),
    }
}

/// Syncs the directory of `path`, so that its names survive a power cut.
pub fn sync_dir(path: &Path) -> io::Result<()> {
    if seeded_bug("skip_dir_sync") {
        return Ok(());
    }
    File::open(parent(path))?.sync_all()
}

/// Syncs the file system of `path`, so that everything written to it survives a power cut: for trees of many files.
pub fn sync_file_system(path: &Path) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    return Ok(rustix::fs::syncfs(File::open(path)?)?);
    // On other systems sync may return before the data is written.
    #[cfg(not(target_os = "linux"))]
    return sync_tree(path);
}

/// Syncs every file and directory of a tree. Links are not followed.
#[cfg(any(test, not(target_os = "linux")))]
fn sync_tree(path: &Path) -> io::Result<()> {
    let kind = path.symlink_metadata()?.file_type();
    if kind.is_dir() {
        for entry in std::fs::read_dir(path)? {
            sync_tree(&entry?.path())?;
        }
    }
    if kind.is_dir() || kind.is_file() { File::open(path)?.sync_all() } else { Ok(()) }
}

/// Renames a file, unless the new name exists already.
pub fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags};
    match rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // Not every file system supports the flag. A hard link fails, too, if the name exists.
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
            std::fs::hard_link(from, to)?;
            std::fs::remove_file(from)
        }
        other => Ok(other?),
    }
}

/// Creates a temporary file next to `target`, and removes those that killed processes left for the same target.
///
/// The file stays locked while it is open, which tells other processes that its owner is alive.
pub fn create_beside(target: &Path, mode: u32) -> io::Result<(File, PathBuf)> {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    sweep(parent(target), |name| target.file_name().is_some_and(|target| name == target));
    loop {
        let mut name = OsString::from(".");
        name.push(target.file_name().ok_or(ErrorKind::InvalidInput)?);
        name.push(format!(".{}-{}.tmp", std::process::id(), COUNTER.fetch_add(1, Ordering::Relaxed)));
        let temporary = parent(target).join(name);
        match OpenOptions::new().write(true).create_new(true).mode(mode).open(&temporary) {
            Ok(file) => match file.try_lock() {
                // Another process considers it abandoned, and removes it under the lock.
                Err(TryLockError::WouldBlock) => {}
                // Where files cannot be locked, no process considers them abandoned.
                Ok(()) | Err(TryLockError::Error(_)) => {
                    // Another process may have removed it before it was locked.
                    if file.metadata()?.nlink() > 0 {
                        return Ok((file, temporary));
                    }
                }
            },
            // A process in another container has the same id; take the next name.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}

/// Removes all temporary files that killed processes left in a directory. Only for directories that Waypost owns.
pub fn sweep_temporaries(dir: &Path) {
    sweep(dir, |_| true);
}

/// Removes the temporary files of killed processes whose targets match.
fn sweep(dir: &Path, is_swept: impl Fn(&OsStr) -> bool) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        if target_of(&entry.file_name()).is_some_and(&is_swept)
            // Held until the file is removed: its creator may be about to lock it.
            && let Some(_held) = lock_abandoned(&entry.path())
        {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Returns the name of the file that a temporary file was to become: `file` for `.file.123-4.tmp`.
fn target_of(name: &OsStr) -> Option<&OsStr> {
    let rest = name.as_bytes().strip_prefix(b".")?.strip_suffix(b".tmp")?;
    let dot = rest.iter().rposition(|byte| *byte == b'.')?;
    let numbers = &rest[dot + 1..];
    let dash = numbers.iter().position(|byte| *byte == b'-')?;
    let is_number = |text: &[u8]| !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    (is_number(&numbers[..dash]) && is_number(&numbers[dash + 1..])).then(|| OsStr::from_bytes(&rest[..dot]))
}

/// Locks a temporary file if the process that created it is dead. The kernel unlocks the files of dead processes.
fn lock_abandoned(temporary: &Path) -> Option<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(temporary).ok()?;
    file.try_lock().is_ok().then_some(file)
}

pub(crate) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn content_is_replaced_and_nothing_is_left_behind() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        replace(&path, b"one", 0o600).unwrap();
        replace(&path, b"two", 0o644).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"two");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600, "the old mode stays");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_link_is_replaced_itself_where_others_write() {
        let dir = tempfile::tempdir().unwrap();
        let (target, path) = (dir.path().join("target"), dir.path().join("link"));
        replace(&target, b"mine", 0o600).unwrap();
        symlink(&target, &path).unwrap();
        replace_entry(&path, b"new", 0o600).unwrap();
        assert_eq!(std::fs::read(&target).unwrap(), b"mine");
        assert!(path.symlink_metadata().unwrap().is_file());
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
    }

    #[test]
    fn no_process_removes_the_temporary_file_of_a_living_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        let (_file, temporary) = create_beside(&path, 0o600).unwrap();
                        std::fs::rename(&temporary, &path).unwrap();
                    }
                });
            }
        });
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn the_target_of_a_link_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let (target, link) = (dir.path().join("target"), dir.path().join("link"));
        replace(&target, b"one", 0o600).unwrap();
        symlink(&target, &link).unwrap();
        replace(&link, b"two", 0o600).unwrap();
        assert!(link.is_symlink());
        assert_eq!(std::fs::read(&target).unwrap(), b"two");
    }

    #[test]
    fn a_tree_with_files_and_links_is_synced() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("deep")).unwrap();
        replace(&dir.path().join("deep/file"), b"content", 0o600).unwrap();
        symlink("/nowhere", dir.path().join("deep/link")).unwrap();
        sync_tree(dir.path()).unwrap();
        sync_file_system(dir.path()).unwrap();
    }

    #[test]
    fn temporary_files_of_dead_processes_are_removed_and_no_others() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let names =
            [".file.1-0.tmp", ".other.1-0.tmp", ".file.tmp", ".file.1-x.tmp", ".file.a.b.swap.tmp", "file.1-0.tmp"];
        for name in names {
            File::create(path(name)).unwrap();
        }
        let (held, open) = create_beside(&path("file"), 0o600).unwrap();
        let left = || {
            let mut left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
            left.retain(|path| *path != open);
            left.sort();
            left
        };
        assert_eq!(
            left(),
            [".file.1-x.tmp", ".file.a.b.swap.tmp", ".file.tmp", ".other.1-0.tmp", "file.1-0.tmp"].map(path)
        );
        sweep_temporaries(dir.path());
        assert_eq!(left(), [".file.1-x.tmp", ".file.a.b.swap.tmp", ".file.tmp", "file.1-0.tmp"].map(path));
        assert!(open.exists());
        drop(held);
        sweep_temporaries(dir.path());
        assert!(!open.exists());
    }

    #[test]
    fn a_failed_replacement_leaves_no_temporary_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("is-a-directory");
        std::fs::create_dir(&path).unwrap();
        assert!(replace(&path, b"content", 0o600).is_err());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
