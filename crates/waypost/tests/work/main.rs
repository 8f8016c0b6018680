//! Rules about work that need a store on disk, a repository or files: tested through the library, without its command line.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod epics;
mod harness;
mod history;
mod issues;
mod leases;
mod moving;
mod overviews;
mod places;
mod plans;
mod repositories;
mod retention;
mod rights;
mod stores;
mod templates;
mod tokens;
mod worktrees;
