//! Seeded random numbers, and pauses.

use std::sync::mpsc;
use std::time::Duration;

/// A random number generator. The same seed gives the same numbers.
#[derive(Debug, Clone)]
pub struct Dice(pub u64);

impl Dice {
    /// Returns a number below a limit.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(1).wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    /// Returns true with this probability, in percent.
    pub fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }

    /// Returns a random element.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        let place = self.below(from.len() as u64);
        &from[usize::try_from(place).expect("an index")]
    }

    /// Shuffles a list.
    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for last in (1..list.len()).rev() {
            let other = usize::try_from(self.below(last as u64 + 1)).expect("an index");
            list.swap(last, other);
        }
    }

    /// Returns another generator, for another thread or round.
    #[must_use]
    pub fn fork(&mut self) -> Dice {
        Dice((self.below(1 << 31) << 31) | self.below(1 << 31))
    }
}

/// Pauses, so that a test interferes with a process at a random moment.
pub fn pass(time: Duration) {
    let (_sender, receiver) = mpsc::channel::<()>();
    let _ = receiver.recv_timeout(time);
}
