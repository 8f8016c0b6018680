//! The low-water mark: issues closed before it may have been pruned.
//!
//! Pruning removes closed issues from the file. The mark in the first line keeps a merge with an old branch from
//! bringing them back: the merge drops a record that was closed before the mark and is missing on the side with the
//! mark.

use super::document::Document;
use super::issue::parse_time;
use super::record::Record;
use crate::error::Result;
use crate::time::Timestamp;

/// The `_type` of the record that holds the mark.
const KIND: &str = "waypost";
const KEY: &str = "pruned_before";

/// Returns the mark of a file, if it has one.
pub fn of(document: &Document) -> Option<Timestamp> {
    header(document).and_then(|record| parse_time(&record.text(KEY)?))
}

/// Returns the first line of a file, if it holds the mark.
pub(super) fn header(document: &Document) -> Option<Record> {
    let record = (!document.is_empty()).then(|| document.record(0).ok()).flatten()?;
    is_mark(&record).then_some(record)
}

/// Tells whether a record holds the mark.
pub fn is_mark(record: &Record) -> bool {
    record.text("_type").as_deref() == Some(KIND)
}

/// Raises the mark of a file; it is never lowered. Returns whether this added a first line.
pub fn raise(document: &mut Document, to: Timestamp) -> Result<bool> {
    let found = header(document);
    let is_new = found.is_none();
    let mut record = found.unwrap_or_default();
    if is_new {
        record.set("_type", &KIND)?;
    }
    let before = record.text(KEY).and_then(|text| parse_time(&text));
    record.set(KEY, &before.map_or(to, |before| before.max(to)).to_string())?;
    if is_new {
        document.insert_first(&record)?;
    } else {
        document.replace(0, &record)?;
    }
    Ok(is_new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_is_the_first_line_and_only_rises() {
        let mut document = Document::parse(b"{\"id\":\"a\"}\n".to_vec());
        assert_eq!(of(&document), None);
        let at = |millis: i64| Timestamp::from_millis(1_767_225_600_000 + millis);
        assert!(raise(&mut document, at(5)).unwrap());
        assert!(!raise(&mut document, at(3)).unwrap());
        assert_eq!(of(&document), Some(at(5)));
        raise(&mut document, at(7)).unwrap();
        assert_eq!(
            String::from_utf8(document.to_bytes()).unwrap(),
            "{\"_type\":\"waypost\",\"pruned_before\":\"2026-01-01T00:00:00.007Z\"}\n{\"id\":\"a\"}\n"
        );
    }

    #[test]
    fn fields_of_other_tools_in_the_first_line_stay() {
        let mut document = Document::parse(b"{\"_type\":\"waypost\",\"theirs\": 1}\n".to_vec());
        assert!(!raise(&mut document, Timestamp::from_millis(0)).unwrap());
        assert_eq!(document.record(0).unwrap().raw("theirs"), Some("1"));
        assert_eq!(of(&Document::parse(b"{\"_type\":\"memory\",\"pruned_before\":\"2026-01-01\"}".to_vec())), None);
    }
}
