//! Lines that former versions of this program appended to large ledgers, instead of putting each change in its place:
//! `{"_changes":[{"of":"DIGEST","to":RECORD}, ...]}`. Each record replaces the line with this digest, or is new.
//!
//! [`Document::parse`](super::document::Document::parse) puts the records in their places, so the next change writes the file
//! without such lines. If another program has changed the line that a record replaces, both stay, as versions of one issue.

use std::ops::Range;

use serde_json::value::RawValue;

/// Tells whether a line may have appended changes, or be the beginning of such a line.
pub fn is_appended(line: &[u8]) -> bool {
    line.strip_prefix(b"{").is_some_and(|rest| rest.trim_ascii_start().starts_with(b"\"_changes\""))
}

/// An appended change of one issue.
pub(super) struct Change {
    /// The digest of the line that it replaces. None for a new issue.
    pub(super) of: Option<u64>,
    /// Where the record is in the line.
    pub(super) to: Range<usize>,
}

/// Returns the changes of a line. None if it is another line.
pub(super) fn changes(line: &[u8]) -> Option<Vec<Change>> {
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Line<'a> {
        #[serde(borrow, rename = "_changes")]
        changes: Vec<Entry<'a>>,
    }

    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Entry<'a> {
        of: Option<&'a str>,
        #[serde(borrow)]
        to: &'a RawValue,
    }

    let parsed: Line<'_> = serde_json::from_slice(line).ok().filter(|_| is_appended(line))?;
    let change = |entry: Entry<'_>| {
        let of = entry.of.map(|of| u64::from_str_radix(of, 16)).transpose().ok()?;
        let text = entry.to.get();
        let start = text.as_ptr().addr() - line.as_ptr().addr();
        Some(Change { of, to: start..start + text.len() })
    };
    parsed.changes.into_iter().map(change).collect()
}

#[cfg(test)]
mod tests {
    use super::super::document::Document;
    use crate::digest::fnv;

    fn record(id: u8, title: &str) -> String {
        format!("{{\"id\":\"a-{id:03}\",\"title\":\"{title}\"}}")
    }

    /// Returns a line with one change, as former versions wrote it.
    fn change(old: Option<&str>, new: &str) -> String {
        let of = old.map(|old| format!("\"of\":\"{:016x}\",", fnv(old.as_bytes()))).unwrap_or_default();
        format!("{{\"_changes\":[{{{of}\"to\":{new}}}]}}\n")
    }

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let read = Document::parse(text.as_bytes().to_vec()).to_bytes();
        let expected: String = expected.iter().flat_map(|line| [line, "\n"]).collect();
        assert_eq!(String::from_utf8(read).unwrap(), expected);
    }

    #[test]
    fn changes_go_to_their_places() {
        let [one, two, new] = ["one", "two", "new"].map(|title| record(1, title));
        let three = record(3, "");
        let other = "{\"id\":\"a-001\",\"_type\":\"memory\"}";
        check(&format!("{other}\n{one}\n{}", change(Some(&one), &new)), &[other, &new]);
        check(&format!("{one}\n{}{}", change(Some(&one), &two), change(Some(&two), &new)), &[&new]);
        check(&format!("{three}\n{}{}", change(None, &one), change(Some(&one), &two)), &[&two, &three]);
        check(&change(None, &new), &[&new]);
        // The last line break is missing, but the change is complete.
        check(&format!("{three}\n{}", change(None, &new).trim_end()), &[&new, &three]);
        // A crash cut the last change off, so it was never acknowledged.
        check(&format!("{three}\n{}", &change(None, &new)[..20]), &[&three]);
        // Another program has written every line in its own spelling.
        let spaced = change(None, &new).replace("{\"_changes\":[", "{\"_changes\": [");
        check(&format!("{three}\n{spaced}"), &[&new, &three]);
    }

    #[test]
    fn a_change_of_a_line_that_another_program_changed_becomes_a_version_of_the_issue() {
        let [one, theirs, two] = ["one", "theirs", "two"].map(|title| record(1, title));
        check(&format!("{theirs}\n{}", change(Some(&one), &two)), &[&theirs, &two]);
        // Their version is what we had written, too.
        check(&format!("{two}\n{}", change(Some(&one), &two)), &[&two]);
        // They have removed it, and we have changed it.
        check(&change(Some(&one), &two), &[&two]);
    }

    #[test]
    fn both_sides_of_a_conflict_may_have_appended_changes() {
        let (ours, theirs) = (change(None, &record(1, "ours")), change(None, &record(3, "theirs")));
        let text = format!("{}\n<<<<<<< ours\n{ours}=======\n{theirs}>>>>>>> theirs\n", record(2, "two"));
        let document = Document::parse(text.clone().into_bytes());
        assert_eq!(document.to_bytes(), text.into_bytes());
        let merged = super::super::conflict::read(document);
        let expected = format!("{}\n{}\n{}\n", record(1, "ours"), record(2, "two"), record(3, "theirs"));
        assert_eq!(merged.to_bytes(), expected.into_bytes());
    }
}
