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

#[test]
fn a_lease_without_a_claim_in_the_ledger_can_be_released() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let id = add(&sandbox, &repo, &["Fix it"]);
    sandbox.git(&repo, ["add", "."]);
    sandbox.git(&repo, ["commit", "-q", "-m", "ledger"]);
    // The file is restored, so it does not show the claim any more.
    let claim = || {
        let _ = at(&sandbox, &repo, 0, "ada", &["claim", &id]).ok();
        sandbox.git(&repo, ["checkout", "-q", "--", ".waypost"]);
        let _ = at(&sandbox, &repo, 0, "ada", &["restore", "--drop"]).ok();
    };
    claim();
    let _ = at(&sandbox, &repo, 1, "bob", &["claim", &id]).fails(4);
    let _ = at(&sandbox, &repo, 1, "bob", &["release", &id]).fails(4);
    let _ = at(&sandbox, &repo, 1, "bob", &["release", &id, "--force"]).ok();
    claim();
    let _ = at(&sandbox, &repo, 1, "ada", &["release", &id]).ok();
    let _ = at(&sandbox, &repo, 1, "ada", &["release", &id]).fails(4);
    // Setting another status ends the claim.
    let _ = at(&sandbox, &repo, 2, "ada", &["claim", &id]).ok();
    let _ = at(&sandbox, &repo, 2, "ada", &["update", &id, "--status", "open"]).ok();
    let _ = at(&sandbox, &repo, 2, "bob", &["claim", &id]).ok();
}

#[test]
fn the_end_of_a_claim_reaches_the_ledger_of_its_own_worktree() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let _ = sandbox.way(&repo, ["config", "set", "ledger.home", "branch"]).ok();
    let both = add(&sandbox, &repo, &["On both branches"]);
    sandbox.git(&repo, ["add", "."]);
    sandbox.git(&repo, ["commit", "-q", "-m", "ledger"]);
    sandbox.git(&repo, ["worktree", "add", "-q", "-b", "feature", "../tree"]);
    let tree = sandbox.path("tree");
    let here = add(&sandbox, &tree, &["Only on one"]);
    for id in [&both, &here] {
        let _ = at(&sandbox, &tree, 0, "ada", &["claim", id, "--ttl", "5m"]).ok();
    }
    let _ = at(&sandbox, &repo, 20, "bob", &["add", "Something else"]).ok();
    for id in [&both, &here] {
        let _ = at(&sandbox, &tree, 21, "bob", &["claim", id]).ok();
    }
}

#[test]
fn the_end_of_a_task_reaches_the_ledger_when_its_branch_is_checked_out_again() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    sandbox.git(&repo, ["checkout", "-q", "-b", "feature"]);
    let id = add(&sandbox, &repo, &["Fix it"]);
    sandbox.git(&repo, ["add", "."]);
    sandbox.git(&repo, ["commit", "-q", "-m", "ledger"]);
    let plan = format!(r#"{{"tasks": [{{"name": "t", "issue": "{id}"}}]}}"#);
    sandbox.write(repo.join(".git/plan.json"), plan);
    let _ = at(&sandbox, &repo, 0, "ada", &["workflow", "create", "w", "--plan", ".git/plan.json", "--start"]).ok();
    let _ = at(&sandbox, &repo, 0, "ada", &["task", "claim", "t"]).ok();
    sandbox.git(&repo, ["stash", "-q"]);
    sandbox.git(&repo, ["checkout", "-q", "main"]);
    let finished = at(&sandbox, &repo, 1, "ada", &["task", "done", "t", "--outcome", "did it"]);
    assert!(finished.code == 0 && finished.stderr.contains("was not closed"), "{finished:?}");
    sandbox.git(&repo, ["checkout", "-q", "feature"]);
    assert_eq!(at(&sandbox, &repo, 2, "ada", &["add", "Something else"]).code, 0);
    assert_eq!(at(&sandbox, &repo, 3, "ada", &["show", &id, "--json"]).data()["status"], "closed");
}
