//! `way reject`. Accepting and rejecting side by side is in `accept.rs`.

use crate::support::repos::with_issue;
use crate::support::sandbox;

#[test]
fn only_a_maintainer_rejects_a_proposal_and_only_with_a_reason() {
    let sandbox = sandbox();
    let repo = with_issue(&sandbox, "repo", r#"{"id":"a-1","title":"One","visibility":"proposed"}"#);
    let _ = sandbox.way(&repo, ["reject", "a-1"]).fails(2);
    let _ = sandbox.way(&repo, ["reject", "a-1", "--reason", "no", "--role", "contributor"]).fails(7);
    assert_eq!(sandbox.way(&repo, ["show", "a-1", "--json"]).data()["visibility"], "proposed");
    let rejected = sandbox.way(&repo, ["reject", "a-1", "--reason", "not now", "--json"]).data();
    assert_eq!((rejected["status"].as_str(), rejected["close_reason"].as_str()), (Some("closed"), Some("not now")));
}
