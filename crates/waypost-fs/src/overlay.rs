//! Overlay mounts: changes go to an upper directory and leave the lower one as it is. Linux only, where mounts are
//! permitted.

use std::path::Path;

use waypost_core::{Error, Result};

/// Mounts `lower` at `target`, with changes kept in `upper`. `work` is a directory beside `upper` for overlayfs itself.
#[cfg(target_os = "linux")]
pub fn mount_overlay(lower: &Path, upper: &Path, work: &Path, target: &Path) -> Result<()> {
    use std::ffi::CString;
    use std::os::unix::ffi::OsStrExt as _;

    use rustix::io::Errno;
    use rustix::mount::MountFlags;

    let mut options = Vec::new();
    for (name, path) in [("lowerdir=", lower), (",upperdir=", upper), (",workdir=", work)] {
        options.extend_from_slice(name.as_bytes());
        for byte in path.as_os_str().as_bytes() {
            // These characters separate options and lower directories.
            if matches!(byte, b'\\' | b':' | b',') {
                options.push(b'\\');
            }
            options.push(*byte);
        }
    }
    if is_in_user_namespace() {
        // In a user namespace the kernel does not permit the extended attributes that overlayfs uses by default.
        options.extend_from_slice(b",userxattr");
    }
    let cannot = |errno: Errno| {
        let error = Error::refused(format!("cannot mount an overlay over {}", lower.display())).because(errno);
        match errno {
            Errno::PERM | Errno::ACCESS => {
                error.hint("mounts need root, or a user namespace: unshare -rm way ...; or use the strategy clone")
            }
            Errno::NODEV => error.hint("this kernel has no overlayfs; use the strategy clone"),
            _ => error.hint("use the strategy clone"),
        }
    };
    let options = CString::new(options).map_err(|_| cannot(Errno::INVAL))?;
    let flags = MountFlags::NODEV | MountFlags::NOSUID;
    rustix::mount::mount(c"waypost", target, c"overlay", flags, Some(options.as_c_str())).map_err(cannot)
}

/// Returns whether this process runs in a user namespace of its own.
#[cfg(target_os = "linux")]
fn is_in_user_namespace() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    // The initial namespace maps every id to itself.
    !map.is_empty() && map.split_whitespace().ne(["0", "0", "4294967295"])
}

/// Unmounts the overlay. A missing mount is not an error.
#[cfg(target_os = "linux")]
pub fn unmount_overlay(target: &Path) -> Result<()> {
    use rustix::io::Errno;
    use rustix::mount::UnmountFlags;

    match rustix::mount::unmount(target, UnmountFlags::NOFOLLOW) {
        Ok(()) | Err(Errno::INVAL | Errno::NOENT) => Ok(()),
        Err(Errno::BUSY) => Err(Error::refused(format!("a process still uses {}", target.display()))),
        Err(errno) => Err(Error::unavailable(format!("cannot unmount {}", target.display())).because(errno)),
    }
}

/// Fails: only Linux has overlays.
#[cfg(not(target_os = "linux"))]
pub fn mount_overlay(lower: &Path, _upper: &Path, _work: &Path, _target: &Path) -> Result<()> {
    Err(Error::refused(format!("cannot mount an overlay over {} on this system", lower.display()))
        .hint("use the strategy clone"))
}

/// Does nothing: only Linux has overlays.
#[cfg(not(target_os = "linux"))]
pub fn unmount_overlay(_target: &Path) -> Result<()> {
    Ok(())
}
