//! `way assign`.

use crate::support::ledger::{add, ids};
use crate::support::sandbox;

#[test]
fn an_assignee_is_set_and_removed_and_the_status_stays() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let id = add(&sandbox, &repo, &["One"]);
    let assigned = sandbox.way(&repo, ["assign", &id, "ann", "--json"]).data();
    assert_eq!((assigned["assignee"].as_str(), assigned["status"].as_str()), (Some("ann"), Some("open")));
    assert_eq!(ids(&sandbox, &repo, &["list", "--assignee", "ann"]), [id.as_str()]);
    let removed = sandbox.way(&repo, ["assign", &id, "", "--json"]).data();
    assert!(removed["assignee"].is_null(), "{removed}");
    let _ = sandbox.way(&repo, ["assign", "unknown", "ann"]).fails(3);
}
