//! Ledgers of other tools, our small ones and optionally real ones: every record is read and preserved.

use std::collections::{BTreeMap, BTreeSet};

use waypost_core::ledger::conflict::resolve;
use waypost_core::ledger::document::{Content, Document};
use waypost_core::ledger::issue::Issue;
use waypost_core::ledger::merge::merge;
use waypost_core::ledger::record::Record;
use waypost_testkit::{Corpus, corpora};

/// A file with its counts: records, damaged lines, conflict markers, repeated ids.
type Counts = (&'static str, usize, usize, usize, usize);

/// The files of the small corpus.
const SMALL: &[Counts] = &[
    ("bad-line.jsonl", 60, 1, 0, 0),
    ("conflict-markers.jsonl", 72, 0, 6, 12),
    ("content-hash.jsonl", 60, 0, 0, 0),
    ("database-export.jsonl", 61, 0, 0, 0),
    ("duplicate-ids.jsonl", 66, 0, 0, 6),
    ("sequential-ids.jsonl", 60, 0, 0, 0),
    ("table-dump.jsonl", 56, 0, 0, 0),
    ("tombstones.jsonl", 90, 0, 0, 0),
    ("unknown-dependencies.jsonl", 60, 0, 0, 0),
];

/// The files of the large corpus.
const LARGE: &[Counts] = &[
    ("beads-own-2025-10-19-v0.9.11-sequential-ids.jsonl", 168, 0, 0, 0),
    ("beads-own-2025-11-20-v0.24.0-content-hash.jsonl", 77, 0, 0, 0),
    ("beads-own-2026-01-06-v0.46.0-tombstones.jsonl", 980, 0, 0, 0),
    ("beads-own-2026-02-27-v0.58-dolt-export.jsonl", 704, 0, 0, 0),
    ("beads-own-2025-10-16-conflict-markers.jsonl", 679, 0, 6, 308),
    ("beads-own-2025-12-14-duplicate-ids.jsonl", 895, 0, 0, 22),
    ("beads-own-2025-10-16-bad-line.jsonl", 429, 1, 0, 0),
    ("gastown-2026-03-01-last.jsonl", 933, 0, 0, 0),
    ("gastown-2026-04-30-dolt-table-dump.jsonl", 677, 0, 0, 0),
];

fn counts(corpus: &Corpus) -> &'static [Counts] {
    if corpus.is_large { LARGE } else { SMALL }
}

fn for_each_file(check: impl Fn(&str, Vec<u8>)) {
    for corpus in corpora() {
        for name in corpus.ledgers() {
            check(&name, corpus.read(&name));
        }
    }
}

#[test]
fn b29_every_file_has_the_known_counts() {
    let all =
        corpora().into_iter().flat_map(|corpus| counts(&corpus).iter().map(move |counts| (corpus.clone(), counts)));
    for (corpus, (name, records, damaged, markers, repeated)) in all {
        let document = Document::parse(corpus.read(name));
        let count = |matches: fn(&Content) -> bool| document.contents().filter(&matches).count();
        let issues = count(|content| matches!(content, Content::Issue(_)));
        assert_eq!(issues + count(|content| *content == Content::Other), *records, "{name}");
        assert_eq!(count(|content| matches!(content, Content::Damaged(_))), *damaged, "{name}");
        assert_eq!(count(|content| *content == Content::Marker), *markers, "{name}");
        let ids: BTreeSet<Content> =
            document.contents().filter(|content| matches!(content, Content::Issue(_))).collect();
        assert_eq!(issues - ids.len(), *repeated, "{name}");
    }
}

#[test]
fn every_issue_has_fields_of_the_right_type() {
    for_each_file(|name, bytes| {
        let document = Document::parse(bytes);
        for (place, content) in document.contents().enumerate() {
            if let Content::Issue(id) = content {
                let (issue, problems) = Issue::read(&document.record(place).unwrap()).unwrap();
                assert_eq!(issue.id, id);
                // Other tools have dependency kinds of their own; any other problem is an error.
                let other: Vec<_> = problems.iter().filter(|problem| !problem.0.contains("unknown kind")).collect();
                assert!(other.is_empty(), "{name}, line {}: {other:?}", place + 1);
                assert!(issue.created_at.is_some(), "{name}, line {}", place + 1);
            }
        }
    });
}

#[test]
fn every_record_keeps_its_bytes() {
    for_each_file(|name, bytes| {
        let document = Document::parse(bytes.clone());
        assert!(document.to_bytes() == bytes, "{name}");
        for place in 0..document.len() {
            if let Ok(record) = document.record(place) {
                assert!(record.to_line().as_bytes() == document.line(place), "{name}, line {}", place + 1);
            }
        }
    });
}

#[test]
fn a_change_to_one_record_keeps_all_other_lines() {
    for_each_file(|name, bytes| {
        let document = Document::parse(bytes.clone());
        let issues: Vec<usize> = document
            .contents()
            .enumerate()
            .filter(|(_, content)| matches!(content, Content::Issue(_)))
            .map(|(place, _)| place)
            .collect();
        for place in issues.iter().step_by(19) {
            let mut changed = document.clone();
            let mut record = changed.record(*place).unwrap();
            record.set("priority", &0).unwrap();
            changed.replace(*place, &record).unwrap();
            for other in (0..document.len()).filter(|other| other != place) {
                assert!(changed.line(other) == document.line(other), "{name}");
            }
            let added = Record::parse("{\"id\":\"zz-new\",\"title\":\"new\"}").unwrap();
            changed.insert(&added).unwrap();
            assert_eq!(changed.len(), document.len() + 1, "{name}");
        }
    });
}

#[test]
fn the_list_of_files_is_complete() {
    for corpus in corpora() {
        let mut known: Vec<&str> = counts(&corpus).iter().map(|(name, ..)| *name).collect();
        known.sort_unstable();
        assert_eq!(corpus.ledgers(), known);
    }
}

/// Calls `check` for each merge, with its base, left and right version.
fn for_each_merge(check: impl Fn(&str, &Document, &Document, &Document)) {
    for corpus in corpora() {
        assert_eq!(corpus.merges().len(), 5);
        for name in corpus.merges() {
            let file = |version: &str| Document::parse(corpus.read(&format!("{name}/{version}.jsonl")));
            check(&name, &file("base"), &file("left"), &file("right"));
        }
    }
}

fn records(document: &Document) -> BTreeMap<String, Record> {
    let record = |place| match document.content(place) {
        Content::Issue(id) => Some((id, document.record(place).unwrap())),
        _ => None,
    };
    (0..document.len()).filter_map(record).collect()
}

#[test]
fn b28_merges_have_no_conflicts_and_lose_nothing() {
    for_each_merge(|name, base, left, right| {
        let merged = merge(Some(base), left, right);
        assert!(merged.to_bytes() == merge(Some(base), right, left).to_bytes(), "{name}");
        assert!(merged.contents().all(|content| matches!(content, Content::Issue(_))), "{name}");
        assert_eq!(merged.len(), records(&merged).len(), "{name}");
        let (base, left, right, merged) = (records(base), records(left), records(right), records(&merged));
        let ids: BTreeSet<&String> = left.keys().chain(right.keys()).collect();
        assert!(ids.into_iter().eq(merged.keys()), "{name}");
        for (id, record) in &merged {
            let (Some(left), Some(right)) = (left.get(id), right.get(id)) else { continue };
            let Some(before) = base.get(id) else { continue };
            for key in ["title", "description", "status", "priority", "notes", "assignee", "close_reason"] {
                let expected = match (left.raw(key) == before.raw(key), right.raw(key) == before.raw(key)) {
                    (true, _) => right.raw(key),
                    (_, true) => left.raw(key),
                    _ => continue,
                };
                // An open issue has no reason for its closing.
                if key == "close_reason" && record.text("status").as_deref() != Some("closed") {
                    continue;
                }
                assert_eq!(record.raw(key), expected, "{name}: {key} of {id}");
            }
            let is_open = ["open", "in_progress", "blocked"].contains(&record.text("status").unwrap().as_str());
            assert_eq!(record.raw("closed_at").is_none(), is_open, "{name}: {id}");
        }
    });
}

#[test]
fn b28_merging_a_merged_version_again_changes_nothing() {
    for_each_merge(|name, base, left, right| {
        let merged = merge(Some(base), left, right);
        for again in [left, right, &merged] {
            assert!(merge(Some(again), &merged, again).to_bytes() == merged.to_bytes(), "{name}");
            assert!(merge(Some(base), &merged, again).to_bytes() == merged.to_bytes(), "{name}");
        }
    });
}

#[test]
fn b29_committed_conflict_markers_are_merged_as_versions() {
    for corpus in corpora() {
        let name = corpus.ledgers().into_iter().find(|name| name.ends_with("conflict-markers.jsonl")).unwrap();
        let document = Document::parse(corpus.read(&name));
        let healed = resolve(&document).unwrap();
        assert!(healed.contents().all(|content| matches!(content, Content::Issue(_))));
        assert_eq!(healed.len(), records(&healed).len());
        assert!(records(&document).keys().eq(records(&healed).keys()));
        assert!(resolve(&healed).is_none());
    }
}
