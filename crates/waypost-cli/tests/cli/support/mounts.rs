//! File systems that a test mounts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use waypost_testkit::unavailable;

use crate::support::jobs::Shop;

/// Unmounts everything below a directory when it is dropped, so that the directory can be deleted.
pub(crate) struct Unmounted(pub(crate) PathBuf);

impl Unmounted {
    pub(crate) fn below(dir: &Path) -> Unmounted {
        Unmounted(dir.to_owned())
    }
}

impl Drop for Unmounted {
    fn drop(&mut self) {
        for point in mounts(&self.0) {
            let _ = Command::new("umount").arg("--lazy").arg(point).output();
        }
    }
}

/// Returns the mounts at a directory or below.
pub(crate) fn mounts(dir: &Path) -> Vec<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    // The kernel escapes spaces.
    let points = mounts.lines().filter_map(|line| line.split(' ').nth(1)).map(|point| point.replace("\\040", " "));
    let points = points.map(PathBuf::from);
    points.filter(|point| point.starts_with(dir)).collect()
}

/// Mounts a directory at another path until the result is dropped.
pub(crate) fn bind(from: &Path, to: &Path) -> Unmounted {
    fs::create_dir_all(to).unwrap();
    mount_at(from, to)
}

/// Makes a file impossible to replace or remove until the result is dropped: it is mounted at its own path.
pub(crate) fn hold_file(file: &Path) -> Unmounted {
    mount_at(file, file)
}

fn mount_at(from: &Path, to: &Path) -> Unmounted {
    let mounted = Command::new("mount").arg("--bind").arg(from).arg(to).output().unwrap();
    if !mounted.status.success() {
        unavailable(&format!("this user may not mount: {}", String::from_utf8_lossy(&mounted.stderr)));
    }
    Unmounted::below(to)
}

/// Fails the test if overlays cannot be mounted here.
pub(crate) fn require_overlays(shop: &Shop) {
    let made = shop.way(["ws", "new", "--strategy", "overlay", "--json"]);
    if made.code == 7 {
        unavailable(&format!("overlays cannot be mounted: {}", made.stderr));
    }
    let made = made.data();
    let _ = shop.way(["ws", "rm", made["id"].as_str().unwrap()]).ok();
}
