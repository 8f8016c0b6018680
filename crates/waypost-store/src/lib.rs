//! Databases behind the store traits of `waypost-core`.
//!
//! A backend carries rows and decides nothing. Each has its own SQL, as named constants, and its own numbered
//! migrations; all pass the one conformance suite in `tests/conformance.rs`.

pub mod sqlite;
