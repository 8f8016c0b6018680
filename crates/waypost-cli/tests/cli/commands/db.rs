//! `way db`: backups, vacuum, and workflows moved between stores.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::Value;
use waypost_core::op::{AddRepository, ClaimTask, CreateWorkflow, ShowWorkflow};
use waypost_core::work::plan::{Plan, PlannedTask};
use waypost_testkit::Sandbox;

use crate::support::agents::{START, claim, finish, session, workflow};
use crate::support::sandbox;

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
    builder.call(CreateWorkflow { start: false, ..workflow("later", "some: day\n") }).unwrap();
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
        let (claimed, run) = std::thread::scope(|scope| {
            let claimers: Vec<_> = (0..3)
                .map(|number| {
                    let (sandbox, repo) = (&sandbox, &repo);
                    scope.spawn(move || {
                        let mut agent = session(sandbox, repo, &format!("agent{number}"), START, false);
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
            (claimers.into_iter().map(|one| one.join().unwrap()).filter(|is| *is).count(), run)
        });
        match run.code {
            0 => assert_eq!(claimed, 0, "moved, and claimed in the source"),
            7 => assert_eq!(claimed, 1, "{run:?}"),
            _ => panic!("{run:?}"),
        }
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
        CreateWorkflow {
            repositories: vec!["one".to_owned(), "two".to_owned()],
            plan: Some(Plan { tasks: vec![task("build")], ..Plan::default() }),
            ..workflow("both", "x: y\n")
        }
    };
    let mut own = session(&sandbox, &one, "lead", START, false);
    let error = own.call(CreateWorkflow { repositories: vec!["one".to_owned(), "one".to_owned()], ..over(None) });
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
