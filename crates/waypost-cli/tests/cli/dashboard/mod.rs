//! The dashboard in a real browser.

mod access;
mod actions;
mod issues;
mod live;
mod looks;
mod size;
mod work;
mod workspaces;
mod xss;

use waypost_testkit::{Browser, Run, until};

use crate::serving::Server;

/// A text that runs a script in a page that does not escape it.
const HOSTILE: &str = "<img src=x onerror='window.hacked=1'><script>window.hacked=1</script>";

/// Opens the dashboard, logged in.
fn open(server: &Server) -> Browser {
    let browser = Browser::start(&server.sandbox.path(""));
    browser.go(server.said["login"].as_str().unwrap());
    browser.wait_for("Log out");
    browser
}

/// Returns the lines of a refused command that say why, and what to do: those that the page shows.
fn refusal(run: &Run) -> Vec<String> {
    let lines = run.stderr.lines().filter(|line| line.starts_with("error: ") || line.starts_with("hint: "));
    let lines: Vec<String> = lines.map(|line| line.trim_start_matches("error: ").to_owned()).collect();
    assert!(!lines.is_empty(), "{run:?}");
    lines
}

fn create_work(server: &Server) {
    let plan = serde_json::json!({ "summary": HOSTILE, "tasks": [
        { "name": "build", "description": HOSTILE, "max_attempts": 1, "acceptance": [HOSTILE] },
        { "name": "ship", "description": "Ship it", "depends_on": ["build"] },
        { "name": "name", "description": "Choose a name" },
        { "name": "draw", "description": "Draw it" },
    ] });
    server.sandbox.write("repo/plan.json", plan.to_string());
    for args in [
        &["add", HOSTILE, "-d", HOSTILE][..],
        &["workflow", "create", "release", "--plan", "plan.json", "--start"],
        &["task", "claim", "build", "--agent", "ann"],
        &["task", "fail", "build", "--agent", "ann", "--error", HOSTILE],
    ] {
        let _ = server.way(args).ok();
    }
}

#[test]
fn every_screen_shows_the_store_as_text_and_follows_other_processes() {
    let server = Server::start(&["--open"]);
    create_work(&server);
    let browser = Browser::start(&server.sandbox.path(""));
    browser.go(server.said["login"].as_str().unwrap());
    browser.wait_for("Needs you 1");
    browser.wait_for("it waits for build, which is dead");
    browser.wait_for_title("(1) Now · Waypost");
    let _ = browser.run("window.mark = 1");
    let _ = server.way(&["task", "claim", "name", "--agent", "bob"]).ok();
    let _ = server.way(&["task", "ask", "name", "--agent", "bob", "--question", "Which name?"]).ok();
    browser.wait_for("Which name?");
    assert_eq!(browser.run("return window.mark"), 1, "the page was not loaded again");
    browser.wait_for_title("(2) Now · Waypost");
    let task = server.way(&["task", "show", "build", "--json"]).data()["id"].as_str().unwrap().to_owned();
    let screens = [
        ("#/workflows".to_owned(), "release"),
        ("#/workflows/release".to_owned(), "waits for build"),
        (format!("#/task/{task}"), "Last error"),
        ("#/issues".to_owned(), HOSTILE),
        ("#/agents".to_owned(), "ann"),
        ("#/workspaces".to_owned(), "No workspace exists."),
        ("#/jobs".to_owned(), "No job ran yet."),
        ("#/events".to_owned(), "task.asked"),
        ("#/repositories".to_owned(), "repo"),
        ("#/none".to_owned(), "No such page"),
    ];
    for (address, text) in screens {
        browser.show(&address);
        browser.wait_for(text);
        assert_eq!(
            browser.run("return document.querySelectorAll('.problem, main img, main script').length"),
            0,
            "{address}"
        );
    }
    browser.wait_for_title("(2) none · Waypost");
    assert!(browser.run("return window.hacked ?? null").is_null(), "a text ran as a script");
    let _ = browser.run("history.back()");
    browser.wait_for("Repositories");
    assert_eq!(browser.errors(), [""; 0]);
}

#[test]
fn keys_lead_to_screens_and_rows() {
    let server = Server::start(&["--open"]);
    create_work(&server);
    let browser = Browser::start(&server.sandbox.path(""));
    browser.go(server.said["login"].as_str().unwrap());
    browser.wait_for("Needs you 1");
    browser.press("j\u{e007}");
    browser.wait_for("Last error");
    browser.press("gw");
    browser.wait_for("release");
    assert_eq!(browser.run("return location.hash"), "#/workflows");
    browser.press("?");
    browser.wait_for("next and previous row");
    assert_eq!(browser.errors(), [""; 0]);
}

#[test]
fn the_page_asks_for_a_token_without_a_session_and_says_when_the_server_is_gone() {
    let mut server = Server::start(&[]);
    create_work(&server);
    let browser = Browser::start(&server.sandbox.path(""));
    let token = server.token(&["--role", "read-only"]);
    browser.go(server.url());
    browser.wait_for("Log in");
    assert!(!browser.text().contains("release"), "{}", browser.text());
    let log_in = |token: &str| {
        let _ = browser.run("document.getElementById('token').focus()");
        browser.press(token);
        browser.press("\u{e007}");
    };
    log_in("wrong");
    browser.wait_for("The server does not accept this token.");
    let _ = browser.run("document.getElementById('token').select()");
    log_in(&token);
    browser.wait_for("it waits for build, which is dead");
    let _ = server.child.kill();
    let _ = server.child.wait();
    browser.wait_for("The connection is lost");
    assert!(browser.text().contains("it waits for build, which is dead"), "the former data stays");
}

#[test]
fn actions_change_the_store_and_readers_have_none() {
    let server = Server::start(&["--open"]);
    create_work(&server);
    let _ = server.way(&["task", "claim", "name", "--agent", "bob"]).ok();
    let _ = server.way(&["task", "ask", "name", "--agent", "bob", "--question", "Which name?"]).ok();
    let task = |name: &str| server.way(&["task", "show", name, "--json"]).data();
    let address = |name: &str| format!("#/task/{}", task(name)["id"].as_str().unwrap());
    let browser = Browser::start(&server.sandbox.path(""));
    browser.go(server.said["login"].as_str().unwrap());
    browser.wait_for("Needs you 2");
    browser.show(&address("name"));
    browser.fill_labelled("Answer", "Waypost\u{e007}");
    until("the answer is in the store", || task("name")["answer"] == "Waypost");
    browser.show(&address("build"));
    browser.click("Retry");
    until("the task is pending", || task("build")["status"] == "pending");
    let workflow = || server.way(&["workflow", "show", "release", "--json"]).data()["status"].clone();
    browser.show("#/workflows/release");
    browser.click("Pause");
    until("the workflow is paused", || workflow() == "paused");
    browser.click("Resume");
    until("the workflow goes on", || workflow() == "in_progress");
    assert_eq!(browser.errors(), [""; 0]);
    let token = server.token(&["--role", "read-only"]);
    let _ = browser.run(&format!("sessionStorage.setItem('waypost-session', '{token}'); location.reload()"));
    browser.wait_for("waits for build");
    let asked = "return performance.getEntriesByType('resource').some((one) => one.name.endsWith('/whoami') && one.responseEnd > 0)";
    until("the page knows the role", || browser.run(asked) == true);
    assert_eq!(browser.run("return document.querySelectorAll('main button').length"), 0);
}
