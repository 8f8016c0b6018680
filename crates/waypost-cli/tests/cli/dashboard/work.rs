//! Graphs, live data, messages, logs, filters and the palette in a real browser.

use std::process::Command;

use serde_json::{Value, json};
use waypost_testkit::{Browser, Run, until};

use crate::serving::Server;
use crate::support::sandbox;

const PLAN: &str = "design: Draw it\nbuild <- design\ndocs <- design\ntest <- build\nrelease <- test, docs\n";

/// A server with the real clock, and a browser that is logged in.
struct Page {
    server: Server,
    browser: Browser,
}

impl Page {
    fn open() -> Page {
        let sandbox = sandbox();
        let repo = sandbox.git_repo("repo");
        sandbox.write("home/.gitconfig", "[user]\n\tname = A\n\temail = a@example.org\n");
        sandbox.write("repo/file", "one\n");
        sandbox.git(&repo, ["add", "."]);
        sandbox.git(&repo, ["commit", "--quiet", "-m", "First"]);
        let mut command = sandbox.way_command(&repo);
        command.env_remove("WAYPOST_TEST_CLOCK");
        let (child, said, token) = Server::launch_with(&sandbox, command, &["--open"]);
        let server = Server { sandbox, repo, child, said, token };
        let browser = Browser::start(&server.sandbox.path(""));
        browser.go(server.said["login"].as_str().unwrap());
        browser.wait_for("Live");
        Page { server, browser }
    }

    fn command(&self) -> Command {
        let mut command = self.server.sandbox.way_command(&self.server.repo);
        command.env_remove("WAYPOST_TEST_CLOCK").arg("--quiet");
        command
    }

    #[track_caller]
    fn way(&self, args: &[&str]) -> Run {
        self.server.sandbox.run(self.command().args(args), "").ok()
    }

    fn create_workflow(&self) {
        self.server.sandbox.write("repo/plan.txt", PLAN);
        let _ = self.way(&["workflow", "create", "ship", "--plan", "plan.txt", "--start"]);
    }

    fn show(&self, address: &str) {
        self.browser.show(address);
    }

    fn run(&self, script: &str) -> Value {
        self.browser.run(&format!("return {script}"))
    }

    /// Waits until an expression has a value in the page.
    fn until(&self, script: &str, value: &Value) {
        until(&format!("{script} is {value}"), || self.run(script) == *value);
    }

    /// Returns the paths that the page has read from the API so far.
    fn reads(&self) -> Vec<String> {
        let reads = self.run(
            "performance.getEntriesByType('resource').map(({ name }) => new URL(name).pathname).filter((path) => path.startsWith('/api/'))",
        );
        reads.as_array().unwrap().iter().map(|path| path.as_str().unwrap().to_owned()).collect()
    }
}

fn named(selector: &str) -> String {
    format!("[...document.querySelectorAll('{selector}')].map((one) => one.dataset.node).sort()")
}

#[test]
fn a_workflow_is_drawn_live_with_its_critical_path_and_a_spotlight() {
    let page = Page::open();
    page.create_workflow();
    // The events of its creation are not part of a new stream.
    page.browser.go(page.server.url());
    page.browser.wait_for("Live");
    page.show("#/workflows/ship");
    page.until(&named(".node"), &json!(["build", "design", "docs", "release", "test"]));
    page.until(&named(".node.critical"), &json!(["build", "design", "release", "test"]));
    page.until("document.querySelectorAll('path.edge').length", &json!(5));
    let places = "[...document.querySelectorAll('.node rect:not(.mark)')].map((one) => [one.getAttribute('x'), one.getAttribute('y')])";
    let before = page.run(places);
    let columns =
        "new Set([...document.querySelectorAll('.node rect:not(.mark)')].map((one) => one.getAttribute('x'))).size";
    page.until(columns, &json!(4));
    let _ = page
        .browser
        .run("document.querySelector('[data-node=docs]').dispatchEvent(new MouseEvent('click', { bubbles: true }))");
    page.until(&named(".node.away"), &json!(["build", "test"]));
    page.until("document.querySelectorAll('.tall .row.away').length", &json!(2));
    page.until("location.hash.includes('task=docs')", &json!(true));
    page.browser.press("\u{e00c}");
    page.until(&named(".node.away"), &json!([]));
    // A change of status recolours, without reading the workflow again.
    let reads = || page.reads().iter().filter(|path| path.ends_with("/workflows/ship")).count();
    let known = reads();
    let _ = page.way(&["task", "claim", "design", "--agent", "ann"]);
    page.until(&named(".node.working"), &json!(["design"]));
    page.browser.wait_for("in progress by ann");
    let _ = page.way(&["task", "ask", "design", "--agent", "ann", "--question", "Which?"]);
    page.until(&named(".node.asks"), &json!(["design"]));
    let _ = page.way(&["task", "answer", "design", "That"]);
    let _ = page.way(&["task", "claim", "design", "--agent", "ann"]);
    let _ = page.way(&["task", "done", "design", "--agent", "ann", "--outcome", "drawn"]);
    page.until(&named(".node.done"), &json!(["design"]));
    page.until(&named(".node.ready"), &json!(["build", "docs"]));
    page.until(&named(".node.critical"), &json!(["build", "release", "test"]));
    page.browser.wait_for("1/5");
    assert_eq!(page.run(places), before, "nothing has moved");
    assert_eq!(reads(), known, "single tasks changed: {:?}", page.reads());
    for kind in ["queued", "running", "waiting"] {
        page.until(&format!("document.querySelectorAll('.fall rect.{kind}').length > 0"), &json!(true));
    }
    page.until("document.querySelectorAll('.fall').length", &json!(3));
    let spoken = page.run("document.querySelector('.fall svg').getAttribute('aria-label')");
    assert!(spoken.as_str().unwrap().contains("waiting for a person"), "{spoken}");
    // The keyboard reaches a node, which opens its task.
    let _ = page.browser.run("document.querySelector('[data-node=build]').focus()");
    page.browser.press("\u{e007}");
    page.browser.wait_for("Checkpoints");
    page.until("document.querySelector('h1').textContent.startsWith('build')", &json!(true));
    let _ = page.browser.run("history.back()");
    page.until("document.querySelectorAll('.node').length", &json!(5));
    assert_eq!(page.browser.errors(), [""; 0]);
}

#[test]
fn the_graph_of_an_issue_shows_what_it_waits_for() {
    let page = Page::open();
    let id = |run: Run| run.data()["id"].as_str().unwrap().to_owned();
    let first = id(page.way(&["add", "Lay the base", "--json"]));
    let second = id(page.way(&["add", "Build on it", "--blocked-by", &first, "--json"]));
    page.show(&format!("#/issues/{second}"));
    page.until("document.querySelectorAll('.node').length", &json!(2));
    let _ = page.browser.run("document.querySelector('[data-node$=\"Lay the base\"]').focus()");
    page.browser.press("\u{e007}");
    page.until("document.querySelector('h1').textContent.startsWith('Lay the base')", &json!(true));
    assert_eq!(page.browser.errors(), [""; 0]);
}

#[test]
fn a_list_of_ten_thousand_rows_is_loaded_to_its_end_and_only_the_rows_in_view_are_in_the_document() {
    let page = Page::open();
    let _ = page.way(&["add", "First"]);
    let line = |number: u32| {
        json!({
            "id": format!("repo-{number:05}"), "title": format!("Issue {number}"), "status": "open", "priority": 2,
            "issue_type": "task", "created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z",
        })
    };
    let lines: Vec<String> = (0..10_000).map(|number| line(number).to_string()).collect();
    page.server.sandbox.write("repo/.waypost/issues.jsonl", lines.join("\n") + "\n");
    page.show("#/issues");
    let count = "Number(document.querySelector('.rows')?.dataset.count ?? 0)";
    page.until(&format!("{count} >= 200"), &json!(true));
    until("all are loaded", || {
        let _ = page.browser.run("scrollTo(0, document.documentElement.scrollHeight)");
        page.run(count) == 10_000
    });
    until("the last row is shown", || {
        let _ = page.browser.run("scrollTo(0, document.documentElement.scrollHeight)");
        page.browser.text().contains("Issue 9999")
    });
    let shown = page.run("document.querySelectorAll('[data-row]').length").as_u64().unwrap();
    assert!(shown < 200, "{shown} rows are in the document");
    let _ = page.browser.run("scrollTo(0, 0)");
    page.browser.wait_for("Issue 1\n");
    assert_eq!(page.browser.errors(), [""; 0]);
}

#[test]
fn a_failed_read_is_an_error_and_never_an_empty_list() {
    let page = Page::open();
    page.create_workflow();
    for screen in ["workflows", "agents", "workspaces", "jobs", "events"] {
        page.show(&format!("#/{screen}?worktree=wt_000000000000"));
        page.browser.wait_for("no worktree wt_000000000000");
        assert_eq!(page.run("document.querySelectorAll('.empty').length"), 0, "{screen}");
        page.show(&format!("#/{screen}"));
        page.until("document.querySelectorAll('.problem').length", &json!(0));
    }
}

#[test]
fn messages_are_listed_and_opening_one_marks_it_as_read() {
    let page = Page::open();
    page.show("#/messages");
    page.browser.wait_for("No message waits for you.");
    let agents = page.server.get("/api/v1/agents").data();
    let person = agents.as_array().unwrap().iter().find(|agent| agent["role"] == "human").unwrap();
    let person = person["name"].as_str().unwrap().to_owned();
    let _ = page.way(&["agent", "register", "ann"]);
    let _ = page.way(&["agent", "register", "bob"]);
    let _ = page.way(&["msg", "send", &person, "The build is <b>broken</b>", "--subject", "Help", "--agent", "ann"]);
    page.browser.wait_for("The build is <b>broken</b>");
    page.browser.wait_for("unread");
    page.browser.wait_for_title("(1) Messages · Waypost");
    page.browser.press("j\u{e007}");
    page.browser.wait_for("Mark as dealt with");
    let state = || {
        let inbox = page.server.post("/api/v1/inbox/list", &json!({ "peek": true })).data();
        inbox["messages"][0]["state"].clone()
    };
    until("the message is read in the store", || state() == "read");
    page.browser.click("Mark as dealt with");
    until("the message is dealt with", || state().is_null());
    let _ = page.way(&["msg", "send", "bob", "Between us", "--subject", "Plans", "--agent", "ann"]);
    page.show("#/messages?view=all");
    page.browser.wait_for("Plans");
    page.browser.press("j\u{e007}");
    page.browser.wait_for("Between us");
    assert_eq!(page.browser.errors(), [""; 0]);
}

#[test]
fn the_log_of_a_job_is_shown_as_it_is_written_and_can_be_searched() {
    let page = Page::open();
    let go = page.server.sandbox.path("go");
    let script = format!(
        "seq 1 3000 | sed 's/^/line /'; printf '\\033[31mred\\033[0m end\\n'; while [ ! -e {} ]; do sleep 0.1; done; echo over and out",
        go.display()
    );
    let job = page.way(&["job", "start", "--detach", "--json", "--", "sh", "-c", &script]).data();
    let job = job["id"].as_str().unwrap().to_owned();
    page.show(&format!("#/jobs/{job}"));
    page.browser.wait_for("red end");
    page.browser.wait_for("3001 lines");
    assert!(page.run("document.querySelectorAll('.line').length").as_u64().unwrap() < 300, "only lines in view");
    page.browser.press("/");
    page.browser.press("line 77");
    page.browser.wait_for("11 lines");
    page.until("location.hash.includes('find=line')", &json!(true));
    page.browser.press("\u{e007}");
    page.until("document.querySelector('.line.chosen mark')?.textContent ?? ''", &json!("line 77"));
    page.server.sandbox.write("go", "");
    page.browser.wait_for("3002 lines");
    page.browser.wait_for("The job has ended");
    page.browser.click("To the end");
    page.browser.wait_for("over and out");
    page.show("#/jobs");
    page.browser.wait_for("completed");
    assert_eq!(page.browser.errors(), [""; 0]);
}

#[test]
fn the_changes_of_a_task_in_its_workspace_are_shown() {
    let page = Page::open();
    page.create_workflow();
    let change = "echo new >> made; git add made; git commit --quiet -m Made; echo '<b>loose</b>' > loose";
    // The command leaves the task unfinished, so that the job fails.
    let job = ["job", "start", "--task", "design", "--agent", "ann", "--", "sh", "-c", change];
    let _ = page.command().args(job).output().unwrap();
    let task = page.way(&["task", "show", "design", "--json"]).data();
    page.show(&format!("#/task/{}", task["id"].as_str().unwrap()));
    page.until("Boolean(document.querySelector('.changes summary'))", &json!(true));
    let _ = page.browser.run("document.querySelector('.changes summary').click()");
    page.browser.wait_for("+<b>loose</b>");
    page.browser.wait_for("+new");
    page.until("document.querySelectorAll('.diff .added').length", &json!(2));
    let workspace = task["workspace_id"].as_str().unwrap();
    let shown = page.way(&["ws", "diff", workspace]).stdout;
    assert!(shown.contains("+++ b/made\n") && shown.contains("+<b>loose</b>\n"), "{shown}");
    let cut = page.server.get(&format!("/api/v1/workspaces/{workspace}/diff?max_bytes=10")).data();
    assert_eq!((cut["is_cut"].clone(), cut["diff"].as_str().unwrap().len()), (json!(true), 10));
    assert_eq!(page.browser.errors(), [""; 0]);
}

#[test]
fn the_filter_by_worktree_is_in_the_address_and_holds_on_every_screen() {
    let page = Page::open();
    page.create_workflow();
    let topic = page.server.sandbox.path("topic");
    page.server.sandbox.git(&page.server.repo, ["worktree", "add", "--quiet", "-b", "topic", topic.to_str().unwrap()]);
    let mut command = page.server.sandbox.way_command(&topic);
    let create = ["--quiet", "workflow", "create", "other", "--plan", "../repo/plan.txt", "--start"];
    let _ = Run::of(&command.env_remove("WAYPOST_TEST_CLOCK").args(create).output().unwrap()).ok();
    page.show("#/workflows");
    page.browser.wait_for("other");
    page.browser.wait_for("ship");
    let options = "[...document.querySelectorAll('[aria-label=Worktree] option')].map((one) => one.textContent)";
    page.until(&format!("{options}.includes('topic')"), &json!(true));
    let choose = |name: &str| {
        let _ = page.browser.run(&format!(
            "const select = document.querySelector('[aria-label=Worktree]');
             select.value = [...select.options].find((one) => one.textContent === '{name}').value;
             select.dispatchEvent(new Event('change', {{ bubbles: true }}))"
        ));
    };
    choose("topic");
    until("only the workflow of the worktree is shown", || {
        let text = page.run("document.querySelector('main').innerText");
        let text = text.as_str().unwrap();
        text.contains("other") && !text.contains("ship")
    });
    page.until("location.hash.includes('worktree=wt_')", &json!(true));
    page.browser.press("gn");
    until("the filter holds on another screen", || {
        let text = page.run("document.querySelector('main').innerText");
        let text = text.as_str().unwrap();
        text.contains("other/design") && !text.contains("ship/design")
    });
    for keys in ["gi", "ga", "gm", "gs", "gj", "ge", "gr"] {
        page.browser.press(keys);
        page.until("location.hash.includes('worktree=wt_')", &json!(true));
    }
    page.show("#/workflows");
    page.browser.wait_for("ship");
    choose("topic");
    page.until("document.querySelector('main').innerText.includes('ship')", &json!(false));
    let _ = page.browser.run("history.back()");
    page.browser.wait_for("ship");
    // The whole address is a deep link.
    let repository = page.server.get("/api/v1/repositories").data()[0]["id"].as_str().unwrap().to_owned();
    page.show(&format!("#/now?repo={repository}"));
    page.browser.wait_for("ship/design");
    page.until("document.querySelector('[aria-label=Repository]').value", &json!(repository));
    assert_eq!(page.browser.errors(), [""; 0]);
    // A repository that does not exist is refused, not shown as idle.
    page.show("#/now?repo=rp_000000000000");
    page.until("document.querySelector('main').innerText.includes('ship/design')", &json!(false));
    let errors = page.browser.errors();
    assert!(errors.iter().all(|line| line.contains("responded with a status of 404")), "{errors:?}");
}

#[test]
fn the_palette_leads_to_screens_and_records() {
    let page = Page::open();
    page.create_workflow();
    let _ = page.way(&["add", "Paint the shed"]);
    let find = |text: &str, result: &str| {
        page.browser.chord('\u{e009}', 'k');
        page.until("Boolean(document.querySelector('.palette'))", &json!(true));
        page.browser.press(text);
        let chosen = "document.querySelector('.palette [aria-selected=true] .name')?.textContent ?? ''";
        until(&format!("{result} is found"), || page.run(chosen).as_str().unwrap().ends_with(result));
        page.browser.press("\u{e007}");
        page.until("document.querySelector('.palette')", &Value::Null);
    };
    find("agen", "Agents");
    page.until("location.hash", &json!("#/agents"));
    find("docs", "ship/docs");
    page.browser.wait_for("Checkpoints");
    find("shed", "Paint the shed");
    page.until("document.querySelector('h1').textContent.startsWith('Paint the shed')", &json!(true));
    page.browser.chord('\u{e009}', 'k');
    page.until("Boolean(document.querySelector('.palette'))", &json!(true));
    page.browser.press("\u{e00c}");
    page.until("document.querySelector('.palette')", &Value::Null);
    assert_eq!(page.browser.errors(), [""; 0]);
}

#[test]
fn the_tab_counts_what_needs_the_person_and_the_desktop_shows_it_on_request() {
    let page = Page::open();
    page.create_workflow();
    let _ = page.browser.run(
        "window.shown = [];
         window.Notification = class { constructor(title, { body }) { window.shown.push(`${title} ${body}`); } };
         Notification.permission = 'default';
         Notification.requestPermission = async () => 'granted';",
    );
    let icon = "document.querySelector('link[rel=icon]').getAttribute('href').split('/').pop()";
    page.until(icon, &json!("icon.svg"));
    page.browser.wait_for("Notify me");
    page.browser.click("Notify me");
    page.browser.wait_for("Notices are on");
    let _ = page.way(&["task", "claim", "design", "--agent", "ann"]);
    let _ = page.way(&["task", "ask", "design", "--agent", "ann", "--question", "Which colour?"]);
    page.browser.wait_for_title("(1) Now · Waypost");
    page.until(icon, &json!("icon-1.svg"));
    page.until("window.shown", &json!(["ship/design: asks Which colour?"]));
    let href = page.run("document.querySelector('link[rel=icon]').getAttribute('href')");
    let served = page.server.get(href.as_str().unwrap());
    assert!(served.status == 200 && served.body.contains(">1</text>"), "{served:?}");
    let _ = page.way(&["task", "answer", "design", "Blue"]);
    page.browser.wait_for_title("Now · Waypost");
    page.until(icon, &json!("icon.svg"));
    assert_eq!(page.browser.errors(), [""; 0]);
}

#[test]
fn now_shows_one_repository_as_the_server_filters_it_and_says_how_many_rows_are_not_shown() {
    let sandbox = sandbox();
    let (repo, other) = (sandbox.git_repo("repo"), sandbox.git_repo("other"));
    let _ = sandbox.way(&repo, ["config", "set", "--user", "scope", "global"]).ok();
    let tasks: Vec<_> = (0..1_100).map(|number| json!({ "name": format!("t{number}") })).collect();
    sandbox.write("other/plan.json", json!({ "tasks": tasks }).to_string());
    sandbox.write("repo/plan.json", r#"{"tasks":[{"name":"alone"}]}"#);
    for (repo, name) in [(&other, "many"), (&repo, "few")] {
        let _ = sandbox.way(repo, ["workflow", "create", name, "--plan", "plan.json", "--start"]).ok();
    }
    let server = Server::start_in(sandbox, repo, &["--open"]);
    let browser = super::open(&server);
    browser.show("#/now");
    browser.wait_for("The first 50 of more than 1000 are shown.");
    browser.wait_for("1000+");
    let repositories = server.get("/api/v1/repositories").data();
    let id = |name: &str| {
        let found = repositories.as_array().unwrap().iter().find(|one| one["name"] == name).unwrap();
        found["id"].as_str().unwrap().to_owned()
    };
    browser.show(&format!("#/now?repo={}", id("repo")));
    browser.wait_for("few/alone");
    browser.wait_for_script(
        "only its rows are shown",
        "document.querySelectorAll('main [data-row]').length === 1 && !document.querySelector('main .more')",
    );
    browser.show(&format!("#/now?repo={}", id("other")));
    browser.wait_for("The first 50 of more than 1000 are shown.");
    let _ = browser
        .run("[...document.querySelectorAll('main .more a')].find((one) => one.textContent === 'Show 1000').click()");
    browser.wait_for("The first 1000 of more than 1000 are shown. All of them are in their workflows.");
    assert_eq!(browser.errors(), [""; 0]);
}
