//! Closed issues leave the ledger and stay in version control.

use serde_json::json;
use waypost::issues::{PrunePlan, Pruned, prune};
use waypost::{Kind, Result};
use waypost_core::ledger::issue::parse_time_ago;

use crate::desk::{Desk, LEDGER, SAMPLE_LEDGER, refusal};

/// Prunes what was closed before a time.
fn pruned(desk: &Desk, closed_before: &str, keep: usize, dry_run: bool) -> Result<Pruned> {
    desk.changing(|cx| {
        let before = parse_time_ago(closed_before, cx.now)?;
        prune(&cx.ledger, 0, PrunePlan { before, keep, down_to: None, dry_run })
    })
}

fn ids(pruned: &Pruned) -> Vec<&str> {
    pruned.issues.iter().map(|entry| entry.issue.id.as_str()).collect()
}

#[test]
fn closed_issues_are_pruned_once_they_are_committed() {
    let desk = Desk::with_issues();
    assert!(pruned(&desk, "1d", 0, false).unwrap().issues.is_empty(), "what is not committed is never pruned");
    desk.commit("ledger");
    desk.batch(&[json!({ "op": "close", "id": "r-1" }), json!({ "op": "close", "id": "r-3" })]).unwrap();
    let later = desk.at_time("2026-02-01T00:00:00Z");
    let dry = pruned(&later, "14d", 0, true).unwrap();
    assert_eq!((ids(&dry), dry.uncommitted), (vec!["r-4"], 2));
    assert_eq!(desk.lines().len(), 6, "a dry run writes nothing");
    desk.commit("closed");
    assert!(pruned(&later, "14d", 3, false).unwrap().issues.is_empty());
    assert!(pruned(&later, "14d", usize::MAX, false).unwrap().issues.is_empty());
    // An issue that an open one depends on stays.
    desk.run("add_dependency", json!({ "issue": "r-5", "on": "r-3", "kind": "related" }));
    assert!(!pruned(&later, "14d", 0, false).unwrap().issues.is_empty());
    let left = desk.lines();
    assert_eq!(left[0], r#"{"_type":"waypost","pruned_before":"2026-01-01T00:00:00.001Z"}"#);
    assert_eq!(left.len(), 5);
    assert_eq!(desk.list(json!({ "closed": true })), ["r-2", "r-3", "r-5"]);
    let shown = desk.request("show_issue", json!({ "issue": "r-4" })).unwrap();
    assert_eq!(shown.answer["title"], "Old thing");
    assert!(shown.warnings[0].contains("not in the ledger any more"), "{:?}", shown.warnings);
    let audit = desk.reading(|cx| cx.ledger.audit(0)).unwrap();
    assert!(audit.damage.is_empty() && audit.problems.is_empty(), "{audit:?}");
}

#[test]
fn without_version_control_nothing_is_pruned() {
    let desk = Desk::in_new_sandbox(|sandbox| sandbox.dir("plain"));
    desk.write_ledger(SAMPLE_LEDGER);
    let said = refusal(Kind::Refused, pruned(&desk, "1d", 0, false));
    assert!(said.contains("would be lost"), "{said}");
    assert_eq!(desk.file(), SAMPLE_LEDGER);
}

#[test]
fn a_large_ledger_is_pruned_automatically_if_configured() {
    let desk = Desk::new();
    let closed = |number: usize| {
        let (title, day) = ("t".repeat(400), number % 28 + 1);
        format!(
            "{{\"id\":\"r-{number:03}\",\"title\":\"{title}\",\"status\":\"closed\",\"closed_at\":\"2025-12-{day:02}T00:00:00Z\"}}\n"
        )
    };
    desk.write_ledger((0..100).map(closed).collect::<String>() + "{\"id\":\"s-1\",\"title\":\"open\"}\n");
    desk.commit("ledger");
    desk.set("prune.auto", "on");
    let changed = desk.batch(&[json!({ "op": "close", "id": "s-1" })]).unwrap();
    assert!(changed.pruned > 0);
    let size = std::fs::metadata(desk.path(LEDGER)).unwrap().len();
    assert!((24_000..=25 * 1024 + 100).contains(&size), "{size}");
    let left = desk.run("list_issues", json!({ "closed": true, "limit": 1000 }));
    let dates = left["issues"].as_array().unwrap().iter().filter_map(|issue| issue["closed_at"].as_str());
    let dates: Vec<&str> = dates.collect();
    assert!(dates.iter().all(|date| *date >= "2025-12-12"), "the oldest went first: {dates:?}");
}

#[test]
fn all_versions_of_a_pruned_issue_are_removed() {
    let desk = Desk::new();
    desk.write_lines(&[
        r#"{"id":"d-1","title":"x","status":"open","updated_at":"2025-01-01T00:00:00Z"}"#,
        r#"{"id":"d-1","title":"x","status":"closed","updated_at":"2025-01-02T00:00:00Z","closed_at":"2025-01-02T00:00:00Z"}"#,
    ]);
    desk.commit("ledger");
    assert_eq!(ids(&pruned(&desk, "14d", 0, false).unwrap()), ["d-1"]);
    assert!(desk.ready().is_empty());
    assert_eq!(desk.lines().len(), 1, "only the marker is left");
}
