//! Locks of git that a killed command of ours left behind.
//!
//! Git takes a lock by making a file, and whoever finds the file waits for it for ever. A command that is killed leaves its
//! files. They are removed by the next sync, if it is certain that they are ours: a journal names the locks that were free
//! when our command started, the file was made while it ran, and no other git is at work here.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use waypost_core::{Error, Result};

/// A lock that is made later than this after the start of our command is not by our command.
const MAX_COMMAND_TIME: Duration = Duration::from_mins(1);

/// The locks that our commands take.
pub(super) struct OwnLocks {
    journal: PathBuf,
    /// Where a git that works on this repository is started.
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

    /// Runs a command that takes some of the locks, to write an object of this name.
    pub(super) fn around<T>(&self, object: &str, run: impl FnOnce() -> Result<T>) -> Result<T> {
        // The command before may have been killed, and not this process.
        self.clear()?;
        if !is_missing(&self.journal) {
            return run();
        }
        let free: Vec<&Path> = self.all().filter(|lock| is_missing(lock)).collect();
        let lines = free.iter().filter_map(|lock| lock.to_str()).map(|lock| format!("{lock}\n"));
        let text = format!("{object}\n{}", lines.collect::<String>());
        waypost_fs::replace(&self.journal, text.as_bytes(), 0o600)
            .map_err(|error| Error::unavailable(format!("cannot write {}", self.journal.display())).because(error))?;
        let answer = run();
        if answer.is_ok() || free.iter().all(|lock| is_missing(lock)) {
            let _ = std::fs::remove_file(&self.journal);
        }
        answer
    }

    /// Removes the locks that an earlier sync left behind. The caller holds the lock that lets one sync run at a time.
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
            .filter(|lock| self.is_ours(lock, object, started))
            .collect();
        if !left.is_empty() && self.is_git_at_work() {
            // It may be its lock. If it is not, the next sync finds out.
            return Ok(());
        }
        for lock in left {
            log::debug!("remove {}, which a killed sync left behind", lock.display());
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

    /// Returns whether a lock was made while our command ran, and says nothing that our command would not write.
    fn is_ours(&self, lock: &Path, object: &str, started: SystemTime) -> bool {
        let Some(metadata) = lock.symlink_metadata().ok().filter(std::fs::Metadata::is_file) else { return false };
        let is_in_time = metadata
            .modified()
            .is_ok_and(|made| made.duration_since(started).is_ok_and(|later| later <= MAX_COMMAND_TIME));
        // What an index says cannot be told from half of one.
        let is_by_us = || {
            lock == self.index
                || metadata.len() == 0
                || std::fs::read_to_string(lock).is_ok_and(|text| object.starts_with(text.trim_end()))
        };
        is_in_time && is_by_us()
    }

    /// Returns whether a git may be at work in this repository.
    fn is_git_at_work(&self) -> bool {
        let Ok(processes) = std::fs::read_dir("/proc") else { return true };
        processes.flatten().map(|process| process.path()).any(|process| {
            let is_git = std::fs::read_to_string(process.join("comm")).is_ok_and(|name| name.starts_with("git"));
            is_git && self.concerns(&process)
        })
    }

    /// Returns whether a process was started in this repository, or names it. If that cannot be read, it may be so.
    fn concerns(&self, process: &Path) -> bool {
        let is_here = match std::fs::read_link(process.join("cwd")) {
            Ok(cwd) => self.places.iter().any(|place| cwd.starts_with(place)),
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        };
        let names = |words: &[u8]| {
            let words = String::from_utf8_lossy(words);
            self.places.iter().filter_map(|place| place.to_str()).any(|place| words.contains(place))
        };
        is_here || std::fs::read(process.join("cmdline")).is_ok_and(|words| names(&words))
    }
}

fn is_missing(lock: &Path) -> bool {
    lock.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}
