//! The rules of the core, tested over the reference store and over ledger files.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod agents;
mod attention;
mod authority;
mod bases;
mod clocks;
mod corpus;
mod harness;
mod leases;
mod machines;
mod merge;
mod messages;
mod operations;
mod places;
mod registration;
mod retention;
mod team;
mod transfer;
mod work;
mod workflows;
