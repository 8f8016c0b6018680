//! What Waypost decides, and nothing else.
//!
//! This crate holds the model, the operations on it and the rules they follow. It never does I/O, never
//! reads a clock and never draws a random number by itself: time and entropy come in as arguments, rows
//! come and go through the [`store`] traits. That is what makes every rule testable in microseconds and
//! equal on every database.
//!
//! Start at [`op`]: one file per operation, one table of all of them.

pub mod clock;
pub mod context;
pub mod engine;
pub mod error;
pub mod id;
pub mod ledger;
pub mod memory;
pub mod model;
pub mod nearest;
pub mod op;
pub mod path_text;
pub mod store;
pub mod tables;
pub mod time;
pub mod url_text;
pub mod work;

pub use error::{Error, Kind, Result};
