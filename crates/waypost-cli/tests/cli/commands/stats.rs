//! `way stats`.

use serde_json::json;

use crate::support::ledger::add;
use crate::support::sandbox;

#[test]
fn issues_are_counted_by_status_type_and_priority() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let base = add(&sandbox, &repo, &["Base", "-p", "0"]);
    add(&sandbox, &repo, &["Next", "--blocked-by", &base, "--type", "bug"]);
    let done = add(&sandbox, &repo, &["Done"]);
    let _ = sandbox.way(&repo, ["close", &done]).ok();
    let expected = json!({
        "ready": 1, "blocked": 1, "by_status": { "open": 2, "closed": 1 },
        "open_by_type": { "task": 1, "bug": 1 }, "open_by_priority": { "P0": 1, "P2": 1 },
    });
    assert_eq!(sandbox.way(&repo, ["stats", "--json"]).data(), expected);
}
