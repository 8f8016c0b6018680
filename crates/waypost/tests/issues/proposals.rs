//! Issues that are planned apart and proposed to a project.

use serde_json::{Value, json};
use waypost::Kind;
use waypost::issues::{
    ProposalOutcome, SyncOptions, fetch_project, merge_answered_proposals, push_setting, sync, sync_timeout,
};

use crate::desk::{Desk, LEDGER, comments, contributor, maintainer, plan_apart};

fn propose(desk: &Desk, id: &str) -> Value {
    desk.run("propose_issue", json!({ "issue": id }))
}

fn withdraw(desk: &Desk, id: &str) -> Value {
    desk.run("withdraw_issue", json!({ "issue": id }))
}

fn accept(desk: &Desk, id: &str) -> Value {
    desk.run("accept_issue", json!({ "issue": id }))
}

fn reject(desk: &Desk, id: &str, reason: &str) -> Value {
    desk.run("reject_issue", json!({ "issue": id, "reason": reason }))
}

/// Fetches the project, synchronizes the planning, and returns what was decided on proposals.
fn synced(fork: &Desk) -> Vec<ProposalOutcome> {
    fork.changing(|cx| {
        let variables = &cx.place.variables;
        let options = SyncOptions {
            push: push_setting(&cx.place),
            dry_run: false,
            timeout: sync_timeout(&cx.place),
            accept_growth: false,
        };
        fetch_project(&cx.ledger.repos()[0], variables, options)?;
        for number in cx.ledger.numbers() {
            match sync(&cx.ledger.repos()[number], variables, options, &|_| ()) {
                Err(error) if error.kind() != Kind::NothingToDo => return Err(error),
                _ => {}
            }
        }
        merge_answered_proposals(&cx.ledger, 0)
    })
    .unwrap()
}

#[test]
fn b9_b10_b11_a_contributors_planning_stays_private_until_an_issue_is_proposed() {
    let (_, fork, planning) = contributor();
    let status = || fork.git(["status", "--porcelain"]);
    assert_eq!(status(), "", "nothing of it is in the project");
    let mine = fork.add("Explore dark mode");
    let other = fork.add_with("Private thought", json!({ "parent": "up-1" }));
    fork.update(&other, json!({ "priority": 0 }));
    fork.close(&other);
    assert_eq!(status(), "");
    assert_eq!(planning.lines().len(), 2);
    assert_eq!(fork.list(json!({})).len(), 2, "theirs and mine in one list");
    for (operation, arguments) in [
        ("update_issue", json!({ "issue": "up-1", "priority": 0 })),
        ("close_issue", json!({ "issue": "up-1" })),
        ("claim_issue", json!({ "issue": "up-1" })),
        ("add_comment", json!({ "issue": "up-1", "text": "x" })),
    ] {
        let said = fork.refused(Kind::Refused, operation, arguments);
        assert!(said.contains("way propose"), "{said}");
    }

    let files = || [fork.file(), planning.file()];
    let before = files();
    propose(&fork, &mine);
    assert_eq!(fork.git(["diff", "--numstat"]), format!("1\t0\t{LEDGER}\n"));
    assert!(planning.lines().iter().any(|line| line.contains("\"visibility\":\"proposed\"")));
    assert_eq!(fork.list(json!({})).len(), 2, "two copies are one issue");
    assert_eq!(fork.show(&mine)["source_repo"], fork.dir.to_str().unwrap(), "the public copy takes precedence");
    // Repeating it, as after a crash, changes nothing.
    let proposed = files();
    propose(&fork, &mine);
    assert_eq!(files(), proposed);

    withdraw(&fork, &mine);
    assert_eq!(files(), before);
    fork.refused(Kind::Conflict, "withdraw_issue", json!({ "issue": &mine }));
    fork.refused(Kind::Conflict, "propose_issue", json!({ "issue": "up-1" }));

    propose(&fork, &mine);
    fork.refused(Kind::Refused, "accept_issue", json!({ "issue": &mine }));
    fork.commit("propose");
    let diff = fork.git(["diff", "--numstat", "origin/HEAD", "HEAD"]);
    assert_eq!(diff, format!("1\t0\t{LEDGER}\n"), "the pull request is one added line");
}

#[test]
fn a_crash_between_the_two_writes_of_a_proposal_loses_nothing() {
    let (_, fork, planning) = contributor();
    let mine = fork.add("Mine");
    let local = planning.file();
    propose(&fork, &mine);
    let files = || [fork.file(), planning.file()];
    let proposed = files();
    // Killed after the project's ledger was written: the planning ledger is not updated yet.
    let undo = || {
        planning.write_ledger(&local);
        planning.drop_kept();
    };
    undo();
    assert_eq!(fork.list(json!({})).len(), 2);
    propose(&fork, &mine);
    assert_eq!(files(), proposed);
    // Killed during the withdrawal, after the planning ledger was written.
    undo();
    withdraw(&fork, &mine);
    assert_eq!(planning.file(), local);
    assert_eq!(fork.lines().len(), 1);
    // An issue that only the project has is not removed.
    propose(&fork, &mine);
    planning.forget_ledger();
    fork.refused(Kind::Conflict, "withdraw_issue", json!({ "issue": &mine }));
    assert_eq!(fork.lines().len(), 2);
}

#[test]
fn b24_use_case_1_a_contributor_plans_apart_and_proposes_one_issue() {
    let upstream = Desk::in_new_sandbox(|sandbox| sandbox.git_repo("upstream"));
    upstream.write_lines(&[r#"{"id":"up-1","title":"Theirs"}"#]);
    upstream.commit("ledger");
    upstream.in_dir("").git(["clone", "-q", "upstream", "project"]);
    let project = upstream.in_dir("project");
    let planning = project.repository("plans");
    project.add_repo("../plans");
    project.set("role", "contributor");
    project.set("routing.mode", "auto");
    let idea = project.add_with("Explore dark mode", json!({ "description": "musings" }));
    assert!(planning.lines().iter().any(|line| line.contains(&idea)));
    assert_eq!(project.git(["status", "--porcelain"]), "");
    project.git(["checkout", "-q", "-b", "dark-mode"]);
    propose(&project, &idea);
    project.write("dark.css", "body {}");
    project.commit("dark mode");
    let stat = project.git(["diff", "--numstat", "origin/HEAD", "HEAD"]);
    assert!(stat.contains(&format!("1\t0\t{LEDGER}\n")), "{stat}");
    // Upstream merges the pull request and accepts the proposal in it.
    upstream.git(["pull", "-q", "--no-rebase", "../project", "dark-mode"]);
    accept(&upstream, &idea);
    assert_eq!(upstream.list(json!({})).len(), 2);
}

#[test]
fn b25_b26_sync_reports_the_decision_on_a_proposal() {
    let (upstream, fork, planning) = contributor();
    fork.git(["remote", "remove", "upstream"]);
    let [good, bad] = ["Good idea", "Bad idea"].map(|title| fork.add(title));
    for id in [&good, &bad] {
        propose(&fork, id);
    }
    fork.commit("propose");
    assert_eq!(synced(&fork), [], "nothing was decided yet");
    upstream.git(["pull", "-q", "--no-rebase", "../fork"]);
    upstream.update(&good, json!({ "title": "Better idea" }));
    accept(&upstream, &good);
    reject(&upstream, &bad, "too big");
    upstream.commit("decide");
    let mut outcomes = synced(&fork);
    outcomes.sort_by_key(|outcome| !matches!(outcome, ProposalOutcome::Accepted(_)));
    let rejected = ProposalOutcome::Rejected(bad.clone(), Some("too big".to_owned()));
    assert_eq!(outcomes, [ProposalOutcome::Accepted(good.clone()), rejected]);
    fork.git(["switch", "-q", "--detach", "HEAD~1"]);
    assert!(fork.list(json!({})).contains(&good), "no list lacks it until the project's copy is here");
    fork.git(["switch", "-q", "-"]);
    let mine = planning.copies(&bad)[0].to_string();
    assert!(mine.contains("\"visibility\":\"local\"") && mine.contains("rejected: too big"), "{mine}");
    fork.git(["pull", "-q"]);
    assert_eq!(fork.list(json!({ "text": "Better" })), std::slice::from_ref(&good), "once, and canonical");
    assert_eq!(synced(&fork), []);
    assert!(planning.copies(&good).is_empty(), "the planning copy is retired: {}", planning.file());
    let shown = fork.show(&bad);
    assert_eq!(
        (&shown["source_repo"], &shown["status"]),
        (&planning.dir.to_str().unwrap().into(), &"open".into()),
        "mine again"
    );
    let kept = planning.git(["log", "-p", "--format="]);
    assert!(kept.contains("Good idea"), "its history is in the planning's version control");
    assert_eq!(synced(&fork), [], "the decision is reported once");
}

/// Removes a line from a ledger and commits, as a person who does not use `way` would.
fn take_out(desk: &Desk, id: &str) {
    let left: String = desk.lines().into_iter().filter(|line| !line.contains(id)).map(|line| line + "\n").collect();
    desk.write_ledger(left);
    desk.commit("take out");
}

#[test]
fn a_proposal_that_the_project_drops_returns_to_planning() {
    let (upstream, fork, planning) = contributor();
    fork.git(["remote", "remove", "upstream"]);
    let offer = |title: &str| {
        let id = fork.add(title);
        propose(&fork, &id);
        fork.commit("propose");
        id
    };
    let [deleted, gone, pruned] = ["Deleted", "Taken out", "Accepted, done, pruned"].map(offer);
    upstream.git(["pull", "-q", "--no-rebase", "../fork"]);
    let open = offer("In a pull request");
    let planned = |id: &str| planning.lines().into_iter().find(|line| line.contains(&format!("\"id\":\"{id}\"")));
    assert_eq!(synced(&fork), [], "nothing was decided yet");
    upstream.run("remove_issue", json!({ "issue": &deleted, "reason": "a duplicate" }));
    accept(&upstream, &pruned);
    upstream.close(&pruned);
    upstream.commit("decide");
    take_out(&upstream, &gone);
    take_out(&upstream, &pruned);

    let outcomes = synced(&fork);
    assert!(
        outcomes.contains(&ProposalOutcome::Dropped(deleted.clone(), "deleted: a duplicate".to_owned())),
        "{outcomes:?}"
    );
    let is_taken_out = |outcome: &ProposalOutcome| matches!(outcome, ProposalOutcome::Dropped(id, how) if *id == gone && how.starts_with("taken out by commit "));
    assert!(outcomes.iter().any(is_taken_out), "{outcomes:?}");
    assert!(
        outcomes.contains(&ProposalOutcome::Accepted(pruned.clone())) && planned(&pruned).is_none(),
        "{outcomes:?}"
    );
    assert!(outcomes.len() == 3 && planned(&open).unwrap().contains("\"visibility\":\"proposed\""), "{outcomes:?}");
    for (id, words) in [(&deleted, "deleted: a duplicate"), (&gone, "taken out by commit ")] {
        let line = planned(id).unwrap();
        assert!(line.contains("\"visibility\":\"local\"") && line.contains(words), "{line}");
    }
    assert_eq!(synced(&fork), [], "the decision is reported once");
    // The project's tombstone does not hide the planned issue.
    fork.git(["reset", "-q", "--hard", "origin/main"]);
    let shown = fork.show(&deleted);
    assert_eq!((&shown["source_repo"], &shown["status"]), (&planning.dir.to_str().unwrap().into(), &"open".into()));
    // Proposing a dropped issue again does not report it as dropped again.
    for id in [&deleted, &gone] {
        propose(&fork, id);
    }
    assert_eq!(synced(&fork), [], "it may be in a pull request again");
    assert!(planned(&gone).unwrap().contains("\"visibility\":\"proposed\""));
}

#[test]
fn proposing_again_merges_the_edits_of_both_copies() {
    let (_, fork, planning) = contributor();
    let id = fork.add("Idea");
    propose(&fork.at(1), &id);
    maintainer(&fork).at(2).run("add_comment", json!({ "issue": &id, "text": "said in the project", "repo": "." }));
    planning.at(3).update(&id, json!({ "priority": 0 }));
    propose(&fork.at(4), &id);
    let [proposed] = fork.copies(&id).try_into().unwrap();
    assert_eq!((comments(&proposed), &proposed["priority"]), (vec!["said in the project".to_owned()], &0.into()));
    assert_eq!(planning.copies(&id), [proposed]);
    // Proposed again after a rejection, it is open again and keeps the reason.
    maintainer(&fork).at(5).run("add_comment", json!({ "issue": &id, "text": "too big", "repo": "." }));
    maintainer(&fork).at(6).run("reject_issue", json!({ "issue": &id, "reason": "no time", "repo": "." }));
    propose(&fork.at(7), &id);
    let [proposed] = fork.copies(&id).try_into().unwrap();
    assert_eq!((&proposed["status"], &proposed["visibility"]), (&"open".into(), &"proposed".into()));
    let said = comments(&proposed);
    assert!(said.len() == 3 && said[0].starts_with("rejected: no time") && said[2] == "too big", "{said:?}");
}

#[test]
fn a_change_that_was_proposed_and_then_changed_back_is_a_change() {
    let (upstream, fork, planning) = contributor();
    fork.git(["remote", "remove", "upstream"]);
    let id = fork.add_with("A", json!({ "labels": ["x"] }));
    propose(&fork.at(1), &id);
    planning.at(2).update(&id, json!({ "title": "B", "remove_labels": ["x"] }));
    propose(&fork.at(3), &id);
    // The project takes the second proposal.
    fork.commit("propose");
    upstream.git(["pull", "-q", "--ff-only", "../fork", "main"]);
    accept(&upstream.at(4), &id);
    upstream.commit("accept");
    planning.at(5).update(&id, json!({ "title": "A", "labels": ["x"] }));
    let is_changed_back = |desk: &Desk| {
        let [copy] = desk.copies(&id).try_into().unwrap();
        (copy["title"] == "A" && copy["labels"] == json!(["x"])).then_some(()).ok_or(copy)
    };
    // The planning's copy has a change that the project lacks, so it stays.
    assert_eq!(synced(&fork.at(6)), [ProposalOutcome::AcceptedInPart(id.clone())]);
    assert_eq!(is_changed_back(&planning), Ok(()));
    propose(&fork.at(7), &id);
    assert_eq!((is_changed_back(&fork), is_changed_back(&planning)), (Ok(()), Ok(())));
}

#[test]
fn b9_maintainers_accept_and_reject_proposals() {
    let desk = Desk::new();
    desk.write_lines(&[
        r#"{"id":"a-1","title":"One","visibility":"proposed"}"#,
        r#"{"id":"a-2","title":"Two","visibility":"proposed"}"#,
        r#"{"id":"a-3","title":"Three"}"#,
    ]);
    desk.with_flag("role=contributor").refused(Kind::Refused, "accept_issue", json!({ "issue": "a-1" }));
    let accepted = accept(&desk, "a-1");
    assert!(accepted["visibility"].is_null() && accepted["updated_at"].is_string());
    let rejected = reject(&desk, "a-2", "not now");
    assert_eq!(
        (rejected["status"].as_str(), rejected["close_reason"].as_str(), rejected["visibility"].as_str()),
        (Some("closed"), Some("not now"), Some("proposed"))
    );
    desk.refused(Kind::Conflict, "accept_issue", json!({ "issue": "a-3" }));
    desk.refused(Kind::Invalid, "reject_issue", json!({ "issue": "a-3" }));
}

#[test]
fn only_a_maintainer_rejects_a_proposal_and_only_with_a_reason() {
    let desk = Desk::new();
    desk.write_lines(&[r#"{"id":"a-1","title":"One","visibility":"proposed"}"#]);
    desk.refused(Kind::Invalid, "reject_issue", json!({ "issue": "a-1" }));
    let reject = json!({ "issue": "a-1", "reason": "no" });
    desk.with_flag("role=contributor").refused(Kind::Refused, "reject_issue", reject);
    assert_eq!(desk.show("a-1")["visibility"], "proposed");
}

#[test]
fn accepting_a_proposal_merges_the_edits_of_a_readable_planning_ledger() {
    let project = Desk::in_new_sandbox(|sandbox| sandbox.git_repo("project"));
    let planning = project.repository("planning");
    project.add_repo("../planning");
    let id = project.add_with("Idea", json!({ "repo": "../planning" }));
    propose(&project.at(1), &id);
    planning.at(2).comment(&id, "said in the planning");
    accept(&project.at(3), &id);
    let [canonical] = project.copies(&id).try_into().unwrap();
    assert!(canonical.get("visibility").is_none(), "{canonical}");
    assert_eq!(comments(&canonical), ["said in the planning"]);
}

#[test]
fn withdrawing_a_proposal_keeps_the_edits_of_both_copies() {
    let (_, fork, planning) = contributor();
    let id = fork.add_with("Idea", json!({ "labels": ["old"] }));
    propose(&fork.at(1), &id);
    let theirs = maintainer(&fork);
    let edit = json!({ "issue": &id, "title": "Better idea", "remove_labels": ["old"], "repo": "." });
    theirs.at(2).run("update_issue", edit);
    theirs.at(3).run("add_comment", json!({ "issue": &id, "text": "said in the project", "repo": "." }));
    planning.at(4).comment(&id, "said in the planning");
    planning.at(5).update(&id, json!({ "labels": ["new"] }));
    withdraw(&fork.at(6), &id);
    assert!(fork.copies(&id).is_empty());
    let [local] = planning.copies(&id).try_into().unwrap();
    assert_eq!(comments(&local), ["said in the planning", "said in the project"]);
    assert_eq!((&local["title"], &local["visibility"]), (&"Better idea".into(), &"local".into()));
    assert_eq!(local["labels"], json!(["new"]));
}

#[test]
fn b24_use_case_3_a_maintainer_and_a_contributor_work_on_one_project() {
    let origin = Desk::in_new_sandbox(|sandbox| sandbox.git_repo("origin"));
    origin.in_dir("").git(["clone", "-q", "origin", "alice"]);
    origin.in_dir("").git(["clone", "-q", "origin", "bob"]);
    let (alice, bob) = (origin.in_dir("alice"), origin.in_dir("bob"));
    let bug = alice.person("alice").add("Fix bug in parser");
    alice.commit("issue");
    origin.git(["pull", "-q", "--no-rebase", "../alice"]);
    plan_apart(&bob, "bobs-plans");
    bob.git(["pull", "-q"]);
    let idea = bob.person("bob").add("Explore performance");
    let mut seen = bob.list(json!({}));
    seen.sort();
    let mut expected = vec![bug.clone(), idea];
    expected.sort();
    assert_eq!(seen, expected, "bob sees both");
    assert_eq!(alice.list(json!({})), [bug], "alice sees the project's");
    assert_eq!(bob.git(["status", "--porcelain"]), "");
}
