//! Merges versions of a ledger field by field, without losing anything.
//!
//! The result depends on the versions alone: not on the user who merges, the time, or which side is called left. So all
//! clones that merge the same versions, in any order, get the same bytes.
//!
//! If two sides set a field to different values, the later value wins. The other one is kept in a comment, where later
//! merges find it as a candidate; `register.rs` explains how.

mod document;
mod list;
mod meaning;
mod order;
mod record;
mod register;

pub use document::merge;
pub use record::{ancestor, is_same, merge_copies, unite};
