//! Live data is honest: drawn once per frame, and its age is told. What a person does is not disturbed by it.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::{create_work, open};
use crate::serving::Server;
use waypost_testkit::until;

/// Lets frames come only when the test calls `frame()`, and counts how often the screen is drawn.
const MANUAL_FRAMES: &str = "
    window.waiting = [];
    window.requestAnimationFrame = (call) => window.waiting.push(call);
    // What is drawn without a frame is for tabs that are hidden.
    const later = window.setTimeout;
    window.setTimeout = (call, pause, ...rest) => (pause === 200 ? 0 : later(call, pause, ...rest));
    window.frame = () => window.waiting.splice(0).forEach((call) => call(performance.now()));
    window.draws = 0;
    new MutationObserver(() => { window.draws += 1; }).observe(document.querySelector('main'), { childList: true, subtree: true, characterData: true });
";

#[test]
fn a_burst_of_events_is_drawn_at_most_once_per_frame() {
    let server = Server::start(&["--open"]);
    create_work(&server);
    let browser = open(&server);
    browser.show("#/events");
    browser.wait_for("task.failed");
    let shown = "return Number(document.querySelector('main .rows').dataset.count)";
    let before = browser.run(shown).as_u64().unwrap();
    let _ = browser.run(MANUAL_FRAMES);
    for number in 0..40 {
        let name = format!("agent-{number}");
        let answer = server.post("/api/v1/agents", &json!({ "name": name, "role": "worker" }));
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    // The stream has brought the events when the page has asked for a frame, but none has come yet.
    browser.wait_for_script("the page asks for a frame", "window.waiting.length > 0");
    assert_eq!(browser.run("return window.draws"), 0, "nothing is drawn outside of frames");
    let mut frames = 0;
    browser.until("all events are shown", || {
        let draws = browser.run("const before = window.draws; window.frame(); return new Promise((done) => queueMicrotask(() => queueMicrotask(() => done(window.draws - before))))");
        frames += 1;
        assert!(draws.as_u64().unwrap() <= 1, "{draws} in one frame");
        browser.run(shown).as_u64().unwrap() == before + 40
    });
    let draws = browser.run("return window.draws").as_u64().unwrap();
    assert!(draws <= frames && draws < 40, "{draws} draws in {frames} frames, for 40 events");
    assert_eq!(browser.errors(), [""; 0]);
}

#[test]
fn a_connection_that_is_silent_says_how_old_the_data_is_and_recovers() {
    let server = Server::start(&["--open"]);
    create_work(&server);
    let browser = open(&server);
    browser.wait_for("Live");
    browser.wait_for("it waits for build, which is dead");
    let process = Pid::from_child(&server.child);
    // The connection stays open, but no sign of life comes.
    kill_process(process, Signal::STOP).unwrap();
    let _ = browser.run("const real = Date.now; window.past = 19; Date.now = () => real() + window.past * 1000");
    assert!(!browser.text().contains("The connection is lost"), "{}", browser.text());
    let _ = browser.run("window.past = 600");
    browser.wait_for("The connection is lost: this is as it was 10 min ago.");
    browser.wait_for("Connection lost");
    assert!(browser.text().contains("it waits for build, which is dead"), "the former data stays");
    kill_process(process, Signal::CONT).unwrap();
    browser.wait_for("Live");
    browser.wait_for_script("nothing says that data is old", "!document.querySelector('.state')");
    let _ = server.way(&["task", "claim", "draw", "--agent", "ann"]).ok();
    browser.wait_for("release/draw");
}

/// A browser has six connections to a server, for all tabs together.
#[test]
fn hidden_tabs_release_their_connections_and_follow_all_the_same() {
    let server = Server::start(&["--open"]);
    create_work(&server);
    let browser = open(&server);
    let url = server.said["url"].as_str().unwrap();
    let tabs: Vec<String> = (0..8)
        .map(|_| {
            let tab = browser.open_tab();
            browser.go(&format!("{url}/#/now"));
            browser.wait_for("it waits for build, which is dead");
            browser.wait_for("Live");
            tab
        })
        .collect();
    let _ = server.way(&["task", "claim", "name", "--agent", "bob"]).ok();
    let _ = server.way(&["task", "ask", "name", "--agent", "bob", "--question", "Which name?"]).ok();
    for tab in [&tabs[7], &tabs[0]] {
        browser.use_tab(tab);
        browser.wait_for("Which name?");
        browser.wait_for_title("(2) Now · Waypost");
    }
    assert_eq!(browser.errors(), [""; 0]);
}

#[test]
fn what_was_done_and_the_form_under_way_stay_until_the_person_is_done() {
    let server = Server::start(&["--open"]);
    create_work(&server);
    let task = || server.way(&["task", "show", "draw", "--json"]).data();
    let browser = open(&server);
    browser.show(&format!("#/task/{}", task()["id"].as_str().unwrap()));
    // Time passes at once: timers are collected, and all of them run when the test says so.
    let _ = browser.run(
        "window.timers = []; const later = window.setTimeout;
         window.setTimeout = (call, pause, ...rest) => { if (pause >= 1000) window.timers.push(call); return later(call, pause, ...rest); };",
    );
    browser.click("Assign");
    browser.fill("agent", "ann");
    browser.click("Assign");
    browser.wait_for("Assigned draw to ann.");
    let _ = browser.run("window.timers.splice(0).forEach((call) => call())");
    // A dialog is open before the next event, whatever was closed at the same time.
    let opened = browser.run_async(
        "const press = () => [...document.querySelectorAll('main button')].find((one) => one.textContent === 'Edit').click();
         const isOpen = () => Boolean(document.querySelector('dialog[open]'));
         press();
         Promise.resolve().then(() => {}).then(() => {}).then(() => {
           const first = isOpen();
           document.querySelector('dialog').close();
           press();
           setTimeout(() => requestAnimationFrame(() => setTimeout(() => done([first, isOpen()]))));
         });",
    );
    assert_eq!(opened, json!([true, true]), "open at once; open again after it was closed");
    browser.fill("description", "Draw it well");
    // Another process changes the task meanwhile: the page shows it, and the form stays.
    let _ = server.way(&["task", "update", "draw", "--max-attempts", "9"]).ok();
    browser.wait_for("0 of 9");
    assert_eq!(browser.run("return document.querySelector('#field-description').value"), "Draw it well");
    browser.click("Edit");
    until("the text is in the store", || task()["description"] == "Draw it well");
    assert_eq!(task()["max_attempts"], 9, "fields that the person did not change stay as they are");
    browser.wait_for("Changed draw.");
    let notices = browser.run("return document.querySelectorAll('.notice').length");
    assert_eq!(notices, 1, "what was done last, and nothing else");
    assert_eq!(browser.errors(), [""; 0]);
}
