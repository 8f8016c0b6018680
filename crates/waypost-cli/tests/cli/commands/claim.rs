//! Claims of issues: one holder across all clones, claims that expire, completions that reach the ledger.

use std::path::Path;

use waypost_testkit::{Run, Sandbox, strace};

use crate::support::claims::{at, end, start};
use crate::support::jobs::until;
use crate::support::ledger::{LEDGER, add, at_once, ids};
use crate::support::repos::contributor;
use crate::support::sandbox;
use crate::support::transfers::is_being_written;

#[test]
fn a_claim_is_a_lease_with_an_expiry_time() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let id = add(&sandbox, &repo, &["Fix it"]);
    let claimed = at(&sandbox, &repo, 0, "ada", &["claim", &id, "--json"]).data();
    assert_eq!(claimed["lease"]["epoch"], 1);
    assert_eq!(claimed["assignee"], "ada");
    let ledger = std::fs::read_to_string(repo.join(LEDGER)).unwrap();
    assert!(!ledger.contains("lease"), "a lease is not written to the ledger: {ledger}");
    let error = at(&sandbox, &repo, 5, "bob", &["claim", &id]).fails(4);
    assert!(error.stderr.contains("held by ada until 2026-01-01T00:30:00"), "{}", error.stderr);
    // Claiming a held issue again renews the lease.
    let renewed = at(&sandbox, &repo, 5, "ada", &["claim", &id, "--json"]).data();
    assert_eq!(renewed["lease"]["epoch"], 1);
    let _ = at(&sandbox, &repo, 34, "bob", &["claim", &id]).fails(4);
}

#[test]
fn an_issue_reassigned_by_hand_is_not_released_when_the_old_claim_expires() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let id = add(&sandbox, &repo, &["Fix it"]);
    let _ = at(&sandbox, &repo, 0, "ada", &["claim", &id, "--ttl", "10m"]).ok();
    let _ = at(&sandbox, &repo, 1, "bob", &["update", &id, "--assignee", "bob"]).ok();
    let _ = at(&sandbox, &repo, 20, "cyd", &["ready"]).fails(6);
    let shown = at(&sandbox, &repo, 20, "cyd", &["show", &id, "--json"]).data();
    assert_eq!((&shown["status"], &shown["assignee"]), (&"in_progress".into(), &"bob".into()));
}

#[test]
fn only_the_holder_decides_on_an_issue_that_is_held() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let (id, other) = (add(&sandbox, &repo, &["Fix it"]), add(&sandbox, &repo, &["Other"]));
    let _ = at(&sandbox, &repo, 0, "ada", &["claim", &id, "--ttl", "10m"]).ok();
    let _ = at(&sandbox, &repo, 11, "bob", &["claim", &id, "--ttl", "10m"]).ok();
    sandbox.write(repo.join("batch"), format!("comment {id} hello\nclose {id}\n"));
    let before = std::fs::read(repo.join(LEDGER)).unwrap();
    for args in [
        &["close", &id][..],
        &["close", &other, &id],
        &["update", &id, "--status", "open"],
        &["release", &id],
        &["reopen", &id],
        &["delete", &id],
        &["batch", "batch"],
    ] {
        let former = at(&sandbox, &repo, 12, "ada", args).fails(5);
        assert!(former.stderr.contains("ada does not hold issue") && former.stderr.contains("bob does, until"));
        let stranger = at(&sandbox, &repo, 12, "cyd", args).fails(4);
        assert!(stranger.stderr.contains("is held by bob until 2026-01-01T00:21:00"), "{}", stranger.stderr);
        assert!(stranger.stderr.contains("--force"), "{}", stranger.stderr);
    }
    assert_eq!(std::fs::read(repo.join(LEDGER)).unwrap(), before, "nothing was written");
    // Every agent may comment on it, label it and link it.
    for args in [
        &["comment", &id, "how is it going?"][..],
        &["label", "add", &id, "urgent"],
        &["dep", "add", &id, &other, "--type", "related"],
        &["update", &id, "-p", "0"],
    ] {
        let _ = at(&sandbox, &repo, 12, "ada", args).ok();
    }
    let _ = at(&sandbox, &repo, 13, "bob", &["update", &id, "--status", "in_progress"]).ok();
    let _ = at(&sandbox, &repo, 13, "bob", &["close", &id, "--reason", "by its holder"]).ok();
    let _ = at(&sandbox, &repo, 14, "ada", &["reopen", &id]).ok();
    // A person overrides the holder with --force.
    let _ = at(&sandbox, &repo, 14, "bob", &["claim", &id]).ok();
    let _ = sandbox.way(&repo, ["close", &id]).fails(4);
    let forced =
        sandbox.way_with(&repo, &[("WAYPOST_TEST_CLOCK", "2026-01-01T00:15:00Z".as_ref())], ["close", &id, "--force"]);
    assert_eq!(forced.code, 0, "{forced:?}");
    let _ = at(&sandbox, &repo, 16, "ada", &["reopen", &id]).ok();
    assert_eq!(at(&sandbox, &repo, 16, "ada", &["claim", &id, "--json"]).data()["lease"]["epoch"], 4);
}

/// Makes an epic with one part and starts a workflow from it. Returns the part, which has a task.
fn issue_with_task(sandbox: &Sandbox, repo: &Path) -> String {
    let epic = add(sandbox, repo, &["Epic", "-t", "epic"]);
    let part = add(sandbox, repo, &["Part", "--parent", &epic]);
    let _ = at(sandbox, repo, 0, "cyd", &["workflow", "from-issue", &epic, "--start"]).ok();
    part
}

#[test]
fn an_issue_cannot_be_claimed_while_another_agent_holds_its_task() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let part = issue_with_task(&sandbox, &repo);
    let claimed = at(&sandbox, &repo, 0, "ada", &["task", "claim", "--json"]).data();
    let task = claimed["task"]["id"].as_str().unwrap().to_owned();
    let before = std::fs::read(repo.join(LEDGER)).unwrap();
    let refused = at(&sandbox, &repo, 1, "bob", &["claim", &part]).fails(4);
    assert!(refused.stderr.contains("is held by ada until 2026-01-01T00:10:00"), "{}", refused.stderr);
    assert!(refused.stderr.contains(&task), "{}", refused.stderr);
    let _ = at(&sandbox, &repo, 1, "bob", &["close", &part]).fails(4);
    assert_eq!(std::fs::read(repo.join(LEDGER)).unwrap(), before, "nothing was written");
    // The agent that holds the task may claim the issue too, and then other agents cannot claim the task.
    let _ = at(&sandbox, &repo, 2, "ada", &["claim", &part]).ok();
    let done = at(&sandbox, &repo, 3, "ada", &["task", "done", &task, "--outcome", "did it"]);
    assert!(done.code == 0 && done.stdout.contains("Closed"), "{done:?}");
}

#[test]
fn an_issue_can_be_claimed_when_the_lease_on_its_task_has_ended() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let part = issue_with_task(&sandbox, &repo);
    let _ = at(&sandbox, &repo, 0, "ada", &["task", "claim"]).ok();
    let _ = at(&sandbox, &repo, 9, "bob", &["claim", &part]).fails(4);
    let _ = at(&sandbox, &repo, 11, "bob", &["claim", &part]).ok();
    let _ = at(&sandbox, &repo, 12, "ada", &["close", &part]).fails(4);
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
    // The second clone's ledger does not contain the claim, but the shared store does.
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

#[test]
fn a_contributor_is_offered_only_issues_that_they_may_claim() {
    let sandbox = sandbox();
    let (_, fork, _) = contributor(&sandbox);
    let run = sandbox.way(&fork, ["claim", "--agent", "ada"]).fails(6);
    assert!(run.stderr.contains("nothing is ready"), "{}", run.stderr);
    let mine = add(&sandbox, &fork, &["Explore dark mode", "-p", "4"]);
    let listed = sandbox.way(&fork, ["ready"]);
    assert_eq!(listed.code, 0, "{listed:?}");
    assert!(listed.stdout.contains(&mine) && !listed.stdout.contains("up-1"), "{}", listed.stdout);
    assert!(
        listed.stderr.contains("not listed: 1 ready issue of fork, whose ledger you may not write"),
        "{}",
        listed.stderr
    );
    let explained = sandbox.way(&fork, ["ready", "--explain", "up-1", "--json"]).data();
    assert_eq!(
        (&explained["ready"], &explained["reasons"]),
        (&false.into(), &["you may not write its ledger"].as_slice().into())
    );
    let claimed = sandbox.way(&fork, ["claim", "--agent", "ada", "--json"]).data();
    assert_eq!(claimed["id"], mine.as_str());
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

/// Runs a command as a person, at a minute of the first day of 2026.
fn person_at(sandbox: &Sandbox, repo: &Path, minute: u32, args: &[&str]) -> Run {
    let clock = format!("2026-01-01T{:02}:{:02}:00Z", minute / 60, minute % 60);
    sandbox.way_with(repo, &[("WAYPOST_TEST_CLOCK", clock.as_ref())], args)
}

#[test]
fn the_claim_of_a_person_lasts_until_it_is_released() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let id = add(&sandbox, &repo, &["Fix it"]);
    let claimed = person_at(&sandbox, &repo, 0, &["claim", &id, "--json"]).data();
    assert_eq!(claimed["lease"], serde_json::json!({ "epoch": 1, "expires_at": null }));
    // Any write expires what is due, also agents that were silent for too long.
    let _ = at(&sandbox, &repo, 1430, "bob", &["agent", "heartbeat"]).ok();
    let shown = at(&sandbox, &repo, 1430, "bob", &["show", &id, "--json"]).data();
    assert_eq!((&shown["status"], &shown["assignee"]), (&"in_progress".into(), &claimed["assignee"]));
    let refused = at(&sandbox, &repo, 1430, "bob", &["claim", &id]).fails(4);
    assert!(refused.stderr.contains("until it is released"), "{}", refused.stderr);
    assert!(refused.stderr.contains(&format!("way release {id} --force")), "{}", refused.stderr);
    let listed = at(&sandbox, &repo, 1430, "bob", &["agent", "list"]).ok().stdout;
    assert!(!listed.contains("4611686018427387904"), "{listed}");
    let _ = person_at(&sandbox, &repo, 1431, &["release", &id]).ok();
    let _ = at(&sandbox, &repo, 1431, "bob", &["claim", &id]).ok();
    // A person takes it away from an agent, and from another person.
    let _ = person_at(&sandbox, &repo, 1432, &["release", &id, "--force"]).ok();
    assert_eq!(person_at(&sandbox, &repo, 1432, &["claim", &id, "--json"]).data()["lease"]["epoch"], 3);
}

#[test]
fn the_configuration_says_how_long_claims_last() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let id = add(&sandbox, &repo, &["Fix it"]);
    let end = |run: Run| -> jiff::Timestamp { run.data()["lease"]["expires_at"].as_str().unwrap().parse().unwrap() };
    let claim = |minute: u32| {
        let end = end(at(&sandbox, &repo, minute, "ada", &["claim", &id, "--json"]));
        let _ = at(&sandbox, &repo, minute, "ada", &["release", &id]).ok();
        end.to_string()
    };
    assert_eq!(claim(0), "2026-01-01T00:30:00Z", "the default for issues");
    let _ = issue_with_task(&sandbox, &repo);
    let task = end(at(&sandbox, &repo, 0, "ada", &["task", "claim", "--json"])).to_string();
    assert_eq!(task, "2026-01-01T00:10:00Z", "the default for tasks");
    let _ = sandbox.way(&repo, ["config", "set", "lease.ttl", "5m"]).ok();
    assert_eq!(claim(60), "2026-01-01T01:05:00Z");
    let task = end(at(&sandbox, &repo, 60, "ada", &["task", "claim", "--json"])).to_string();
    assert_eq!(task, "2026-01-01T01:05:00Z");
    let _ = sandbox.way(&repo, ["config", "set", "lease.ttl_human", "1h"]).ok();
    let limited = end(person_at(&sandbox, &repo, 120, &["claim", &id, "--json"])).to_string();
    assert_eq!(limited, "2026-01-01T03:00:00Z");
    let _ = at(&sandbox, &repo, 181, "bob", &["claim", &id]).ok();
    let _ = sandbox.way(&repo, ["config", "set", "lease.ttl", "soon"]).fails(2);
}

#[test]
fn every_command_of_an_agent_renews_its_claims() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let id = add(&sandbox, &repo, &["Fix it"]);
    let _ = at(&sandbox, &repo, 0, "ada", &["claim", &id]).ok();
    for (minute, args) in [
        (25, &["list"][..]),
        (50, &["task", "list"]),
        (75, &["comment", &id, "half"]),
        (100, &["agent", "list"]),
        (125, &["status"]),
    ] {
        let run = at(&sandbox, &repo, minute, "ada", args);
        assert_eq!(run.code, 0, "{args:?}: {run:?}");
        let refused = at(&sandbox, &repo, minute + 24, "bob", &["claim", &id]).fails(4);
        assert!(refused.stderr.contains("is held by ada"), "{args:?}: {}", refused.stderr);
    }
    // A command of another agent renews nothing.
    let _ = at(&sandbox, &repo, 156, "bob", &["claim", &id]).ok();
}
