//! Sampling of log lines: clients without a token cannot fill the disk with them.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::lock;

/// Maximum lines per [`WINDOW`].
const MAX_LINES: u32 = 50;
const WINDOW: Duration = Duration::from_secs(10);

/// Counts lines, and leaves out those beyond the limit.
#[derive(Default)]
pub(super) struct LineSampler(Mutex<Option<Window>>);

struct Window {
    began: Instant,
    written: u32,
    left_out: u64,
}

/// Whether to write a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Sample {
    /// Write it, after one that says how many were left out before.
    Write {
        /// The number of lines that were left out.
        left_out: u64,
    },
    /// Leave it out.
    LeaveOut,
}

impl LineSampler {
    /// Decides about one more line.
    pub(super) fn next(&self, now: Instant) -> Sample {
        let mut window = lock(&self.0);
        let current = window.take().unwrap_or(Window { began: now, written: 0, left_out: 0 });
        let mut current = current;
        let mut left_out = 0;
        if now.duration_since(current.began) >= WINDOW {
            left_out = current.left_out;
            current = Window { began: now, written: 0, left_out: 0 };
        }
        let sample = if current.written < MAX_LINES {
            current.written += 1;
            Sample::Write { left_out }
        } else {
            current.left_out += 1;
            Sample::LeaveOut
        };
        *window = Some(current);
        sample
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_beyond_the_limit_are_counted() {
        let (sampler, began) = (LineSampler::default(), Instant::now());
        let written = (0..1_000).filter(|_| sampler.next(began) != Sample::LeaveOut).count();
        assert_eq!(written, MAX_LINES as usize);
        assert_eq!(sampler.next(began + WINDOW), Sample::Write { left_out: 1_000 - u64::from(MAX_LINES) });
        assert_eq!(sampler.next(began + WINDOW), Sample::Write { left_out: 0 });
    }
}
