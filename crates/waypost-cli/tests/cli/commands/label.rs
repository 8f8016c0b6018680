//! `way label`.

use crate::support::ledger::{add, ids};
use crate::support::sandbox;

#[test]
fn labels_are_added_once_removed_and_counted_on_open_issues() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let (one, two) = (add(&sandbox, &repo, &["One"]), add(&sandbox, &repo, &["Two"]));
    for id in [&one, &two, &one] {
        let _ = sandbox.way(&repo, ["label", "add", id, "api", "wet"]).ok();
    }
    let _ = sandbox.way(&repo, ["label", "rm", &two, "wet"]).ok();
    let shown = |id: &str| sandbox.way(&repo, ["show", id, "--json"]).data()["labels"].clone();
    assert_eq!((shown(&one), shown(&two)), (serde_json::json!(["api", "wet"]), serde_json::json!(["api"])));
    assert_eq!(ids(&sandbox, &repo, &["list", "--label", "wet"]), [one.as_str()]);
    let listed = || sandbox.way(&repo, ["label", "list"]).ok().stdout;
    let counts = |text: String| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(counts(listed()), ["LABEL", "ISSUES", "api", "2", "wet", "1"]);
    let _ = sandbox.way(&repo, ["close", &one]).ok();
    assert_eq!(counts(listed()), ["LABEL", "ISSUES", "api", "1"]);
}
