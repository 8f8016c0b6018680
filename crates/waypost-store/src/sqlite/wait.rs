//! Waiting for a write of another process.

use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use waypost_core::Result;
use waypost_core::store::Store;

use super::{SqliteStore, open};

/// How often to read the store when the kernel reports no change.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// The pause after a change before the store is read, which collects several writes.
const DEBOUNCE: Duration = Duration::from_millis(20);

/// Waits until there is an event after `last`, or until the time is up.
pub(super) fn wait(store: &mut SqliteStore, last: u64, at_most: Duration) -> Result<()> {
    let end = Instant::now() + at_most;
    let watch = watch(store);
    loop {
        // Read after the watch is set up, so that no write between the two is missed.
        let newest = store.begin_read().and_then(|mut tx| tx.event_last());
        let left = end.saturating_duration_since(Instant::now());
        if newest.is_err() {
            // Callers repeat a failed wait: without a pause they would spin while the store is unavailable.
            pause(None, left.min(POLL_INTERVAL));
        }
        if newest? > last {
            return Ok(());
        }
        if left.is_zero() {
            return Ok(());
        }
        pause(watch.as_ref(), left.min(POLL_INTERVAL));
        // A hundred waiting processes must not all read after each of a hundred writes a second.
        pause(None, DEBOUNCE);
    }
}

/// Asks the kernel to report writes to the store's log.
#[cfg(target_os = "linux")]
fn watch(store: &SqliteStore) -> Option<std::os::fd::OwnedFd> {
    use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};
    let watch = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok()?;
    let log = open::with_suffix(&store.path, "-wal");
    add_watch(&watch, &log, WatchFlags::MODIFY | WatchFlags::CLOSE_WRITE).ok()?;
    Some(watch)
}

#[cfg(not(target_os = "linux"))]
fn watch(_store: &SqliteStore) -> Option<std::os::fd::OwnedFd> {
    None
}

/// Waits until the kernel reports a write, or until the time is up.
pub(super) fn pause(watch: Option<&std::os::fd::OwnedFd>, at_most: Duration) {
    let mut fds: Vec<_> = watch.map(|watch| PollFd::new(watch, PollFlags::IN)).into_iter().collect();
    let timeout = Timespec { tv_sec: at_most.as_secs().cast_signed(), tv_nsec: i64::from(at_most.subsec_nanos()) };
    // After an error the caller reads the store, too.
    let _ = poll(&mut fds, Some(&timeout));
    if let Some(watch) = watch {
        let mut drained = [0; 4096];
        while rustix::io::read(watch, &mut drained).is_ok_and(|read| read > 0) {}
    }
}
