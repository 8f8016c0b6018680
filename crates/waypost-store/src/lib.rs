//! Databases behind the store traits of `waypost-core`.
//!
//! A backend stores rows and makes no decisions. Tables, statements (`sql/`) and operations (`tx/`) are shared. Each
//! backend opens its database, migrates its schema and serializes writers in its own way. All pass the same conformance
//! suite in `tests/store/`.

mod cell;
mod database;
pub mod foreign;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(not(feature = "postgres"))]
#[path = "without_postgres.rs"]
pub mod postgres;
mod sql;
pub mod sqlite;
mod tx;
