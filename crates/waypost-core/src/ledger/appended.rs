//! Changes at the end of a large ledger that are not in their places yet.
//!
//! A new line in the middle of a file means writing all lines after it again. So a change of a large ledger may be appended
//! instead, as one line with all new records: `{"_changes":[RECORD, ...]}`. [`Document::parse`](super::document::Document::parse)
//! puts each record in the place of the line with its id, or inserts it in the order of ids, so no other code knows of such
//! lines. A line counts as a whole: one that a crash cut off was never acknowledged, and is left out.

use std::ops::Range;

use serde::de::IgnoredAny;

const START: &[u8] = b"{\"_changes\":[";
const END: &[u8] = b"]}";

/// Returns the line that appends these records, with its line break.
pub fn line_with<'r>(records: impl Iterator<Item = &'r [u8]>) -> Vec<u8> {
    let mut line = START.to_vec();
    for (number, record) in records.enumerate() {
        if number > 0 {
            line.push(b',');
        }
        line.extend_from_slice(record);
    }
    line.extend_from_slice(END);
    line.push(b'\n');
    line
}

/// Tells whether a line may have appended changes, or be the beginning of such a line.
pub fn is_appended(line: &[u8]) -> bool {
    line.starts_with(START) || (line.len() > 2 && START.starts_with(line))
}

/// Returns where the records of a line are. None if the line does not have the form that
/// [`line_with`] writes.
pub(super) fn records(line: &[u8]) -> Option<Vec<Range<usize>>> {
    let list_end = line.len().checked_sub(END.len()).filter(|_| line.starts_with(START) && line.ends_with(END))?;
    let mut records = Vec::new();
    let mut at = START.len();
    loop {
        let rest = &line[at..list_end];
        let mut values = serde_json::Deserializer::from_slice(rest).into_iter::<IgnoredAny>();
        values.next()?.ok()?;
        let end = at + values.byte_offset();
        records.push(at..end);
        match line[end..list_end].first() {
            None => return Some(records),
            Some(b',') => at = end + 1,
            Some(_) => return None,
        }
    }
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

    proptest! {
        /// Changes are made one after the other: each replaces or adds a few issues.
        #[test]
        fn a_file_with_appended_changes_reads_as_if_each_line_was_replaced(
            before in proptest::collection::btree_map(0_u8..40, "[a-z\\]},]{0,9}", 0..20),
            changes in proptest::collection::vec(proptest::collection::btree_map(0_u8..40, "[a-z\\]},]{0,9}", 1..4), 1..6),
            cut in any::<prop::sample::Index>(),
        ) {
            let lines = |issues: &BTreeMap<u8, String>| file(issues.iter().map(|(id, title)| record(*id, title)));
            let mut bytes = lines(&before);
            let mut after = before;
            for change in &changes {
                let records: Vec<String> = change.iter().map(|(id, title)| record(*id, title)).collect();
                let line = line_with(records.iter().map(String::as_bytes));
                // A crash leaves any part of the line, which does not count then. One or two bytes could be of anything.
                let part = [&bytes, &line[..3 + cut.index(line.len() - 3)]].concat();
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
            if records(line.as_bytes()).is_none() {
                prop_assert_eq!(Document::parse(text.clone()).to_bytes(), text);
            }
            let last = file([other.as_str()]).into_iter().chain(line.bytes()).chain(ended.then_some(b'\n')).collect::<Vec<u8>>();
            prop_assert!(Document::parse(last).to_bytes().starts_with(other.as_bytes()));
        }
    }

    #[test]
    fn a_change_concerns_the_issues_before_it() {
        let (one, new) = (record(1, "one"), record(1, "new"));
        let other = "{\"id\":\"a-001\",\"_type\":\"memory\"}";
        let change = String::from_utf8(line_with([new.as_bytes()].into_iter())).unwrap();
        let text = [&file([other, &one, &one]), change.as_bytes(), &file([&one])].concat();
        // Records of other kinds stay, versions before the change are replaced, and later ones stay.
        assert_eq!(Document::parse(text).to_bytes(), file([other, &new, &one]));
        let unsorted = [&file([record(5, ""), record(3, "")]), change.as_bytes()].concat();
        assert_eq!(Document::parse(unsorted).to_bytes(), file([record(5, ""), record(3, ""), new]));
        let windows = format!("{}\r\n{change}", record(3, ""));
        assert_eq!(
            Document::parse(windows.into_bytes()).to_bytes(),
            format!("{}\r\n{}\r\n", record(1, "new"), record(3, "")).into_bytes()
        );
        assert_eq!(Document::parse(change.into_bytes()).to_bytes(), file([record(1, "new")]));
    }

    #[test]
    fn both_sides_of_a_conflict_may_have_appended_changes() {
        let change = |id, title| String::from_utf8(line_with([record(id, title).as_bytes()].into_iter())).unwrap();
        let text = format!(
            "{}\n<<<<<<< ours\n{}=======\n{}>>>>>>> theirs\n",
            record(2, "two"),
            change(1, "ours"),
            change(3, "theirs")
        );
        let document = Document::parse(text.clone().into_bytes());
        assert_eq!(document.to_bytes(), text.into_bytes());
        let merged = super::super::conflict::resolve(&document).unwrap();
        assert_eq!(merged.to_bytes(), file([record(1, "ours"), record(2, "two"), record(3, "theirs")]));
    }
}
