//! Photographs the dashboard: starts the real program on data that are the same each time, and writes pictures of its screens.
//!
//! `cargo xtask screenshots` runs it. Arguments: the program, the directory of the pictures, and `guide` for those of the guide, or
//! `empty`, `normal` or `huge` for all screens with that much data.
#![expect(clippy::print_stdout, reason = "it prints for the developer")]

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use serde_json::{Value, json};
use waypost_testkit::{Browser, Sandbox};

/// The moment of the pictures. Everything happened before it.
const NOW: &str = "2026-03-02T11:30:00Z";
const DESKTOP: (u32, u32) = (1440, 900);
const PHONE: (u32, u32) = (390, 844);

/// The pictures of the guide: name, screen, size, whether in the dark theme.
const GUIDE: &[(&str, &str, (u32, u32), bool)] = &[
    ("dashboard-now", "now", DESKTOP, false),
    ("dashboard-workflow", "workflow", DESKTOP, true),
    ("dashboard-task", "task", DESKTOP, false),
    ("dashboard-issues", "issues", DESKTOP, false),
    ("dashboard-phone", "now", PHONE, false),
    ("dashboard-phone-dark", "issues", PHONE, true),
];

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [way, dir, what] = args.as_slice() else { panic!("usage: screenshots WAY DIRECTORY guide|empty|normal|huge") };
    let data = SampleData::new(way);
    match what.as_str() {
        "empty" => {}
        "huge" => {
            data.add_normal();
            data.add_many();
        }
        _ => data.add_normal(),
    }
    let mut server = data.serve();
    let browser = Browser::start(&data.sandbox.path(""));
    // Ages depend on the clock of the browser.
    let clock = format!("{{ const now = Date.parse('{NOW}'); Date.now = () => now; }}");
    let _ = browser.tools("Page.addScriptToEvaluateOnNewDocument", &json!({ "source": clock }));
    browser.go(server.said["login"].as_str().expect("an address"));
    browser.wait_for("Log out");
    let screens = data.screens();
    let address = |screen: &str| &screens.iter().find(|(name, ..)| *name == screen).expect("a screen").1;
    if what == "guide" {
        for (name, screen, size, is_dark) in GUIDE {
            photograph(&browser, address(screen), *size, *is_dark, &Path::new(dir).join(format!("{name}.png")));
        }
    } else {
        for (name, address) in &screens {
            for (size, is_dark) in [(DESKTOP, false), (DESKTOP, true), (PHONE, false), (PHONE, true)] {
                let theme = if is_dark { "dark" } else { "light" };
                let file = Path::new(dir).join(format!("{what}-{name}-{}-{theme}.png", size.0));
                photograph(&browser, address, size, is_dark, &file);
            }
        }
    }
    let _ = server.child.kill();
    let _ = server.child.wait();
}

fn photograph(browser: &Browser, address: &str, (width, height): (u32, u32), is_dark: bool, file: &Path) {
    browser.set_view(width, height, is_dark);
    browser.show(address);
    let loaded = "document.querySelector('main h1') && !document.querySelector('main').innerText.includes('Loading…')";
    browser.wait_for_script("the screen is loaded", loaded);
    // Two frames later, it is painted.
    let _ = browser
        .run_async("scrollTo(0, 0); requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 300)))");
    let picture = browser.screenshot();
    println!("{} {} bytes", file.display(), picture.len());
    #[expect(clippy::disallowed_methods, reason = "it can be made again")]
    std::fs::write(file, picture).expect("the picture is written");
}

/// The data of the pictures.
struct SampleData {
    sandbox: Sandbox,
    repo: PathBuf,
}

struct Served {
    child: Child,
    said: Value,
}

impl SampleData {
    fn new(way: &str) -> SampleData {
        let sandbox = Sandbox::new(way);
        let repo = sandbox.git_repo("harbour");
        sandbox.write("home/.gitconfig", "[user]\n\tname = Mara\n\temail = mara@example.org\n");
        SampleData { sandbox, repo }
    }

    /// Runs a command so many minutes before the moment of the pictures.
    #[track_caller]
    fn ago(&self, minutes: u32, args: &[&str]) -> String {
        let minute = 11 * 60 + 30 - minutes;
        let clock = format!("2026-03-02T{:02}:{:02}:00Z", minute / 60, minute % 60);
        let run = self.sandbox.way_with(&self.repo, &[("WAYPOST_TEST_CLOCK", clock.as_ref())], args);
        assert_eq!(run.code, 0, "{args:?}: {run:?}");
        run.stdout
    }

    fn plan(&self, name: &str, plan: &Value) -> String {
        let file = format!("{name}.json");
        self.sandbox.write(self.sandbox.path(&file), plan.to_string());
        format!("../{file}")
    }

    /// Adds the records of a working day.
    fn add_normal(&self) {
        self.sandbox.dir("harbour/.waypost");
        self.sandbox.write("harbour/.waypost/issues.jsonl", issues());
        let release = self.plan("release", &release());
        self.ago(140, &["workflow", "create", "release-2.4", "--plan", &release, "--start"]);
        for (agent, role) in [("ada", "worker"), ("ben", "worker"), ("cleo", "worker"), ("dov", "coordinator")] {
            self.ago(139, &["agent", "register", agent, "--role", role]);
        }
        self.finish("changelog", "ada", 130, "CHANGELOG.md has the 14 changes since 2.3");
        self.finish("schema", "ben", 120, "migration 12 adds berths.kind; rolls back cleanly");
        let docs = self.plan("docs", &json!({ "summary": "Rewrite the operator's handbook", "tasks": [
            { "name": "outline" }, { "name": "chapters", "depends_on": ["outline"] }, { "name": "print", "depends_on": ["chapters"] },
        ] }));
        self.ago(118, &["workflow", "create", "handbook", "--plan", &docs, "--start"]);
        self.finish("outline", "ben", 108, "nine chapters");
        self.finish("tariffs", "cleo", 95, "prices come from tariffs.toml, 31 tests pass");
        self.ago(80, &["workflow", "pause", "handbook"]);
        self.finish("importer", "ada", 70, "reads the 2019 export, 4,112 ships in 3 s");
        let fix =
            self.plan("fix", &json!({ "summary": "Night shift cannot log in", "tasks": [{ "name": "fix-clock" }] }));
        let awaits_merge = "{\"awaits_merge\":true}";
        self.ago(68, &["workflow", "create", "hotfix", "--plan", &fix, "--start", "--config-json", awaits_merge]);
        self.finish("fix-clock", "cleo", 58, "sessions use UTC; regression test added");
        self.claim("notify", "ben", 56);
        let error = "SMTP relay refuses STARTTLS from the test network";
        self.ago(50, &["task", "fail", "notify", "--agent", "ben", "--error", error, "--hopeless"]);
        self.claim("fees", "cleo", 36);
        let question = "Round harbour fees up to whole cents per day, or once per stay?";
        self.ago(31, &["task", "ask", "fees", question, "--agent", "cleo"]);
        self.ago(30, &["msg", "send", "cleo", "The port authority wants the fees by Friday", "--subject", "Fees"]);
        self.job(25, "printf 'compiling harbour 2.4.0\\n    Finished in 8.2 s\\nrunning 214 tests\\n214 passed\\n'; echo notes > notes.txt");
        self.job(12, "printf 'checking links\\n312 pages, 0 dead links\\n'");
        self.claim("berth-map", "ada", 8);
        self.claim("search", "dov", 6);
        let checkpoint = |minutes, task, agent, summary| {
            self.ago(minutes, &["task", "checkpoint", task, "--agent", agent, "--summary", summary]);
        };
        checkpoint(4, "berth-map", "ada", "tiles render; panning is next");
        checkpoint(2, "search", "dov", "index built, ranking by distance");
    }

    fn claim(&self, task: &str, agent: &str, minutes: u32) {
        self.ago(minutes, &["task", "claim", task, "--agent", agent]);
    }

    fn finish(&self, task: &str, agent: &str, minutes: u32, outcome: &str) {
        self.claim(task, agent, minutes + 7);
        self.ago(minutes + 3, &["task", "checkpoint", task, "--agent", agent, "--summary", "half of it works"]);
        self.ago(minutes, &["task", "done", task, "--agent", agent, "--outcome", outcome]);
    }

    fn job(&self, minutes: u32, script: &str) {
        self.ago(minutes, &["job", "start", "--keep", "--quiet", "--", "sh", "-c", script]);
    }

    /// Adds 10,000 issues and 1,000 tasks.
    fn add_many(&self) {
        let mut lines = issues();
        for number in 0..10_000 {
            let line = json!({ "id": format!("harbour-n{number:05}"), "title": format!("Berth {number} needs a new mooring ring"),
                "status": "open", "priority": number % 5, "issue_type": "task", "created_at": NOW, "updated_at": NOW });
            let _ = writeln!(lines, "{line}");
        }
        self.sandbox.write(self.repo.join(".waypost/issues.jsonl"), lines);
        for number in 0..10 {
            let tasks: Vec<Value> = (0..100)
                .map(|at| {
                    let needs: Vec<String> =
                        (at % 10 > 0).then(|| format!("pier-{number}-{}", at - 1)).into_iter().collect();
                    json!({ "name": format!("pier-{number}-{at}"), "description": "Inspect it", "depends_on": needs })
                })
                .collect();
            let name = format!("inspection-{number}");
            let plan = self.plan(&name, &json!({ "summary": "Inspect a hundred piers", "tasks": tasks }));
            self.ago(20, &["workflow", "create", &name, "--plan", &plan, "--start"]);
        }
    }

    /// Returns the screens with their addresses.
    fn screens(&self) -> Vec<(&'static str, String)> {
        let first = |args: &[&str], at: usize| -> Option<String> {
            let run = self.sandbox.way_with(&self.repo, &[("WAYPOST_TEST_CLOCK", NOW.as_ref())], args);
            let data: Value = serde_json::from_str(&run.stdout).ok()?;
            let one = &data["data"];
            one.get(at).unwrap_or(one)["id"].as_str().map(str::to_owned)
        };
        let lists =
            ["now", "workflows", "issues", "agents", "messages", "workspaces", "jobs", "events", "repositories"];
        let mut screens: Vec<(&str, String)> = lists.iter().map(|name| (*name, format!("#/{name}"))).collect();
        let records = [
            ("workflow", "workflows", first(&["workflow", "show", "release-2.4", "--json"], 0)),
            ("task", "task", first(&["task", "show", "release-2.4/fees", "--json"], 0)),
            ("issue", "issues", Some("harbour-3k9d".to_owned())),
            ("workspace", "workspaces", first(&["ws", "list", "--json"], 0)),
            ("job", "jobs", first(&["job", "list", "--json"], 1)),
        ];
        screens
            .extend(records.into_iter().filter_map(|(name, screen, id)| Some((name, format!("#/{screen}/{}", id?)))));
        screens
    }

    fn serve(&self) -> Served {
        let mut command = self.sandbox.way_command(&self.repo);
        command.args(["serve", "--port", "0", "--json", "--open"]).env("WAYPOST_TEST_CLOCK", NOW);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the server starts");
        let mut line = String::new();
        let _ = BufReader::new(child.stdout.take().expect("its output")).read_line(&mut line).expect("a line");
        let mut said: Value = serde_json::from_str(&line).expect("JSON");
        Served { child, said: said["data"].take() }
    }
}

fn release() -> Value {
    json!({ "summary": "Harbour 2.4: fees, map and search", "tasks": [
        { "name": "changelog", "description": "Collect the changes since 2.3" },
        { "name": "schema", "description": "Berths have a kind: visitor, fisher, ferry" },
        { "name": "tariffs", "description": "Read prices from a file", "depends_on": ["schema"] },
        { "name": "importer", "description": "Read the ships of the 2019 export", "depends_on": ["schema"] },
        { "name": "fees", "description": "Compute the fee of a stay from length, season and kind of berth.\n\nThe port authority publishes its tariff each March; see the table in tariffs.toml.",
          "depends_on": ["tariffs"], "acceptance": ["the examples of the port authority come out to the cent", "a stay over the end of the season has two rates"] },
        { "name": "notify", "description": "Mail the skipper when a berth is free", "depends_on": ["importer"] },
        { "name": "berth-map", "description": "Draw the berths on a map", "depends_on": ["schema"] },
        { "name": "search", "description": "Find the nearest free berth", "depends_on": ["importer"] },
        { "name": "translate", "description": "Danish and Swedish", "depends_on": ["changelog"] },
        { "name": "package", "description": "Build packages", "depends_on": ["fees", "notify", "berth-map", "search"] },
        { "name": "announce", "description": "Write to the operators", "depends_on": ["package", "translate"] },
    ] })
}

/// An issue: id, title, type, priority, status, parent, labels, minutes since its last change.
type Issue =
    (&'static str, &'static str, &'static str, u8, &'static str, Option<&'static str>, &'static [&'static str], u32);

/// The ledger.
fn issues() -> String {
    const ISSUES: &[Issue] = &[
        ("1f0a", "Fees follow the new tariff", "epic", 1, "open", None, &["billing"], 130),
        (
            "3k9d",
            "A stay over the end of the season is charged twice",
            "bug",
            0,
            "in_progress",
            Some("1f0a"),
            &["billing", "urgent"],
            18,
        ),
        ("7c2e", "Print the tariff on the receipt", "feature", 2, "open", Some("1f0a"), &["billing"], 96),
        ("b81x", "Discount for members of other clubs", "feature", 3, "open", Some("1f0a"), &[], 88),
        ("d4m2", "Map of berths", "epic", 1, "open", None, &["map"], 126),
        ("e09q", "Tiles flicker while panning", "bug", 1, "open", Some("d4m2"), &["map"], 44),
        ("g5r7", "Show depth below the keel", "feature", 2, "open", Some("d4m2"), &["map"], 61),
        ("h2t8", "Night shift cannot log in after midnight", "bug", 0, "closed", None, &["urgent"], 52),
        ("j6v3", "Import fails for ships without a home port", "bug", 1, "open", None, &["import"], 35),
        ("k1w9", "Document the backup of the database", "chore", 3, "open", None, &["docs"], 77),
        ("m8y4", "Which time zone do ferries report in?", "question", 2, "blocked", None, &[], 29),
        ("p3z5", "Accept card payments at the quay", "feature", 2, "open", None, &["billing"], 9),
    ];
    let mut lines = String::new();
    for (id, title, kind, priority, status, parent, labels, minutes) in ISSUES {
        let minute = 11 * 60 + 30 - minutes;
        let at = format!("2026-03-02T{:02}:{:02}:00Z", minute / 60, minute % 60);
        let mut issue = json!({ "id": format!("harbour-{id}"), "title": title, "status": status, "priority": priority,
            "issue_type": kind, "created_at": "2026-02-20T08:00:00Z", "created_by": "Mara", "updated_at": at, "labels": labels });
        if let Some(parent) = parent {
            issue["parent_id"] = json!(format!("harbour-{parent}"));
        }
        if *id == "3k9d" {
            issue["description"] = json!(
                "A boat that stays from 28 March to 3 April pays the winter and the summer rate for 31 March.\n\nSteps: open the calculator, choose berth 12, enter the dates."
            );
            issue["acceptance_criteria"] = json!("The receipt has one line per season, and no day twice.");
            issue["assignee"] = json!("cleo");
            issue["comments"] = json!([{ "id": "c-1", "author": "Mara", "text": "The harbour master of Ebeltoft found it.", "created_at": at }]);
        }
        if *id == "p3z5" {
            issue["visibility"] = json!("proposed");
        }
        let _ = writeln!(lines, "{issue}");
    }
    lines
}
