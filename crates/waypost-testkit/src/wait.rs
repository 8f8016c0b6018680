//! Waiting for what another process or thread does.

use std::time::{Duration, Instant};

/// Time between two looks. Tests run beside each other: one that looked without a pause would take a processor from the
/// process that it waits for.
const PAUSE: Duration = Duration::from_millis(2);
/// Maximum time to wait. A machine that other programs slow down needs many times what a free one needs.
const TIMEOUT: Duration = Duration::from_mins(2);

/// Waits for a condition, and fails with its description after a timeout.
#[track_caller]
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + TIMEOUT;
    while !is_so() {
        assert!(Instant::now() < end, "timed out waiting until {what}");
        pause();
    }
}

/// Pauses before the next look at a condition.
pub fn pause() {
    std::thread::park_timeout(PAUSE);
}
