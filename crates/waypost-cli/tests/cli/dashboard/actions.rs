//! Actions on tasks, workflows, agents and jobs: each changes the store.

use serde_json::Value;

use super::{create_work, open, refusal};
use crate::serving::Server;
use waypost_testkit::until;

fn task(server: &Server, name: &str) -> Value {
    server.way(&["task", "show", name, "--json"]).data()
}

fn address(server: &Server, name: &str) -> String {
    format!("#/task/{}", task(server, name)["id"].as_str().unwrap())
}

#[test]
fn a_person_assigns_edits_skips_requeues_and_retries_tasks_and_takes_it_back() {
    let server = Server::start(&["--open"]);
    create_work(&server);
    let browser = open(&server);
    browser.show(&address(&server, "draw"));
    browser.click("Assign");
    browser.fill("agent", "ann");
    browser.press("\u{e007}");
    browser.wait_for("Assigned draw to ann.");
    assert_eq!(task(&server, "draw")["assigned_to"], "ann");
    browser.click("Undo");
    browser.wait_for("Undone.");
    assert_eq!(task(&server, "draw")["assigned_to"], Value::Null);

    browser.click("Edit");
    browser.fill("description", "Draw it well");
    browser.fill("acceptance", "a\u{e007}b");
    browser.fill("priority", "0");
    browser.fill("max_attempts", "7");
    browser.click("Edit");
    browser.wait_for("Changed draw.");
    let draw = task(&server, "draw");
    assert_eq!((&draw["description"], &draw["priority"]), (&"Draw it well".into(), &0.into()), "{draw}");
    assert_eq!((&draw["acceptance"], &draw["max_attempts"]), (&serde_json::json!(["a", "b"]), &7.into()), "{draw}");
    browser.click("Undo");
    until("the former text is back", || task(&server, "draw")["description"] == "Draw it");

    // Escape leaves the dialog, and nothing has happened.
    browser.click("Skip");
    browser.wait_for("Tasks that wait for it go on without it.");
    browser.press("\u{e00c}");
    browser.wait_for_script("the dialog is closed", "!document.querySelector('dialog[open]')");
    let focused = browser.run("return document.activeElement.dataset.action ?? null");
    assert_eq!(focused, "skip", "the focus is back on the button");
    assert_eq!(task(&server, "draw")["status"], "pending");
    // Enter in a question about work that could be lost means no.
    browser.click("Skip");
    browser.wait_for("Tasks that wait for it go on without it.");
    browser.press("\u{e007}");
    browser.wait_for_script("the dialog is closed", "!document.querySelector('dialog[open]')");
    assert_eq!(task(&server, "draw")["status"], "pending");
    browser.click("Skip");
    browser.fill("reason", "no need");
    browser.click("Skip");
    browser.wait_for("Skipped draw.");
    assert_eq!(task(&server, "draw")["status"], "skipped");
    browser.click("Undo");
    until("the task is open again", || task(&server, "draw")["status"] == "pending");

    let _ = server.way(&["task", "claim", "draw", "--agent", "bob"]).ok();
    browser.click("Message");
    browser.fill("body", "how far?");
    browser.click("Message");
    browser.wait_for("Sent to bob.");
    let inbox = server.way(&["msg", "inbox", "--agent", "bob", "--json"]).data();
    assert!(inbox.to_string().contains("how far?"), "{inbox}");
    browser.click("Requeue");
    browser.wait_for("Work that bob has not reported is lost.");
    browser.click("Requeue");
    browser.wait_for("draw is back in the queue.");
    assert_eq!(task(&server, "draw")["holder"], Value::Null);

    browser.show("#/now");
    browser.click("Retry");
    browser.wait_for("build is back in the queue.");
    assert_eq!(task(&server, "build")["status"], "pending");
    assert_eq!(browser.errors(), [""; 0]);
}

#[test]
fn questions_are_answered_in_the_list_and_a_refusal_has_the_words_of_the_command() {
    let server = Server::start(&["--open"]);
    create_work(&server);
    for args in [
        &["task", "claim", "name", "--agent", "bob"][..],
        &["task", "ask", "name", "--agent", "bob", "--question", "Which name?"],
    ] {
        let _ = server.way(args).ok();
    }
    let browser = open(&server);
    browser.click("Answer");
    browser.wait_for_script(
        "the dialog has the question",
        "document.querySelector('dialog[open]')?.innerText.includes('Which name?')",
    );
    // Meanwhile, another person answers it.
    let _ = server.way(&["task", "answer", "name", "Signpost"]).ok();
    browser.fill("answer", "Waypost");
    browser.click("Answer");
    let refused = server.way(&["task", "answer", "name", "Waypost"]).fails(4);
    for line in refusal(&refused) {
        browser.wait_for(&line);
    }
    assert_eq!(task(&server, "name")["answer"], "Signpost");
    browser.press("\u{e00c}");
    // A refusal with a hint.
    browser.show(&address(&server, "draw"));
    browser.click("Assign");
    browser.fill("agent", "zed");
    browser.click("Assign");
    let refused = server.way(&["task", "assign", "draw", "zed"]).fails(3);
    for line in refusal(&refused) {
        browser.wait_for(&line);
    }
    // The refused request is in the console, as the browser's own line; nothing else is.
    let errors = browser.errors();
    assert!(errors.iter().all(|line| line.contains("responded with a status of 4")), "{errors:?}");
}

#[test]
fn a_person_starts_pauses_merges_and_cancels_workflows() {
    let server = Server::start(&["--open"]);
    server.sandbox.write("repo/plan.json", r#"{"tasks":[{"name":"one"}]}"#);
    assert_eq!(server.way(&["workflow", "create", "wf", "--plan", "plan.json"]).code, 0);
    let config = "--config-json={\"awaits_merge\":true}";
    let _ = server.way(&["workflow", "create", "delivery", "--plan", "plan.json", "--start", config]).ok();
    let _ = server.way(&["task", "skip", "delivery/one"]).ok();
    let status = |name: &str| server.way(&["workflow", "show", name, "--json"]).data()["status"].clone();
    let browser = open(&server);
    browser.click("Mark as merged");
    until("it is merged", || status("delivery") == "completed");
    browser.show("#/workflows/wf");
    browser.click("Start");
    until("it runs", || status("wf") == "in_progress");
    browser.click("Pause");
    until("it is paused", || status("wf") == "paused");
    browser.wait_for("Paused wf");
    browser.click("Undo");
    until("it runs again", || status("wf") == "in_progress");
    browser.click("Pause");
    browser.click("Resume");
    until("it runs again", || status("wf") == "in_progress");
    browser.click("Cancel workflow");
    browser.wait_for("it cannot be resumed");
    assert_eq!(status("wf"), "in_progress");
    browser.click("Cancel workflow");
    until("it is cancelled", || status("wf") == "cancelled");
    assert_eq!(browser.errors(), [""; 0]);
}

#[test]
fn a_person_writes_to_agents_retires_them_and_cancels_jobs() {
    let server = Server::start(&["--open"]);
    let _ = server.way(&["agent", "register", "bob"]).ok();
    let browser = open(&server);
    browser.show("#/agents");
    browser.click("Message");
    browser.fill("subject", "News");
    browser.fill("body", "Good morning");
    browser.click("Message");
    browser.wait_for("Sent to bob.");
    let inbox = server.way(&["msg", "inbox", "--agent", "bob", "--json"]).data();
    assert!(inbox.to_string().contains("Good morning"), "{inbox}");
    browser.click("Retire");
    browser.wait_for("work that it has not reported is lost");
    browser.click("Retire");
    browser.wait_for("bob has retired.");
    assert!(!server.way(&["agent", "show", "bob", "--json"]).data()["retired_at"].is_null());

    let started = server.way(&["job", "start", "--detach", "--json", "--", "sleep", "600"]);
    let job = started.data()["id"].as_str().unwrap().to_owned();
    browser.show(&format!("#/jobs/{job}"));
    browser.click("Cancel job");
    browser.fill("reason", "enough");
    browser.click("Cancel job");
    browser.wait_for(&format!("Cancelled {job}."));
    until("the job has ended", || server.way(&["job", "show", &job, "--json"]).data()["status"] == "cancelled");
    assert_eq!(browser.errors(), [""; 0]);
}
