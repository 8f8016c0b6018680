//! Issues: added, edited, filtered, in a tree, proposed and accepted.

use serde_json::{Value, json};

use super::open;
use crate::serving::Server;
use crate::support::ledger::add;
use crate::support::repos::with_issue;
use crate::support::sandbox;
use waypost_testkit::until;

fn show(server: &Server, id: &str) -> Value {
    server.way(&["show", id, "--json"]).data()
}

#[test]
fn a_person_adds_edits_comments_closes_and_deletes_issues_and_takes_it_back() {
    let server = Server::start(&["--open"]);
    let all = || server.way(&["list", "--all", "--json"]).data();
    let browser = open(&server);
    browser.show("#/issues");
    browser.fill_labelled("Title of a new issue", "Fix the login\u{e007}");
    browser.wait_for("Added repo-");
    let id = all()[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(show(&server, &id)["title"], "Fix the login");
    browser.fill_labelled("Title of a new issue", "A mistake\u{e007}");
    until("it is added", || all().as_array().unwrap().len() == 2);
    browser.wait_for(": A mistake");
    browser.click("Undo");
    until("it is gone", || all().as_array().unwrap().len() == 1);

    browser.show(&format!("#/issues/{id}"));
    browser.click("Edit");
    for (field, text) in [
        ("title", "Fix the log-in"),
        ("description", "It fails"),
        ("status", "blocked"),
        ("priority", "0"),
        ("issue_type", "bug"),
        ("assignee", "ann"),
        ("labels", "auth, web"),
    ] {
        browser.fill(field, text);
    }
    browser.click("Edit");
    browser.wait_for(&format!("Changed {id}."));
    let issue = show(&server, &id);
    for (field, value) in [
        ("title", json!("Fix the log-in")),
        ("description", json!("It fails")),
        ("status", json!("blocked")),
        ("priority", json!(0)),
        ("issue_type", json!("bug")),
        ("assignee", json!("ann")),
        ("labels", json!(["auth", "web"])),
    ] {
        assert_eq!(issue[field], value, "{issue}");
    }
    browser.click("Undo");
    until("all fields are as before", || {
        let issue = show(&server, &id);
        issue["title"] == "Fix the login"
            && issue["labels"].as_array().is_none_or(Vec::is_empty)
            && issue["priority"] == 2
    });

    browser.click("Comment");
    browser.fill("text", "soon");
    browser.click("Comment");
    browser.wait_for("soon");
    assert_eq!(show(&server, &id)["comments"][0]["text"], "soon");
    browser.click("Close");
    browser.fill("reason", "done");
    browser.press("\u{e007}");
    browser.wait_for(&format!("Closed {id}."));
    assert_eq!(show(&server, &id)["close_reason"], "done");
    browser.click("Reopen");
    until("it is open again", || show(&server, &id)["status"] == "open");
    let _ = server.way(&["claim", &id, "--agent", "bob"]).ok();
    browser.click("Release");
    browser.wait_for("Take ");
    browser.click("Release");
    until("it is free", || show(&server, &id)["status"] == "open");
    browser.click("Delete");
    browser.wait_for("The ledger keeps only that it existed");
    browser.click("Delete");
    until("it is deleted", || all().as_array().unwrap().is_empty());
    assert_eq!(browser.errors(), [""; 0]);
}

#[test]
fn issues_of_all_repositories_are_filtered_by_the_address_and_shown_as_a_tree() {
    let sandbox = sandbox();
    let (repo, planning) = (sandbox.git_repo("repo"), sandbox.git_repo("planning"));
    let _ = sandbox.way(&repo, ["config", "--add-repo", "../planning"]).ok();
    let epic = add(&sandbox, &repo, &["Rewrite", "-t", "epic", "-p", "3"]);
    let part = add(&sandbox, &repo, &["Parser", "--parent", &epic, "-l", "core"]);
    let waiting = add(&sandbox, &repo, &["Printer", "--blocked-by", &part]);
    let idea = add(&sandbox, &planning, &["Idea"]);
    let server = Server::start_in(sandbox, repo, &["--open"]);
    let browser = open(&server);
    let rows = || {
        let rows =
            browser.run("return [...document.querySelectorAll('main a.row .id')].map((one) => one.innerText.trim())");
        rows.as_array().unwrap().iter().map(|row| row.as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    browser.show("#/issues");
    browser.wait_for("Idea");
    let shown = rows();
    let at = shown.iter().position(|row| *row == epic).unwrap();
    assert_eq!(shown.get(at + 1), Some(&format!("└ {part}")), "{shown:?}");
    for (query, expected) in [
        ("type=epic", epic.as_str()),
        ("label=core", part.as_str()),
        ("text=Print", waiting.as_str()),
        ("view=blocked", waiting.as_str()),
        ("ledger=planning", idea.as_str()),
    ] {
        browser.show(&format!("#/issues?{query}"));
        browser.until(query, || rows() == [expected]);
    }
    // The part names the parent that the filter leaves out.
    browser.show("#/issues?label=core");
    browser.wait_for(&format!("in {epic}"));
    // A choice changes the address, and Back takes it back.
    browser.show("#/issues");
    browser.wait_for("Idea");
    let choice = "document.querySelector('[aria-label=Type]')";
    let _ = browser
        .run(&format!("{choice}.value = 'epic'; {choice}.dispatchEvent(new Event('change', {{ bubbles: true }}))"));
    browser.until("the list is short", || rows() == [epic.as_str()]);
    assert_eq!(browser.run("return location.hash"), "#/issues?type=epic");
    let _ = browser.run("history.back()");
    browser.wait_for("Idea");
    // Another process changes the ledger.
    let _ = browser.run("window.mark = 1");
    let _ = server.way(&["add", "From elsewhere"]).ok();
    browser.wait_for("From elsewhere");
    assert_eq!(browser.run("return window.mark"), 1, "the page was not loaded again");
    assert_eq!(browser.errors(), [""; 0]);
}

#[test]
fn issues_are_proposed_withdrawn_and_accepted() {
    let sandbox = sandbox();
    let (repo, planning) = (sandbox.git_repo("repo"), sandbox.git_repo("planning"));
    let _ = sandbox.way(&repo, ["config", "--add-repo", "../planning"]).ok();
    let idea = add(&sandbox, &planning, &["Idea"]);
    let server = Server::start_in(sandbox, repo, &["--open"]);
    let visibility = |id: &str| show(&server, id)["visibility"].clone();
    let browser = open(&server);
    browser.show(&format!("#/issues/{idea}"));
    browser.click("Propose");
    browser.wait_for("Commit that ledger together with your change");
    browser.click("Propose");
    until("it is proposed", || visibility(&idea) == "proposed");
    browser.click("Withdraw");
    until("it is not proposed", || visibility(&idea) != "proposed");
    browser.wait_for("Withdrew ");
    browser.click("Undo");
    until("it is proposed again", || visibility(&idea) == "proposed");
    browser.click("Accept");
    browser.wait_for("It becomes an issue of the project.");
    browser.click("Accept");
    until("it is accepted", || visibility(&idea).is_null());
    assert_eq!(browser.errors(), [""; 0]);
}

#[test]
fn a_proposal_is_rejected_with_a_reason_and_the_rejection_is_taken_back() {
    let sandbox = sandbox();
    let repo = with_issue(&sandbox, "repo", r#"{"id":"a-1","title":"One","visibility":"proposed"}"#);
    let server = Server::start_in(sandbox, repo, &["--open"]);
    let browser = open(&server);
    browser.show("#/issues/a-1");
    browser.click("Reject");
    browser.wait_for("Its author sees the reason.");
    // Without a reason the browser does not send the form.
    browser.click("Reject");
    assert_eq!(browser.run("return document.querySelector('dialog[open] input:invalid').name"), "reason");
    assert_ne!(show(&server, "a-1")["status"], "closed");
    browser.fill("reason", "not now");
    browser.click("Reject");
    browser.wait_for("Rejected a-1.");
    let rejected = show(&server, "a-1");
    assert_eq!((&rejected["status"], &rejected["close_reason"]), (&json!("closed"), &json!("not now")), "{rejected}");
    browser.wait_for("not now");
    browser.wait_for_script(
        "a rejected proposal can be neither accepted nor rejected",
        "![...document.querySelectorAll('main button')].some((one) => ['Accept', 'Reject'].includes(one.textContent))",
    );
    browser.click("Undo");
    until("it is open again", || show(&server, "a-1")["status"] == "open");
    browser.click("Reject");
    browser.wait_for("Its author sees the reason.");
    assert_eq!(browser.errors(), [""; 0]);
}
