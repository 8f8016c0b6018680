//! `way db`: backups, vacuum, and workflows moved between stores.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::{Value, json};
use waypost_testkit::{Sandbox, strace};

use crate::serving::Server;
use crate::support::jobs::Shop;
use crate::support::sandbox;
use crate::support::work::{Team, words};

#[test]
fn a_backup_is_equal_and_never_overwrites() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let _ = sandbox.way(&repo, ["db", "probe", "--writes", "10"]).ok();
    let _ = sandbox.way(&repo, ["db", "backup", "../backup.db"]).ok();
    let _ = sandbox.way(&repo, ["db", "probe", "--writes", "1"]).ok();
    let run = sandbox.way(&repo, ["db", "backup", "../backup.db"]).fails(7);
    assert!(run.stderr.contains("exists already"), "{}", run.stderr);
    let events = |db: &Path| -> Vec<(i64, String)> {
        let db = rusqlite::Connection::open(db).unwrap();
        let mut rows = db.prepare("SELECT sequence, data FROM events WHERE sequence <= 12 ORDER BY 1").unwrap();
        rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap().map(Result::unwrap).collect()
    };
    assert_eq!(events(&sandbox.path("backup.db")), events(&repo.join(".git/waypost/state.db")));
    // A backup is a store that commands can use.
    let run = sandbox.way(&repo, ["--db", "../backup.db", "db", "probe", "--writes", "1"]).ok();
    assert!(run.stdout.starts_with("event 13 "), "{}", run.stdout);
    assert_eq!(
        std::fs::read_dir(sandbox.path(""))
            .unwrap()
            .filter(|entry| entry.as_ref().unwrap().path().extension().is_some_and(|end| end == "new"))
            .count(),
        0
    );
}

#[test]
fn vacuum_frees_space_and_records_an_event() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let _ = sandbox.way(&repo, ["db", "probe", "--writes", "300"]).ok();
    let data = sandbox.way(&repo, ["db", "vacuum", "--json"]).data();
    assert!(data["bytes_after"].as_u64().unwrap() < data["bytes_before"].as_u64().unwrap(), "{data}");
    let status = sandbox.way(&repo, ["status", "--json"]).data();
    assert_eq!(status["events"][0]["kind"], "store.vacuumed");
    let _ = sandbox.way(&repo, ["db", "check"]).ok();
}

#[test]
fn triggers_and_views_of_a_foreign_store_do_not_run_and_are_listed() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let _ = sandbox.way(&repo, ["db", "probe", "--writes", "1"]).ok();
    let sound = sandbox.way(&repo, ["db", "check", "--json"]).data();
    assert_eq!(sound, json!({ "ok": true, "damage": [], "schema": [] }));
    let file = repo.join(".git/waypost/state.db");
    let spy = |sql: &str| rusqlite::Connection::open(&file).unwrap().execute_batch(sql).unwrap();
    spy("CREATE TABLE spied (kind TEXT);
        CREATE TRIGGER spy AFTER INSERT ON events BEGIN INSERT INTO spied VALUES (NEW.kind); END;
        CREATE VIEW seen AS SELECT * FROM spied;
        DROP TRIGGER events_are_never_changed;
        CREATE TRIGGER events_are_never_changed AFTER INSERT ON events BEGIN DELETE FROM spied; END;
        DROP INDEX jobs_by_end");
    let _ = sandbox.way(&repo, ["db", "probe", "--writes", "3"]).ok();
    assert_eq!(count(&file, "spied"), 0, "no trigger runs");
    let check = sandbox.way(&repo, ["db", "check", "--json"]);
    assert_eq!(check.code, 9, "{}", check.stderr);
    let mut found: Vec<String> = Vec::new();
    let answer: Value = serde_json::from_str(&check.stdout).unwrap();
    for row in answer["data"]["schema"].as_array().unwrap() {
        found.push(format!("{} {}", row["state"].as_str().unwrap(), row["object"].as_str().unwrap()));
    }
    found.sort();
    let expected = [
        "changed trigger events_are_never_changed on table events",
        "foreign table spied",
        "foreign trigger spy on table events",
        "foreign view seen",
        "missing index jobs_by_end on table jobs",
    ];
    assert_eq!(found, expected);
    let shown = sandbox.way(&repo, ["db", "check"]).fails(9);
    for line in ["foreign  trigger spy on table events", "missing  index jobs_by_end on table jobs"] {
        assert!(shown.stdout.contains(line), "{}", shown.stdout);
    }
    assert!(shown.stderr.contains("so no trigger runs"), "{}", shown.stderr);
    // A view in place of a table of ours is not read.
    spy("ALTER TABLE agents RENAME TO hidden; CREATE VIEW agents AS SELECT * FROM hidden");
    let refused = sandbox.way(&repo, ["agent", "list"]);
    assert!(refused.code != 0 && refused.stderr.contains("view"), "{}{}", refused.stdout, refused.stderr);
}

#[test]
fn a_backup_can_be_read_from_a_read_only_place() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    sandbox.give_away(&sandbox.path(""));
    let _ = sandbox.way_unprivileged(&repo, ["db", "backup", "../backup.db"]).ok();
    std::fs::set_permissions(sandbox.path("backup.db"), std::fs::Permissions::from_mode(0o400)).unwrap();
    let status = sandbox.way_unprivileged(&repo, ["--db", "../backup.db", "status", "--json"]).data();
    assert_eq!(status["store"]["events"], 2);
}

fn names(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect()
}

fn count(db: &Path, table: &str) -> i64 {
    let db = rusqlite::Connection::open(db).unwrap();
    db.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
}

#[test]
fn a11_a_workflow_that_is_larger_than_a_request_moves_to_a_server() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let text = "What has to be done here. ".repeat(1_500);
    let task = |number: u32| serde_json::json!({ "name": format!("t{number}"), "description": text });
    let plan = serde_json::json!({ "tasks": (0..120).map(task).collect::<Vec<_>>() }).to_string();
    assert!(plan.len() > 4_500_000, "{}", plan.len());
    sandbox.write(repo.join("plan.json"), &plan);
    let _ = sandbox.way(&repo, ["--quiet", "workflow", "create", "large", "--plan", "plan.json", "--start"]).ok();
    let server = crate::serving::Server::start(&[]);
    let variables = [("WAYPOST_TOKEN", server.token.as_ref())];
    let moved = sandbox.way_with(&repo, &variables, ["db", "move", "--to", server.url(), "--json"]).data();
    assert_eq!(names(&moved["moved"]), ["large"]);
    let tasks = server.way(&["task", "list", "--workflow", "large", "--limit", "1000", "--json"]).data();
    assert_eq!((tasks.as_array().unwrap().len(), tasks[0]["description"].as_str()), (120, Some(text.as_str())));
    // The higher limit applies to the owner's token only.
    let agent = server.token(&["--agent", "a"]);
    let send = |token: &str| {
        let ask = server.ask("POST", "/api/v1/op/take_workflow").by(token);
        ask.json_of_size(crate::serving::MAX_BODY_BYTES + 1).send().status
    };
    assert_eq!((send(&agent), send(&server.token)), (413, 400));
}

#[test]
fn a_move_says_what_it_moves_and_what_it_does_not() {
    let team = Team::with("build: it\n");
    let _ = team.data("workflow create later");
    let dry = team.data("db move --to global --dry-run");
    assert_eq!((names(&dry["moved"]).len(), &dry["written"]), (2, &json!(false)));
    let _ = team.data("task claim build --agent builder");
    let run = team.way("db move --to global").fails(7);
    assert!(run.stdout.contains("not moved") && run.stderr.contains("--force"), "{run:?}");
    let forced = team.data("db move --to global --force --workflow w");
    assert_eq!((names(&forced["moved"]), &forced["written"]), (vec!["w"], &json!(true)));
    let text = team.way("db move --to global").ok().stdout;
    let home = team.sandbox.path("home");
    assert!(text.ends_with(&format!("Moved 0 of 2 workflows to {}/.waypost/state.db\n", home.display())), "{text}");
    let ended = team.data("db move --to global --delete-source");
    assert_eq!(ended["ended"], 2);
    for same in ["repo", ".git/waypost/state.db"] {
        let same = team.way(&format!("db move --to {same}")).fails(2);
        assert!(same.stderr.contains("is both the source and the destination"), "{}", same.stderr);
    }
    let _ = team.way("db move --to ftp://x").fails(2);
}

#[test]
fn gc_says_what_it_removes_and_makes_the_store_smaller() {
    let team = Team::new();
    let text = "some long description ".repeat(40);
    let plan: Vec<String> = (0..300).map(|number| format!("t{number}: {text}\n")).collect();
    let _ = team.fed("workflow create big --plan - --start --json", &plan.concat()).data();
    let _ = team.data("workflow cancel big");
    team.pass(40 * 86_400);
    let plan = team.data("db gc --older-than 30d --dry-run");
    assert_eq!((&plan["workflows"], &plan["written"], &plan["bytes_after"]), (&json!(1), &json!(false), &Value::Null));
    let removed = team.data("db gc --older-than 30d");
    for count in ["workflows", "tasks", "jobs", "workspaces", "messages", "events"] {
        assert_eq!(removed[count], plan[count], "{count}: the dry run tells what the run does");
    }
    let (before, after) = (removed["bytes_before"].as_u64().unwrap(), removed["bytes_after"].as_u64().unwrap());
    assert!(after < before / 2, "{removed}");
    assert_eq!(team.data("status")["events"][0]["kind"], "store.vacuumed");
    let text = team.way("db gc --summaries").ok().stdout;
    assert!(text.contains("2026-01  events") && text.contains("workflow") && text.contains("cancelled"), "{text}");
    assert!(team.way("db gc").fails(2).stderr.contains("--older-than"));
}

#[test]
fn gc_keeps_what_is_live_undelivered_or_unsaved() {
    let shop = Shop::new();
    let data = |line: &str| -> Value {
        let words = words(line);
        shop.run(&words.iter().map(String::as_str).chain(["--json"]).collect::<Vec<_>>()).data()
    };
    let start = |name: &str, task: &str| {
        shop.sandbox.write(shop.sandbox.path("plan"), format!("{task}: work\n"));
        data(&format!("workflow create {name} --plan ../plan --start"))["id"].as_str().unwrap().to_owned()
    };
    // A workflow that is finished, but about which bob has an unread message.
    let asked = start("asked", "a");
    let _ = data("task claim a --agent ann");
    let _ = data("task done a --agent ann --outcome done");
    let _ = data("agent register bob");
    let _ = data("msg send bob 'how was it?' --workflow asked --agent ann");
    // One whose job left a workspace with work in it, one that is in progress, and an issue that a person holds.
    let left = start("left", "b");
    let done = format!("echo work > new; {} task done b --outcome made", env!("CARGO_BIN_EXE_way"));
    let job = shop.job(&["--task", "b"], &done)["id"].as_str().unwrap().to_owned();
    let running = start("running", "c");
    let issue = data("add 'an issue'")["id"].as_str().unwrap().to_owned();
    let _ = data(&format!("claim {issue}"));
    let removed = data("db gc --older-than 0s");
    let counts = |removed: &Value| ["workflows", "jobs", "workspaces", "messages"].map(|name| removed[name].as_u64());
    assert_eq!(counts(&removed), [0; 4].map(Some), "{removed}");
    for workflow in [&asked, &left, &running] {
        assert_eq!(data(&format!("workflow show {workflow}"))["id"], workflow.as_str());
        assert_eq!(data(&format!("events --since 0 --subject {workflow}"))[0]["kind"], "workflow.created");
    }
    assert_eq!(data(&format!("events --since 0 --subject {issue}"))[0]["kind"], "issue.claimed");
    let log = shop.sandbox.path("home/.waypost/workspaces/jobs").join(&job);
    assert!(log.is_dir(), "{}", log.display());
    // After the workspace is removed for good, and the message was presented, both go.
    let workspace = data("ws list")[0]["id"].as_str().unwrap().to_owned();
    let _ = data(&format!("ws rm {workspace} --discard"));
    let _ = data("msg inbox --agent bob");
    let removed = data("db gc --older-than 0s");
    assert_eq!(counts(&removed), [2, 1, 1, 0].map(Some), "{removed}");
    assert!(!log.exists(), "the output of a removed job is removed");
    let gone = shop.way(["job", "show", &job, "--json"]).fails(3).error();
    assert!(gone["message"].as_str().unwrap().contains("completed) was removed from the store"), "{gone}");
    let inbox = data("msg inbox --agent bob");
    assert!(inbox.to_string().contains("how was it?"), "it is not acknowledged: {inbox}");
}

#[test]
fn a_gc_killed_at_any_step_leaves_a_consistent_store_and_the_next_one_completes_it() {
    strace();
    let team = Team::new();
    // More than one transaction removes.
    for number in 0..60 {
        let plan = format!("a: one\nb: {number}\n  needs: a\n");
        let _ = team.fed(&format!("workflow create w{number} --plan - --json"), &plan).data();
        let _ = team.data(&format!("workflow cancel w{number}"));
    }
    team.pass(100 * 86_400);
    let store = team.repo.join(".git/waypost/state.db");
    let whole = rusqlite::Connection::open(&store).unwrap();
    whole.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    drop(whole);
    let copy = std::fs::read(&store).unwrap();
    let rows = |table: &str| -> u64 {
        let store = rusqlite::Connection::open(&store).unwrap();
        store.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
    };
    let mut removed_at_kill = Vec::new();
    for when in [1, 3, 6, 10, 15, 25, 40] {
        for file in ["state.db-wal", "state.db-shm"] {
            let _ = std::fs::remove_file(store.with_file_name(file));
        }
        team.sandbox.write(&store, &copy);
        let own = team.command("db gc --older-than 90d");
        let mut command = team.sandbox.command("strace", &team.repo);
        command.env("WAYPOST_TEST_CLOCK", team.clock()).arg("-o").arg("/dev/null");
        command.args(["-e", &format!("inject=fdatasync,fsync,ftruncate:signal=SIGKILL:when={when}")]);
        let _ = command.arg(own.get_program()).args(own.get_args()).output().unwrap();
        let (workflows, summaries) = (rows("workflows"), rows("summaries WHERE kind = 'workflow'"));
        assert_eq!(workflows + summaries, 60, "each workflow is complete or summarized, killed at {when}");
        assert_eq!(rows("tasks"), 2 * workflows, "killed at {when}");
        assert_eq!(rows("dependencies"), workflows, "killed at {when}");
        let created = rows("events WHERE kind = 'workflow.created'");
        assert!(created >= workflows, "the history of what is kept is complete: {created} of {workflows}");
        assert_eq!(team.data("db check")["ok"], true);
        removed_at_kill.push(summaries);
        let _ = team.data("db gc --older-than 90d");
        assert_eq!((rows("workflows"), rows("tasks"), rows("summaries WHERE kind = 'workflow'")), (0, 0, 60));
    }
    assert!(removed_at_kill.iter().any(|count| *count < 60), "no run was killed early: {removed_at_kill:?}");
    assert!(removed_at_kill.iter().any(|count| *count > 0), "no run was killed late: {removed_at_kill:?}");
}

/// Cancels a workflow, and removes it from the store that the arguments name.
fn gc_in(sandbox: &Sandbox, repo: &Path, store: &[&str]) -> Value {
    // The real clock: PostgreSQL uses its own, and a test's clock stands still.
    let way = |args: &[&str]| {
        let mut command = sandbox.way_command(repo);
        command.env_remove("WAYPOST_TEST_CLOCK").args(store).args(args).arg("--json");
        sandbox.run(&mut command, "").data()
    };
    let id = way(&["workflow", "create", "w"])["id"].as_str().unwrap().to_owned();
    let _ = way(&["workflow", "cancel", "w"]);
    let plan = way(&["db", "gc", "--older-than", "0s", "--dry-run"]);
    assert_eq!((&plan["workflows"], &plan["written"]), (&json!(1), &json!(false)), "{plan}");
    assert_eq!(way(&["workflow", "list", "--all"]).as_array().unwrap().len(), 1);
    let removed = way(&["db", "gc", "--older-than", "0s"]);
    assert_eq!((&removed["workflows"], &removed["written"]), (&json!(1), &json!(true)), "{removed}");
    assert_eq!(way(&["workflow", "list", "--all"]), json!([]));
    let summaries = way(&["db", "gc", "--summaries"]);
    assert!(summaries.as_array().unwrap().iter().any(|summary| summary["subject"] == id.as_str()), "{summaries}");
    removed
}

#[test]
fn gc_works_on_postgres_and_through_a_server() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let removed = gc_in(&sandbox, &repo, &["--db", &waypost_testkit::postgres_url()]);
    assert!(removed["bytes_before"].as_u64().unwrap() > 0 && removed["bytes_after"].as_u64().unwrap() > 0, "{removed}");

    let mut command = sandbox.way_command(&repo);
    command.env_remove("WAYPOST_TEST_CLOCK");
    let (child, said, token) = Server::launch_with(&sandbox, command, &[]);
    let server = Server { sandbox, repo, child, said, token };
    let other = server.sandbox.git_repo("other");
    let removed = gc_in(&server.sandbox, &other, &["--db", server.url()]);
    assert!(
        removed["bytes_before"].is_null() && removed["bytes_after"].is_null(),
        "the server has the file: {removed}"
    );
}
