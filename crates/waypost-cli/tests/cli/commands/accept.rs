//! `way accept`: a maintainer takes a proposal.

use crate::support::ledger::{LEDGER, add};
use crate::support::repos::with_issue;
use crate::support::sandbox;
use crate::support::transfers::{at, comments, copies};

#[test]
fn b9_maintainers_accept_and_reject_proposals() {
    let sandbox = sandbox();
    let repo = with_issue(&sandbox, "repo", r#"{"id":"a-1","title":"One","visibility":"proposed"}"#);
    sandbox.write(repo.join(LEDGER), "{\"id\":\"a-1\",\"title\":\"One\",\"visibility\":\"proposed\"}\n{\"id\":\"a-2\",\"title\":\"Two\",\"visibility\":\"proposed\"}\n{\"id\":\"a-3\",\"title\":\"Three\"}\n");
    let _ = sandbox.way(&repo, ["accept", "a-1", "--role", "contributor"]).fails(7);
    let accepted = sandbox.way(&repo, ["accept", "a-1", "--json"]).data();
    assert!(accepted["visibility"].is_null() && accepted["updated_at"].is_string());
    let rejected = sandbox.way(&repo, ["reject", "a-2", "--reason", "not now", "--json"]).data();
    assert_eq!(
        (rejected["status"].as_str(), rejected["close_reason"].as_str(), rejected["visibility"].as_str()),
        (Some("closed"), Some("not now"), Some("proposed"))
    );
    let _ = sandbox.way(&repo, ["accept", "a-3"]).fails(4);
    let _ = sandbox.way(&repo, ["reject", "a-3"]).fails(2);
}

#[test]
fn accepting_a_proposal_merges_the_edits_of_a_readable_planning_ledger() {
    let sandbox = sandbox();
    let (project, planning) = (sandbox.git_repo("project"), sandbox.git_repo("planning"));
    let _ = sandbox.way(&project, ["config", "--add-repo", "../planning"]).ok();
    let id = add(&sandbox, &project, &["Idea", "--repo", "../planning"]);
    at(&sandbox, &project, 1, &["propose", &id]);
    at(&sandbox, &planning, 2, &["comment", &id, "said in the planning"]);
    at(&sandbox, &project, 3, &["accept", &id]);
    let [canonical] = copies(&project, &id).try_into().unwrap();
    assert!(canonical.get("visibility").is_none(), "{canonical}");
    assert_eq!(comments(&canonical), ["said in the planning"]);
}
