//! Marks of issues that were moved to another ledger.
//!
//! A merge brings a missing issue back, because an editor or a merge may have lost its line. A mark tells that this one
//! left on purpose: the merge drops the other side's line, unless that side changed it.

use std::collections::BTreeSet;

use super::document::{Content, Document};
use super::record::Record;
use crate::error::Result;
use crate::time::Timestamp;

/// The `_type` of a mark.
const KIND: &str = "moved";
/// The field with the id of the issue.
const KEY: &str = "moved";

/// Returns the mark of an issue.
pub fn mark(id: &str, at: Timestamp) -> Result<Record> {
    let mut record = Record::default();
    record.set("_type", &KIND)?;
    record.set(KEY, &id)?;
    record.set("moved_at", &at.to_string())?;
    Ok(record)
}

/// Returns the id of the issue that a line marks as moved.
pub fn marked(line: &[u8]) -> Option<String> {
    // Marks are few, so most lines need no parsing.
    memchr::memmem::find(line, b"\"moved\"")?;
    let record = Record::parse(std::str::from_utf8(line).ok()?).ok()?;
    (record.text("_type").as_deref() == Some(KIND)).then(|| record.text(KEY)).flatten()
}

/// Returns the ids of the issues that a file marks as moved.
pub(super) fn of(document: &Document) -> BTreeSet<String> {
    let others = (0..document.len()).filter(|place| document.content(*place) == Content::Other);
    others.filter_map(|place| marked(document.line(place))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_mark_marks() {
        let line = mark("a-1", Timestamp::from_millis(1_767_225_600_000)).unwrap().to_line();
        assert_eq!(line, r#"{"_type":"moved","moved":"a-1","moved_at":"2026-01-01T00:00:00.000Z"}"#);
        assert_eq!(marked(line.as_bytes()).as_deref(), Some("a-1"));
        for other in [r#"{"id":"a-1","moved":"a-1"}"#, r#"{"_type":"memory","moved":"a-1"}"#, r#"{"_type":"moved"}"#] {
            assert_eq!(marked(other.as_bytes()), None, "{other}");
        }
    }
}
