//! Tests that the work of queries and changes does not grow with the issues that they do not touch.

use waypost_core::ledger::vocabulary::Terms;
use waypost_core::time::Timestamp;

use super::lines::{KnownLine, KnownLines};
use super::query::{Filter, Sort, Window};
use super::{COMMON_WORDS, Index};

const NOW: Timestamp = Timestamp::from_millis(1_767_225_600_000);

const SMALL: usize = 2_000;
const LARGE: usize = 16_000;

type Query = Box<dyn Fn(&Index)>;

fn line(number: usize, status: &str) -> Vec<u8> {
    let kind = if number.is_multiple_of(7) { "bug" } else { "task" };
    // Few issues have an assignee or a rare label, and one in ten has a common label.
    let facts = match number {
        _ if number % 1_000 == 1 => ",\"labels\":[\"rare\"],\"assignee\":\"kim\"",
        _ if number % 10 == 2 => ",\"labels\":[\"common\"]",
        _ => "",
    };
    let time =
        format!("2025-01-{:02}T{:02}:{:02}:{:02}Z", 1 + number / 3_600, number % 24, number / 60 % 60, number % 60);
    format!(
        "{{\"id\":\"i{number:05}\",\"title\":\"Mend the parser\",\"status\":\"{status}\",\"priority\":{},\
         \"issue_type\":\"{kind}\",\"created_at\":\"{time}\",\"updated_at\":\"{time}\"{facts},\
         \"dependencies\":[{{\"depends_on_id\":\"i{:05}\",\"type\":\"blocks\"}}]}}",
        number % 5,
        number / 2,
    )
    .into_bytes()
}

/// Returns an index of issues, of which every second one is closed, and their lines.
fn index(number: usize) -> (Index, KnownLines) {
    let index = Index::in_memory(&Terms::default()).unwrap();
    index.fill(&[], NOW).unwrap();
    let status = |number: usize| if number.is_multiple_of(2) { "open" } else { "closed" };
    let lines: Vec<Vec<u8>> = (0..number).map(|number| line(number, status(number))).collect();
    let rows = index.apply(0, &[], lines.iter().map(Vec::as_slice)).unwrap();
    let known = lines.iter().zip(rows).map(|(line, row)| KnownLine { hash: index.hash(line), row });
    let known = KnownLines(known.collect());
    index.index_texts().unwrap();
    index.create_lists().unwrap();
    (index, known)
}

#[test]
fn queries_with_a_limit_cost_the_same_with_eight_times_as_many_issues() {
    let list = |filter: Filter, sort: Sort| {
        move |index: &Index| {
            let found = index.list(&filter, sort, false, Some(20)).unwrap();
            assert!(!found.is_empty());
        }
    };
    let status = |status: &str| Filter { statuses: vec![status.to_owned()], ..Filter::default() };
    let words = |words: &str| {
        let words = [words.to_owned()];
        move |index: &Index| assert_eq!(index.search(&words, Some(20)).unwrap().len(), 20)
    };
    let queries: [(&str, Query); 15] = [
        ("counts", Box::new(|index| assert!(index.counts(NOW).unwrap().ready > 0))),
        ("labels", Box::new(|index| drop(index.labels().unwrap()))),
        ("search, a common word", Box::new(words("parser"))),
        ("search, a common prefix", Box::new(words("pars"))),
        ("search, common words", Box::new(words("the parser"))),
        ("list", Box::new(list(Filter::default(), Sort::Priority))),
        ("list, created", Box::new(list(Filter::default(), Sort::Created))),
        ("list, updated", Box::new(list(Filter::default(), Sort::Updated))),
        ("list, id", Box::new(list(Filter::default(), Sort::Id))),
        ("list, closed", Box::new(list(status("closed"), Sort::Priority))),
        ("list, last closed", Box::new(list(status("closed"), Sort::Closed))),
        (
            "list, open bugs",
            Box::new(list(Filter { types: vec!["bug".to_owned()], ..Filter::default() }, Sort::Priority)),
        ),
        (
            "list, a common label",
            Box::new(list(Filter { labels: vec!["common".to_owned()], ..Filter::default() }, Sort::Priority)),
        ),
        ("ready", Box::new(|index| assert_eq!(index.ready(NOW, Some(20)).unwrap().len(), 20))),
        ("blocked", Box::new(|index| assert_eq!(index.blocked(NOW, Some(20)).unwrap().len(), 20))),
    ];
    let ((small, _), (large, _)) = (index(SMALL), index(LARGE));
    for (name, query) in &queries {
        let (few, many) = (small.steps_of(query), large.steps_of(query));
        assert!(many <= few + few / 2 + 100, "{name}: {few} steps with {SMALL} issues, {many} with {LARGE}");
    }
}

#[test]
fn the_commonest_lists_read_only_their_index() {
    let (index, _) = index(SMALL);
    let list = |index: &Index| drop(index.list(&Filter::default(), Sort::Priority, false, Some(20)).unwrap());
    let queries: [(&str, Query); 3] = [
        ("issue_ready", Box::new(|index| drop(index.ready(NOW, Some(20)).unwrap()))),
        ("issue_ready", Box::new(|index| drop(index.ready_except(Some(1), NOW, Some(20)).unwrap()))),
        ("issue_open", Box::new(list)),
    ];
    for (name, query) in &queries {
        query(&index);
        let sql = format!("EXPLAIN QUERY PLAN {}", index.last_sql.borrow());
        let plan: Vec<String> = index.all(&sql, [], |row| row.get(3)).unwrap();
        assert_eq!(plan, [format!("SCAN issue USING COVERING INDEX {name}")]);
    }
}

#[test]
fn a_list_with_a_rare_filter_costs_as_much_as_what_it_finds() {
    let (index, _) = index(LARGE);
    let by_label = Filter { labels: vec!["rare".to_owned()], closed: true, ..Filter::default() };
    let by_assignee = Filter { assignee: Some("kim".to_owned()), closed: true, ..Filter::default() };
    for filter in [by_label, by_assignee] {
        let steps = index.steps_of(|index| {
            assert_eq!(index.list(&filter, Sort::Priority, false, None).unwrap().len(), LARGE / 1_000);
        });
        assert!(steps < 200 * LARGE as u64 / 1_000, "{steps} steps for {filter:?}");
    }
}

#[test]
fn a_common_word_is_one_that_more_issues_have_than_are_ranked() {
    let (index, _) = index(COMMON_WORDS);
    assert!(!index.are_common(&["parser".to_owned()]).unwrap());
    let line = line(COMMON_WORDS, "open");
    index.apply(0, &[], [line.as_slice()]).unwrap();
    index.index_texts().unwrap();
    assert!(index.are_common(&["parser".to_owned()]).unwrap());
}

#[test]
fn removing_four_times_as_many_issues_costs_about_four_times_as_much() {
    let steps = [SMALL, 4 * SMALL].map(|number| {
        let (index, mut lines) = index(number);
        let places: Vec<usize> = (0..number).filter(|place| place % 2 == 1).collect();
        index.steps_of(|index| {
            assert_eq!(index.prunable(NOW, 0).unwrap().len(), 0);
            index.remove_lines(0, &mut lines, &places).unwrap();
        })
    });
    assert!(steps[1] < 5 * steps[0], "{steps:?}");
}

#[test]
fn the_lists_follow_the_labels_of_issues() {
    let (index, mut lines) = index(10);
    let found = |label: &str| {
        let filter = Filter { labels: vec![label.to_owned()], closed: true, ..Filter::default() };
        let found = index.list(&filter, Sort::Id, false, None).unwrap();
        found.into_iter().map(|one| one.id).collect::<Vec<_>>().join(" ")
    };
    assert_eq!((found("rare").as_str(), found("new").as_str()), ("i00001", ""));
    let labelled = |labels: &str| format!("{{\"id\":\"i00001\",\"labels\":[{labels}]}}").into_bytes();
    index.replace_line(0, &mut lines, 1, true, Some(&labelled("\"new\",\"new\""))).unwrap();
    assert_eq!((found("rare").as_str(), found("new").as_str()), ("", "i00001"));
    index.replace_line(0, &mut lines, 1, true, None).unwrap();
    assert_eq!(found("new"), "");
    index.replace_line(0, &mut lines, 1, false, Some(&labelled("\"rare\",\"new\""))).unwrap();
    assert_eq!((found("rare").as_str(), found("new").as_str()), ("i00001", "i00001"));
}

#[test]
fn a_list_by_labels_has_the_open_issues_in_order_after_every_change() {
    let (index, mut lines) = index(60);
    let check = |expected: &[&str]| {
        let filter = Filter { labels: vec!["common".to_owned()], ..Filter::default() };
        let listed = index.list(&filter, Sort::Priority, false, None).unwrap();
        let mut sorted = index.list(&filter, Sort::Id, false, None).unwrap();
        sorted.sort_by_key(|one| (one.priority, one.created_at, one.id.clone()));
        let ids: Vec<_> = listed.iter().map(|one| one.id.as_str()).collect();
        assert_eq!((ids, &listed), (expected.to_vec(), &sorted));
        let after = listed.first().map(|first| index.position(&Sort::Priority.order(false), &first.id).unwrap());
        let window = Window { limit: Some(2), after };
        assert_eq!(index.list(&filter, Sort::Priority, false, window).unwrap(), listed[1..3]);
        let bugs = Filter { types: vec!["bug".to_owned()], ..filter };
        let bugs = index.list(&bugs, Sort::Priority, false, None).unwrap();
        assert_eq!(bugs.iter().map(|one| one.id.as_str()).collect::<Vec<_>>(), ["i00042"]);
    };
    check(&["i00002", "i00052", "i00032", "i00012", "i00042", "i00022"]);
    let changed = |number: usize, from: &str, to: &str| {
        let line = String::from_utf8(line(number, "open")).unwrap();
        line.replace(from, to).into_bytes()
    };
    index.replace_line(0, &mut lines, 12, true, Some(&changed(12, "\"priority\":2", "\"priority\":0"))).unwrap();
    check(&["i00012", "i00002", "i00052", "i00032", "i00042", "i00022"]);
    index.replace_line(0, &mut lines, 2, true, Some(&line(2, "closed"))).unwrap();
    check(&["i00012", "i00052", "i00032", "i00042", "i00022"]);
    index.replace_line(0, &mut lines, 2, true, Some(&line(2, "open"))).unwrap();
    index.replace_line(0, &mut lines, 52, true, Some(&changed(52, "common", "other"))).unwrap();
    check(&["i00012", "i00002", "i00032", "i00042", "i00022"]);
}
