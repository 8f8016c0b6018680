//! Merges versions of a ledger file.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::super::document::{Content, Document, MAX_LINE_BYTES};
use super::super::issue::{Issue, parse_time};
use super::super::mark;
use super::super::moved;
use super::super::record::Record;
use super::super::vocabulary::{Category, Statuses};
use super::meaning::of_value;
use super::order::interleave;
use super::record;
use super::register::spelling;
use crate::time::Timestamp;

/// Merges two versions of a file with their common base, if it is known.
///
/// There are no conflicts. An issue that is missing on one side is not deleted: only a tombstone deletes, and only
/// pruning removes.
pub fn merge(base: Option<&Document>, left: &Document, right: &Document) -> Document {
    if left.to_bytes() == right.to_bytes() {
        return left.clone();
    }
    let base = base.map(Version::read);
    let sides = Sides { base: base.as_ref(), left: &Version::read(left), right: &Version::read(right) };
    Document::parse(sides.merge())
}

/// Identifies a line of a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Key {
    /// A line that is not an issue, by its bytes. Blank lines are numbered.
    Other(Vec<u8>, usize),
    Issue(String),
}

/// A parsed file.
struct Version {
    header: Option<Record>,
    mark: Option<Timestamp>,
    /// The ids of issues that were moved to another ledger.
    moved: BTreeSet<String>,
    issues: HashMap<String, Vec<u8>>,
    /// Each line that is not an issue, and the issue before it.
    others: HashMap<Key, Option<String>>,
    order: Vec<Key>,
    is_sorted: bool,
    /// None if the lines have different endings.
    ending: Option<&'static str>,
    endings: HashMap<Key, &'static str>,
    is_ended: bool,
    has_byte_order_mark: bool,
}

impl Version {
    fn read(document: &Document) -> Version {
        let mut version = Version {
            header: mark::header(document),
            mark: mark::of(document),
            moved: moved::of(document),
            issues: HashMap::new(),
            others: HashMap::new(),
            order: Vec::new(),
            is_sorted: true,
            ending: None,
            endings: HashMap::new(),
            is_ended: (0..document.len()).next_back().is_none_or(|last| !document.ending(last).is_empty()),
            has_byte_order_mark: document.has_byte_order_mark(),
        };
        let mut found: HashMap<String, Vec<usize>> = HashMap::new();
        let mut blanks = 0;
        let mut last: Option<String> = None;
        for place in usize::from(version.header.is_some())..document.len() {
            let line = document.line(place);
            let key = match document.content(place) {
                Content::Issue(id) => {
                    version.is_sorted &= last.as_ref().is_none_or(|last| *last <= id);
                    last = Some(id.clone());
                    found.entry(id.clone()).or_default().push(place);
                    Key::Issue(id)
                }
                Content::Blank => {
                    blanks += 1;
                    Key::Other(line.to_vec(), blanks)
                }
                Content::Other | Content::Marker | Content::Damaged(_) => Key::Other(line.to_vec(), 0),
            };
            if let std::collections::hash_map::Entry::Vacant(place_of) = version.endings.entry(key.clone()) {
                place_of.insert(document.ending(place));
                if let Key::Other(..) = key {
                    version.others.insert(key.clone(), last.clone());
                }
                version.order.push(key);
            }
        }
        let endings: HashSet<&str> =
            (0..document.len()).map(|place| document.ending(place)).filter(|ending| !ending.is_empty()).collect();
        version.ending = match (endings.contains("\r\n"), endings.contains("\n")) {
            (true, true) => None,
            (true, false) => Some("\r\n"),
            _ => Some("\n"),
        };
        version.issues = found.into_iter().map(|(id, places)| (id, united(document, &places))).collect();
        version
    }

    fn record(&self, id: &str) -> Option<Record> {
        self.issues.get(id).and_then(|line| parsed(line))
    }
}

/// Returns the ids that open issues name as their parent or in dependencies.
fn named_by_open<'l>(lines: impl Iterator<Item = &'l Vec<u8>>) -> HashSet<String> {
    let statuses = Statuses::default();
    let issues = lines.filter_map(|line| Issue::read(&parsed(line)?)).map(|(issue, _)| issue);
    let open = issues.filter(|issue| !statuses.category(&issue.status).is_over());
    open.flat_map(|issue| issue.dependencies.into_iter().map(|edge| edge.depends_on_id).chain(issue.parent_id))
        .collect()
}

struct Sides<'a> {
    base: Option<&'a Version>,
    left: &'a Version,
    right: &'a Version,
}

impl Sides<'_> {
    fn merge(&self) -> Vec<u8> {
        let header = self.header();
        let issues = self.issues();
        let others = self.others();
        let kept = |key: &Key| match key {
            Key::Issue(id) => issues.contains_key(id),
            Key::Other(..) => others.contains_key(key),
        };
        let order = if self.left.is_sorted && self.right.is_sorted {
            self.sorted(&issues, &others)
        } else {
            let lists =
                [self.left, self.right].map(|side| side.order.iter().filter(|key| kept(key)).cloned().collect());
            interleave(&lists, Key::clone)
        };
        let mut lines: Vec<(&[u8], &str)> = Vec::new();
        let header = header.map(|header| header.to_line());
        let common_ending = self.choose(|side| Some(side.ending)).flatten();
        if let Some(header) = &header {
            lines.push((header.as_bytes(), common_ending.unwrap_or("\n")));
        }
        for key in &order {
            let ending = common_ending.unwrap_or_else(|| {
                self.choose(|side| side.endings.get(key).copied()).filter(|ending| !ending.is_empty()).unwrap_or("\n")
            });
            match key {
                Key::Other(line, _) => lines.push((line, ending)),
                Key::Issue(id) => lines.extend(issues[id].iter().map(|line| (line.as_slice(), ending))),
            }
        }
        if self.choose(|side| Some(side.is_ended)) == Some(false)
            && let Some((_, ending)) = lines.last_mut()
        {
            *ending = "";
        }
        let is_plain = self.choose(|side| Some(!side.has_byte_order_mark)).unwrap_or(true);
        let mut bytes = if is_plain { Vec::new() } else { "\u{feff}".as_bytes().to_vec() };
        for (line, ending) in lines {
            bytes.extend_from_slice(line);
            bytes.extend_from_slice(ending.as_bytes());
        }
        bytes
    }

    /// Chooses between the values of two sides: the new one, else the greater.
    fn choose<T: Ord>(&self, of: impl Fn(&Version) -> Option<T>) -> Option<T> {
        spelling(self.base.and_then(&of).as_ref(), of(self.left), of(self.right))
    }

    /// The header line, with the later mark.
    fn header(&self) -> Option<Record> {
        match (&self.left.header, &self.right.header) {
            (Some(left), Some(right)) => {
                Some(record::merge(self.base.and_then(|base| base.header.as_ref()), left, right))
            }
            (left, right) => left.clone().or_else(|| right.clone()),
        }
    }

    /// The issues by id, each as one line; as two lines, if the merged line would be too long.
    fn issues(&self) -> BTreeMap<String, Vec<Vec<u8>>> {
        let mut merged = BTreeMap::new();
        let mut pruned = Vec::new();
        for (id, left) in &self.left.issues {
            if let Some(right) = self.right.issues.get(id) {
                merged.insert(id.clone(), self.issue(id, left, right));
            } else if self.is_pruned(id, left, self.right) {
                pruned.push((id, left));
            } else if !self.is_moved(id, left, self.right) {
                merged.insert(id.clone(), vec![left.clone()]);
            }
        }
        for (id, right) in self.right.issues.iter().filter(|(id, _)| !self.left.issues.contains_key(*id)) {
            if self.is_pruned(id, right, self.left) {
                pruned.push((id, right));
            } else if !self.is_moved(id, right, self.left) {
                merged.insert(id.clone(), vec![right.clone()]);
            }
        }
        // Pruning keeps issues that an open one names, and the side that pruned did not know this one.
        let named = if pruned.is_empty() { HashSet::new() } else { named_by_open(merged.values().flatten()) };
        let kept = pruned.into_iter().filter(|(id, _)| named.contains(*id));
        merged.extend(kept.map(|(id, line)| (id.clone(), vec![line.clone()])));
        merged
    }

    fn issue(&self, id: &str, left: &Vec<u8>, right: &Vec<u8>) -> Vec<Vec<u8>> {
        let base = self.base.and_then(|base| base.issues.get(id));
        if left == right || base == Some(right) {
            return vec![left.clone()];
        }
        if base == Some(left) {
            return vec![right.clone()];
        }
        let base = self.base.and_then(|base| base.record(id));
        if let (Some(one), Some(other)) = (parsed(left), parsed(right)) {
            let line = record::merge(base.as_ref(), &one, &other).to_line().into_bytes();
            if line.len() <= MAX_LINE_BYTES {
                return vec![line];
            }
        }
        vec![left.min(right).clone(), left.max(right).clone()]
    }

    /// Tells whether the other side pruned an issue that this side left unchanged.
    fn is_pruned(&self, id: &str, line: &[u8], other: &Version) -> bool {
        let Some(mark) = other.mark else { return false };
        let Some(record) = parsed(line) else { return false };
        let closed_at = record.text("closed_at").as_deref().and_then(parse_time);
        let status = Issue::read(&record).map(|(issue, _)| issue.status).unwrap_or_default();
        let statuses = Statuses::default();
        // A custom status may mean finished; then `closed_at` is set.
        let is_closed = statuses.category(&status) == Category::Done || !statuses.knows(&status);
        if !is_closed || closed_at.is_none_or(|closed_at| closed_at >= mark) {
            return false;
        }
        self.base.is_none() || self.is_unchanged(id, line)
    }

    /// Tells whether the other side moved an issue to another ledger, which this side left unchanged. Without a base this
    /// side may have moved it back.
    fn is_moved(&self, id: &str, line: &[u8], other: &Version) -> bool {
        other.moved.contains(id) && self.is_unchanged(id, line)
    }

    fn is_unchanged(&self, id: &str, line: &[u8]) -> bool {
        let before = self.base.and_then(|base| base.issues.get(id));
        before.is_some_and(|before| before == line || meaning_of(before) == meaning_of(line))
    }

    /// The lines that are not issues, each with the issue before it.
    fn others(&self) -> HashMap<Key, Option<String>> {
        let had_issues = self.base.is_some_and(|base| !base.issues.is_empty());
        let is_emptied = |side: &Version| had_issues && side.issues.is_empty();
        let mut merged: HashMap<Key, Option<String>> = HashMap::new();
        for (side, other) in [(self.left, self.right), (self.right, self.left)] {
            for (key, behind) in &side.others {
                let is_old = self.base.is_some_and(|base| base.others.contains_key(key));
                if is_old && !other.others.contains_key(key) && !is_emptied(other) {
                    continue;
                }
                let known = merged.entry(key.clone()).or_insert_with(|| behind.clone());
                if *behind < *known {
                    known.clone_from(behind);
                }
            }
        }
        merged
    }

    /// Issues sorted by id, and every other line after the issue it followed.
    fn sorted(&self, issues: &BTreeMap<String, Vec<Vec<u8>>>, others: &HashMap<Key, Option<String>>) -> Vec<Key> {
        let lists = [self.left, self.right]
            .map(|side| side.order.iter().filter(|key| others.contains_key(key)).cloned().collect());
        let mut rest = interleave(&lists, |key| (others[key].clone(), key.clone()));
        rest.sort_by(|one, other| others[one].cmp(&others[other]));
        let mut rest = rest.into_iter().peekable();
        let mut order = Vec::new();
        for id in issues.keys() {
            while let Some(key) = rest.next_if(|key| others[key].as_deref() < Some(id.as_str())) {
                order.push(key);
            }
            order.push(Key::Issue(id.clone()));
        }
        order.extend(rest);
        order
    }
}

/// Merges several lines of one id into one line.
fn united(document: &Document, places: &[usize]) -> Vec<u8> {
    let lines: Vec<&[u8]> = places.iter().map(|place| document.line(*place)).collect();
    if lines.iter().all(|line| *line == lines[0]) {
        return lines[0].to_vec();
    }
    let records: Vec<Record> = lines.iter().filter_map(|line| parsed(line)).collect();
    record::unite(&records.iter().collect::<Vec<_>>()).to_line().into_bytes()
}

fn parsed(line: &[u8]) -> Option<Record> {
    Record::parse(std::str::from_utf8(line).ok()?).ok()
}

fn meaning_of(line: &[u8]) -> Option<String> {
    std::str::from_utf8(line).ok().map(of_value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Document {
        Document::parse(text.as_bytes().to_vec())
    }

    /// Merges with the sides in both orders.
    #[track_caller]
    fn check(base: Option<&str>, left: &str, right: &str, expected: &str) {
        let base = base.map(parse);
        for (one, other) in [(left, right), (right, left)] {
            let merged = merge(base.as_ref(), &parse(one), &parse(other));
            assert_eq!(String::from_utf8(merged.to_bytes()).unwrap(), expected);
        }
    }

    const CLOSED: &str = r#"{"id":"c","status":"closed","closed_at":"2026-01-01T00:00:00Z"}"#;
    const MARK: &str = r#"{"_type":"waypost","pruned_before":"2026-01-01T00:00:00.001Z"}"#;

    #[test]
    fn new_issues_of_both_sides_are_in_order() {
        check(
            Some("{\"id\":\"b\"}\n"),
            "{\"id\":\"a\"}\n{\"id\":\"b\"}\n",
            "{\"id\":\"b\"}\n{\"id\":\"c\"}\n",
            "{\"id\":\"a\"}\n{\"id\":\"b\"}\n{\"id\":\"c\"}\n",
        );
    }

    #[test]
    fn an_emptied_side_deletes_nothing() {
        let full = "{\"_type\":\"memory\"}\n{\"id\":\"a\"}\n";
        check(Some(full), full, "", full);
        check(
            Some(full),
            "{\"_type\":\"memory\"}\n{\"id\":\"a\",\"x\":1}\n",
            "",
            "{\"_type\":\"memory\"}\n{\"id\":\"a\",\"x\":1}\n",
        );
        check(None, full, "", full);
    }

    #[test]
    fn a_pruned_issue_stays_out() {
        let old = format!("{{\"id\":\"a\"}}\n{CLOSED}\n");
        let pruned = format!("{MARK}\n{{\"id\":\"a\"}}\n");
        check(Some(&old), &pruned, &old, &pruned);
        check(Some(&old), &pruned, &format!("{old}{{\"id\":\"d\"}}\n"), &format!("{pruned}{{\"id\":\"d\"}}\n"));
        check(None, &pruned, &old, &pruned);
    }

    #[test]
    fn a_pruned_issue_stays_if_an_open_issue_of_the_other_side_waits_for_it() {
        let closed = r#"{"id":"x","status":"closed","closed_at":"2026-01-01T00:00:00Z"}"#;
        let waiting = |status: &str| {
            format!(r#"{{"id":"y","status":"{status}","dependencies":[{{"depends_on_id":"x","type":"blocks"}}]}}"#)
        };
        let mark = r#"{"_type":"waypost","pruned_before":"2026-02-01T00:00:00.000Z"}"#;
        for (status, is_kept) in [("open", true), ("closed", false)] {
            let (base, pruned) = (format!("{closed}\n"), format!("{mark}\n"));
            let other = format!("{closed}\n{}\n", waiting(status));
            for (left, right) in [(&pruned, &other), (&other, &pruned)] {
                let [base, left, right] = [&base, left, right].map(|text| Document::parse(text.clone().into_bytes()));
                let merged = merge(Some(&base), &left, &right).to_bytes();
                assert_eq!(String::from_utf8(merged).unwrap().contains(closed), is_kept, "{status}");
            }
        }
    }

    #[test]
    fn a_pruned_issue_that_the_other_side_reopened_or_changed_comes_back() {
        let old = format!("{{\"id\":\"a\"}}\n{CLOSED}\n");
        let pruned = format!("{MARK}\n{{\"id\":\"a\"}}\n");
        for changed in ["{\"id\":\"c\",\"status\":\"open\"}".to_owned(), CLOSED.replace('}', ",\"notes\":\"n\"}")] {
            check(Some(&old), &pruned, &format!("{{\"id\":\"a\"}}\n{changed}\n"), &format!("{pruned}{changed}\n"));
        }
        let elsewhere = CLOSED.replace("\"c\"", "\"e\"");
        check(Some(&old), &pruned, &format!("{old}{elsewhere}\n"), &format!("{pruned}{elsewhere}\n"));
        // Without a base only the mark decides.
        let later = CLOSED.replace("2026-01-01", "2026-01-02");
        check(None, &pruned, &format!("{later}\n"), &format!("{pruned}{later}\n"));
    }

    #[test]
    fn a_moved_issue_stays_out_unless_the_other_side_changed_it() {
        let mark = r#"{"_type":"moved","moved":"b","moved_at":"2026-01-01T00:00:00.000Z"}"#;
        let old = "{\"id\":\"a\"}\n{\"id\":\"b\"}\n";
        let moved = format!("{{\"id\":\"a\"}}\n{mark}\n");
        check(Some(old), &moved, old, &moved);
        check(Some(old), &moved, "{\"id\":\"a\"}\n{\"id\": \"b\"}\n", &moved);
        let changed = "{\"id\":\"a\"}\n{\"id\":\"b\",\"x\":1}\n";
        check(Some(old), &moved, changed, &format!("{{\"id\":\"a\"}}\n{mark}\n{{\"id\":\"b\",\"x\":1}}\n"));
        // The side that has it may have moved it back.
        check(None, &moved, old, &format!("{{\"id\":\"a\"}}\n{mark}\n{{\"id\":\"b\"}}\n"));
        check(Some(&moved), &moved, old, old);
        // Without a mark, a missing line is a lost one.
        check(Some(old), "{\"id\":\"a\"}\n", old, old);
    }

    #[test]
    fn the_later_mark_counts_and_fields_of_other_tools_stay() {
        let with = |mark: &str, more: &str| format!("{{\"_type\":\"waypost\",\"pruned_before\":\"{mark}\"{more}}}\n");
        check(
            Some(&with("2026-01-01T00:00:00Z", "")),
            &with("2026-01-02T00:00:00Z", ""),
            &with("2026-01-03T00:00:00Z", ",\"theirs\":1"),
            &with("2026-01-03T00:00:00Z", ",\"theirs\":1"),
        );
    }

    #[test]
    fn lines_that_are_not_issues_are_merged_unchanged() {
        check(
            Some("{\"_type\":\"memory\",\"k\":1}\n{\"id\":\"a\"}\nnoise\n"),
            "{\"_type\":\"memory\",\"k\":2}\n{\"id\":\"a\"}\nnoise\n# mine\n",
            "{\"_type\":\"memory\",\"k\":1}\n{\"id\":\"a\"}\n{\"id\":\"b\"}\n# theirs\n# theirs\n",
            "{\"_type\":\"memory\",\"k\":2}\n{\"id\":\"a\"}\n# mine\n{\"id\":\"b\"}\n# theirs\n",
        );
    }

    #[test]
    fn lines_with_the_same_id_become_one_issue() {
        check(
            None,
            "{\"id\":\"a\",\"labels\":[\"x\"]}\n{\"id\":\"a\",\"labels\":[\"y\"]}\n",
            "{\"id\":\"a\",\"labels\":[\"z\"]}\n",
            "{\"id\":\"a\",\"labels\":[\"x\",\"y\",\"z\"]}\n",
        );
    }

    #[test]
    fn an_unsorted_file_keeps_its_order() {
        check(
            None,
            "{\"id\":\"c\"}\n{\"id\":\"a\"}\n",
            "{\"id\":\"c\"}\n{\"id\":\"b\"}\n{\"id\":\"a\"}\n{\"id\":\"z\"}\n",
            "{\"id\":\"c\"}\n{\"id\":\"b\"}\n{\"id\":\"a\"}\n{\"id\":\"z\"}\n",
        );
    }

    #[test]
    fn line_endings_and_byte_order_marks_follow_the_side_that_changed_them() {
        let (unix, dos) = ("{\"id\":\"a\"}\n", "{\"id\":\"a\"}\r\n");
        check(Some(unix), dos, "{\"id\":\"a\"}\n{\"id\":\"b\"}\n", "{\"id\":\"a\"}\r\n{\"id\":\"b\"}\r\n");
        check(Some(dos), dos, "{\"id\":\"a\"}\n{\"id\":\"b\"}", "{\"id\":\"a\"}\n{\"id\":\"b\"}");
        check(None, "\u{feff}{\"id\":\"a\"}\n", "{\"id\":\"b\"}", "{\"id\":\"a\"}\n{\"id\":\"b\"}\n");
        check(
            Some("\u{feff}"),
            "\u{feff}{\"id\":\"a\"}\n",
            "\u{feff}{\"id\":\"b\"}\n",
            "\u{feff}{\"id\":\"a\"}\n{\"id\":\"b\"}\n",
        );
    }

    #[test]
    fn a_merged_line_that_would_be_too_long_is_not_written() {
        let long = |key: &str| format!("{{\"id\":\"a\",\"{key}\":\"{}\"}}", "x".repeat(MAX_LINE_BYTES - 100));
        let merged = merge(None, &parse(&long("y")), &parse(&long("z")));
        assert_eq!(merged.len(), 2);
        assert!(merged.contents().all(|content| content == Content::Issue("a".to_owned())));
    }
}
