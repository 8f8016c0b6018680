//! Databases behind the store traits of `waypost-core`.
//!
//! A backend carries rows and decides nothing. Statements and the reading of rows are shared (`sql.rs`, `tx.rs`); each
//! backend has its own way to open, its own numbered migrations, and its own way to let writers take turns. All pass the
//! one conformance suite in `tests/store/`.

mod cell;
pub mod foreign;
pub mod postgres;
mod rows;
mod sql;
pub mod sqlite;
mod tx;
