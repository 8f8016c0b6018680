//! `way comment`.

use crate::support::issues::fed;
use crate::support::ledger::add;
use crate::support::sandbox;

#[test]
fn comments_come_from_arguments_and_standard_input_and_keep_their_order() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let id = add(&sandbox, &repo, &["One"]);
    let _ = sandbox.way(&repo, ["comment", &id, "first", "--actor", "ann"]).ok();
    let _ = fed(&sandbox, &repo, &["comment", &id, "-", "--actor", "bob"], "second\nline\n").ok();
    let shown = sandbox.way(&repo, ["show", &id, "--json"]).data();
    let comments = shown["comments"].as_array().unwrap().iter();
    let comments: Vec<_> =
        comments.map(|one| (one["author"].as_str().unwrap(), one["text"].as_str().unwrap())).collect();
    assert_eq!(comments, [("ann", "first"), ("bob", "second\nline")]);
    let _ = sandbox.way(&repo, ["comment", "unknown", "x"]).fails(3);
}
