//! Claims of issues: one holder across all clones, claims that expire, completions that reach the ledger.

use std::path::Path;

use waypost_testkit::{Run, Sandbox, strace, until};

use crate::support::claims::{at, end, start};
use crate::support::ledger::{LEDGER, add, at_once};
use crate::support::sandbox;
use crate::support::transfers::is_being_written;

/// Makes an epic with one part and starts a workflow from it. Returns the part, which has a task.
fn issue_with_task(sandbox: &Sandbox, repo: &Path) -> String {
    let epic = add(sandbox, repo, &["Epic", "-t", "epic"]);
    let part = add(sandbox, repo, &["Part", "--parent", &epic]);
    let _ = at(sandbox, repo, 0, "cyd", &["workflow", "from-issue", &epic, "--start"]).ok();
    part
}

/// A change checked before the claim is in the ledger when the claim returns; any later change is refused.
#[test]
fn a_task_claim_is_answered_after_a_close_of_its_issue_that_did_not_see_it() {
    strace();
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let part = issue_with_task(&sandbox, &repo);
    let slow = ["-f", "-o", "/dev/null", "-e", "trace=fsync", "-e", "inject=fsync:delay_enter=2000000"];
    let slow = [&slow[..], &[env!("CARGO_BIN_EXE_way")]].concat();
    let close = start(&sandbox, &repo, 1, "ada", &slow, &["close", &part, "--reason", "by ada"]);
    until("the close is being written to the ledger", || is_being_written(&repo));
    let claimed = at(&sandbox, &repo, 1, "bob", &["task", "claim"]);
    let ledger = std::fs::read_to_string(repo.join(LEDGER)).unwrap();
    let closed = end(close);
    assert_eq!((claimed.code, closed.code), (0, 0), "{claimed:?} {closed:?}");
    assert!(ledger.contains("by ada"), "the claim was answered before the close was in the ledger: {ledger}");
    assert!(claimed.stderr.contains(&format!("issue {part} is closed")), "{claimed:?}");
    let _ = at(&sandbox, &repo, 2, "ada", &["reopen", &part]).fails(4);
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

#[test]
fn of_a_hundred_and_fifty_claims_of_one_issue_one_wins() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let id = add(&sandbox, &repo, &["The only one"]);
    let outputs = at_once(&sandbox, &repo, 150, |number| {
        vec!["claim".into(), id.clone(), "--actor".into(), format!("agent {number}")]
    });
    let won = outputs.iter().filter(|output| output.status.success()).count();
    let refused = outputs.iter().filter(|output| output.status.code() == Some(4)).count();
    assert_eq!((won, refused), (1, 149));
}

/// Adds an issue and claims it for ten minutes. Returns its id.
fn claimed_for_ten_minutes(sandbox: &Sandbox, repo: &Path) -> String {
    let id = add(sandbox, repo, &["Fix it"]);
    let _ = at(sandbox, repo, 0, "ada", &["claim", &id, "--ttl", "10m"]).ok();
    id
}

#[test]
fn reads_show_an_expired_claim_as_free_and_leave_the_ledger_as_it_is() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let id = claimed_for_ten_minutes(&sandbox, &repo);
    let before = std::fs::read(repo.join(LEDGER)).unwrap();
    for args in [
        &["list", "--json"][..],
        &["show", &id, "--json"],
        &["ready", "--json"],
        &["ready", "--explain", &id, "--json"],
        &["search", "fix", "--json"],
        &["stats", "--json"],
        &["stale", "--days", "0", "--json"],
        &["log", &id, "--json"],
        &["export", "json"],
        &["blocked"],
        &["dep", "tree", &id],
        &["label", "list"],
        &["status", "--json"],
        &["prime"],
        &["task", "list"],
        &["workflow", "list"],
        &["agent", "list"],
        &["context"],
        &["hook", "start", "--for", "claude-code"],
        &["doctor"],
        &["sync", "--dry-run"],
        &["prune", "--dry-run"],
    ] {
        let run = at(&sandbox, &repo, 20, "bob", args);
        assert_eq!(std::fs::read(repo.join(LEDGER)).unwrap(), before, "{args:?} changed the ledger: {run:?}");
    }
    let shown = at(&sandbox, &repo, 20, "bob", &["show", &id, "--json"]).data();
    assert_eq!((&shown["status"], &shown["assignee"]), (&"open".into(), &serde_json::Value::Null));
    let listed = at(&sandbox, &repo, 20, "bob", &["list", "--status", "open", "--json"]).data();
    assert_eq!(listed[0]["id"], id.as_str());
    assert_eq!(at(&sandbox, &repo, 20, "bob", &["ready", "--json"]).data()[0]["id"], id.as_str());
    assert_eq!(at(&sandbox, &repo, 20, "bob", &["search", "fix", "--json"]).data()[0]["status"], "open");
    assert_eq!(at(&sandbox, &repo, 20, "bob", &["stats", "--json"]).data()["ready"], 1);
    assert_eq!(at(&sandbox, &repo, 20, "bob", &["status", "--json"]).data()["issues"]["in_progress"], 0);
    assert!(at(&sandbox, &repo, 20, "bob", &["prime"]).ok().stdout.contains(&id));
    assert_eq!(std::fs::read(repo.join(LEDGER)).unwrap(), before);
}

#[test]
fn the_next_write_brings_the_ledger_up_to_date_after_a_claim_expired() {
    let sandbox = sandbox();
    for write in [
        &["add", "Another"][..],
        &["agent", "heartbeat"],
        &["workflow", "create", "w"],
        &["prune"],
        &["sync", "--no-push"],
    ] {
        let name = format!("repo-{}", write[0]);
        let repo = sandbox.git_repo(&name);
        let id = claimed_for_ten_minutes(&sandbox, &repo);
        let read = || std::fs::read_to_string(repo.join(LEDGER)).unwrap();
        let _ = at(&sandbox, &repo, 20, "bob", &["show", &id]).ok();
        assert!(read().contains("in_progress"), "{}", read());
        let run = at(&sandbox, &repo, 20, "bob", write);
        assert!(
            !read().contains("in_progress") && read().contains(r#""status":"open""#),
            "{write:?}: {run:?} {}",
            read()
        );
    }
}

#[test]
fn a_claim_tells_its_lease_and_a_refused_one_the_holder() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let id = add(&sandbox, &repo, &["Fix it"]);
    let claimed = at(&sandbox, &repo, 0, "ada", &["claim", &id, "--ttl", "10m", "--json"]).data();
    assert_eq!(claimed["lease"], serde_json::json!({ "epoch": 1, "expires_at": "2026-01-01T00:10:00.000Z" }));
    let refused = at(&sandbox, &repo, 5, "bob", &["claim", &id]).fails(4);
    assert!(refused.stderr.contains("held by ada until 2026-01-01T00:10:00"), "{}", refused.stderr);
    let _ = at(&sandbox, &repo, 5, "ada", &["release", &id]).ok();
    // The claim of a person has no end.
    let clock = [("WAYPOST_TEST_CLOCK", "2026-01-01T00:06:00Z".as_ref())];
    let claimed = sandbox.way_with(&repo, &clock, ["claim", "--json"]).data();
    assert_eq!(claimed["lease"], serde_json::json!({ "epoch": 2, "expires_at": null }));
    let listed = at(&sandbox, &repo, 7, "bob", &["agent", "list"]).ok().stdout;
    assert!(!listed.contains("4611686018427387904"), "{listed}");
    let _ = at(&sandbox, &repo, 7, "bob", &["claim"]).fails(6);
    let _ = sandbox.way(&repo, ["config", "set", "lease.ttl", "soon"]).fails(2);
}

#[test]
fn commands_of_an_agent_renew_its_claims() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let id = add(&sandbox, &repo, &["Fix it"]);
    let _ = at(&sandbox, &repo, 0, "ada", &["claim", &id]).ok();
    for (minute, args) in [(25, &["list"][..]), (50, &["task", "list"]), (75, &["agent", "list"]), (100, &["status"])] {
        let run = at(&sandbox, &repo, minute, "ada", args);
        assert_eq!(run.code, 0, "{args:?}: {run:?}");
        let _ = at(&sandbox, &repo, minute + 24, "bob", &["claim", &id]).fails(4);
    }
}
