//! `way prune`: closed issues leave the ledger.

use serde_json::json;

use crate::support::graphs::{KB, Pulled, blocked_by, id};
use crate::support::issues::many;
use crate::support::ledger::{LEDGER, add, ids, lines};
use crate::support::{sandbox, text};

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
fn what_is_pruned_and_what_stays_is_told() {
    let sandbox = sandbox();
    let repo = many(&sandbox);
    let _ = sandbox.way(&repo, ["prune", "--closed-before", "1d"]).fails(6);
    sandbox.git(&repo, ["add", "."]);
    sandbox.git(&repo, ["commit", "-q", "-m", "ledger"]);
    let _ = sandbox.way(&repo, ["close", "r-1"]).ok();
    let now = [("WAYPOST_TEST_CLOCK", "2026-02-01T00:00:00Z".as_ref())];
    let prune = |args: &[&str]| sandbox.way_with(&repo, &now, [&["prune"], args].concat());
    let run = prune(&["--dry-run"]);
    assert_eq!((run.code, run.stdout.lines().count()), (0, 2), "{run:?}");
    assert!(run.stdout.contains("\nr-4  ") && run.stderr.contains("kept 1 more issue"), "{run:?}");
    assert_eq!(lines(&repo.join(LEDGER)).len(), 6, "a dry run writes nothing");
    let _ = prune(&["--keep", "18446744073709551615"]).fails(6);
    assert_eq!(prune(&["--json"]).data()["pruned"], json!(["r-4"]));
    // A large ledger says how to prune it, and does so on its own if configured.
    let titled = format!(
        "{{\"id\":\"s-1\",\"title\":\"{}\",\"status\":\"closed\",\"closed_at\":\"2025-12-01T00:00:00Z\"}}\n",
        "t".repeat(30_000)
    );
    sandbox.write(repo.join(LEDGER), titled + "{\"id\":\"s-2\",\"title\":\"open\"}\n");
    let run = sandbox.way(&repo, ["doctor"]);
    assert!(run.stdout.contains("way prune removes closed issues"), "{}", run.stdout);
    sandbox.git(&repo, ["commit", "-q", "-a", "-m", "large"]);
    let _ = sandbox.way(&repo, ["config", "set", "prune.auto", "on"]).ok();
    let run = sandbox.way(&repo, ["close", "s-2"]);
    assert!(run.code == 0 && run.stderr.contains("pruned 1 closed issue"), "{run:?}");
}

#[test]
fn b23_a_pruned_blocker_is_a_closed_one_for_every_repository() {
    let sandbox = sandbox();
    let (upstream, planning) = (sandbox.git_repo("upstream"), sandbox.git_repo("planning"));
    let save = || {
        sandbox.git(&upstream, ["add", "."]);
        sandbox.git(&upstream, ["commit", "-q", "-m", "ledger"]);
    };
    let (closed, open) = (add(&sandbox, &upstream, &["Closed"]), add(&sandbox, &upstream, &["Open"]));
    save();
    let _ = sandbox.way(&planning, ["config", "--add-repo", text(&upstream)]).ok();
    let waits = add(&sandbox, &planning, &["Waits", "--blocked-by", &closed]);
    let both = add(&sandbox, &planning, &["Waits for both", "--blocked-by", &closed, "--blocked-by", &open]);
    let unknown = add(&sandbox, &planning, &["Waits for nothing known", "--blocked-by", &open]);
    let line = |id: &str| lines(&planning.join(LEDGER)).into_iter().find(|line| line.contains(id)).unwrap();
    let foreign = line(&unknown).replace(&open, "elsewhere-1");
    let others = lines(&planning.join(LEDGER)).into_iter().filter(|line| !line.contains(&unknown));
    let ledger = others.chain([foreign]).fold(String::new(), |file, line| file + &line + "\n");
    sandbox.write(planning.join(LEDGER), ledger);
    let ready = || ids(&sandbox, &planning, &["ready"]);
    assert_eq!(ready().len(), 2, "those of the project: {:?}", ready());

    let _ = sandbox.way(&upstream, ["close", &closed]).ok();
    save();
    let later = [("WAYPOST_TEST_CLOCK", "2026-02-01T00:00:00Z".as_ref())];
    let pruned = sandbox.way_with(&upstream, &later, ["prune", "--closed-before", "0d"]);
    assert_eq!(pruned.code, 0, "{pruned:?}");
    assert!(ready().contains(&waits) && !ready().contains(&both), "{:?}", ready());
    let shown = sandbox.way(&planning, ["show", &waits]).ok();
    assert!(shown.stdout.contains("It is ready."), "{}", shown.stdout);
    let gone = sandbox.way(&planning, ["show", &closed]);
    assert!(gone.code == 0 && gone.stderr.contains("was closed and pruned"), "{gone:?}");
    let blocked = ids(&sandbox, &planning, &["blocked"]);
    assert!(!blocked.contains(&waits) && blocked.contains(&both) && blocked.contains(&unknown), "{blocked:?}");
    for command in [&["dep", "tree", &waits][..], &["graph", &waits]] {
        let drawn = sandbox.way(&planning, command).ok();
        assert!(!drawn.stdout.contains("in no ledger"), "{}", drawn.stdout);
    }
    // What the history showed is remembered by an index that is built again.
    for entry in std::fs::read_dir(planning.join(".git/waypost")).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().unwrap().to_str().unwrap().contains("index") {
            std::fs::remove_file(path).unwrap();
        }
    }
    assert!(ready().contains(&waits));
    let _ = sandbox.way(&planning, ["claim", &waits]).ok();
    let _ = sandbox.way(&planning, ["claim", &unknown]).fails(4);
}
