//! Reads the file system, and distinguishes an absent path from a failing disk.

use std::io;
use std::path::Path;

use rustix::io::Errno;
use waypost_core::{Error, Result};

/// Returns the value of a file system call, or `None` if the path does not exist or this user may not access it.
///
/// A failing disk is an error: it must not look like a directory without a repository.
pub(crate) fn if_present<T>(path: &Path, result: io::Result<T>) -> Result<Option<T>> {
    const FAILURES: &[Errno] = &[
        Errno::IO,
        Errno::NOMEM,
        Errno::MFILE,
        Errno::NFILE,
        Errno::STALE,
        Errno::UCLEAN,
        Errno::TIMEDOUT,
        Errno::NOTCONN,
    ];
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) if Errno::from_io_error(&error).is_some_and(|errno| FAILURES.contains(&errno)) => {
            Err(Error::unavailable(format!("cannot read {}", path.display())).because(error))
        }
        Err(_) => Ok(None),
    }
}

/// Returns whether two paths lead to the same file or directory.
pub fn is_same_place(one: &Path, other: &Path) -> bool {
    one == other || matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}
