//! Rules about issues, proven through the library: in one process, without a command line.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod absent;
mod batches;
mod changes;
mod claims;
mod configuration;
mod contributors;
mod dependencies;
mod desk;
mod history;
mod homes;
mod imports;
mod ledgers;
mod lists;
mod moves;
mod places;
mod programs;
mod proposals;
mod pruning;
mod readiness;
mod repositories;
mod restoring;
mod routes;
