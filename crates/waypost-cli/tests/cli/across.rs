//! Facts that no single command decides on: which work belongs to which repository, what processes inherit, and what
//! hostile texts and ids can do.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};
use waypost_testkit::{Run, Sandbox, strace, until};

use crate::support::jobs::{Shop, is_alive, pid_of};
use crate::support::sandbox;

const PLAN: &str = "build: Compile\npublish: Out\n  needs: build\n";

/// Starts a workflow of two tasks, and returns its id.
fn start(sandbox: &Sandbox, dir: &Path, name: &str) -> String {
    sandbox.write(sandbox.path("plan.txt"), PLAN);
    let plan = sandbox.path("plan.txt");
    let args = ["workflow", "create", name, "--plan", plan.to_str().unwrap(), "--start", "--json"];
    sandbox.way(dir, args).data()["id"].as_str().unwrap().to_owned()
}

/// A process that is ended with its test.
pub(crate) struct Companion(pub(crate) Child);

impl Drop for Companion {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn list(sandbox: &Sandbox, dir: &Path, args: &[&str]) -> Vec<Value> {
    sandbox.way(dir, [args, &["--json"]].concat()).data().as_array().unwrap().clone()
}

#[test]
fn a3_workflows_of_one_name_in_two_repositories_are_apart() {
    let sandbox = sandbox();
    let (one, other) = (sandbox.git_repo("one"), sandbox.git_repo("other"));
    let ids = [start(&sandbox, &one, "w"), start(&sandbox, &other, "w")];
    assert_ne!(ids[0], ids[1]);
    for (dir, id) in [&one, &other].into_iter().zip(&ids) {
        let all = list(&sandbox, dir, &["workflow", "list"]);
        assert_eq!((all.len(), &all[0]["id"]), (1, &json!(id)));
    }
    let _ = sandbox.way(&one, ["task", "claim", "build", "--agent", "ann"]).ok();
    assert_eq!(list(&sandbox, &other, &["task", "list", "--claimable"])[0]["name"], "build", "it is free there");
    // The same for jobs of one type and command.
    let run = |dir: &Path| {
        let mut command = sandbox.way_command(dir);
        command.env_remove("WAYPOST_TEST_CLOCK").args(["--json", "--quiet", "job", "start", "--type", "builder"]);
        Run::of(&command.args(["--strategy", "in-place", "--", "true"]).output().unwrap()).data()["id"].clone()
    };
    let jobs = [&one, &other].map(|dir| run(dir));
    assert_ne!(jobs[0], jobs[1]);
    for (dir, job) in [&one, &other].into_iter().zip(&jobs) {
        let all = list(&sandbox, dir, &["job", "list"]);
        assert_eq!((all.len(), &all[0]["id"], &all[0]["type"]), (1, job, &json!("builder")));
    }
}

#[test]
fn a4_workflows_of_one_name_in_two_worktrees_are_two_runs_and_each_resumes_its_own() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let _ = sandbox.way(&repo, ["worktree", "add", "topic"]).ok();
    let topic = sandbox.path("repo-topic");
    let ids = [start(&sandbox, &repo, "w"), start(&sandbox, &topic, "w")];
    assert_ne!(ids[0], ids[1]);
    assert_eq!(list(&sandbox, &repo, &["workflow", "list"]).len(), 2);
    let _ = sandbox.way(&repo, ["task", "claim", "w/build", "--agent", "ann"]).ok();
    let _ = sandbox.way(&repo, ["task", "done", "w/build", "--agent", "ann", "--outcome", "x"]).ok();
    for (dir, id, next) in [(&repo, &ids[0], "publish"), (&topic, &ids[1], "build")] {
        let claimed = sandbox.way(dir, ["task", "claim", "--workflow", "w", "--agent", "bob", "--json"]).data();
        assert_eq!((&claimed["task"]["workflow_id"], &claimed["task"]["name"]), (&json!(id), &json!(next)));
    }
}

#[test]
fn a10_a_workflow_of_a_named_store_continues_at_its_next_task() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let old = sandbox.path("old.db");
    let there = |args: &[&str]| sandbox.way_with(&repo, &[("WAYPOST_DB", old.as_os_str())], args);
    sandbox.write(repo.join("plan.txt"), PLAN);
    let _ = there(&["workflow", "create", "w", "--plan", "plan.txt", "--start"]).ok();
    let _ = there(&["task", "claim", "build", "--agent", "ann"]).ok();
    let _ = there(&["task", "done", "build", "--agent", "ann", "--outcome", "x"]).ok();
    // The repository has a newer store meanwhile.
    start(&sandbox, &repo, "other");
    let claimed = sandbox.way(&repo, ["--db", "../old.db", "task", "claim", "--agent", "bob", "--json"]).data();
    assert_eq!(claimed["task"]["name"], "publish", "{claimed}");
    assert_eq!(list(&sandbox, &repo, &["workflow", "list"])[0]["name"], "other");
}

#[test]
fn g1_a_job_is_listed_in_every_worktree_while_it_runs() {
    let shop = Shop::new();
    let _ = shop.way(["worktree", "add", "topic"]).ok();
    let topic = shop.sandbox.path("repo-topic");
    let job = shop.started(&[], "exec sleep 600");
    for dir in [&shop.repo, &topic] {
        let mut command = shop.sandbox.way_command(dir);
        command.env_remove("WAYPOST_TEST_CLOCK").args(["job", "list", "--live", "--json"]);
        let live = Run::of(&command.output().unwrap()).data();
        assert_eq!((&live[0]["id"], &live[0]["status"]), (&job["id"], &json!("running")), "{}", dir.display());
    }
    let _ = shop.way(["job", "cancel", job["id"].as_str().unwrap()]).ok();
}

#[test]
fn g23_a_backup_made_while_another_process_writes_is_a_prefix_of_the_history() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let _ = sandbox.way(&repo, ["status"]).ok();
    let mut command = sandbox.way_command(&repo);
    command.args(["db", "probe", "--writes", "100000"]).stdout(Stdio::null()).stderr(Stdio::null());
    let mut writer = Companion(command.spawn().unwrap());
    let events = |db: &Path| -> Vec<(i64, String, String)> {
        let db = rusqlite::Connection::open(db).unwrap();
        let mut rows = db.prepare("SELECT sequence, kind, data FROM events ORDER BY 1").unwrap();
        let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
        rows.query_map([], row).unwrap().map(Result::unwrap).collect()
    };
    let written = || sandbox.way(&repo, ["status", "--json"]).data()["store"]["events"].as_u64().unwrap();
    until("it writes", || written() > 10);
    let mut copies = Vec::new();
    for number in 0..5 {
        let copy = sandbox.path(format!("backup{number}.db"));
        let acknowledged = usize::try_from(written()).unwrap();
        let _ = sandbox.way(&repo, ["db", "backup", copy.to_str().unwrap()]).ok();
        let _ = sandbox.way(&repo, ["--db", copy.to_str().unwrap(), "db", "check"]).ok();
        copies.push((copy, acknowledged));
    }
    assert!(writer.0.try_wait().unwrap().is_none(), "it wrote all the time");
    drop(writer);
    let whole = events(&repo.join(".git/waypost/state.db"));
    for (copy, acknowledged) in &copies {
        let part = events(copy);
        assert_eq!(part[..], whole[..part.len()], "{}", copy.display());
        assert!(part.len() >= *acknowledged, "{} of {acknowledged} are in {}", part.len(), copy.display());
    }
    assert!(copies[4].1 > copies[0].1, "{copies:?}");
}

#[test]
fn b7_the_origin_of_an_issue_takes_precedence_over_the_routing() {
    let sandbox = sandbox();
    let (one, two, routed) = (sandbox.git_repo("one"), sandbox.git_repo("two"), sandbox.git_repo("routed"));
    let add = |args: &[&str]| {
        let id = sandbox.way(&one, [&["add", "x", "--json"], args].concat()).data()["id"].clone();
        id.as_str().unwrap().to_owned()
    };
    let count =
        |repo: &Path| fs::read_to_string(repo.join(".waypost/issues.jsonl")).map_or(0, |ledger| ledger.lines().count());
    for repo in ["../two", "../routed"] {
        let _ = sandbox.way(&one, ["config", "--add-repo", repo]).ok();
    }
    let origin = add(&["--repo", "two"]);
    for (key, value) in [("routing.mode", "explicit"), ("routing.default", "../routed")] {
        let _ = sandbox.way(&one, ["config", "set", key, value]).ok();
    }
    add(&[]);
    assert_eq!([&one, &two, &routed].map(|repo| count(repo)), [0, 1, 1], "the routing works");
    add(&["--parent", &origin]);
    add(&["--discovered-from", &origin]);
    assert_eq!([&one, &two, &routed].map(|repo| count(repo)), [0, 3, 1]);
}

/// Checks that every id in a value is a prefix and twelve characters.
pub(crate) fn check_ids(value: &Value) {
    let mut found = BTreeSet::new();
    ids_in(value, &mut found);
    for id in &found {
        check_id(id);
    }
}

fn check_id(id: &str) {
    let rest = id.split_once('_').unwrap().1;
    let is_right = |byte: u8| byte.is_ascii_digit() || byte.is_ascii_lowercase();
    assert!(rest.len() == 12 && rest.bytes().all(is_right), "{id}");
}

/// The ids in an answer, wherever they are.
fn ids_in(value: &Value, found: &mut BTreeSet<String>) {
    const PREFIXES: [&str; 10] = ["wf_", "tk_", "cp_", "ws_", "rp_", "tmpl_", "ag_", "msg_", "jb_", "wt_"];
    match value {
        Value::String(text) if PREFIXES.iter().any(|prefix| text.starts_with(prefix)) => {
            // A snapshot is named after its job, with a number.
            let is_number = |number: &str| number.bytes().all(|byte| byte.is_ascii_digit());
            let id = text.split_once('-').filter(|(_, number)| is_number(number)).map_or(text.as_str(), |(id, _)| id);
            found.insert(id.to_owned());
        }
        Value::Array(items) => items.iter().for_each(|item| ids_in(item, found)),
        Value::Object(fields) => fields.values().for_each(|field| ids_in(field, found)),
        _ => {}
    }
}

#[test]
fn c8_every_id_that_a_command_prints_is_a_prefix_and_twelve_characters() {
    let shop = Shop::new();
    let plan = shop.sandbox.path("plan.txt");
    shop.sandbox.write(&plan, PLAN);
    let plan = plan.to_str().unwrap();
    let mut found = BTreeSet::new();
    for args in [
        &["where"][..],
        &["workflow", "create", "w", "--plan", plan, "--start"],
        &["template", "save", "t", "--plan", plan],
        &["agent", "register", "ann"],
        &["--agent", "bob", "msg", "send", "ann", "hello"],
        &["task", "claim", "build", "--agent", "ann"],
        &["task", "checkpoint", "build", "--agent", "ann", "--summary", "half"],
        &["job", "start", "--", "true"],
        &["ws", "list"],
        &["worktree", "list"],
        &["events", "--since", "0", "--limit", "1000"],
    ] {
        ids_in(&shop.run(&[&["--json"], args].concat()).data(), &mut found);
    }
    let kinds: BTreeSet<&str> = found.iter().filter_map(|id| id.split_once('_')).map(|(kind, _)| kind).collect();
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), ["ag", "cp", "jb", "msg", "rp", "tk", "tmpl", "wf", "ws", "wt"]);
    for id in &found {
        check_id(id);
    }
}

#[test]
fn f10_a_write_whose_sync_failed_is_not_acknowledged() {
    strace();
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let _ = sandbox.way(&repo, ["db", "probe", "--writes", "1"]).ok();
    // The log exists only while the store is open.
    let open = rusqlite::Connection::open(repo.join(".git/waypost/state.db")).unwrap();
    let count = || -> u64 { open.query_row("SELECT count(*) FROM events", [], |row| row.get(0)).unwrap() };
    let before = count();
    let trace = sandbox.path("trace");
    let mut command = sandbox.command("strace", &repo);
    command.arg("-f").arg("-o").arg(&trace).arg("-P").arg(repo.join(".git/waypost/state.db-wal"));
    command.args(["-e", "trace=fsync,fdatasync", "-e", "inject=fsync,fdatasync:error=EIO"]);
    let run = Run::of(&command.args([env!("CARGO_BIN_EXE_way"), "db", "probe", "--writes", "1"]).output().unwrap());
    assert!(fs::read_to_string(&trace).unwrap().contains("INJECTED"), "nothing was synced: {run:?}");
    let run = run.fails(8);
    assert!(!run.stdout.contains("on disk"), "{run:?}");
    let _ = sandbox.way(&repo, ["db", "probe", "--writes", "1"]).ok();
    let _ = sandbox.way(&repo, ["db", "check"]).ok();
    assert!((before + 1..=before + 2).contains(&count()), "the failed write is absent or complete");
}

#[test]
fn f19_only_sqlite_opens_the_file_of_the_store() {
    strace();
    let shop = Shop::new();
    let _ = shop.way(["add", "First"]).ok();
    let _ = shop.way(["status"]).ok();
    let store = shop.repo.join(".git/waypost/state.db");
    // SQLite opens a database for writing, or without following links; other code that only reads does neither.
    let foreign_opens = |program: &str, args: &[&str]| {
        let trace = shop.sandbox.path("trace");
        let mut command = shop.sandbox.command("strace", &shop.repo);
        command.env_remove("WAYPOST_TEST_CLOCK").args(["-f", "-qq", "-o"]).arg(&trace);
        command.args(["-e", "trace=open,openat,openat2", program]);
        let run = Run::of(&command.args(args).output().unwrap());
        assert_eq!(run.code, 0, "{run:?}");
        let calls = fs::read_to_string(&trace).unwrap();
        let opened = format!("\"{}\"", store.display());
        let calls: Vec<&str> = calls.lines().filter(|call| call.contains(&opened)).collect();
        let is_foreign = |call: &&&str| !call.contains("O_RDWR") && !call.contains("O_NOFOLLOW");
        (calls.len(), calls.iter().filter(is_foreign).map(|call| (*call).to_owned()).collect::<Vec<_>>())
    };
    assert_eq!(foreign_opens("md5sum", &[store.to_str().unwrap()]).1.len(), 1, "another program is noticed");
    for args in [
        &["status"][..],
        &["db", "probe", "--writes", "2"],
        &["db", "info"],
        &["db", "check"],
        &["doctor"],
        &["db", "backup", "../backup.db"],
        &["agent", "register", "ann"],
        &["claim"],
        &["ws", "new"],
    ] {
        let (opens, foreign) = foreign_opens(env!("CARGO_BIN_EXE_way"), args);
        assert!(opens > 0 && foreign.is_empty(), "{args:?}: {opens}, {foreign:#?}");
    }
}

#[test]
fn f20_a_job_inherits_no_descriptor_of_the_store_or_a_lock() {
    let shop = Shop::new();
    let job = shop.job(&[], "for fd in /proc/$$/fd/*; do readlink $fd; done");
    let open: Vec<&str> = job["output"].as_str().unwrap().lines().collect();
    assert!(open.len() >= 3, "{open:?}");
    assert!(open.iter().all(|file| *file == "/dev/null" || file.starts_with("pipe:")), "{open:?}");
}

#[test]
fn f31_t39_i33_a_process_that_got_the_id_of_a_supervisor_gets_no_signal() {
    let shop = Shop::new();
    let job = shop.started(&[], "exec sleep 600");
    let mut stranger = Companion(Command::new("sleep").arg("600").stdout(Stdio::null()).spawn().unwrap());
    kill_process(pid_of(&job["supervisor"]), Signal::KILL).unwrap();
    until("the supervisor is dead", || !is_alive(&job["supervisor"]["pid"].to_string()));
    // As if the stranger had got its id; the start time differs.
    let db = rusqlite::Connection::open(shop.repo.join(".git/waypost/state.db")).unwrap();
    let update = "UPDATE jobs SET supervisor = json_set(supervisor, '$.pid', ?1) WHERE id = ?2";
    assert_eq!(db.execute(update, (stranger.0.id(), job["id"].as_str().unwrap())).unwrap(), 1);
    let _ = shop.way(["job", "cancel", job["id"].as_str().unwrap()]);
    until("the job is over", || shop.way(["job", "list", "--live", "--json"]).data() == json!([]));
    assert!(stranger.0.try_wait().unwrap().is_none(), "the stranger was ended");
    assert!(!is_alive(&job["process"]["pid"].to_string()), "the command of the job is left");
}

#[test]
fn t24_texts_of_a_task_reach_its_command_only_as_data() {
    let shop = Shop::new();
    let canary = shop.sandbox.path("canary");
    let evil = |number: usize, before: &str, after: &str| format!("{before}touch {}{number}{after}", canary.display());
    let texts: Vec<String> =
        [("$(", ")"), ("`", "`"), ("; ", ";"), ("' ; ", " '"), ("\" && ", " \""), ("| ", ""), ("--x=$(", ")")]
            .into_iter()
            .enumerate()
            .map(|(number, (before, after))| evil(number, before, after))
            .collect();
    let task = |(number, text): (usize, &String)| {
        let lines = format!("{text}\n{text}");
        json!({ "name": format!("t{number} {text}"), "description": lines, "context": lines, "acceptance": [text], "files": [text] })
    };
    let plan = json!({ "summary": texts[0], "tasks": texts.iter().enumerate().map(task).collect::<Vec<_>>() });
    let file = shop.sandbox.path("plan.json");
    shop.sandbox.write(&file, plan.to_string());
    let name = &texts[2];
    let _ = shop.run(&["workflow", "create", name, "--plan", file.to_str().unwrap(), "--start"]).ok();
    let script = format!(
        "env; find \"$WAYPOST_CONTEXT_DIR\" -type f -exec cat {{}} +; {} task done \"$WAYPOST_TASK\" --outcome done",
        env!("CARGO_BIN_EXE_way")
    );
    let tally = shop.run(&["worker", "--agent", "ann", "--until-empty", "--json", "--", "sh", "-c", &script]).data();
    assert_eq!(tally["completed"], texts.len(), "{tally}");
    let jobs = shop.way(["job", "list", "--json"]).data();
    assert_eq!(jobs.as_array().unwrap().len(), texts.len());
    for (number, text) in texts.iter().enumerate() {
        assert!(!Path::new(&format!("{}{number}", canary.display())).exists(), "{text} ran");
    }
    // The texts do reach the command.
    let printed: String = jobs
        .as_array()
        .unwrap()
        .iter()
        .map(|job| shop.way(["job", "logs", job["id"].as_str().unwrap()]).ok().stdout)
        .collect();
    assert!(texts.iter().all(|text| printed.contains(text)), "{printed}");
}

#[test]
fn t36_a_pulled_ledger_grants_no_lease_registers_no_agent_and_runs_nothing() {
    let shop = Shop::new();
    let canary = shop.sandbox.path("canary");
    let touch = format!("touch {}", canary.display());
    let lines = [
        json!({ "id": "r-1", "title": "Mine", "status": "in_progress", "assignee": "mallory", "epoch": 99,
            "lease": { "holder": "mallory", "epoch": 99, "expires_at": 9_999_999_999_999_u64 },
            "command": ["sh", "-c", touch], "setup": touch, "hooks": { "post-checkout": touch } }),
        json!({ "_type": "agent", "name": "mallory", "role": "human" }),
        json!({ "_type": "lease", "subject": "r-2", "holder": "mallory", "epoch": 99 }),
        json!({ "_type": "config", "workspaces.setup": touch, "workspaces": { "setup": touch } }),
        json!({ "_type": "waypost", "workspaces.setup": touch, "token": "x", "role": "admin" }),
        json!({ "id": "r-2", "title": "Free" }),
    ];
    let text = lines.map(|line| format!("{line}\n")).concat();
    shop.sandbox.git(&shop.sandbox.path(""), ["clone", "--quiet", shop.remote.to_str().unwrap(), "mallory"]);
    let theirs = shop.sandbox.path("mallory");
    shop.sandbox.dir("mallory/.waypost");
    shop.sandbox.write(theirs.join(".waypost/issues.jsonl"), &text);
    shop.sandbox.git(&theirs, ["add", "."]);
    shop.sandbox.git(&theirs, ["commit", "--quiet", "-m", "Issues"]);
    shop.sandbox.git(&theirs, ["push", "--quiet", "origin", "HEAD:main"]);
    shop.sandbox.git(&shop.repo, ["pull", "--quiet", "origin", "main"]);

    for args in [&["list", "--all"][..], &["ready"], &["show", "r-1"], &["stats"], &["status"], &["prime"]] {
        let _ = shop.run(args).ok();
    }
    let rows = shop.way(["db", "info", "--json"]).data()["rows"].clone();
    for table in ["agents", "leases", "tasks", "jobs", "messages"] {
        assert_eq!(rows[table], 0, "{table}: {rows}");
    }
    // A lease that only the ledger names holds nothing back.
    let claimed = shop.way(["claim", "r-2", "--agent", "ann", "--json"]).data();
    assert_eq!((&claimed["assignee"], &claimed["lease"]["epoch"]), (&json!("ann"), &json!(1)), "{claimed}");
    assert_eq!(shop.job(&[], "true")["status"], "completed");
    assert!(!canary.exists());
    let agents =
        shop.sandbox.way_with(&shop.repo, &[("WAYPOST_AGENT", OsStr::new("ann"))], ["agent", "list", "--json"]);
    assert!(!agents.ok().stdout.contains("mallory"));
}
