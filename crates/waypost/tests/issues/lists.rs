//! Lists and searches of issues.

use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::{Value, json};
use waypost::Kind;
use waypost_core::time::Timestamp;

use crate::desk::{Desk, LEDGER, contributor, ids};

#[test]
fn lists_are_filtered_sorted_and_limited() {
    let desk = Desk::with_issues();
    // The clock of a desk is at the beginning of 2026.
    for (filter, expected) in [
        (json!({}), "r-1 r-2 r-3 r-5"),
        (json!({ "closed": true }), "r-1 r-2 r-3 r-4 r-5"),
        (json!({ "statuses": ["tombstone"] }), "r-6"),
        (json!({ "statuses": ["open", "closed"] }), "r-1 r-2 r-4 r-5"),
        (json!({ "types": ["bug", "epic"] }), "r-1 r-5"),
        (json!({ "labels": ["api"] }), "r-1 r-3"),
        (json!({ "labels": ["api", "web"] }), "r-3"),
        (json!({ "any_label": ["api", "web"] }), "r-1 r-2 r-3"),
        (json!({ "any_label": ["api", "web"], "no_label": ["later"] }), "r-1 r-3"),
        (json!({ "priorities": [0, 1] }), "r-1 r-2"),
        (json!({ "priorities": [0, 1, 4] }), "r-1 r-2 r-5"),
        (json!({ "assignee": "ann" }), "r-2"),
        (json!({ "assignee": "" }), "r-1 r-5"),
        (json!({ "parent": "r-5" }), "r-2"),
        (json!({ "parent": "", "labels": ["api"] }), "r-1 r-3"),
        (json!({ "text": "api" }), "r-1 r-3"),
        (json!({ "text": "äpfel" }), "r-3"),
        (json!({ "created_after": "2025-12-02" }), "r-2 r-3"),
        (json!({ "created_before": "2025-12-02" }), "r-1 r-5"),
        (json!({ "updated_after": "3d" }), "r-1 r-3"),
        (json!({ "updated_before": "14d" }), "r-2"),
        (json!({ "closed_after": "2w" }), "r-4"),
        (json!({ "closed_before": "2w" }), ""),
        (json!({ "due_before": "+1w" }), "r-1"),
        (json!({ "due_before": "+1d" }), ""),
        (json!({ "sort": "created" }), "r-5 r-1 r-2 r-3"),
        (json!({ "sort": "updated" }), "r-3 r-1 r-2 r-5"),
        (json!({ "sort": "title" }), "r-3 r-2 r-5 r-1"),
        (json!({ "sort": "id", "reverse": true }), "r-5 r-3 r-2 r-1"),
        (json!({ "sort": "due", "limit": 1 }), "r-1"),
        (json!({ "limit": 2 }), "r-1 r-2"),
        (json!({ "limit": 1000 }), "r-1 r-2 r-3 r-5"),
    ] {
        assert_eq!(desk.list(filter.clone()).join(" "), expected, "{filter}");
    }
    for bad in [json!({ "sort": "size" }), json!({ "priorities": [7] }), json!({ "created_after": "soon" })] {
        desk.refused(Kind::Invalid, "list_issues", bad);
    }
    assert_eq!(desk.run("list_issues", json!({ "limit": 2 }))["has_more"], true);
    assert_eq!(desk.run("list_issues", json!({ "limit": 4 }))["has_more"], false);
}

#[test]
fn issues_are_found_by_text_label_assignee_and_age() {
    let desk = Desk::new();
    let base = desk.add_with("Lay the base", json!({ "labels": ["core"], "description": "concrete" }));
    let next = desk.add_with("Build on it", json!({ "blocked_by": [&base], "priority": 0 }));
    let part = desk.add_with("Paint a wall", json!({ "parent": &next }));
    let blocked = desk.run("list_blocked_issues", json!({}));
    let blocked = blocked["issues"].as_array().unwrap();
    let waiting: Vec<&Value> = blocked.iter().map(|one| &one["issue"]["id"]).collect();
    assert_eq!(waiting, [&Value::from(next.as_str()), &part.as_str().into()]);
    assert_eq!(blocked[0]["reasons"][0], format!("it is blocked by {base}"));

    desk.comment(&part, "needs CONCRETE too");
    let search = |text: &str| desk.ids("search_issues", json!({ "text": text }));
    assert_eq!(search("Concrete").len(), 2);
    assert_eq!(search("concrete base"), std::slice::from_ref(&base));
    assert!(search("nowhere").is_empty());

    desk.update(&next, json!({ "labels": ["core", "urgent"] }));
    let labels = desk.reading(|cx| cx.with_index(waypost_ledger::Index::labels)).unwrap();
    assert_eq!(labels[0], ("core".to_owned(), 2));
    desk.update(&next, json!({ "remove_labels": ["core"] }));
    assert_eq!(desk.list(json!({ "labels": ["core"] })), std::slice::from_ref(&base));
    desk.update(&base, json!({ "assignee": "ann" }));
    assert_eq!(desk.list(json!({ "assignee": "ann" })), std::slice::from_ref(&base));
    desk.update(&base, json!({ "assignee": "" }));
    assert!(desk.list(json!({ "assignee": "ann" })).is_empty());

    desk.close(&base);
    let counts = desk.reading(|cx| cx.with_index(|index| index.counts(cx.now))).unwrap();
    assert_eq!(counts.ready, 2);
    assert!(counts.by_status.contains(&("closed".to_owned(), 1)), "{:?}", counts.by_status);
    assert!(counts.open_by_priority.contains(&(0, 1)), "{:?}", counts.open_by_priority);
    let stale = |desk: &Desk| {
        desk.reading(|cx| {
            let month_ago = Timestamp::from_millis(cx.now.as_millis() - 30 * 86_400_000);
            cx.with_index(|index| index.stale(month_ago, None))
        })
        .unwrap()
        .len()
    };
    assert_eq!(stale(&desk), 0);
    assert_eq!(stale(&desk.at_time("2026-03-01T00:00:00Z")), 2, "the closed one does not count");
}

#[test]
fn visibility_and_author_select_issues_of_several_ledgers() {
    let (_, fork, planning) = contributor();
    let mine = fork.add("Mine");
    for (filter, expected) in [
        (json!({ "visibility": "local" }), mine.as_str()),
        (json!({ "visibility": "canonical" }), "up-1"),
        (json!({ "author": "tester" }), &mine),
        (json!({ "author": "" }), "up-1"),
    ] {
        assert_eq!(fork.list(filter.clone()), [expected], "{filter}");
    }
    fork.refused(Kind::Invalid, "list_issues", json!({ "visibility": "secret" }));
    let shown = fork.show(&mine);
    assert_eq!(
        (&shown["source_repo"], &shown["visibility"], &shown["created_by"]),
        (&planning.dir.to_str().unwrap().into(), &"local".into(), &"tester".into())
    );
}

#[test]
fn a_wrong_query_is_refused_and_does_not_damage_the_index() {
    let desk = Desk::with_issues();
    assert_eq!(desk.list(json!({})).len(), 4);
    let index = || std::fs::read_link(desk.path(".git/waypost/index.db")).unwrap();
    let before = index();
    let labels: Vec<String> = (0..1_001).map(|number| format!("l{number}")).collect();
    for (operation, arguments) in [
        ("search_issues", json!({ "text": "" })),
        ("search_issues", json!({ "text": " " })),
        ("list_issues", json!({ "labels": labels })),
        ("add_issue", json!({ "title": "x", "labels": ["a\nb"] })),
    ] {
        desk.refused(Kind::Invalid, operation, arguments);
    }
    assert_eq!(index(), before);
}

#[test]
fn words_are_found_in_every_text_and_script() {
    let desk = Desk::with_issues();
    desk.comment("r-2", "漢字の説明 here");
    let search = |text: &str| desk.ids("search_issues", json!({ "text": text })).join(" ");
    for (words, expected) in [
        ("api", "r-1 r-3"),
        ("AP", "r-1 r-3"),
        ("apfel", "r-3"),
        ("strasse", ""),
        ("説明", "r-2"),
        ("r-4", "r-4"),
        ("thing old", "r-4"),
        ("gone", ""),
        ("\"", ""),
        ("api AND docs", ""),
        ("api* OR", ""),
        ("title:api", ""),
    ] {
        assert_eq!(search(words), expected, "{words}");
    }
    // A changed issue is found by its new text, and no longer by its old one.
    desk.update("r-1", json!({ "title": "Mend the gateway" }));
    assert_eq!((search("gateway").as_str(), search("api").as_str()), ("r-1", "r-3"));
}

#[test]
fn edits_checkouts_stashes_and_restored_times_are_seen_at_once() {
    let desk = Desk::new();
    let line = |title: &str| format!("{{\"id\":\"r-00001\",\"title\":\"{title}\"}}\n");
    let titles = || -> Vec<String> {
        let list = desk.run("list_issues", json!({ "sort": "id" }));
        list["issues"].as_array().unwrap().iter().map(|issue| issue["title"].as_str().unwrap().to_owned()).collect()
    };
    // In place, with the same size, one right after the other.
    for round in 0..20 {
        desk.write_ledger(line(&format!("{round:03}")));
        assert_eq!(titles(), [format!("{round:03}")]);
    }
    // With the old modification time restored.
    let ledger = desk.path(LEDGER);
    let time = std::fs::metadata(&ledger).unwrap().modified().unwrap();
    for round in 0..5 {
        desk.write_ledger(line(&format!("t{round:02}")));
        std::fs::File::options().write(true).open(&ledger).unwrap().set_modified(time).unwrap();
        assert_eq!(titles(), [format!("t{round:02}")]);
    }
    desk.write_ledger(line("first"));
    desk.commit("first");
    desk.git(["checkout", "-q", "-b", "other"]);
    desk.write_ledger(line("other"));
    desk.commit("other");
    for _ in 0..3 {
        desk.git(["checkout", "-q", "-"]);
        assert_eq!(titles(), ["first"]);
        desk.git(["checkout", "-q", "-"]);
        assert_eq!(titles(), ["other"]);
    }
    desk.write_ledger(line("dirty"));
    assert_eq!(titles(), ["dirty"]);
    desk.git(["stash", "-q"]);
    assert_eq!(titles(), ["other"]);
    desk.git(["stash", "pop", "-q"]);
    assert_eq!(titles(), ["dirty"]);
    desk.git(["rm", "-qf", LEDGER]);
    assert!(titles().is_empty());
}

#[test]
fn b8_every_pair_of_status_and_visibility_is_kept() {
    let desk = Desk::new();
    let statuses = ["open", "in_progress", "hooked", "blocked", "deferred", "pinned", "closed"];
    let pairs = statuses.map(|status| {
        ["local", "proposed", "canonical"].map(|visibility| {
            let pair = json!({ "id": format!("{status}-{visibility}"), "title": "x", "status": status, "visibility": visibility });
            format!("{pair}\n")
        })
    });
    desk.write_ledger(pairs.concat().concat());
    let all = || desk.run("list_issues", json!({ "closed": true }))["issues"].clone();
    for issue in all().as_array().unwrap() {
        let pair = format!("{}-{}", issue["status"].as_str().unwrap(), issue["visibility"].as_str().unwrap());
        assert_eq!(issue["id"], pair);
    }
    assert_eq!(ids(&all()).len(), 21);
    // A deleted issue keeps its visibility too.
    for visibility in ["local", "proposed", "canonical"] {
        let id = format!("open-{visibility}");
        desk.run("remove_issue", json!({ "issue": id }));
        let [record] = desk.copies(&id).try_into().unwrap();
        assert_eq!((&record["status"], &record["visibility"]), (&"tombstone".into(), &visibility.into()), "{record}");
    }
    assert_eq!(ids(&all()).len(), 18);
}

#[test]
fn answers_are_the_same_with_a_missing_or_damaged_index() {
    let desk = Desk::new();
    let lines = (0..300).map(|number| format!("{{\"id\":\"r-{number:05}\",\"title\":\"x\"}}\n"));
    desk.write_ledger(lines.collect::<String>());
    let all = || desk.run("list_issues", json!({ "sort": "id", "limit": 1000 }));
    let expected = all();
    assert_eq!(ids(&expected["issues"]).len(), 300);
    let (index, sandbox) = (desk.path(".git/waypost/index.db"), &desk.sandbox);
    let whole = std::fs::read(&index).unwrap();
    let check = |what: &str| {
        assert_eq!(all(), expected, "{what}");
        let ready = desk.reading(|cx| cx.with_index(|index| index.counts(cx.now))).unwrap().ready;
        assert_eq!(ready, 300, "{what}");
    };
    std::fs::remove_file(&index).unwrap();
    check("deleted");
    sandbox.write(&index, b"random bytes, more or less".repeat(4_000));
    check("replaced by random bytes");
    sandbox.write(&index, &whole[..whole.len() / 3]);
    check("cut off");
    let copy = std::fs::read(&index).unwrap();
    desk.update("r-00001", json!({ "title": "changed" }));
    desk.write_ledger(desk.file().replace("changed", "x"));
    let restored = all();
    sandbox.write(&index, copy);
    assert_eq!(all(), restored, "replaced by an older copy");
    let foreign = rusqlite::Connection::open(sandbox.path("foreign")).unwrap();
    foreign.execute_batch("CREATE TABLE issue (id); INSERT INTO issue VALUES ('not ours')").unwrap();
    drop(foreign);
    std::fs::rename(sandbox.path("foreign"), &index).unwrap();
    assert_eq!(all(), restored, "replaced by another schema's");
    symlink("/nowhere/at/all", sandbox.path("link")).unwrap();
    std::fs::rename(sandbox.path("link"), &index).unwrap();
    assert_eq!(all(), restored, "replaced by a link to nowhere");
    assert!(!Path::new("/nowhere").exists());
}
