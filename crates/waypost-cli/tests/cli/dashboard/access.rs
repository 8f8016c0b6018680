//! Logins, roles, deep links and the history of the browser.

use waypost_testkit::Browser;

use super::{create_work, open};
use crate::serving::Server;

/// The screens that readers may visit, each with a text on it.
const SCREENS: [(&str, &str); 6] = [
    ("#/now", "Now"),
    ("#/workflows/release", "release"),
    ("#/issues", "Issues"),
    ("#/agents", "ann"),
    ("#/workspaces", "Workspaces"),
    ("#/jobs", "Jobs"),
];

#[test]
fn a_deep_link_survives_the_login_and_logging_out_ends_the_session() {
    let server = Server::start(&[]);
    create_work(&server);
    let browser = Browser::start(&server.sandbox.path(""));
    browser.go(&format!("{}/#/workflows/release", server.url()));
    browser.wait_for("Log in");
    let _ = browser.run("document.getElementById('token').focus()");
    browser.press(&server.token);
    browser.press("\u{e007}");
    browser.wait_for("waits for build");
    assert_eq!(browser.run("return location.hash"), "#/workflows/release");
    browser.show("#/agents");
    browser.wait_for("ann");
    let _ = browser.run("history.back()");
    browser.wait_for("waits for build");
    browser.click("Log out");
    browser.wait_for("Log in");
    assert!(!browser.text().contains("release"), "{}", browser.text());
    browser.go(server.url());
    browser.wait_for("Log in");
    assert!(browser.run("return sessionStorage.getItem('waypost-token')").is_null());
}

#[test]
fn the_session_of_a_login_link_ends_with_logging_out() {
    let server = Server::start(&["--open"]);
    create_work(&server);
    let browser = open(&server);
    browser.wait_for("Needs you");
    browser.click("Log out");
    browser.wait_for("Log in");
    browser.go(server.url());
    browser.wait_for("Log in");
    assert!(!browser.text().contains("Needs you"), "{}", browser.text());
}

#[test]
fn readers_see_every_screen_and_no_button_that_changes_something() {
    let server = Server::start(&[]);
    create_work(&server);
    let _ = server.way(&["task", "claim", "name", "--agent", "bob"]).ok();
    let _ = server.way(&["task", "ask", "name", "--agent", "bob", "--question", "Which name?"]).ok();
    let task = server.way(&["task", "show", "name", "--json"]).data()["id"].as_str().unwrap().to_owned();
    let issue = server.way(&["list", "--json"]).data()[0]["id"].as_str().unwrap().to_owned();
    let browser = Browser::start(&server.sandbox.path(""));
    let token = server.token(&["--role", "read-only"]);
    browser.go(server.url());
    browser.wait_for("Log in");
    let _ = browser.run("document.getElementById('token').focus()");
    browser.press(&token);
    browser.press("\u{e007}");
    browser.wait_for("Which name?");
    let known =
        "performance.getEntriesByType('resource').some((one) => one.name.endsWith('/whoami') && one.responseEnd > 0)";
    browser.wait_for_script("the page knows the role", known);
    let more = [(format!("#/task/{task}"), "Which name?"), (format!("#/issues/{issue}"), "Ready")];
    let screens = SCREENS.iter().map(|(address, text)| ((*address).to_owned(), *text)).chain(more);
    for (address, text) in screens {
        browser.show(&address);
        browser.wait_for(text);
        let actions = "return document.querySelectorAll('main [data-action], main form.inline, main textarea').length";
        assert_eq!(browser.run(actions), 0, "{address}");
    }
    let refused = browser.errors();
    // Before the login, the server refused to answer without a token.
    assert!(refused.iter().all(|line| line.contains("status of 401")), "{refused:?}");
}
