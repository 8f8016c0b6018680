//! Import of issues from other trackers, and export to other programs.
#![expect(clippy::needless_raw_string_hashes, reason = "that is how expect-test writes them")]

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use expect_test::expect;
use serde_json::{Value, json};
use waypost_testkit::{Corpus, Run, Sandbox, corpora};

use crate::ledger::{LEDGER, ids, lines};
use crate::sandbox;

fn repo_with(sandbox: &Sandbox, name: &str, ledger: &str) -> PathBuf {
    let repo = sandbox.git_repo(name);
    sandbox.dir(format!("{name}/.waypost"));
    sandbox.write(repo.join(LEDGER), ledger);
    repo
}

fn fed(sandbox: &Sandbox, repo: &Path, args: &[&str], input: &[u8]) -> Run {
    let mut command = sandbox.way_command(repo);
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    Run::of(&child.wait_with_output().unwrap())
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

/// The lines of a file that are records, as a set.
fn records(bytes: &[u8]) -> BTreeSet<String> {
    let text = String::from_utf8_lossy(bytes);
    text.lines().filter(|line| serde_json::from_str::<serde_json::Map<_, _>>(line).is_ok()).map(str::to_owned).collect()
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
fn a_ledger_survives_export_and_import_unchanged() {
    let sandbox = sandbox();
    let of = |corpus: Corpus| corpus.ledgers().into_iter().map(move |name| corpus.path(&name));
    for (number, path) in corpora().into_iter().flat_map(of).enumerate() {
        let original = std::fs::read(&path).unwrap();
        let source = repo_with(&sandbox, &format!("source-{number}"), &String::from_utf8(original.clone()).unwrap());
        let copy = source.join("copy.jsonl");
        let run = sandbox.way(&source, ["export", "--all", "--output", copy.to_str().unwrap()]);
        assert_eq!(run.code, 0, "{run:?}");
        assert!(std::fs::read(&copy).unwrap() == original, "{}: a copy is the file as it is", path.display());
        let target = sandbox.git_repo(format!("target-{number}"));
        let first = sandbox.way(&target, ["import", copy.to_str().unwrap(), "--json"]).data();
        assert_eq!(first["format"], "beads");
        assert!(records(&std::fs::read(target.join(LEDGER)).unwrap()) == records(&original), "{}", path.display());
        let again = sandbox.way(&target, ["import", "beads", copy.to_str().unwrap(), "--json"]).data();
        assert_eq!((&again["counts"]["added"], &again["counts"]["skipped"]), (&json!(0), &first["counts"]["added"]));
        assert!(records(&std::fs::read(target.join(LEDGER)).unwrap()) == records(&original), "{}", path.display());
        let whole = ["list", "--all", "--limit", "0"];
        assert_eq!(ids(&sandbox, &target, &whole), ids(&sandbox, &source, &whole), "{}", path.display());
    }
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
    for args in [&["import", ".", "--dry-run", "--json"], &["import", "backlog", "backlog", "--json"]] as [&[&str]; 2] {
        let answer = sandbox.way(&repo, args).data();
        assert_eq!((counts(&answer).as_str(), answer["format"].as_str()), ("4 0 0 2", Some("backlog")));
        assert_eq!(
            answer["not_carried"],
            json!([
                { "item": "tasks/notes.md", "problem": "no front matter" },
                { "item": "backlog:task-1.1", "problem": "it depends on backlog:task-9, which was not found" },
            ])
        );
    }
    let answer = sandbox.way(&repo, ["import", ".", "--json"]).data();
    assert_eq!(counts(&answer), "0 0 4 1", "the repository's own ledger is not mistaken for an import source");
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
        ("page.txt", 2, "the formats are beads, github, backlog, taskmaster and taskwarrior"),
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

const LEDGERS: &str = r##"{"id":"r-1","title":"Fix, \"quote\" and\nbreak","status":"open","priority":1,"issue_type":"bug","assignee":"@ann","labels":["a","b"],"description":"=HYPERLINK(\"x\")\r\nline two","created_at":"2025-12-01T00:00:00Z"}
{"id":"r-2","title":"# <script>*x*","status":"in_progress","big":123456789012345678901234567890,"dependencies":[{"depends_on_id":"r-1","type":"blocks"},{"depends_on_id":"r-3","type":"child-of"}],"description":"```\n## not a heading\n```"}
{"id":"r-3","title":"Done","status":"closed","priority":0,"closed_at":"2025-12-20T00:00:00Z"}
{"id":"r-4","title":"Gone","status":"tombstone"}
{"_type":"memory","key":"k"}
"##;

/// Parses a table as RFC 4180 defines it.
fn table(text: &str) -> Vec<Vec<String>> {
    let mut rows = vec![vec![String::new()]];
    let mut chars = text.chars().peekable();
    let mut is_quoted = false;
    while let Some(char) = chars.next() {
        let row = rows.last_mut().unwrap();
        match char {
            '"' if is_quoted && chars.next_if_eq(&'"').is_some() => row.last_mut().unwrap().push('"'),
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => row.push(String::new()),
            '\r' if !is_quoted => assert_eq!(chars.peek(), Some(&'\n')),
            '\n' if !is_quoted => rows.push(vec![String::new()]),
            other => row.last_mut().unwrap().push(other),
        }
    }
    assert!(!is_quoted);
    assert_eq!(rows.pop().unwrap(), [""], "the last line ends with a line break");
    rows
}

#[test]
fn a_table_can_be_read_back_and_runs_nothing() {
    let sandbox = sandbox();
    let repo = repo_with(&sandbox, "repo", LEDGERS);
    let columns = "id,title,assignee,labels,description,type,blocked_by,parent";
    let run = sandbox.way(&repo, ["export", "--format", "csv", "--all", "--columns", columns]).ok();
    let rows = table(&run.stdout);
    assert_eq!(rows[0], ["id", "title", "assignee", "labels", "description", "issue_type", "blocked_by", "parent_id"]);
    assert_eq!(
        rows[1],
        ["r-1", "Fix, \"quote\" and\nbreak", "'@ann", "a,b", "'=HYPERLINK(\"x\")\r\nline two", "bug", "", ""]
    );
    assert_eq!(rows[2][6..], ["r-1", "r-3"]);
    assert_eq!(rows.len(), 5, "with --all closed and deleted ones too");
    let rows = table(&sandbox.way(&repo, ["export", "--format", "csv"]).ok().stdout);
    assert_eq!((rows.len(), rows[0].len()), (3, 23));
    assert!(rows.iter().all(|row| row.len() == rows[0].len()));
    let _ = sandbox.way(&repo, ["export", "--columns", "id"]).fails(2);
    let _ = sandbox.way(&repo, ["export", "--format", "csv", "--columns", "size"]).fails(2);
}

#[test]
fn a_markdown_page_is_grouped_and_escapes_markup_in_titles() {
    let sandbox = sandbox();
    let repo = repo_with(&sandbox, "repo", LEDGERS);
    expect![[r#"
        # Issues

        ## In progress (1)

        - [ ] **r-2** \# \<script\>\*x\*
          - P2 task
          - part of r-3
          - waits for r-1

          ````text
          ```
          ## not a heading
          ```
          ````

        ## Open (1)

        - [ ] **r-1** Fix, "quote" and break
          - P1 bug; assignee @ann; labels a, b

          ```text
          =HYPERLINK("x")
          line two
          ```

        ## Closed (1)

        - [x] **r-3** Done
          - P0 task; closed 2025-12-20T00:00:00.000Z
    "#]]
    .assert_eq(
        &sandbox
            .way(&repo, ["export", "--format", "markdown", "-s", "open", "-s", "in_progress", "-s", "closed"])
            .ok()
            .stdout,
    );
}

#[test]
fn records_go_out_as_they_are_and_a_file_is_not_overwritten() {
    let sandbox = sandbox();
    let repo = repo_with(&sandbox, "repo", LEDGERS);
    let all: Vec<&str> = LEDGERS.lines().collect();
    let export = |args: &[&str]| sandbox.way(&repo, [&["export"], args].concat());
    assert_eq!(export(&[]).ok().stdout, format!("{}\n{}\n", all[0], all[1]));
    assert_eq!(export(&["--all"]).ok().stdout, LEDGERS, "a copy of everything");
    assert_eq!(export(&["--all", "--priority", "0"]).ok().stdout, format!("{}\n", all[2]));
    assert_eq!(export(&["--label", "a", "--text", "fix"]).ok().stdout, format!("{}\n", all[0]));
    let list: Value = serde_json::from_str(&export(&["--format", "json"]).ok().stdout).unwrap();
    let shown = sandbox.way(&repo, ["list", "--sort", "id", "--json"]).data();
    assert_eq!(list, shown);
    assert_eq!(export(&["--json"]).data(), shown);
    assert!(export(&["--format", "json"]).ok().stdout.contains("123456789012345678901234567890"));
    assert_eq!(
        export(&["--format", "jsonl", "--json", "--all"]).data(),
        json!({ "format": "jsonl", "content": LEDGERS })
    );
    assert_eq!(export(&["--format", "json", "--label", "none"]).ok().stdout, "[]\n");

    let file = sandbox.path("out.jsonl");
    let output = ["--output", file.to_str().unwrap()];
    let run = export(&[&["--all"], &output[..]].concat()).ok();
    assert_eq!(run.stdout, format!("Wrote 4 issues to {}\n", file.display()));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), LEDGERS);
    let run = export(&output).fails(7);
    assert!(run.stderr.contains("already exists") && run.stderr.contains("--force"), "{}", run.stderr);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), LEDGERS);
    let data = export(&[&["--force", "--json"], &output[..]].concat()).data();
    assert_eq!((&data["issues"], &data["format"]), (&json!(2), &json!("json")));
    assert!(std::fs::read_to_string(&file).unwrap().starts_with("[\n"));
    let _ = export(&["--output", "no/such/dir"]).fails(8);
    let _ = export(&["--force"]).fails(2);
    assert_eq!(std::fs::read_dir(sandbox.path("")).unwrap().count(), 4, "no temporary file is left");
}

#[test]
fn unreadable_bytes_are_part_of_a_copy() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    sandbox.dir("repo/.waypost");
    let bytes = b"{\"id\":\"a\"}\n\xff\xfe\n<<<<<<< HEAD\n{\"id\":\"b\"}";
    sandbox.write(repo.join(LEDGER), bytes);
    let output = sandbox.way_command(&repo).args(["export", "--all"]).output().unwrap();
    assert_eq!(output.stdout, bytes);
    assert!(String::from_utf8_lossy(&output.stderr).contains("2 lines of the ledger cannot be read"));
}
