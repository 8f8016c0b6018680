//! Ledgers: files that come with a repository and with every pull.

use std::collections::BTreeSet;

use waypost_core::ledger::appended::is_appended;
use waypost_core::ledger::document::{Content, Document};
use waypost_core::ledger::issue::Issue;
use waypost_core::ledger::merge::merge;
use waypost_core::ledger::record::Record;
use waypost_core::ledger::{audit, conflict as conflicts};

use crate::{parts, with_text};

/// Returns whether some lines are appended changes, which reading puts in their places, or look like one.
fn has_appended(data: &[u8]) -> bool {
    data.split(|byte| *byte == b'\n').any(is_appended)
}

/// Reading changes no byte, and a change rewrites its own line and no other byte.
pub(crate) fn document(data: &[u8]) {
    let document = Document::parse(data.to_vec());
    if has_appended(data) {
        let _ = audit::audit(&document);
        assert_eq!(ids(&Document::parse(document.to_bytes())), ids(&document));
        return;
    }
    assert_eq!(document.to_bytes(), data);
    assert_eq!(document.parts().concat(), data);
    let _ = audit::audit(&document);
    for place in 0..document.len() {
        if !matches!(document.content(place), Content::Issue(_)) {
            continue;
        }
        let mut record = document.record(place).expect("an issue is a record");
        record.set("title", &"another title").expect("a record takes a title");
        let mut changed = document.clone();
        if changed.replace(place, &record).is_err() {
            continue;
        }
        let again = Document::parse(changed.to_bytes());
        assert_eq!(again.len(), document.len());
        for other in (0..document.len()).filter(|other| *other != place) {
            assert_eq!(again.line(other), document.line(other));
        }
        assert_eq!(again.content(place), document.content(place), "the id stays");
        assert_eq!(again.record(place).expect("it is a record").text("title").as_deref(), Some("another title"));
    }
}

/// A line that was parsed is written in one line, and reads the same again.
pub(crate) fn record(data: &[u8]) {
    with_text(data, |line| {
        if line.contains(['\n', '\r']) {
            return;
        }
        let Ok(record) = Record::parse(line) else { return };
        let written = record.to_line();
        assert!(!written.contains(['\n', '\r']), "{written:?}");
        let again = Record::parse(&written).expect("a written record is a record");
        assert_eq!(again.to_line(), written);
        assert_eq!(again.fields().collect::<Vec<_>>(), record.fields().collect::<Vec<_>>());
        let _ = Issue::read(&record);
    });
}

fn ids(document: &Document) -> BTreeSet<String> {
    document
        .contents()
        .filter_map(|content| match content {
            Content::Issue(id) => Some(id),
            _ => None,
        })
        .collect()
}

/// A merge loses no issue, is the same from both sides, and merging its result again changes nothing.
pub(crate) fn merged(data: &[u8]) {
    let [base, left, right] = parts(data).map(|part| Document::parse(part.to_vec()));
    for base in [Some(&base), None] {
        let result = merge(base, &left, &right);
        let expected: BTreeSet<String> = ids(&left).union(&ids(&right)).cloned().collect();
        assert_eq!(ids(&result), expected);
        assert_eq!(ids(&merge(base, &right, &left)), expected);
        let written = result.to_bytes();
        assert_eq!(merge(base, &result, &result).to_bytes(), written);
    }
}

/// Versions between conflict markers are merged, and their markers are gone; others stay.
pub(crate) fn conflict(data: &[u8]) {
    let document = Document::parse(data.to_vec());
    let Some(resolved) = conflicts::resolve(&document) else { return };
    let markers = |document: &Document| document.contents().filter(|content| *content == Content::Marker).count();
    assert!(markers(&resolved) < markers(&document));
    if !has_appended(data) {
        assert_eq!(Document::parse(resolved.to_bytes()).to_bytes(), resolved.to_bytes());
    }
    let _ = conflicts::versions(&document).map(|versions| versions.conflicting_issues());
}
