//! Lets one process at a time work on the files of a workspace.
//!
//! A removal refuses a workspace that a process uses. Without the lock it would also find the tools and the open files of
//! another `way` that only examines the workspace. And a process that finds the record of a removal, but no directory, could
//! not tell a removal under way from one that was interrupted.

use std::cell::RefCell;
use std::path::PathBuf;
use std::time::Duration;

use waypost_core::Result;
use waypost_fs::FileLock;

use super::model::Plan;

/// Longer than an examination takes.
const LOCK_TIMEOUT: Duration = Duration::from_mins(2);

thread_local! {
    /// The lock files that this thread holds: a removal also examines the workspace, and takes a snapshot of it.
    static HELD: RefCell<Vec<PathBuf>> = const { RefCell::new(Vec::new()) };
}

/// The right to work on the files of a workspace, until it is dropped.
#[must_use]
#[derive(Debug)]
pub struct FilesLock {
    /// None if an outer call of this thread holds the lock, or if the directory does not permit a lock.
    held: Option<(FileLock, PathBuf)>,
}

/// Waits until no other process or thread works on the files of a workspace.
pub fn lock_files(plan: &Plan) -> Result<FilesLock> {
    lock(plan, LOCK_TIMEOUT)
}

/// Returns None if another process or thread works on the files of a workspace.
pub fn try_lock_files(plan: &Plan) -> Option<FilesLock> {
    lock(plan, Duration::ZERO).ok()
}

fn lock(plan: &Plan, timeout: Duration) -> Result<FilesLock> {
    let path = plan.workspaces.join(format!("{}.lock", plan.name));
    if HELD.with_borrow(|held| held.contains(&path)) {
        return Ok(FilesLock { held: None });
    }
    match FileLock::acquire(&path, timeout) {
        Ok(lock) => {
            HELD.with_borrow_mut(|held| held.push(path.clone()));
            Ok(FilesLock { held: Some((lock, path)) })
        }
        // A directory that cannot be written to can still be examined.
        Err(error) if path.symlink_metadata().is_err() => {
            log::debug!("cannot lock workspace {}: {}", plan.name, error.full_message());
            Ok(FilesLock { held: None })
        }
        Err(error) => Err(error),
    }
}

/// Removes the lock files among these that killed processes left.
pub(super) fn sweep(files: &[PathBuf]) {
    for path in files.iter().filter(|path| path.extension().is_some_and(|kind| kind == "lock") && path.is_file()) {
        if let Ok(lock) = FileLock::acquire(path, Duration::ZERO) {
            lock.remove(path);
        }
    }
}

impl Drop for FilesLock {
    fn drop(&mut self) {
        if let Some((lock, path)) = self.held.take() {
            HELD.with_borrow_mut(|held| held.retain(|one| *one != path));
            lock.remove(&path);
        }
    }
}
