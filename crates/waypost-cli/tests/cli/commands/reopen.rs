//! `way reopen`.

use crate::support::ledger::{add, ids};
use crate::support::sandbox;

#[test]
fn closed_issues_are_reopened_and_an_unknown_one_is_an_error() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let [one, two] = ["One", "Two"].map(|title| add(&sandbox, &repo, &[title]));
    let _ = sandbox.way(&repo, ["close", &one, &two]).ok();
    let run = sandbox.way(&repo, ["reopen", &one, &two]).ok();
    assert_eq!(run.stdout, format!("Opened {one}  One\nOpened {two}  Two\n"));
    assert_eq!(ids(&sandbox, &repo, &["list"]).len(), 2);
    let _ = sandbox.way(&repo, ["reopen", "unknown"]).fails(3);
}
