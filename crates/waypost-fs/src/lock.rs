//! A lock between processes, on a file of its own.
//!
//! The kernel's `flock` lets those who wait sleep, and drops the lock when its holder dies: no stale lock is ever
//! left. Two traps are closed here. A lock file that was deleted while we waited is not the lock any more, so its
//! identity is compared after locking. And the wait is bounded, which `flock` is not. It keeps no order either: where
//! many come and go, there is a [queue](crate::queue) before the lock.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use waypost_core::{Error, Result};

use crate::FileIdentity;
use crate::queue::Queue;

/// A lock that is held until it is dropped.
#[derive(Debug)]
pub struct FileLock {
    file: File,
}

impl FileLock {
    /// Waits for the lock, at most `patience`.
    ///
    /// The file is made if it is missing. Running out of patience is an error that names the holder.
    pub fn acquire(path: &Path, patience: Duration) -> Result<FileLock> {
        FileLock::wait(path, Instant::now() + patience, patience)
    }

    /// Waits for the lock, at most `patience`, and behind those who waited before.
    pub fn acquire_in_turn(path: &Path, patience: Duration) -> Result<FileLock> {
        let deadline = Instant::now() + patience;
        let queue = Queue::before(path);
        if !queue.has_waiters()
            && let Some(lock) = FileLock::try_acquire(path)?
        {
            return Ok(lock);
        }
        // An order is a courtesy: where none can be kept, the lock is waited for all the same.
        let turn = queue.stand(patience).ok();
        let lock = FileLock::wait(path, deadline, patience)?;
        drop(turn);
        Ok(lock)
    }

    fn try_acquire(path: &Path) -> Result<Option<FileLock>> {
        let file = open(path).map_err(|error| cannot_lock(path).because(error))?;
        match file.try_lock() {
            Ok(()) => FileLock::of(file, path),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(cannot_lock(path).because(error)),
        }
    }

    fn wait(path: &Path, deadline: Instant, patience: Duration) -> Result<FileLock> {
        loop {
            let file = open(path).map_err(|error| cannot_lock(path).because(error))?;
            let file = lock_within(file, deadline.saturating_duration_since(Instant::now())).map_err(|error| {
                if error.kind() == ErrorKind::TimedOut {
                    let (waited, path, holder) = (patience.as_secs_f32(), path.display(), holder(path));
                    return Error::unavailable(format!("waited {waited} s for the lock {path}, held by {holder}"))
                        .hint("try again when it is done, or end that process");
                }
                cannot_lock(path).because(error)
            })?;
            if let Some(lock) = FileLock::of(file, path)? {
                return Ok(lock);
            }
            if Instant::now() >= deadline {
                return Err(Error::unavailable(format!(
                    "the lock file {} is replaced again and again",
                    path.display()
                ))
                .hint("find the program that deletes it, then try again"));
            }
        }
    }

    /// Makes a lock of a locked file. Returns None if another file, or none, has the name now.
    fn of(file: File, path: &Path) -> Result<Option<FileLock>> {
        if !has_name(&file, path).map_err(|error| cannot_lock(path).because(error))? {
            return Ok(None);
        }
        let mut lock = FileLock { file };
        lock.sign();
        Ok(Some(lock))
    }

    /// Deletes the lock file while holding it. Whoever waits for it starts over with a new one.
    pub fn remove(self, path: &Path) {
        // Leaving an empty file behind is harmless, so a failure is not worth a word.
        let _ = std::fs::remove_file(path);
        drop(self);
    }

    /// Leaves our name in the file, for the error of somebody who waited in vain.
    fn sign(&mut self) {
        // The program's name and no more: arguments may hold secrets.
        let program = std::env::args_os().next().unwrap_or_default();
        let program = waypost_core::path_text::name_of(Path::new(&program));
        // Always as long, so that it replaces the last one: truncating would cost as much as an fsync.
        let text = format!("{:<63.63}\n", format!("pid {} ({program})", std::process::id()));
        // The name is a courtesy; the lock is held whether or not it could be written.
        let _ = self.file.write_all(text.as_bytes());
    }
}

/// Opens a file to be locked, and makes it if it is missing.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    // A link would let whoever planted it choose the file that gets our name written into it.
    let no_link = OFlags::NOFOLLOW.bits().cast_signed();
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(no_link).open(path)
}

/// Locks a file. A wait is in a thread of its own, because `flock` knows no time limit.
pub(crate) fn lock_within(file: File, at_most: Duration) -> io::Result<File> {
    match file.try_lock() {
        Ok(()) => return Ok(file),
        Err(TryLockError::WouldBlock) => {}
        Err(TryLockError::Error(error)) => return Err(error),
    }
    let (sender, receiver) = mpsc::channel();
    std::thread::Builder::new().spawn(move || {
        let locked = file.lock().map(|()| file);
        // When it is too late nobody receives; the file is dropped here and with it the lock.
        let _ = sender.send(locked);
    })?;
    receiver.recv_timeout(at_most).unwrap_or_else(|_| Err(ErrorKind::TimedOut.into()))
}

/// Says who signed the lock file last.
fn holder(path: &Path) -> String {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(300).read_to_string(&mut text));
    match read {
        Ok(1..) => text.trim_end().to_owned(),
        _ => "an unknown process".to_owned(),
    }
}

/// Returns whether a path leads to this file. A missing path does not; any other failure is an error, not an answer.
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

    const PATIENT: Duration = Duration::from_secs(20);

    #[test]
    fn a_held_lock_is_waited_for_and_the_error_names_the_holder() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let held = FileLock::acquire(&path, PATIENT).unwrap();
        let error = FileLock::acquire(&path, Duration::from_millis(20)).unwrap_err();
        assert_eq!(error.kind(), Kind::Unavailable);
        assert!(error.to_string().contains(&format!("pid {}", std::process::id())), "{error}");
        drop(held);
        FileLock::acquire(&path, PATIENT).unwrap();
    }

    #[test]
    fn a_lock_file_deleted_while_waiting_is_not_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let first = FileLock::acquire(&path, PATIENT).unwrap();
        let waiter = {
            let path = path.clone();
            std::thread::spawn(move || FileLock::acquire(&path, PATIENT).unwrap())
        };
        first.remove(&path);
        let _second = waiter.join().unwrap();
        // The waiter holds the file that has the name now, so a third one must be kept out.
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
    fn a_link_is_not_taken_for_a_lock() {
        let dir = tempfile::tempdir().unwrap();
        let (victim, path) = (dir.path().join("victim"), dir.path().join("lock"));
        write_number(&victim, 7);
        std::os::unix::fs::symlink(&victim, &path).unwrap();
        assert_eq!(FileLock::acquire(&path, PATIENT).unwrap_err().kind(), Kind::Unavailable);
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "7");
    }

    #[test]
    fn only_one_thread_at_a_time_is_inside() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let count = dir.path().join("count");
        write_number(&count, 0);
        std::thread::scope(|scope| {
            for number in 0..8 {
                let (path, count) = (&path, &count);
                scope.spawn(move || {
                    for _ in 0..50 {
                        // With or without a queue, it is the same lock.
                        let acquire = if number == 0 { FileLock::acquire } else { FileLock::acquire_in_turn };
                        let _held = acquire(path, PATIENT).unwrap();
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
