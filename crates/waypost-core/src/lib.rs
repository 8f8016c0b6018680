//! The rules of Waypost.
//!
//! This crate holds the model, the operations on it and the rules they follow. It does no I/O, reads no clock and draws
//! no random numbers by itself: time and entropy are arguments, and rows are read and written through the [`store`]
//! traits. So tests of a rule take microseconds, and a rule is the same on every database.
//!
//! Start at [`op`]: one file per operation, one table of all of them.

pub mod clock;
pub mod context;
pub mod digest;
pub mod engine;
pub mod error;
pub mod escape;
pub mod id;
pub mod layout;
pub mod ledger;
pub mod limits;
pub mod model;
pub mod nearest;
pub mod op;
pub mod page;
pub mod path_text;
pub mod redact;
pub mod seeded;
pub mod store;
pub mod tables;
pub mod time;
pub mod tree;
pub mod url_text;
pub mod words;
pub mod work;
pub mod yaml;

pub use error::{Error, Kind, Result};
