//! File systems whose locks cannot be trusted.

use std::io;
use std::path::Path;

/// Returns the name of the file system if its locks may not reach every machine that mounts it.
///
/// SQLite and `flock` depend on the locks of the file system. Network file systems implement them incompletely, and with
/// FUSE they depend on an unknown program.
pub fn network_file_system(path: &Path) -> io::Result<Option<&'static str>> {
    let facts = rustix::fs::statfs(path)?;
    Ok(name(&facts))
}

/// Returns whether the number of the file system of a path and the numbers of inodes stay the same: also after the next mount,
/// and after the kernel forgot an inode. FUSE, overlays and network file systems make up numbers as they go.
pub(crate) fn has_lasting_numbers(path: &Path) -> io::Result<bool> {
    Ok(are_lasting(&rustix::fs::statfs(path)?))
}

#[cfg(target_os = "linux")]
fn are_lasting(facts: &rustix::fs::StatFs) -> bool {
    // In this order: ext2 to ext4, XFS, btrfs, F2FS, ZFS, bcachefs, tmpfs.
    let known = [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010, 0x2fc1_2fc1, 0xca45_1a4e, 0x0102_1994];
    known.contains(&magic(facts))
}

#[cfg(target_os = "macos")]
fn are_lasting(facts: &rustix::fs::StatFs) -> bool {
    name(facts).is_none()
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
fn are_lasting(_facts: &rustix::fs::StatFs) -> bool {
    false
}

#[cfg(target_os = "linux")]
fn magic(facts: &rustix::fs::StatFs) -> u32 {
    // The type of the field differs between architectures; the magic numbers are 32 bits wide.
    #[expect(clippy::cast_sign_loss, clippy::cast_possible_truncation, reason = "a 32-bit magic number")]
    let magic = facts.f_type as u32;
    magic
}

#[cfg(target_os = "linux")]
fn name(facts: &rustix::fs::StatFs) -> Option<&'static str> {
    name_of_magic(magic(facts))
}

/// Maps the magic numbers of `statfs(2)`.
#[cfg(target_os = "linux")]
fn name_of_magic(magic: u32) -> Option<&'static str> {
    match magic {
        0x6969 => Some("NFS"),
        0x517b | 0xfe53_4d42 | 0xff53_4d42 => Some("SMB"),
        0x0102_1997 => Some("9p"),
        0x6573_5546 => Some("FUSE"),
        0x5346_414f | 0x6b41_4653 => Some("AFS"),
        0x7375_7245 => Some("Coda"),
        0x00c3_6400 => Some("Ceph"),
        0x0bd0_0bd0 => Some("Lustre"),
        0x4750_4653 => Some("GPFS"),
        0x0116_1970 => Some("GFS2"),
        0x7461_636f => Some("OCFS2"),
        0x786f_4256 => Some("vboxsf"),
        _ => None,
    }
}

/// macOS reports whether a file system is local.
#[cfg(target_os = "macos")]
fn name(facts: &rustix::fs::StatFs) -> Option<&'static str> {
    const MNT_LOCAL: u32 = 0x1000;
    (facts.f_flags & MNT_LOCAL == 0).then_some("network")
}

/// On other systems the type is unknown, and nothing is refused.
#[cfg(not(any(target_os = "linux", target_os = "macos")))]
fn name(_facts: &rustix::fs::StatFs) -> Option<&'static str> {
    None
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn network_file_systems_are_recognized_by_their_magic_number() {
        assert_eq!(name_of_magic(0x6969), Some("NFS"));
        assert_eq!(name_of_magic(0xef53), None, "ext4 is local");
        assert_eq!(name_of_magic(0x0102_1994), None, "tmpfs is local");
        assert_eq!(name_of_magic(0x794c_7630), None, "overlayfs is local");
    }

    #[test]
    fn the_temporary_directory_is_local() {
        assert_eq!(network_file_system(&std::env::temp_dir()).unwrap(), None);
    }
}
