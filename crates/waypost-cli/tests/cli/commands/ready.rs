//! `way ready`: which issues can be worked on.

use crate::support::ledger::{LEDGER, add, ids};
use crate::support::sandbox;

#[test]
fn custom_statuses_follow_the_configuration() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let base = add(&sandbox, &repo, &["Base"]);
    let next = add(&sandbox, &repo, &["Next", "--blocked-by", &base]);
    let run = sandbox.way(&repo, ["update", &base, "--status", "shipped"]).fails(2);
    assert!(run.stderr.contains("there is no status \"shipped\""), "{}", run.stderr);
    let _ = sandbox.way(&repo, ["config", "set", "statuses.done", "shipped,dropped"]).ok();
    let _ = sandbox.way(&repo, ["config", "set", "statuses.active", "triage"]).ok();
    let _ = sandbox.way(&repo, ["update", &base, "--status", "shipped"]).ok();
    assert_eq!(ids(&sandbox, &repo, &["ready"]), std::slice::from_ref(&next), "a finished blocker does not block");
    let _ = sandbox.way(&repo, ["update", &next, "--status", "triage"]).ok();
    assert_eq!(ids(&sandbox, &repo, &["ready"]), std::slice::from_ref(&next));
    let _ = sandbox.way(&repo, ["config", "unset", "statuses.active"]).ok();
    let _ = sandbox.way(&repo, ["ready"]).fails(6);
}

#[test]
fn a_missing_blocker_blocks_unless_configured_otherwise() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    sandbox.dir("repo/.waypost");
    let line = r#"{"id":"a","title":"A","dependencies":[{"depends_on_id":"x"}]}"#;
    sandbox.write(repo.join(LEDGER), format!("{line}\n"));
    let _ = sandbox.way(&repo, ["ready"]).fails(6);
    let _ = sandbox.way(&repo, ["config", "set", "ready.unresolved", "ignore"]).ok();
    assert_eq!(ids(&sandbox, &repo, &["ready"]), ["a"]);
}

#[test]
fn parts_of_an_issue_deferred_by_a_custom_status_are_not_ready() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let _ = sandbox.way(&repo, ["config", "set", "statuses.frozen", "on-ice"]).ok();
    let whole = add(&sandbox, &repo, &["Whole"]);
    let part = add(&sandbox, &repo, &["Part", "--parent", &whole]);
    let ready = || ids(&sandbox, &repo, &["ready"]).contains(&part);
    assert!(ready());
    let _ = sandbox.way(&repo, ["update", &whole, "--status", "on-ice"]).ok();
    assert!(!ready());
}
