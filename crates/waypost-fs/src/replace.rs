//! Replacing a file so that it has the old content or the new one, never less, whatever happens.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Replaces `path` with `content` durably: temporary file, fsync, rename, fsync of the directory.
///
/// A link is written through to its target, if there is one. An existing file keeps its permissions; a new one
/// gets `mode`. On an error the file has its old content, or the new one if only the last fsync failed.
pub fn replace(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let target = std::fs::canonicalize(path).or_else(|error| match error.kind() {
        ErrorKind::NotFound => Ok(path.to_owned()),
        _ => Err(error),
    })?;
    let (mut file, temporary) = create_beside(&target, mode)?;
    let written = (|| {
        if let Ok(existing) = std::fs::metadata(&target) {
            file.set_permissions(existing.permissions())?;
        }
        file.write_all(content)?;
        file.sync_all()?;
        std::fs::rename(&temporary, &target)?;
        sync_dir(&target)
    })();
    if written.is_err() {
        // After a successful rename there is nothing of this name; before it, this is ours alone.
        let _ = std::fs::remove_file(&temporary);
    }
    written
}

/// Makes the names in the directory of `path` last through a power cut.
pub fn sync_dir(path: &Path) -> io::Result<()> {
    File::open(parent(path))?.sync_all()
}

/// Makes everything last through a power cut that was written to the file system of `path`: for trees of many files.
pub fn sync_file_system(path: &Path) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    return Ok(rustix::fs::syncfs(File::open(path)?)?);
    // Other systems may return from sync before anything is written.
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

/// Gives a file its name, unless something of that name is there already.
pub fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags};
    match rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // Not every file system can do both in one step. A link fails likewise if the name is taken.
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
            std::fs::hard_link(from, to)?;
            std::fs::remove_file(from)
        }
        other => Ok(other?),
    }
}

/// Creates a file with a name nobody else uses, next to `target`.
pub fn create_beside(target: &Path, mode: u32) -> io::Result<(File, PathBuf)> {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    loop {
        let mut name = OsString::from(".");
        name.push(target.file_name().ok_or(ErrorKind::InvalidInput)?);
        name.push(format!(".{}-{}.tmp", std::process::id(), COUNTER.fetch_add(1, Ordering::Relaxed)));
        let temporary = parent(target).join(name);
        match OpenOptions::new().write(true).create_new(true).mode(mode).open(&temporary) {
            Ok(file) => return Ok((file, temporary)),
            // Left by a dead process that had our number. Not ours to delete; take the next name.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}

fn parent(path: &Path) -> &Path {
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
    fn a_link_is_written_through() {
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
        std::fs::write(dir.path().join("deep/file"), "content").unwrap();
        symlink("/nowhere", dir.path().join("deep/link")).unwrap();
        sync_tree(dir.path()).unwrap();
        sync_file_system(dir.path()).unwrap();
    }

    #[test]
    fn a_failed_replacement_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("is-a-directory");
        std::fs::create_dir(&path).unwrap();
        assert!(replace(&path, b"content", 0o600).is_err());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
