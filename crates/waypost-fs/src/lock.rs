//! A lock between processes, on a file of its own.
//!
//! The kernel's `flock` lets waiting processes sleep and releases the lock when its holder dies, so no stale lock remains.
//! This module adds three things that `flock` lacks. A lock file that was deleted during the wait is not the lock any
//! more, so its identity is compared after locking. The wait has a timeout. And a [queue](crate::queue) keeps the order
//! of processes where many of them compete for the lock.

use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind, Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use waypost_core::seeded::seeded_bug;
use waypost_core::{Error, Result};

use crate::FileIdentity;
use crate::flock::{lock_within, open};
use crate::queue::Queue;

/// A lock that is held until it is dropped.
#[derive(Debug)]
pub struct FileLock {
    file: File,
}

impl FileLock {
    /// Acquires the lock within the timeout.
    ///
    /// A missing file is created. On a timeout the error names the holder.
    pub fn acquire(path: &Path, timeout: Duration) -> Result<FileLock> {
        FileLock::wait(path, Instant::now() + timeout, timeout)
    }

    /// Acquires the lock within the timeout, after the processes that already wait for it.
    pub fn acquire_queued(path: &Path, timeout: Duration) -> Result<FileLock> {
        let deadline = Instant::now() + timeout;
        let queue = Queue::before(path);
        if !queue.has_waiters()
            && let Some(lock) = FileLock::try_acquire(path)?
        {
            return Ok(lock);
        }
        // The order is best effort: without a ticket the process waits for the lock itself.
        let ticket = queue.wait(timeout).ok();
        let lock = FileLock::wait(path, deadline, timeout)?;
        drop(ticket);
        Ok(lock)
    }

    fn try_acquire(path: &Path) -> Result<Option<FileLock>> {
        let file = open(path).map_err(|error| cannot_lock(path).because(error))?;
        match file.try_lock() {
            Ok(()) => FileLock::of(file, path),
            Err(TryLockError::WouldBlock) if seeded_bug("skip_lock") => FileLock::of(file, path),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(cannot_lock(path).because(error)),
        }
    }

    fn wait(path: &Path, deadline: Instant, timeout: Duration) -> Result<FileLock> {
        loop {
            let file = open(path).map_err(|error| cannot_lock(path).because(error))?;
            let file = lock_within(file, deadline.saturating_duration_since(Instant::now())).map_err(|error| {
                if error.kind() == ErrorKind::TimedOut {
                    let (waited, path, holder) = (timeout.as_secs_f32(), path.display(), read_holder(path));
                    return Error::unavailable(format!("waited {waited} s for the lock {path}, held by {holder}"))
                        .hint("try again when it is done, or end that process");
                }
                cannot_lock(path).because(error)
            })?;
            if let Some(lock) = FileLock::of(file, path)? {
                return Ok(lock);
            }
            if Instant::now() >= deadline {
                return Err(Error::unavailable(format!("the lock file {} keeps being replaced", path.display()))
                    .hint("find the program that deletes it, then try again"));
            }
        }
    }

    /// Makes a lock of a locked file. Returns None if the path does not lead to this file any more.
    fn of(file: File, path: &Path) -> Result<Option<FileLock>> {
        if !has_name(&file, path).map_err(|error| cannot_lock(path).because(error))? && !seeded_bug("lock_deleted_file")
        {
            return Ok(None);
        }
        let mut lock = FileLock { file };
        lock.write_holder();
        if seeded_bug("unlock_early") {
            let _ = lock.file.unlock();
        }
        Ok(Some(lock))
    }

    /// Deletes the lock file while holding it. Waiting processes start over with a new file.
    pub fn remove(self, path: &Path) {
        // An empty file that stays is harmless, so a failure is ignored.
        let _ = std::fs::remove_file(path);
        drop(self);
    }

    /// Writes this process into the file, for the error of a process whose wait times out.
    fn write_holder(&mut self) {
        // Only the program's name: arguments may hold secrets.
        let program = std::env::args_os().next().unwrap_or_default();
        let program = waypost_core::path_text::name_of(Path::new(&program));
        // A fixed length replaces the previous text: truncating would cost as much as an fsync.
        let text = format!("{:<63.63}\n", format!("pid {} ({program})", std::process::id()));
        // The lock is held even if this fails.
        let _ = self.file.write_all(text.as_bytes());
    }
}

/// Reads which process wrote itself into the lock file last.
fn read_holder(path: &Path) -> String {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(300).read_to_string(&mut text));
    match read {
        Ok(1..) => text.trim_end().to_owned(),
        _ => "an unknown process".to_owned(),
    }
}

/// Returns whether a path leads to this file. A missing path does not; any other failure is an error.
fn has_name(file: &File, path: &Path) -> io::Result<bool> {
    match FileIdentity::of(path) {
        Ok(named) => Ok(named == FileIdentity::of_file(file)?),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn cannot_lock(path: &Path) -> Error {
    Error::unavailable(format!("cannot lock {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use waypost_core::Kind;

    const TIMEOUT: Duration = Duration::from_secs(20);

    #[test]
    fn a_timeout_on_a_held_lock_names_the_holder() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let held = FileLock::acquire(&path, TIMEOUT).unwrap();
        let error = FileLock::acquire(&path, Duration::from_millis(20)).unwrap_err();
        assert_eq!(error.kind(), Kind::Unavailable);
        assert!(error.to_string().contains(&format!("pid {}", std::process::id())), "{error}");
        drop(held);
        FileLock::acquire(&path, TIMEOUT).unwrap();
    }

    #[test]
    fn a_lock_file_deleted_while_waiting_is_not_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let first = FileLock::acquire(&path, TIMEOUT).unwrap();
        let opened_by_a_waiter = open(&path).unwrap();
        first.remove(&path);
        opened_by_a_waiter.lock().unwrap();
        assert!(FileLock::of(opened_by_a_waiter, &path).unwrap().is_none());
        // The waiter starts over and locks the new file at this path, so a third process must not get in.
        let _second = FileLock::acquire(&path, TIMEOUT).unwrap();
        assert!(FileLock::acquire(&path, Duration::from_millis(20)).is_err());
    }

    #[test]
    fn a_lock_file_that_cannot_be_compared_is_an_error_and_not_a_lost_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let file = open(&path).unwrap();
        assert!(has_name(&file, &path).unwrap());
        assert!(!has_name(&file, &dir.path().join("missing")).unwrap());
        let error = FileLock::of(file, &path.join("below-a-file")).unwrap_err();
        assert_eq!(error.kind(), Kind::Unavailable);
    }

    #[test]
    fn a_link_is_refused_as_a_lock_file() {
        let dir = tempfile::tempdir().unwrap();
        let (victim, path) = (dir.path().join("victim"), dir.path().join("lock"));
        write_number(&victim, 7);
        std::os::unix::fs::symlink(&victim, &path).unwrap();
        assert_eq!(FileLock::acquire(&path, TIMEOUT).unwrap_err().kind(), Kind::Unavailable);
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "7");
    }

    #[test]
    fn only_one_thread_at_a_time_holds_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let count = dir.path().join("count");
        write_number(&count, 0);
        std::thread::scope(|scope| {
            for number in 0..8 {
                let (path, count) = (&path, &count);
                scope.spawn(move || {
                    for _ in 0..50 {
                        // Both functions must exclude each other.
                        let acquire = if number == 0 { FileLock::acquire } else { FileLock::acquire_queued };
                        let _held = acquire(path, TIMEOUT).unwrap();
                        let seen: u32 = std::fs::read_to_string(count).unwrap().parse().unwrap();
                        write_number(count, seen + 1);
                    }
                });
            }
        });
        assert_eq!(std::fs::read_to_string(&count).unwrap(), "400");
    }

    fn write_number(path: &Path, value: u32) {
        File::create(path).unwrap().write_all(value.to_string().as_bytes()).unwrap();
    }
}
