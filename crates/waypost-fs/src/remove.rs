//! Deleting a directory with everything in it, and nothing else.
//!
//! A path is a question that others can change the answer to while we ask. So nothing here goes by path: each
//! directory is opened from the handle of the one above it, links are unlinked and never entered, and where
//! another file system is mounted the deletion stops. Before the first file goes, the directory must be the very
//! one that the caller looked at.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;
use waypost_core::{Error, Result};

use crate::FileIdentity;

/// A handle is held for each level, so deeper directories are first moved to the top.
const DEEPEST: usize = 64;

/// Deletes the directory at `path` if it is the one of that identity.
///
/// Interrupted or failed, it leaves a part of the tree, and can be called again.
pub fn remove_tree(path: &Path, identity: FileIdentity) -> Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(Error::refused(format!("{} cannot be deleted", path.display())));
    };
    let failed = |errno: Errno| Error::unavailable(format!("cannot delete {}", path.display())).because(errno);
    let name = CString::new(name.as_bytes()).map_err(|_| failed(Errno::INVAL))?;
    let parent = rustix::fs::open(parent, DIRECTORY, Mode::empty()).map_err(failed)?;
    let other = || Error::refused(format!("{} is not the directory it was", path.display()));
    let root = match open_below(parent.as_fd(), &name) {
        Err(Errno::LOOP | Errno::NOTDIR) => return Err(other()),
        opened => opened.map_err(failed)?,
    };
    if FileIdentity::of_handle(&root).ok() != Some(identity) {
        return Err(other());
    }
    allow_all(&root).map_err(failed)?;
    empty(&root).map_err(|(errno, inside)| match errno {
        Errno::XDEV => Error::refused(format!("another file system is mounted in {}, at {inside}", path.display()))
            .hint("unmount it first"),
        _ => Error::unavailable(format!("cannot delete {inside} in {}", path.display())).because(errno),
    })?;
    rustix::fs::unlinkat(&parent, &name, AtFlags::REMOVEDIR).map_err(failed)
}

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

struct Level {
    entries: Dir,
    /// Its name in the level above.
    name: CString,
}

/// Deletes what is in a directory. On failure, says what could not be deleted.
fn empty(root: &OwnedFd) -> std::result::Result<(), (Errno, String)> {
    let at = |name: &CStr| {
        let name = name.to_string_lossy().into_owned();
        move |errno| (errno, name)
    };
    let top = Dir::read_from(root).map_err(at(c"."))?;
    let mut levels = vec![Level { entries: top, name: c".".to_owned() }];
    let mut moved = 0_u64;
    let mut seen_moved = 0_u64;
    let mut patience = 1000;
    loop {
        let depth = levels.len();
        let Some(level) = levels.last_mut() else { break };
        let Some(entry) = level.entries.read() else {
            let Some(done) = levels.pop() else { break };
            match levels.last() {
                Some(above) => {
                    let dir = above.entries.fd().map_err(at(&done.name))?;
                    match rustix::fs::unlinkat(dir, &done.name, AtFlags::REMOVEDIR) {
                        // Somebody is still writing into it, or reading while deleting skipped an entry.
                        Err(Errno::NOTEMPTY) if patience > 0 => {
                            patience -= 1;
                            levels.push(open_level(dir, &done.name).map_err(at(&done.name))?);
                        }
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
        let entry = entry.map_err(at(&level.name))?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let dir = level.entries.fd().map_err(at(name))?;
        if entry.file_type() != FileType::Directory {
            match rustix::fs::unlinkat(dir, name, AtFlags::empty()) {
                // Not every file system says what an entry is; some answer so for a directory.
                Err(Errno::ISDIR | Errno::PERM) if entry.file_type() == FileType::Unknown => {}
                Err(Errno::NOENT) => continue,
                other => {
                    other.map_err(at(name))?;
                    continue;
                }
            }
        }
        if depth < DEEPEST {
            let name = name.to_owned();
            let inner = open_level(dir, &name).map_err(at(&name))?;
            levels.push(inner);
        } else {
            // Opened first, so that a mount point is not carried anywhere. Moving it changes it, so that must be allowed.
            open_below(dir, name).and_then(|handle| allow_all(&handle)).map_err(at(name))?;
            moved += 1;
            move_aside(dir, name, root).map_err(at(name))?;
        }
    }
    Ok(())
}

fn open_level(dir: BorrowedFd<'_>, name: &CStr) -> std::result::Result<Level, Errno> {
    let handle = open_below(dir, name)?;
    allow_all(&handle)?;
    Ok(Level { entries: Dir::new(handle)?, name: name.to_owned() })
}

/// Gives us all rights on a directory: without them nothing in it can be deleted, and it is about to go.
fn allow_all(handle: &OwnedFd) -> std::result::Result<(), Errno> {
    let mode = rustix::fs::fstat(handle)?.st_mode;
    if mode & 0o700 == 0o700 {
        return Ok(());
    }
    rustix::fs::fchmod(handle, Mode::from_raw_mode(mode & 0o7777 | 0o700))
}

/// Moves a directory to the top, under a name that nothing has there.
fn move_aside(dir: BorrowedFd<'_>, name: &CStr, root: &OwnedFd) -> std::result::Result<(), Errno> {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    loop {
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let aside = format!(".waypost-deleting-{}-{number}", std::process::id());
        match rustix::fs::statat(root, &aside, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => return rustix::fs::renameat(dir, name, root, aside),
            // Left by a process that had our number and was interrupted.
            Ok(_) => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// Opens a directory that really is in `dir`: not through a link, not on another file system.
#[cfg(target_os = "linux")]
fn open_below(dir: BorrowedFd<'_>, name: &CStr) -> std::result::Result<OwnedFd, Errno> {
    use rustix::fs::ResolveFlags;
    let resolve = ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_XDEV);
    match rustix::fs::openat2(dir, name, DIRECTORY, Mode::empty(), resolve) {
        // Its owner may not read it, but may change that. By handle: what is at the name now may be something else.
        Err(Errno::ACCESS) => {
            let handle = rustix::fs::openat2(dir, name, DIRECTORY | OFlags::PATH, Mode::empty(), resolve)?;
            let own_name = format!("/proc/self/fd/{}", handle.as_raw_fd());
            rustix::fs::chmod(own_name, Mode::RWXU)?;
            rustix::fs::openat2(dir, name, DIRECTORY, Mode::empty(), resolve)
        }
        // A kernel before 5.6, or a sandbox that does not know the call.
        Err(Errno::NOSYS | Errno::PERM) => open_same_device(dir, name),
        other => other,
    }
}

/// Opens a directory that really is in `dir`: not through a link, not on another file system.
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
    fn links_are_unlinked_and_not_entered() {
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
    fn a_link_or_another_directory_in_its_place_is_refused() {
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
    fn trees_of_any_depth_and_odd_permissions_go() {
        let dir = tempfile::tempdir().unwrap();
        let tree = dir.path().join("tree");
        fs::create_dir(&tree).unwrap();
        // Deeper than a path may be long, and than there may be open handles.
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
    fn swapping_directories_for_links_meanwhile_harms_nothing_outside() {
        let dir = tempfile::tempdir().unwrap();
        let canary = dir.path().join("canary");
        fs::create_dir(&canary).unwrap();
        for number in 0..20 {
            fs::File::create(canary.join(number.to_string())).unwrap();
        }
        let mut swaps = 0;
        for round in 0.. {
            let tree = dir.path().join(format!("tree{round}"));
            // Every directory has a link to the canary beside it, and they exchange their names.
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
                // It may fail, since somebody works against it; it may not do harm.
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
