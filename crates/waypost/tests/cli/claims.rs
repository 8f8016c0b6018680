//! Issues and leases joined: one holder over all clones, claims that end, finishes that reach the ledger.

use std::path::Path;

use waypost_testkit::{Run, Sandbox};

use crate::ledger::{LEDGER, add, ids};
use crate::sandbox;

/// Runs a command as an agent, at a minute of the first day of 2026.
fn at(sandbox: &Sandbox, repo: &Path, minute: u32, agent: &str, args: &[&str]) -> Run {
    let clock = format!("2026-01-01T{:02}:{:02}:00Z", minute / 60, minute % 60);
    sandbox.way_with(repo, &[("WAYPOST_TEST_CLOCK", clock.as_ref()), ("WAYPOST_AGENT", agent.as_ref())], args)
}

#[test]
fn a_claim_is_a_lease_and_says_until_when() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let id = add(&sandbox, &repo, &["Fix it"]);
    let claimed = at(&sandbox, &repo, 0, "ada", &["claim", &id, "--json"]).data();
    assert_eq!(claimed["lease"]["epoch"], 1);
    assert_eq!(claimed["assignee"], "ada");
    let ledger = std::fs::read_to_string(repo.join(LEDGER)).unwrap();
    assert!(!ledger.contains("lease"), "a lease is nothing for version control: {ledger}");
    let error = at(&sandbox, &repo, 5, "bob", &["claim", &id]).fails(4);
    assert!(error.stderr.contains("held by ada until 2026-01-01T00:10:00"), "{}", error.stderr);
    // Claiming what one holds renews it.
    let renewed = at(&sandbox, &repo, 5, "ada", &["claim", &id, "--json"]).data();
    assert_eq!(renewed["lease"]["epoch"], 1);
    let _ = at(&sandbox, &repo, 12, "bob", &["claim", &id]).fails(4);
}

#[test]
fn a_claim_that_ends_frees_the_issue_in_the_ledger_too() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let id = add(&sandbox, &repo, &["Fix it"]);
    let _ = at(&sandbox, &repo, 0, "ada", &["claim", &id]).ok();
    assert_eq!(at(&sandbox, &repo, 9, "bob", &["ready"]).code, 6);
    // Nobody was heard of: whoever looks next finds it free, and so does the ledger.
    let ready = at(&sandbox, &repo, 10, "bob", &["ready", "--json"]).data();
    assert_eq!(ready[0]["id"].as_str(), Some(id.as_str()));
    assert_eq!(ready[0]["status"], "open");
    assert!(ready[0].get("assignee").is_none());
    let taken = at(&sandbox, &repo, 11, "bob", &["claim", "--json"]).data();
    assert_eq!(taken["lease"]["epoch"], 2, "the first holder's epoch is never used again");
    // What ada finds out when it comes back.
    let _ = at(&sandbox, &repo, 12, "ada", &["claim", &id]).fails(4);
    let _ = at(&sandbox, &repo, 12, "ada", &["release", &id]).fails(7);
}

#[test]
fn an_issue_taken_over_by_hand_is_not_given_back_when_the_old_claim_ends() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let id = add(&sandbox, &repo, &["Fix it"]);
    let _ = at(&sandbox, &repo, 0, "ada", &["claim", &id]).ok();
    let _ = at(&sandbox, &repo, 1, "bob", &["update", &id, "--assignee", "bob"]).ok();
    let _ = at(&sandbox, &repo, 20, "cyd", &["ready"]).fails(6);
    let shown = at(&sandbox, &repo, 20, "cyd", &["show", &id, "--json"]).data();
    assert_eq!((&shown["status"], &shown["assignee"]), (&"in_progress".into(), &"bob".into()));
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
fn clones_that_share_a_store_do_not_take_the_same_issue() {
    let sandbox = sandbox();
    let first = sandbox.git_repo("first");
    let (one, two) = (add(&sandbox, &first, &["One", "-p", "0"]), add(&sandbox, &first, &["Two"]));
    sandbox.git(&first, ["add", "."]);
    sandbox.git(&first, ["commit", "--quiet", "--message=issues"]);
    let second = sandbox.path("second");
    sandbox.git(&sandbox.path(""), ["clone", "--quiet", "first", "second"]);
    let store = sandbox.path("shared.db");
    let store = store.to_str().unwrap();
    let _ = at(&sandbox, &first, 0, "ada", &["claim", "--db", store]).ok();
    // The second clone's ledger has not heard of it, but the store has.
    assert_eq!(ids(&sandbox, &second, &["ready", "--db", store]), [two.as_str()]);
    let explained = at(&sandbox, &second, 1, "bob", &["ready", "--explain", &one, "--db", store]).ok().stdout;
    assert!(explained.contains("leased to ada until"), "{explained}");
    let taken = at(&sandbox, &second, 1, "bob", &["claim", "--db", store, "--json"]).data();
    assert_eq!(taken["id"].as_str(), Some(two.as_str()));
    let _ = at(&sandbox, &second, 1, "bob", &["claim", &one, "--db", store]).fails(4);
}

#[test]
fn thirty_agents_at_once_get_twenty_five_issues() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    for number in 0..25 {
        add(&sandbox, &repo, &[&format!("Issue {number}")]);
    }
    let children: Vec<_> = (0..30)
        .map(|number| {
            let mut command = sandbox.way_command(&repo);
            command.args(["claim", "--json", "--agent", &format!("agent-{number}")]);
            command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap()
        })
        .collect();
    let runs: Vec<_> = children.into_iter().map(|child| Run::of(&child.wait_with_output().unwrap())).collect();
    let mut taken: Vec<String> = runs
        .iter()
        .filter(|run| run.code == 0)
        .map(|run| serde_json::from_str::<serde_json::Value>(&run.stdout).unwrap()["data"]["id"].to_string())
        .collect();
    assert_eq!(taken.len(), 25, "{runs:?}");
    taken.sort();
    taken.dedup();
    assert_eq!(taken.len(), 25);
    assert!(runs.iter().all(|run| matches!(run.code, 0 | 6)), "{runs:?}");
}
