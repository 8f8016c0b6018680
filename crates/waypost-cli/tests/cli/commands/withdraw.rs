//! `way withdraw`.

use crate::support::ledger::add;
use crate::support::repos::contributor;
use crate::support::sandbox;
use crate::support::transfers::{at, comments, copies, maintain};

#[test]
fn withdrawing_a_proposal_keeps_the_edits_of_both_copies() {
    let sandbox = sandbox();
    let (_, fork, planning) = contributor(&sandbox);
    let id = add(&sandbox, &fork, &["Idea", "-l", "old"]);
    at(&sandbox, &fork, 1, &["propose", &id]);
    maintain(&sandbox, &fork, 2, &["update", &id, "--title", "Better idea", "--remove-label", "old"]);
    maintain(&sandbox, &fork, 3, &["comment", &id, "said in the project"]);
    at(&sandbox, &planning, 4, &["comment", &id, "said in the planning"]);
    at(&sandbox, &planning, 5, &["label", "add", &id, "new"]);
    at(&sandbox, &fork, 6, &["withdraw", &id]);
    assert!(copies(&fork, &id).is_empty());
    let [local] = copies(&planning, &id).try_into().unwrap();
    assert_eq!(comments(&local), ["said in the planning", "said in the project"]);
    assert_eq!((&local["title"], &local["visibility"]), (&"Better idea".into(), &"local".into()));
    assert_eq!(local["labels"], serde_json::json!(["new"]));
}
