//! Versions of a ledger become one, field by field, and nothing of any of them vanishes.
//!
//! A merge depends on what is merged and on nothing else: not on who merges, not on when, not on which side is called left.
//! So everybody who merges the same versions gets the same bytes, in whatever order they come.
//!
//! A field that two sides set differently keeps the value that was set last. The other one is kept in a comment, from
//! which later merges read that it is still in the running; `register.rs` says how.

mod document;
mod list;
mod meaning;
mod order;
mod record;
mod register;

pub use document::merge;
pub use record::{merge_copies, unite};
