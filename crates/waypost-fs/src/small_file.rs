//! The one reader of small files that others control: configuration, pointers and references of a repository.
//!
//! A clone, an archive or a job can put anything in the place of such a file. A link leads to files elsewhere, or to a
//! device that never ends. A pipe never answers. A sparse file of gigabytes costs nothing to make. So the file is opened
//! once, without following a link and without waiting, and must be a regular file of at most [`MAX_SMALL_FILE`] bytes.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::OFlags;
use waypost_core::{Error, Result};

/// The maximum size of a small file, in bytes.
pub const MAX_SMALL_FILE: u64 = 1024 * 1024;

/// Reads a small file. Returns `None` if it does not exist.
///
/// # Errors
///
/// Returns an error if it cannot be read, or is not a regular file, or is larger than [`MAX_SMALL_FILE`].
pub fn read_small_file(path: &Path) -> Result<Option<Vec<u8>>> {
    read(path, OFlags::NOFOLLOW)?.map_err(|error| cannot_read(path, error))
}

/// Reads a small file of the user as [`read_small_file`] does, but follows links: users link their settings to other places.
///
/// # Errors
///
/// As [`read_small_file`].
pub fn read_own_small_file(path: &Path) -> Result<Option<Vec<u8>>> {
    read(path, OFlags::empty())?.map_err(|error| cannot_read(path, error))
}

/// Reads a small file as [`read_small_file`] does, but returns `None` also if this process may not read it.
///
/// # Errors
///
/// As [`read_small_file`].
pub fn read_permitted_small_file(path: &Path) -> Result<Option<Vec<u8>>> {
    match read(path, OFlags::NOFOLLOW)? {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Ok(None),
        read => read.map_err(|error| cannot_read(path, error)),
    }
}

/// Reads a larger file as [`read_small_file`] does, of at most `max_bytes`.
///
/// # Errors
///
/// As [`read_small_file`].
pub fn read_regular_file(path: &Path, max_bytes: u64) -> Result<Option<Vec<u8>>> {
    read_up_to(path, OFlags::NOFOLLOW, max_bytes)?.map_err(|error| cannot_read(path, error))
}

/// Opens a regular file of any size, without following a link and without waiting.
///
/// # Errors
///
/// Returns an error of the system, or one that says that it is not a regular file.
pub fn open_regular_file(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY).bits();
    let file = OpenOptions::new().read(true).custom_flags(flags.cast_signed()).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is not a regular file")) }
}

fn cannot_read(path: &Path, error: io::Error) -> Error {
    Error::unavailable(format!("cannot read {}", path.display())).because(error)
}

/// Reads a file; the inner error is that of the system.
fn read(path: &Path, links: OFlags) -> Result<io::Result<Option<Vec<u8>>>> {
    read_up_to(path, links, MAX_SMALL_FILE)
}

fn read_up_to(path: &Path, links: OFlags, max_bytes: u64) -> Result<io::Result<Option<Vec<u8>>>> {
    let refused = |what: &str| {
        Err(Error::refused(format!("{} is {what}, so it is not read", path.display()))
            .hint("check where it comes from, and put a small regular file in its place, or delete it"))
    };
    let flags = (links | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY).bits();
    let file = match OpenOptions::new().read(true).custom_flags(flags.cast_signed()).open(path) {
        Ok(file) => file,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(Ok(None)),
        // The system reports a link as too many links, and a socket as a missing device.
        Err(error) => match std::fs::symlink_metadata(path) {
            Ok(found) if found.is_symlink() && links.contains(OFlags::NOFOLLOW) => return refused("a link"),
            Ok(found) if !found.is_file() && !found.is_symlink() => return refused("not a regular file"),
            _ => return Ok(Err(error)),
        },
    };
    let found = match file.metadata() {
        Ok(found) => found,
        Err(error) => return Ok(Err(error)),
    };
    if !found.is_file() {
        return refused("not a regular file");
    }
    let too_large = format!("larger than {} MiB", max_bytes / MAX_SMALL_FILE);
    if found.len() > max_bytes {
        return refused(&too_large);
    }
    // The size may change at any time, so the limit is enforced while reading. A whole file takes one read: a regular file
    // returns fewer bytes than asked for only at its end.
    let mut content = vec![0; usize::try_from(found.len()).unwrap_or_default() + 1];
    let mut length = 0;
    loop {
        match (&file).read(&mut content[length..]) {
            Ok(read) => length += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Ok(Err(error)),
        }
        if length < content.len() {
            content.truncate(length);
            return Ok(Ok(Some(content)));
        }
        if length as u64 > max_bytes {
            return refused(&too_large);
        }
        content.resize(content.len() * 2, 0);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use waypost_core::error::Kind;

    use super::*;

    #[test]
    fn a_file_is_read_to_its_end() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("file");
        for size in [0, 1, 4095, 4096, 4097, 100_000] {
            let content = vec![b'x'; size];
            crate::replace(&path, &content, 0o600).unwrap();
            assert_eq!(read_small_file(&path).unwrap(), Some(content));
        }
    }

    #[test]
    fn a_user_links_their_own_files() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name);
        crate::replace(&at("file"), b"content", 0o600).unwrap();
        for (name, target) in
            [("link", "file"), ("endless", "/dev/zero"), ("dangling", "nothing"), ("itself", "itself")]
        {
            symlink(target, at(name)).unwrap();
        }
        assert_eq!(read_own_small_file(&at("link")).unwrap().as_deref(), Some(&b"content"[..]));
        assert_eq!(read_own_small_file(&at("dangling")).unwrap(), None);
        assert_eq!(read_own_small_file(&at("endless")).unwrap_err().kind(), Kind::Refused);
        assert_eq!(read_own_small_file(&at("itself")).unwrap_err().kind(), Kind::Unavailable);
    }

    #[test]
    fn only_a_small_regular_file_is_read() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = scratch.path();
        let at = |name: &str| dir.join(name);
        crate::replace(&at("file"), b"\xffcontent\n", 0o600).unwrap();
        assert_eq!(read_small_file(&at("file")).unwrap().as_deref(), Some(&b"\xffcontent\n"[..]));
        assert_eq!(read_small_file(&at("missing")).unwrap(), None);
        assert_eq!(read_small_file(&at("file/below")).unwrap(), None);

        symlink("/dev/zero", at("endless")).unwrap();
        symlink(at("file"), at("elsewhere")).unwrap();
        symlink("itself", at("itself")).unwrap();
        symlink("nothing", at("dangling")).unwrap();
        std::fs::create_dir(at("directory")).unwrap();
        mknodat(CWD, at("pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let _socket = UnixListener::bind(at("socket")).unwrap();
        File::create(at("sparse")).unwrap().set_len(2 << 30).unwrap();
        File::create(at("above")).unwrap().set_len(MAX_SMALL_FILE + 1).unwrap();
        for name in ["endless", "elsewhere", "itself", "dangling", "directory", "pipe", "socket", "sparse", "above"] {
            assert_eq!(read_small_file(&at(name)).unwrap_err().kind(), Kind::Refused, "{name}");
        }
        assert_eq!(read_small_file(Path::new("/dev/zero")).unwrap_err().kind(), Kind::Refused);

        File::create(at("full")).unwrap().set_len(MAX_SMALL_FILE).unwrap();
        assert_eq!(read_small_file(&at("full")).unwrap().map(|content| content.len() as u64), Some(MAX_SMALL_FILE));
    }
}
