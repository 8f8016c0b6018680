//! Paths of Unix sockets.

use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

/// Maximum length of a path that every kernel accepts for a socket.
const MAX_PATH_BYTES: usize = 100;

/// Returns a path of a socket that is short enough for the kernel. A long one leads through a handle of its directory,
/// which must stay open while the path is used.
pub(crate) fn short_path(path: &Path) -> std::io::Result<(PathBuf, Option<OwnedFd>)> {
    let (Some(dir), Some(name), true) = (path.parent(), path.file_name(), path.as_os_str().len() > MAX_PATH_BYTES)
    else {
        return Ok((path.to_owned(), None));
    };
    let dir = rustix::fs::open(dir, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    Ok((PathBuf::from(format!("/proc/self/fd/{}", dir.as_raw_fd())).join(name), Some(dir)))
}
