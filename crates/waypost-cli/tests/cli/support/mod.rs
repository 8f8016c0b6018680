//! What several tests use: sandboxes, and builders of repositories, teams, ledgers and servers.

use std::path::Path;

use rustix::process::Signal;
use serde_json::Value;
use waypost_testkit::Sandbox;

pub(crate) mod claims;
pub(crate) mod config;
pub(crate) mod exchange;
pub(crate) mod failover;
pub(crate) mod graphs;
pub(crate) mod history;
pub(crate) mod in_process;
pub(crate) mod issues;
pub(crate) mod jobs;
pub(crate) mod ledger;
pub(crate) mod merge_driver;
pub(crate) mod mirrors;
pub(crate) mod mounts;
pub(crate) mod places;
pub(crate) mod repos;
pub(crate) mod resume;
pub(crate) mod setup;
pub(crate) mod stores;
pub(crate) mod transfers;
pub(crate) mod vcs;
pub(crate) mod work;
pub(crate) mod workspaces;
pub(crate) mod worktrees;

/// No arguments.
pub(crate) const NONE: [&str; 0] = [];

pub(crate) fn sandbox() -> Sandbox {
    Sandbox::with_runner(env!("CARGO_BIN_EXE_way"), in_process::run)
}

/// Returns the signal of Ctrl-C, or SIGTERM if the test program ignores it, as a shell's background jobs do.
pub(crate) fn interruption() -> Signal {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    if ignored & 0b10 == 0 { Signal::INT } else { Signal::TERM }
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Returns a time of an answer in milliseconds since 1970.
#[track_caller]
pub(crate) fn moment_ms(time: &Value) -> i64 {
    let moment: jiff::Timestamp = time.as_str().unwrap_or_else(|| panic!("{time} is no text")).parse().unwrap();
    moment.as_millisecond()
}
