//! Measures the dashboard in Chromium with 1,000 tasks and 10,000 issues.
//!
//! `cargo xtask bench dashboard` runs it with the program as its argument.
#![expect(clippy::print_stdout, reason = "it prints a table")]

use std::error::Error;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use waypost_testkit::{Browser, Sandbox};

const ISSUES: u32 = 10_000;
const WORKFLOWS: u32 = 10;
const TASKS_PER_WORKFLOW: u32 = 100;
/// Loads of the page, of which the median counts.
const LOADS: usize = 5;
const QUICK_LOADS: usize = 1;
/// Events whose way to the screen is measured.
const EVENTS: u32 = 20;
/// An hour with an event a second, as fast as the server takes them.
const HOUR_OF_EVENTS: u32 = 3_600;
const QUICK_EVENTS: u32 = 100;

/// The most bytes of the page's files, first render in ms, event to pixel in ms (95 of 100), and growth of memory.
const MAX_PAGE_KB: f64 = 160.0;
const MAX_FIRST_RENDER_MS: f64 = 1_000.0;
const MAX_EVENT_MS: f64 = 1_000.0;
const MAX_HEAP_GROWTH: f64 = 2.0;

/// Notes when the first row is painted.
const WATCH: &str = "const look = () => { if (document.querySelector('main [data-row]')) \
    requestAnimationFrame(() => { window.firstRow = performance.now(); }); else requestAnimationFrame(look); }; look();";

/// A measured value, with its unit and its bar.
struct Row {
    name: String,
    value: f64,
    unit: &'static str,
    bar: Option<f64>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let way = args.first().ok_or("usage: bench-dashboard WAY [--quick]")?;
    let bench = Bench::new(way)?;
    let browser = Browser::start(&bench.sandbox.path(""));
    browser.go(bench.said["login"].as_str().ok_or("no address to log in")?);
    browser.wait_for("Log out");
    browser.set_view(1440, 900, false);
    let _ = browser.tools("Page.addScriptToEvaluateOnNewDocument", &json!({ "source": WATCH }));
    let mut rows = Vec::new();
    // Without it, the cache cannot be turned off.
    let _ = browser.tools("Network.enable", &json!({}));
    let is_quick = args.iter().any(|arg| arg == "--quick");
    bench.measure_loads(&browser, &mut rows, if is_quick { QUICK_LOADS } else { LOADS });
    bench.measure_events(&browser, &mut rows)?;
    bench.measure_memory(&browser, &mut rows, if is_quick { QUICK_EVENTS } else { HOUR_OF_EVENTS })?;
    for Row { name, value, unit, bar } in &rows {
        let bar = bar.map_or_else(String::new, |bar| format!("bar {bar}"));
        println!("{name:<58} {value:>10.1} {unit:<4} {bar}");
    }
    Ok(())
}

/// A repository with many records, and a server on it.
struct Bench {
    sandbox: Sandbox,
    repo: PathBuf,
    said: Value,
    token: String,
    child: Child,
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Bench {
    fn new(way: &str) -> Result<Bench, Box<dyn Error>> {
        let sandbox = Sandbox::new(way);
        let repo = sandbox.git_repo("repo");
        let mut ledger = String::new();
        for number in 0..ISSUES {
            let issue = json!({ "id": format!("repo-{number:05}"), "title": format!("Issue {number} about some part of the program"),
                "description": "It has a description of the usual length, which says what is wrong and how to see it.",
                "status": "open", "priority": number % 5, "issue_type": "task",
                "created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z" });
            writeln!(ledger, "{issue}")?;
        }
        sandbox.dir("repo/.waypost");
        sandbox.write("repo/.waypost/issues.jsonl", ledger);
        for workflow in 0..WORKFLOWS {
            let tasks: Vec<Value> = (0..TASKS_PER_WORKFLOW)
                .map(|task| {
                    let needs: Vec<String> =
                        (task % 10 > 0).then(|| format!("t{workflow}-{}", task - 1)).into_iter().collect();
                    json!({ "name": format!("t{workflow}-{task}"), "description": "Do it", "depends_on": needs })
                })
                .collect();
            sandbox.write(sandbox.path("plan.json"), json!({ "summary": "Many tasks", "tasks": tasks }).to_string());
            let name = format!("flow-{workflow}");
            let mut run =
                real_time(&sandbox, &repo, &["workflow", "create", &name, "--plan", "../plan.json", "--start"]);
            assert!(run.status()?.success(), "a workflow is created");
        }
        let mut child =
            real_time(&sandbox, &repo, &["serve", "--port", "0", "--json", "--open"]).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        let _ = BufReader::new(child.stdout.take().ok_or("no output")?).read_line(&mut line)?;
        let mut said: Value = serde_json::from_str(&line)?;
        let said = said["data"].take();
        let token = std::fs::read_to_string(said["token"].as_str().ok_or("no token")?)?.trim().to_owned();
        Ok(Bench { sandbox, repo, said, token, child })
    }

    /// Measures bytes and first render of two screens.
    fn measure_loads(&self, browser: &Browser, rows: &mut Vec<Row>, loads: usize) {
        let url = self.said["url"].as_str().unwrap_or_default();
        for (screen, name) in [("now", "Now, 1,000 tasks"), ("issues", "Issues, 10,000 in the ledger")] {
            let (mut times, mut answers, mut files) = (Vec::new(), 0.0, 0.0);
            for _ in 0..loads {
                let _ = browser.tools("Network.setCacheDisabled", &json!({ "cacheDisabled": true }));
                browser.go("about:blank");
                browser.go(&format!("{url}/#/{screen}"));
                browser.wait_for_script("rows are shown", "window.firstRow");
                let measured = browser.run_async(
                    "requestAnimationFrame(() => setTimeout(() => {
                        const all = [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')];
                        const sum = (entries) => entries.reduce((bytes, { transferSize }) => bytes + transferSize, 0);
                        const isAnswer = ({ name }) => name.includes('/api/') || name.endsWith('/whoami');
                        done({ time: window.firstRow, files: sum(all.filter((one) => !isAnswer(one))),
                            answers: sum(all.filter(isAnswer)) });
                    }))",
                );
                let number = |name: &str| measured[name].as_f64().unwrap_or_default();
                times.push(number("time"));
                (answers, files) = (number("answers"), number("files"));
            }
            times.sort_by(f64::total_cmp);
            rows.push(Row {
                name: format!("{name}: rows on the screen"),
                value: times[loads / 2],
                unit: "ms",
                bar: Some(MAX_FIRST_RENDER_MS),
            });
            rows.push(Row { name: format!("{name}: data"), value: answers / 1_000.0, unit: "kB", bar: None });
            if screen == "now" {
                rows.push(Row {
                    name: "files of the page, as transferred".to_owned(),
                    value: files / 1_000.0,
                    unit: "kB",
                    bar: Some(MAX_PAGE_KB),
                });
            }
        }
    }

    /// Measures the time from an event in the store to the frame that shows it.
    fn measure_events(&self, browser: &Browser, rows: &mut Vec<Row>) -> Result<(), Box<dyn Error>> {
        browser.show("#/now");
        browser.wait_for_script("rows are shown", "document.querySelector('main [data-row]')");
        let mut times = Vec::new();
        for number in 0..EVENTS {
            let text = format!("question number {number}");
            let wait = format!(
                "window.seen = 0; const look = () => {{ if (document.body.innerText.includes('{text}')) \
                 requestAnimationFrame(() => {{ window.seen = performance.timeOrigin + performance.now(); }}); \
                 else requestAnimationFrame(look); }}; look();"
            );
            let _ = browser.run(&wait);
            let task = format!("t{}-{}", number % WORKFLOWS, (number / WORKFLOWS) * 10);
            self.way(&["task", "claim", &task, "--agent", &format!("agent{number}")])?;
            self.way(&["task", "ask", &task, "--agent", &format!("agent{number}"), "--question", &text])?;
            // The command has ended, so its event is in the store since then at the latest.
            let at = millis_since_epoch()?;
            browser.wait_for_script("the event is shown", "window.seen");
            let seen = browser.run("return window.seen").as_f64().unwrap_or_default();
            times.push((seen - at).max(0.0));
        }
        times.sort_by(f64::total_cmp);
        let percentile = |of: usize| times[(times.len() * of / 100).min(times.len() - 1)];
        rows.push(Row {
            name: "end of a command to its pixels, median".to_owned(),
            value: percentile(50),
            unit: "ms",
            bar: None,
        });
        rows.push(Row {
            name: "end of a command to its pixels, 95 of 100".to_owned(),
            value: percentile(95),
            unit: "ms",
            bar: Some(MAX_EVENT_MS),
        });
        Ok(())
    }

    /// Measures the memory of the page before and after an hour of events.
    fn measure_memory(&self, browser: &Browser, rows: &mut Vec<Row>, events: u32) -> Result<(), Box<dyn Error>> {
        let heap = || {
            let _ = browser.tools("HeapProfiler.collectGarbage", &json!({}));
            browser.tools("Runtime.getHeapUsage", &json!({}))["usedSize"].as_f64().unwrap_or_default() / 1e6
        };
        browser.show("#/events");
        browser.wait_for("task.asked");
        browser.show("#/now");
        browser.wait_for("Needs you");
        let before = heap();
        let start = Instant::now();
        for number in 0..events {
            let task = format!("t{}-{}", number % WORKFLOWS, 50 + number % 50);
            // Another one than before, and than the default: a request that changes nothing is refused.
            let priority = [0, 1, 3, 4][(number / 50 % 4) as usize];
            self.patch(&format!("/api/v1/tasks/{task}"), &json!({ "priority": priority }))?;
        }
        let seconds = start.elapsed().as_secs_f64();
        browser.until("the page is quiet", || browser.run("return performance.now()").is_number());
        let after = heap();
        rows.push(Row { name: "JavaScript memory before".to_owned(), value: before, unit: "MB", bar: None });
        let name = format!("JavaScript memory after {events} events in {seconds:.0} s");
        rows.push(Row { name, value: after, unit: "MB", bar: Some(before * MAX_HEAP_GROWTH) });
        Ok(())
    }

    fn way(&self, args: &[&str]) -> Result<(), Box<dyn Error>> {
        let output = real_time(&self.sandbox, &self.repo, args).output()?;
        if output.status.success() {
            Ok(())
        } else {
            Err(format!("{args:?}: {}", String::from_utf8_lossy(&output.stderr)).into())
        }
    }

    fn patch(&self, path: &str, body: &Value) -> Result<(), Box<dyn Error>> {
        let host = self.said["url"].as_str().and_then(|url| url.strip_prefix("http://")).ok_or("no address")?;
        let body = body.to_string();
        let mut stream = TcpStream::connect(host)?;
        stream.set_read_timeout(Some(Duration::from_mins(1)))?;
        write!(
            stream,
            "PATCH {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            self.token,
            body.len()
        )?;
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer)?;
        if answer.starts_with("HTTP/1.1 200") { Ok(()) } else { Err(answer.into()) }
    }
}

/// Returns a command of the program with the clock of the machine.
fn real_time(sandbox: &Sandbox, repo: &Path, args: &[&str]) -> std::process::Command {
    let mut command = sandbox.way_command(repo);
    command.env_remove("WAYPOST_TEST_CLOCK").args(args);
    command
}

/// Returns the time of the machine: the clock of the browser is the same one.
fn millis_since_epoch() -> Result<f64, Box<dyn Error>> {
    #[expect(clippy::disallowed_methods, reason = "it is compared with the clock of the browser")]
    let now = SystemTime::now();
    Ok(now.duration_since(UNIX_EPOCH)?.as_secs_f64() * 1_000.0)
}
