//! Copying a tree as fast as the file system can.
//!
//! All paths are resolved from directory handles: links are copied as links and never followed, in either tree. Files
//! share blocks with the originals where the file system supports it; elsewhere the bytes are copied. Times are kept, so
//! that a copied git index still matches the copied files.

use std::ffi::{CStr, CString};
use std::num::NonZero;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, Timespec, Timestamps};
use rustix::io::Errno;
use waypost_core::{Error, Result};

/// Files are copied through a buffer of this size, which takes fewer system calls than a copy by the kernel.
const BUFFER_BYTES: usize = 256 * 1024;

/// With more threads the file system is the bottleneck.
const MAX_THREADS: usize = 8;

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The result of a copy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// The number of files and links.
    pub files: u64,
    /// Whether the file system shares their blocks with the originals.
    pub is_shared: bool,
    /// Sockets, devices and pipes, which have no content to copy.
    pub left_out: Vec<String>,
}

/// Copies the content of the directory `from` into the directory `to`, except the relative paths in `skip`.
///
/// Nothing is replaced: an entry of the same name in `to` is an error. An entry that disappears from `from` during the
/// copy is not an error.
pub fn copy_tree(from: &Path, to: &Path, skip: &[&str]) -> Result<Copied> {
    let open = |path: &Path| rustix::fs::open(path, DIRECTORY, Mode::empty()).map_err(|errno| cannot_copy(path, errno));
    let handles = Arc::new(Handles { from: open(from)?, to: open(to)? });
    let copy = Copy::new(handles.from.as_fd());
    let root = Pending { parent: None, name: c".".to_owned(), path: String::new() };
    lock(&copy.queue).pending.push(root);
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get).min(MAX_THREADS);
    std::thread::scope(|scope| {
        for _ in 1..threads {
            // Further threads are optional: this one can copy everything alone.
            let started = std::thread::Builder::new().spawn_scoped(scope, || copy.work(&handles, skip));
            if started.is_err() {
                break;
            }
        }
        copy.work(&handles, skip);
    });
    let queue = copy.queue.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some((path, errno)) = queue.failed {
        return Err(cannot_copy(&from.join(path), errno));
    }
    // Set last, because a read-only directory cannot be filled. Inner directories come first.
    for (path, mode) in queue.modes.iter().rev() {
        let handle = open_dirs(to, Path::new(path), false)?;
        rustix::fs::fchmod(&handle, *mode).map_err(|errno| cannot_copy(&to.join(path), errno))?;
    }
    let mut left_out = queue.left_out;
    left_out.sort();
    let is_shared = copy.can_share.load(Ordering::Relaxed) && copy.files.load(Ordering::Relaxed) > 0;
    Ok(Copied { files: copy.files.into_inner(), is_shared, left_out })
}

/// Copies one file or link to the same place in another tree, and creates the directories above it.
///
/// A directory that is a link in either tree is an error. An existing file stays. Returns whether the file was copied.
pub fn copy_below(from: &Path, to: &Path, relative: &Path) -> Result<bool> {
    let (Some(parent), Some(name)) = (relative.parent(), relative.file_name()) else {
        return Err(cannot_copy(relative, Errno::INVAL));
    };
    let handles = Handles { from: open_dirs(from, parent, false)?, to: open_dirs(to, parent, true)? };
    let failed = |errno| cannot_copy(&from.join(relative), errno);
    let name = CString::new(name.as_bytes()).map_err(|_| failed(Errno::INVAL))?;
    let kind = rustix::fs::statat(&handles.from, &name, AtFlags::SYMLINK_NOFOLLOW).map_err(failed)?;
    let copy = Copy::new(handles.from.as_fd());
    let copied = match FileType::from_raw_mode(kind.st_mode) {
        FileType::Symlink => copy_link(&handles, &name),
        FileType::RegularFile => copy.file(&handles, &name, &mut Vec::new()),
        _ => Err(Errno::INVAL),
    };
    match copied {
        Ok(()) => Ok(true),
        Err(Errno::EXIST) => Ok(false),
        Err(errno) => Err(failed(errno)),
    }
}

fn cannot_copy(path: &Path, errno: Errno) -> Error {
    Error::unavailable(format!("cannot copy {}", path.display())).because(errno)
}

/// Opens a directory below another without following links. If `create` is set, missing directories are created.
fn open_dirs(root: &Path, relative: &Path, create: bool) -> Result<OwnedFd> {
    let failed = |errno| cannot_copy(&root.join(relative), errno);
    let mut handle = rustix::fs::open(root, DIRECTORY, Mode::empty()).map_err(failed)?;
    for part in relative.components() {
        let Component::Normal(name) = part else { return Err(failed(Errno::INVAL)) };
        if create {
            match rustix::fs::mkdirat(&handle, name, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(failed(errno)),
            }
        }
        handle = rustix::fs::openat(&handle, name, DIRECTORY, Mode::empty()).map_err(failed)?;
    }
    Ok(handle)
}

/// The same directory in both trees.
struct Handles {
    from: OwnedFd,
    to: OwnedFd,
}

/// A directory that was found and is not copied yet. It is opened only when a thread copies it, to save handles.
struct Pending {
    parent: Option<Arc<Handles>>,
    name: CString,
    /// For error messages.
    path: String,
}

#[derive(Default)]
struct Queue {
    /// A stack, so that few directories are open at once.
    pending: Vec<Pending>,
    /// The number of threads that may still find more directories.
    working: usize,
    failed: Option<(String, Errno)>,
    left_out: Vec<String>,
    /// Directories that lose permissions once they are filled.
    modes: Vec<(String, Mode)>,
}

struct Copy {
    queue: Mutex<Queue>,
    changed: Condvar,
    can_share: AtomicBool,
    files: AtomicU64,
    device: u64,
}

impl Copy {
    fn new(from: impl AsFd) -> Self {
        Copy {
            queue: Mutex::default(),
            changed: Condvar::new(),
            can_share: AtomicBool::new(cfg!(target_os = "linux")),
            files: AtomicU64::new(0),
            device: rustix::fs::fstat(from).map_or(0, |stat| device_of(&stat)),
        }
    }

    fn work(&self, root: &Arc<Handles>, skip: &[&str]) {
        let mut buffer = Vec::new();
        while let Some(pending) = self.next() {
            let done = self.directory(&pending, root, skip, &mut buffer);
            let mut queue = lock(&self.queue);
            queue.working -= 1;
            if let Err((name, errno)) = done {
                queue.failed.get_or_insert((join(&pending.path, &name), errno));
            }
            self.changed.notify_all();
        }
    }

    /// Waits for a directory to copy. Returns None once all are copied.
    fn next(&self) -> Option<Pending> {
        let mut queue = lock(&self.queue);
        loop {
            if queue.failed.is_some() {
                return None;
            }
            if let Some(pending) = queue.pending.pop() {
                queue.working += 1;
                return Some(pending);
            }
            if queue.working == 0 {
                return None;
            }
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn directory(
        &self,
        pending: &Pending,
        root: &Arc<Handles>,
        skip: &[&str],
        buffer: &mut Vec<u8>,
    ) -> std::result::Result<(), (CString, Errno)> {
        let here = |errno| (c".".to_owned(), errno);
        let handles = match &pending.parent {
            None => root.clone(),
            Some(parent) => match self.enter(parent, pending) {
                Err(Errno::NOENT) if is_gone(parent, &pending.name) => return Ok(()),
                entered => Arc::new(entered.map_err(here)?),
            },
        };
        for entry in Dir::read_from(&handles.from).map_err(here)? {
            let entry = entry.map_err(here)?;
            let name = entry.file_name();
            if name == c"." || name == c".." || skip.iter().any(|skip| is_at(skip, &pending.path, name)) {
                continue;
            }
            let at = |errno| (name.to_owned(), errno);
            let kind = match entry.file_type() {
                FileType::Unknown => {
                    let stat = rustix::fs::statat(&handles.from, name, AtFlags::SYMLINK_NOFOLLOW).map_err(at)?;
                    FileType::from_raw_mode(stat.st_mode)
                }
                known => known,
            };
            let copied = match kind {
                FileType::RegularFile => self.file(&handles, name, buffer),
                FileType::Symlink => copy_link(&handles, name),
                FileType::Directory => {
                    let path = join(&pending.path, name);
                    let inner = Pending { parent: Some(handles.clone()), name: name.to_owned(), path };
                    lock(&self.queue).pending.push(inner);
                    self.changed.notify_one();
                    continue;
                }
                _ => {
                    lock(&self.queue).left_out.push(join(&pending.path, name));
                    continue;
                }
            };
            match copied {
                Err(Errno::NOENT) if is_gone(&handles, name) => continue,
                other => other.map_err(at)?,
            }
            self.files.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Opens a directory and creates its copy.
    fn enter(&self, parent: &Handles, pending: &Pending) -> std::result::Result<Handles, Errno> {
        let name = &pending.name;
        let from = rustix::fs::openat(&parent.from, name, DIRECTORY, Mode::empty())?;
        let stat = rustix::fs::fstat(&from)?;
        if device_of(&stat) != self.device {
            return Err(Errno::XDEV);
        }
        let mode = Mode::from_raw_mode(stat.st_mode);
        rustix::fs::mkdirat(&parent.to, name, mode | Mode::RWXU)?;
        let to = rustix::fs::openat(&parent.to, name, DIRECTORY, Mode::empty())?;
        if !mode.contains(Mode::RWXU) {
            lock(&self.queue).modes.push((pending.path.clone(), mode));
        }
        Ok(Handles { from, to })
    }

    fn file(&self, handles: &Handles, name: &CStr, buffer: &mut Vec<u8>) -> std::result::Result<(), Errno> {
        // NONBLOCK, because the file may have been replaced by a pipe.
        let reading = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let from = rustix::fs::openat(&handles.from, name, reading, Mode::empty())?;
        let stat = rustix::fs::fstat(&from)?;
        if !FileType::from_raw_mode(stat.st_mode).is_file() {
            return Err(Errno::INVAL);
        }
        let mode = Mode::from_raw_mode(stat.st_mode);
        let writing = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let to = rustix::fs::openat(&handles.to, name, writing, mode)?;
        self.content(&from, &to, &stat, buffer)?;
        // Restores permissions that the umask removed.
        if stat.st_mode & 0o7022 != 0 {
            rustix::fs::fchmod(&to, mode)?;
        }
        rustix::fs::futimens(&to, &times(&stat))
    }

    fn content(
        &self,
        from: &OwnedFd,
        to: &OwnedFd,
        stat: &Stat,
        buffer: &mut Vec<u8>,
    ) -> std::result::Result<(), Errno> {
        if stat.st_size == 0 {
            return Ok(());
        }
        #[cfg(target_os = "linux")]
        if self.can_share.load(Ordering::Relaxed) {
            match rustix::fs::ioctl_ficlone(to, from) {
                Ok(()) => return Ok(()),
                // Copying the bytes works or reports the reason. Another attempt to share would only cost time.
                Err(_) => self.can_share.store(false, Ordering::Relaxed),
            }
        }
        buffer.resize(BUFFER_BYTES, 0);
        loop {
            let count = rustix::io::retry_on_intr(|| rustix::io::read(from, &mut buffer[..]))?;
            let mut rest = &buffer[..count];
            while !rest.is_empty() {
                let written = rustix::io::retry_on_intr(|| rustix::io::write(to, rest))?;
                rest = &rest[written..];
            }
            // A file that fits into the buffer was read completely: skip the read that returns the end.
            if count == 0 || (count < BUFFER_BYTES && u64::try_from(stat.st_size) == Ok(count as u64)) {
                return Ok(());
            }
        }
    }
}

/// Returns whether an entry that was listed does not exist any more.
fn is_gone(handles: &Handles, name: &CStr) -> bool {
    matches!(rustix::fs::statat(&handles.from, name, AtFlags::SYMLINK_NOFOLLOW), Err(Errno::NOENT))
}

fn copy_link(handles: &Handles, name: &CStr) -> std::result::Result<(), Errno> {
    let stat = rustix::fs::statat(&handles.from, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let target = rustix::fs::readlinkat(&handles.from, name, Vec::new())?;
    rustix::fs::symlinkat(&*target, &handles.to, name)?;
    rustix::fs::utimensat(&handles.to, name, &times(&stat), AtFlags::SYMLINK_NOFOLLOW)
}

fn times(stat: &Stat) -> Timestamps {
    let time = |seconds, nanos: u64| Timespec { tv_sec: seconds, tv_nsec: i64::try_from(nanos).unwrap_or(0) };
    #[expect(clippy::useless_conversion, reason = "the fields have other types on other systems")]
    Timestamps {
        last_access: time(stat.st_atime.into(), stat.st_atime_nsec.try_into().unwrap_or(0)),
        last_modification: time(stat.st_mtime.into(), stat.st_mtime_nsec.try_into().unwrap_or(0)),
    }
}

#[expect(clippy::useless_conversion, reason = "the field has another type on other systems")]
fn device_of(stat: &Stat) -> u64 {
    stat.st_dev.try_into().unwrap_or(0)
}

fn join(path: &str, name: &CStr) -> String {
    let name = name.to_string_lossy();
    if path.is_empty() { name.into_owned() } else { format!("{path}/{name}") }
}

/// Returns whether `path` names the entry `name` of the directory `dir`.
fn is_at(path: &str, dir: &str, name: &CStr) -> bool {
    let (its_dir, its_name) = path.rsplit_once('/').unwrap_or(("", path));
    its_dir == dir && its_name.as_bytes() == name.to_bytes()
}

fn lock(queue: &Mutex<Queue>) -> MutexGuard<'_, Queue> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_copy_has_the_same_files_links_modes_and_times_and_its_own_content() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        fs::create_dir_all(from.join("a/b/c")).unwrap();
        fs::create_dir(&to).unwrap();
        let big = vec![7; BUFFER_BYTES * 2 + 5];
        for (name, content, mode) in [
            ("plain", &b"one"[..], 0o644),
            ("a/run", b"two", 0o755),
            ("a/b/all", b"", 0o666),
            ("a/b/c/big", &big, 0o400),
        ] {
            crate::replace(&from.join(name), content, 0o600).unwrap();
            fs::set_permissions(from.join(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        symlink("/nowhere", from.join("a/link")).unwrap();
        fs::create_dir(from.join(".git")).unwrap();
        fs::create_dir(from.join("a/skipped")).unwrap();
        fs::set_permissions(from.join("a/b"), fs::Permissions::from_mode(0o500)).unwrap();
        let copied = copy_tree(&from, &to, &[".git", "a/skipped"]).unwrap();
        assert!(!to.join("a/skipped").exists());
        assert_eq!((copied.files, copied.left_out.len()), (5, 0));
        assert!(!to.join(".git").exists());
        assert_eq!(fs::read_link(to.join("a/link")).unwrap(), Path::new("/nowhere"));
        assert_eq!(fs::read(to.join("a/b/c/big")).unwrap(), big);
        for name in ["plain", "a/run", "a/b/all", "a/b/c/big", "a/b"] {
            let [one, other] = [from.join(name), to.join(name)].map(|path| fs::metadata(path).unwrap());
            assert_eq!(one.mode(), other.mode(), "{name}");
            assert_ne!(one.ino(), other.ino(), "{name}");
            if one.is_file() {
                assert_eq!(one.modified().unwrap(), other.modified().unwrap(), "{name}");
            }
        }
        copy_tree(&from, &to, &[".git"]).unwrap_err();
        fs::set_permissions(from.join("a/b"), fs::Permissions::from_mode(0o700)).unwrap();
        fs::set_permissions(to.join("a/b"), fs::Permissions::from_mode(0o700)).unwrap();
    }

    #[test]
    fn a_file_is_not_copied_through_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::create_dir_all(path("from/config")).unwrap();
        fs::create_dir(path("to")).unwrap();
        fs::create_dir(path("outside")).unwrap();
        fs::File::create(path("from/config/secret")).unwrap();
        symlink(path("outside"), path("to/config")).unwrap();
        copy_below(&path("from"), &path("to"), Path::new("config/secret")).unwrap_err();
        copy_below(&path("from"), &path("to"), Path::new("../outside")).unwrap_err();
        assert_eq!(fs::read_dir(path("outside")).unwrap().count(), 0);
        fs::remove_file(path("to/config")).unwrap();
        assert!(copy_below(&path("from"), &path("to"), Path::new("config/secret")).unwrap());
        assert!(!copy_below(&path("from"), &path("to"), Path::new("config/secret")).unwrap());
    }
}
