//! `way sync`: issues that move between planning and project. The version control tools are in `sync/`.

use crate::support::ledger::{LEDGER, add};
use crate::support::repos::contributor;
use crate::support::sandbox;
use crate::support::transfers::{at, comments, copies};

#[test]
fn a_project_that_cannot_be_fetched_is_warned_of_and_the_rest_is_synced() {
    let sandbox = sandbox();
    let (upstream, fork, planning) = contributor(&sandbox);
    sandbox.git(&fork, ["remote", "remove", "upstream"]);
    let id = add(&sandbox, &fork, &["Mine"]);
    let seen = || sandbox.git(&fork, ["rev-parse", "origin/main"]);
    let before = seen();
    sandbox.git(&upstream, ["commit", "-q", "--allow-empty", "-m", "more"]);
    let dry_run = sandbox.way(&fork, ["sync", "--dry-run", "--json"]).data();
    let first = dry_run["commands"][0].as_str().unwrap();
    assert!(first.contains(" fetch ") && first.ends_with(" +refs/heads/main:refs/remotes/origin/main"), "{first}");
    assert_eq!(seen(), before);
    let run = sandbox.way(&fork, ["sync"]);
    assert!(run.code == 0 && seen() == sandbox.git(&upstream, ["rev-parse", "main"]), "{run:?}");

    sandbox.git(&fork, ["config", "remote.origin.url", "/nowhere"]);
    let _ = sandbox.way(&fork, ["update", &id, "--title", "Changed"]).ok();
    let run = sandbox.way(&fork, ["sync"]);
    assert!(run.code == 0 && run.stderr.contains("cannot fetch origin"), "{run:?}");
    assert_eq!(sandbox.git(&planning, ["status", "--porcelain", "--", LEDGER]), "", "the planning is committed");
}

#[test]
fn a_contributors_later_edits_stay_in_the_planning_until_the_project_has_them() {
    let sandbox = sandbox();
    let (upstream, fork, planning) = contributor(&sandbox);
    sandbox.git(&fork, ["remote", "remove", "upstream"]);
    let id = add(&sandbox, &fork, &["Idea"]);
    at(&sandbox, &fork, 1, &["propose", &id]);
    sandbox.git(&fork, ["commit", "-q", "-a", "-m", "propose"]);
    sandbox.git(&upstream, ["pull", "-q", "--no-rebase", "../fork"]);
    at(&sandbox, &planning, 2, &["comment", &id, "said in the planning"]);
    at(&sandbox, &upstream, 3, &["update", &id, "--title", "Better idea"]);
    at(&sandbox, &upstream, 3, &["accept", &id]);
    sandbox.git(&upstream, ["commit", "-q", "-a", "-m", "accept"]);
    let said = at(&sandbox, &fork, 4, &["sync"]);
    assert!(said.contains(&format!("{id} was accepted without")) && said.contains("way propose"), "{said}");
    assert_eq!(comments(&copies(&planning, &id)[0]), ["said in the planning"]);
    // The contributor proposes the rest, and the project takes it.
    sandbox.git(&fork, ["pull", "-q", "--no-rebase"]);
    at(&sandbox, &fork, 5, &["propose", &id]);
    let again = at(&sandbox, &fork, 5, &["sync"]);
    assert!(again.contains("was accepted without"), "the project does not have it yet: {again}");
    sandbox.git(&fork, ["commit", "-q", "-a", "-m", "propose more"]);
    sandbox.git(&upstream, ["pull", "-q", "--no-rebase", "../fork"]);
    let [canonical] = copies(&upstream, &id).try_into().unwrap();
    assert_eq!(
        (comments(&canonical), &canonical["title"]),
        (vec!["said in the planning".to_owned()], &"Better idea".into())
    );
    assert!(canonical.get("visibility").is_none(), "{canonical}");
    let said = at(&sandbox, &fork, 6, &["sync"]);
    assert!(said.contains(&format!("{id} was accepted and is now an issue of the project")), "{said}");
    assert!(copies(&planning, &id).is_empty());
    let _ = sandbox.way(&fork, ["propose", &id]).fails(4);
}

#[test]
fn a_maintainers_later_edits_of_the_planning_go_into_the_project_with_sync() {
    let sandbox = sandbox();
    let origin = sandbox.git_repo("origin");
    sandbox.git(&origin, ["commit", "-q", "--allow-empty", "-m", "first"]);
    sandbox.git(&origin, ["checkout", "-q", "--detach"]);
    sandbox.git(&sandbox.path("."), ["clone", "-q", "--branch", "main", "origin", "project"]);
    let (project, planning) = (sandbox.path("project"), sandbox.git_repo("planning"));
    let _ = sandbox.way(&project, ["config", "--add-repo", "../planning"]).ok();
    let id = add(&sandbox, &project, &["Idea", "--repo", "../planning"]);
    at(&sandbox, &project, 1, &["propose", &id]);
    at(&sandbox, &project, 2, &["accept", &id]);
    at(&sandbox, &planning, 3, &["comment", &id, "said later"]);
    at(&sandbox, &project, 4, &["sync"]);
    assert!(copies(&planning, &id).is_empty());
    let [canonical] = copies(&project, &id).try_into().unwrap();
    assert_eq!(comments(&canonical), ["said later"]);
}
