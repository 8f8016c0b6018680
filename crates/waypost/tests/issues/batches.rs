//! Several changes at once: all or none.

use serde_json::{Value, json};
use waypost::Kind;

use crate::desk::{Desk, SAMPLE_LEDGER, id_of, refusal};

#[test]
fn changes_of_a_batch_name_issues_that_it_adds() {
    let desk = Desk::new().person("ann");
    let changed = desk
        .batch(&[
            json!({ "op": "add", "title": "Lay the base", "priority": 1, "as": "base" }),
            json!({ "op": "add", "title": "Build on it", "blocked_by": ["$base"], "as": "next", "labels": ["core"] }),
            json!({ "op": "add", "title": "Paint it", "type": "chore", "parent": "$next", "labels": ["paint"], "as": "paint" }),
            json!({ "op": "comment", "id": "$next", "text": "it's \"hard\"" }),
            json!({ "op": "depend", "id": "$paint", "on": "$base", "type": "related" }),
            json!({ "op": "claim" }),
        ])
        .unwrap();
    let ids: Vec<String> = changed.records.iter().map(|(record, _)| id_of(record)).collect();
    assert_eq!(ids[5], ids[0], "the claim took what was added before");
    let next = desk.show(&ids[1]);
    assert_eq!(next["comments"][0]["text"], "it's \"hard\"");
    assert_eq!(next["dependencies"][0]["depends_on_id"], *ids[0]);
    assert_eq!(desk.show(&ids[2])["parent_id"], *ids[1]);
    desk.batch(&[
        json!({ "op": "close", "id": &ids[0], "reason": "done" }),
        json!({ "op": "update", "id": &ids[1], "priority": "P0", "add_labels": ["hot"] }),
    ])
    .unwrap();
    assert_eq!(desk.ready()[0], ids[1]);
}

#[test]
fn a_batch_with_one_wrong_change_writes_nothing() {
    let desk = Desk::with_issues();
    let add = |title: &str, more: Value| {
        let mut change = json!({ "op": "add", "title": title });
        change.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        change
    };
    let close = |id: &str| json!({ "op": "close", "id": id });
    let depend = |id: &str, on: &str| json!({ "op": "depend", "id": id, "on": on });
    for (changes, kind, expected) in [
        (vec![close("r-1"), close("nothing")], Kind::NotFound, "there is no issue \"nothing\""),
        (vec![add("x", json!({ "blocked_by": ["$y"] }))], Kind::NotFound, "no earlier change added an issue as \"y\""),
        (
            vec![add("x", json!({ "as": "a" })), add("y", json!({ "as": "a" }))],
            Kind::Invalid,
            "two changes add an issue as \"a\"",
        ),
        (vec![json!({ "op": "close" })], Kind::Invalid, "the field \"id\" is missing"),
        (vec![json!({ "op": "clsoe", "id": "r-1" })], Kind::Invalid, "did you mean close?"),
        (vec![json!({ "op": "close", "id": "r-1", "rason": "x" })], Kind::Invalid, "close has no field \"rason\""),
        (
            vec![close("r-1"), json!({ "op": "claim", "id": "r-4" })],
            Kind::Conflict,
            "issue r-4 is closed and cannot be claimed",
        ),
        (
            vec![depend("r-1", "r-2"), depend("r-2", "r-1")],
            Kind::Conflict,
            "they would wait for each other: r-2 → r-1 → r-2",
        ),
    ] {
        let said = refusal(kind, desk.batch(&changes));
        assert!(said.contains(expected), "{changes:?}: {said}");
        assert_eq!(desk.file(), SAMPLE_LEDGER, "{changes:?}");
    }
    let decode = |line| waypost::ops::issue::batch::decode_line(line).unwrap();
    let (close, add) = (decode(close("r-1")), decode(add("new", json!({}))));
    desk.reading(|cx| cx.apply(&[("", &close), ("", &add)], true)).unwrap();
    assert_eq!(desk.file(), SAMPLE_LEDGER, "a dry run writes nothing");
    assert_eq!(desk.list(json!({})), ["r-1", "r-2", "r-3", "r-5"]);
}

#[test]
fn a_batch_over_two_ledgers_is_checked_before_anything_is_written() {
    let one = Desk::new();
    let two = one.repository("two");
    one.add_repo("../two");
    let [a1, a2] = ["A1", "A2"].map(|title| one.add(title));
    let b1 = one.add_with("B1", json!({ "repo": "../two" }));
    let ledgers = || [one.file(), two.file()];
    let before = ledgers();
    let depend = |id: &str, on: &str| json!({ "op": "depend", "id": id, "on": on });
    let notes = json!({ "op": "update", "id": &b1, "notes": "hi" });
    refusal(Kind::Conflict, one.batch(&[depend(&a1, &a2), notes.clone(), depend(&a2, &a1)]));
    let bogus = json!({ "op": "update", "id": &b1, "status": "bogus" });
    refusal(Kind::Invalid, one.batch(&[json!({ "op": "add", "title": "new", "as": "n" }), bogus]));
    assert_eq!(ledgers(), before);
    one.batch(&[depend(&a1, &a2)]).unwrap();
    one.batch(&[json!({ "op": "close", "id": &a2 }), notes, json!({ "op": "claim", "id": &a1 })]).unwrap();
    let [first, second] = ledgers();
    assert!(first.contains("in_progress") && second.contains("hi"), "{first}{second}");
}
