//! A note on something that could not be imported.

use serde::Serialize;

/// Something that could not be imported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Note {
    /// The name of the item in the other program, or its place in the file.
    pub item: String,
    /// The problem.
    pub problem: String,
}

impl Note {
    /// Creates a note.
    pub fn new(item: impl Into<String>, problem: impl Into<String>) -> Note {
        Note { item: item.into(), problem: problem.into() }
    }
}
