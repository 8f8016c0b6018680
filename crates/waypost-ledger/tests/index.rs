//! The index matches the files, whatever happens to either.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use proptest::prelude::*;
use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags};
use waypost_core::ledger::document::Document;
use waypost_core::ledger::merge;
use waypost_core::ledger::record::Record;
use waypost_core::ledger::vocabulary::Terms;
use waypost_core::time::Timestamp;
use waypost_core::{Error, Result};
use waypost_fs::PrivateDir;
use waypost_ledger::{COMMON_WORDS, Counts, Filter, LedgerFile, Ledgers, Sort, Window};
use waypost_testkit::temp_dir;

const NOW: Timestamp = Timestamp::from_millis(1_767_225_600_000);

/// Returns ledgers in a directory, with an index of this name.
fn ledgers(dir: &Path, index: &str) -> Ledgers {
    let private = PrivateDir::from(dir.join("private")).with_user_dir(Some(dir.join("home")));
    // A test may have put something else in its place.
    let _ = private.create();
    let file = |name: &str| {
        LedgerFile::new(dir.join("tree").join(name), private.clone(), &format!("{name}.lock"), Duration::from_secs(20))
    };
    fs::create_dir_all(dir.join("tree")).unwrap();
    Ledgers::new(vec![file("one.jsonl"), file("two.jsonl")], dir.join("private").join(index), Terms::default())
}

/// Returns the content of an index that does not depend on its history.
fn dump(index: &Path) -> Vec<Vec<Value>> {
    let connection = Connection::open_with_flags(index, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let mut rows = Vec::new();
    for query in [
        "SELECT id, (SELECT raw FROM line WHERE line.line = issue.line), title, status, category, priority, issue_type, \
         assignee, created_at, updated_at, closed_at, due_at, defer_until, parent_id, labels, is_pinned, urgency, \
         is_ready, waits_for, is_held, wakes_at, freed_at FROM issue ORDER BY id",
        "SELECT id, other, kind FROM edge ORDER BY 1, 2, 3",
        "SELECT kind, value, ledger, number FROM counter ORDER BY 1, 2, 3",
        "SELECT ledger, id, rank, raw FROM line ORDER BY 1, 2, 3, 4",
        "SELECT ledger, unread, length(marks) / 16 FROM ledger JOIN mark USING (ledger) ORDER BY 1",
    ] {
        let mut statement = connection.prepare(query).unwrap();
        let columns = statement.column_count();
        let found = statement.query_map([], |row| (0..columns).map(|column| row.get(column)).collect()).unwrap();
        rows.extend(found.map(|row: rusqlite::Result<Vec<Value>>| row.unwrap()));
    }
    rows
}

/// Checks that the full-text index has all lines up to its progress number, and no removed ones.
fn check_texts(index: &Path) {
    let connection = Connection::open_with_flags(index, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let count = |query: &str| connection.query_row(query, [], |row| row.get::<_, i64>(0));
    if let Ok(texts) = count("SELECT count(*) FROM text_docsize") {
        assert_eq!(texts, count("SELECT count(*) FROM line WHERE line <= (SELECT searched FROM about)").unwrap());
    }
}

/// Counts all issues of an index, or those of one ledger, without its counters.
fn recount(index: &Path, ledger: Option<usize>) -> (Counts, Vec<(String, usize)>) {
    let connection = Connection::open_with_flags(index, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let only = ledger.map_or(String::new(), |ledger| format!(" AND ledger = {ledger}"));
    let (mut counts, mut labels) = (Counts::default(), BTreeMap::new());
    let by = |column: &str, condition: &str| {
        let sql = format!("SELECT {column}, count(*) FROM issue WHERE {condition}{only} GROUP BY 1 ORDER BY 1");
        let mut statement = connection.prepare(&sql).unwrap();
        let found = statement.query_map([], |row| Ok((row.get::<_, Value>(0)?, row.get::<_, usize>(1)?))).unwrap();
        found.collect::<rusqlite::Result<Vec<(Value, usize)>>>().unwrap()
    };
    let text = |value: Value| match value {
        Value::Text(text) => text,
        other => format!("{other:?}"),
    };
    let number = |condition: &str| by("1", condition).into_iter().map(|(_, number)| number).sum::<usize>();
    counts.by_status = by("status", "TRUE").into_iter().map(|(status, number)| (text(status), number)).collect();
    counts.open_by_type =
        by("issue_type", "category < 3").into_iter().map(|(kind, number)| (text(kind), number)).collect();
    for (priority, number) in by("priority", "category < 3") {
        let Value::Integer(priority) = priority else { panic!("{priority:?}") };
        counts.open_by_priority.push((u8::try_from(priority).unwrap(), number));
    }
    let now = NOW.as_millis();
    counts.ready = number(&format!("is_ready AND not_work IS NULL AND (wakes_at IS NULL OR wakes_at <= {now})"));
    counts.blocked = number(&format!("category < 3 AND (waits_for > 0 OR is_held OR freed_at > {now})"));
    for (line, number) in by("labels", "category < 3 AND labels != ''") {
        for label in text(line).trim_matches('\n').split('\n') {
            *labels.entry(label.to_owned()).or_default() += number;
        }
    }
    (counts, labels.into_iter().collect())
}

/// Checks that the list of labels has the labels of all issues.
fn check_labels(index: &Path) {
    let connection = Connection::open_with_flags(index, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let pairs = |query: &str| {
        let mut statement = connection.prepare(query).ok()?;
        let found = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        Some(found.collect::<rusqlite::Result<Vec<(String, String)>>>().unwrap())
    };
    let Some(listed) = pairs("SELECT id, label FROM label ORDER BY 1, 2") else { return };
    let issues = pairs("SELECT id, labels FROM issue WHERE labels != ''").unwrap();
    let labels = |(id, labels): (String, String)| {
        let labels = labels.trim_matches('\n').to_owned();
        labels.split('\n').map(|label| (id.clone(), label.to_owned())).collect::<Vec<_>>()
    };
    let mut expected: Vec<(String, String)> = issues.into_iter().flat_map(labels).collect();
    expected.sort();
    expected.dedup();
    assert_eq!(listed, expected);
}

/// Checks that the counters of an index equal a count of all its issues.
fn check_counters(ledgers: &Ledgers, index: &Path) {
    for ledger in [None, Some(0), Some(1)] {
        let kept = ledgers.with_index(NOW, |index| {
            index.narrow(ledger);
            let kept = index.counts(NOW).and_then(|counts| Ok((counts, index.labels()?)));
            index.narrow(None);
            kept
        });
        assert_eq!(kept.unwrap(), recount(index, ledger), "{ledger:?}");
    }
}

/// Compares the index with one built from scratch.
fn check(dir: &Path) {
    let kept = ledgers(dir, "kept.db");
    let searched = kept.with_index(NOW, |index| index.search(&["word".to_owned()], None)).unwrap();
    let ready = kept.with_index(NOW, |index| index.ready(NOW, None)).unwrap();
    let new = ledgers(dir, "new.db");
    let _ = fs::remove_file(dir.join("private/new.db"));
    let ids = |found: &[waypost_ledger::Summary]| found.iter().map(|one| one.id.clone()).collect::<Vec<_>>();
    assert_eq!(ids(&ready), ids(&new.with_index(NOW, |index| index.ready(NOW, None)).unwrap()));
    let mut words =
        [ids(&searched), ids(&new.with_index(NOW, |index| index.search(&["word".to_owned()], None)).unwrap())];
    for words in &mut words {
        words.sort();
    }
    assert_eq!(words[0], words[1]);
    if !["kept.db", "new.db"].iter().all(|name| dir.join("private").join(name).exists()) {
        assert!(ids(&ready).is_empty(), "an index exists unless there are no issues");
        return;
    }
    check_texts(&dir.join("private/kept.db"));
    check_labels(&dir.join("private/kept.db"));
    check_counters(&kept, &dir.join("private/kept.db"));
    check_counters(&new, &dir.join("private/new.db"));
    let (kept, new) = (dump(&dir.join("private/kept.db")), dump(&dir.join("private/new.db")));
    for (kept, new) in kept.iter().zip(&new) {
        assert_eq!(kept, new);
    }
    assert_eq!(kept.len(), new.len());
}

#[derive(Clone, Debug)]
enum Step {
    /// Waypost adds or changes a record.
    Write(usize, String),
    /// Waypost removes a record.
    Remove(usize, usize),
    /// Another program inserts a line, in place or by renaming.
    Insert(usize, usize, String, bool),
    /// Another program removes a line.
    Delete(usize, usize, bool),
    /// Another program reverses the lines.
    Reverse(usize),
    /// Another program truncates a file.
    Cut(usize, usize),
    /// A search adds the texts to the index.
    Search,
    /// The version of a file is committed.
    Commit(usize),
    /// Another program checks out the committed version of a file.
    Checkout(usize),
    /// Waypost merges the committed version of a file into the current one.
    Merge(usize),
    /// The index is deleted, and the next reader rebuilds it.
    Rebuild,
}

/// Generates a record with one of few ids and all fields that readiness depends on.
fn record() -> impl Strategy<Value = String> {
    let id = || "[a-f]";
    let status = prop_oneof![3 => Just("open"), 1 => Just("closed"), 1 => Just("in_progress"), 1 => Just("deferred"), 1 => Just("tombstone")];
    let kind = prop_oneof![4 => Just("blocks"), 1 => Just("parent-child"), 1 => Just("related"), 1 => Just("odd")];
    let optional = proptest::option::weighted(0.3, 0_u32..3);
    (
        id(),
        status,
        prop_oneof![Just("task"), Just("epic")],
        proptest::collection::vec((id(), kind), 0..3),
        proptest::option::weighted(0.4, id()),
        optional,
        0_u8..5,
        proptest::collection::vec("[xy]|discovered:blocker|no-auto-claim", 0..2),
        "|word|other word",
    )
        .prop_map(|(id, status, kind, edges, parent, year, priority, labels, text)| {
            let edges: Vec<_> = edges
                .into_iter()
                .map(|(other, kind)| serde_json::json!({ "depends_on_id": other, "type": kind }))
                .collect();
            let mut record = serde_json::json!({
                "id": id, "title": format!("{id} {text}"), "status": status, "issue_type": kind, "priority": priority,
                "dependencies": edges, "labels": labels,
            });
            if let Some(parent) = parent {
                record["parent_id"] = parent.into();
            }
            if let Some(year) = year {
                // Before, at and after the time of the query.
                record["defer_until"] = format!("{}-01-01T00:00:00Z", 2025 + year).into();
                record["updated_at"] = format!("{}-01-01T00:00:00Z", 2020 + year).into();
            }
            record.to_string()
        })
}

fn line() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => record(),
        1 => Just("<<<<<<< HEAD".to_owned()),
        1 => Just(String::new()),
        1 => Just("{\"_type\":\"memory\"}".to_owned()),
        1 => Just("{\"id\":\"a\",".to_owned()),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..2_usize, record()).prop_map(|(file, record)| Step::Write(file, record)),
        1 => (0..2_usize, 0..6_usize).prop_map(|(file, number)| Step::Remove(file, number)),
        4 => (0..2_usize, 0..9_usize, line(), any::<bool>()).prop_map(|(file, at, line, in_place)| Step::Insert(file, at, line, in_place)),
        2 => (0..2_usize, 0..9_usize, any::<bool>()).prop_map(|(file, at, in_place)| Step::Delete(file, at, in_place)),
        1 => (0..2_usize).prop_map(Step::Reverse),
        1 => (0..2_usize, 0..400_usize).prop_map(|(file, at)| Step::Cut(file, at)),
        1 => Just(Step::Search),
        2 => (0..2_usize).prop_map(Step::Commit),
        1 => (0..2_usize).prop_map(Step::Checkout),
        1 => (0..2_usize).prop_map(Step::Merge),
        1 => Just(Step::Rebuild),
    ]
}

fn edit_by_hand(path: &Path, in_place: bool, change: impl FnOnce(&mut Vec<String>)) {
    let mut lines: Vec<String> = fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect();
    change(&mut lines);
    lines.push(String::new());
    write(path, in_place, lines.join("\n").as_bytes());
}

#[expect(clippy::disallowed_methods, reason = "acts as a program that does not use our lock")]
fn write(path: &Path, in_place: bool, bytes: &[u8]) {
    if in_place {
        fs::write(path, bytes).unwrap();
    } else {
        let other = path.with_extension("other");
        fs::write(&other, bytes).unwrap();
        fs::rename(&other, path).unwrap();
    }
}

#[expect(clippy::disallowed_methods, reason = "removes a directory of this test")]
fn remove(dir: &Path) {
    fs::remove_dir_all(dir).unwrap();
}

fn run_step(ledgers: &Ledgers, step: &Step) {
    let path = |file: &usize| ledgers.files()[*file].path().to_owned();
    match step {
        Step::Write(file, line) => {
            let new = Record::parse(line).unwrap();
            let id = new.text("id").unwrap();
            let written = ledgers.change(*file, NOW, |draft| match draft.issues().get(&id)? {
                None => draft.add(&new),
                Some(entry) if entry.ledger == *file => draft
                    .edit(&id, |record| {
                        *record = new.clone();
                        Ok(())
                    })
                    .map(drop),
                Some(_) => Err(Error::conflict("the issue is in the other ledger")),
            });
            if written.is_ok() {
                let file = Document::parse(fs::read(path(file)).unwrap());
                let has_change = |line: &[u8]| Record::parse(str::from_utf8(line).unwrap()).is_ok_and(|now| now == new);
                assert!(file.lines().any(has_change), "{file:?}");
            }
        }
        Step::Remove(file, number) => {
            let removed: Result<()> = ledgers.change(*file, NOW, |draft| {
                let all = draft.issues().list(&Filter { closed: true, ..Filter::default() }, Sort::Id, false, None)?;
                let Some(one) = all.get(*number) else { return Ok(()) };
                match draft.issues().get(&one.id)? {
                    Some(entry) if entry.ledger == *file => draft.remove(&one.id),
                    _ => Ok(()),
                }
            });
            removed.unwrap();
        }
        Step::Insert(file, at, line, in_place) => edit_by_hand(&path(file), *in_place, |lines| {
            lines.insert((*at).min(lines.len()), line.clone());
        }),
        Step::Delete(file, at, in_place) => edit_by_hand(&path(file), *in_place, |lines| {
            if *at < lines.len() {
                lines.remove(*at);
            }
        }),
        Step::Reverse(file) => edit_by_hand(&path(file), false, |lines| lines.reverse()),
        Step::Cut(file, at) => {
            let bytes = fs::read(path(file)).unwrap_or_default();
            write(&path(file), true, &bytes[..(*at).min(bytes.len())]);
        }
        Step::Search => ledgers.make_searchable(NOW, || {}).unwrap(),
        Step::Commit(file) => {
            let committed = path(file).with_extension("committed");
            write(&committed, false, &fs::read(path(file)).unwrap_or_default());
        }
        Step::Checkout(file) => {
            if let Ok(committed) = fs::read(path(file).with_extension("committed")) {
                write(&path(file), false, &committed);
            }
        }
        Step::Merge(file) => {
            let committed = Document::parse(fs::read(path(file).with_extension("committed")).unwrap_or_default());
            let merge =
                |current: &[u8]| Ok(merge::merge(None, &Document::parse(current.to_vec()), &committed).to_bytes());
            // A file with conflict markers cannot be merged, which does not matter here.
            drop(ledgers.files()[*file].rewrite(merge));
        }
        Step::Rebuild => drop(fs::remove_file(ledgers.files()[0].path().with_file_name("../private/kept.db"))),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    #[test]
    fn an_updated_index_equals_a_rebuilt_one(steps in proptest::collection::vec(step(), 1..12)) {
        let dir = temp_dir();
        let ledgers = ledgers(dir.path(), "kept.db");
        for step in &steps {
            run_step(&ledgers, step);
            check(dir.path());
        }
    }
}

fn titles(ledgers: &Ledgers) -> Vec<String> {
    let all = Filter { closed: true, ..Filter::default() };
    let found = ledgers.with_index(NOW, |index| index.list(&all, Sort::Id, false, None)).unwrap();
    found.into_iter().map(|one| one.title).collect()
}

fn line_of(id: usize, title: &str) -> String {
    format!("{{\"id\":\"a-{id:05}\",\"title\":\"{title}\"}}")
}

/// Writes a ledger that is large enough for an index of many pages.
fn write_large_ledger(dir: &Path) -> PathBuf {
    let path = dir.join("tree/one.jsonl");
    fs::create_dir_all(dir.join("tree")).unwrap();
    let text: String = (0..2_000).map(|number| line_of(number, &format!("issue {number}")) + "\n").collect();
    write(&path, true, text.as_bytes());
    path
}

#[test]
fn an_edit_of_the_same_size_is_seen_at_once() {
    let dir = temp_dir();
    let ledgers = ledgers(dir.path(), "kept.db");
    let path = ledgers.files()[0].path().to_owned();
    for round in 0..500 {
        write(&path, true, line_of(1, &format!("{round:04}")).as_bytes());
        assert_eq!(titles(&ledgers), [format!("{round:04}")]);
    }
}

#[test]
fn a_missing_foreign_or_damaged_index_changes_no_answer() {
    let dir = temp_dir();
    fs::create_dir_all(dir.path().join("tree")).unwrap();
    write_large_ledger(dir.path());
    let index = dir.path().join("private/kept.db");
    let answer = titles(&ledgers(dir.path(), "kept.db"));
    assert_eq!(answer.len(), 2_000);
    let whole = fs::read(&index).unwrap();
    // Pseudo-random bytes with a fixed seed.
    let mut state = 7_u64;
    let mut random = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33).to_le_bytes()[0]
    };
    let noise: Vec<u8> = (0..whole.len()).map(|_| random()).collect();
    let mut holes = whole.clone();
    for byte in holes.iter_mut().skip(4_096).step_by(977) {
        *byte = random();
    }
    for (what, bytes) in [
        ("nothing", Vec::new()),
        ("random bytes", noise.clone()),
        ("half of it", whole[..whole.len() / 2].to_vec()),
        ("its head and then random bytes", [&whole[..100], &noise[100..]].concat()),
        ("its first page and then random bytes", [&whole[..4_096], &noise[4_096..]].concat()),
    ] {
        write(&index, true, &bytes);
        assert_eq!(titles(&ledgers(dir.path(), "kept.db")), answer, "{what}");
        write(&index, true, &bytes);
        let ledgers = ledgers(dir.path(), "kept.db");
        let new = Record::parse(&line_of(99_999, what)).unwrap();
        ledgers.change(0, NOW, |draft| draft.add(&new)).unwrap();
        assert_eq!(titles(&ledgers).len(), 2_001, "{what}");
        ledgers.change(0, NOW, |draft| draft.remove("a-99999")).unwrap();
        check(dir.path());
    }
    fs::remove_file(&index).unwrap();
    fs::create_dir(&index).unwrap();
    assert_eq!(titles(&ledgers(dir.path(), "kept.db")), answer, "a directory");
    fs::remove_file(&index).expect("the index replaced the directory");

    let foreign = Connection::open(&index).unwrap();
    foreign.execute_batch("CREATE TABLE about (identity, salt); INSERT INTO about VALUES ('another', 1)").unwrap();
    drop(foreign);
    assert_eq!(titles(&ledgers(dir.path(), "kept.db")), answer, "a database of another schema");
    check(dir.path());
}

#[test]
fn a_process_that_has_the_index_open_does_not_read_what_a_killed_one_left_of_it() {
    let dir = temp_dir();
    fs::create_dir_all(dir.path().join("tree")).unwrap();
    write_large_ledger(dir.path());
    let (index, open) = (dir.path().join("private/kept.db"), ledgers(dir.path(), "kept.db"));
    assert_eq!(titles(&open).len(), 2_000);
    // Another process changed the ledger, and died when it had written some pages of the index: the link was gone.
    let new = Record::parse(&line_of(99_999, "new")).unwrap();
    ledgers(dir.path(), "other.db").change(0, NOW, |draft| draft.add(&new)).unwrap();
    let file = index.with_file_name(fs::read_link(&index).unwrap());
    let mut pages = fs::read(&file).unwrap();
    let half = pages.len() / 2;
    pages[half..].fill(b'x');
    write(&file, true, &pages);
    fs::remove_file(&index).unwrap();
    assert_eq!(titles(&open).len(), 2_001);
    check(dir.path());
}

#[test]
fn an_older_copy_of_the_index_is_brought_up_to_date() {
    let dir = temp_dir();
    let ledgers = ledgers(dir.path(), "kept.db");
    let index = dir.path().join("private/kept.db");
    let file = write_large_ledger(dir.path());
    assert_eq!(titles(&ledgers).len(), 2_000);
    let older = fs::read(&index).unwrap();
    edit_by_hand(&file, false, |lines| {
        lines.truncate(1_990);
        lines.push(line_of(77_777, "new"));
    });
    assert_eq!(titles(&ledgers).len(), 1_991);
    for in_place in [true, false] {
        write(&index, in_place, &older);
        check(dir.path());
        assert_eq!(titles(&self::ledgers(dir.path(), "kept.db")).len(), 1_991);
    }
}

#[test]
fn an_index_removed_or_replaced_while_it_is_open_changes_no_answer() {
    let dir = temp_dir();
    let ledgers = ledgers(dir.path(), "kept.db");
    let file = write_large_ledger(dir.path());
    let private = dir.path().join("private");
    for round in 0..20 {
        assert_eq!(titles(&ledgers).len(), 2_000 + round);
        if round % 2 == 0 {
            remove(&private);
        } else {
            write(&private.join("kept.db"), round % 4 == 1, b"not a database");
        }
        edit_by_hand(&file, true, |lines| lines.push(line_of(50_000 + round, "more")));
        let new = Record::parse(&line_of(60_000 + round, "by us")).unwrap();
        ledgers.change(0, NOW, |draft| draft.add(&new)).unwrap();
        ledgers.change(0, NOW, |draft| draft.remove(&format!("a-{}", 60_000 + round))).unwrap();
    }
}

#[test]
fn a_process_with_an_older_index_open_does_not_see_changes_of_a_newer_one() {
    let dir = temp_dir();
    let older = ledgers(dir.path(), "kept.db");
    write_large_ledger(dir.path());
    // Each query opens the index again until the stamps are old enough to be trusted.
    while older.state().is_none() {
        assert_eq!(titles(&older).len(), 2_000);
    }
    let serial = older.state();
    let terms = Terms { ignore_unresolved: true, ..Terms::default() };
    let newer = Ledgers::new(older.files().to_vec(), dir.path().join("private/kept.db"), terms);
    newer
        .change(0, NOW, |draft| {
            for number in (0..2_000).step_by(7) {
                draft.edit(&format!("a-{number:05}"), |record| record.set("title", &"changed"))?;
            }
            // The change is open, with its journal on disk.
            let seen = titles(&older);
            assert_eq!(seen.len(), 2_000);
            assert!(seen.iter().all(|title| title.starts_with("issue ")), "{seen:?}");
            draft.discard();
            Ok(())
        })
        .unwrap();
    assert_eq!(older.state(), serial, "the older index is still open");
    assert_eq!(titles(&newer).len(), 2_000);
}

#[test]
fn a_ledger_that_became_a_dangling_link_is_an_error_and_not_empty() {
    let dir = temp_dir();
    let ledgers = ledgers(dir.path(), "kept.db");
    let path = ledgers.files()[0].path().to_owned();
    write(&path, true, line_of(1, "x").as_bytes());
    assert_eq!(titles(&ledgers).len(), 1);
    fs::remove_file(&path).unwrap();
    assert!(titles(&ledgers).is_empty());
    for target in ["nowhere", "one.jsonl"] {
        std::os::unix::fs::symlink(target, &path).unwrap();
        assert!(ledgers.with_index(NOW, |index| index.ready(NOW, None)).is_err(), "{target}");
        assert!(
            self::ledgers(dir.path(), "kept.db").with_index(NOW, |index| index.ready(NOW, None)).is_err(),
            "{target}"
        );
        fs::remove_file(&path).unwrap();
    }
}

#[test]
fn a_panic_in_a_query_does_not_harm_the_index() {
    let dir = temp_dir();
    let ledgers = ledgers(dir.path(), "kept.db");
    write_large_ledger(dir.path());
    assert_eq!(titles(&ledgers).len(), 2_000);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _: Result<()> = ledgers.with_index(NOW, |_| panic!("on purpose"));
    }));
    assert!(panicked.is_err());
    let before = fs::read_link(dir.path().join("private/kept.db")).unwrap();
    assert_eq!(titles(&ledgers).len(), 2_000);
    assert_eq!(fs::read_link(dir.path().join("private/kept.db")).unwrap(), before, "the index was not rebuilt");
}

#[test]
fn ledgers_are_readable_if_the_index_cannot_be_written() {
    let dir = temp_dir();
    write_large_ledger(&{
        fs::create_dir_all(dir.path().join("tree")).unwrap();
        dir.path().to_owned()
    });
    // A file in the place of the index directory blocks even root.
    write(&dir.path().join("private"), true, b"");
    let ledgers = ledgers(dir.path(), "kept.db");
    assert_eq!(titles(&ledgers).len(), 2_000);
    let state = ledgers.state();
    assert_eq!(titles(&ledgers).len(), 2_000);
    assert!(state.is_none() || state == ledgers.state(), "the index in memory is reused");
    assert_eq!(
        ledgers.with_index(NOW, |index| index.search(&["issue".to_owned(), "1999".to_owned()], None)).unwrap().len(),
        1
    );
}

#[test]
fn concurrent_changes_are_all_kept() {
    let dir = temp_dir();
    let ledgers = ledgers(dir.path(), "kept.db");
    std::thread::scope(|scope| {
        for worker in 0..8 {
            let own = self::ledgers(dir.path(), "kept.db");
            scope.spawn(move || {
                for number in 0..25 {
                    let new = Record::parse(&line_of(worker * 25 + number, "x")).unwrap();
                    own.change(0, NOW, |draft| draft.add(&new)).unwrap();
                    own.with_index(NOW, |index| index.ready(NOW, None)).unwrap();
                }
            });
        }
    });
    assert_eq!(titles(&ledgers).len(), 200);
    check(dir.path());
    assert_eq!(fs::read_dir(dir.path().join("tree")).unwrap().count(), 1, "no file beside the ledger");
}

/// Changes the title of an issue, or adds the issue.
fn put(ledgers: &Ledgers, id: usize, title: &str) {
    let new = Record::parse(&line_of(id, title)).unwrap();
    let id = format!("a-{id:05}");
    let edit = |old: &mut Record| {
        *old = new.clone();
        Ok(())
    };
    let changed = ledgers.change(0, NOW, |draft| match draft.copy(&id)? {
        Some(_) => draft.edit(&id, edit).map(drop),
        None => draft.add(&new),
    });
    changed.unwrap();
}

#[test]
fn changes_that_were_appended_are_read_once_and_written_in_their_places_by_the_next_change() {
    let dir = temp_dir();
    let path = write_large_ledger(dir.path());
    let appended = format!("{{\"_changes\":[{{\"to\":{}}}]}}\n", line_of(3_000, "new"));
    write(&path, true, &[fs::read(&path).unwrap(), appended.into_bytes()].concat());
    let ledgers = ledgers(dir.path(), "kept.db");
    assert_eq!(titles(&ledgers).len(), 2_001);
    check(dir.path());
    put(&ledgers, 3_000, "newer");
    assert_eq!(titles(&ledgers)[2_000], "newer");
    let file = fs::read_to_string(&path).unwrap();
    assert!(!file.contains("_changes") && file.lines().is_sorted());
    check(dir.path());
}

#[test]
fn a_failed_or_empty_change_leaves_file_and_index_alone() {
    let dir = temp_dir();
    let ledgers = ledgers(dir.path(), "kept.db");
    let path = ledgers.files()[0].path().to_owned();
    ledgers.change(0, NOW, |_| Ok(())).unwrap();
    assert!(!path.exists());
    let new = |id| Record::parse(&line_of(id, "x")).unwrap();
    ledgers.change(0, NOW, |draft| draft.add(&new(1))).unwrap();
    let modified = || fs::metadata(&path).unwrap().modified().unwrap();
    let before = modified();
    ledgers
        .change(0, NOW, |draft| -> Result<()> {
            draft.add(&new(2))?;
            assert!(draft.issues().get("a-00002")?.is_some(), "a change sees its own changes");
            Err(Error::invalid("fails on purpose"))
        })
        .unwrap_err();
    assert_eq!((titles(&ledgers).len(), modified()), (1, before));
    check(dir.path());
}

#[test]
fn a_revision_grows_with_every_change_by_any_program_and_only_then() {
    let dir = temp_dir();
    let ledgers = ledgers(dir.path(), "kept.db");
    let new = Record::parse(&line_of(1, "x")).unwrap();
    ledgers.change(0, NOW, |draft| draft.add(&new)).unwrap();
    let first = ledgers.revision(NOW).unwrap();
    assert_eq!(ledgers.revision(NOW).unwrap(), first);
    edit_by_hand(ledgers.files()[1].path(), true, |lines| lines.push(line_of(2, "y")));
    let second = ledgers.revision(NOW).unwrap();
    assert!(second > first);
    remove(&dir.path().join("private"));
    let later = Timestamp::from_millis(NOW.as_millis() + 5);
    edit_by_hand(ledgers.files()[1].path(), true, |lines| lines.push(line_of(3, "z")));
    assert!(ledgers.revision(later).unwrap() > second, "although the index was rebuilt");
}

#[test]
fn an_unreadable_ledger_is_an_error_and_not_empty() {
    let dir = temp_dir();
    let ledgers = ledgers(dir.path(), "kept.db");
    fs::create_dir_all(ledgers.files()[0].path()).unwrap();
    assert!(ledgers.with_index(NOW, |index| index.ready(NOW, None)).is_err());
    assert!(ledgers.change(0, NOW, |_| Ok(())).is_err());
}

/// Writes a ledger with many issues that contain one word, and returns it.
fn ledger_with_common_word(dir: &Path, number: usize) -> Ledgers {
    let ledgers = ledgers(dir, "kept.db");
    let lines: Vec<String> = (0..number)
        .map(|id| {
            let (title, text) = match id % 3 {
                0 => ("Mend the parser", ""),
                1 => ("Mend it", "the parser"),
                _ => ("Mend it", "the parsers"),
            };
            let status = if id.is_multiple_of(2) { "open" } else { "closed" };
            let record = serde_json::json!({
                "id": format!("a-{id:05}"), "title": title, "description": text, "status": status, "priority": id % 5,
            });
            record.to_string() + "\n"
        })
        .collect();
    write(&dir.join("tree/one.jsonl"), false, lines.concat().as_bytes());
    ledgers
}

#[test]
fn pages_of_a_search_for_a_common_word_have_every_issue_once_and_the_best_first() {
    let dir = temp_dir();
    let number = 2 * COMMON_WORDS;
    let ledgers = ledger_with_common_word(dir.path(), number);
    ledgers.make_searchable(NOW, || {}).unwrap();
    let words = ["parser".to_owned()];
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let window = Window { limit: Some(150), after: after.clone() };
        let page = ledgers.with_index(NOW, |index| {
            assert!(index.are_common(&words)?);
            let page = index.search(&words, window.clone())?;
            let next = page.last().map(|last| index.search_position(&words, &last.id, after.as_ref())).transpose()?;
            Ok((page, next))
        });
        let (page, next) = page.unwrap();
        if page.is_empty() {
            break;
        }
        found.extend(page);
        after = next;
    }
    let key = |one: &waypost_ledger::Summary| {
        let group = one.id[2..].parse::<usize>().unwrap() % 3;
        let closed = one.status == "closed";
        (group, closed, if closed { 0 } else { one.priority }, std::cmp::Reverse(one.id.clone()))
    };
    assert!(found.is_sorted_by_key(key));
    let mut ids: Vec<&str> = found.iter().map(|one| one.id.as_str()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!((found.len(), ids.len()), (number, number));
}

#[test]
fn a_search_for_rarer_words_is_ranked_by_how_well_they_match() {
    let dir = temp_dir();
    let ledgers = ledger_with_common_word(dir.path(), COMMON_WORDS);
    ledgers.make_searchable(NOW, || {}).unwrap();
    let words = ["parser".to_owned()];
    let found = ledgers.with_index(NOW, |index| {
        assert!(!index.are_common(&words)?);
        index.search(&words, None)
    });
    let found = found.unwrap();
    assert_eq!(found.len(), COMMON_WORDS);
    assert!(found.is_sorted_by_key(|one| one.status == "closed"));
}

#[test]
fn a_search_for_too_many_words_is_refused_before_any_of_it_runs() {
    let dir = temp_dir();
    let ledgers = ledger_with_common_word(dir.path(), 1);
    let words: Vec<String> = (0..101).map(|word| word.to_string()).collect();
    let refusals = ledgers
        .with_index(NOW, |index| Ok([index.are_common(&words).unwrap_err(), index.search(&words, None).unwrap_err()]));
    for refusal in refusals.unwrap() {
        assert_eq!(refusal.full_message(), "a search takes 1 to 100 words, not 101");
    }
}

#[test]
fn a_nul_in_a_search_separates_words() {
    let dir = temp_dir();
    let ledgers = ledger_with_common_word(dir.path(), 1);
    ledgers.make_searchable(NOW, || {}).unwrap();
    let search = |words: &str| ledgers.with_index(NOW, |index| index.search(&[words.to_owned()], None));
    for words in ["parser", "\0parser", "parser\0", "pars\0parser", "parser\"\0"] {
        assert_eq!(search(words).unwrap().len(), 1, "{words:?}");
    }
    assert!(search("parser\0nothing").unwrap().is_empty());
    assert_eq!(search("\0").unwrap_err().full_message(), "a search takes 1 to 100 words, not 0");
}
