//! The disk usage of a tree.
//!
//! It counts blocks, as `du` does, and a file with several names once. It follows no links and enters no other file
//! systems. Only one directory is open at a time, so trees of any depth can be measured.

use std::collections::HashSet;
use std::ffi::{CString, OsStr};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use waypost_core::{Error, Result};

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The disk usage of a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes on disk.
    pub bytes: u64,
    /// Files, links and directories.
    pub entries: u64,
    /// Names of files that have further names, inside or outside the tree.
    pub hard_links: u64,
}

/// Measures the directory at `path`, which must not be a link.
///
/// Files that appear or disappear during the measurement may or may not be counted. A directory that is moved during the
/// measurement is an error.
pub fn measure_tree(path: &Path) -> Result<Usage> {
    walk(path).map_err(|errno| Error::unavailable(format!("cannot measure {}", path.display())).because(errno))
}

/// A directory above the current one.
struct Above {
    identity: (u64, u64),
    /// Its directories that are not entered yet.
    inner: Vec<CString>,
}

fn walk(path: &Path) -> std::result::Result<Usage, Errno> {
    let mut usage = Usage::default();
    let mut seen = HashSet::new();
    let mut current = rustix::fs::openat(CWD, path, DIRECTORY, Mode::empty())?;
    let root = identity_of(&rustix::fs::fstat(&current)?);
    add(&mut usage, &mut seen, &rustix::fs::fstat(&current)?);
    let mut identity = root;
    let mut inner = count_entries(&current, &mut usage, &mut seen)?;
    let mut above: Vec<Above> = Vec::new();
    loop {
        if let Some(name) = inner.pop() {
            let below = match rustix::fs::openat(&current, &name, DIRECTORY, Mode::empty()) {
                // Gone, or replaced by something else.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => continue,
                other => other?,
            };
            let stat = rustix::fs::fstat(&below)?;
            if identity_of(&stat).0 != root.0 {
                continue;
            }
            add(&mut usage, &mut seen, &stat);
            above.push(Above { identity, inner });
            current = below;
            identity = identity_of(&stat);
            inner = count_entries(&current, &mut usage, &mut seen)?;
        } else if let Some(next) = above.pop() {
            let up = rustix::fs::openat(&current, OsStr::new(".."), DIRECTORY, Mode::empty())?;
            if identity_of(&rustix::fs::fstat(&up)?) != next.identity {
                return Err(Errno::STALE);
            }
            current = up;
            identity = next.identity;
            inner = next.inner;
        } else {
            return Ok(usage);
        }
    }
}

/// Counts the files in a directory and returns its directories, which are counted when they are entered.
fn count_entries(
    dir: &OwnedFd,
    usage: &mut Usage,
    seen: &mut HashSet<(u64, u64)>,
) -> std::result::Result<Vec<CString>, Errno> {
    let mut inner = Vec::new();
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        if entry.file_type() == FileType::Directory {
            inner.push(name.to_owned());
            continue;
        }
        let stat = match rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => continue,
            other => other?,
        };
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            inner.push(name.to_owned());
        } else {
            add(usage, seen, &stat);
        }
    }
    Ok(inner)
}

fn add(usage: &mut Usage, seen: &mut HashSet<(u64, u64)>, stat: &Stat) {
    usage.entries += 1;
    let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
    if !is_directory && stat.st_nlink > 1 {
        usage.hard_links += 1;
        if !seen.insert(identity_of(stat)) {
            return;
        }
    }
    // The unit is always 512 bytes, independent of the file system's block size.
    usage.bytes += u64::try_from(stat.st_blocks).unwrap_or(0) * 512;
}

#[expect(clippy::useless_conversion, reason = "the fields have other types on other systems")]
fn identity_of(stat: &Stat) -> (u64, u64) {
    (stat.st_dev.try_into().unwrap_or(0), stat.st_ino.into())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_tree_of_any_depth_is_measured() {
        let dir = tempfile::tempdir().unwrap();
        let tree = dir.path().join("tree");
        fs::create_dir(&tree).unwrap();
        let mut handle = rustix::fs::open(&tree, DIRECTORY, Mode::empty()).unwrap();
        for _ in 0..10_000 {
            rustix::fs::mkdirat(&handle, "deeper", Mode::from_raw_mode(0o700)).unwrap();
            handle = rustix::fs::openat(&handle, "deeper", DIRECTORY, Mode::empty()).unwrap();
        }
        assert_eq!(measure_tree(&tree).unwrap().entries, 10_001);
        crate::remove_tree(&tree, crate::FileIdentity::of(&tree).unwrap()).unwrap();
        assert!(!tree.exists());
    }
}
