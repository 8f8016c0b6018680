//! The machine's clock and its randomness.

use waypost_core::clock::{Clock, FixedClock, Reading};
use waypost_core::id::Entropy;
use waypost_core::time::Timestamp;
use waypost_core::{Error, Result};
use waypost_fs::boot_clock;

use crate::machine::environment::{Variables, WAYPOST_TEST_CLOCK};

/// Returns the clock of this process. In debug builds tests set it with `WAYPOST_TEST_CLOCK`.
pub fn clock(variables: &Variables) -> Result<Box<dyn Clock + Send + Sync>> {
    if cfg!(debug_assertions)
        && let Some(text) = variables.text(WAYPOST_TEST_CLOCK)
    {
        let moment: jiff::Timestamp = text
            .parse()
            .map_err(|error| Error::invalid(format!("{WAYPOST_TEST_CLOCK} is not a time")).because(error))?;
        return Ok(Box::new(FixedClock(Timestamp::from_millis(moment.as_millisecond()))));
    }
    Ok(Box::new(SystemClock))
}

/// Longest time between reading the two clocks that still counts as one moment, in milliseconds.
const MAX_READ_GAP_MS: i64 = 100;
const MAX_READ_ATTEMPTS: u32 = 3;

struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the only place that reads the system time")]
    fn now(&self) -> Timestamp {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    /// Both clocks must be read at the same moment. A process that was stopped between the two reads reads them again.
    fn reading(&self) -> Reading {
        let mut boot = boot_clock();
        let mut wall = self.now();
        for _ in 0..MAX_READ_ATTEMPTS {
            let after = boot_clock();
            let took = boot.as_ref().zip(after.as_ref()).map_or(0, |(before, after)| after.since_ms - before.since_ms);
            boot = after;
            if took <= MAX_READ_GAP_MS {
                break;
            }
            wall = self.now();
        }
        Reading::Machine { wall, boot, second: None }
    }
}

/// Randomness from the operating system.
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn fill(&mut self, bytes: &mut [u8]) {
        getrandom::fill(bytes).expect("the operating system has random bytes");
    }
}
