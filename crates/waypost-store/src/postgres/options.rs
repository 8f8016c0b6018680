//! Options, which a program without PostgreSQL has, too.

use std::time::Duration;

/// Options for opening a store.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The maximum time to wait for other writers or for the server.
    pub timeout: Duration,
    /// Whether to create the schema if it is missing.
    pub create: bool,
    /// Whether to migrate an older schema. A reader that must not write sets this to false, and gets an error instead.
    pub migrate: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options { timeout: Duration::from_secs(30), create: true, migrate: true }
    }
}
