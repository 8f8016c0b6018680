//! `way blocked`.

use crate::support::ledger::{add, ids};
use crate::support::sandbox;

#[test]
fn a_blocked_issue_is_listed_with_its_blocker_until_that_is_closed() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let base = add(&sandbox, &repo, &["Base"]);
    let next = add(&sandbox, &repo, &["Next", "--blocked-by", &base]);
    let blocked = sandbox.way(&repo, ["blocked", "--json"]).data();
    assert_eq!((blocked[0]["id"].as_str(), blocked.as_array().unwrap().len()), (Some(next.as_str()), 1));
    assert_eq!(blocked[0]["reasons"], serde_json::json!([format!("it is blocked by {base}")]));
    let _ = sandbox.way(&repo, ["close", &base]).ok();
    assert_eq!(ids(&sandbox, &repo, &["blocked"]), Vec::<String>::new());
}
