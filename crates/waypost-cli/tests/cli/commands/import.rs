//! `way import`: issues from other trackers, and workflows from the databases of other programs.
#![expect(clippy::needless_raw_string_hashes, reason = "that is how expect-test writes them")]

use std::path::PathBuf;

use expect_test::expect;
use rusqlite::Connection;
use serde_json::json;
use waypost_testkit::Sandbox;

use crate::support::exchange::repo_with;
use crate::support::issues::fed;
use crate::support::ledger::LEDGER;
use crate::support::sandbox;

const LANGGRAPH: &str = include_str!("../../../../waypost/tests/fixtures/langgraph_outcomes.sql");

/// Enough of the tables of caw.
const CAW: &str = "
    CREATE TABLE workflows (id TEXT, name TEXT, source_type TEXT, source_content TEXT, status TEXT, created_at INTEGER, updated_at INTEGER);
    CREATE TABLE tasks (id TEXT, workflow_id TEXT, name TEXT, status TEXT, sequence INTEGER, created_at INTEGER, updated_at INTEGER);
    CREATE TABLE task_dependencies (task_id TEXT, depends_on_id TEXT, dependency_type TEXT);
    CREATE TABLE checkpoints (id TEXT, task_id TEXT, sequence INTEGER, checkpoint_type TEXT, summary TEXT, created_at INTEGER);
    INSERT INTO workflows VALUES ('wf_aaaaaaaaaaaa', 'release', 'prompt', 'please', 'in_progress', 1000, 2000);
    INSERT INTO tasks VALUES ('tk_aaaaaaaaaaa1', 'wf_aaaaaaaaaaaa', 'build', 'pending', 1, 1000, 1500);
";

fn database(sandbox: &Sandbox, name: &str, sql: &str) -> PathBuf {
    let path = sandbox.path(name);
    Connection::open(&path).unwrap().execute_batch(sql).unwrap();
    path
}

#[test]
fn issues_are_read_from_standard_input_and_a_file_and_what_was_done_is_told() {
    let sandbox = sandbox();
    let repo =
        repo_with(&sandbox, "repo", "{\"id\":\"m\",\"title\":\"mine\",\"updated_at\":\"2026-01-01T00:00:00Z\"}\n");
    let theirs = "{\"id\":\"z\",\"title\":\"Z\"}\n{\"_type\":\"memory\",\"key\":\"k\"}\n{\"id\":\"m\",\"title\":\"theirs\",\"updated_at\":\"2026-02-01T00:00:00Z\"}\nnoise\n";
    expect![[r#"
        1 added, 0 updated, 1 skipped, 1 not imported
        1 record that is not an issue imported

        Not imported
        ITEM    PROBLEM
        line 4  unreadable: expected ident at line 1 column 2
        --- stderr
        note: nothing was written
    "#]]
    .assert_eq(&fed(&sandbox, &repo, &["import", "beads", "-", "--dry-run"], theirs).whole());
    sandbox.write("repo/theirs.jsonl", theirs);
    let update = ["import", "beads", "theirs.jsonl", "--update", "--json"];
    let dry = sandbox.way(&repo, [&update[..], &["--dry-run"]].concat()).data();
    assert_eq!(
        (&dry["format"], &dry["written"], dry["counts"]["updated"].as_u64()),
        (&json!("beads"), &json!(false), Some(1))
    );
    let answer = sandbox.way(&repo, update).data();
    assert_eq!(answer["counts"], json!({ "added": 1, "updated": 1, "skipped": 0, "not_carried": 1 }));
    assert_eq!(answer["added"], json!([{ "id": "z", "item": "z" }]));
    assert_eq!((&answer["not_carried"][0]["item"], &answer["other_records"]), (&json!("line 4"), &json!(1)));
    assert_eq!(sandbox.way(&repo, ["show", "m", "--json"]).data()["title"], "theirs");
}

#[test]
fn arguments_that_do_not_fit_are_refused_and_nothing_is_written() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    sandbox.write(repo.join("page.txt"), "words\n");
    for (args, code, expected) in [
        ("page.txt", 2, "the formats are beads, github, backlog, taskmaster, taskwarrior, vibe-kanban and csv"),
        ("github", 2, "no file given"),
        ("githup page.txt", 2, "did you mean github?"),
        ("taskwarrior -", 6, "the source contains nothing to import"),
        ("caw -", 2, "cannot read workflows from standard input"),
        ("caw page.txt --update", 2, "--update does not apply to workflows"),
        ("caw", 2, "no file given"),
        ("caw page.txt --thread x", 2, "--thread applies to langgraph only"),
        ("github page.txt --thread x", 2, "--thread applies to langgraph only"),
    ] {
        let run = sandbox.way(&repo, ["import"].into_iter().chain(args.split_whitespace())).fails(code);
        assert!(run.stderr.contains(expected), "{args}: {}", run.stderr);
        assert!(!repo.join(LEDGER).exists(), "{args}");
    }
}

#[test]
fn workflows_are_imported_with_their_statuses_and_a_question_is_answered() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let file = database(&sandbox, "threads.db", LANGGRAPH);
    let path = file.to_str().unwrap();
    let chosen = sandbox.way(&repo, ["import", "langgraph", path, "--thread", "done", "--dry-run", "--json"]).data();
    assert_eq!((&chosen["counts"]["added"], &chosen["written"]), (&1.into(), &false.into()));
    let run = sandbox.way(&repo, ["import", path]).ok();
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
    let again = sandbox.way(&repo, ["import", path, "--json"]).data();
    assert_eq!((&again["counts"]["added"], &again["counts"]["skipped"]), (&0.into(), &5.into()));
    let status = sandbox.way(&repo, ["status"]).ok().stdout;
    assert!(status.contains("Publish the draft?"), "{status}");
    let _ = sandbox.way(&repo, ["task", "answer", "waiting/main", "yes", "--actor", "ann"]).ok();
}

#[test]
fn names_of_threads_do_not_control_the_terminal() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let rows = "CREATE TABLE checkpoints (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata);
        INSERT INTO checkpoints VALUES ('t' || char(27) || '[2J', '', '1', NULL, 'msgpack', X'C1', X'7B7D'),
            ('t' || char(27) || '[2J', 'sub', '3', NULL, 'json', '{\"ts\": \"2026-01-01T00:00:00Z\"}', '{\"step\": 1}')";
    let file = database(&sandbox, "bad.db", rows);
    for args in [&["import", "langgraph", file.to_str().unwrap()][..], &["status"], &["events"]] {
        let shown = sandbox.way(&repo, args).ok().stdout;
        assert!(!shown.contains('\u{1b}'), "{args:?}: {shown:?}");
    }
}

#[test]
fn a_database_of_another_program_named_as_the_store_names_the_import() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let threads = database(&sandbox, "threads.db", LANGGRAPH);
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
    let mut duckdb = vec![0; 64];
    duckdb[8..12].copy_from_slice(b"DUCK");
    sandbox.write("agentdb.duckdb", duckdb);
    let file = sandbox.path("agentdb.duckdb");
    let run = sandbox.way(&repo, ["--db", file.to_str().unwrap(), "status"]).fails(2);
    assert!(run.stderr.contains("way import agentdb"), "{}", run.stderr);
    let run = sandbox.way(&repo, ["import", file.to_str().unwrap()]).fails(2);
    assert!(run.stderr.contains("EXPORT DATABASE 'DIR' (FORMAT json)"), "{}", run.stderr);
}

#[test]
fn a_backup_of_beads_keeps_dependencies_labels_and_comments() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    sandbox.dir("backup");
    for (name, text) in [
        ("issues", "{\"id\":\"bd-1\",\"title\":\"A\"}\n{\"id\":\"bd-2\",\"title\":\"B\"}\n"),
        ("dependencies", "{\"issue_id\":\"bd-2\",\"depends_on_id\":\"bd-1\",\"type\":\"blocks\"}\n"),
        ("labels", "{\"issue_id\":\"bd-1\",\"label\":\"api\"}\n{\"issue_id\":\"gone\",\"label\":\"x\"}\n"),
        ("comments", "{\"id\":\"c1\",\"issue_id\":\"bd-1\",\"author\":\"ann\",\"text\":\"hi\"}\n"),
        ("events", "{}\n{}\n"),
    ] {
        sandbox.write(format!("backup/{name}.jsonl"), text);
    }
    for source in ["../backup", "../backup/issues.jsonl"] {
        let dry = sandbox.way(&repo, ["import", "beads", source, "--dry-run", "--json"]).data();
        assert_eq!(dry["counts"], json!({ "added": 2, "updated": 0, "skipped": 0, "not_carried": 2 }), "{dry}");
        assert!(dry["not_carried"].to_string().contains("2 rows left out"), "{dry}");
    }
    let _ = sandbox.way(&repo, ["import", "beads", "../backup"]).ok();
    let issue = |id: &str| sandbox.way(&repo, ["show", id, "--json"]).data();
    assert_eq!((&issue("bd-1")["labels"], &issue("bd-1")["comments"][0]["text"]), (&json!(["api"]), &json!("hi")));
    assert_eq!(issue("bd-2")["dependencies"][0]["depends_on_id"], "bd-1");
    assert!(sandbox.way(&repo, ["blocked"]).ok().stdout.contains("bd-2"));
}

#[test]
fn issues_that_beads_keeps_in_dolt_are_taken_over_and_never_changed_in_place() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    sandbox.dir("repo/.beads");
    sandbox.write("repo/.beads/metadata.json", "{\"backend\":\"dolt\",\"database\":\"dolt\"}");
    sandbox.write("repo/.beads/config.yaml", "issue-prefix: bd\n");
    let refused = sandbox.way(&repo, ["add", "A second tracker"]).fails(7);
    assert!(refused.stderr.contains("in Dolt") && refused.stderr.contains("bd export"), "{}", refused.stderr);
    assert!(!repo.join(LEDGER).exists());
    let export = "{\"id\":\"wisp-1\",\"title\":\"A\",\"status\":\"open\"}\n{\"id\":\"wisp-2\",\"title\":\"B\"}\n";
    sandbox.write("repo/.beads/issues.jsonl", export);
    for change in [&["add", "x"][..], &["close", "wisp-1"], &["claim", "wisp-1"], &["import", "github", "x.json"]] {
        let refused = sandbox.way(&repo, change);
        assert!(refused.code == 7 || change[0] == "import" && refused.code == 2, "{change:?}: {refused:?}");
    }
    let listed = sandbox.way(&repo, ["list"]);
    assert!(listed.stdout.contains("wisp-1") && listed.stderr.contains("in Dolt"), "{listed:?}");
    assert!(sandbox.way(&repo, ["doctor"]).ok().stdout.contains("in Dolt"));
    let _ = sandbox.way(&repo, ["import", "beads", ".beads/issues.jsonl"]).ok();
    assert_eq!(std::fs::read_to_string(repo.join(".beads/issues.jsonl")).unwrap(), export);
    let added = sandbox.way(&repo, ["add", "Third", "--json"]).data()["id"].clone();
    assert!(added.as_str().unwrap().starts_with("bd-"), "the prefix of beads beats the most frequent one: {added}");
    assert_eq!(sandbox.way(&repo, ["list", "--json"]).data().as_array().unwrap().len(), 3);
    sandbox.write("repo/.beads/config.toml", "x = 1\n");
    for command in ["doctor", "where"] {
        let shown = sandbox.way(&repo, [command]).stdout;
        for file in [".beads/issues.jsonl is not read", ".beads/config.toml is not read"] {
            assert!(shown.contains(file), "{command}: {shown}");
        }
    }
}

#[test]
fn a_table_is_imported_and_its_columns_can_be_named() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    sandbox.write("repo/jira.csv", "Summary,Issue key,Status\r\n\"Log in, please\",OPS-1,In Progress\r\n");
    sandbox.write("repo/own.csv", "Nr,What\n1,First\n");
    let _ = sandbox.way(&repo, ["import", "jira.csv"]).ok();
    let _ = sandbox.way(&repo, ["import", "csv", "own.csv"]).fails(2);
    let _ = sandbox.way(&repo, ["import", "csv", "own.csv", "--map", "id=Nr,title=What"]).ok();
    let listed = sandbox.way(&repo, ["list", "--json"]).data();
    let titles: Vec<&str> = listed.as_array().unwrap().iter().map(|issue| issue["title"].as_str().unwrap()).collect();
    assert_eq!(titles.len(), 2, "{listed}");
    assert!(titles.contains(&"Log in, please") && titles.contains(&"First"), "{listed}");
    assert!(sandbox.way(&repo, ["import", "beads", "own.csv", "--map", "id=Nr"]).fails(2).stderr.contains("--map"));
    let again = sandbox.way(&repo, ["import", "jira.csv", "--json"]).data();
    assert_eq!(again["counts"]["skipped"], 1, "{again}");
}
