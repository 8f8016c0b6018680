//! Replicas that edit and exchange in any order converge to the same bytes and lose no edit.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::Value;
use waypost_core::ledger::change::{self, Author, Edit};
use waypost_core::ledger::document::{Content, Document};
use waypost_core::ledger::merge::{merge, unite};
use waypost_core::ledger::record::Record;
use waypost_core::ledger::vocabulary::{DependencyKind, Statuses};
use waypost_core::ledger::{issue, mark};
use waypost_core::time::Timestamp;

/// A change to a replica. Numbers are taken modulo the number of issues.
#[derive(Clone, Debug)]
enum Act {
    Add,
    Set(&'static str),
    Clear(&'static str),
    Unknown,
    Label(u8),
    Unlabel(u8),
    Depend(u8),
    Undepend(u8),
    Comment,
    Close(bool),
    Reopen,
    Delete,
    Claim,
    Prune,
    Memory,
}

#[derive(Clone, Debug)]
struct Step {
    replica: usize,
    issue: usize,
    /// Milliseconds by which the clock advances. At 0 several changes happen at the same moment.
    wait: u8,
    act: Act,
}

fn act() -> impl Strategy<Value = Act> {
    let field = || prop::sample::select(vec!["title", "notes", "description"]);
    prop_oneof![
        2 => Just(Act::Add),
        5 => field().prop_map(Act::Set),
        2 => field().prop_filter("a title stays", |field| *field != "title").prop_map(Act::Clear),
        1 => Just(Act::Unknown),
        2 => (0..4_u8).prop_map(Act::Label),
        1 => (0..4_u8).prop_map(Act::Unlabel),
        2 => (0..4_u8).prop_map(Act::Depend),
        1 => (0..4_u8).prop_map(Act::Undepend),
        2 => Just(Act::Comment),
        3 => any::<bool>().prop_map(Act::Close),
        2 => Just(Act::Reopen),
        1 => Just(Act::Delete),
        2 => Just(Act::Claim),
        1 => Just(Act::Prune),
        1 => Just(Act::Memory),
    ]
}

fn step(replicas: usize) -> impl Strategy<Value = Step> {
    (0..replicas, 0..4_usize, 0..3_u8, act()).prop_map(|(replica, issue, wait, act)| Step { replica, issue, wait, act })
}

/// The clock of all replicas, and the number of changes so far.
struct World {
    now: i64,
    count: usize,
}

impl World {
    fn new() -> World {
        World { now: 1_767_225_600_000, count: 0 }
    }

    fn start() -> Document {
        Document::parse(
            br#"{"_type":"memory","key":"k"}
{"id":"t-0","title":"zero","status":"open","priority":2,"created_at":"2025-12-01T00:00:00Z","created_by":"x","updated_at":"2025-12-01T00:00:00Z","theirs":{"b":1.50}}
{"id":"t-1","title":"one","status":"closed","updated_at":"2025-12-02T00:00:00Z","closed_at":"2025-12-02T00:00:00Z","close_reason":"done","labels":["l0"]}
{"id":"t-2","title":"two","status":"open","priority":1,"updated_at":"2025-12-03T00:00:00Z","comments":[{"id":1,"author":"x","text":"old"}]}
"#
            .to_vec(),
        )
    }

    fn edit(&mut self, document: &mut Document, step: &Step) {
        self.count += 1;
        self.now += i64::from(step.wait);
        let statuses = Statuses::default();
        let name = format!("r{}", step.replica);
        let unique = format!("v{}", self.count);
        match step.act {
            Act::Add => {
                let author = Author { name: &name, now: Timestamp::from_millis(self.now) };
                let edit = Edit { title: Some(unique), ..Edit::default() };
                let record = change::create(&format!("n-{:03}", self.count), &edit, &statuses, author).unwrap();
                document.insert(&record).unwrap();
                return;
            }
            Act::Memory => {
                let line = format!("{{\"_type\":\"memory\",\"key\":\"{unique}\"}}\n");
                *document = Document::parse([document.to_bytes(), line.into_bytes()].concat());
                return;
            }
            Act::Prune => return prune(document),
            _ => {}
        }
        let places: Vec<usize> =
            (0..document.len()).filter(|place| matches!(document.content(*place), Content::Issue(_))).collect();
        if places.is_empty() {
            return;
        }
        let place = places[step.issue % places.len()];
        let mut record = document.record(place).unwrap();
        let before = issue::parse_time(&record.text("updated_at").unwrap()).unwrap().as_millis();
        // The clock advances between two changes of one record in one replica, but two replicas may change it at once.
        self.now = self.now.max(before + 1);
        let author = Author { name: &name, now: Timestamp::from_millis(self.now) };
        let edit = |edit: Edit, record: &mut Record| drop(change::update(record, &edit, &statuses, author));
        let text = |field: &str, value: String| match field {
            "title" => Edit { title: Some(value), ..Edit::default() },
            "notes" => Edit { notes: Some(value), ..Edit::default() },
            _ => Edit { description: Some(value), ..Edit::default() },
        };
        match step.act {
            Act::Set(field) => edit(text(field, unique), &mut record),
            Act::Clear(field) => edit(text(field, String::new()), &mut record),
            Act::Unknown => {
                record.set("theirs", &unique).unwrap();
                edit(Edit::default(), &mut record);
            }
            Act::Label(label) => edit(Edit { add_labels: vec![format!("l{label}")], ..Edit::default() }, &mut record),
            Act::Unlabel(label) => {
                edit(Edit { remove_labels: vec![format!("l{label}")], ..Edit::default() }, &mut record);
            }
            Act::Depend(on) => {
                change::depend(&mut record, &format!("d-{on}"), DependencyKind::Related, author).map(drop).unwrap();
            }
            Act::Undepend(on) => {
                change::undepend(&mut record, &format!("d-{on}"), None, author).map(drop).unwrap();
            }
            Act::Comment => change::comment(&mut record, &unique, "text", author).unwrap(),
            Act::Close(has_reason) => {
                drop(change::close(&mut record, has_reason.then_some(unique.as_str()), &statuses, author));
            }
            Act::Reopen => change::reopen(&mut record, &statuses, author).unwrap(),
            Act::Delete => change::delete(&mut record, None, author).unwrap(),
            Act::Claim => drop(change::claim(&mut record, &statuses, author)),
            Act::Add | Act::Memory | Act::Prune => {}
        }
        document.replace(place, &record).unwrap();
    }
}

/// Removes the issue that was closed first, as `way prune` does.
fn prune(document: &mut Document) {
    let closed = (0..document.len()).filter_map(|place| {
        let record = document.record(place).ok()?;
        let closed_at = issue::parse_time(&record.text("closed_at")?)?;
        (record.text("status")? == "closed").then_some((closed_at, place))
    });
    if let Some((closed_at, place)) = closed.min() {
        document.remove(place);
        mark::raise(document, Timestamp::from_millis(closed_at.as_millis() + 1)).unwrap();
    }
}

fn ids(document: &Document) -> BTreeSet<String> {
    let id = |content| if let Content::Issue(id) = content { Some(id) } else { None };
    document.contents().filter_map(id).collect()
}

fn record(document: &Document, id: &str) -> Option<Record> {
    let place = (0..document.len()).find(|place| document.content(*place) == Content::Issue(id.to_owned()))?;
    Some(document.record(place).unwrap())
}

fn text(document: &Document) -> String {
    String::from_utf8(document.to_bytes()).unwrap()
}

/// Checks the invariants of any result: consistent fields, unique ids, sorted ids.
fn check_invariants(document: &Document) -> Result<(), TestCaseError> {
    let found: Vec<String> = document
        .contents()
        .filter_map(|content| if let Content::Issue(id) = content { Some(id) } else { None })
        .collect();
    prop_assert!(found.is_sorted() && found.len() == ids(document).len(), "{}", text(document));
    for id in found {
        let record = record(document, &id).unwrap();
        let status = record.text("status").unwrap();
        let is_closed = record.raw("closed_at").is_some();
        match status.as_str() {
            "closed" => prop_assert!(is_closed, "{}", record.to_line()),
            "tombstone" => prop_assert!(record.raw("deleted_at").is_some(), "{}", record.to_line()),
            _ => prop_assert!(!is_closed && record.raw("deleted_at").is_none(), "{}", record.to_line()),
        }
    }
    Ok(())
}

proptest! {
    /// All replicas edit separately, then all versions are merged. Order and grouping do not matter.
    #[test]
    fn b28_versions_of_one_base_merge_to_the_same_bytes_in_any_order(
        steps in proptest::collection::vec(step(4), 1..24),
        order in Just((0..4_usize).collect::<Vec<_>>()).prop_shuffle(),
        other in Just((0..4_usize).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        let base = World::start();
        let mut world = World::new();
        let mut replicas = vec![base.clone(); 4];
        for step in &steps {
            world.edit(&mut replicas[step.replica], step);
        }
        let chain = |order: &[usize]| {
            let rest = order[1..].iter();
            rest.fold(replicas[order[0]].clone(), |merged, next| merge(Some(&base), &merged, &replicas[*next]))
        };
        let one = chain(&order);
        prop_assert_eq!(text(&one), text(&chain(&other)), "another order");
        let pairs = merge(
            Some(&base),
            &merge(Some(&base), &replicas[other[0]], &replicas[other[1]]),
            &merge(Some(&base), &replicas[other[2]], &replicas[other[3]]),
        );
        prop_assert_eq!(text(&one), text(&pairs), "another grouping");
        for replica in &replicas {
            prop_assert_eq!(text(&one), text(&merge(Some(replica), &one, replica)), "a merged version adds nothing");
            prop_assert_eq!(text(&one), text(&merge(Some(replica), replica, &one)), "from either side");
        }
        prop_assert_eq!(text(&one), text(&merge(Some(&base), &one, &one)));
        check_invariants(&one)?;
    }
}

/// A history as version control keeps it.
#[derive(Default)]
struct History {
    commits: Vec<(Vec<usize>, Document)>,
}

impl History {
    fn commit(&mut self, parents: Vec<usize>, document: Document) -> usize {
        self.commits.push((parents, document));
        self.commits.len() - 1
    }

    fn ancestors(&self, commit: usize) -> BTreeSet<usize> {
        let mut found = BTreeSet::new();
        let mut open = vec![commit];
        while let Some(next) = open.pop() {
            if found.insert(next) {
                open.extend(&self.commits[next].0);
            }
        }
        found
    }

    /// Returns the merge base. Several bases are merged into one, as git does it.
    fn base(&self, one: usize, other: usize) -> Document {
        let common: BTreeSet<usize> = self.ancestors(one).intersection(&self.ancestors(other)).copied().collect();
        let is_last =
            |commit: &&usize| !common.iter().any(|later| later != *commit && self.ancestors(*later).contains(commit));
        let last: Vec<usize> = common.iter().filter(is_last).copied().collect();
        let mut base = self.commits[last[0]].1.clone();
        let mut previous = last[0];
        for next in &last[1..] {
            base = merge(Some(&self.base(previous, *next)), &base, &self.commits[*next].1);
            previous = *next;
        }
        base
    }

    /// Pulls from another head: does nothing if it is an ancestor, fast-forwards, or merges.
    fn pull(&mut self, own: usize, other: usize) -> usize {
        if self.ancestors(own).contains(&other) {
            return own;
        }
        if self.ancestors(other).contains(&own) {
            return other;
        }
        let merged = merge(Some(&self.base(own, other)), &self.commits[own].1, &self.commits[other].1);
        self.commit(vec![own, other], merged)
    }
}

#[derive(Clone, Debug)]
enum Move {
    Edit(Step),
    Pull(usize, usize),
}

fn moves() -> impl Strategy<Value = (usize, Vec<Move>)> {
    (3..6_usize).prop_flat_map(|replicas| {
        let one = prop_oneof![
            3 => step(replicas).prop_map(Move::Edit),
            1 => (0..replicas, 0..replicas).prop_map(|(one, other)| Move::Pull(one, other)),
        ];
        (Just(replicas), proptest::collection::vec(one, 1..40))
    })
}

proptest! {
    /// Edits and exchanges in any order, with the merge bases that version control finds.
    #[test]
    fn b28_replicas_that_exchanged_everything_are_equal((replicas, moves) in moves()) {
        let mut world = World::new();
        let mut history = History::default();
        let root = history.commit(Vec::new(), World::start());
        let mut heads = vec![root; replicas];
        let mut seen: BTreeSet<String> = ids(&World::start());
        let mut pruned: BTreeSet<String> = BTreeSet::new();
        let mut comments: BTreeSet<String> = BTreeSet::new();
        for one in &moves {
            match one {
                Move::Edit(step) => {
                    let mut document = history.commits[heads[step.replica]].1.clone();
                    let before = ids(&document);
                    world.edit(&mut document, step);
                    seen.extend(ids(&document));
                    pruned.extend(before.difference(&ids(&document)).cloned());
                    if matches!(step.act, Act::Comment) {
                        comments.insert(format!("\"v{}\"", world.count));
                    }
                    heads[step.replica] = history.commit(vec![heads[step.replica]], document);
                }
                Move::Pull(own, other) => heads[*own] = history.pull(heads[*own], heads[*other]),
            }
        }
        for _ in 0..2 {
            for own in 0..replicas {
                for other in 0..replicas {
                    heads[own] = history.pull(heads[own], heads[other]);
                    check_invariants(&history.commits[heads[own]].1)?;
                }
            }
        }
        let last = &history.commits[heads[0]].1;
        for head in &heads {
            prop_assert_eq!(text(&history.commits[*head].1), text(last));
        }
        let lost: Vec<&String> = seen.iter().filter(|id| !ids(last).contains(*id) && !pruned.contains(*id)).collect();
        prop_assert!(lost.is_empty(), "{lost:?} of {}", text(last));
        let is_remembered = text(last).lines().any(|line| line == r#"{"_type":"memory","key":"k"}"#);
        prop_assert!(is_remembered);
        if pruned.is_empty() {
            for comment in &comments {
                prop_assert!(text(last).contains(comment), "{comment} in {}", text(last));
            }
        }
    }

    /// A field that only one replica changed has the value of that replica.
    #[test]
    fn b28_a_change_of_one_side_arrives(steps in proptest::collection::vec(step(2), 1..12)) {
        let base = World::start();
        let mut world = World::new();
        let mut sides = [base.clone(), base.clone()];
        for step in &steps {
            world.edit(&mut sides[step.replica], step);
        }
        let merged = merge(Some(&base), &sides[0], &sides[1]);
        prop_assert_eq!(text(&merged), text(&merge(Some(&base), &sides[1], &sides[0])));
        for id in ids(&merged) {
            let [before, left, right] = [&base, &sides[0], &sides[1]].map(|document| record(document, &id));
            let after = record(&merged, &id).unwrap();
            let (Some(before), Some(left), Some(right)) = (before, left, right) else { continue };
            for key in ["title", "notes", "description", "status", "assignee", "theirs"] {
                let expected = match (left.raw(key) == before.raw(key), right.raw(key) == before.raw(key)) {
                    (true, _) => right.raw(key),
                    (_, true) => left.raw(key),
                    _ => continue,
                };
                prop_assert_eq!(after.raw(key), expected, "{} of {}", key, after.to_line());
            }
        }
    }

    /// Without a base, the result has the values of all versions.
    #[test]
    fn b28_versions_without_a_base_unite_to_the_same_in_any_order_and_grouping(
        steps in proptest::collection::vec(step(4), 1..16),
        order in Just((0..4_usize).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        let mut world = World::new();
        let mut replicas = vec![World::start(); 4];
        for step in steps.iter().filter(|step| !matches!(step.act, Act::Prune)) {
            world.edit(&mut replicas[step.replica], step);
        }
        for id in ["t-0", "t-1", "t-2"] {
            let versions: Vec<Record> = order.iter().map(|replica| record(&replicas[*replica], id).unwrap()).collect();
            let all = unite(&versions.iter().collect::<Vec<_>>());
            let [one, two, three, four] = [&versions[0], &versions[1], &versions[2], &versions[3]];
            prop_assert_eq!(all.to_line(), unite(&[four, three, two, one]).to_line());
            prop_assert_eq!(all.to_line(), unite(&[&unite(&[one, two]), &unite(&[three, four])]).to_line());
            prop_assert_eq!(all.to_line(), unite(&[one, &unite(&[two, &unite(&[four, three])])]).to_line());
            prop_assert_eq!(all.to_line(), unite(&[&all, two]).to_line(), "again");
            for version in &versions {
                for (key, raw) in version.fields().filter(|(key, _)| ["title", "notes", "theirs"].contains(key)) {
                    let value: Value = serde_json::from_str(raw).unwrap();
                    let shown = value.as_str().map_or_else(|| raw.replace('"', "\\\""), str::to_owned);
                    let is_kept = all.raw(key) == Some(raw) || all.to_line().contains(&shown);
                    prop_assert!(is_kept, "{}: {} in {}", key, shown, all.to_line());
                }
            }
        }
    }

    /// Merging any files does not fail, does not depend on the side and loses no issue.
    #[test]
    fn b28_any_three_files_merge(base in file(), left in file(), right in file(), has_base in any::<bool>()) {
        let [base, left, right] = [base, left, right].map(Document::parse);
        let base = has_base.then_some(&base);
        let merged = merge(base, &left, &right);
        let shown = |document: &Document| String::from_utf8_lossy(&document.to_bytes()).into_owned();
        prop_assert_eq!(shown(&merged), shown(&merge(base, &right, &left)));
        let all: BTreeSet<String> = ids(&left).union(&ids(&right)).cloned().collect();
        prop_assert_eq!(ids(&merged), all);
        prop_assert_eq!(merge(base, &left, &left).to_bytes(), left.to_bytes());
    }
}

#[test]
fn empty_values_with_two_spellings_merge_to_the_same_from_either_side() {
    let left = r#"{"id":"b","status":[1,"a",{}],"updated_at":"2026-01-01T00:00:00Z"}
{"id":"b"}"#;
    let right = r#"{"id":"b","status":"","updated_at":"2026-01-01T00:00:00Z"}"#;
    let [left, right] = [left, right].map(|text| Document::parse(text.as_bytes().to_vec()));
    assert_eq!(merge(None, &left, &right).to_bytes(), merge(None, &right, &left).to_bytes());
}

/// Generates files with lines of all kinds.
fn file() -> impl Strategy<Value = Vec<u8>> {
    let value = prop::sample::select(vec![
        "null",
        "1",
        "1.0",
        "\"\"",
        "\"open\"",
        "\"closed\"",
        "[]",
        "[1,\"a\",{}]",
        "[{\"id\":1}]",
        "[{\"id\":1,\"text\":5}]",
        "{\"k\":2}",
        "\"2026-01-01T00:00:00Z\"",
        "\"2026-01-01T01:00:00+01:00\"",
    ]);
    let key = prop::sample::select(vec![
        "status",
        "labels",
        "comments",
        "dependencies",
        "updated_at",
        "closed_at",
        "title",
        "theirs",
        "changed_at",
    ]);
    let issue = ("[a-c]", proptest::collection::btree_map(key, value, 0..4)).prop_map(|(id, fields)| {
        let mut all = vec![format!("\"id\":\"{id}\"")];
        all.extend(fields.iter().map(|(key, value)| format!("\"{key}\":{value}")));
        format!("{{{}}}", all.join(",")).into_bytes()
    });
    let line = prop_oneof![
        6 => issue,
        1 => Just(b"{\"_type\":\"memory\"}".to_vec()),
        1 => Just(b"<<<<<<< HEAD".to_vec()),
        1 => Just(Vec::new()),
        1 => proptest::collection::vec(any::<u8>().prop_filter("one line", |byte| *byte != b'\n'), 0..8),
    ];
    (proptest::collection::vec((line, prop_oneof![3 => Just("\n"), 1 => Just("\r\n")]), 0..8), any::<bool>()).prop_map(
        |(lines, is_ended)| {
            let mut bytes: Vec<u8> =
                lines.iter().flat_map(|(line, ending)| [line.as_slice(), ending.as_bytes()].concat()).collect();
            if !is_ended {
                bytes.pop();
            }
            bytes
        },
    )
}
