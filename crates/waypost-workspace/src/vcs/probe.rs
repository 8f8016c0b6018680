//! Asks the file system what is at a path, and tells absence from failure.

use std::io;
use std::path::Path;

use rustix::io::Errno;
use waypost_core::{Error, Result};

/// Returns what was found at a path; `None` if there is nothing, or nothing that this user may see.
///
/// A disk that cannot be read is an error: it must not look like a directory without a repository.
pub(crate) fn found<T>(path: &Path, result: io::Result<T>) -> Result<Option<T>> {
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

/// Tells whether two paths lead to the same place.
pub fn is_same_place(one: &Path, other: &Path) -> bool {
    one == other || matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}
