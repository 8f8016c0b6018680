//! `way db`: backups, vacuum, and workflows moved between stores.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use waypost_core::op::{AddRepository, AddWorkflow, ClaimTask, ShowWorkflow};
use waypost_core::work::plan::{Plan, PlannedTask};
use waypost_testkit::{Sandbox, strace};

use crate::serving::Server;
use crate::support::agents::{START, claim, finish, session, workflow};
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

/// A store with a running workflow of which one task is done, a completed workflow, and one that is not started.
fn prepared(sandbox: &Sandbox) -> std::path::PathBuf {
    let repo = sandbox.git_repo("repo");
    let mut builder = session(sandbox, &repo, "builder", START, false);
    builder.call(workflow("release", "build: first\ntest: second\n    needs: build\n")).unwrap();
    builder.call(claim("release/build")).unwrap();
    builder.call(finish("release/build")).unwrap();
    builder.call(workflow("old", "only: one\n")).unwrap();
    builder.call(claim("old/only")).unwrap();
    builder.call(finish("old/only")).unwrap();
    builder.call(AddWorkflow { start: false, ..workflow("later", "some: day\n") }).unwrap();
    repo
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
fn a11_a_dry_run_lists_a_run_moves_a_second_run_moves_none_and_the_source_is_kept() {
    let sandbox = sandbox();
    let repo = prepared(&sandbox);
    let global = sandbox.path("home/.waypost/state.db");
    let dry = sandbox.way(&repo, ["db", "move", "--to", "global", "--dry-run", "--json"]).data();
    assert_eq!((names(&dry["moved"]), &dry["written"]), (vec!["later", "release"], &false.into()));
    assert!(!global.exists(), "a dry run creates no store");
    let source = repo.join(".git/waypost/state.db");
    let rows = |table| count(&source, table);
    let before = [rows("workflows"), rows("tasks"), rows("checkpoints"), rows("dependencies")];

    let moved = sandbox.way(&repo, ["db", "move", "--to", "global", "--json"]).data();
    assert_eq!(names(&moved["moved"]), ["later", "release"]);
    let again = sandbox.way(&repo, ["db", "move", "--to", "global", "--json"]).data();
    assert_eq!((names(&again["moved"]).len(), names(&again["there"])), (0, vec!["later", "release"]));
    assert_eq!([rows("workflows"), rows("tasks"), rows("checkpoints"), rows("dependencies")], before, "it is kept");
    let text = sandbox.way(&repo, ["db", "move", "--to", "global"]).ok().stdout;
    assert!(
        text.ends_with(
            "Moved 0 of 2 workflows to /sandbox/home/.waypost/state.db\n"
                .replace("/sandbox", sandbox.path("").to_str().unwrap().trim_end_matches('/'))
                .as_str()
        ),
        "{text}"
    );

    // Work continues in the target, and not in the source.
    let mut there = session(&sandbox, &repo, "builder", START, true);
    let page = there.call(ShowWorkflow { workflow: "release".to_owned() }).unwrap();
    assert_eq!((page.workflow.done, page.workflow.total), (1, 2));
    there.call(claim("release/test")).unwrap();
    let mut here = session(&sandbox, &repo, "builder", START, false);
    assert_eq!(here.call(claim("release/test")).unwrap_err().kind().exit_code(), 4);

    let status = sandbox.way(&repo, ["status", "--json"]).data();
    assert_eq!(status["workflows"], serde_json::json!([]), "a moved workflow is not listed here");
    let ended = sandbox.way(&repo, ["db", "move", "--to", "global", "--delete-source", "--json"]).data();
    assert_eq!((names(&ended["moved"]).len(), &ended["ended"]), (0, &2.into()));
    let status = sandbox.way(&repo, ["status", "--json"]).data();
    assert_eq!(status["workflows"], serde_json::json!([]));
    let status = sandbox.way(&repo, ["--global", "status", "--json"]).data();
    assert_eq!(names(&status["workflows"]).len(), 2);
    let none = sandbox.way(&repo, ["db", "move", "--to", "global", "--json"]).data();
    assert_eq!((names(&none["moved"]).len(), names(&none["there"]).len()), (0, 0));
}

#[test]
fn a_workflow_with_a_held_task_is_not_moved() {
    let sandbox = sandbox();
    let repo = prepared(&sandbox);
    let mut builder = session(&sandbox, &repo, "builder", START, false);
    builder.call(claim("release/test")).unwrap();
    let dry = sandbox.way(&repo, ["db", "move", "--to", "../other.db", "--dry-run", "--json"]).data();
    assert_eq!(
        (names(&dry["refused"]), &dry["refused"][0]["reason"]),
        (vec!["release"], &"builder works on it".into())
    );
    let run = sandbox.way(&repo, ["db", "move", "--to", "../other.db"]).fails(7);
    assert!(run.stdout.contains("not moved") && run.stderr.contains("--force"), "{run:?}");
    builder.call(claim("release/test")).unwrap();
    let forced = sandbox.way(&repo, ["db", "move", "--to", "../other.db", "--force", "--json"]).data();
    assert_eq!(names(&forced["moved"]), ["release"]);
    assert_eq!(builder.call(finish("release/test")).unwrap_err().kind().exit_code(), 5, "the lease is lost");
    // The workflow moves back with its new state.
    let back =
        sandbox.way(&repo, ["--db", "../other.db", "db", "move", "--to", "repo", "--workflow", "release", "--json"]);
    assert_eq!(names(&back.data()["moved"]), ["release"]);
    builder.call(claim("release/test")).unwrap();
}

#[test]
fn a_claim_and_a_move_at_the_same_time_never_both_succeed() {
    let sandbox = sandbox();
    for round in 0..6 {
        let repo = sandbox.git_repo(format!("repo{round}"));
        let mut builder = session(&sandbox, &repo, "builder", START, false);
        builder.call(workflow("release", "build: it\n")).unwrap();
        let other = sandbox.path(format!("other{round}.db"));
        let has_ended = AtomicBool::new(false);
        let (claimed, run) = std::thread::scope(|scope| {
            let claimers: Vec<_> = (0..3)
                .map(|number| {
                    let (sandbox, repo, other, has_ended) = (&sandbox, &repo, &other, &has_ended);
                    scope.spawn(move || {
                        let mut agent = session(sandbox, repo, &format!("agent{number}"), START, false);
                        // A process starts later than a thread. In every second round the claims wait for it.
                        while round % 2 == 1 && !other.exists() && !has_ended.load(Ordering::Relaxed) {
                            std::thread::yield_now();
                        }
                        agent
                            .call(ClaimTask {
                                task: None,
                                workflow: None,
                                worktree_id: None,
                                repository: None,
                                ttl_ms: None,
                                budget: None,
                            })
                            .is_ok()
                    })
                })
                .collect();
            let run = sandbox.way(&repo, ["db", "move", "--to", other.to_str().unwrap()]);
            has_ended.store(true, Ordering::Relaxed);
            (claimers.into_iter().map(|one| one.join().unwrap()).filter(|is| *is).count(), run)
        });
        match run.code {
            0 => assert_eq!(claimed, 0, "moved, and claimed in the source"),
            7 => assert_eq!(claimed, 1, "{run:?}"),
            _ => panic!("{run:?}"),
        }
        // The task can be claimed there if it moved, and nowhere twice.
        let late = ["task", "claim", "--agent", "late"];
        let _ = sandbox.way(&repo, late).fails(6);
        let there = sandbox.way(&repo, [&["--db", other.to_str().unwrap()][..], &late].concat()).code;
        assert_eq!(there == 0, run.code == 0, "{there}: {run:?}");
    }
}

#[test]
fn c7_a_workflow_over_several_repositories_needs_a_shared_store() {
    let sandbox = sandbox();
    let (one, two) = (sandbox.git_repo("one"), sandbox.git_repo("two"));
    let refused = sandbox.way(&one, ["repo", "add", "../two"]).fails(7);
    assert!(refused.stderr.contains("way --global repo add PATH"), "{}", refused.stderr);
    let known = sandbox.way(&one, ["--global", "repo", "add", "../two", "--json"]).data();
    assert_eq!((&known["name"], known["path"].as_str().unwrap()), (&"two".into(), two.to_str().unwrap()));
    let over = |repository: Option<&str>| {
        let task = |name: &str| PlannedTask {
            name: name.to_owned(),
            repository: repository.map(str::to_owned),
            ..PlannedTask::default()
        };
        AddWorkflow {
            repositories: vec!["one".to_owned(), "two".to_owned()],
            plan: Some(Plan { tasks: vec![task("build")], ..Plan::default() }),
            ..workflow("both", "x: y\n")
        }
    };
    let mut own = session(&sandbox, &one, "lead", START, false);
    let error = own.call(AddWorkflow { repositories: vec!["one".to_owned(), "one".to_owned()], ..over(None) });
    assert!(error.is_ok(), "one repository, twice");
    let mut shared = session(&sandbox, &one, "lead", START, true);
    assert_eq!(shared.call(over(None)).unwrap_err().kind().exit_code(), 2, "no task inherits a repository");
    shared.call(over(Some("two"))).unwrap();
    let list = sandbox.way(&one, ["--global", "repo", "list", "--json"]).data();
    assert_eq!(list.as_array().unwrap().iter().map(|seen| seen["live_workflows"].as_u64().unwrap()).sum::<u64>(), 2);
    let used = sandbox.way(&one, ["--global", "repo", "remove", "two"]).fails(7);
    assert!(used.stderr.contains("workflow both includes it"), "{}", used.stderr);
    // It cannot be moved into the store of a single repository.
    let run = sandbox.way(&one, ["--global", "db", "move", "--to", "repo"]).fails(7);
    assert!(run.stdout.contains("this store belongs to one repository"), "{run:?}");
    let again = own.call(AddRepository { repository: shared.repository().clone() });
    assert!(again.is_ok(), "its own is known");
    let third = sandbox.git_repo("third");
    let _ = sandbox.way(&third, ["--global", "repo", "add", "."]).ok();
    let _ = sandbox.way(&one, ["--global", "repo", "remove", "nothing"]).fails(3);
    let _ = sandbox.way(&one, ["--global", "repo", "add", "../nowhere"]).fails(3);
}

#[test]
fn invalid_moves_are_refused() {
    let sandbox = sandbox();
    let repo = prepared(&sandbox);
    let same = sandbox.way(&repo, ["db", "move", "--to", "repo"]).fails(2);
    assert!(same.stderr.contains("is both the source and the destination"), "{}", same.stderr);
    let _ = sandbox.way(&repo, ["db", "move", "--to", ".git/waypost/state.db"]).fails(2);
    let _ = sandbox.way(&repo, ["db", "move", "--to", "ftp://x"]).fails(2);
    let _ = sandbox.way(&repo, ["db", "move", "--to", "global", "--workflow", "nothing"]).fails(3);
    let _ = sandbox.way(&repo, ["db", "move", "--to", "global", "--workflow", "old"]).fails(4);
    sandbox.write("text.db", "no database at all, but long enough to be looked at as one");
    let _ = sandbox.way(&repo, ["db", "move", "--to", "../text.db"]).fails(9);
    assert_eq!(sandbox.way(&repo, ["status", "--json"]).data()["totals"]["workflows"], 2, "nothing was frozen");
    let mut here = session(&sandbox, &repo, "builder", START, false);
    here.call(claim("release/test")).unwrap();
}

/// Runs a move as a dry run and in earnest, and returns the answers without the field that says which it was.
fn planned_and_done(sandbox: &Sandbox, repo: &Path, args: &[&str]) -> (Value, Value) {
    let answer = |more: &[&str]| {
        let run = sandbox.way(repo, [args, &["--json"], more].concat());
        let mut data: Value = serde_json::from_str::<Value>(&run.stdout).unwrap()["data"].take();
        data["written"].take();
        data
    };
    (answer(&["--dry-run"]), answer(&[]))
}

#[test]
fn a_dry_run_of_a_move_tells_exactly_what_the_move_does() {
    let sandbox = sandbox();
    let repo = prepared(&sandbox);
    let mut builder = session(&sandbox, &repo, "builder", START, false);
    builder.call(claim("release/test")).unwrap();
    let to = ["db", "move", "--to", "../away/other.db", "--delete-source"];
    let (planned, done) = planned_and_done(&sandbox, &repo, &to);
    assert_eq!(planned, done, "the destination did not exist, and an agent holds a task");
    assert_eq!((&done["ended"], names(&done["refused"])), (&1.into(), vec!["release"]));
    let (planned, done) = planned_and_done(&sandbox, &repo, &[&to[..], &["--force"]].concat());
    assert_eq!(planned, done, "it exists");
    assert_eq!((names(&done["moved"]), &done["ended"]), (vec!["release"], &1.into()));

    // A workflow of several repositories cannot move to a store of one.
    let other = sandbox.git_repo("second");
    let mut global = session(&sandbox, &repo, "builder", START, true);
    global.call(workflow("both", "build: it\n")).unwrap();
    let second = session(&sandbox, &other, "builder", START, true).repository().id.to_string();
    let _ = sandbox.way(&repo, ["--global", "workflow", "repos", "both", "--add", &second]);
    let fresh = sandbox.git_repo("fresh");
    let (planned, done) = planned_and_done(&sandbox, &fresh, &["--global", "db", "move", "--to", "repo"]);
    assert_eq!(planned, done, "{planned}");
}

/// Makes a team with a finished workflow, an acknowledged message, and an agent bob.
fn team_with_history() -> Team {
    let team = Team::with("a: one\nb: two\n  needs: a\n");
    for task in ["a", "b"] {
        let claimed = team.data("task claim --agent ann");
        let epoch = &claimed["lease"]["epoch"];
        let _ = team.data(&format!("task checkpoint {task} --agent ann --epoch {epoch} --summary half"));
        let _ = team.data(&format!("task done {task} --agent ann --epoch {epoch} --outcome done"));
    }
    let _ = team.data("agent register bob");
    let sent = team.data("msg send bob 'look here' --agent ann");
    let _ = team.data(&format!("msg ack {} --agent bob", sent["id"].as_str().unwrap()));
    team
}

#[test]
fn gc_removes_what_its_dry_run_counts_and_keeps_summaries() {
    let team = team_with_history();
    let old = team.data("workflow list --all")[0]["id"].as_str().unwrap().to_owned();
    team.pass(100 * 86_400);
    let live = team.fed("workflow create live --plan - --start --json", "c: three\n").data();
    let before = team.data("db info");

    let plan = team.data("db gc --older-than 90d --dry-run");
    let counts = ["workflows", "tasks", "jobs", "workspaces", "messages", "events"];
    assert_eq!([0, 1, 4].map(|at| &plan[counts[at]]), [&json!(1), &json!(2), &json!(1)], "{plan}");
    assert!(plan["events"].as_u64().unwrap() > 10, "{plan}");
    assert_eq!((&plan["written"], &plan["bytes_after"]), (&json!(false), &Value::Null));
    assert_eq!(team.data("db info")["rows"], before["rows"], "a dry run removes nothing");
    let of_younger = team.data("db gc --older-than 200d --dry-run");
    assert!(counts.iter().all(|count| of_younger[count] == 0), "{of_younger}");

    let removed = team.data("db gc --older-than 90d");
    for count in counts {
        assert_eq!(removed[count], plan[count], "{count}: the dry run tells what the run does");
    }
    assert!(removed["bytes_before"].as_u64().unwrap() > 0 && removed["bytes_after"].as_u64().unwrap() > 0, "{removed}");
    let rows = team.data("db info")["rows"].clone();
    let left = ["workflows", "tasks", "checkpoints", "dependencies", "messages"].map(|table| rows[table].as_u64());
    assert_eq!(left, [1, 1, 0, 0, 0].map(Some), "{rows}");
    assert_eq!(team.data("db check")["ok"], true);

    let gone = team.refused(3, &format!("workflow show {old}"));
    assert!(gone["message"].as_str().unwrap().contains("(w, completed) was removed from the store"), "{gone}");
    let summaries = team.data("db gc --summaries");
    let summary = summaries.as_array().unwrap().iter().find(|summary| summary["subject"] == old.as_str()).unwrap();
    assert_eq!((&summary["name"], &summary["detail"]["tasks"]), (&json!("w"), &json!({ "completed": 2 })));
    let text = team.way("db gc --summaries").ok().stdout;
    assert!(text.contains("2026-01  events") && text.contains("workflow") && text.contains("completed"), "{text}");
    // The live workflow works on, its history is complete, and numbers of events continue.
    let last = team.data("events --limit 1")[0]["sequence"].as_u64().unwrap();
    let _ = team.data("task claim --agent ann");
    assert!(team.data("events --limit 1")[0]["sequence"].as_u64().unwrap() > last);
    let history = team.data(&format!("events --since 0 --subject {}", live["id"].as_str().unwrap()));
    assert_eq!(history[0]["kind"], "workflow.created");
    let again = team.data("db gc --older-than 90d");
    assert!(counts.iter().all(|count| again[count] == 0), "{again}");
    assert!(team.way("db gc").fails(2).stderr.contains("--older-than"));
}

#[test]
fn gc_makes_the_store_smaller() {
    let team = Team::new();
    let text = "some long description ".repeat(40);
    let plan: Vec<String> = (0..300).map(|number| format!("t{number}: {text}\n")).collect();
    let _ = team.fed("workflow create big --plan - --start --json", &plan.concat()).data();
    let _ = team.data("workflow cancel big");
    team.pass(40 * 86_400);
    let removed = team.data("db gc --older-than 30d");
    let (before, after) = (removed["bytes_before"].as_u64().unwrap(), removed["bytes_after"].as_u64().unwrap());
    assert!(after < before / 2, "{removed}");
    assert_eq!(team.data("status")["events"][0]["kind"], "store.vacuumed");
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
