//! Noticing that a file changed without reading it.
//!
//! A file's times come from a clock that ticks every few milliseconds. Two changes within one tick leave the same times,
//! so a stamp is only worth something once the clock has moved on.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Where a file system counts in milliseconds or worse, its times may be this coarse.
const COARSE: i128 = 2_000_000_000;

/// What is known of a file without reading it. Nobody can restore all of it after a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    device: u64,
    inode: u64,
    length: u64,
    /// In nanoseconds.
    modified: i128,
    /// When anything about it changed, its name or its times included. In nanoseconds.
    changed: i128,
}

impl Stamp {
    /// Returns the stamp of what a path leads to; none if there is nothing.
    pub fn of_path(path: &Path) -> io::Result<Option<Stamp>> {
        match std::fs::metadata(path) {
            Ok(metadata) => Ok(Some(Stamp::of(&metadata))),
            // A link to nothing is not nothing.
            Err(error) if error.kind() == io::ErrorKind::NotFound && !path.is_symlink() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the stamp of a file by its metadata.
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

    /// Returns the clock that files get their times from.
    pub(crate) fn clock() -> i128 {
        #[cfg(target_os = "linux")]
        let clock = ClockId::RealtimeCoarse;
        #[cfg(not(target_os = "linux"))]
        let clock = ClockId::Realtime;
        let now = clock_gettime(clock);
        i128::from(now.tv_sec) * 1_000_000_000 + i128::from(now.tv_nsec)
    }

    /// Returns the stamp if every change after `now` gives the file another one.
    pub(crate) fn settled_at(self, now: i128) -> Option<Stamp> {
        let newest = self.changed.max(self.modified);
        let tick = if self.changed % 1_000_000 == 0 { COARSE } else { 0 };
        (now - newest > tick).then_some(self)
    }

    /// Returns the stamp as bytes, to keep.
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

/// Returns how long ago a file was modified, or a directory's entries; none if there is none, or if its time is to come.
/// A link is not followed.
pub fn age(path: &Path) -> Option<Duration> {
    let modified = Stamp::of(&std::fs::symlink_metadata(path).ok()?).modified;
    // Some file systems' times are finer than the ticks of the clock that others use.
    let now = clock_gettime(ClockId::Realtime);
    let now = i128::from(now.tv_sec) * 1_000_000_000 + i128::from(now.tv_nsec);
    u64::try_from(now - modified).ok().map(Duration::from_nanos)
}

/// Returns what names this run of the machine, where that can be known.
///
/// What was written without waiting for the disk is whole as long as it is the same.
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
    fn every_change_gives_another_stamp_or_is_known_to_be_too_new() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let mut unsettled = 0;
        for round in 0..2_000_u32 {
            // The same size, in place, at once.
            #[expect(clippy::disallowed_methods, reason = "a stranger who writes in place")]
            fs::write(&path, format!("{round:04}")).unwrap();
            let (_, seen) = read_version(&path).unwrap();
            #[expect(clippy::disallowed_methods, reason = "a stranger who writes in place")]
            fs::write(&path, format!("{:04}", round + 5_000)).unwrap();
            match seen.stamp() {
                Some(stamp) => assert_ne!(Some(stamp), Stamp::of_path(&path).unwrap()),
                None => unsettled += 1,
            }
        }
        assert!(unsettled > 0, "the clock is finer than it is said to be, which is worth knowing");
    }

    #[test]
    fn an_old_file_has_a_stamp_and_restored_times_do_not_fool_it() {
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
