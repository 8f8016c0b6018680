//! Detects version control tools that are writing the work tree.
//!
//! Git removes and writes files under `index.lock`, so a reader could find a ledger missing or cut off. A tool that overwrites
//! a change nevertheless loses nothing, because changes are kept until they are committed.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use waypost_fs::age;

/// A killed tool leaves its lock, and an editor that a tool has started may keep it for hours. No tool writes a tree for
/// longer than this without a change of its lock.
const MAX_AGE: Duration = Duration::from_secs(10);

/// Time between two checks of a lock.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// The files that version control tools hold while they change a work tree.
#[derive(Clone, Debug, Default)]
pub(crate) struct ToolLocks(Vec<PathBuf>);

impl ToolLocks {
    pub(crate) fn new(paths: Vec<PathBuf>) -> ToolLocks {
        ToolLocks(paths)
    }

    /// Returns whether a tool seems to hold a lock.
    pub(crate) fn are_held(&self) -> bool {
        self.0.iter().any(|lock| is_held(lock))
    }

    /// Waits until no tool holds a lock, at most until the deadline.
    pub(crate) fn wait(&self, deadline: Instant) {
        while self.are_held() && Instant::now() < deadline {
            std::thread::park_timeout(POLL_INTERVAL);
        }
    }
}

/// Returns whether a tool may be writing the tree under a lock.
fn is_held(lock: &Path) -> bool {
    // Git writes its new index into the lock after it wrote the tree. `git commit -a` then waits for an editor.
    let is_writing = lock.symlink_metadata().is_ok_and(|metadata| !metadata.is_file() || metadata.len() == 0);
    is_writing && age(lock).is_none_or(|age| age < MAX_AGE)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn a_new_lock_is_held_and_an_old_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("index.lock");
        let locks = ToolLocks::new(vec![path.clone()]);
        assert!(!locks.are_held());
        let file = File::create(&path).unwrap();
        assert!(locks.are_held());
        locks.wait(Instant::now());
        file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        assert!(!locks.are_held());
    }

    #[test]
    fn a_lock_that_git_wrote_its_index_into_is_not_held() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("index.lock");
        waypost_fs::replace(&path, b"DIRC", 0o600).unwrap();
        assert!(!ToolLocks::new(vec![path]).are_held());
    }

    #[test]
    fn a_lock_of_mercurial_is_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("wlock");
        std::os::unix::fs::symlink("host:1", &path).unwrap();
        assert!(ToolLocks::new(vec![path]).are_held());
    }
}
