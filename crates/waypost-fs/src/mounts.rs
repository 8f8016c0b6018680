//! File systems that are mounted inside a directory.
//!
//! Deleting a tree must not reach into them. [`crate::remove_tree`] stops at each, but only after it deleted other files,
//! and tools like git do not stop. Therefore callers ask first.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use waypost_core::{Error, Result};

/// Returns the mount points at a directory and below. Only Linux lists them; elsewhere there are none.
pub fn mounts_in(dir: &Path) -> Result<Vec<PathBuf>> {
    if !cfg!(target_os = "linux") {
        return Ok(Vec::new());
    }
    let Ok(dir) = std::fs::canonicalize(dir) else { return Ok(Vec::new()) };
    // A failure must not look like a directory without mounts.
    let list = std::fs::read("/proc/self/mountinfo")
        .map_err(|error| Error::unavailable("cannot list the mounted file systems").because(error))?;
    Ok(mount_points(&list).filter(|point| point.starts_with(&dir)).collect())
}

/// Refuses to delete a directory in which a file system is mounted, apart from one at `own`, which is ours.
pub fn check_no_mount_in(dir: &Path, own: Option<&Path>) -> Result<()> {
    let own = own.and_then(|own| std::fs::canonicalize(own).ok());
    match mounts_in(dir)?.into_iter().find(|point| Some(point) != own.as_ref()) {
        None => Ok(()),
        Some(point) => {
            Err(Error::refused(format!("a file system is mounted in {}: {}", dir.display(), point.display()))
                .hint(format!("unmount it first: umount {}", point.display())))
        }
    }
}

/// Reads the mount points from a list in the format of the kernel.
fn mount_points(list: &[u8]) -> impl Iterator<Item = PathBuf> {
    let lines = list.split(|byte| *byte == b'\n');
    let points = lines.filter_map(|line| line.split(|byte| *byte == b' ').nth(4));
    points.map(|point| PathBuf::from(OsString::from_vec(unescape(point))))
}

/// Replaces the escapes of the kernel: a backslash and three octal digits.
fn unescape(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        let code = digits.filter(|_| *first == b'\\').and_then(|digits| u8::from_str_radix(digits, 8).ok());
        plain.push(code.unwrap_or(*first));
        rest = if code.is_some() { &after[3..] } else { after };
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_are_read_with_spaces_and_backslashes() {
        let list = b"36 35 98:0 /mnt1 /with\\040space\\134x rw,noatime master:1 - ext3 /dev/root rw\n\
            37 35 98:0 / /odd\\04 rw - tmpfs none rw\nshort\n";
        let points: Vec<PathBuf> = mount_points(list).collect();
        assert_eq!(points, [PathBuf::from("/with space\\x"), PathBuf::from("/odd\\04")]);
    }
}
