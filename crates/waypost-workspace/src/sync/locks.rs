//! Git locks that a killed sync left behind.
//!
//! Git acquires a lock by creating a file, and a killed git leaves the file behind, which blocks every other git. The
//! next sync removes such files, if it is certain that sync's own command made them: a journal names the command's locks
//! that were free when it started, the file was made while it ran, and no other git is running here.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use waypost_core::{Error, Result};

use crate::vcs::git_processes::is_git_running;

/// A lock made later than this after the start of sync's command is not from that command.
const MAX_COMMAND_TIME: Duration = Duration::from_mins(1);

/// The locks that sync's git commands acquire.
pub(super) struct OwnLocks {
    journal: PathBuf,
    /// The directories in which a git for this repository is started.
    places: Vec<PathBuf>,
    index: PathBuf,
    refs: Vec<PathBuf>,
}

impl OwnLocks {
    pub(super) fn new(private_dir: &Path, root: &Path, git_dir: &Path, common_dir: &Path, branch: &str) -> OwnLocks {
        OwnLocks {
            journal: private_dir.join("sync.locks"),
            places: [root, git_dir, common_dir].map(Path::to_owned).to_vec(),
            index: git_dir.join("index.lock"),
            refs: vec![
                git_dir.join("HEAD.lock"),
                common_dir.join(format!("{branch}.lock")),
                common_dir.join("packed-refs.lock"),
            ],
        }
    }

    /// Runs a command that acquires the lock of the index and writes an object of this name there.
    pub(super) fn run_on_index<T>(&self, object: &str, run: impl FnOnce() -> Result<T>) -> Result<T> {
        self.run_journaled(std::slice::from_ref(&self.index), object, run)
    }

    /// Runs a command that acquires the locks of the branch and writes an object of this name there.
    pub(super) fn run_on_branch<T>(&self, object: &str, run: impl FnOnce() -> Result<T>) -> Result<T> {
        self.run_journaled(&self.refs, object, run)
    }

    fn run_journaled<T>(&self, locks: &[PathBuf], object: &str, run: impl FnOnce() -> Result<T>) -> Result<T> {
        // The previous command may have been killed without this process.
        self.clear()?;
        if !is_missing(&self.journal) {
            return run();
        }
        let free: Vec<&PathBuf> = locks.iter().filter(|lock| is_missing(lock)).collect();
        let lines = free.iter().filter_map(|lock| lock.to_str()).map(|lock| format!("{lock}\n"));
        let text = format!("{object}\n{}", lines.collect::<String>());
        waypost_fs::replace(&self.journal, text.as_bytes(), 0o600)
            .map_err(|error| Error::unavailable(format!("cannot write {}", self.journal.display())).because(error))?;
        let answer = run();
        // A git that succeeds may leave a lock behind too: it does not check whether it could remove the file.
        if free.iter().all(|lock| is_missing(lock)) {
            let _ = std::fs::remove_file(&self.journal);
        }
        answer
    }

    /// Removes the locks that an earlier sync left behind. The caller holds the sync lock.
    pub(super) fn clear(&self) -> Result<()> {
        let Ok(text) = std::fs::read_to_string(&self.journal) else { return Ok(()) };
        let started = self.journal.metadata().and_then(|journal| journal.modified());
        let started = started
            .map_err(|error| Error::unavailable(format!("cannot read {}", self.journal.display())).because(error))?;
        let mut lines = text.lines();
        let object = lines.next().unwrap_or_default();
        let named: Vec<&str> = lines.collect();
        let left: Vec<&Path> = self
            .all()
            .filter(|lock| lock.to_str().is_some_and(|lock| named.contains(&lock)))
            .filter(|lock| self.was_made_by_sync(lock, object, started))
            .collect();
        if !left.is_empty() && is_git_running(&self.places) {
            // The lock may belong to that git. If not, the next sync removes it.
            return Ok(());
        }
        for lock in left {
            log::debug!("remove lock {} of a killed sync", lock.display());
            match std::fs::remove_file(lock) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(Error::unavailable(format!("cannot remove {}", lock.display())).because(error));
                }
                _ => {}
            }
        }
        let _ = std::fs::remove_file(&self.journal);
        Ok(())
    }

    fn all(&self) -> impl Iterator<Item = &Path> {
        std::iter::once(&self.index).chain(&self.refs).map(PathBuf::as_path)
    }

    /// Returns whether a lock was made while sync's command ran, and contains only what that command would write.
    fn was_made_by_sync(&self, lock: &Path, object: &str, started: SystemTime) -> bool {
        let Some(metadata) = lock.symlink_metadata().ok().filter(std::fs::Metadata::is_file) else { return false };
        let is_in_time = metadata
            .modified()
            .is_ok_and(|made| made.duration_since(started).is_ok_and(|later| later <= MAX_COMMAND_TIME));
        // A partial index cannot be recognized by its content.
        let has_own_content = || {
            lock == self.index
                || metadata.len() == 0
                || std::fs::read_to_string(lock).is_ok_and(|text| object.starts_with(text.trim_end()))
        };
        is_in_time && has_own_content()
    }
}

fn is_missing(lock: &Path) -> bool {
    lock.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}
