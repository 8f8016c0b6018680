//! Readers of the formats of other trackers and programs.
//!
//! Pure: callers pass in the bytes of files or the rows of databases, and get back records and workflows in Waypost's
//! own types, together with notes on everything that could not be imported. `waypost` writes the result.

pub mod issues;
mod note;
pub mod workflows;

pub use note::Note;
