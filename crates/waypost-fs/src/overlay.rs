//! Laying one directory over another, so that changes go to the upper one. Linux only, and only where mounts are permitted.

use std::path::Path;

use waypost_core::{Error, Result};

/// Shows `lower` at `target`, with changes kept in `upper`. `work` is the file system's own, beside `upper`.
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
            // Separators of options and of several lower directories.
            if matches!(byte, b'\\' | b':' | b',') {
                options.push(b'\\');
            }
            options.push(*byte);
        }
    }
    if is_in_user_namespace() {
        // There the kernel does not let it keep its notes where it usually does.
        options.extend_from_slice(b",userxattr");
    }
    let cannot = |errno: Errno| {
        let error = Error::refused(format!("cannot lay anything over {}", lower.display())).because(errno);
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

/// Tells whether users here are not those of the machine.
#[cfg(target_os = "linux")]
fn is_in_user_namespace() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    // All numbers, each for itself.
    !map.is_empty() && map.split_whitespace().ne(["0", "0", "4294967295"])
}

/// Takes the upper layer off again. Nothing there is no error.
#[cfg(target_os = "linux")]
pub fn unmount_overlay(target: &Path) -> Result<()> {
    use rustix::io::Errno;
    use rustix::mount::UnmountFlags;

    match rustix::mount::unmount(target, UnmountFlags::NOFOLLOW) {
        Ok(()) | Err(Errno::INVAL | Errno::NOENT) => Ok(()),
        Err(Errno::BUSY) => Err(Error::refused(format!("somebody is still in {}", target.display()))),
        Err(errno) => Err(Error::unavailable(format!("cannot unmount {}", target.display())).because(errno)),
    }
}

/// Refuses: only Linux has overlays.
#[cfg(not(target_os = "linux"))]
pub fn mount_overlay(lower: &Path, _upper: &Path, _work: &Path, _target: &Path) -> Result<()> {
    Err(Error::refused(format!("nothing can be laid over {} on this system", lower.display()))
        .hint("use the strategy clone"))
}

/// Does nothing: only Linux has overlays.
#[cfg(not(target_os = "linux"))]
pub fn unmount_overlay(_target: &Path) -> Result<()> {
    Ok(())
}
