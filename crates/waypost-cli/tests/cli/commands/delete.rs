//! `way delete`.

use crate::support::ledger::{LEDGER, add, ids, lines};
use crate::support::sandbox;

#[test]
fn a_deleted_issue_leaves_a_tombstone_with_its_reason_and_is_not_listed() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let (gone, stays) = (add(&sandbox, &repo, &["One"]), add(&sandbox, &repo, &["Two"]));
    let _ = sandbox.way(&repo, ["delete", &gone, "unknown"]).fails(3);
    assert_eq!(ids(&sandbox, &repo, &["list"]).len(), 2, "one wrong id stops all");
    let deleted = sandbox.way(&repo, ["delete", &gone, "--reason", "mistake", "--json"]).data();
    assert_eq!((deleted["status"].as_str(), deleted["delete_reason"].as_str()), (Some("tombstone"), Some("mistake")));
    assert_eq!(ids(&sandbox, &repo, &["list", "--all"]), [stays]);
    assert_eq!(lines(&repo.join(LEDGER)).len(), 2, "the tombstone is a line of the ledger");
}
