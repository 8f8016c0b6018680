//! The kernel's lock on a file, with a timeout.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use rustix::fs::OFlags;

/// Opens a file for locking, and creates it if it is missing.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    // The author of a link could choose a file for this process to write into.
    let no_link = OFlags::NOFOLLOW.bits().cast_signed();
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(no_link).open(path)
}

/// Locks a file within a timeout. A thread of its own waits, because `flock` has no timeout.
pub(crate) fn lock_within(file: File, timeout: Duration) -> io::Result<File> {
    match file.try_lock() {
        Ok(()) => return Ok(file),
        Err(TryLockError::WouldBlock) => {}
        Err(TryLockError::Error(error)) => return Err(error),
    }
    let (sender, receiver) = mpsc::channel();
    std::thread::Builder::new().spawn(move || {
        let locked = file.lock().map(|()| file);
        // After the timeout the receiver is gone; dropping the file here releases the lock.
        let _ = sender.send(locked);
    })?;
    receiver.recv_timeout(timeout).unwrap_or_else(|_| Err(ErrorKind::TimedOut.into()))
}
