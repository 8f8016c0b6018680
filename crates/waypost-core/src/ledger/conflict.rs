//! Conflict markers, left by merges that did not use the ledger's merge driver.
//!
//! The text between the markers is read as versions of the same lines, and these are merged like any other versions.
//! Lines that do not follow the grammar of git, jj or Mercurial stay unchanged.

use std::collections::{BTreeMap, BTreeSet};

use super::document::{Content, Document, check_stand_in};
use super::merge::merge;
use crate::error::{Error, Result};

/// Merges the versions between conflict markers. None if there are no readable markers.
pub fn resolve(document: &Document) -> Option<Document> {
    versions(document).map(|versions| versions.merge(None))
}

/// Merges the versions between conflict markers, if there are any. The document has no appended changes then.
pub fn read(document: Document) -> Document {
    resolve(&document).unwrap_or_else(|| document.with_appended_placed())
}

/// The versions of a file that its conflict markers hold.
#[derive(Clone, Debug)]
pub struct Versions {
    sides: Vec<Document>,
    /// The bases between neighbouring sides, one fewer than the sides. Empty if the markers do not show them.
    bases: Vec<Document>,
}

/// Reads the versions between conflict markers. None if there are no readable markers.
pub fn versions(document: &Document) -> Option<Versions> {
    let lines = Line::all(document);
    let mut parts: Vec<Part> = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        if let Some((conflict, end)) = Conflict::read(&lines, at, MAX_NESTING) {
            parts.push(Part::Conflict(conflict));
            at = end;
        } else {
            parts.push(Part::Line(lines[at].bytes.clone()));
            at += 1;
        }
    }
    let mut conflicts: Vec<&Conflict> = Vec::new();
    for part in &parts {
        if let Part::Conflict(conflict) = part {
            conflicts.push(conflict);
        }
    }
    let count = conflicts.iter().map(|conflict| conflict.sides.len()).max()?;
    // A base for only some of the conflicts would make the lines of the others look new.
    let has_bases = conflicts.iter().all(|conflict| conflict.bases.len() + 1 == conflict.sides.len());
    let version = |of: &dyn Fn(&Conflict) -> Option<&Lines>| {
        let mut bytes = if document.has_byte_order_mark() { "\u{feff}".as_bytes().to_vec() } else { Vec::new() };
        for part in &parts {
            match part {
                Part::Line(line) => bytes.extend_from_slice(line),
                Part::Conflict(conflict) => {
                    of(conflict).into_iter().flatten().for_each(|line| bytes.extend_from_slice(line));
                }
            }
        }
        Document::parse(bytes)
    };
    // A conflict with fewer sides repeats its last side, with itself as the base.
    let side = |number| version(&|conflict| conflict.sides.get(number).or(conflict.sides.last()));
    let base = |number| version(&|conflict| conflict.bases.get(number).or(conflict.sides.last()));
    let bases = if has_bases { (0..count - 1).map(base).collect() } else { Vec::new() };
    Some(Versions { sides: (0..count).map(side).collect(), bases })
}

impl Versions {
    /// Merges the versions. `base` is used if the markers do not show one.
    pub fn merge(&self, base: Option<&Document>) -> Document {
        let mut merged = self.sides[0].clone();
        for (number, side) in self.sides[1..].iter().enumerate() {
            merged = merge(self.bases.get(number).or(base), &merged, side);
        }
        merged
    }

    /// Returns the number of issues that differ between sides or are missing on a side.
    pub fn conflicting_issues(&self) -> usize {
        let mut lines: BTreeMap<String, BTreeSet<&[u8]>> = BTreeMap::new();
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for side in &self.sides {
            for (place, content) in side.contents().enumerate() {
                if let Content::Issue(id) = content {
                    *counts.entry(id.clone()).or_default() += 1;
                    lines.entry(id).or_default().insert(side.line(place));
                }
            }
        }
        lines.iter().filter(|(id, lines)| lines.len() > 1 || counts[*id] < self.sides.len()).count()
    }
}

/// Conflicts nested deeper than this are not read.
const MAX_NESTING: usize = 8;

enum Part {
    Line(Vec<u8>),
    Conflict(Conflict),
}

/// Lines with their endings.
type Lines = Vec<Vec<u8>>;

/// The versions of some lines: the sides in order, and the bases between them if the markers show them.
#[derive(Debug, PartialEq, Eq)]
struct Conflict {
    sides: Vec<Lines>,
    bases: Vec<Lines>,
}

struct Line {
    /// With its ending.
    bytes: Vec<u8>,
    /// The sign of a marker, and how often it is repeated.
    marker: Option<(u8, usize)>,
    is_blank: bool,
    ending: &'static str,
}

impl Line {
    fn all(document: &Document) -> Vec<Line> {
        let line = |place: usize| {
            let text = document.line(place);
            let content = document.content(place);
            let marker = (content == Content::Marker)
                .then(|| (text[0], text.iter().take_while(|byte| **byte == text[0]).count()));
            // Every line gets an ending, so that lines can be concatenated.
            let ending = if document.ending(place).is_empty() { "\n" } else { document.ending(place) };
            let bytes = [text, ending.as_bytes()].concat();
            Line { bytes, marker, is_blank: content == Content::Blank, ending }
        };
        (0..document.len()).map(line).collect()
    }

    fn is(&self, sign: u8, length: usize) -> bool {
        self.marker == Some((sign, length))
    }
}

impl Conflict {
    /// Reads a conflict that begins in a line. Returns it and the place after it.
    fn read(lines: &[Line], start: usize, depth: usize) -> Option<(Conflict, usize)> {
        let (sign, length) = lines.get(start)?.marker?;
        if sign != b'<' || depth == 0 {
            return None;
        }
        let sections = Self::read_sections(lines, start + 1, length, depth);
        let (conflict, end) = sections.or_else(|| Self::read_parts(lines, start + 1, length, depth))?;
        (conflict.sides.len() > 1).then_some((conflict, end))
    }

    /// Two sides, with the base between them if it is shown: git (also with diff3 style) and Mercurial.
    fn read_sections(lines: &[Line], start: usize, length: usize, depth: usize) -> Option<(Conflict, usize)> {
        let (left, mut at) = snapshot(lines, start, length, depth)?;
        let mut bases = Vec::new();
        if lines[at].is(b'|', length) {
            let (base, end) = snapshot(lines, at + 1, length, depth)?;
            bases.push(base);
            at = end;
        }
        if !lines[at].is(b'=', length) {
            return None;
        }
        let (right, end) = snapshot(lines, at + 1, length, depth)?;
        lines[end].is(b'>', length).then(|| (Conflict { sides: vec![left, right], bases }, end + 1))
    }

    /// Any number of sides, some as diffs from a base: jj, and Mercurial's `:mergediff`.
    fn read_parts(lines: &[Line], start: usize, length: usize, depth: usize) -> Option<(Conflict, usize)> {
        let mut conflict = Conflict { sides: Vec::new(), bases: Vec::new() };
        let mut at = start;
        while !lines.get(at)?.is(b'>', length) {
            let (sign, own_length) = lines[at].marker?;
            let is_pair = sign == b'-' && lines.get(at + 1)?.is(b'+', length);
            if own_length != length {
                return None;
            }
            at += 1;
            if sign == b'%' || is_pair {
                let is_described = lines.get(at)?.is(if is_pair { b'+' } else { b'\\' }, length);
                let difference = difference(lines, at + usize::from(is_described), length);
                if let Some((before, after, end)) = difference {
                    conflict.bases.push(before);
                    conflict.sides.push(after);
                    at = end;
                    continue;
                }
                // A pair that is not a diff is an empty base, followed by a side.
                if !is_pair {
                    return None;
                }
            }
            let (section, end) = snapshot(lines, at, length, depth)?;
            match sign {
                b'+' | b'=' => conflict.sides.push(section),
                b'-' => conflict.bases.push(section),
                _ => return None,
            }
            at = end;
        }
        Some((conflict, at + 1))
    }
}

/// Reads the lines up to the next marker of this length. Markers of other lengths do not belong to this conflict.
///
/// Blank lines are left out: jj writes one if only one side ends with a line break.
fn snapshot(lines: &[Line], start: usize, length: usize, depth: usize) -> Option<(Lines, usize)> {
    let mut found = Vec::new();
    let mut at = start;
    loop {
        let line = lines.get(at)?;
        match line.marker {
            Some((b'<', _)) => {
                // A committed conflict that became part of another conflict.
                let (inner, end) = Conflict::read(lines, at, depth - 1)?;
                found.extend(inner.merged_lines());
                at = end;
                continue;
            }
            Some((_, own)) if own == length => return Some((found, at)),
            _ if line.is_blank => {}
            _ => found.push(line.bytes.clone()),
        }
        at += 1;
    }
}

impl Conflict {
    fn merged_lines(&self) -> Lines {
        let document = |lines: &Lines| Document::parse(lines.concat());
        let has_base = self.bases.len() + 1 == self.sides.len();
        let mut merged = document(&self.sides[0]);
        for (number, side) in self.sides[1..].iter().enumerate() {
            let base = has_base.then(|| document(&self.bases[number]));
            merged = merge(base.as_ref(), &merged, &document(side));
        }
        Line::all(&merged).into_iter().map(|line| line.bytes).collect()
    }
}

/// Reads a diff: the lines before, the lines after, and the place of the next marker.
fn difference(lines: &[Line], start: usize, length: usize) -> Option<(Lines, Lines, usize)> {
    let (mut before, mut after) = (Vec::new(), Vec::new());
    let mut at = start;
    loop {
        let line = lines.get(at)?;
        if line.marker.is_some_and(|(_, own)| own == length) {
            return Some((before, after, at));
        }
        let rest = &line.bytes[1.min(line.bytes.len())..];
        let is_blank = rest.trim_ascii().is_empty() || line.bytes.len() == line.ending.len();
        match line.bytes[0] {
            _ if is_blank => {}
            b' ' => {
                before.push(rest.to_vec());
                after.push(rest.to_vec());
            }
            b'-' => before.push(rest.to_vec()),
            b'+' => after.push(rest.to_vec()),
            _ => return None,
        }
        at += 1;
    }
}

/// Parses a version of a ledger for a merge. It may have been committed with conflict markers, whose versions are merged
/// first.
///
/// Refuses a file without a readable record: the merge would take every issue of the other version as removed or new.
pub fn parse_version(bytes: Vec<u8>) -> Result<Document> {
    let document = Document::parse(bytes);
    document.lines().next().map_or(Ok(()), check_stand_in)?;
    let document = read(document);
    let is_record = |content: Content| matches!(content, Content::Issue(_) | Content::Other);
    let has_text = document.contents().any(|content| content != Content::Blank);
    if has_text && !document.contents().any(is_record) {
        return Err(Error::damaged("no line of this file is a record of a ledger"));
    }
    Ok(document)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::strategy::ValueTree as _;
    use proptest::test_runner::TestRunner;

    use super::*;

    fn resolved(text: &str) -> Option<String> {
        resolve(&Document::parse(text.as_bytes().to_vec()))
            .map(|document| String::from_utf8(document.to_bytes()).unwrap())
    }

    /// The merge of two sides that each changed b and added one issue.
    const MERGED: &str = r#"{"id":"a"}
{"id":"b","comments":[{"id":"merge-d1896d7cca983123","author":"waypost","text":"t in another version: 2"}],"t":3}
{"id":"b2"}
{"id":"b3"}
{"id":"c"}
"#;

    #[track_caller]
    fn check(conflict: &str) {
        for ending in ["\n", "\r\n"] {
            let text = format!("{{\"id\":\"a\"}}\n{conflict}\n{{\"id\":\"c\"}}\n").replace('\n', ending);
            assert_eq!(resolved(&text).unwrap(), MERGED.replace('\n', ending));
        }
    }

    #[test]
    fn a_file_without_markers_has_no_versions() {
        assert_eq!(resolved("{\"id\":\"a\"}\n"), None);
        assert_eq!(resolved(""), None);
        assert_eq!(resolved("=======\n{\"id\":\"a\"}\n>>>>>>> x\n"), None);
    }

    #[test]
    fn conflicts_of_git_are_read() {
        check(
            r#"<<<<<<< HEAD
{"id":"b","t":2}
{"id":"b2"}
=======
{"id":"b","t":3}
{"id":"b3"}
>>>>>>> topic"#,
        );
        check(
            r#"<<<<<<< HEAD
{"id":"b","t":2}
{"id":"b2"}
||||||| 1234567
{"id":"b","t":1}
=======
{"id":"b","t":3}
{"id":"b3"}
>>>>>>> topic"#,
        );
    }

    #[test]
    fn conflicts_of_jj_are_read() {
        check(
            r#"<<<<<<< conflict 1 of 1
%%%%%%% diff from: xwwvloxt 8328b152 "base"
\\\\\\\        to: rksxzplz 1c58a2d3 "s2"
-{"id":"b","t":1}
+{"id":"b","t":2}
+{"id":"b2"}
+++++++ xworkypy 1bf1f66a "s3"
{"id":"b","t":3}
{"id":"b3"}
>>>>>>> conflict 1 of 1 ends"#,
        );
        check(
            r#"<<<<<<< conflict 1 of 1
+++++++ Contents of side #1
{"id":"b","t":2}
{"id":"b2"}
%%%%%%% Changes from base to side #2
-{"id":"b","t":1}
+{"id":"b","t":3}
+{"id":"b3"}
>>>>>>> conflict 1 of 1 ends"#,
        );
        check(
            r#"<<<<<<< conflict 1 of 1
+++++++ rksxzplz 1c58a2d3 "s2"
{"id":"b","t":2}
{"id":"b2"}
------- xwwvloxt 8328b152 "base"
{"id":"b","t":1}
+++++++ xworkypy 1bf1f66a "s3"
{"id":"b","t":3}
{"id":"b3"}
>>>>>>> conflict 1 of 1 ends"#,
        );
        // Longer markers, because a line of a side looks like a marker; and the blank line for a final line break.
        check(
            r#"<<<<<<<<<<< conflict 1 of 1
+++++++++++ rksxzplz 1c58a2d3 "s2"
{"id":"b","t":2}
{"id":"b2"}

%%%%%%%%%%% diff from: xwwvloxt 8328b152 "base"
\\\\\\\\\\\        to: lzxqwpxu 06b2aa33 "s3" (no terminating newline)
-{"id":"b","t":1}
+{"id":"b","t":3}
+{"id":"b3"}
-
>>>>>>>>>>> conflict 1 of 1 ends"#,
        );
    }

    #[test]
    fn conflicts_of_mercurial_are_read() {
        check(
            r#"<<<<<<<
------- common ancestor
+++++++ working copy
-{"id":"b","t":1}
+{"id":"b","t":3}
+{"id":"b3"}
======= merge rev
{"id":"b","t":2}
{"id":"b2"}
>>>>>>>"#,
        );
        check(
            r#"<<<<<<<
======= working copy
{"id":"b","t":2}
{"id":"b2"}
------- common ancestor
+++++++ merge rev
-{"id":"b","t":1}
+{"id":"b","t":3}
+{"id":"b3"}
>>>>>>>"#,
        );
    }

    #[test]
    fn any_number_of_sides_is_merged() {
        let text = r#"<<<<<<< conflict 1 of 1
%%%%%%% diff from: base
-{"id":"b","t":1,"u":1}
+{"id":"b","t":2,"u":1}
%%%%%%% diff from: base
-{"id":"b","t":1,"u":1}
+{"id":"b","t":1,"u":2}
+++++++ third
{"id":"b","t":1,"u":1,"v":1}
>>>>>>> conflict 1 of 1 ends"#;
        assert_eq!(resolved(text).unwrap(), "{\"id\":\"b\",\"t\":2,\"u\":2,\"v\":1}\n");
    }

    #[test]
    fn the_base_of_the_conflict_is_used() {
        let text = r#"<<<<<<< HEAD
{"id":"b","status":"open","updated_at":"2026-01-01T00:00:01Z"}
||||||| base
{"id":"b","status":"closed","closed_at":"2025-01-01T00:00:00Z","updated_at":"2026-01-01T00:00:00Z"}
=======
{"id":"b","status":"closed","closed_at":"2025-01-01T00:00:00Z","updated_at":"2026-01-01T00:00:02Z","notes":"n"}
>>>>>>> topic
"#;
        let resolved = resolved(text).unwrap();
        assert!(resolved.contains(r#""status":"open""#) && resolved.contains(r#""notes":"n""#), "{resolved}");
        assert!(!resolved.contains(r#""closed_at":"#), "{resolved}");
    }

    #[test]
    fn a_side_without_lines_deletes_nothing() {
        let text = "<<<<<<< HEAD\n{\"id\":\"a\"}\n||||||| base\n{\"id\":\"a\"}\n=======\n>>>>>>> x\n";
        assert_eq!(resolved(text).unwrap(), "{\"id\":\"a\"}\n");
    }

    #[test]
    fn several_conflicts_are_versions_of_one_file() {
        let text = r#"<<<<<<< HEAD
{"_type":"waypost","pruned_before":"2026-01-01T00:00:00Z"}
=======
>>>>>>> x
{"id":"a"}
<<<<<<< HEAD
=======
{"id":"b","status":"closed","closed_at":"2025-01-01T00:00:00Z"}
>>>>>>> x
"#;
        let expected = "{\"_type\":\"waypost\",\"pruned_before\":\"2026-01-01T00:00:00Z\"}\n{\"id\":\"a\"}\n";
        assert_eq!(resolved(text).unwrap(), expected, "b was pruned on the left side");
    }

    #[test]
    fn a_nested_conflict_is_read() {
        let text = r#"<<<<<<< HEAD
<<<<<<< old
{"id":"a"}
=======
{"id":"b"}
>>>>>>> older
=======
{"id":"c"}
>>>>>>> x
"#;
        assert_eq!(resolved(text).unwrap(), "{\"id\":\"a\"}\n{\"id\":\"b\"}\n{\"id\":\"c\"}\n");
    }

    #[test]
    fn unreadable_conflicts_stay_unchanged() {
        let torn = "<<<<<<< HEAD\n{\"id\":\"a\"}\n=======\n{\"id\":\"b\"}\n";
        assert_eq!(resolved(torn), None);
        let text = "<<<<<<< torn\n{\"id\":\"z\"}\n<<<<<<< HEAD\n{\"id\":\"a\"}\n=======\nnoise\n>>>>>>> x\n";
        assert_eq!(resolved(text).unwrap(), "<<<<<<< torn\n{\"id\":\"z\"}\nnoise\n{\"id\":\"a\"}\n");
    }

    #[test]
    fn a_base_passed_by_the_caller_is_used() {
        let text = "{\"id\":\"0\"}\n<<<<<<< HEAD\n{\"id\":\"a\",\"x\":1}\n=======\n{\"id\":\"a\",\"y\":1,\"x\":2}\n{\"id\":\"b\"}\n>>>>>>> x\n";
        let versions = versions(&Document::parse(text.as_bytes().to_vec())).unwrap();
        assert_eq!(versions.conflicting_issues(), 2);
        let base = Document::parse(b"{\"id\":\"a\",\"x\":2}\n".to_vec());
        let merged = String::from_utf8(versions.merge(Some(&base)).to_bytes()).unwrap();
        assert_eq!(merged, "{\"id\":\"0\"}\n{\"id\":\"a\",\"y\":1,\"x\":1}\n{\"id\":\"b\"}\n");
    }

    /// Writes a conflict of two sides as a tool writes it.
    fn written(style: usize, base: &[&str], left: &[&str], right: &[&str]) -> String {
        let line = |id: &str| format!("{{\"id\":\"{id}\"}}\n");
        let all = |ids: &[&str]| ids.iter().map(|id| line(id)).collect::<String>();
        let difference = |side: &[&str]| {
            let ids: BTreeSet<&&str> = base.iter().chain(side).collect();
            let sign = |id: &&str| match (base.contains(id), side.contains(id)) {
                (true, true) => ' ',
                (true, false) => '-',
                (false, _) => '+',
            };
            ids.into_iter().flat_map(|id| [sign(id).to_string(), line(id)]).collect::<String>()
        };
        let (base, changed, left, right) = (all(base), difference(left), all(left), all(right));
        match style {
            0 => format!("<<<<<<< git\n{left}=======\n{right}>>>>>>> git\n"),
            1 => format!("<<<<<<< diff3\n{left}||||||| base\n{base}=======\n{right}>>>>>>> diff3\n"),
            2 => format!("<<<<<<< jj\n+++++++ 1\n{left}------- base\n{base}+++++++ 2\n{right}>>>>>>> jj\n"),
            3 => format!("<<<<<<< jj\n%%%%%%% base\n{changed}+++++++ 2\n{right}>>>>>>> jj\n"),
            _ => format!("<<<<<<< hg\n------- base\n+++++++ 1\n{changed}======= 2\n{right}>>>>>>> hg\n"),
        }
    }

    fn some_ids() -> impl Strategy<Value = Vec<&'static str>> {
        prop::sample::subsequence(vec!["a", "b", "c", "d", "e"], 0..=5)
    }

    /// Returns lines, of which some are markers.
    fn some_lines() -> impl Strategy<Value = Vec<&'static str>> {
        let issues = vec!["{\"id\":\"a\"}", "{\"id\":\"b\"}", "+{\"id\":\"c\"}", " {\"id\":\"e\"}", "noise", ""];
        let markers = vec!["<<<<<<< a", "=======", ">>>>>>> c", "%%%%%%% d", "+++++++ e", "\\\\\\\\\\\\\\ g"];
        let line = prop_oneof![12 => prop::sample::select(issues), 1 => prop::sample::select(markers)];
        proptest::collection::vec(line, 0..6)
    }

    /// Puts lines into a conflict and after it: without one around them, hardly any would be read as one.
    fn surrounded(left: &[&str], right: &[&str], after: &[&str]) -> String {
        [&["<<<<<<< a"][..], left, &["======="], right, &[">>>>>>> c"], after].concat().join("\n")
    }

    #[test]
    fn most_of_the_conflicts_in_which_no_issue_may_be_lost_are_decided() {
        let (mut runner, lines) = (TestRunner::deterministic(), (some_lines(), some_lines(), some_lines()));
        let decided = (0..500).filter(|_| {
            let (left, right, after) = lines.new_tree(&mut runner).unwrap().current();
            resolved(&surrounded(&left, &right, &after)).is_some()
        });
        let decided = decided.count();
        assert!((200..500).contains(&decided), "{decided} of 500");
    }

    proptest! {
        #[test]
        fn a_conflict_keeps_the_issues_of_both_sides(
            style in 0..5_usize, base in some_ids(), left in some_ids(), right in some_ids(),
        ) {
            let conflict = written(style, &base, &left, &right);
            let text = format!("{{\"id\":\"0\"}}\n{conflict}{{\"id\":\"z\"}}\n");
            let sides: BTreeSet<&str> = left.iter().chain(&right).chain(&["0", "z"]).copied().collect();
            let expected: Vec<String> = sides.into_iter().map(|id| format!("{{\"id\":\"{id}\"}}")).collect();
            let resolved = resolved(&text).unwrap();
            let mut lines: Vec<&str> = resolved.lines().collect();
            lines.sort_unstable();
            prop_assert_eq!(lines, expected, "{}", text);
        }

        /// None of these issues can be in a base alone.
        #[test]
        fn no_issue_is_lost_whatever_the_markers(left in some_lines(), right in some_lines(), after in some_lines()) {
            let text = surrounded(&left, &right, &after);
            // A conflict that cannot be decided stays as it is, with every line.
            let document = read(Document::parse(text.clone().into_bytes()));
            let kept = String::from_utf8(document.to_bytes()).unwrap();
            for line in ["{\"id\":\"a\"}", "{\"id\":\"b\"}", "{\"id\":\"c\"}", "{\"id\":\"e\"}", "noise"] {
                prop_assert!(!text.contains(line) || kept.contains(line), "{} of {}", line, text);
            }
        }
    }
}
