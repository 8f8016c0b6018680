//! The rules of the core, tested over the reference store and over ledger files.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod agents;
mod attention;
mod authority;
mod bases;
mod clocks;
mod corpus;
mod harness;
mod machines;
mod merge;
mod operations;
mod places;
mod retention;
mod transfer;
mod work;
