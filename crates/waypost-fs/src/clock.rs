//! The kernel's clocks, read without the C library, so that a preloaded library cannot change them.

#[cfg(target_os = "linux")]
use std::sync::OnceLock;

use rustix::time::{ClockId, Timespec, clock_gettime};
use waypost_core::clock::BootClock;

#[cfg(target_os = "linux")]
use crate::boot_id;

/// Returns the clock that counts from the start of the machine, on systems where it includes time asleep.
pub fn boot_clock() -> Option<BootClock> {
    #[cfg(target_os = "linux")]
    {
        let since_ms = millis(clock_gettime(ClockId::Boottime));
        boot_name().map(|id| BootClock { id: id.to_owned(), since_ms })
    }
    #[cfg(not(target_os = "linux"))]
    None
}

/// Returns the kernel's wall clock in milliseconds since 1970-01-01 UTC.
pub fn kernel_time_ms() -> i64 {
    millis(clock_gettime(ClockId::Realtime))
}

fn millis(time: Timespec) -> i64 {
    time.tv_sec.saturating_mul(1_000).saturating_add(time.tv_nsec / 1_000_000)
}

/// Identifies the origin of the boot clock: this boot, in this time namespace.
#[cfg(target_os = "linux")]
fn boot_name() -> Option<&'static str> {
    static NAME: OnceLock<Option<String>> = OnceLock::new();
    let name = || {
        let namespace = std::fs::read_link("/proc/self/ns/time").unwrap_or_default();
        boot_id().map(|boot| format!("{boot} {}", namespace.display()))
    };
    NAME.get_or_init(name).as_deref()
}
