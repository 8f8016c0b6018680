//! A lock between processes, on a file of its own.
//!
//! The kernel's `flock` lets those who wait sleep, and drops the lock when its holder dies: no stale lock is ever
//! left. It keeps no strict order: whoever lets go and comes back at once may be in before a waiter is awake. Two traps are closed here. A lock file that was deleted while we waited is not the
//! lock any more, so its identity is compared after locking. And the wait is bounded, which `flock` is not.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use waypost_core::{Error, Result};

use crate::FileIdentity;

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
        let deadline = Instant::now() + patience;
        loop {
            let file = open(path).map_err(|error| cannot_lock(path).because(error))?;
            let file = match file.try_lock() {
                Ok(()) => file,
                Err(TryLockError::WouldBlock) => wait(file, path, deadline, patience)?,
                Err(TryLockError::Error(error)) => return Err(cannot_lock(path).because(error)),
            };
            if is_still(&file, path) {
                let mut lock = FileLock { file };
                lock.sign();
                return Ok(lock);
            }
        }
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

fn open(path: &Path) -> io::Result<File> {
    // A link would let whoever planted it choose the file that gets our name written into it.
    let no_link = OFlags::NOFOLLOW.bits().cast_signed();
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(no_link).open(path)
}

/// Waits in a thread of its own: `flock` knows no time limit.
fn wait(file: File, path: &Path, deadline: Instant, patience: Duration) -> Result<File> {
    let (sender, receiver) = mpsc::channel();
    let waiting = std::thread::Builder::new().spawn(move || {
        let locked = file.lock().map(|()| file);
        // After the deadline nobody receives; the file is dropped here and with it the lock.
        let _ = sender.send(locked);
    });
    waiting.map_err(|error| cannot_lock(path).because(error))?;
    match receiver.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
        Ok(Ok(file)) => Ok(file),
        Ok(Err(error)) => Err(cannot_lock(path).because(error)),
        Err(_) => Err(Error::unavailable(format!(
            "waited {} s for the lock {}, held by {}",
            patience.as_secs_f32(),
            path.display(),
            holder(path)
        ))
        .hint("try again when it is done, or end that process")),
    }
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

fn is_still(file: &File, path: &Path) -> bool {
    matches!((FileIdentity::of_handle(file), FileIdentity::of(path)), (Ok(ours), Ok(theirs)) if ours == theirs)
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
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let _held = FileLock::acquire(&path, PATIENT).unwrap();
                        let seen: u32 = std::fs::read_to_string(&count).unwrap().parse().unwrap();
                        write_number(&count, seen + 1);
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
