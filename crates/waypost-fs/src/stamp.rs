//! Detecting that a file changed without reading it.
//!
//! File times come from a clock that ticks every few milliseconds. Two changes within one tick leave the same times, so a
//! stamp is reliable only once the clock has moved on.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The coarsest resolution of times, in nanoseconds, on file systems that do not store nanoseconds.
const COARSE_RESOLUTION_NS: i128 = 2_000_000_000;

/// The metadata that identifies a file's content. No program can restore all of it after a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    device: u64,
    inode: u64,
    length: u64,
    /// In nanoseconds.
    modified: i128,
    /// The time of the last change of content or metadata. In nanoseconds.
    changed: i128,
}

impl Stamp {
    /// Returns the stamp of the file that a path leads to. None if there is no file.
    pub fn of_path(path: &Path) -> io::Result<Option<Stamp>> {
        match std::fs::metadata(path) {
            Ok(metadata) => Ok(Some(Stamp::of(&metadata))),
            // A link without a target is an error, not a missing file.
            Err(error) if error.kind() == io::ErrorKind::NotFound && !path.is_symlink() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the stamp of a file from its metadata.
    pub fn of(metadata: &Metadata) -> Stamp {
        let nanos = |seconds: i64, nanos: i64| i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
        Stamp {
            device: metadata.dev(),
            inode: metadata.ino(),
            length: metadata.len(),
            modified: nanos(metadata.mtime(), metadata.mtime_nsec()),
            changed: nanos(metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// Returns the time of the clock that the kernel uses for file times.
    pub(crate) fn clock() -> i128 {
        #[cfg(target_os = "linux")]
        let clock = ClockId::RealtimeCoarse;
        #[cfg(not(target_os = "linux"))]
        let clock = ClockId::Realtime;
        let now = clock_gettime(clock);
        i128::from(now.tv_sec) * 1_000_000_000 + i128::from(now.tv_nsec)
    }

    /// Returns the stamp if every change after `now` is certain to produce another one.
    pub(crate) fn settled_at(self, now: i128) -> Option<Stamp> {
        let newest = self.changed.max(self.modified);
        let tick = if self.changed % 1_000_000 == 0 { COARSE_RESOLUTION_NS } else { 0 };
        (now - newest > tick).then_some(self)
    }

    /// Returns the stamp as bytes, for storage.
    pub fn to_bytes(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(56);
        for part in [self.device, self.inode, self.length] {
            bytes.extend_from_slice(&part.to_le_bytes());
        }
        bytes.extend_from_slice(&self.modified.to_le_bytes());
        bytes.extend_from_slice(&self.changed.to_le_bytes());
        bytes
    }
}

/// Returns how long ago a file or a directory's list of entries was modified. None if the path does not exist, or if its
/// time is in the future. A link is not followed.
pub fn age(path: &Path) -> Option<Duration> {
    let modified = Stamp::of(&std::fs::symlink_metadata(path).ok()?).modified;
    // Some file systems store finer times than the ticking clock provides.
    let now = clock_gettime(ClockId::Realtime);
    let now = i128::from(now.tv_sec) * 1_000_000_000 + i128::from(now.tv_nsec);
    u64::try_from(now - modified).ok().map(Duration::from_nanos)
}

/// Returns an identifier of this boot of the machine, where the system has one.
///
/// Data that was written without an fsync is complete as long as the identifier stays the same.
pub fn boot_id() -> Option<&'static str> {
    static ID: OnceLock<Option<String>> = OnceLock::new();
    let read = || {
        let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        Some(id.trim().to_owned()).filter(|id| !id.is_empty())
    };
    ID.get_or_init(read).as_deref()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::read_version;

    #[test]
    fn a_change_produces_another_stamp_unless_the_first_was_too_new_to_be_reliable() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let mut unsettled = 0;
        for round in 0..2_000_u32 {
            // The same size, in place, immediately.
            #[expect(clippy::disallowed_methods, reason = "another program that writes in place")]
            fs::write(&path, format!("{round:04}")).unwrap();
            let (_, seen) = read_version(&path).unwrap();
            #[expect(clippy::disallowed_methods, reason = "another program that writes in place")]
            fs::write(&path, format!("{:04}", round + 5_000)).unwrap();
            match seen.stamp() {
                Some(stamp) => assert_ne!(Some(stamp), Stamp::of_path(&path).unwrap()),
                None => unsettled += 1,
            }
        }
        assert!(unsettled > 0, "the clock of file times is finer than this module assumes");
    }

    #[test]
    fn an_old_file_has_a_stamp_that_changes_although_its_times_are_restored() {
        let path = Path::new("/proc/self/exe");
        assert!(read_version(path).unwrap().1.stamp().is_some());
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::copy("/proc/self/exe", &path).unwrap();
        let before = Stamp::of_path(&path).unwrap().unwrap();
        let modified = fs::metadata(&path).unwrap().modified().unwrap();
        while Stamp::clock() <= before.changed {
            std::hint::spin_loop();
        }
        fs::File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
        assert_ne!(Some(before), Stamp::of_path(&path).unwrap());
        assert_eq!(Stamp::of_path(&dir.path().join("none")).unwrap(), None);
    }
}
