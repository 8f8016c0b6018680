//! `way import`: issues from other trackers, and workflows from the databases of other programs.
#![expect(clippy::needless_raw_string_hashes, reason = "that is how expect-test writes them")]

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use expect_test::expect;
use rusqlite::Connection;
use serde_json::{Value, json};
use waypost_core::model::{CheckpointKind, TaskStatus, WorkflowStatus};
use waypost_core::op::{ListCheckpoints, ListInbox, ShowWorkflow, WorkflowPage};
use waypost_testkit::{Postgres, Run, Sandbox};

use crate::support::agents::{START, claim, session};
use crate::support::exchange::repo_with;
use crate::support::ledger::{LEDGER, ids, lines};
use crate::support::sandbox;

fn fed(sandbox: &Sandbox, repo: &Path, args: &[&str], input: &[u8]) -> Run {
    sandbox.run(sandbox.way_command(repo).args(args), input)
}

/// Imports standard input.
fn import(sandbox: &Sandbox, repo: &Path, args: &[&str], input: &str) -> Value {
    fed(sandbox, repo, &[&["import", "--json"], args, &["-"]].concat(), input.as_bytes()).data()
}

fn counts(answer: &Value) -> String {
    let count = |key: &str| answer["counts"][key].as_u64().unwrap();
    format!("{} {} {} {}", count("added"), count("updated"), count("skipped"), count("not_carried"))
}

fn show(sandbox: &Sandbox, repo: &Path, id: &str) -> Value {
    sandbox.way(repo, ["show", id, "--json"]).data()
}

const GITHUB: &str = r#"[
 {"number":1,"title":"Login fails","body":"- [ ] look","state":"OPEN","labels":[{"name":"bug"}],"assignees":[{"login":"ann"}],
  "author":{"login":"bob"},"createdAt":"2025-01-01T00:00:00Z","updatedAt":"2025-01-02T00:00:00Z","closedAt":null,
  "comments":[{"id":"IC_1","author":{"login":"cid"},"body":"same here","createdAt":"2025-01-02T00:00:00Z"}],
  "milestone":{"title":"1.0"},"url":"https://github.com/o/r/issues/1","stateReason":""},
 {"number":2,"title":"Old","state":"CLOSED","stateReason":"COMPLETED","closedAt":"2025-01-03T00:00:00Z","createdAt":"2025-01-01T00:00:00Z",
  "updatedAt":"2025-01-03T00:00:00Z","url":"https://github.com/o/r/issues/2"}
]"#;

#[test]
fn importing_twice_is_importing_once() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let first = import(&sandbox, &repo, &["github"], GITHUB);
    assert_eq!(counts(&first), "2 0 0 0");
    let before = std::fs::read(repo.join(LEDGER)).unwrap();
    let second = import(&sandbox, &repo, &["github"], GITHUB);
    assert_eq!(counts(&second), "0 0 2 0");
    assert_eq!(second["skipped"], first["added"], "recognised under the same ids");
    assert_eq!(std::fs::read(repo.join(LEDGER)).unwrap(), before);

    let id = first["added"][0]["id"].as_str().unwrap();
    let issue = show(&sandbox, &repo, id);
    assert_eq!(issue["external_ref"], "https://github.com/o/r/issues/1");
    assert_eq!((issue["created_by"].as_str(), issue["assignee"].as_str()), (Some("bob"), Some("ann")));
    assert_eq!(issue["labels"], json!(["bug", "milestone:1.0"]));
    assert_eq!(issue["comments"][0]["author"], "cid");
    assert_eq!(issue["description"], "- [ ] look");
    assert_eq!(ids(&sandbox, &repo, &["list", "--status", "closed"]).len(), 1);

    // Without its URL an issue is recognised by its number, and another clone gives it the same id.
    let again = import(&sandbox, &repo, &["github"], r#"[{"number":1,"title":"Login fails"}]"#);
    assert_eq!(counts(&again), "0 0 1 0");
    sandbox.dir("elsewhere");
    let clone = sandbox.git_repo("elsewhere/repo");
    assert_eq!(import(&sandbox, &clone, &["github"], GITHUB)["added"], first["added"]);
}

#[test]
fn known_issues_change_only_with_update_and_only_to_newer_versions() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let first = import(&sandbox, &repo, &[], GITHUB);
    let id = first["added"][0]["id"].as_str().unwrap();
    // The local change of 2026 is newer than the remote change of 2025.
    let _ = sandbox.way(&repo, ["claim", id, "--actor", "ann"]).ok();
    let newer = GITHUB.replace("Login fails", "Login fails often");
    assert_eq!(counts(&import(&sandbox, &repo, &["--update"], &newer)), "0 0 2 0");
    let newer = newer.replace("\"updatedAt\":\"2025-01-02", "\"updatedAt\":\"2026-01-02").replace("IC_1", "IC_2");
    assert_eq!(counts(&import(&sandbox, &repo, &[], &newer)), "0 0 2 0", "without --update nothing changes");
    let answer = import(&sandbox, &repo, &["--update", "--dry-run"], &newer);
    assert_eq!((counts(&answer).as_str(), &answer["written"]), ("0 1 1 0", &json!(false)));
    assert_eq!(show(&sandbox, &repo, id)["title"], "Login fails");
    assert_eq!(counts(&import(&sandbox, &repo, &["--update"], &newer)), "0 1 1 0");
    let issue = show(&sandbox, &repo, id);
    assert_eq!((issue["title"].as_str(), issue["status"].as_str()), (Some("Login fails often"), Some("in_progress")));
    assert_eq!(issue["comments"].as_array().unwrap().len(), 2);
    assert_eq!(counts(&import(&sandbox, &repo, &["--update"], &newer)), "0 0 2 0");
    // An issue deleted here is not imported again.
    let _ = sandbox.way(&repo, ["delete", id, "--actor", "ann"]).ok();
    let newest = newer.replace("\"updatedAt\":\"2026-01-02", "\"updatedAt\":\"2027-01-02");
    assert_eq!(counts(&import(&sandbox, &repo, &["--update"], &newest)), "0 0 2 0");
    assert_eq!(show(&sandbox, &repo, id)["status"], "tombstone");
}

#[test]
fn beads_records_keep_their_ids_and_bytes_and_other_record_types() {
    let sandbox = sandbox();
    let repo =
        repo_with(&sandbox, "repo", "{\"id\":\"m\",\"title\":\"mine\",\"updated_at\":\"2026-01-01T00:00:00Z\"}\n");
    let theirs = "{\"id\": \"z\", \"title\": \"Z\", \"theirs\": 1.50}\n{\"_type\":\"memory\",\"key\":\"k\"}\n{\"id\":\"m\",\"title\":\"theirs\",\"updated_at\":\"2026-02-01T00:00:00Z\"}\n{\"id\":\"a\",\"title\":\"A\",\"dependencies\":[{\"depends_on_id\":\"nowhere\",\"type\":\"eats\"}]}\nnoise\n";
    let run = fed(&sandbox, &repo, &["import", "beads", "-"], theirs.as_bytes());
    expect![[r#"
        2 added, 0 updated, 1 skipped, 1 not imported
        1 record that is not an issue imported

        Not imported
        ITEM    PROBLEM
        line 5  unreadable: expected ident at line 1 column 2
    "#]]
    .assert_eq(&run.whole());
    assert_eq!(
        lines(&repo.join(LEDGER)),
        [
            "{\"id\":\"a\",\"title\":\"A\",\"dependencies\":[{\"depends_on_id\":\"nowhere\",\"type\":\"eats\"}]}",
            "{\"id\":\"m\",\"title\":\"mine\",\"updated_at\":\"2026-01-01T00:00:00Z\"}",
            "{\"id\": \"z\", \"title\": \"Z\", \"theirs\": 1.50}",
            "{\"_type\":\"memory\",\"key\":\"k\"}",
        ]
    );
    assert_eq!(counts(&import(&sandbox, &repo, &["beads", "--update"], theirs)), "0 1 2 1");
    assert_eq!(show(&sandbox, &repo, "m")["title"], "theirs");
    assert_eq!(lines(&repo.join(LEDGER)).len(), 4);
}

#[test]
fn the_backlog_folder_is_found_and_its_dependencies_are_imported() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    for folder in ["tasks", "completed", "archive/tasks", "docs"] {
        sandbox.dir(format!("repo/backlog/{folder}"));
    }
    let task = |path: &str, front: &str, body: &str| {
        sandbox.write(repo.join("backlog").join(path), format!("---\n{front}\n---\n\n{body}"));
    };
    task(
        "tasks/task-1 - Base.md",
        "id: task-1\ntitle: Base\nstatus: To Do\npriority: high",
        "## Description\n\nWhy.\n",
    );
    task(
        "tasks/task-1.1 - Part.md",
        "id: TASK-1.1\ntitle: 'Part: one'\nstatus: In Progress\nassignee:\n  - '@ann'\ndependencies:\n  - task-2\n  - task-9\nparent_task_id: task-1",
        "## Acceptance Criteria\n<!-- AC:BEGIN -->\n- [ ] #1 Works\n<!-- AC:END -->\n",
    );
    task("completed/task-2 - Done.md", "id: task-2\ntitle: Done\nstatus: Done\nupdated_date: '2025-12-01 10:00'", "");
    task("archive/tasks/task-3 - Away.md", "id: task-3\ntitle: Away\nstatus: To Do", "");
    sandbox.write(repo.join("backlog/tasks/notes.md"), "# Notes\n");
    sandbox.write(repo.join("backlog/docs/page.md"), "---\nid: doc-1\n---\n");
    sandbox.write(repo.join("backlog/docs/readme.md"), "# Documents\n");
    for args in [&["import", ".", "--dry-run", "--json"], &["import", "backlog", "backlog", "--json"]] as [&[&str]; 2] {
        let answer = sandbox.way(&repo, args).data();
        assert_eq!((counts(&answer).as_str(), answer["format"].as_str()), ("4 0 0 3", Some("backlog")));
        assert_eq!(
            answer["not_carried"],
            json!([
                { "item": "tasks/notes.md", "problem": "no front matter" },
                { "item": "docs/page.md", "problem": "a document, not an issue: it stays in its file" },
                { "item": "backlog:task-1.1", "problem": "it depends on backlog:task-9, which was not found" },
            ])
        );
    }
    let answer = sandbox.way(&repo, ["import", ".", "--json"]).data();
    assert_eq!(counts(&answer), "0 0 4 2", "the repository's own ledger is not mistaken for an import source");
    let answer = sandbox.way(&repo, ["import", "backlog/tasks", "--json"]).data();
    assert_eq!(counts(&answer), "0 0 2 0", "the task folder alone is enough");
    let id = |item: &str| {
        let skipped = answer["skipped"].as_array().unwrap();
        skipped.iter().find(|taken| taken["item"] == item).unwrap()["id"].as_str().unwrap().to_owned()
    };
    let part = show(&sandbox, &repo, &id("backlog:task-1.1"));
    assert_eq!((part["title"].as_str(), part["assignee"].as_str()), (Some("Part: one"), Some("ann")));
    assert_eq!(
        (part["parent_id"].as_str(), part["status"].as_str()),
        (Some(id("backlog:task-1").as_str()), Some("in_progress"))
    );
    assert_eq!(part["dependencies"].as_array().unwrap().len(), 1);
    assert_eq!(part["acceptance_criteria"], "- [ ] #1 Works");
    assert_eq!(ids(&sandbox, &repo, &["list", "--status", "closed"]).len(), 2);
}

#[test]
fn comments_and_milestones_of_backlog_are_imported() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    sandbox.dir("repo/backlog/tasks");
    sandbox.dir("repo/backlog/milestones");
    sandbox.write(
        repo.join("backlog/tasks/task-1 - Base.md"),
        "---\nid: task-1\ntitle: Base\nstatus: To Do\nmilestone: m-1\n---\n\n## Description\n\nWhy.\n\n## Comments\n\n<!-- COMMENTS:BEGIN -->\nauthor: @ann\ncreated: 2026-01-02 03:04\n---\nLooks good.\n---\n<!-- COMMENTS:END -->\n",
    );
    sandbox.write(repo.join("backlog/milestones/m-1 - cli.md"), "---\nid: m-1\ntitle: \"CLI\"\n---\n");
    let mut lines = Vec::new();
    // The folder, the tasks in it, and one file.
    for source in ["backlog", "backlog/tasks", "backlog/tasks/task-1 - Base.md"] {
        let _ = std::fs::remove_file(repo.join(LEDGER));
        let _ = sandbox.way(&repo, ["restore", "--drop"]);
        let answer = sandbox.way(&repo, ["import", source, "--json"]).data();
        assert_eq!(counts(&answer), "1 0 0 0", "{source}");
        lines.push(std::fs::read_to_string(repo.join(LEDGER)).unwrap());
        let issue = show(&sandbox, &repo, answer["added"][0]["id"].as_str().unwrap());
        assert_eq!(issue["labels"], json!(["milestone:CLI"]));
        let comment = &issue["comments"][0];
        assert_eq!((comment["author"].as_str(), comment["text"].as_str()), (Some("ann"), Some("Looks good.")));
        assert_eq!(comment["created_at"], "2026-01-02T03:04:00.000Z");
        assert_eq!(issue["description"], "Why.");
    }
    assert_eq!((&lines[0], &lines[0]), (&lines[1], &lines[2]));
}

#[test]
fn two_clones_that_import_the_same_write_the_same_bytes() {
    let sandbox = sandbox();
    let origin = sandbox.git_repo("origin");
    for folder in ["backlog/tasks", ".taskmaster/tasks"] {
        sandbox.dir(origin.join(folder));
    }
    sandbox.write(origin.join("backlog/tasks/task-1 - a.md"), "---\nid: task-1\ntitle: a\nstatus: Done\n---\n");
    sandbox.write(
        origin.join(".taskmaster/tasks/tasks.json"),
        r#"{"master":{"tasks":[{"id":2,"title":"b","status":"done"},{"id":1,"title":"a","status":"pending"}],"metadata":{"created":"2025-06-13T23:52:56.848Z"}},"old":{"tasks":[{"id":1,"title":"c","status":"done"}]}}"#,
    );
    sandbox
        .write(origin.join("issues.json"), r#"[{"number":7,"title":"x","state":"CLOSED"},{"number":3,"title":"y"}]"#);
    sandbox.write(origin.join("tasks.json"), r#"[{"uuid":"u-1","description":"Buy","status":"completed"}]"#);
    sandbox.git(&origin, ["add", "-A"]);
    sandbox.git(&origin, ["commit", "-q", "-m", "tasks"]);
    let ledgers =
        [("one", "ann", "2026-01-01T00:00:00Z"), ("two", "bob", "2026-06-01T00:00:00Z")].map(|(name, actor, clock)| {
            let clone = sandbox.path(name);
            sandbox.git(&sandbox.path(""), ["clone", "-q", "origin", name]);
            for source in [
                &["backlog", "."][..],
                &["taskmaster", "."],
                &["github", "issues.json"],
                &["taskwarrior", "tasks.json"],
            ] {
                let variables = [("WAYPOST_TEST_CLOCK", OsStr::new(clock))];
                let args = [&["import"], source, &["--actor", actor]].concat();
                let _ = sandbox.way_with(&clone, &variables, &args).ok();
            }
            std::fs::read_to_string(clone.join(LEDGER)).unwrap()
        });
    assert_eq!(ledgers[0].lines().count(), 7);
    assert_eq!(ledgers[0], ledgers[1]);
    assert!(!ledgers[0].contains("2026-"), "no time of the import: {}", ledgers[0]);
    let done = ledgers[0].lines().find(|line| line.contains("master/2")).unwrap();
    assert!(done.contains(r#""created_by":"taskmaster""#), "{done}");
    assert!(done.contains(r#""closed_at":"2025-06-13T23:52:56.848Z""#), "{done}");
}

#[test]
fn an_import_configures_the_merge_driver_of_a_clone() {
    let sandbox = sandbox();
    let origin = sandbox.git_repo("origin");
    let _ = sandbox.way(&origin, ["init", "--actor", "ann"]).ok();
    sandbox.git(&origin, ["add", "-A"]);
    sandbox.git(&origin, ["commit", "-q", "-m", "ledger"]);
    sandbox.git(&sandbox.path(""), ["clone", "-q", "origin", "clone"]);
    let clone = sandbox.path("clone");
    let driver = || {
        let config = std::fs::read_to_string(clone.join(".git/config")).unwrap();
        config.contains("merge-driver %O %A %B %P")
    };
    let args = &["import", "github", "-", "--dry-run"];
    assert_eq!(fed(&sandbox, &clone, args, GITHUB.as_bytes()).code, 0);
    assert!(!driver(), "a dry run configures nothing");
    let _ = fed(&sandbox, &clone, &args[..3], GITHUB.as_bytes()).ok();
    assert!(driver());
}

#[test]
fn tasks_of_two_projects_are_distinguished_and_recognised_from_another_clone() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    for (name, title) in [("one", "Base"), ("two", "Cellar")] {
        let project = sandbox.git_repo(name);
        sandbox.dir(project.join("backlog/tasks"));
        sandbox.dir(project.join(".taskmaster/tasks"));
        let task = |number: u32, more: &str| {
            let text = format!("---\nid: task-{number}\ntitle: {title} {number}\nstatus: To Do\n{more}---\n");
            sandbox.write(project.join(format!("backlog/tasks/task-{number} - x.md")), text);
        };
        task(1, "");
        task(2, "dependencies:\n  - task-1\n");
        let tasks = format!(r#"{{"master":{{"tasks":[{{"id":1,"title":"{title}","status":"pending"}}]}}}}"#);
        sandbox.write(project.join(".taskmaster/tasks/tasks.json"), tasks);
    }
    let take = |format: &str, from: &str| counts(&sandbox.way(&repo, ["import", format, from, "--json"]).data());
    sandbox.git(&sandbox.path("one"), ["remote", "add", "origin", "https://example.org/team/one"]);
    for (format, count) in [("backlog", 2), ("taskmaster", 1)] {
        for project in ["../one", "../two"] {
            assert_eq!(take(format, project), format!("{count} 0 0 0"), "{format} {project}");
            assert_eq!(take(format, project), format!("0 0 {count} 0"), "{format} {project}");
        }
    }
    let titles = sandbox.way(&repo, ["list", "--json"]).data();
    let titles: BTreeSet<&str> =
        titles.as_array().unwrap().iter().map(|issue| issue["title"].as_str().unwrap()).collect();
    assert_eq!(titles, BTreeSet::from(["Base", "Base 1", "Base 2", "Cellar", "Cellar 1", "Cellar 2"]));
    assert_eq!(
        sandbox.way(&repo, ["ready", "--json"]).data().as_array().unwrap().len(),
        4,
        "each depends on the task of its own project"
    );

    // A clone with another name, and another URL of the same remote.
    std::fs::rename(sandbox.path("one"), sandbox.path("elsewhere")).unwrap();
    let elsewhere = sandbox.path("elsewhere");
    sandbox.git(&elsewhere, ["remote", "set-url", "origin", "git@example.org:team/one.git"]);
    assert_eq!(take("backlog", "../elsewhere/backlog/tasks"), "0 0 2 0");
    assert_eq!(take("taskmaster", "../elsewhere/.taskmaster/tasks/tasks.json"), "0 0 1 0");
}

#[test]
fn tasks_imported_before_names_contained_their_project_are_recognised() {
    let sandbox = sandbox();
    let known = |number: u32, title: &str| {
        format!(r#"{{"id":"a-{number}","title":"{title}","external_ref":"backlog:task-{number}"}}"#)
    };
    let ledger = [known(1, "Base"), known(2, "Renamed here"), known(3, "Roof")].join("\n") + "\n";
    let repo = repo_with(&sandbox, "repo", &ledger);
    for (name, titles) in [("same", ["Base", "Wall", "Roof", "New"]), ("other", ["Soil", "Wall", "Roof", "New"])] {
        let folder = sandbox.dir(format!("{name}/backlog/tasks"));
        for (number, title) in (1..).zip(titles) {
            let text = format!("---\nid: task-{number}\ntitle: {title}\nstatus: To Do\n---\n");
            sandbox.write(folder.join(format!("task-{number} - x.md")), text);
        }
    }
    let take = |from: &str| sandbox.way(&repo, ["import", "backlog", from, "--json"]).data();
    let answer = take("../same");
    assert_eq!((counts(&answer).as_str(), &answer["added"][0]["item"]), ("1 0 3 0", &json!("backlog:same#task-4")));
    assert_eq!(counts(&take("../same")), "0 0 4 0");
    assert_eq!(counts(&take("../other")), "4 0 0 0", "most titles differ, so it is another project");
    assert_eq!(counts(&take("../other")), "0 0 4 0");
}

#[test]
fn parts_and_blockers_of_other_trackers_decide_what_is_ready() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    sandbox.dir("repo/.taskmaster/tasks");
    sandbox.write(
        repo.join(".taskmaster/tasks/tasks.json"),
        r#"{"master":{"tasks":[{"id":1,"title":"Base","status":"pending","priority":"high"},{"id":2,"title":"Next","status":"pending","dependencies":[1],"subtasks":[{"id":1,"title":"One","status":"done"},{"id":2,"title":"Two","status":"pending","dependencies":[1]}]}]}}"#,
    );
    let answer = sandbox.way(&repo, ["import", ".", "--json"]).data();
    assert_eq!((counts(&answer).as_str(), answer["format"].as_str()), ("4 0 0 0", Some("taskmaster")));
    let base = answer["added"][0]["id"].as_str().unwrap();
    assert_eq!(ids(&sandbox, &repo, &["ready"]), [base]);
    assert_eq!(
        ids(&sandbox, &repo, &["list", "--all", "--parent", answer["added"][1]["id"].as_str().unwrap()]).len(),
        2
    );

    let tasks = r#"[{"uuid":"u-1","description":"Buy","status":"pending","entry":"20250101T000000Z","modified":"20250102T000000Z"},
        {"uuid":"u-2","description":"Paint","status":"waiting","wait":"20270101T000000Z","depends":"u-1,u-3"},
        {"uuid":"u-3","description":"Gone","status":"deleted","end":"20250102T000000Z"}]"#;
    let answer = import(&sandbox, &repo, &[], tasks);
    assert_eq!((counts(&answer).as_str(), answer["format"].as_str()), ("2 0 0 1", Some("taskwarrior")));
    assert_eq!(answer["not_carried"][0]["problem"], "1 deleted issues are left out");
    let buy = answer["added"][0]["id"].as_str().unwrap();
    let paint = show(&sandbox, &repo, answer["added"][1]["id"].as_str().unwrap());
    assert_eq!(paint["dependencies"][0]["depends_on_id"], buy);
    assert_eq!(paint["defer_until"], "2027-01-01T00:00:00.000Z");
    // A later import finds its dependencies in the ledger, and an issue deleted there is deleted here.
    let later = r#"[{"uuid":"u-4","description":"Dry","status":"pending","depends":["u-2"]},{"uuid":"u-1","description":"Buy","status":"deleted","modified":"20270101T000000Z"}]"#;
    let answer = import(&sandbox, &repo, &["taskwarrior", "--update"], later);
    assert_eq!(counts(&answer), "1 1 0 0");
    let dry = show(&sandbox, &repo, answer["added"][0]["id"].as_str().unwrap());
    assert_eq!(dry["dependencies"][0]["depends_on_id"], paint["id"]);
    assert_eq!(show(&sandbox, &repo, buy)["status"], "tombstone");
    // An update must not close a cycle with a local dependency.
    let circle =
        r#"[{"uuid":"u-2","description":"Paint","status":"pending","modified":"20280101T000000Z","depends":["u-4"]}]"#;
    let answer = import(&sandbox, &repo, &["taskwarrior", "--update"], circle);
    assert_eq!(counts(&answer), "0 1 0 1");
    assert!(answer["not_carried"][0]["problem"].as_str().unwrap().ends_with("would close a cycle"), "{answer}");
}

#[test]
fn an_import_that_fails_names_the_reason_and_writes_nothing() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    sandbox.dir("repo/empty");
    sandbox.write(repo.join("page.txt"), "words\n");
    sandbox.write(repo.join("latin.json"), b"[{\"number\":1,\"title\":\"\xe9\"}]");
    sandbox.dir("repo/both/tasks");
    sandbox.write(repo.join("both/tasks/tasks.json"), "{\"tasks\":[]}");
    sandbox.write(repo.join("both/issues.jsonl"), "{\"id\":\"a\"}\n");
    sandbox.write(repo.join("both/tasks/a.md"), "---\nid: a\n---\n");
    for (args, code, expected) in [
        ("page.txt", 2, "the formats are beads, github, backlog, taskmaster, taskwarrior and vibe-kanban"),
        ("empty", 2, "the format of empty is unknown"),
        ("both", 3, "has files of several tools: backlog, taskmaster, beads"),
        ("nowhere.json", 2, "cannot read nowhere.json"),
        ("github", 2, "no file given"),
        ("githup page.txt", 2, "did you mean github?"),
        ("github page.txt", 2, "page.txt: no readable item"),
        ("github latin.json", 2, "latin.json: not UTF-8"),
        ("github empty", 2, "github is imported from a file"),
        ("taskmaster empty", 2, "empty has no files of taskmaster"),
        ("taskmaster both/issues.jsonl", 2, "no tasks"),
        ("backlog page.txt", 2, "no front matter"),
        ("beads page.txt", 2, "no line is a record"),
        ("taskwarrior -", 6, "the source contains nothing to import"),
    ] {
        let args: Vec<&str> = ["import"].into_iter().chain(args.split_whitespace()).collect();
        let run = sandbox.way(&repo, &args).fails(code);
        assert!(run.stderr.contains(expected), "{args:?}: {}", run.stderr);
        assert!(!repo.join(LEDGER).exists(), "{args:?}");
    }
    let run = fed(&sandbox, &repo, &["import", "-", "--dry-run"], GITHUB.as_bytes());
    expect![[r#"
        2 added, 0 updated, 0 skipped, 0 not imported
        --- stderr
        note: nothing was written
    "#]]
    .assert_eq(&run.whole());
    assert!(!repo.join(LEDGER).exists());
}

/// The tables of caw, as its migrations leave them.
const CAW: &str = "
    PRAGMA foreign_keys = OFF;
    CREATE TABLE repositories (id TEXT PRIMARY KEY, path TEXT NOT NULL UNIQUE, name TEXT, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL);
    CREATE TABLE workflows (id TEXT PRIMARY KEY, name TEXT NOT NULL, source_type TEXT NOT NULL, source_ref TEXT, source_content TEXT, status TEXT NOT NULL DEFAULT 'planning', initial_plan TEXT, plan_summary TEXT, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, max_parallel_tasks INTEGER DEFAULT 1, auto_create_workspaces INTEGER DEFAULT 0, config TEXT, locked_by_session_id TEXT, locked_at INTEGER);
    CREATE TABLE tasks (id TEXT PRIMARY KEY, workflow_id TEXT NOT NULL REFERENCES workflows(id) ON DELETE CASCADE, name TEXT NOT NULL, description TEXT, status TEXT NOT NULL DEFAULT 'pending', sequence INTEGER NOT NULL, parallel_group TEXT, plan TEXT, plan_summary TEXT, context TEXT, outcome TEXT, outcome_detail TEXT, workspace_id TEXT, repository_id TEXT, assigned_agent_id TEXT, claimed_at INTEGER, context_from TEXT, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL);
    CREATE TABLE task_dependencies (task_id TEXT NOT NULL, depends_on_id TEXT NOT NULL, dependency_type TEXT NOT NULL DEFAULT 'blocks', PRIMARY KEY (task_id, depends_on_id));
    CREATE TABLE checkpoints (id TEXT PRIMARY KEY, task_id TEXT NOT NULL, sequence INTEGER NOT NULL, checkpoint_type TEXT NOT NULL, summary TEXT NOT NULL, detail TEXT, files_changed TEXT, created_at INTEGER NOT NULL);
    CREATE TABLE agents (id TEXT PRIMARY KEY, workflow_id TEXT, name TEXT NOT NULL, runtime TEXT NOT NULL, role TEXT NOT NULL DEFAULT 'worker', status TEXT NOT NULL DEFAULT 'offline', capabilities TEXT, current_task_id TEXT, workspace_path TEXT, last_heartbeat INTEGER, metadata TEXT, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL);
    CREATE TABLE messages (id TEXT PRIMARY KEY, sender_id TEXT, recipient_id TEXT NOT NULL, message_type TEXT NOT NULL, subject TEXT, body TEXT NOT NULL, priority TEXT NOT NULL DEFAULT 'normal', status TEXT NOT NULL DEFAULT 'unread', workflow_id TEXT, task_id TEXT, reply_to_id TEXT, thread_id TEXT, created_at INTEGER NOT NULL, read_at INTEGER, expires_at INTEGER);
    CREATE TABLE memories (id TEXT PRIMARY KEY, content TEXT);

    INSERT INTO repositories VALUES ('rp_aaaaaaaaaaaa', '/elsewhere', 'elsewhere', 1, 1);
    INSERT INTO workflows (id, name, source_type, source_content, status, plan_summary, created_at, updated_at, max_parallel_tasks, config)
        VALUES ('wf_aaaaaaaaaaaa', 'release', 'github_issue', 'please', 'in_progress', 'ship it', 1000, 2000, 3, '{\"k\": 1}'),
               ('wf_bbbbbbbbbbbb', 'gone', 'prompt', 'x', 'abandoned', NULL, 1000, 2000, 1, NULL),
               ('wf_cccccccccccc', 'odd', 'linear', 'x', 'wobbling', NULL, 1000, 2000, -4, 'no json');
    INSERT INTO tasks (id, workflow_id, name, description, status, sequence, context, outcome, outcome_detail, context_from, created_at, updated_at)
        VALUES ('tk_aaaaaaaaaaa1', 'wf_aaaaaaaaaaaa', 'build', 'Compile', 'completed', 1, '{\"files_likely_affected\": [\"a.rs\"]}', 'built', NULL, NULL, 1000, 1500),
               ('tk_aaaaaaaaaaa2', 'wf_aaaaaaaaaaaa', 'test', NULL, 'in_progress', 2, NULL, NULL, NULL, '[\"tk_aaaaaaaaaaa1\"]', 1000, 1600),
               ('tk_aaaaaaaaaaa3', 'wf_aaaaaaaaaaaa', 'docs', NULL, 'failed', 3, NULL, NULL, 'no network', NULL, 1000, 1700),
               ('tk_aaaaaaaaaaa4', 'wf_aaaaaaaaaaaa', 'docs', NULL, 'pending', 4, NULL, NULL, NULL, NULL, 1000, 1700),
               ('tk_bbbbbbbbbbb1', 'wf_bbbbbbbbbbbb', 'never', NULL, 'pending', 1, NULL, NULL, NULL, NULL, 1000, 1000),
               ('tk_ooooooooooo1', 'wf_none', 'orphan', NULL, 'pending', 1, NULL, NULL, NULL, NULL, 1000, 1000);
    INSERT INTO task_dependencies VALUES
        ('tk_aaaaaaaaaaa2', 'tk_aaaaaaaaaaa1', 'blocks'), ('tk_aaaaaaaaaaa1', 'tk_aaaaaaaaaaa2', 'blocks'), ('tk_aaaaaaaaaaa3', 'tk_bbbbbbbbbbb1', 'blocks');
    INSERT INTO checkpoints VALUES
        ('cp_aaaaaaaaaaa1', 'tk_aaaaaaaaaaa2', 1, 'progress', 'half', '{\"left\": [\"x\"]}', '[\"a.rs\"]', 1550),
        ('cp_aaaaaaaaaaa2', 'tk_aaaaaaaaaaa2', 1, 'decision', 'the same number', NULL, NULL, 1560),
        ('cp_aaaaaaaaaaa3', 'tk_aaaaaaaaaaa2', 3, 'musing', 'odd', NULL, NULL, 1570);
    INSERT INTO agents (id, name, runtime, role, capabilities, created_at, updated_at)
        VALUES ('ag_aaaaaaaaaaa1', 'worker', 'claude_code', 'worker', '[\"rust\"]', 1, 1), ('ag_aaaaaaaaaaa2', 'worker', 'codex', 'coordinator', NULL, 1, 1);
    INSERT INTO messages (id, sender_id, recipient_id, message_type, body, workflow_id, task_id, created_at)
        VALUES ('msg_aaaaaaaaaaa1', 'ag_aaaaaaaaaaa2', 'ag_aaaaaaaaaaa1', 'query', 'how far?', 'wf_aaaaaaaaaaaa', 'tk_aaaaaaaaaaa2', 1800),
               ('msg_aaaaaaaaaaa2', NULL, 'ag_aaaaaaaaaaa1', 'status_update', 'about nothing', NULL, NULL, 1900);
    INSERT INTO memories VALUES ('mem_aaaaaaaaaaaa', 'learned');
";

fn database(sandbox: &Sandbox, name: &str, sql: &str) -> PathBuf {
    let path = sandbox.path(name);
    Connection::open(&path).unwrap().execute_batch(sql).unwrap();
    path
}

fn page(sandbox: &Sandbox, dir: &Path, reference: &str) -> WorkflowPage {
    session(sandbox, dir, "looker", START, false).call(ShowWorkflow { workflow: reference.to_owned() }).unwrap()
}

fn notes(data: &Value) -> Vec<String> {
    let notes = data["not_carried"].as_array().unwrap().iter();
    notes.map(|note| format!("{}: {}", note["item"].as_str().unwrap(), note["problem"].as_str().unwrap())).collect()
}

#[test]
fn a_caw_database_becomes_workflows_and_skipped_records_are_listed() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let file = database(&sandbox, "caw.db", CAW);
    let before = std::fs::read(&file).unwrap();
    let path = file.to_str().unwrap();
    let dry = sandbox.way(&repo, ["import", "caw", path, "--dry-run", "--json"]).data();
    assert_eq!((&dry["counts"]["added"], &dry["written"]), (&3.into(), &false.into()));
    let data = sandbox.way(&repo, ["import", "caw", path, "--json"]).data();
    assert_eq!(
        data["counts"],
        json!({ "added": 3, "tasks": 5, "checkpoints": 3, "skipped": 0, "repositories": 0, "templates": 0, "settings": 0, "not_carried": 9 })
    );
    let again = sandbox.way(&repo, ["import", "caw", path, "--json"]).data();
    assert_eq!(
        (&again["counts"]["added"], &again["counts"]["skipped"]),
        (&0.into(), &3.into()),
        "a second import adds nothing"
    );

    let release = page(&sandbox, &repo, "wf_aaaaaaaaaaaa");
    let workflow = &release.workflow.workflow;
    assert_eq!(
        (workflow.status, workflow.max_parallel),
        (WorkflowStatus::Paused, Some(3)),
        "an imported workflow is paused"
    );
    assert_eq!((workflow.summary.as_deref(), &workflow.config["caw"]["k"]), (Some("ship it"), &1.into()));
    let states: Vec<_> = release.tasks.iter().map(|seen| (seen.task.name.as_str(), seen.task.status)).collect();
    assert_eq!(
        states,
        [
            ("build", TaskStatus::Completed),
            ("test", TaskStatus::Pending),
            ("docs", TaskStatus::Dead),
            ("docs tk_aaaaaaaaaaa4", TaskStatus::Pending)
        ]
    );
    assert_eq!(release.tasks[0].task.files, ["a.rs"]);
    assert_eq!(
        (&release.tasks[1].depends_on, &release.tasks[1].task.context_from),
        (&vec!["build".into()], &vec!["build".into()])
    );
    assert_eq!(release.tasks[2].task.error.as_deref(), Some("no network"));
    assert_eq!(page(&sandbox, &repo, "wf_bbbbbbbbbbbb").workflow.workflow.status, WorkflowStatus::Cancelled);

    let mut builder = session(&sandbox, &repo, "builder", START, false);
    let list = ListCheckpoints {
        task: "tk_aaaaaaaaaaa2".to_owned(),
        workflow: None,
        repository: None,
        before: None,
        limit: 10,
        after: None,
    };
    let checkpoints = builder.call(list).unwrap().checkpoints;
    let kinds: Vec<_> = checkpoints.iter().map(|one| (one.checkpoint.sequence, one.checkpoint.kind)).collect();
    assert_eq!(kinds, [(3, CheckpointKind::Progress), (2, CheckpointKind::Decision), (1, CheckpointKind::Progress)]);
    let mut worker = session(&sandbox, &repo, "worker", START, false);
    assert_eq!(
        worker.call(ListInbox { limit: 9, peek: true, after: None }).unwrap().messages[0].message.body,
        "how far?"
    );
    // Another agent can continue from the last checkpoint.
    builder.call(waypost_core::op::ResumeWorkflow { workflow: "release".to_owned() }).unwrap();
    let claimed = builder.call(claim("release/test")).unwrap();
    assert!(claimed.context.text.contains("the same number"), "{}", claimed.context.text);

    let notes = notes(&data);
    for part in [
        "orphan tk_ooooooooooo1",
        "closes a cycle",
        "not tasks of one workflow",
        "\"musing\"",
        "\"wobbling\"",
        "1 memories",
        "1 messages",
        "an agent works on it in caw",
    ] {
        assert!(notes.iter().any(|note| note.contains(part)), "{part}: {notes:#?}");
    }
    assert_eq!(std::fs::read(&file).unwrap(), before, "the database is not modified");
}

#[test]
fn templates_of_caw_are_imported_from_its_database_and_its_files() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    sandbox.dir("repo/.caw/templates");
    let template = r#"{"tasks":[{"name":"write {{topic}}","description":"For {{audience}}","estimated_complexity":"low","files_likely_affected":["docs/{{topic}}.md"]},{"name":"check","depends_on":["write {{topic}}"],"parallel_group":"late"}],"variables":["topic","unused"]}"#;
    let sql = format!(
        "{CAW} CREATE TABLE workflow_templates (id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, description TEXT, template TEXT NOT NULL, version INTEGER NOT NULL DEFAULT 1, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL);
        INSERT INTO workflow_templates VALUES ('tmpl_aaaaaaaaaaaa', 'docs', 'Writes a page', '{template}', 1, 1, 1), ('tmpl_aaaaaaaaaaab', 'circle', NULL, '{{\"tasks\":[{{\"name\":\"a\",\"depends_on\":[\"a\"]}}]}}', 1, 1, 1), ('tmpl_aaaaaaaaaaac', 'bugfix', NULL, '{{\"tasks\":[{{\"name\":\"older\"}}]}}', 1, 1, 1);"
    );
    database(&sandbox, "repo/.caw/workflows.db", &sql);
    sandbox.write(
        "repo/.caw/templates/bugfix.yaml",
        "name: bugfix\ndescription: Fixes a bug\nvariables:\n  - name: bug\n    description: Its number\n    required: false\ntasks:\n  - name: reproduce {{bug}}\n  - name: fix\n    depends_on: ['reproduce {{bug}}']\n",
    );
    sandbox.write("repo/.caw/templates/broken.json", "{");
    let dry = sandbox.way(&repo, ["import", "caw", ".", "--dry-run", "--json"]).data();
    assert_eq!(sandbox.way(&repo, ["template", "list", "--json"]).data(), json!([]), "{dry}");
    let data = sandbox.way(&repo, ["import", "caw", ".", "--json"]).data();
    assert_eq!(
        data["templates"],
        json!([
            { "name": "bugfix", "is_new": true },
            { "name": "docs", "is_new": true },
            { "name": "bugfix", "is_new": false },
        ]),
        "a file comes before the database, as in caw"
    );
    let notes = notes(&data);
    for part in ["broken.json", "template docs: its variable unused is used in no task", "template circle: "] {
        assert!(notes.iter().any(|note| note.contains(part)), "{part}: {notes:#?}");
    }
    let again = sandbox.way(&repo, ["import", "caw", ".", "--json"]).data();
    assert_eq!(again["counts"]["templates"], 0);
    // They work here.
    let args = [
        "template",
        "apply",
        "docs",
        "--name",
        "page",
        "--var",
        "topic=intro",
        "--var",
        "audience=all",
        "--actor",
        "ann",
    ];
    let _ = sandbox.way(&repo, args).ok();
    let page = page(&sandbox, &repo, "page");
    let names: Vec<&str> = page.tasks.iter().map(|seen| seen.task.name.as_str()).collect();
    assert_eq!(names, ["write intro", "check"]);
    assert_eq!(
        (&page.tasks[1].depends_on, &page.tasks[0].task.files),
        (&vec!["write intro".into()], &vec!["docs/intro.md".into()])
    );
    assert_eq!(page.tasks[0].task.context["estimated_complexity"], "low");
    let shown = sandbox.way(&repo, ["template", "show", "bugfix", "--json"]).data();
    assert_eq!(shown["variables"][0], json!({ "name": "bug", "description": "Its number", "default": "" }));
}

#[test]
fn workflows_of_caw_keep_their_repositories() {
    let sandbox = sandbox();
    let (repo, backend) = (sandbox.git_repo("repo"), sandbox.git_repo("backend"));
    let sql = format!(
        "{CAW} CREATE TABLE workflow_repositories (workflow_id TEXT NOT NULL, repository_id TEXT NOT NULL, added_at INTEGER NOT NULL, PRIMARY KEY (workflow_id, repository_id));
        INSERT INTO repositories VALUES ('rp_aaaaaaaaaaab', '{}', 'repo', 1, 1), ('rp_aaaaaaaaaaac', '{}', 'backend', 1, 1);
        INSERT INTO workflows (id, name, source_type, status, created_at, updated_at)
            VALUES ('wf_dddddddddddd', 'mine', 'prompt', 'ready', 1, 2), ('wf_eeeeeeeeeeee', 'theirs', 'prompt', 'ready', 1, 2),
                   ('wf_ffffffffffff', 'both', 'prompt', 'ready', 1, 2), ('wf_gggggggggggg', 'lost', 'prompt', 'ready', 1, 2);
        INSERT INTO workflow_repositories VALUES ('wf_dddddddddddd', 'rp_aaaaaaaaaaab', 1), ('wf_eeeeeeeeeeee', 'rp_aaaaaaaaaaac', 1),
            ('wf_ffffffffffff', 'rp_aaaaaaaaaaab', 1), ('wf_ffffffffffff', 'rp_aaaaaaaaaaac', 1), ('wf_gggggggggggg', 'rp_aaaaaaaaaaaa', 1);
        INSERT INTO tasks (id, workflow_id, name, status, sequence, repository_id, created_at, updated_at)
            VALUES ('tk_ddddddddddd1', 'wf_dddddddddddd', 'm', 'pending', 1, NULL, 1, 1), ('tk_eeeeeeeeeee1', 'wf_eeeeeeeeeeee', 't', 'pending', 1, NULL, 1, 1),
                   ('tk_fffffffffff1', 'wf_ffffffffffff', 'api', 'pending', 1, 'rp_aaaaaaaaaaac', 1, 1), ('tk_fffffffffff2', 'wf_ffffffffffff', 'any', 'pending', 2, NULL, 1, 1);",
        repo.display(),
        backend.display()
    );
    let path = database(&sandbox, "caw.db", &sql);
    let path = path.to_str().unwrap();
    let names = |data: &Value| -> Vec<String> {
        data["added"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
    };

    // A store of one repository takes its own workflows, and those of a repository that is not here.
    let data = sandbox.way(&repo, ["import", "caw", path, "--json"]).data();
    assert_eq!(names(&data), ["release", "gone", "odd", "mine", "lost"]);
    let told = notes(&data);
    for part in [
        "theirs wf_eeeeeeeeeeee: it belongs to another repository",
        "both wf_ffffffffffff: it spans several repositories",
        "/elsewhere: not a repository on this machine",
    ] {
        assert!(told.iter().any(|note| note.contains(part)), "{part}: {told:#?}");
    }
    assert!(!told.iter().any(|note| note.contains("tk_eeeeeeeeeee1")), "{told:#?}");

    // A shared store keeps all of them.
    let data = sandbox.way(&repo, ["--global", "import", "caw", path, "--json"]).data();
    assert_eq!(names(&data).len(), 7);
    let repositories: Vec<&Value> = data["repositories"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert_eq!(repositories, ["backend"]);
    let known = sandbox.way(&repo, ["--global", "repo", "list", "--json"]).data();
    let id = |name: &str| {
        let found = known.as_array().unwrap().iter().find(|one| one["name"] == name);
        found.unwrap_or_else(|| panic!("{name}: {known}"))["id"].as_str().unwrap().to_owned()
    };
    let mut looker = session(&sandbox, &repo, "looker", START, true);
    let mut show = |workflow: &str| looker.call(ShowWorkflow { workflow: workflow.to_owned() }).unwrap();
    let of = |task: &waypost_core::work::view::TaskView| task.task.repository_id.as_ref().map(ToString::to_string);
    let both = show("wf_ffffffffffff");
    assert_eq!(both.tasks.iter().map(of).collect::<Vec<_>>(), [Some(id("backend")), None]);
    assert_eq!(show("wf_eeeeeeeeeeee").tasks.iter().map(of).collect::<Vec<_>>(), [Some(id("backend"))]);
    assert_eq!(show("wf_dddddddddddd").tasks.iter().map(of).collect::<Vec<_>>(), [Some(id("repo"))]);
    assert_eq!(id("elsewhere"), "rp_aaaaaaaaaaaa", "a repository of another machine keeps its id");
    assert_eq!(sandbox.way(&repo, ["--global", "import", "caw", path, "--json"]).data()["counts"]["repositories"], 0);
}

/// Jobs of PedroCLI as its table has them.
const PEDROCLI: &str = r#"[
 {"id":"ca1487e1-4ca9-4a6c-86ac-cd325ec13e4a","job_type":"builder","status":"completed","description":"Add a metric\nfor jobs","input_payload":{"issue":"34","criteria":["It counts"]},"output_payload":{"summary":"PR opened"},"model_used":"qwen","created_at":"2026-01-19T10:00:00","started_at":"2026-01-19T10:00:01","completed_at":"2026-01-19T11:00:00","updated_at":"2026-01-19T11:00:00","workspace_dir":"/w/1","workflow_type":"builder_phased","current_phase":"deliver",
  "phase_results":{"plan":{"phase_name":"plan","success":true,"output":"three steps","started_at":"2026-01-19T10:10:00Z","completed_at":"2026-01-19T10:20:00Z"},"analyze":{"phase_name":"analyze","success":true,"output":"read the code","started_at":"2026-01-19T10:00:01Z","completed_at":"2026-01-19T10:10:00Z"}},
  "plan":{"steps":["a"]},"conversation_history":"[{\"role\":\"user\",\"content\":\"go\",\"timestamp\":\"2026-01-19T10:00:02Z\"}]"},
 {"id":"c821fb7a-fe11-4855-b996-e470bb5f24bc","job_type":"debugger","status":"failed","description":"Find the crash","error_message":"no tests found","created_at":"2026-01-19T12:00:00","updated_at":"2026-01-19T12:30:00"},
 {"id":"c821fb7a-0000-4855-b996-e470bb5f24bc","job_type":"reviewer","status":"running","description":"Review","current_phase":"validate","created_at":"2026-01-19T13:00:00","updated_at":"2026-01-19T13:30:00"},
 {"id":"c821fb7a-1111-4855-b996-e470bb5f24bc","job_type":"triager","status":"cancelled","created_at":"2026-01-19T14:00:00","updated_at":"2026-01-19T14:30:00"}
]"#;

fn check_pedrocli(sandbox: &Sandbox, repo: &Path, data: &Value) {
    let added: Vec<_> = data["added"].as_array().unwrap().iter().map(|one| (&one["name"], &one["status"])).collect();
    assert_eq!(
        json!(added),
        json!([
            ["Add a metric", "completed"],
            ["Find the crash", "failed"],
            ["Review", "paused"],
            ["triager c821fb7a-1111-4855-b996-e470bb5f24bc", "cancelled"]
        ])
    );
    let built = page(sandbox, repo, "Add a metric").tasks.remove(0).task;
    assert_eq!((built.name.as_str(), built.outcome.as_deref()), ("builder", Some("PR opened")));
    assert_eq!((built.acceptance, built.context["issue"].as_str()), (vec!["It counts".to_owned()], Some("34")));
    let crash = page(sandbox, repo, "Find the crash").tasks.remove(0).task;
    assert_eq!((crash.status, crash.error.as_deref()), (TaskStatus::Dead, Some("no tests found")));
    let review = page(sandbox, repo, "Review").workflow.workflow;
    assert_eq!(review.reason.as_deref(), Some("it was running in PedroCLI in phase validate"));
}

#[test]
fn jobs_of_pedrocli_become_workflows() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    sandbox.write("jobs.json", PEDROCLI);
    let path = sandbox.path("jobs.json");
    let data = sandbox.way(&repo, ["import", "pedrocli", path.to_str().unwrap(), "--json"]).data();
    check_pedrocli(&sandbox, &repo, &data);
    let again = sandbox.way(&repo, ["import", "pedrocli", path.to_str().unwrap(), "--json"]).data();
    assert_eq!((&again["counts"]["added"], &again["counts"]["skipped"]), (&0.into(), &4.into()));
    let list = ListCheckpoints {
        task: page(&sandbox, &repo, "Add a metric").tasks[0].task.id.to_string(),
        workflow: None,
        repository: None,
        before: None,
        limit: 10,
        after: None,
    };
    let checkpoints = session(&sandbox, &repo, "looker", START, false).call(list).unwrap().checkpoints;
    let summaries: Vec<&str> = checkpoints.iter().rev().map(|one| one.checkpoint.summary.as_str()).collect();
    assert_eq!(
        summaries,
        ["phase analyze: read the code", "phase plan: three steps", "conversation with 1 entries", "output"]
    );

    // The files of older versions.
    let old = sandbox.git_repo("old");
    sandbox.write("old/job-1.json", r#"{"id":"job-1","type":"build","status":"failed","description":"Old","input":{"description":"Old"},"error":"boom","created_at":"2025-12-01T00:00:00.5-07:00","work_dir":"/x","context_dir":"/y"}"#);
    sandbox.write("old/job-2.json", "{");
    let data = sandbox.way(&old, ["import", "pedrocli", ".", "--json"]).data();
    assert_eq!((&data["counts"]["added"], &data["counts"]["not_carried"]), (&1.into(), &1.into()));
    assert_eq!(page(&sandbox, &old, "Old").workflow.workflow.reason.as_deref(), Some("boom"));

    // Its SQLite database.
    let sqlite = sandbox.git_repo("sqlite");
    let file = database(
        &sandbox,
        "pedrocli.db",
        "CREATE TABLE jobs (id TEXT PRIMARY KEY, job_type TEXT, status TEXT, input_payload TEXT, error_message TEXT, created_at TIMESTAMP, description TEXT);
         CREATE TABLE job_artifacts (id TEXT);
         INSERT INTO jobs VALUES ('j-1', 'builder', 'pending', '{\"issue\": \"7\"}', NULL, '2026-01-04 10:00:00', 'Build it');",
    );
    let data = sandbox.way(&sqlite, ["import", file.to_str().unwrap(), "--json"]).data();
    assert_eq!((&data["format"], &data["added"][0]["status"]), (&json!("pedrocli"), &json!("paused")));
    assert_eq!(page(&sandbox, &sqlite, "Build it").tasks[0].task.context["issue"], "7");
    sandbox.write("other.json", "{\"x\":1}");
    let run = sandbox.way(&repo, ["import", "pedrocli", sandbox.path("other.json").to_str().unwrap()]).fails(2);
    assert!(run.stderr.contains("psql -Atc"), "{}", run.stderr);
}

#[test]
fn jobs_of_pedrocli_are_read_from_postgresql() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let server = Postgres::shared();
    server.psql(
        "CREATE SCHEMA pedrocli; SET search_path TO pedrocli;
        CREATE TABLE jobs (id UUID PRIMARY KEY, job_type VARCHAR(100) NOT NULL, status VARCHAR(50) NOT NULL DEFAULT 'pending', input_payload JSONB, output_payload JSONB, model_used VARCHAR(200), hardware_target VARCHAR(50), error_message TEXT, started_at TIMESTAMP, completed_at TIMESTAMP, created_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, updated_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, description TEXT, work_dir VARCHAR(512), context_dir VARCHAR(512), conversation_history TEXT DEFAULT '[]', workflow_type VARCHAR(50), current_phase VARCHAR(50), phase_results JSONB DEFAULT '{}', plan JSONB, phase_started_at TIMESTAMP);",
    );
    let jobs = PEDROCLI.replace('\'', "''");
    server.psql(&format!(
        "SET search_path TO pedrocli; INSERT INTO jobs SELECT * FROM jsonb_populate_recordset(NULL::jobs, '{jobs}'::jsonb);"
    ));
    let url = server.url_of("pedrocli");
    let data = sandbox.way(&repo, ["import", "pedrocli", &url, "--json"]).data();
    check_pedrocli(&sandbox, &repo, &data);
    let run = sandbox.way(&repo, ["import", "pedrocli", &server.url_of("nowhere")]).fails(3);
    assert!(run.stderr.contains("has no table nowhere.jobs"), "{}", run.stderr);
}

#[test]
fn settings_of_pedrocli_are_imported_and_replace_none_unasked() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    sandbox.write(
        "repo/.pedrocli.json",
        r#"{"model":{"type":"ollama"},"limits":{"max_task_duration_minutes":60},"http_bridge":{"workspace_path":"~/.pedrocli/worktrees","cleanup_on_complete":true}}"#,
    );
    let _ = sandbox.way(&repo, ["config", "set", "jobs.timeout", "5m"]).ok();
    let config = |key: &str| sandbox.way(&repo, ["config", "get", key, "--json"]).data()["value"].clone();
    let dry = sandbox.way(&repo, ["import", "pedrocli", ".pedrocli.json", "--dry-run", "--json"]).data();
    assert_eq!((&dry["counts"]["settings"], config("workspaces.cleanup_on_complete")), (&2.into(), json!("false")));
    let data = sandbox.way(&repo, ["import", "pedrocli", ".", "--json"]).data();
    assert_eq!(
        data["settings"],
        json!([
            { "key": "workspaces.path", "value": "~/.pedrocli/worktrees", "is_new": true },
            { "key": "workspaces.cleanup_on_complete", "value": "true", "is_new": true },
            { "key": "jobs.timeout", "value": "60m", "is_new": false },
        ])
    );
    assert_eq!(data["not_carried"][0]["item"], "model");
    assert_eq!((config("workspaces.cleanup_on_complete"), config("jobs.timeout")), (json!("true"), json!("5m")));
    let shared = sandbox.git(&repo, ["status", "--porcelain"]);
    assert!(!shared.contains(".waypost"), "{shared}");
    let _ = sandbox.way(&repo, ["import", "pedrocli", ".", "--update"]).ok();
    assert_eq!(config("jobs.timeout"), json!("60m"));
}

#[test]
fn an_agentdb_is_imported_from_the_json_that_duckdb_exports() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    // DuckDB writes one object per line, and times without a zone.
    sandbox.dir("export");
    let sync = |id: &str, worktree: &str, pattern: &str, status: &str, minute: u32| {
        format!(
            r#"{{"sync_id":"{id}","agent_id":"claude-code","worktree_path":{worktree},"sync_type":"workflow_transition","source_location":"planning/x","target_location":"specs/x","pattern":"{pattern}","status":"{status}","created_at":"2025-11-30 10:{minute:02}:00","completed_at":null,"created_by":"claude-code","metadata":{{"error":"no spec"}},"trigger_agent_id":null}}"#
        )
    };
    let rows = [
        sync("s2", "null", "phase_2_plan", "completed", 2),
        sync("s1", "null", "phase_1_specify", "completed", 1),
        sync("s3", "\"/w/feature-a\"", "phase_v7x1_1_worktree", "completed", 3),
        sync("s4", "\"/w/feature-a\"", "phase_v7x1_4_backmerge", "completed", 4),
        sync("s5", "\"/w/feature-b\"", "phase_4_implement", "failed", 5),
        sync("s6", "null", "rule", "pending", 6).replace("\"trigger_agent_id\":null", "\"trigger_agent_id\":\"a\""),
    ];
    sandbox.write("export/agent_synchronizations.json", rows.join("\n"));
    sandbox.write(
        "export/workflow_records.json",
        r#"{"record_id":"r-1","record_datetimestamp":"2025-11-30 10:00:00.5","object_id":"task_T1","object_type":"task","object_state":"20_in-progress","object_metadata":{"description":"Write it"}}
{"record_id":"r-2","record_datetimestamp":"2025-11-30 11:00:00","object_id":"task_T1","object_type":"task","object_state":"99_done","object_metadata":{"description":"Write it"}}
{"record_id":"r-3","record_datetimestamp":"2025-11-30 11:00:00","object_id":"task_T2","object_type":"task","object_state":"00_pending","object_metadata":{}}
"#,
    );
    sandbox.write("export/schema.sql", "CREATE TABLE x;");
    let path = sandbox.path("export");
    let data = sandbox.way(&repo, ["import", "agentdb", path.to_str().unwrap(), "--json"]).data();
    let added: Vec<_> = data["added"].as_array().unwrap().iter().map(|one| (&one["name"], &one["status"])).collect();
    assert_eq!(
        json!(added),
        json!([["main", "paused"], ["feature-a", "completed"], ["feature-b", "paused"], ["agentdb records", "paused"]])
    );
    assert_eq!(notes(&data), ["1 synchronization rules: Waypost has no rules between agents"]);
    let main = page(&sandbox, &repo, "main");
    let tasks: Vec<_> = main.tasks.iter().map(|seen| (seen.task.name.as_str(), seen.task.status)).collect();
    assert_eq!(
        tasks[..3],
        [
            ("phase_1_specify", TaskStatus::Completed),
            ("phase_2_plan", TaskStatus::Completed),
            ("phase_3_tasks", TaskStatus::Pending)
        ]
    );
    assert_eq!(tasks.len(), 7, "the remaining phases can be done here");
    assert_eq!(main.tasks[3].depends_on, ["phase_3_tasks"]);
    assert_eq!(main.workflow.workflow.reason.as_deref(), Some("the last recorded phase is phase_2_plan"));
    let failed = page(&sandbox, &repo, "feature-b").tasks.remove(0).task;
    assert_eq!((failed.status, failed.error.as_deref()), (TaskStatus::Dead, Some("no spec")));
    let records = page(&sandbox, &repo, "agentdb records");
    let states: Vec<_> = records.tasks.iter().map(|seen| seen.task.status).collect();
    assert_eq!(states, [TaskStatus::Completed, TaskStatus::Pending]);
    assert_eq!(
        sandbox.way(&repo, ["import", "agentdb", path.to_str().unwrap(), "--json"]).data()["counts"]["added"],
        0
    );

    // The database itself: the error says how to export it.
    let mut duckdb = vec![0; 64];
    duckdb[8..12].copy_from_slice(b"DUCK");
    sandbox.write("agentdb.duckdb", duckdb);
    sandbox.dir("parquet");
    sandbox.write("parquet/agent_synchronizations.parquet", "PAR1");
    let file = sandbox.path("agentdb.duckdb");
    let folder = sandbox.path("parquet");
    for args in [
        &["import", "agentdb", file.to_str().unwrap()][..],
        &["import", file.to_str().unwrap()],
        &["import", "agentdb", folder.to_str().unwrap()],
    ] {
        let run = sandbox.way(&repo, args).fails(2);
        assert!(run.stderr.contains("EXPORT DATABASE 'DIR' (FORMAT json)"), "{args:?}: {}", run.stderr);
    }
    let run = sandbox.way(&repo, ["--db", file.to_str().unwrap(), "status"]).fails(2);
    assert!(run.stderr.contains("way import agentdb"), "{}", run.stderr);
}

#[test]
fn langgraph_threads_become_workflows_with_their_checkpoints() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let file = database(&sandbox, "threads.db", include_str!("../../fixtures/langgraph.sql"));
    let path = file.to_str().unwrap();
    let before = std::fs::read(&file).unwrap();
    let data = sandbox.way(&repo, ["import", "langgraph", path, "--json"]).data();
    assert_eq!(
        data["counts"],
        json!({ "added": 2, "tasks": 2, "checkpoints": 7, "skipped": 0, "repositories": 0, "templates": 0, "settings": 0, "not_carried": 0 })
    );
    assert_eq!(sandbox.way(&repo, ["import", "langgraph", path, "--json"]).data()["counts"]["added"], 0);
    let thread = page(&sandbox, &repo, "issue-42");
    assert_eq!(
        (thread.workflow.workflow.status, thread.tasks[0].task.name.as_str()),
        (WorkflowStatus::Completed, "main")
    );
    let mut builder = session(&sandbox, &repo, "builder", START, false);
    let list = ListCheckpoints {
        task: thread.tasks[0].task.id.to_string(),
        workflow: None,
        repository: None,
        before: None,
        limit: 10,
        after: None,
    };
    let checkpoints = builder.call(list).unwrap().checkpoints;
    let newest = &checkpoints[0];
    assert_eq!((newest.checkpoint.sequence, newest.checkpoint.summary.as_str()), (4, "step 2, loop"));
    let values = &newest.checkpoint.detail["state"]["channel_values"];
    assert_eq!(values["log"], serde_json::json!(["in", "a", "b"]));
    assert_eq!(values["when"], serde_json::json!({ "type": "datetime.datetime", "value": "2026-01-01T00:00:00" }));
    assert_eq!(values["raw"], serde_json::json!({ "base64": "AP8=" }));
    assert_eq!(newest.checkpoint.detail["parent_checkpoint_id"], checkpoints[1].checkpoint.detail["checkpoint_id"]);
    let waiting = page(&sandbox, &repo, "issue-43");
    let list = ListCheckpoints {
        task: waiting.tasks[0].task.id.to_string(),
        workflow: None,
        repository: None,
        before: None,
        limit: 1,
        after: None,
    };
    let question = builder.call(list).unwrap().checkpoints.remove(0);
    assert!(question.checkpoint.detail["writes"].to_string().contains("sure?"), "{}", question.checkpoint.detail);
    assert_eq!(std::fs::read(&file).unwrap(), before);
    let beside: Vec<_> = std::fs::read_dir(sandbox.path("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!beside.iter().any(|name| name.to_str().unwrap().starts_with("threads.db-")), "{beside:?}");
}

#[test]
fn langgraph_threads_keep_how_they_ended() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let file = database(&sandbox, "threads.db", include_str!("../../fixtures/langgraph_outcomes.sql"));
    let run = sandbox.way(&repo, ["import", "langgraph", file.to_str().unwrap()]).ok();
    let statuses: Vec<Vec<&str>> =
        run.stdout.lines().skip(2).map(|line| line.split_whitespace().skip(1).take(2).collect()).collect();
    assert_eq!(
        statuses,
        [
            ["crashed", "failed"],
            ["done", "completed"],
            ["refused", "failed"],
            ["stopped", "paused"],
            ["waiting", "paused"]
        ]
    );
    let task = |thread: &str| page(&sandbox, &repo, thread).tasks.remove(0).task;
    let crashed = task("crashed");
    assert_eq!(
        (crashed.status, crashed.error.as_deref()),
        (TaskStatus::Dead, Some("ValueError('no network: host unreachable')"))
    );
    assert_eq!(page(&sandbox, &repo, "crashed").workflow.workflow.reason, crashed.error);
    let refused = task("refused");
    assert_eq!((refused.status, refused.error.as_deref()), (TaskStatus::Dead, Some("the brief is empty")));
    let done = task("done");
    assert_eq!(done.status, TaskStatus::Completed);
    assert_eq!(done.finished_at, page(&sandbox, &repo, "done").workflow.workflow.finished_at);
    let stopped = page(&sandbox, &repo, "stopped");
    assert_eq!(stopped.workflow.workflow.reason.as_deref(), Some("the thread stopped before file"));
    assert_eq!(stopped.tasks[0].task.status, TaskStatus::Pending);
    let waiting = page(&sandbox, &repo, "waiting");
    let parts: Vec<_> = waiting.tasks.iter().map(|seen| seen.task.status).collect();
    assert_eq!(parts, [TaskStatus::WaitingInput, TaskStatus::Skipped], "the subgraph continues with the thread");
    assert_eq!(waiting.tasks[0].task.question.as_deref(), Some("Publish the draft? {\"choices\":[\"yes\",\"no\"]}"));

    // A person sees the question, answers it, and an agent continues with the answer.
    let status = sandbox.way(&repo, ["status"]).ok().stdout;
    assert!(status.contains("Publish the draft?"), "{status}");
    let _ = sandbox.way(&repo, ["task", "answer", "waiting/main", "yes", "--actor", "ann"]).ok();
    let _ = sandbox.way(&repo, ["workflow", "resume", "waiting", "--actor", "ann"]).ok();
    let mut builder = session(&sandbox, &repo, "builder", START, false);
    let claimed = builder.call(claim("waiting/main")).unwrap();
    assert!(claimed.context.text.contains("yes"), "{}", claimed.context.text);
}

#[test]
fn chosen_threads_are_imported_and_an_unknown_one_is_refused() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let file = database(&sandbox, "threads.db", include_str!("../../fixtures/langgraph_outcomes.sql"));
    let path = file.to_str().unwrap();
    let import = |threads: &[&str]| {
        let args = ["import", "langgraph", path, "--json"].iter().chain(threads).copied().collect::<Vec<_>>();
        sandbox.way(&repo, args)
    };
    let data = import(&["--thread", "done", "--thread", "waiting"]).data();
    let names: Vec<&Value> = data["added"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert_eq!(names, ["done", "waiting"]);
    assert_eq!(data["not_carried"], json!([]), "writes of the other threads are no problem");
    let run = sandbox.way(&repo, ["import", "langgraph", path, "--thread", "watiing"]).fails(3);
    assert!(run.stderr.contains("did you mean waiting?"), "{}", run.stderr);
    assert_eq!(import(&[]).data()["counts"]["added"], 3);
    for args in [&["import", "caw", path, "--thread", "x"][..], &["import", "github", "x", "--thread", "x"]] {
        let run = sandbox.way(&repo, args).fails(2);
        assert!(run.stderr.contains("--thread applies to langgraph only"), "{}", run.stderr);
    }
}

#[test]
fn threads_of_two_databases_with_one_name_are_two_workflows() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let sql = include_str!("../../fixtures/langgraph_outcomes.sql");
    let one = database(&sandbox, "one.db", sql);
    let two = database(&sandbox, "two.db", sql);
    // Another run of a thread with the same name has other checkpoints.
    Connection::open(&two)
        .unwrap()
        .execute_batch(
            "UPDATE checkpoints SET checkpoint_id = '9' || checkpoint_id; UPDATE writes SET checkpoint_id = '9' || checkpoint_id;",
        )
        .unwrap();
    for file in [one, two] {
        let path = file.to_str().unwrap();
        let import = || sandbox.way(&repo, ["import", "langgraph", path, "--thread", "stopped", "--json"]).data();
        let data = import();
        assert_eq!(data["counts"]["added"], 1, "{data}");
        let again = import();
        assert_eq!((&again["counts"]["added"], again["skipped"].as_array().unwrap().len()), (&0.into(), 1), "{again}");
    }
    let workflows = sandbox.way(&repo, ["workflow", "list", "--all", "--json"]).data();
    let ids: Vec<&str> = workflows.as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect();
    assert!(matches!(ids.as_slice(), [one, two] if one != two), "{workflows}");
}

#[test]
fn a_database_of_another_program_named_as_the_store_names_the_import() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let threads = database(&sandbox, "threads.db", include_str!("../../fixtures/langgraph_outcomes.sql"));
    let before = std::fs::read(&threads).unwrap();
    for (file, program) in [(threads.clone(), "langgraph"), (database(&sandbox, "caw.db", CAW), "caw")] {
        let path = file.to_str().unwrap();
        for args in [&["workflow", "list"][..], &["workflow", "create", "x"], &["status"]] {
            let run = sandbox.way(&repo, [&["--db", path], args].concat()).fails(2);
            assert!(run.stderr.contains(&format!("way import {program} {path}")), "{args:?}: {}", run.stderr);
        }
        // The command works as it is shown, and also without the name of the program.
        assert_ne!(sandbox.way(&repo, ["import", path, "--dry-run", "--json"]).data()["counts"]["added"], 0);
        assert_ne!(sandbox.way(&repo, ["import", program, path, "--json"]).data()["counts"]["added"], 0);
    }
    assert_eq!(std::fs::read(&threads).unwrap(), before);
    let _ = database(&sandbox, "other.db", "CREATE TABLE other (x)");
    let run = sandbox.way(&repo, ["--db", sandbox.path("other.db").to_str().unwrap(), "status"]).fails(2);
    assert!(!run.stderr.contains("way import"), "{}", run.stderr);
}

#[test]
fn records_in_a_write_ahead_log_are_imported_and_the_log_is_unchanged() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let path = sandbox.path("live.db");
    let writer = Connection::open(&path).unwrap();
    writer.execute_batch("PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0;").unwrap();
    writer.execute_batch(include_str!("../../fixtures/langgraph.sql")).unwrap();
    let files = ["live.db", "live.db-wal"].map(|name| std::fs::read(sandbox.path(name)).unwrap());
    assert!(files[1].len() > files[0].len(), "everything is in the log");
    let data = sandbox.way(&repo, ["import", "langgraph", path.to_str().unwrap(), "--json"]).data();
    assert_eq!(data["counts"]["checkpoints"], 7);
    assert_eq!(["live.db", "live.db-wal"].map(|name| std::fs::read(sandbox.path(name)).unwrap()), files);
    let left = std::fs::read_dir(repo.join(".git/waypost")).unwrap();
    assert!(!left.into_iter().any(|entry| entry.unwrap().file_name().to_str().unwrap().starts_with("import-")));
}

#[test]
fn hostile_databases_are_refused_cleanly_and_bad_rows_are_listed() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let refuse = |name: &str, code: i32| {
        let run = sandbox.way(&repo, ["import", "langgraph", sandbox.path(name).to_str().unwrap()]).fails(code);
        assert!(!run.stderr.contains("panicked"), "{name}: {}", run.stderr);
    };
    sandbox.write("text.db", "no database");
    refuse("text.db", 2);
    refuse("nothing.db", 3);
    sandbox.dir("folder.db");
    refuse("folder.db", 2);
    database(&sandbox, "other.db", "CREATE TABLE other (x)");
    refuse("other.db", 2);
    database(&sandbox, "columns.db", "CREATE TABLE checkpoints (thread_id, checkpoint_id)");
    refuse("columns.db", 2);
    let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS thread_id, i AS checkpoint_ns, i AS checkpoint_id, i AS parent_checkpoint_id, i AS type, i AS checkpoint, i AS metadata FROM n";
    database(&sandbox, "view.db", &format!("CREATE VIEW checkpoints AS {endless}"));
    refuse("view.db", 2);
    let whole = std::fs::read(database(&sandbox, "whole.db", include_str!("../../fixtures/langgraph.sql"))).unwrap();
    sandbox.write("cut.db", &whole[..whole.len() / 2]);
    refuse("cut.db", 9);
    let mut garbled = whole.clone();
    garbled[100..4096].fill(0xff);
    sandbox.write("garbled.db", garbled);
    refuse("garbled.db", 9);
    for args in [&["import", "caw", "-"][..], &["import", "caw", "whole.db", "--update"], &["import", "caw"]] {
        let _ = sandbox.way(&repo, args).fails(2);
    }

    let rows = "CREATE TABLE checkpoints (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata);
        INSERT INTO checkpoints VALUES
            ('t' || char(27) || '[2J', '', '1', NULL, 'msgpack', X'C1', X'7B7D'),
            ('t' || char(27) || '[2J', '', '2', NULL, 'pickle', X'80', X'C1'),
            ('t' || char(27) || '[2J', 'sub', '3', NULL, 'json', '{\"ts\": \"2026-01-01T00:00:00Z\", \"a\": \"\\u0000\"}', '{\"step\": 1}'),
            (NULL, '', NULL, NULL, NULL, NULL, NULL),
            ('" .to_owned() + &"long".repeat(100) + "', '', '9', NULL, 'msgpack', zeroblob(100), NULL)";
    database(&sandbox, "bad.db", &rows);
    let path = sandbox.path("bad.db");
    let data = sandbox.way(&repo, ["import", "langgraph", path.to_str().unwrap(), "--json"]).data();
    assert_eq!((&data["counts"]["added"], &data["counts"]["checkpoints"]), (&2.into(), &4.into()));
    assert_eq!(notes(&data).len(), 5, "{data}");
    for args in [&["import", "langgraph", path.to_str().unwrap()][..], &["status"], &["events"]] {
        let shown = sandbox.way(&repo, args).ok().stdout;
        assert!(!shown.contains('\u{1b}'), "{args:?}: {shown:?}");
    }
}

#[test]
fn the_database_of_vibe_kanban_is_imported_and_a_second_import_adds_nothing() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let path = sandbox.path("db.sqlite");
    let theirs = rusqlite::Connection::open(&path).unwrap();
    theirs
        .execute_batch(
            "CREATE TABLE projects (id BLOB PRIMARY KEY, name TEXT NOT NULL);
             CREATE TABLE tasks (id BLOB PRIMARY KEY, project_id BLOB NOT NULL, title TEXT NOT NULL, description TEXT,
                 status TEXT NOT NULL, parent_workspace_id BLOB, created_at TEXT, updated_at TEXT);
             CREATE TABLE workspaces (id BLOB PRIMARY KEY, task_id BLOB);
             INSERT INTO projects VALUES (x'99999999999999999999999999999999', 'shop');
             INSERT INTO workspaces VALUES (x'55555555555555555555555555555555', x'11111111111111111111111111111111');
             INSERT INTO tasks VALUES (x'11111111111111111111111111111111', x'99999999999999999999999999999999',
                 'Fix the login', 'It loops.', 'inprogress', NULL, '2026-03-01 10:00:00', '2026-03-01 11:00:00');
             INSERT INTO tasks VALUES (x'22222222222222222222222222222222', x'99999999999999999999999999999999',
                 'Write a test', NULL, 'done', x'55555555555555555555555555555555', '2026-03-01 10:30:00',
                 '2026-03-01 12:00:00');",
        )
        .unwrap();
    drop(theirs);
    let before = std::fs::read(&path).unwrap();
    for (args, added) in [(["import", "vibe-kanban"].as_slice(), 2), (&["import"], 0)] {
        let answer = sandbox.way(&repo, args.iter().copied().chain([path.to_str().unwrap(), "--json"])).data();
        assert_eq!(answer["format"], "vibe-kanban", "{answer}");
        assert_eq!(answer["counts"]["added"], added, "{answer}");
        assert_eq!(answer["counts"]["not_carried"], 0, "{answer}");
    }
    let issues = sandbox.way(&repo, ["list", "--all", "--json"]).data();
    let [first, second] = issues.as_array().unwrap().as_slice() else { panic!("{issues}") };
    assert_eq!((&first["title"], &first["status"]), (&"Fix the login".into(), &"in_progress".into()), "{first}");
    assert_eq!(first["labels"], serde_json::json!(["project:shop"]), "{first}");
    assert_eq!((&second["status"], &second["parent_id"]), (&"closed".into(), &first["id"]), "{second}");
    assert_eq!(second["closed_at"], "2026-03-01T12:00:00.000Z", "{second}");
    assert_eq!(std::fs::read(&path).unwrap(), before, "their database is not changed");
}
