//! Changes at the end of a large ledger that are not in their places yet.
//!
//! A new line in the middle of a file means writing all lines after it again. So a change of a large ledger may be appended
//! instead, as one line: `{"_changes":[{"of":"DIGEST","to":RECORD}, ...]}`. Each record replaces the line with this digest,
//! or is new. [`Document::parse`](super::document::Document::parse) puts the records in their places, so no other code knows of
//! such lines.
//!
//! - A line counts as a whole: one that a crash cut off was never acknowledged, and is left out.
//! - If another program has changed the line that a record replaces, both stay, as versions of one issue. So neither is lost,
//!   in whatever order a text merge or another program has put the lines.

use std::ops::Range;

use serde_json::value::RawValue;

use super::digest::digest;

const START: &[u8] = b"{\"_changes\":[";

/// Returns the line, with its line break, that appends changes: each an old line, if there is one, and the new line.
pub fn line_with<'l>(changes: impl Iterator<Item = (Option<&'l [u8]>, &'l [u8])>) -> Vec<u8> {
    let mut line = START.to_vec();
    for (number, (old, new)) in changes.enumerate() {
        if number > 0 {
            line.push(b',');
        }
        line.push(b'{');
        if let Some(old) = old {
            line.extend_from_slice(format!("\"of\":\"{:016x}\",", digest(old)).as_bytes());
        }
        line.extend_from_slice(b"\"to\":");
        line.extend_from_slice(new);
        line.push(b'}');
    }
    line.extend_from_slice(b"]}\n");
    line
}

/// Tells whether a line may have appended changes, or be the beginning of such a line.
pub fn is_appended(line: &[u8]) -> bool {
    line.starts_with(START) || (!line.is_empty() && START.starts_with(line))
}

/// An appended change of one issue.
pub(super) struct Change {
    /// The digest of the line that it replaces. None for a new issue.
    pub(super) of: Option<u64>,
    /// Where the record is in the line.
    pub(super) to: Range<usize>,
}

/// Returns the changes of a line. None if the line does not have the form that [`line_with`] writes.
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

    if !line.starts_with(START) {
        return None;
    }
    let parsed: Line<'_> = serde_json::from_slice(line).ok()?;
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
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::super::document::Document;
    use super::*;

    fn record(id: u8, title: &str) -> String {
        format!("{{\"id\":\"a-{id:03}\",\"title\":\"{title}\"}}")
    }

    fn file(lines: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Vec<u8> {
        lines.into_iter().flat_map(|line| [line.as_ref(), b"\n"].concat()).collect()
    }

    /// Returns a line with one change.
    fn change(old: Option<&str>, new: &str) -> String {
        String::from_utf8(line_with([(old.map(str::as_bytes), new.as_bytes())].into_iter())).unwrap()
    }

    #[track_caller]
    fn check(text: impl AsRef<[u8]>, expected: &[&str]) {
        let read = Document::parse(text.as_ref().to_vec()).to_bytes();
        assert_eq!(String::from_utf8(read), String::from_utf8(file(expected)));
    }

    proptest! {
        /// Changes are made one after the other: each replaces or adds a few issues.
        #[test]
        fn a_file_with_appended_changes_reads_as_if_each_line_was_replaced(
            before in proptest::collection::btree_map(0_u8..40, "[a-c\\]},]{0,2}", 1..20),
            changes in proptest::collection::vec(proptest::collection::btree_map(0_u8..40, "[a-c\\]},]{0,2}", 1..4), 1..9),
            cut in any::<prop::sample::Index>(),
        ) {
            let lines = |issues: &BTreeMap<u8, String>| file(issues.iter().map(|(id, title)| record(*id, title)));
            let mut bytes = lines(&before);
            let mut after = before;
            for change in &changes {
                let records: Vec<(Option<String>, String)> = change.iter()
                    .map(|(id, title)| (after.get(id).map(|old| record(*id, old)), record(*id, title))).collect();
                let line = line_with(records.iter().map(|(old, new)| (old.as_deref().map(str::as_bytes), new.as_bytes())));
                // A crash leaves any part of the line, which does not count then.
                let part = [&bytes, &line[..=cut.index(line.len() - 2)]].concat();
                prop_assert_eq!(Document::parse(part).to_bytes(), lines(&after));
                bytes.extend(line);
                after.extend(change.clone());
            }
            let document = Document::parse(bytes);
            prop_assert_eq!(document.appended(), changes.len());
            prop_assert_eq!(document.changed_lines().count(), 0);
            prop_assert_eq!(String::from_utf8(document.to_bytes()), String::from_utf8(lines(&after)));
            prop_assert_eq!(document.lines().count(), after.len());
        }

        #[test]
        fn other_lines_stay(line in "\\{\"_changes\":\\[[\\[\\]{}:,\"a-c]{0,12}", ended in any::<bool>()) {
            let other = record(2, "two");
            let text = file([other.as_str(), &line, &other]);
            if changes(line.as_bytes()).is_none() {
                prop_assert_eq!(Document::parse(text.clone()).to_bytes(), text);
            }
            let last: Vec<u8> = file([other.as_str()]).into_iter().chain(line.bytes()).chain(ended.then_some(b'\n')).collect();
            prop_assert!(Document::parse(last).to_bytes().starts_with(other.as_bytes()));
        }
    }

    #[test]
    fn changes_go_to_their_places() {
        let (one, new, three) = (record(1, "one"), record(1, "new"), record(3, ""));
        let other = "{\"id\":\"a-001\",\"_type\":\"memory\"}";
        check([&file([other, &one]), change(Some(&one), &new).as_bytes()].concat(), &[other, &new]);
        check(
            [&file([record(5, ""), three.clone()]), change(None, &new).as_bytes()].concat(),
            &[&record(5, ""), &three, &new],
        );
        check(change(None, &new), &[&new]);
        // The last line break is missing, but the change is complete.
        check(format!("{three}\n{}", change(None, &new).trim_end()), &[&new, &three]);
        let windows = Document::parse(format!("{three}\r\n{}", change(None, &new)).into_bytes());
        assert_eq!(windows.to_bytes(), format!("{new}\r\n{three}\r\n").into_bytes());
        let spelled = "{\"id\":\"a-001\",\"_type\":\"issu\\u0065\"}";
        check(format!("{spelled}\n{}", change(Some(spelled), &new)), &[&new]);
    }

    #[test]
    fn a_change_of_a_line_that_another_program_changed_becomes_a_version_of_the_issue() {
        let [one, theirs, two, three] = ["one", "theirs", "two", "three"].map(|title| record(1, title));
        let both = [change(Some(&one), &two), change(Some(&two), &three)];
        check(format!("{theirs}\n{}{}", both[0], both[1]), &[&theirs, &three]);
        // Their version is what we had written, too.
        check(format!("{three}\n{}{}", both[0], both[1]), &[&three]);
        // The order of the lines does not matter.
        check(format!("{}{one}\n{}", both[1], both[0]), &[&three]);
        // They have removed it, and we have changed it.
        check(format!("{}{}", both[0], both[1]), &[&three]);
        // Both have added it.
        check(format!("{one}\n{}{}", change(None, &one), change(None, &two)), &[&one, &two]);
        // It was changed back and once more.
        let back = [change(Some(&one), &two), change(Some(&two), &one), change(Some(&one), &three)];
        check(format!("{one}\n{}", back.concat()), &[&three]);
    }

    #[test]
    fn both_sides_of_a_conflict_may_have_appended_changes() {
        let (ours, theirs) = (change(None, &record(1, "ours")), change(None, &record(3, "theirs")));
        let text = format!("{}\n<<<<<<< ours\n{ours}=======\n{theirs}>>>>>>> theirs\n", record(2, "two"));
        let document = Document::parse(text.clone().into_bytes());
        assert_eq!(document.to_bytes(), text.into_bytes());
        let merged = super::super::conflict::read(document);
        assert_eq!(merged.to_bytes(), file([record(1, "ours"), record(2, "two"), record(3, "theirs")]));
        // A marker without a conflict does not keep changes from their places.
        let text = format!("{}\n=======\n{}", record(1, "one"), change(Some(&record(1, "one")), &record(1, "two")));
        let read = super::super::conflict::read(Document::parse(text.into_bytes()));
        assert_eq!(read.to_bytes(), file([&record(1, "two"), "======="]));
    }
}
