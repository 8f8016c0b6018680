//! Claims of issues: leases, the rights of the holder, and their end.

use serde_json::{Value, json};
use waypost::op::{AddWorkflow, ClaimTask, FinishTask};
use waypost::{Kind, op};

use crate::desk::{Desk, ids, refusal};

/// Claims an issue for ten minutes.
fn claim_for_ten_minutes(desk: &Desk, id: &str) -> Value {
    desk.run("claim_issue", json!({ "issue": id, "ttl_ms": 600_000 }))
}

fn epoch(claimed: &Value) -> u64 {
    claimed["lease"]["epoch"].as_u64().unwrap()
}

fn end(claimed: &Value) -> String {
    claimed["lease"]["expires_at"].as_str().unwrap().to_owned()
}

fn release(desk: &Desk, id: &str) -> Value {
    desk.run("release_issue", json!({ "issue": id }))
}

#[test]
fn a_claim_is_a_lease_with_an_expiry_time() {
    let desk = Desk::new();
    let (ada, bob) = (desk.agent("ada"), desk.agent("bob"));
    let id = desk.add("Fix it");
    let claimed = ada.claim(&id);
    assert_eq!((epoch(&claimed), &claimed["issue"]["assignee"]), (1, &"ada".into()));
    assert!(!desk.file().contains("lease"), "a lease is not written to the ledger: {}", desk.file());
    let claim = json!({ "issue": &id });
    let said = bob.at(5).refused(Kind::Conflict, "claim_issue", claim.clone());
    assert!(said.contains("held by ada until 2026-01-01T00:30:00"), "{said}");
    // Claiming a held issue again renews the lease.
    assert_eq!(epoch(&ada.at(5).claim(&id)), 1);
    bob.at(34).refused(Kind::Conflict, "claim_issue", claim);
}

#[test]
fn an_issue_reassigned_by_hand_is_not_released_when_the_old_claim_expires() {
    let desk = Desk::new();
    let id = desk.add("Fix it");
    claim_for_ten_minutes(&desk.agent("ada"), &id);
    desk.at(1).update(&id, json!({ "assignee": "bob" }));
    let later = desk.agent("cyd").at(20);
    assert!(later.ready().is_empty());
    let shown = later.show(&id);
    assert_eq!((&shown["status"], &shown["assignee"]), (&"in_progress".into(), &"bob".into()));
}

#[test]
fn only_the_holder_decides_on_an_issue_that_is_held() {
    let desk = Desk::new();
    let (ada, bob, cyd) = (desk.agent("ada"), desk.agent("bob"), desk.agent("cyd"));
    let (id, other) = (desk.add("Fix it"), desk.add("Other"));
    claim_for_ten_minutes(&ada, &id);
    claim_for_ten_minutes(&bob.at(11), &id);
    let before = desk.file();
    let change = |op: &str, more: Value| {
        let mut change = json!({ "op": op, "id": &id });
        change.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        change
    };
    let for_people = [
        change("update", json!({ "add_labels": ["urgent"] })),
        change("depend", json!({ "on": &other, "type": "related" })),
        change("update", json!({ "priority": 0 })),
    ];
    let mut refused = vec![
        vec![change("close", json!({}))],
        vec![json!({ "op": "close", "id": &other }), change("close", json!({}))],
        vec![change("update", json!({ "status": "open" }))],
        vec![change("release", json!({}))],
        vec![change("reopen", json!({}))],
        vec![change("delete", json!({}))],
        vec![change("comment", json!({ "text": "hello" })), change("close", json!({}))],
        vec![change("update", json!({ "title": "Mine" }))],
        vec![change("update", json!({ "assignee": "ada" }))],
    ];
    refused.extend(for_people.iter().map(|change| vec![change.clone()]));
    for changes in refused {
        let said = refusal(Kind::LeaseLost, ada.at(12).batch(&changes));
        assert!(said.contains("ada does not hold issue") && said.contains("bob does, until"), "{changes:?}: {said}");
        let said = refusal(Kind::Conflict, cyd.at(12).batch(&changes));
        assert!(said.contains("is held by bob until 2026-01-01T00:21:00"), "{changes:?}: {said}");
        assert!(said.contains("--force"), "{said}");
    }
    assert_eq!(desk.file(), before, "nothing was written");
    // Every agent may comment on it, and people may label it, link it and change its fields.
    ada.at(12).comment(&id, "how is it going?");
    for change in for_people {
        desk.at(12).batch(&[change]).unwrap();
    }
    bob.at(13).update(&id, json!({ "status": "in_progress" }));
    bob.at(13).run("close_issue", json!({ "issue": &id, "reason": "by its holder" }));
    ada.at(14).run("reopen_issue", json!({ "issue": &id }));
    // A person overrides the holder by force.
    bob.at(14).claim(&id);
    desk.at(15).refused(Kind::Conflict, "close_issue", json!({ "issue": &id }));
    desk.at(15).run("close_issue", json!({ "issue": &id, "force": true }));
    ada.at(16).run("reopen_issue", json!({ "issue": &id }));
    assert_eq!(epoch(&ada.at(16).claim(&id)), 4);
}

fn claim_task(task: Option<&str>) -> ClaimTask {
    op::decode(&json!({ "task": task })).unwrap()
}

/// Starts a workflow with one task, of a new issue. Returns the issue.
fn issue_with_task(desk: &Desk) -> String {
    let id = desk.add("Part");
    let plan = json!({ "name": "w", "plan": { "tasks": [{ "name": "t", "issue": &id }] }, "start": true });
    let operation: AddWorkflow = op::decode(&plan).unwrap();
    desk.agent("cyd").session(|session| session.call(operation));
    id
}

#[test]
fn an_issue_cannot_be_claimed_while_another_agent_holds_its_task() {
    let desk = Desk::new();
    let (ada, bob) = (desk.agent("ada"), desk.agent("bob"));
    let part = issue_with_task(&desk);
    let task = ada.session(|session| session.call(claim_task(None))).task.task.id.to_string();
    let before = desk.file();
    let issue = json!({ "issue": &part });
    let said = bob.at(1).refused(Kind::Conflict, "claim_issue", issue.clone());
    assert!(said.contains("is held by ada until 2026-01-01T00:10:00") && said.contains(&task), "{said}");
    bob.at(1).refused(Kind::Conflict, "close_issue", issue);
    assert_eq!(desk.file(), before, "nothing was written");
    // The agent that holds the task may claim the issue too.
    ada.at(2).claim(&part);
    let finish = json!({ "task": &task, "outcome": "did it" });
    let finish: FinishTask = op::decode(&finish).unwrap();
    ada.at(3).session(|session| session.call(finish));
    assert_eq!(desk.at(3).show(&part)["status"], "closed");
}

#[test]
fn an_issue_can_be_claimed_when_the_lease_on_its_task_has_ended() {
    let desk = Desk::new();
    let (ada, bob) = (desk.agent("ada"), desk.agent("bob"));
    let part = issue_with_task(&desk);
    ada.session(|session| session.call(claim_task(None)));
    bob.at(9).refused(Kind::Conflict, "claim_issue", json!({ "issue": &part }));
    bob.at(11).claim(&part);
    ada.at(12).refused(Kind::Conflict, "close_issue", json!({ "issue": &part }));
}

#[test]
fn clones_that_share_a_store_do_not_take_the_same_issue() {
    let first = Desk::in_new_sandbox(|sandbox| sandbox.git_repo("first"));
    let (one, two) = (first.add_with("One", json!({ "priority": 0 })), first.add("Two"));
    first.commit("issues");
    first.in_dir("").git(["clone", "--quiet", "first", "second"]);
    let store = first.sandbox.path("shared.db");
    let second = first.in_dir("second").with_db(&store);
    first.with_db(&store).agent("ada").run("claim_issue", json!({}));
    // The second clone's ledger does not contain the claim, but the shared store does.
    assert_eq!(second.ready(), [two.as_str()]);
    let bob = second.agent("bob").at(1);
    let reasons = bob.explain(&one)["reasons"].to_string();
    assert!(reasons.contains("leased to ada until"), "{reasons}");
    assert_eq!(bob.run("claim_issue", json!({}))["issue"]["id"], *two);
    bob.refused(Kind::Conflict, "claim_issue", json!({ "issue": &one }));
}

#[test]
fn reads_show_an_expired_claim_as_free_and_leave_the_ledger_alone() {
    let desk = Desk::new();
    let id = desk.add("Fix it");
    claim_for_ten_minutes(&desk.agent("ada"), &id);
    let before = desk.file();
    let bob = desk.agent("bob").at(20);
    let shown = bob.show(&id);
    assert_eq!((&shown["status"], &shown["assignee"]), (&"open".into(), &Value::Null));
    assert_eq!(bob.list(json!({ "statuses": ["open"] })), [id.as_str()]);
    assert_eq!(bob.ready(), [id.as_str()]);
    assert_eq!(bob.explain(&id)["ready"], true);
    let found = bob.run("search_issues", json!({ "text": "fix" }));
    assert_eq!((ids(&found["issues"]), &found["issues"][0]["status"]), (vec![id], &"open".into()));
    assert_eq!(bob.reading(|cx| cx.with_index(|index| index.counts(cx.now))).unwrap().ready, 1);
    assert_eq!(desk.file(), before);
}

#[test]
fn the_claim_of_a_person_lasts_until_it_is_released() {
    let desk = Desk::new();
    let bob = desk.agent("bob");
    let id = desk.add("Fix it");
    let claimed = desk.claim(&id);
    assert_eq!((epoch(&claimed), &claimed["lease"]["expires_at"]), (1, &Value::Null));
    // Any write expires what is due, also agents that were silent for too long.
    bob.at(1430).session(|session| session.call(op::Heartbeat::default()));
    let shown = bob.at(1430).show(&id);
    assert_eq!((&shown["status"], &shown["assignee"]), (&"in_progress".into(), &claimed["issue"]["assignee"]));
    let said = bob.at(1430).refused(Kind::Conflict, "claim_issue", json!({ "issue": &id }));
    assert!(said.contains("until it is released"), "{said}");
    assert!(said.contains(&format!("way release {id} --force")), "{said}");
    release(&desk.at(1431), &id);
    bob.at(1431).claim(&id);
    // A person takes it away from an agent.
    desk.at(1432).run("release_issue", json!({ "issue": &id, "force": true }));
    assert_eq!(epoch(&desk.at(1432).claim(&id)), 3);
}

#[test]
fn the_configuration_says_how_long_claims_last() {
    let desk = Desk::new();
    let ada = desk.agent("ada");
    let id = desk.add("Fix it");
    let claim = |minute: u32| {
        let end = end(&ada.at(minute).claim(&id));
        release(&ada.at(minute), &id);
        end
    };
    let claim_task = |minute: u32| {
        let claimed = ada.at(minute).session(|session| session.call(claim_task(None)));
        claimed.lease.expires_at.to_string()
    };
    assert_eq!(claim(0), "2026-01-01T00:30:00.000Z", "the default for issues");
    issue_with_task(&desk);
    assert_eq!(claim_task(0), "2026-01-01T00:10:00.000Z", "the default for tasks");
    desk.set("lease.ttl", "5m");
    assert_eq!(claim(60), "2026-01-01T01:05:00.000Z");
    assert_eq!(claim_task(60), "2026-01-01T01:05:00.000Z");
    desk.set("lease.ttl_human", "1h");
    assert_eq!(end(&desk.at(120).claim(&id)), "2026-01-01T03:00:00.000Z");
    desk.agent("bob").at(181).claim(&id);
}

#[test]
fn every_operation_of_an_agent_renews_its_claims() {
    let desk = Desk::new();
    let (ada, bob) = (desk.agent("ada"), desk.agent("bob"));
    let id = desk.add("Fix it");
    ada.claim(&id);
    let claim = json!({ "issue": &id });
    for (minute, operation, arguments) in [
        (25, "list_issues", json!({})),
        (50, "list_tasks", json!({})),
        (75, "add_comment", json!({ "issue": &id, "text": "half" })),
        (100, "list_agents", json!({})),
    ] {
        ada.at(minute).run(operation, arguments);
        let said = bob.at(minute + 24).refused(Kind::Conflict, "claim_issue", claim.clone());
        assert!(said.contains("is held by ada"), "{operation}: {said}");
    }
    // An operation of another agent renews nothing.
    bob.at(131).claim(&id);
}

#[test]
fn a_claim_that_expires_releases_the_issue_in_the_ledger_too() {
    let desk = Desk::new();
    let (ada, bob) = (desk.agent("ada"), desk.agent("bob"));
    let id = desk.add("Fix it");
    claim_for_ten_minutes(&ada, &id);
    assert!(bob.at(9).ready().is_empty());
    // The holder was silent: the next reader finds the issue free, and the next writer frees it in the ledger.
    let ready = bob.at(10).run("list_ready_issues", json!({}))["issues"][0].clone();
    assert_eq!((&ready["id"], &ready["status"]), (&id.as_str().into(), &"open".into()));
    assert!(ready.get("assignee").is_none());
    assert!(desk.file().contains("in_progress"));
    desk.at(10).add("Another");
    assert!(!desk.file().contains("in_progress"), "{}", desk.file());
    let taken = bob.at(11).claim(&id);
    assert_eq!(epoch(&taken), 2, "the first holder's epoch is never used again");
    // Ada returns and learns that the claim expired.
    ada.at(12).refused(Kind::Conflict, "claim_issue", json!({ "issue": &id }));
    ada.at(12).refused(Kind::LeaseLost, "release_issue", json!({ "issue": &id }));
}

#[test]
fn closing_and_releasing_end_the_lease() {
    let desk = Desk::new();
    let (ada, bob) = (desk.agent("ada"), desk.agent("bob"));
    let (one, two) = (desk.add("One"), desk.add("Two"));
    ada.claim(&one);
    ada.claim(&two);
    ada.at(1).close(&one);
    release(&ada.at(1), &two);
    assert_eq!(epoch(&bob.at(2).claim(&two)), 2);
    bob.at(2).run("reopen_issue", json!({ "issue": &one }));
    bob.at(2).claim(&one);
}

#[test]
fn a_lease_without_a_claim_in_the_ledger_can_be_released() {
    let desk = Desk::new();
    let (ada, bob) = (desk.agent("ada"), desk.agent("bob"));
    let id = desk.add("Fix it");
    desk.commit("ledger");
    // The file is restored, so it does not show the claim any more.
    let claim = || {
        ada.claim(&id);
        desk.git(["checkout", "-q", "--", ".waypost"]);
        ada.drop_kept();
    };
    claim();
    let issue = json!({ "issue": &id });
    bob.at(1).refused(Kind::Conflict, "claim_issue", issue.clone());
    bob.at(1).refused(Kind::Conflict, "release_issue", issue.clone());
    bob.at(1).run("release_issue", json!({ "issue": &id, "force": true }));
    claim();
    release(&ada.at(1), &id);
    ada.at(1).refused(Kind::Conflict, "release_issue", issue);
    // Setting another status ends the claim.
    ada.at(2).claim(&id);
    ada.at(2).update(&id, json!({ "status": "open" }));
    bob.at(2).claim(&id);
}

#[test]
fn the_end_of_a_claim_reaches_the_ledger_of_its_own_worktree() {
    let desk = Desk::new();
    desk.set("ledger.home", "branch");
    let both = desk.add("On both branches");
    desk.commit("ledger");
    desk.git(["worktree", "add", "-q", "-b", "feature", "../tree"]);
    let tree = desk.in_dir("tree");
    let here = tree.add("Only on one");
    for id in [&both, &here] {
        tree.agent("ada").run("claim_issue", json!({ "issue": id, "ttl_ms": 300_000 }));
    }
    desk.agent("bob").at(20).add("Something else");
    for id in [&both, &here] {
        tree.agent("bob").at(21).claim(id);
    }
}

#[test]
fn the_end_of_a_task_reaches_the_ledger_when_its_branch_is_checked_out_again() {
    let desk = Desk::new();
    let ada = desk.agent("ada");
    desk.git(["checkout", "-q", "-b", "feature"]);
    let id = issue_with_task(&desk);
    desk.commit("ledger");
    ada.session(|session| session.call(claim_task(Some("t"))));
    desk.git(["stash", "-q"]);
    desk.git(["checkout", "-q", "main"]);
    let finish: FinishTask = op::decode(&json!({ "task": "t", "outcome": "did it" })).unwrap();
    let warnings = ada.at(1).session(|session| {
        session.call(finish)?;
        Ok(session.warnings().take())
    });
    assert!(warnings.iter().any(|warning| warning.contains("was not closed")), "{warnings:?}");
    desk.git(["checkout", "-q", "feature"]);
    ada.at(2).add("Something else");
    assert_eq!(ada.at(3).show(&id)["status"], "closed");
}
