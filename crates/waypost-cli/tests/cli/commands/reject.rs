//! `way reject`.

use crate::support::repos::with_issue;
use crate::support::sandbox;

#[test]
fn a_proposal_is_rejected_with_a_reason() {
    let sandbox = sandbox();
    let repo = with_issue(&sandbox, "repo", r#"{"id":"a-1","title":"One","visibility":"proposed"}"#);
    let _ = sandbox.way(&repo, ["reject", "a-1"]).fails(2);
    let _ = sandbox.way(&repo, ["reject", "a-1", "--reason", "no", "--role", "contributor"]).fails(7);
    let run = sandbox.way(&repo, ["reject", "a-1", "--reason", "not now"]).ok();
    assert_eq!(run.stdout, "Rejected a-1  One\n");
}
