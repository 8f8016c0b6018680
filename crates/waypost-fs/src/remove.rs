//! Deleting a directory with everything in it, and nothing else.
//!
//! Other programs can change the file behind a path at any time, so nothing here is deleted by path: each directory is
//! opened from the handle of its parent, links are unlinked and never followed, and the deletion stops where another file
//! system is mounted. Before the first file is deleted, the directory's identity must match the one that the caller
//! checked.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;
use waypost_core::seeded::seeded_bug;
use waypost_core::{Error, Result};

use crate::FileIdentity;

/// One handle is open for each level, so deeper directories are first moved to the top.
const MAX_DEPTH: usize = 64;

/// How often a directory may turn out not to be empty, because a process still writes into it.
const MAX_RETRIES: u32 = 1000;

/// Deletes the directory at `path` if it has that identity.
///
/// An interrupted or failed call leaves a part of the tree, and can be repeated. Several processes can delete the same tree at
/// once: each skips what another has deleted.
pub fn remove_tree(path: &Path, identity: FileIdentity) -> Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(Error::refused(format!("{} cannot be deleted", path.display())));
    };
    let failed = |errno: Errno| Error::unavailable(format!("cannot delete {}", path.display())).because(errno);
    let name = CString::new(name.as_bytes()).map_err(|_| failed(Errno::INVAL))?;
    let parent = rustix::fs::open(parent, DIRECTORY, Mode::empty()).map_err(failed)?;
    let replaced = || Error::refused(format!("{} was replaced by something else", path.display()));
    let root = match open_below(parent.as_fd(), &name) {
        Err(Errno::LOOP | Errno::NOTDIR) => return Err(replaced()),
        opened => opened.map_err(failed)?,
    };
    if FileIdentity::of_handle(&root).ok() != Some(identity) && !seeded_bug("remove_unchecked") {
        return Err(replaced());
    }
    allow_all(&root).map_err(failed)?;
    empty(&root).map_err(|(errno, inside)| match errno {
        Errno::XDEV => Error::refused(format!("another file system is mounted in {}, at {inside}", path.display()))
            .hint("unmount it first"),
        _ => Error::unavailable(format!("cannot delete {inside} in {}", path.display())).because(errno),
    })?;
    match rustix::fs::unlinkat(&parent, &name, AtFlags::REMOVEDIR) {
        Err(Errno::NOENT) => Ok(()),
        other => other.map_err(failed),
    }
}

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

struct Level {
    entries: Dir,
    /// Its name in the level above.
    name: CString,
}

/// Deletes the content of a directory. On failure, returns the entry that could not be deleted.
fn empty(root: &OwnedFd) -> std::result::Result<(), (Errno, String)> {
    let at = |name: &CStr| {
        let name = name.to_string_lossy().into_owned();
        move |errno| (errno, name)
    };
    let top = Dir::read_from(root).map_err(at(c"."))?;
    let mut levels = vec![Level { entries: top, name: c".".to_owned() }];
    let mut moved = 0_u64;
    let mut seen_moved = 0_u64;
    let mut retries = MAX_RETRIES;
    loop {
        let depth = levels.len();
        let Some(level) = levels.last_mut() else { break };
        let Some(entry) = level.entries.read() else {
            let Some(done) = levels.pop() else { break };
            match levels.last() {
                Some(above) => {
                    let dir = above.entries.fd().map_err(at(&done.name))?;
                    match rustix::fs::unlinkat(dir, &done.name, AtFlags::REMOVEDIR) {
                        // A process still writes into it, or the listing skipped an entry because of the deletions.
                        Err(Errno::NOTEMPTY) if retries > 0 => {
                            retries -= 1;
                            levels.extend(unless_gone(open_level(dir, &done.name)).map_err(at(&done.name))?);
                        }
                        Err(Errno::NOENT) => {}
                        other => other.map_err(at(&done.name))?,
                    }
                }
                None if moved > seen_moved => {
                    seen_moved = moved;
                    let top = Dir::read_from(root).map_err(at(c"."))?;
                    levels.push(Level { entries: top, name: c".".to_owned() });
                }
                None => {}
            }
            continue;
        };
        // A directory that another process deleted has no entries any more, and says so with this error.
        let Some(entry) = unless_gone(entry).map_err(at(&level.name))? else { continue };
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let dir = level.entries.fd().map_err(at(name))?;
        if entry.file_type() != FileType::Directory {
            match rustix::fs::unlinkat(dir, name, AtFlags::empty()) {
                // Not every file system reports the type of an entry; unlinking a directory fails with one of these.
                Err(Errno::ISDIR | Errno::PERM) if entry.file_type() == FileType::Unknown => {}
                Err(Errno::NOENT) => continue,
                other => {
                    other.map_err(at(name))?;
                    continue;
                }
            }
        }
        if depth < MAX_DEPTH {
            let name = name.to_owned();
            let inner = unless_gone(open_level(dir, &name)).map_err(at(&name))?;
            levels.extend(inner);
        } else {
            // Opened first, because a mount point must not be moved. Moving a directory needs write permission on it.
            let opened = open_below(dir, name).and_then(|handle| allow_all(&handle));
            if unless_gone(opened).map_err(at(name))?.is_some() {
                moved += 1;
                unless_gone(move_aside(dir, name, root)).map_err(at(name))?;
            }
        }
    }
    Ok(())
}

/// Returns None for what another process has deleted.
fn unless_gone<T>(result: std::result::Result<T, Errno>) -> std::result::Result<Option<T>, Errno> {
    match result {
        Err(Errno::NOENT) => Ok(None),
        other => other.map(Some),
    }
}

fn open_level(dir: BorrowedFd<'_>, name: &CStr) -> std::result::Result<Level, Errno> {
    let handle = open_below(dir, name)?;
    allow_all(&handle)?;
    Ok(Level { entries: Dir::new(handle)?, name: name.to_owned() })
}

/// Gives the owner all permissions on a directory: without them its content cannot be deleted.
fn allow_all(handle: &OwnedFd) -> std::result::Result<(), Errno> {
    let mode = rustix::fs::fstat(handle)?.st_mode;
    if mode & 0o700 == 0o700 {
        return Ok(());
    }
    rustix::fs::fchmod(handle, Mode::from_raw_mode(mode & 0o7777 | 0o700))
}

/// Moves a directory to the top, under an unused name.
fn move_aside(dir: BorrowedFd<'_>, name: &CStr, root: &OwnedFd) -> std::result::Result<(), Errno> {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    loop {
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let aside = format!(".waypost-deleting-{}-{number}", std::process::id());
        match rustix::fs::statat(root, &aside, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => return rustix::fs::renameat(dir, name, root, aside),
            // Left by an interrupted process that had the same id.
            Ok(_) => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// Opens a directory inside `dir`, without following links or entering another file system.
#[cfg(target_os = "linux")]
fn open_below(dir: BorrowedFd<'_>, name: &CStr) -> std::result::Result<OwnedFd, Errno> {
    use rustix::fs::ResolveFlags;
    let resolve = ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_XDEV);
    match rustix::fs::openat2(dir, name, DIRECTORY, Mode::empty(), resolve) {
        // The owner may change permissions that forbid reading. Done by handle, because the name may lead elsewhere by now.
        Err(Errno::ACCESS) => {
            let handle = rustix::fs::openat2(dir, name, DIRECTORY | OFlags::PATH, Mode::empty(), resolve)?;
            let own_name = format!("/proc/self/fd/{}", handle.as_raw_fd());
            rustix::fs::chmod(own_name, Mode::RWXU)?;
            rustix::fs::openat2(dir, name, DIRECTORY, Mode::empty(), resolve)
        }
        // A kernel before 5.6, or a sandbox without this system call.
        Err(Errno::NOSYS | Errno::PERM) => open_same_device(dir, name),
        other => other,
    }
}

/// Opens a directory inside `dir`, without following links or entering another file system.
#[cfg(not(target_os = "linux"))]
fn open_below(dir: BorrowedFd<'_>, name: &CStr) -> std::result::Result<OwnedFd, Errno> {
    open_same_device(dir, name)
}

fn open_same_device(dir: BorrowedFd<'_>, name: &CStr) -> std::result::Result<OwnedFd, Errno> {
    let inner = rustix::fs::openat(dir, name, DIRECTORY, Mode::empty())?;
    if rustix::fs::fstat(dir)?.st_dev == rustix::fs::fstat(&inner)?.st_dev { Ok(inner) } else { Err(Errno::XDEV) }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use rustix::fs::{CWD, RenameFlags};

    use super::*;

    fn remove(path: &Path) -> Result<()> {
        remove_tree(path, FileIdentity::of(path).unwrap())
    }

    #[test]
    fn links_are_unlinked_and_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (tree, canary) = (dir.path().join("tree"), dir.path().join("canary"));
        fs::create_dir_all(tree.join("a/b")).unwrap();
        fs::create_dir(&canary).unwrap();
        fs::File::create(canary.join("precious")).unwrap();
        symlink(&canary, tree.join("to-dir")).unwrap();
        symlink(canary.join("precious"), tree.join("a/to-file")).unwrap();
        symlink("/", tree.join("a/b/to-root")).unwrap();
        fs::hard_link(canary.join("precious"), tree.join("a/other-name")).unwrap();
        remove(&tree).unwrap();
        assert!(!tree.exists() && canary.join("precious").exists());
    }

    #[test]
    fn a_directory_that_was_replaced_is_not_deleted() {
        let dir = tempfile::tempdir().unwrap();
        let (tree, canary) = (dir.path().join("tree"), dir.path().join("canary"));
        fs::create_dir(&tree).unwrap();
        fs::create_dir_all(canary.join("inside")).unwrap();
        let identity = FileIdentity::of(&tree).unwrap();
        fs::remove_dir(&tree).unwrap();
        symlink(&canary, &tree).unwrap();
        remove_tree(&tree, identity).unwrap_err();
        remove_tree(&dir.path().join("tree/"), identity).unwrap_err();
        fs::remove_file(&tree).unwrap();
        fs::rename(&canary, &tree).unwrap();
        remove_tree(&tree, identity).unwrap_err();
        assert!(tree.join("inside").exists());
    }

    #[test]
    fn trees_of_any_depth_and_permissions_are_deleted() {
        let dir = tempfile::tempdir().unwrap();
        let tree = dir.path().join("tree");
        fs::create_dir(&tree).unwrap();
        // Deeper than the maximum path length and the maximum number of open handles allow.
        let mut handle = rustix::fs::open(&tree, DIRECTORY, Mode::empty()).unwrap();
        for _ in 0..10_000 {
            rustix::fs::mkdirat(&handle, "deeper", Mode::from_raw_mode(0o700)).unwrap();
            handle = rustix::fs::openat(&handle, "deeper", DIRECTORY, Mode::empty()).unwrap();
        }
        fs::create_dir(tree.join("locked")).unwrap();
        fs::File::create(tree.join("locked/file")).unwrap();
        fs::set_permissions(tree.join("locked"), fs::Permissions::from_mode(0o000)).unwrap();
        // Left by an interrupted deletion.
        fs::create_dir_all(tree.join(format!(".waypost-deleting-{}-0/inner", std::process::id()))).unwrap();
        for number in 0..500 {
            fs::File::create(tree.join(format!("{number:0200}"))).unwrap();
        }
        remove(&tree).unwrap();
        assert!(!tree.exists());
    }

    #[test]
    fn several_processes_can_delete_the_same_tree_at_once() {
        let dir = tempfile::tempdir().unwrap();
        for round in 0..20 {
            let tree = dir.path().join(format!("tree{round}"));
            for number in 0..60 {
                fs::create_dir_all(tree.join(format!("{number}/a/b/c"))).unwrap();
                fs::File::create(tree.join(format!("{number}/a/file"))).unwrap();
            }
            let identity = FileIdentity::of(&tree).unwrap();
            let barrier = std::sync::Barrier::new(4);
            std::thread::scope(|scope| {
                let remove = || {
                    let _ = barrier.wait();
                    match remove_tree(&tree, identity) {
                        // It was gone before this thread began.
                        Err(_) if !tree.exists() => Ok(()),
                        other => other,
                    }
                };
                let removals: Vec<_> = (0..4).map(|_| scope.spawn(remove)).collect();
                for removal in removals {
                    removal.join().unwrap().unwrap();
                }
            });
            assert!(!tree.exists());
        }
    }

    #[test]
    fn swapping_directories_for_links_during_the_deletion_deletes_nothing_outside() {
        let dir = tempfile::tempdir().unwrap();
        let canary = dir.path().join("canary");
        fs::create_dir(&canary).unwrap();
        for number in 0..20 {
            fs::File::create(canary.join(number.to_string())).unwrap();
        }
        let mut swaps = 0;
        for round in 0.. {
            let tree = dir.path().join(format!("tree{round}"));
            // Beside every directory is a link to the canary, and the two exchange their names.
            for pair in 0..100 {
                fs::create_dir_all(tree.join(format!("{pair}-dir/deep"))).unwrap();
                symlink(&canary, tree.join(format!("{pair}-link"))).unwrap();
            }
            swaps += std::thread::scope(|scope| {
                let swapper = scope.spawn(|| {
                    let swap = |pair: i32| {
                        let [dir, link] = ["dir", "link"].map(|kind| tree.join(format!("{pair}-{kind}")));
                        rustix::fs::renameat_with(CWD, &dir, CWD, &link, RenameFlags::EXCHANGE).is_ok()
                    };
                    (0..5).flat_map(|_| 0..100).filter(|pair| swap(*pair)).count()
                });
                // It may fail because of the swaps, but must not delete anything outside.
                let _ = remove(&tree);
                swapper.join().unwrap()
            });
            assert_eq!(fs::read_dir(&canary).unwrap().count(), 20, "round {round}");
            if swaps >= 10_000 {
                break;
            }
        }
    }
}
