//! Every screen in both themes: accessible, and as wide as the window.

use serde_json::Value;
use waypost_testkit::{Browser, axe};

use super::{create_work, open};
use crate::serving::Server;

/// Addresses of screens with records on them, each with a text that shows that it is loaded.
fn screens(server: &Server) -> Vec<(String, &'static str)> {
    let first = |args: &[&str]| server.way(args).data()[0]["id"].as_str().unwrap().to_owned();
    let task = |name: &str| server.way(&["task", "show", name, "--json"]).data()["id"].as_str().unwrap().to_owned();
    vec![
        ("#/now".to_owned(), "Needs you"),
        ("#/workflows".to_owned(), "release"),
        ("#/workflows/release".to_owned(), "waits for build"),
        (format!("#/task/{}", task("build")), "Last error"),
        (format!("#/task/{}", task("name")), "Question"),
        ("#/issues".to_owned(), "P2"),
        (format!("#/issues/{}", first(&["list", "--json"])), "Ready"),
        ("#/agents".to_owned(), "bob"),
        ("#/workspaces".to_owned(), "KiB"),
        (format!("#/workspaces/{}", first(&["ws", "list", "--json"])), "Directory"),
        ("#/jobs".to_owned(), "completed"),
        (format!("#/jobs/{}", first(&["job", "list", "--json"])), "Log"),
        ("#/events".to_owned(), "task.asked"),
        ("#/repositories".to_owned(), "repo"),
    ]
}

fn server_with_records() -> Server {
    let server = Server::start(&["--open"]);
    create_work(&server);
    for args in [
        &["task", "claim", "name", "--agent", "bob"][..],
        &["task", "ask", "name", "--agent", "bob", "--question", "Which name?"],
    ] {
        let _ = server.way(args).ok();
    }
    let run = server.way(&["job", "start", "--keep", "--quiet", "--", "sh", "-c", "echo work > new.txt; echo done"]);
    assert_eq!(run.code, 0, "{run:?}");
    server
}

/// Returns the serious and critical findings of axe-core on the page as it is.
fn findings(browser: &Browser) -> Vec<String> {
    let found = browser.run_async("axe.run(document).then((found) => done(found.violations), (error) => done([{ impact: 'critical', id: String(error), nodes: [] }]))");
    let is_serious = |one: &&Value| matches!(one["impact"].as_str(), Some("serious" | "critical"));
    let show = |one: &Value| {
        let nodes = one["nodes"].as_array().unwrap().iter().map(|node| node["html"].to_string());
        format!("{}: {}", one["id"], nodes.take(3).collect::<Vec<_>>().join(" "))
    };
    found.as_array().unwrap().iter().filter(is_serious).map(show).collect()
}

#[test]
fn axe_finds_nothing_serious_on_any_screen_in_both_themes() {
    let server = server_with_records();
    let script = std::fs::read_to_string(axe()).unwrap();
    let browser = open(&server);
    let _ = browser.run(&script);
    let mut wrong = Vec::new();
    for is_dark in [false, true] {
        browser.set_view(1440, 900, is_dark);
        for (address, text) in screens(&server) {
            browser.show(&address);
            browser.wait_for(text);
            if address.starts_with("#/workflows/") {
                browser.wait_for_script("the graph is drawn", "document.querySelector('g.node')");
            }
            wrong.extend(findings(&browser).into_iter().map(|one| format!("{address}, dark {is_dark}: {one}")));
        }
        browser.show("#/issues");
        browser.click("With details");
        browser.wait_for("Labels, separated by commas");
        wrong.extend(findings(&browser).into_iter().map(|one| format!("a dialog, dark {is_dark}: {one}")));
        browser.press("\u{e00c}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(browser.errors(), [""; 0]);
}

#[test]
fn nothing_is_wider_than_a_phone() {
    let server = server_with_records();
    let browser = open(&server);
    browser.set_view(390, 844, false);
    for (address, text) in screens(&server) {
        browser.show(&address);
        browser.wait_for(text);
        let width = "return Math.max(document.documentElement.scrollWidth, document.body.scrollWidth)";
        assert_eq!(browser.run(width), 390, "{address}");
        if !address.starts_with("#/task/") {
            let is_visible = "document.querySelector('nav [aria-current]').getBoundingClientRect().right <= 390";
            browser.wait_for_script(&format!("the tab of {address} is visible"), is_visible);
        }
    }
    assert_eq!(browser.errors(), [""; 0]);
}

#[test]
fn the_page_of_a_missing_record_has_a_heading_and_says_what_is_missing() {
    let server = Server::start(&["--open"]);
    let browser = open(&server);
    for screen in ["workflows", "task", "issues", "agents", "workspaces", "jobs"] {
        browser.show(&format!("#/{screen}/none-1"));
        browser.wait_for_script("the error is shown", "document.querySelector('main .problem')");
        assert_eq!(browser.run("return document.querySelector('main h1')?.innerText ?? ''"), "none-1", "{screen}");
    }
}
