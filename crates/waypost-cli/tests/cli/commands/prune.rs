//! `way prune`: closed issues leave the ledger.

use serde_json::json;

use crate::support::graphs::{KB, Pulled, blocked_by, id};
use crate::support::issues::{SAMPLE_LEDGER, many};
use crate::support::ledger::{LEDGER, ids, lines};
use crate::support::sandbox;

#[test]
fn many_closed_issues_are_pruned_at_once() {
    const ISSUE_COUNT: usize = 12_000;
    let closed = Pulled::new(ISSUE_COUNT, |number| {
        let mut record = blocked_by(number, if number == 0 { 1..ISSUE_COUNT - 1 } else { 0..0 });
        record["status"] = "closed".into();
        record["closed_at"] = "2025-01-01T00:00:00Z".into();
        record["parent_id"] = id(number.saturating_sub(1)).into();
        record
    });
    let pruned = closed.run("prune --closed-before 1d --json", 0, ISSUE_COUNT * 20).data();
    assert_eq!(pruned["pruned"].as_array().unwrap().len(), ISSUE_COUNT);
    assert_eq!(closed.run("list --all --json", 0, KB).data(), json!([]));
    closed.check("doctor", 0, 2 * KB);
}

#[test]
fn closed_issues_are_pruned_once_they_are_committed() {
    let sandbox = sandbox();
    let repo = many(&sandbox);
    // Uncommitted issues are never pruned.
    let _ = sandbox.way(&repo, ["prune", "--closed-before", "1d"]).fails(6);
    sandbox.git(&repo, ["add", "."]);
    sandbox.git(&repo, ["commit", "-q", "-m", "ledger"]);
    let _ = sandbox.way(&repo, ["close", "r-1", "r-3"]).ok();
    let now = [("WAYPOST_TEST_CLOCK", "2026-02-01T00:00:00Z".as_ref())];
    let prune = |args: &[&str]| sandbox.way_with(&repo, &now, [&["prune"], args].concat());

    let run = prune(&["--dry-run"]);
    assert_eq!((run.code, run.stdout.lines().count()), (0, 2), "{run:?}");
    assert!(run.stdout.contains("\nr-4  ") && run.stderr.contains("kept 2 more issues"), "{run:?}");
    assert_eq!(lines(&repo.join(LEDGER)).len(), 6, "a dry run writes nothing");
    sandbox.git(&repo, ["commit", "-q", "-a", "-m", "closed"]);
    let _ = prune(&["--keep", "3"]).fails(6);
    // An issue that an open one depends on stays.
    let _ = sandbox.way(&repo, ["dep", "add", "r-5", "r-3", "--type", "related"]).ok();
    let run = prune(&[]);
    assert_eq!(run.code, 0, "{run:?}");
    let left = lines(&repo.join(LEDGER));
    assert_eq!(left[0], r#"{"_type":"waypost","pruned_before":"2026-01-01T00:00:00.001Z"}"#);
    assert_eq!(left.len(), 5);
    assert_eq!(ids(&sandbox, &repo, &["list", "--all"]), ["r-2", "r-3", "r-5"]);
    let shown = sandbox.way(&repo, ["show", "r-4"]);
    assert!(shown.code == 0 && shown.stdout.contains("Old thing"), "{shown:?}");
    assert!(shown.stderr.contains("not in the ledger any more"), "{shown:?}");
    assert!(sandbox.way(&repo, ["doctor"]).stdout.contains("ok     ledger"));
    let bare = sandbox.dir("bare");
    sandbox.dir("bare/.waypost");
    sandbox.write(bare.join(LEDGER), SAMPLE_LEDGER);
    let _ = sandbox.way(&bare, ["prune"]).fails(7);
}

#[test]
fn a_large_ledger_is_pruned_automatically_if_configured() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    sandbox.dir("repo/.waypost");
    let closed = |number: usize| {
        let (title, day) = ("t".repeat(400), number % 28 + 1);
        format!(
            "{{\"id\":\"r-{number:03}\",\"title\":\"{title}\",\"status\":\"closed\",\"closed_at\":\"2025-12-{day:02}T00:00:00Z\"}}\n"
        )
    };
    let text: Vec<String> = (0..100).map(closed).chain(["{\"id\":\"s-1\",\"title\":\"open\"}\n".to_owned()]).collect();
    sandbox.write(repo.join(LEDGER), text.concat());
    let run = sandbox.way(&repo, ["doctor"]);
    assert!(run.stdout.contains("way prune removes closed issues"), "{}", run.stdout);
    sandbox.git(&repo, ["add", "."]);
    sandbox.git(&repo, ["commit", "-q", "-m", "ledger"]);
    let _ = sandbox.way(&repo, ["config", "set", "prune.auto", "on"]).ok();
    let run = sandbox.way(&repo, ["close", "s-1"]);
    assert!(run.code == 0 && run.stderr.contains("pruned"), "{run:?}");
    let size = std::fs::metadata(repo.join(LEDGER)).unwrap().len();
    assert!((24_000..=25 * 1024 + 100).contains(&size), "{size}");
    let left = sandbox.way(&repo, ["list", "--all", "--limit", "0", "--json"]).data();
    let dates: Vec<&str> = left.as_array().unwrap().iter().filter_map(|issue| issue["closed_at"].as_str()).collect();
    assert!(dates.iter().all(|date| *date >= "2025-12-12"), "the oldest went first: {dates:?}");
}

#[test]
fn all_versions_of_a_pruned_issue_are_removed() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    sandbox.dir("repo/.waypost");
    let text = r#"{"id":"d-1","title":"x","status":"open","updated_at":"2025-01-01T00:00:00Z"}
{"id":"d-1","title":"x","status":"closed","updated_at":"2025-01-02T00:00:00Z","closed_at":"2025-01-02T00:00:00Z"}
"#;
    sandbox.write(repo.join(LEDGER), text);
    sandbox.git(&repo, ["add", "."]);
    sandbox.git(&repo, ["commit", "-q", "-m", "ledger"]);
    assert_eq!(sandbox.way(&repo, ["prune"]).code, 0);
    let _ = sandbox.way(&repo, ["ready"]).fails(6);
    assert_eq!(lines(&repo.join(LEDGER)).len(), 1, "only the marker is left");
}
