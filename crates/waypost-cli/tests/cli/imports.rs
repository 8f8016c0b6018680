//! Import of workflows from the databases of other programs.

use std::path::{Path, PathBuf};

use rusqlite::Connection;
use serde_json::Value;
use waypost_core::model::{CheckpointKind, TaskStatus, WorkflowStatus};
use waypost_core::op::{ListCheckpoints, ListInbox, ShowWorkflow, WorkflowPage};
use waypost_testkit::Sandbox;

use crate::agents::{START, claim, session};
use crate::sandbox;

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
        serde_json::json!({ "added": 3, "tasks": 5, "checkpoints": 3, "skipped": 0, "not_carried": 10 })
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
    let list = ListCheckpoints { task: "tk_aaaaaaaaaaa2".to_owned(), workflow: None, before: None, limit: 10 };
    let checkpoints = builder.call(list).unwrap().checkpoints;
    let kinds: Vec<_> = checkpoints.iter().map(|one| (one.sequence, one.kind)).collect();
    assert_eq!(kinds, [(3, CheckpointKind::Progress), (2, CheckpointKind::Decision), (1, CheckpointKind::Progress)]);
    let mut worker = session(&sandbox, &repo, "worker", START, false);
    assert_eq!(worker.call(ListInbox { limit: 9, peek: true }).unwrap().messages[0].message.body, "how far?");
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
        "1 repositories",
        "an agent works on it in caw",
    ] {
        assert!(notes.iter().any(|note| note.contains(part)), "{part}: {notes:#?}");
    }
    assert_eq!(std::fs::read(&file).unwrap(), before, "the database is not modified");
}

#[test]
fn langgraph_threads_become_workflows_with_their_checkpoints() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let file = database(&sandbox, "threads.db", include_str!("../fixtures/langgraph.sql"));
    let path = file.to_str().unwrap();
    let before = std::fs::read(&file).unwrap();
    let data = sandbox.way(&repo, ["import", "langgraph", path, "--json"]).data();
    assert_eq!(
        data["counts"],
        serde_json::json!({ "added": 2, "tasks": 2, "checkpoints": 7, "skipped": 0, "not_carried": 0 })
    );
    assert_eq!(sandbox.way(&repo, ["import", "langgraph", path, "--json"]).data()["counts"]["added"], 0);
    let thread = page(&sandbox, &repo, "issue-42");
    assert_eq!((thread.workflow.workflow.status, thread.tasks[0].task.name.as_str()), (WorkflowStatus::Paused, "main"));
    let mut builder = session(&sandbox, &repo, "builder", START, false);
    let list = ListCheckpoints { task: thread.tasks[0].task.id.to_string(), workflow: None, before: None, limit: 10 };
    let checkpoints = builder.call(list).unwrap().checkpoints;
    let newest = &checkpoints[0];
    assert_eq!((newest.sequence, newest.summary.as_str()), (4, "step 2, loop"));
    let values = &newest.detail["state"]["channel_values"];
    assert_eq!(values["log"], serde_json::json!(["in", "a", "b"]));
    assert_eq!(values["when"], serde_json::json!({ "type": "datetime.datetime", "value": "2026-01-01T00:00:00" }));
    assert_eq!(values["raw"], serde_json::json!({ "base64": "AP8=" }));
    assert_eq!(newest.detail["parent_checkpoint_id"], checkpoints[1].detail["checkpoint_id"]);
    let waiting = page(&sandbox, &repo, "issue-43");
    let list = ListCheckpoints { task: waiting.tasks[0].task.id.to_string(), workflow: None, before: None, limit: 1 };
    let question = builder.call(list).unwrap().checkpoints.remove(0);
    assert!(question.detail["writes"].to_string().contains("sure?"), "{}", question.detail);
    assert_eq!(std::fs::read(&file).unwrap(), before);
    let beside: Vec<_> = std::fs::read_dir(sandbox.path("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!beside.iter().any(|name| name.to_str().unwrap().starts_with("threads.db-")), "{beside:?}");
}

#[test]
fn records_in_a_write_ahead_log_are_imported_and_the_log_is_unchanged() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let path = sandbox.path("live.db");
    let writer = Connection::open(&path).unwrap();
    writer.execute_batch("PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0;").unwrap();
    writer.execute_batch(include_str!("../fixtures/langgraph.sql")).unwrap();
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
    let whole = std::fs::read(database(&sandbox, "whole.db", include_str!("../fixtures/langgraph.sql"))).unwrap();
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
