//! Reserved disk space: when the disk is full, agents can still release work.
//!
//! The reserve is a file beside the store. When SQLite has no space for the log, an operation that ends or releases work
//! deletes the reserve and uses its space. Later writes fill it again once enough space is free.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{OFlags, statvfs};

use super::open::with_suffix;

/// Releasing a task appends 15 pages to the log, 62 KB: enough for sixteen releases.
const RESERVE_BYTES: u64 = 1024 * 1024;
/// The reserve is filled only if this much space is free.
const MIN_FREE_BYTES: u64 = 2 * RESERVE_BYTES;

fn file_of(store: &Path) -> PathBuf {
    with_suffix(store, "-reserve")
}

/// Fills the reserve, if it is missing and there is enough space. Called by the holder of the gate.
pub(super) fn fill(store: &Path) {
    let path = file_of(store);
    let is_full = path.symlink_metadata().is_ok_and(|file| file.len() >= RESERVE_BYTES);
    if is_full || !statvfs(store).is_ok_and(|disk| disk.f_bavail.saturating_mul(disk.f_frsize) >= MIN_FREE_BYTES) {
        return;
    }
    // The store works without it, so a failure is ignored.
    if write(&path).is_err() {
        let _ = std::fs::remove_file(&path);
    }
}

fn write(path: &Path) -> std::io::Result<()> {
    let no_link = OFlags::NOFOLLOW.bits().cast_signed();
    let mut file: File =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).custom_flags(no_link).open(path)?;
    // Written, not only extended: a sparse file takes no space.
    let block = vec![0; 64 * 1024];
    for _ in 0..RESERVE_BYTES / block.len() as u64 {
        file.write_all(&block)?;
    }
    Ok(())
}

/// Deletes the reserve. Returns whether there was one.
pub(super) fn free(store: &Path) -> bool {
    std::fs::remove_file(file_of(store)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reserve_takes_disk_space_until_it_is_freed() {
        use std::os::unix::fs::MetadataExt as _;
        let dir = tempfile::tempdir().unwrap();
        let store = dir.path().join("state.db");
        File::create(&store).unwrap();
        assert!(!free(&store));
        fill(&store);
        let reserve = file_of(&store).metadata().unwrap();
        assert_eq!((reserve.len(), reserve.mode() & 0o777), (RESERVE_BYTES, 0o600));
        // A reserve that a killed process left incomplete is completed.
        File::options().write(true).open(file_of(&store)).unwrap().set_len(10).unwrap();
        fill(&store);
        assert_eq!(file_of(&store).metadata().unwrap().len(), RESERVE_BYTES);
        assert!(free(&store));
        assert!(!file_of(&store).exists());
    }
}
