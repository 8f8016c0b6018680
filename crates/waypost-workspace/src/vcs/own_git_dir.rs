//! A git directory of our own, which git uses instead of a repository's shared one.
//!
//! Git takes configuration, hooks, attributes and ignore patterns from the directory that `GIT_COMMON_DIR` names. For each
//! repository, Waypost makes such a directory: its configuration is the harmless part of the repository's, its hooks are
//! none, and links lead to the objects and refs. Everything in it was read once. What a job writes later has no effect.
//!
//! It is in the system's temporary directory and goes with its last user. While it is in use it is locked, so the next
//! process recognizes and deletes what a killed one left.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::OFlags;
use waypost_core::{Error, Result};
use waypost_fs::{FileIdentity, read_small_file, remove_tree};

use super::git_config::{GitConfig, Setting};
use crate::sandbox::JobSandbox;
use crate::surroundings;

/// The beginning of the names of these directories.
const PREFIX: &str = "waypost-git-";

/// The parts of a shared directory that are data. Legacy files that name remotes are not among them.
const LINKED: [&str; 9] =
    ["objects", "refs", "packed-refs", "reftable", "logs", "worktrees", "shallow", "modules", "rr-cache"];

/// The files in `info` that are data: patterns.
const COPIED: [&str; 2] = ["exclude", "attributes"];

/// The directory for temporary files.
const SCRATCH: &str = "scratch";

/// How often another name is tried.
const MAX_NAMES: u32 = 1000;

/// A git directory of our own. It is deleted when dropped.
pub(crate) struct OwnGitDir {
    path: PathBuf,
    identity: FileIdentity,
    /// Locked as long as the directory is in use.
    _lock: File,
    filters_off: BTreeSet<Vec<u8>>,
    sparse: GitConfig,
}

impl OwnGitDir {
    /// Makes one for a repository: for its shared directory, and for the git directory of one of its worktrees.
    /// If a job can change them, they do not tell who the user is.
    pub(super) fn of(git_dir: &Path, common_dir: &Path, is_of_job: bool) -> Result<OwnGitDir> {
        let within = |file: &Path| {
            let shown = file.display().to_string();
            move |error: Error| error.within(shown)
        };
        let read = |file: &Path| -> Result<GitConfig> {
            let config = GitConfig::parse(&read_small_file(file)?.unwrap_or_default()).map_err(within(file))?;
            let is_of_job = is_of_job && (common_dir == git_dir || file.starts_with(git_dir));
            Ok(if is_of_job { config.without_user() } else { config })
        };
        let file = common_dir.join("config");
        let mut config = read(&file)?;
        let mut sparse = GitConfig::default();
        if config.has_worktree_config() {
            let of_worktree = read(&git_dir.join("config.worktree"))?;
            sparse = of_worktree.sparse();
            config.append(of_worktree);
        }
        let filters_off = config.filters_off();
        let mut harmless = config.harmless().map_err(within(&file))?;
        // Git-lfs would keep its files in the shared directory.
        let storage = common_dir.join("lfs").into_os_string();
        harmless.extend([Setting::new("lfs", None, "storage", storage.as_encoded_bytes())]);
        let mut own = OwnGitDir::make(&harmless)?;
        (own.filters_off, own.sparse) = (filters_off, sparse);
        for name in LINKED {
            symlink(common_dir.join(name), own.path.join(name)).map_err(|error| cannot_write(&own.path, error))?;
        }
        for name in COPIED {
            if let Some(content) = read_small_file(&common_dir.join("info").join(name))? {
                own.put(&format!("info/{name}"), &content)?;
            }
        }
        // Git asks it for the branch of the main worktree. It may be a link, in very old repositories.
        if let Ok(Some(head)) = read_small_file(&common_dir.join("HEAD")) {
            own.put("HEAD", &head)?;
        }
        Ok(own)
    }

    /// Makes an empty repository, for commands that need none.
    pub(super) fn of_nothing() -> Result<OwnGitDir> {
        let own = OwnGitDir::make(&GitConfig::default())?;
        for dir in ["objects", "refs"] {
            private_dir(&own.path.join(dir)).map_err(|error| cannot_write(&own.path, error))?;
        }
        own.put("HEAD", b"ref: refs/heads/main\n")?;
        Ok(own)
    }

    /// Returns where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns a path for a temporary file that no other process uses.
    pub(super) fn temporary(&self, kind: &str) -> PathBuf {
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        self.path.join(SCRATCH).join(format!("{}.{kind}", COUNTER.fetch_add(1, Ordering::Relaxed)))
    }

    /// Returns the words that start a tool in the sandbox of a job. Of this directory, the tool writes only temporary files.
    pub(super) fn start_in(&self, job: &JobSandbox) -> Result<Vec<OsString>> {
        job.words(&self.path, &self.path.join(SCRATCH), |stage| {
            self.put("sandbox", stage)?;
            Ok(self.path.join("sandbox"))
        })
    }

    /// Returns whether the repository configures this filter, and git does not get it.
    pub(super) fn is_filter_off(&self, filter: &str) -> bool {
        self.filters_off.contains(filter.as_bytes())
    }

    /// Returns the names of the filters that the repository configures, and that git does not get.
    pub(super) fn filters_off(&self) -> impl Iterator<Item = OsString> + '_ {
        use std::os::unix::ffi::OsStringExt as _;
        self.filters_off.iter().map(|name| OsString::from_vec(name.clone()))
    }

    /// Returns the configuration of a new worktree that has the same files as this one. None if it has all.
    pub(crate) fn sparse_config(&self) -> Option<Vec<u8>> {
        (!self.sparse.is_empty()).then(|| self.sparse.to_bytes())
    }

    fn make(config: &GitConfig) -> Result<OwnGitDir> {
        static SWEEP: Once = Once::new();
        let parent = surroundings::temporary_dir();
        SWEEP.call_once(|| sweep(&parent));
        let (path, lock) = new_dir(&parent).map_err(|error| cannot_write(&parent, error))?;
        let identity = FileIdentity::of_entry(&path).map_err(|error| cannot_write(&path, error))?;
        let (filters_off, sparse) = (BTreeSet::new(), GitConfig::default());
        let own = OwnGitDir { path, identity, _lock: lock, filters_off, sparse };
        for dir in ["info", "hooks", SCRATCH] {
            private_dir(&own.path.join(dir)).map_err(|error| cannot_write(&own.path, error))?;
        }
        own.put("config", &config.to_bytes())?;
        Ok(own)
    }

    fn put(&self, name: &str, content: &[u8]) -> Result<()> {
        let written =
            waypost_fs::create_private_file(&self.path.join(name)).and_then(|mut file| file.write_all(content));
        written.map_err(|error| cannot_write(&self.path, error))
    }
}

impl Drop for OwnGitDir {
    fn drop(&mut self) {
        // If it stays, another process deletes it.
        let _ = remove_tree(&self.path, self.identity);
    }
}

fn cannot_write(path: &Path, error: io::Error) -> Error {
    Error::unavailable(format!("cannot write {}", path.display())).because(error)
}

fn private_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)
}

/// Makes a locked directory with a new name.
fn new_dir(parent: &Path) -> io::Result<(PathBuf, File)> {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    for _ in 0..MAX_NAMES {
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("{PREFIX}{}-{number}", std::process::id()));
        match private_dir(&path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
            other => other?,
        }
        // Between both steps another process may take it for an abandoned one.
        let locked = open(&path).and_then(|lock| lock.try_lock().map(|()| lock).map_err(io::Error::from));
        if let Ok(lock) = locked
            && is_at(&lock, &path)
        {
            return Ok((path, lock));
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}

/// Opens a directory, and follows no link.
fn open(path: &Path) -> io::Result<File> {
    let flags = (OFlags::DIRECTORY | OFlags::NOFOLLOW).bits().cast_signed();
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

/// Returns whether a path still leads to an open directory.
fn is_at(dir: &File, path: &Path) -> bool {
    let found = path.symlink_metadata().and_then(|found| Ok((found, dir.metadata()?)));
    found.is_ok_and(|(found, open)| (found.dev(), found.ino()) == (open.dev(), open.ino()))
}

/// Deletes the directories that killed processes of this user left behind.
fn sweep(parent: &Path) {
    let us = rustix::process::geteuid().as_raw();
    for entry in parent.read_dir().into_iter().flatten().flatten() {
        let is_named = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        if !is_named || entry.metadata().is_ok_and(|found| found.uid() != us) {
            continue;
        }
        let path = entry.path();
        let Ok(dir) = open(&path) else { continue };
        if dir.try_lock().is_ok()
            && let Ok(identity) = FileIdentity::of_entry(&path)
        {
            let _ = remove_tree(&path, identity);
        }
    }
}
