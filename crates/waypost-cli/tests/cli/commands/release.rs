//! `way release`: claims that end.

use crate::support::claims::at;
use crate::support::ledger::add;
use crate::support::sandbox;

#[test]
fn a_claim_that_expires_releases_the_issue_in_the_ledger_too() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let id = add(&sandbox, &repo, &["Fix it"]);
    let _ = at(&sandbox, &repo, 0, "ada", &["claim", &id, "--ttl", "10m"]).ok();
    assert_eq!(at(&sandbox, &repo, 9, "bob", &["ready"]).code, 6);
    // The holder was silent: the next reader finds the issue free, and the next writer frees it in the ledger.
    let ready = at(&sandbox, &repo, 10, "bob", &["ready", "--json"]).data();
    assert_eq!(ready[0]["id"].as_str(), Some(id.as_str()));
    assert_eq!(ready[0]["status"], "open");
    assert!(ready[0].get("assignee").is_none());
    let taken = at(&sandbox, &repo, 11, "bob", &["claim", "--json"]).data();
    assert_eq!(taken["lease"]["epoch"], 2, "the first holder's epoch is never used again");
    // Ada returns and learns that the claim expired.
    let _ = at(&sandbox, &repo, 12, "ada", &["claim", &id]).fails(4);
    let _ = at(&sandbox, &repo, 12, "ada", &["release", &id]).fails(5);
}

#[test]
fn closing_and_releasing_end_the_lease() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let (one, two) = (add(&sandbox, &repo, &["One"]), add(&sandbox, &repo, &["Two"]));
    let _ = at(&sandbox, &repo, 0, "ada", &["claim", &one]).ok();
    let _ = at(&sandbox, &repo, 0, "ada", &["claim", &two]).ok();
    let _ = at(&sandbox, &repo, 1, "ada", &["close", &one]).ok();
    let _ = at(&sandbox, &repo, 1, "ada", &["release", &two]).ok();
    let taken = at(&sandbox, &repo, 2, "bob", &["claim", &two, "--json"]).data();
    assert_eq!(taken["lease"]["epoch"], 2);
    let _ = at(&sandbox, &repo, 2, "bob", &["reopen", &one]).ok();
    let _ = at(&sandbox, &repo, 2, "bob", &["claim", &one]).ok();
}
