//! Issues of other trackers: recognised when they are imported again, updated only to newer versions.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};
use waypost::import::{self, Format, Outcome, Plan, Taken};
use waypost::{Kind, Result};
use waypost_import::issues::{Imported, Source};

use crate::desk::{Desk, LEDGER, message_and_hints, refusal};

const GITHUB: &str = r#"[
 {"number":1,"title":"Login fails","body":"- [ ] look","state":"OPEN","labels":[{"name":"bug"}],"assignees":[{"login":"ann"}],
  "author":{"login":"bob"},"createdAt":"2025-01-01T00:00:00Z","updatedAt":"2025-01-02T00:00:00Z","closedAt":null,
  "comments":[{"id":"IC_1","author":{"login":"cid"},"body":"same here","createdAt":"2025-01-02T00:00:00Z"}],
  "milestone":{"title":"1.0"},"url":"https://github.com/o/r/issues/1","stateReason":""},
 {"number":2,"title":"Old","state":"CLOSED","stateReason":"COMPLETED","closedAt":"2025-01-03T00:00:00Z","createdAt":"2025-01-01T00:00:00Z",
  "updatedAt":"2025-01-03T00:00:00Z","url":"https://github.com/o/r/issues/2"}
]"#;

const TAKE: (bool, bool) = (false, false);
const UPDATE: (bool, bool) = (true, false);
const UPDATE_DRY: (bool, bool) = (true, true);

/// Imports what was read, with or without updates, for real or not.
fn write(desk: &Desk, format: Format, imported: &Imported, (update, dry_run): (bool, bool)) -> Outcome {
    desk.changing(|cx| import::import(cx, imported, Plan { format, update, dry_run })).unwrap()
}

/// Imports a text.
fn take(desk: &Desk, format: Format, text: &str, how: (bool, bool)) -> Outcome {
    let source = Source { name: "standard input".to_owned(), bytes: text.into() };
    write(desk, format, &import::read(format, &[source]).unwrap(), how)
}

/// Imports a file or a folder, whose format is named or found.
fn take_path(desk: &Desk, format: Option<Format>, path: &str) -> Result<(Outcome, Format)> {
    desk.changing(|cx| {
        let ledger = cx.place.ledger().map(|(ledger, _)| ledger);
        let (sources, format) = import::sources(Path::new(path), format, ledger.as_deref(), &cx.place.scratch_dir())?;
        let mut imported = import::read(format, &sources)?;
        let into = &cx.ledger.repos()[cx.ledger.home()].checkout;
        if format.has_project_names()
            && let Some(project) = import::project(Path::new(path), into, &cx.place.variables)?
        {
            import::qualify(&mut imported, &project)?;
        }
        Ok((import::import(cx, &imported, Plan { format, update: false, dry_run: false })?, format))
    })
}

fn taken(desk: &Desk, format: Format, path: &str) -> Outcome {
    take_path(desk, Some(format), path).unwrap_or_else(|error| panic!("{path}: {}", message_and_hints(&error))).0
}

/// How many issues were added, updated and skipped, and how much was left out.
fn counts(outcome: &Outcome) -> [usize; 4] {
    [outcome.added.len(), outcome.updated.len(), outcome.skipped.len(), outcome.notes.len()]
}

fn id_of<'a>(list: &'a [Taken], item: &str) -> &'a str {
    &list.iter().find(|taken| taken.item == item).unwrap_or_else(|| panic!("{item}: {list:?}")).id
}

#[test]
fn importing_twice_is_importing_once() {
    let desk = Desk::new();
    let first = take(&desk, Format::Github, GITHUB, TAKE);
    assert_eq!(counts(&first), [2, 0, 0, 0]);
    let before = desk.file();
    let second = take(&desk, Format::Github, GITHUB, TAKE);
    assert_eq!(counts(&second), [0, 0, 2, 0]);
    assert_eq!(second.skipped, first.added, "recognised under the same ids");
    assert_eq!(desk.file(), before);

    let issue = desk.show(&first.added[0].id);
    assert_eq!(issue["external_ref"], "https://github.com/o/r/issues/1");
    assert_eq!((issue["created_by"].as_str(), issue["assignee"].as_str()), (Some("bob"), Some("ann")));
    assert_eq!(issue["labels"], json!(["bug", "milestone:1.0"]));
    assert_eq!(issue["comments"][0]["author"], "cid");
    assert_eq!(issue["description"], "- [ ] look");
    assert_eq!(desk.list(json!({ "statuses": ["closed"] })).len(), 1);

    // Without its URL an issue is recognised by its number, and another clone gives it the same id.
    let again = take(&desk, Format::Github, r#"[{"number":1,"title":"Login fails"}]"#, TAKE);
    assert_eq!(counts(&again), [0, 0, 1, 0]);
    let clone = desk.repository("elsewhere/repo");
    assert_eq!(take(&clone, Format::Github, GITHUB, TAKE).added, first.added);
}

#[test]
fn known_issues_change_only_with_update_and_only_to_newer_versions() {
    let desk = Desk::new();
    let first = take(&desk, Format::Github, GITHUB, TAKE);
    let id = first.added[0].id.as_str();
    let taken = |text: &str, how: (bool, bool)| counts(&take(&desk, Format::Github, text, how));
    // The local change of 2026 is newer than the remote change of 2025.
    let ann = desk.person("ann");
    ann.claim(id);
    let newer = GITHUB.replace("Login fails", "Login fails often");
    assert_eq!(taken(&newer, UPDATE), [0, 0, 2, 0]);
    let newer = newer.replace("\"updatedAt\":\"2025-01-02", "\"updatedAt\":\"2026-01-02").replace("IC_1", "IC_2");
    assert_eq!(taken(&newer, TAKE), [0, 0, 2, 0], "nothing changes unless updates are wanted");
    assert_eq!(taken(&newer, UPDATE_DRY), [0, 1, 1, 0]);
    assert_eq!(desk.show(id)["title"], "Login fails");
    assert_eq!(taken(&newer, UPDATE), [0, 1, 1, 0]);
    let issue = desk.show(id);
    assert_eq!((issue["title"].as_str(), issue["status"].as_str()), (Some("Login fails often"), Some("in_progress")));
    assert_eq!(issue["comments"].as_array().unwrap().len(), 2);
    assert_eq!(taken(&newer, UPDATE), [0, 0, 2, 0]);
    // An issue deleted here is not imported again.
    ann.run("remove_issue", json!({ "issue": id }));
    let newest = newer.replace("\"updatedAt\":\"2026-01-02", "\"updatedAt\":\"2027-01-02");
    assert_eq!(taken(&newest, UPDATE), [0, 0, 2, 0]);
    assert_eq!(desk.show(id)["status"], "tombstone");
}

#[test]
fn beads_records_keep_their_ids_and_bytes_and_other_record_types() {
    let desk = Desk::new();
    desk.write_lines(&[r#"{"id":"m","title":"mine","updated_at":"2026-01-01T00:00:00Z"}"#]);
    let theirs = "{\"id\": \"z\", \"title\": \"Z\", \"theirs\": 1.50}\n{\"_type\":\"memory\",\"key\":\"k\"}\n{\"id\":\"m\",\"title\":\"theirs\",\"updated_at\":\"2026-02-01T00:00:00Z\"}\n{\"id\":\"a\",\"title\":\"A\",\"dependencies\":[{\"depends_on_id\":\"nowhere\",\"type\":\"eats\"}]}\nnoise\n";
    let outcome = take(&desk, Format::Beads, theirs, TAKE);
    assert_eq!((counts(&outcome), outcome.others), ([2, 0, 1, 1], 1));
    assert_eq!(outcome.notes[0].item, "line 5");
    assert!(outcome.notes[0].problem.starts_with("unreadable: "), "{:?}", outcome.notes);
    assert_eq!(
        desk.lines(),
        [
            "{\"id\":\"a\",\"title\":\"A\",\"dependencies\":[{\"depends_on_id\":\"nowhere\",\"type\":\"eats\"}]}",
            "{\"id\":\"m\",\"title\":\"mine\",\"updated_at\":\"2026-01-01T00:00:00Z\"}",
            "{\"id\": \"z\", \"title\": \"Z\", \"theirs\": 1.50}",
            "{\"_type\":\"memory\",\"key\":\"k\"}",
        ]
    );
    assert_eq!(counts(&take(&desk, Format::Beads, theirs, UPDATE)), [0, 1, 2, 1]);
    assert_eq!(desk.show("m")["title"], "theirs");
    assert_eq!(desk.lines().len(), 4);
}

#[test]
fn the_backlog_folder_is_found_and_its_dependencies_are_imported() {
    let desk = Desk::new();
    let task = |path: &str, front: &str, body: &str| {
        desk.write(&format!("backlog/{path}"), format!("---\n{front}\n---\n\n{body}"));
    };
    let base = "id: task-1\ntitle: Base\nstatus: To Do\npriority: high";
    task("tasks/task-1 - Base.md", base, "## Description\n\nWhy.\n");
    task(
        "tasks/task-1.1 - Part.md",
        "id: TASK-1.1\ntitle: 'Part: one'\nstatus: In Progress\nassignee:\n  - '@ann'\ndependencies:\n  - task-2\n  - task-9\nparent_task_id: task-1",
        "## Acceptance Criteria\n<!-- AC:BEGIN -->\n- [ ] #1 Works\n<!-- AC:END -->\n",
    );
    task("completed/task-2 - Done.md", "id: task-2\ntitle: Done\nstatus: Done\nupdated_date: '2025-12-01 10:00'", "");
    task("archive/tasks/task-3 - Away.md", "id: task-3\ntitle: Away\nstatus: To Do", "");
    desk.write("backlog/tasks/notes.md", "# Notes\n");
    desk.write("backlog/docs/page.md", "---\nid: doc-1\n---\n");
    desk.write("backlog/docs/readme.md", "# Documents\n");
    let (outcome, format) = take_path(&desk, None, ".").unwrap();
    assert_eq!((counts(&outcome), format), ([4, 0, 0, 3], Format::Backlog));
    let notes: Vec<(&str, &str)> =
        outcome.notes.iter().map(|note| (note.item.as_str(), note.problem.as_str())).collect();
    assert_eq!(
        notes,
        [
            ("tasks/notes.md", "no front matter"),
            ("docs/page.md", "a document, not an issue: it stays in its file"),
            ("backlog:task-1.1", "it depends on backlog:task-9, which was not found"),
        ]
    );
    assert_eq!(counts(&taken(&desk, Format::Backlog, "backlog")), [0, 0, 4, 2]);
    let (again, format) = take_path(&desk, None, ".").unwrap();
    assert_eq!(
        (counts(&again), format),
        ([0, 0, 4, 2], Format::Backlog),
        "the repository's own ledger is not mistaken for an import source"
    );
    let (tasks, _) = take_path(&desk, None, "backlog/tasks").unwrap();
    assert_eq!(counts(&tasks), [0, 0, 2, 0], "the task folder alone is enough");
    let part = desk.show(id_of(&tasks.skipped, "backlog:task-1.1"));
    assert_eq!((part["title"].as_str(), part["assignee"].as_str()), (Some("Part: one"), Some("ann")));
    assert_eq!(
        (part["parent_id"].as_str(), part["status"].as_str()),
        (Some(id_of(&tasks.skipped, "backlog:task-1")), Some("in_progress"))
    );
    assert_eq!(part["dependencies"].as_array().unwrap().len(), 1);
    assert_eq!(part["acceptance_criteria"], "- [ ] #1 Works");
    assert_eq!(desk.list(json!({ "statuses": ["closed"] })).len(), 2);
}

#[test]
fn a_backlog_task_is_the_same_from_its_file_its_folder_and_the_whole() {
    let desk = Desk::new();
    desk.write(
        "backlog/tasks/task-1 - Base.md",
        "---\nid: task-1\ntitle: Base\nstatus: To Do\nmilestone: m-1\n---\n\n## Description\n\nWhy.\n\n## Comments\n\n<!-- COMMENTS:BEGIN -->\nauthor: @ann\ncreated: 2026-01-02 03:04\n---\nLooks good.\n---\n<!-- COMMENTS:END -->\n",
    );
    desk.write("backlog/milestones/m-1 - cli.md", "---\nid: m-1\ntitle: \"CLI\"\n---\n");
    let mut files = BTreeSet::new();
    for source in ["backlog", "backlog/tasks", "backlog/tasks/task-1 - Base.md"] {
        let (outcome, _) = take_path(&desk, None, source).unwrap();
        assert_eq!(counts(&outcome), [1, 0, 0, 0], "{source}");
        let issue = desk.show(&outcome.added[0].id);
        assert_eq!((&issue["labels"], &issue["description"]), (&json!(["milestone:CLI"]), &"Why.".into()));
        let comment = &issue["comments"][0];
        assert_eq!((comment["author"].as_str(), comment["text"].as_str()), (Some("ann"), Some("Looks good.")));
        assert_eq!(comment["created_at"], "2026-01-02T03:04:00.000Z");
        files.insert(desk.file());
        desk.forget_ledger();
    }
    assert_eq!(files.len(), 1, "{files:?}");
}

#[test]
fn two_clones_that_import_the_same_write_the_same_bytes() {
    let origin = Desk::in_new_sandbox(|sandbox| sandbox.git_repo("origin"));
    origin.write("backlog/tasks/task-1 - a.md", "---\nid: task-1\ntitle: a\nstatus: Done\n---\n");
    origin.write(
        ".taskmaster/tasks/tasks.json",
        r#"{"master":{"tasks":[{"id":2,"title":"b","status":"done"},{"id":1,"title":"a","status":"pending"}],"metadata":{"created":"2025-06-13T23:52:56.848Z"}},"old":{"tasks":[{"id":1,"title":"c","status":"done"}]}}"#,
    );
    origin.write("issues.json", r#"[{"number":7,"title":"x","state":"CLOSED"},{"number":3,"title":"y"}]"#);
    origin.write("tasks.json", r#"[{"uuid":"u-1","description":"Buy","status":"completed"}]"#);
    origin.commit("tasks");
    let [one, two] =
        [("one", "ann", "2026-01-01T00:00:00Z"), ("two", "bob", "2026-06-01T00:00:00Z")].map(|(name, actor, clock)| {
            origin.in_dir("").git(["clone", "-q", "origin", name]);
            let clone = origin.in_dir(name).person(actor).at_time(clock);
            for (format, path) in [
                (Format::Backlog, "."),
                (Format::Taskmaster, "."),
                (Format::Github, "issues.json"),
                (Format::Taskwarrior, "tasks.json"),
            ] {
                taken(&clone, format, path);
            }
            clone.file()
        });
    assert_eq!(one.lines().count(), 7);
    assert_eq!(one, two);
    assert!(!one.contains("2026-"), "no time of the import: {one}");
    let done = one.lines().find(|line| line.contains("master/2")).unwrap();
    assert!(done.contains(r#""created_by":"taskmaster""#), "{done}");
    assert!(done.contains(r#""closed_at":"2025-06-13T23:52:56.848Z""#), "{done}");
}

#[test]
fn an_import_configures_the_merge_driver_of_a_clone() {
    let desk = Desk::new();
    desk.write(".waypost/.gitattributes", "issues.jsonl merge=waypost\n");
    desk.commit("ledger");
    let has_driver = || {
        let config = std::fs::read_to_string(desk.path(".git/config")).unwrap();
        config.contains("merge-driver %O %A %B %P")
    };
    take(&desk, Format::Github, GITHUB, (false, true));
    assert!(!has_driver(), "a dry run configures nothing");
    take(&desk, Format::Github, GITHUB, TAKE);
    assert!(has_driver());
}

#[test]
fn tasks_of_two_projects_are_distinguished_and_recognised_from_another_clone() {
    let desk = Desk::new();
    for (name, title) in [("one", "Base"), ("two", "Cellar")] {
        let project = desk.repository(name);
        for (number, more) in [(1, ""), (2, "dependencies:\n  - task-1\n")] {
            let text = format!("---\nid: task-{number}\ntitle: {title} {number}\nstatus: To Do\n{more}---\n");
            project.write(&format!("backlog/tasks/task-{number} - x.md"), text);
        }
        let tasks = format!(r#"{{"master":{{"tasks":[{{"id":1,"title":"{title}","status":"pending"}}]}}}}"#);
        project.write(".taskmaster/tasks/tasks.json", tasks);
    }
    desk.in_dir("one").git(["remote", "add", "origin", "https://example.org/team/one"]);
    for (format, count) in [(Format::Backlog, 2), (Format::Taskmaster, 1)] {
        for project in ["../one", "../two"] {
            assert_eq!(counts(&taken(&desk, format, project)), [count, 0, 0, 0], "{format} {project}");
            assert_eq!(counts(&taken(&desk, format, project)), [0, 0, count, 0], "{format} {project}");
        }
    }
    let list = desk.run("list_issues", json!({}))["issues"].clone();
    let titles = list.as_array().unwrap().iter().map(|issue| issue["title"].as_str().unwrap());
    let titles: BTreeSet<&str> = titles.collect();
    assert_eq!(titles, BTreeSet::from(["Base", "Base 1", "Base 2", "Cellar", "Cellar 1", "Cellar 2"]));
    assert_eq!(desk.ready().len(), 4, "each depends on the task of its own project");

    // A clone with another name, and another URL of the same remote.
    std::fs::rename(desk.sandbox.path("one"), desk.sandbox.path("elsewhere")).unwrap();
    desk.in_dir("elsewhere").git(["remote", "set-url", "origin", "git@example.org:team/one.git"]);
    assert_eq!(counts(&taken(&desk, Format::Backlog, "../elsewhere/backlog/tasks")), [0, 0, 2, 0]);
    let file = "../elsewhere/.taskmaster/tasks/tasks.json";
    assert_eq!(counts(&taken(&desk, Format::Taskmaster, file)), [0, 0, 1, 0]);
}

#[test]
fn tasks_imported_before_names_contained_their_project_are_recognised() {
    let desk = Desk::new();
    let known = |number: u32, title: &str| {
        format!("{{\"id\":\"a-{number}\",\"title\":\"{title}\",\"external_ref\":\"backlog:task-{number}\"}}\n")
    };
    desk.write_ledger([known(1, "Base"), known(2, "Renamed here"), known(3, "Roof")].concat());
    for (name, titles) in [("same", ["Base", "Wall", "Roof", "New"]), ("other", ["Soil", "Wall", "Roof", "New"])] {
        let project = desk.in_dir(name);
        for (number, title) in (1..).zip(titles) {
            let text = format!("---\nid: task-{number}\ntitle: {title}\nstatus: To Do\n---\n");
            project.write(&format!("backlog/tasks/task-{number} - x.md"), text);
        }
    }
    let take = |from: &str| taken(&desk, Format::Backlog, from);
    let outcome = take("../same");
    assert_eq!((counts(&outcome), outcome.added[0].item.as_str()), ([1, 0, 3, 0], "backlog:same#task-4"));
    assert_eq!(counts(&take("../same")), [0, 0, 4, 0]);
    assert_eq!(counts(&take("../other")), [4, 0, 0, 0], "most titles differ, so it is another project");
    assert_eq!(counts(&take("../other")), [0, 0, 4, 0]);
}

#[test]
fn parts_and_blockers_of_other_trackers_decide_what_is_ready() {
    let desk = Desk::new();
    desk.write(
        ".taskmaster/tasks/tasks.json",
        r#"{"master":{"tasks":[{"id":1,"title":"Base","status":"pending","priority":"high"},{"id":2,"title":"Next","status":"pending","dependencies":[1],"subtasks":[{"id":1,"title":"One","status":"done"},{"id":2,"title":"Two","status":"pending","dependencies":[1]}]}]}}"#,
    );
    let (outcome, format) = take_path(&desk, None, ".").unwrap();
    assert_eq!((counts(&outcome), format), ([4, 0, 0, 0], Format::Taskmaster));
    assert_eq!(desk.ready(), [outcome.added[0].id.as_str()]);
    assert_eq!(desk.list(json!({ "closed": true, "parent": &outcome.added[1].id })).len(), 2);

    let tasks = r#"[{"uuid":"u-1","description":"Buy","status":"pending","entry":"20250101T000000Z","modified":"20250102T000000Z"},
        {"uuid":"u-2","description":"Paint","status":"waiting","wait":"20270101T000000Z","depends":"u-1,u-3"},
        {"uuid":"u-3","description":"Gone","status":"deleted","end":"20250102T000000Z"}]"#;
    let outcome = take(&desk, Format::Taskwarrior, tasks, TAKE);
    assert_eq!(counts(&outcome), [2, 0, 0, 1]);
    assert_eq!(outcome.notes[0].problem, "1 deleted issue left out");
    let (buy, paint) = (outcome.added[0].id.as_str(), desk.show(&outcome.added[1].id));
    assert_eq!(paint["dependencies"][0]["depends_on_id"], buy);
    assert_eq!(paint["defer_until"], "2027-01-01T00:00:00.000Z");
    // A later import finds its dependencies in the ledger, and an issue deleted there is deleted here.
    let later = r#"[{"uuid":"u-4","description":"Dry","status":"pending","depends":["u-2"]},{"uuid":"u-1","description":"Buy","status":"deleted","modified":"20270101T000000Z"}]"#;
    let outcome = take(&desk, Format::Taskwarrior, later, UPDATE);
    assert_eq!(counts(&outcome), [1, 1, 0, 0]);
    assert_eq!(desk.show(&outcome.added[0].id)["dependencies"][0]["depends_on_id"], paint["id"]);
    assert_eq!(desk.show(buy)["status"], "tombstone");
    // An update must not close a cycle with a local dependency.
    let circle =
        r#"[{"uuid":"u-2","description":"Paint","status":"pending","modified":"20280101T000000Z","depends":["u-4"]}]"#;
    let outcome = take(&desk, Format::Taskwarrior, circle, UPDATE);
    assert_eq!(counts(&outcome), [0, 1, 0, 1]);
    assert!(outcome.notes[0].problem.ends_with("would close a cycle"), "{:?}", outcome.notes);
}

#[test]
fn an_import_that_fails_names_the_reason_and_writes_nothing() {
    let desk = Desk::new();
    desk.sandbox.dir("repo/empty");
    desk.write("page.txt", "words\n");
    desk.write("latin.json", b"[{\"number\":1,\"title\":\"\xe9\"}]");
    desk.write("both/tasks/tasks.json", "{\"tasks\":[]}");
    desk.write("both/issues.jsonl", "{\"id\":\"a\"}\n");
    desk.write("both/tasks/a.md", "---\nid: a\n---\n");
    let formats = "the formats are beads, github, backlog, taskmaster, taskwarrior, vibe-kanban and csv";
    for (format, path, kind, expected) in [
        (None, "page.txt", Kind::Invalid, formats),
        (None, "empty", Kind::Invalid, "the format of empty is unknown"),
        (None, "both", Kind::Ambiguous, "has files of several tools: backlog, taskmaster, beads"),
        (None, "nowhere.json", Kind::Invalid, "cannot read nowhere.json"),
        (Some(Format::Github), "page.txt", Kind::Invalid, "page.txt: no readable item"),
        (Some(Format::Github), "latin.json", Kind::Invalid, "latin.json: not UTF-8"),
        (Some(Format::Github), "empty", Kind::Invalid, "github is imported from a file"),
        (Some(Format::Taskmaster), "empty", Kind::Invalid, "empty has no files of taskmaster"),
        (Some(Format::Taskmaster), "both/issues.jsonl", Kind::Invalid, "no tasks"),
        (Some(Format::Backlog), "page.txt", Kind::Invalid, "no front matter"),
        (Some(Format::Beads), "page.txt", Kind::Invalid, "no line is a record"),
    ] {
        let said = refusal(kind, take_path(&desk, format, path));
        assert!(said.contains(expected), "{path}: {said}");
    }
    take(&desk, Format::Github, GITHUB, (false, true));
    assert!(!desk.path(LEDGER).exists());
}

#[test]
fn the_database_of_vibe_kanban_is_imported_and_a_second_import_adds_nothing() {
    let desk = Desk::new();
    let path = desk.sandbox.path("db.sqlite");
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
    for (format, expected) in [(Some(Format::VibeKanban), [2, 0, 0, 0]), (None, [0, 0, 2, 0])] {
        let (outcome, format) = take_path(&desk, format, path.to_str().unwrap()).unwrap();
        assert_eq!((counts(&outcome), format), (expected, Format::VibeKanban));
    }
    let issues: Vec<Value> = desk.run("list_issues", json!({ "closed": true }))["issues"].as_array().unwrap().clone();
    let [first, second] = issues.as_slice() else { panic!("{issues:?}") };
    assert_eq!((&first["title"], &first["status"]), (&"Fix the login".into(), &"in_progress".into()), "{first}");
    assert_eq!(first["labels"], json!(["project:shop"]), "{first}");
    assert_eq!((&second["status"], &second["parent_id"]), (&"closed".into(), &first["id"]), "{second}");
    assert_eq!(second["closed_at"], "2026-03-01T12:00:00.000Z", "{second}");
    assert_eq!(std::fs::read(&path).unwrap(), before, "their database is not changed");
}
