//! Workflows, templates and settings of other programs, imported into the store.

use std::path::{Path, PathBuf};

use rusqlite::Connection;
use serde_json::json;
use waypost::import::workflows::{Outcome, Program, Request, import};
use waypost::machine::config::Layer;
use waypost::machine::place::Scope;
use waypost::model::{CheckpointKind, TaskStatus, WorkflowQuery, WorkflowStatus};
use waypost::op::{self, CheckpointList, ListCheckpoints, ListInbox, ShowWorkflow, WorkflowPage};
use waypost::{Kind, Result};
use waypost_testkit::Postgres;

use crate::desk::{Desk, refusal};

const LANGGRAPH: &str = include_str!("../fixtures/langgraph.sql");
const LANGGRAPH_OUTCOMES: &str = include_str!("../fixtures/langgraph_outcomes.sql");

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

/// Jobs of PedroCLI as its table has them.
const PEDROCLI: &str = r#"[
 {"id":"ca1487e1-4ca9-4a6c-86ac-cd325ec13e4a","job_type":"builder","status":"completed","description":"Add a metric","output_payload":{"summary":"PR opened"},"created_at":"2026-01-19T10:00:00","completed_at":"2026-01-19T11:00:00","updated_at":"2026-01-19T11:00:00",
  "phase_results":{"plan":{"phase_name":"plan","success":true,"output":"three steps","started_at":"2026-01-19T10:10:00Z"}}},
 {"id":"c821fb7a-fe11-4855-b996-e470bb5f24bc","job_type":"debugger","status":"failed","description":"Find the crash","error_message":"no tests found","created_at":"2026-01-19T12:00:00","updated_at":"2026-01-19T12:30:00"}
]"#;

const JOBS: [(&str, WorkflowStatus); 2] =
    [("Add a metric", WorkflowStatus::Completed), ("Find the crash", WorkflowStatus::Failed)];

fn database(desk: &Desk, name: &str, sql: &str) -> PathBuf {
    let path = desk.sandbox.path(name);
    Connection::open(&path).unwrap().execute_batch(sql).unwrap();
    path
}

fn try_taking(desk: &Desk, program: Program, source: &Path, threads: &[&str]) -> Result<Outcome> {
    let threads: Vec<String> = threads.iter().map(|&thread| thread.to_owned()).collect();
    desk.enter(|place| {
        let request = Request { program, source, threads: &threads, update: false, dry_run: false };
        import(&mut waypost::app::session::Session::create(place)?, request)
    })
}

/// Imports everything of a source.
#[track_caller]
fn take(desk: &Desk, program: Program, source: &Path) -> Outcome {
    try_taking(desk, program, source, &[]).unwrap()
}

fn take_dry(desk: &Desk, program: Program, source: &Path) -> Outcome {
    desk.session(|session| import(session, Request { program, source, threads: &[], update: false, dry_run: true }))
}

fn page(desk: &Desk, reference: &str) -> WorkflowPage {
    let show = ShowWorkflow { workflow: reference.to_owned() };
    desk.agent("looker").session(|session| session.call(show))
}

fn checkpoints(desk: &Desk, task: &str) -> CheckpointList {
    let list: ListCheckpoints = op::decode(&json!({ "task": task, "limit": 10 })).unwrap();
    desk.agent("looker").session(|session| session.call(list))
}

fn names(outcome: &Outcome) -> Vec<&str> {
    outcome.added.iter().map(|one| one.name.as_str()).collect()
}

fn statuses(outcome: &Outcome) -> Vec<(&str, WorkflowStatus)> {
    outcome.added.iter().map(|one| (one.name.as_str(), one.status)).collect()
}

fn notes(outcome: &Outcome) -> Vec<String> {
    outcome.notes.iter().map(|note| format!("{}: {}", note.item, note.problem)).collect()
}

#[test]
fn a_caw_database_becomes_workflows_and_skipped_records_are_listed() {
    let desk = Desk::new();
    let file = database(&desk, "caw.db", CAW);
    let before = std::fs::read(&file).unwrap();
    assert_eq!(take_dry(&desk, Program::Caw, &file).added.len(), 3);
    let outcome = take(&desk, Program::Caw, &file);
    let sum = |count: fn(&waypost::work::transfer::Moved) -> usize| outcome.added.iter().map(count).sum::<usize>();
    assert_eq!((outcome.added.len(), sum(|one| one.tasks), sum(|one| one.checkpoints)), (3, 5, 3));
    assert!(outcome.skipped.is_empty() && outcome.repositories.is_empty() && outcome.templates.is_empty());
    assert_eq!((outcome.settings.len(), outcome.notes.len()), (0, 9));
    let again = take(&desk, Program::Caw, &file);
    assert_eq!((again.added.len(), again.skipped.len()), (0, 3), "a second import adds nothing");

    let release = page(&desk, "wf_aaaaaaaaaaaa");
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
    assert_eq!(page(&desk, "wf_bbbbbbbbbbbb").workflow.workflow.status, WorkflowStatus::Cancelled);

    let checkpoints = checkpoints(&desk, "tk_aaaaaaaaaaa2").checkpoints;
    let kinds: Vec<_> = checkpoints.iter().map(|one| (one.checkpoint.sequence, one.checkpoint.kind)).collect();
    assert_eq!(kinds, [(3, CheckpointKind::Progress), (2, CheckpointKind::Decision), (1, CheckpointKind::Progress)]);
    let inbox = ListInbox { limit: 9, peek: true, after: None };
    let inbox = desk.agent("worker").session(|session| session.call(inbox));
    assert_eq!(inbox.messages[0].message.body, "how far?");
    // Another agent can continue from the last checkpoint.
    let claimed = desk.agent("builder").session(|session| {
        session.call(op::ResumeWorkflow { workflow: "release".to_owned() })?;
        session.call(op::decode::<op::ClaimTask>(&json!({ "task": "release/test" }))?)
    });
    assert!(claimed.context.text.contains("the same number"), "{}", claimed.context.text);

    let notes = notes(&outcome);
    for part in [
        "orphan tk_ooooooooooo1",
        "closes a cycle",
        "not tasks of one workflow",
        "\"musing\"",
        "\"wobbling\"",
        "1 memory",
        "1 message",
        "an agent works on it in caw",
    ] {
        assert!(notes.iter().any(|note| note.contains(part)), "{part}: {notes:#?}");
    }
    assert_eq!(std::fs::read(&file).unwrap(), before, "the database is not modified");
}

#[test]
fn templates_of_caw_are_imported_from_its_database_and_its_files() {
    let desk = Desk::new();
    let template = r#"{"tasks":[{"name":"write {{topic}}","description":"For {{audience}}","estimated_complexity":"low","files_likely_affected":["docs/{{topic}}.md"]},{"name":"check","depends_on":["write {{topic}}"],"parallel_group":"late"}],"variables":["topic","unused"]}"#;
    let sql = format!(
        "{CAW} CREATE TABLE workflow_templates (id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, description TEXT, template TEXT NOT NULL, version INTEGER NOT NULL DEFAULT 1, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL);
        INSERT INTO workflow_templates VALUES ('tmpl_aaaaaaaaaaaa', 'docs', 'Writes a page', '{template}', 1, 1, 1), ('tmpl_aaaaaaaaaaab', 'circle', NULL, '{{\"tasks\":[{{\"name\":\"a\",\"depends_on\":[\"a\"]}}]}}', 1, 1, 1), ('tmpl_aaaaaaaaaaac', 'bugfix', NULL, '{{\"tasks\":[{{\"name\":\"older\"}}]}}', 1, 1, 1);"
    );
    desk.write(
        ".caw/templates/bugfix.yaml",
        "name: bugfix\ndescription: Fixes a bug\nvariables:\n  - name: bug\n    description: Its number\n    required: false\ntasks:\n  - name: reproduce {{bug}}\n  - name: fix\n    depends_on: ['reproduce {{bug}}']\n",
    );
    desk.write(".caw/templates/broken.json", "{");
    database(&desk, "repo/.caw/workflows.db", &sql);
    let source = desk.dir.clone();
    take_dry(&desk, Program::Caw, &source);
    let templates = || desk.run("list_templates", json!({}))["templates"].clone();
    assert_eq!(templates(), json!([]));
    let outcome = take(&desk, Program::Caw, &source);
    let taken: Vec<_> = outcome.templates.iter().map(|one| (one.name.as_str(), one.is_new)).collect();
    assert_eq!(
        taken,
        [("bugfix", true), ("docs", true), ("bugfix", false)],
        "a file comes before the database, as in caw"
    );
    let notes = notes(&outcome);
    for part in ["broken.json", "template docs: no task uses its variable unused", "template circle: "] {
        assert!(notes.iter().any(|note| note.contains(part)), "{part}: {notes:#?}");
    }
    assert!(take(&desk, Program::Caw, &source).templates.iter().all(|one| !one.is_new));
    // They work here.
    let values = json!({ "template": "docs", "name": "page", "values": { "topic": "intro", "audience": "all" } });
    desk.run("apply_template", values);
    let page = page(&desk, "page");
    let tasks: Vec<&str> = page.tasks.iter().map(|seen| seen.task.name.as_str()).collect();
    assert_eq!(tasks, ["write intro", "check"]);
    assert_eq!(
        (&page.tasks[1].depends_on, &page.tasks[0].task.files),
        (&vec!["write intro".into()], &vec!["docs/intro.md".into()])
    );
    assert_eq!(page.tasks[0].task.context["estimated_complexity"], "low");
    let shown = desk.run("show_template", json!({ "name": "bugfix" }));
    assert_eq!(shown["variables"][0], json!({ "name": "bug", "description": "Its number", "default": "" }));
}

#[test]
fn workflows_of_caw_keep_their_repositories() {
    let desk = Desk::new();
    let backend = desk.repository("backend");
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
        desk.dir.display(),
        backend.dir.display()
    );
    let file = database(&desk, "caw.db", &sql);

    // A store of one repository takes its own workflows, and those of a repository that is not here.
    let outcome = take(&desk, Program::Caw, &file);
    assert_eq!(names(&outcome), ["release", "gone", "odd", "mine", "lost"]);
    let told = notes(&outcome);
    for part in [
        "theirs wf_eeeeeeeeeeee: it belongs to another repository",
        "both wf_ffffffffffff: it spans several repositories",
        "/elsewhere: not a repository on this machine",
    ] {
        assert!(told.iter().any(|note| note.contains(part)), "{part}: {told:#?}");
    }
    assert!(!told.iter().any(|note| note.contains("tk_eeeeeeeeeee1")), "{told:#?}");

    // A shared store keeps all of them.
    let shared = desk.with_scope(Scope::Global);
    let outcome = take(&shared, Program::Caw, &file);
    assert_eq!(names(&outcome).len(), 7);
    let repositories: Vec<&str> = outcome.repositories.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(repositories, ["backend"]);
    let known = shared.session(|session| session.call(op::ListRepositories::all())).repositories;
    let id = |name: &str| known.iter().find(|seen| seen.repository.name == name).unwrap().repository.id.to_string();
    let of = |workflow: &str| -> Vec<Option<String>> {
        let tasks = page(&shared, workflow).tasks;
        tasks.iter().map(|seen| seen.task.repository_id.as_ref().map(ToString::to_string)).collect()
    };
    assert_eq!(of("wf_ffffffffffff"), [Some(id("backend")), None]);
    assert_eq!(of("wf_eeeeeeeeeeee"), [Some(id("backend"))]);
    assert_eq!(of("wf_dddddddddddd"), [Some(id("repo"))]);
    assert_eq!(id("elsewhere"), "rp_aaaaaaaaaaaa", "a repository of another machine keeps its id");
    assert!(take(&shared, Program::Caw, &file).repositories.is_empty());
}

#[test]
fn jobs_of_pedrocli_become_workflows() {
    let desk = Desk::new();
    let path = desk.sandbox.path("jobs.json");
    desk.sandbox.write(&path, PEDROCLI);
    assert_eq!(statuses(&take(&desk, Program::Pedrocli, &path)), JOBS);
    let again = take(&desk, Program::Pedrocli, &path);
    assert_eq!((again.added.len(), again.skipped.len()), (0, 2));
    let crash = page(&desk, "Find the crash").tasks.remove(0).task;
    assert_eq!((crash.status, crash.error.as_deref()), (TaskStatus::Dead, Some("no tests found")));

    // The files of older versions: one that cannot be read does not prevent importing the others.
    let old = desk.repository("old");
    old.write("job-1.json", r#"{"id":"job-1","type":"build","status":"failed","input":{"description":"Old"},"error":"boom","created_at":"2025-12-01T00:00:00Z"}"#);
    old.write("job-2.json", "{");
    let outcome = take(&old, Program::Pedrocli, &old.dir);
    assert_eq!((names(&outcome), outcome.notes.len()), (vec!["Old"], 1));

    // Its SQLite database.
    let other = desk.repository("sqlite");
    let file = database(
        &desk,
        "pedrocli.db",
        "CREATE TABLE jobs (id TEXT PRIMARY KEY, job_type TEXT, status TEXT, input_payload TEXT, error_message TEXT, created_at TIMESTAMP, description TEXT);
         CREATE TABLE job_artifacts (id TEXT);
         INSERT INTO jobs VALUES ('j-1', 'builder', 'pending', '{\"issue\": \"7\"}', NULL, '2026-01-04 10:00:00', 'Build it');",
    );
    assert_eq!(waypost::import::workflows::detect(&file), Some(Program::Pedrocli));
    assert_eq!(statuses(&take(&other, Program::Pedrocli, &file)), [("Build it", WorkflowStatus::Paused)]);
    assert_eq!(page(&other, "Build it").tasks[0].task.context["issue"], "7");
    let wrong = desk.sandbox.path("other.json");
    desk.sandbox.write(&wrong, "{\"x\":1}");
    let said = refusal(Kind::Invalid, try_taking(&desk, Program::Pedrocli, &wrong, &[]));
    assert!(said.contains("psql -Atc"), "{said}");
}

#[test]
fn jobs_of_pedrocli_are_read_from_postgresql() {
    let desk = Desk::new();
    let server = Postgres::shared();
    server.psql(
        "CREATE SCHEMA pedrocli; SET search_path TO pedrocli;
        CREATE TABLE jobs (id UUID PRIMARY KEY, job_type VARCHAR(100) NOT NULL, status VARCHAR(50) NOT NULL DEFAULT 'pending', input_payload JSONB, output_payload JSONB, model_used VARCHAR(200), hardware_target VARCHAR(50), error_message TEXT, started_at TIMESTAMP, completed_at TIMESTAMP, created_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, updated_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, description TEXT, work_dir VARCHAR(512), context_dir VARCHAR(512), conversation_history TEXT DEFAULT '[]', workflow_type VARCHAR(50), current_phase VARCHAR(50), phase_results JSONB DEFAULT '{}', plan JSONB, phase_started_at TIMESTAMP);",
    );
    let jobs = PEDROCLI.replace('\'', "''");
    server.psql(&format!(
        "SET search_path TO pedrocli; INSERT INTO jobs SELECT * FROM jsonb_populate_recordset(NULL::jobs, '{jobs}'::jsonb);"
    ));
    let outcome = take(&desk, Program::Pedrocli, Path::new(&server.url_of("pedrocli")));
    assert_eq!(statuses(&outcome), JOBS);
    assert_eq!(outcome.added[0].checkpoints, 2, "a phase and the output");
    let nowhere = server.url_of("nowhere");
    let said = refusal(Kind::NotFound, try_taking(&desk, Program::Pedrocli, Path::new(&nowhere), &[]));
    assert!(said.contains("has no table nowhere.jobs"), "{said}");
}

#[test]
fn settings_of_pedrocli_are_imported_and_replace_none_unasked() {
    let desk = Desk::new();
    desk.write(
        ".pedrocli.json",
        r#"{"model":{"type":"ollama"},"limits":{"max_task_duration_minutes":60},"http_bridge":{"workspace_path":"~/.pedrocli/worktrees","cleanup_on_complete":true}}"#,
    );
    desk.set("jobs.timeout", "5m");
    let config = |key: &str| desk.place().unwrap().config.text(key).unwrap();
    let file = desk.path(".pedrocli.json");
    let dry = take_dry(&desk, Program::Pedrocli, &file);
    assert_eq!(dry.settings.iter().filter(|one| one.is_new).count(), 2);
    assert_eq!(config("workspaces.cleanup_on_complete"), "false");
    let outcome = take(&desk, Program::Pedrocli, &desk.dir);
    let taken: Vec<_> = outcome.settings.iter().map(|one| (one.key, one.value.as_str(), one.is_new)).collect();
    assert_eq!(
        taken,
        [
            ("workspaces.path", "~/.pedrocli/worktrees", true),
            ("workspaces.cleanup_on_complete", "true", true),
            ("jobs.timeout", "60m", false),
        ]
    );
    assert_eq!(outcome.notes[0].item, "model");
    let setting = desk.place().unwrap().config.get("workspaces.cleanup_on_complete").unwrap();
    assert_eq!((setting.value.to_string().as_str(), setting.layer), ("true", Layer::Private));
    assert_eq!(config("jobs.timeout"), "5m");
    assert!(!desk.git(["status", "--porcelain"]).contains(".waypost"));
    let request = Request { program: Program::Pedrocli, source: &desk.dir, threads: &[], update: true, dry_run: false };
    desk.session(|session| import(session, request));
    assert_eq!(config("jobs.timeout"), "60m");
}

#[test]
fn an_agentdb_is_imported_from_the_json_that_duckdb_exports() {
    let desk = Desk::new();
    // DuckDB writes one object per line, and times without a zone.
    let export = desk.in_dir("export");
    let sync = |id: &str, pattern: &str, minute: u32| {
        format!(
            r#"{{"sync_id":"{id}","agent_id":"claude-code","worktree_path":null,"pattern":"{pattern}","status":"completed","created_at":"2025-11-30 10:{minute:02}:00","metadata":{{}},"trigger_agent_id":null}}"#
        )
    };
    let rows = [sync("s2", "phase_2_plan", 2), sync("s1", "phase_1_specify", 1)];
    export.write("agent_synchronizations.json", rows.join("\n"));
    export.write(
        "workflow_records.json",
        r#"{"record_id":"r-1","record_datetimestamp":"2025-11-30 11:00:00","object_id":"task_T1","object_type":"task","object_state":"99_done","object_metadata":{}}"#,
    );
    export.write("schema.sql", "CREATE TABLE x;");
    let outcome = take(&desk, Program::Agentdb, &export.dir);
    assert_eq!(names(&outcome), ["main", "agentdb records"]);
    let main = page(&desk, "main");
    let tasks: Vec<_> = main.tasks.iter().map(|seen| (seen.task.name.as_str(), seen.task.status)).collect();
    assert_eq!(
        tasks[1..3],
        [("phase_2_plan", TaskStatus::Completed), ("phase_3_tasks", TaskStatus::Pending)],
        "the remaining phases can be done here"
    );
    assert!(take(&desk, Program::Agentdb, &export.dir).added.is_empty());

    // The database itself: the error says how to export it.
    let mut duckdb = vec![0; 64];
    duckdb[8..12].copy_from_slice(b"DUCK");
    let file = desk.sandbox.path("agentdb.duckdb");
    desk.sandbox.write(&file, duckdb);
    let parquet = desk.in_dir("parquet");
    parquet.write("agent_synchronizations.parquet", "PAR1");
    assert_eq!(waypost::import::workflows::detect(&file), Some(Program::Agentdb));
    for source in [&file, &parquet.dir] {
        let said = refusal(Kind::Invalid, try_taking(&desk, Program::Agentdb, source, &[]));
        assert!(said.contains("EXPORT DATABASE 'DIR' (FORMAT json)"), "{said}");
    }
}

#[test]
fn langgraph_threads_become_workflows_with_their_checkpoints() {
    let desk = Desk::new();
    let file = database(&desk, "threads.db", LANGGRAPH);
    let before = std::fs::read(&file).unwrap();
    let outcome = take(&desk, Program::Langgraph, &file);
    let sum = |count: fn(&waypost::work::transfer::Moved) -> usize| outcome.added.iter().map(count).sum::<usize>();
    assert_eq!((outcome.added.len(), sum(|one| one.tasks), sum(|one| one.checkpoints)), (2, 2, 7));
    assert_eq!((outcome.skipped.len(), outcome.notes.len()), (0, 0));
    assert!(take(&desk, Program::Langgraph, &file).added.is_empty());
    let thread = page(&desk, "issue-42");
    assert_eq!(
        (thread.workflow.workflow.status, thread.tasks[0].task.name.as_str()),
        (WorkflowStatus::Completed, "main")
    );
    let of = |page: &WorkflowPage| checkpoints(&desk, page.tasks[0].task.id.as_str()).checkpoints;
    let checkpoints = of(&thread);
    let newest = &checkpoints[0];
    assert_eq!((newest.checkpoint.sequence, newest.checkpoint.summary.as_str()), (4, "step 2, loop"));
    let values = &newest.checkpoint.detail["state"]["channel_values"];
    assert_eq!(values["log"], json!(["in", "a", "b"]));
    assert_eq!(values["when"], json!({ "type": "datetime.datetime", "value": "2026-01-01T00:00:00" }));
    assert_eq!(values["raw"], json!({ "base64": "AP8=" }));
    assert_eq!(newest.checkpoint.detail["parent_checkpoint_id"], checkpoints[1].checkpoint.detail["checkpoint_id"]);
    let question = &of(&page(&desk, "issue-43"))[0];
    assert!(question.checkpoint.detail["writes"].to_string().contains("sure?"), "{}", question.checkpoint.detail);
    assert_eq!(std::fs::read(&file).unwrap(), before);
    let beside = std::fs::read_dir(desk.sandbox.path("")).unwrap().map(|entry| entry.unwrap().file_name());
    let beside: Vec<_> = beside.collect();
    assert!(!beside.iter().any(|name| name.to_str().unwrap().starts_with("threads.db-")), "{beside:?}");
}

#[test]
fn langgraph_threads_keep_how_they_ended() {
    let desk = Desk::new();
    let file = database(&desk, "threads.db", LANGGRAPH_OUTCOMES);
    assert_eq!(
        statuses(&take(&desk, Program::Langgraph, &file)),
        [
            ("crashed", WorkflowStatus::Failed),
            ("done", WorkflowStatus::Completed),
            ("refused", WorkflowStatus::Failed),
            ("stopped", WorkflowStatus::Paused),
            ("waiting", WorkflowStatus::Paused)
        ]
    );
    let task = |thread: &str| page(&desk, thread).tasks.remove(0).task;
    let crashed = task("crashed");
    assert_eq!(
        (crashed.status, crashed.error.as_deref()),
        (TaskStatus::Dead, Some("ValueError('no network: host unreachable')"))
    );
    assert_eq!(page(&desk, "crashed").workflow.workflow.reason, crashed.error);
    let refused = task("refused");
    assert_eq!((refused.status, refused.error.as_deref()), (TaskStatus::Dead, Some("the brief is empty")));
    let done = task("done");
    assert_eq!(done.status, TaskStatus::Completed);
    assert_eq!(done.finished_at, page(&desk, "done").workflow.workflow.finished_at);
    let stopped = page(&desk, "stopped");
    assert_eq!(stopped.workflow.workflow.reason.as_deref(), Some("the thread stopped before file"));
    assert_eq!(stopped.tasks[0].task.status, TaskStatus::Pending);
    let waiting = page(&desk, "waiting");
    let parts: Vec<_> = waiting.tasks.iter().map(|seen| seen.task.status).collect();
    assert_eq!(parts, [TaskStatus::WaitingInput, TaskStatus::Skipped], "the subgraph continues with the thread");
    assert_eq!(waiting.tasks[0].task.question.as_deref(), Some("Publish the draft? {\"choices\":[\"yes\",\"no\"]}"));

    // A person answers the question, and an agent continues with the answer.
    let ann = desk.person("ann");
    ann.run("answer_question", json!({ "task": "waiting/main", "answer": "yes" }));
    ann.run("resume_workflow", json!({ "workflow": "waiting" }));
    let claim: op::ClaimTask = op::decode(&json!({ "task": "waiting/main" })).unwrap();
    let claimed = desk.agent("builder").session(|session| session.call(claim));
    assert!(claimed.context.text.contains("yes"), "{}", claimed.context.text);
}

#[test]
fn chosen_threads_are_imported_and_an_unknown_one_is_refused() {
    let desk = Desk::new();
    let file = database(&desk, "threads.db", LANGGRAPH_OUTCOMES);
    let take = |threads: &[&str]| try_taking(&desk, Program::Langgraph, &file, threads);
    let outcome = take(&["done", "waiting"]).unwrap();
    assert_eq!(names(&outcome), ["done", "waiting"]);
    assert_eq!(notes(&outcome), Vec::<String>::new(), "writes of the other threads are no problem");
    let said = refusal(Kind::NotFound, take(&["watiing"]));
    assert!(said.contains("did you mean waiting?"), "{said}");
    assert_eq!(take(&[]).unwrap().added.len(), 3);
}

#[test]
fn threads_of_two_databases_with_one_name_are_two_workflows() {
    let desk = Desk::new();
    let [one, two] = ["one.db", "two.db"].map(|name| database(&desk, name, LANGGRAPH_OUTCOMES));
    // Another run of a thread with the same name has other checkpoints.
    Connection::open(&two)
        .unwrap()
        .execute_batch(
            "UPDATE checkpoints SET checkpoint_id = '9' || checkpoint_id; UPDATE writes SET checkpoint_id = '9' || checkpoint_id;",
        )
        .unwrap();
    for file in [one, two] {
        let take = || try_taking(&desk, Program::Langgraph, &file, &["stopped"]).unwrap();
        assert_eq!(take().added.len(), 1);
        let again = take();
        assert_eq!((again.added.len(), again.skipped.len()), (0, 1));
    }
    let list = op::ListWorkflows { query: WorkflowQuery { limit: 10, ..WorkflowQuery::default() } };
    let workflows = desk.session(|session| session.call(list)).workflows;
    assert_eq!(workflows.len(), 2);
    assert_ne!(workflows[0].workflow.id, workflows[1].workflow.id);
}

#[test]
fn records_in_a_write_ahead_log_are_imported_and_the_log_is_unchanged() {
    let desk = Desk::new();
    let path = desk.sandbox.path("live.db");
    let writer = Connection::open(&path).unwrap();
    writer.execute_batch("PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0;").unwrap();
    writer.execute_batch(LANGGRAPH).unwrap();
    let read = || ["live.db", "live.db-wal"].map(|name| std::fs::read(desk.sandbox.path(name)).unwrap());
    let files = read();
    assert!(files[1].len() > files[0].len(), "everything is in the log");
    let outcome = take(&desk, Program::Langgraph, &path);
    assert_eq!(outcome.added.iter().map(|one| one.checkpoints).sum::<usize>(), 7);
    assert_eq!(read(), files);
    let left = std::fs::read_dir(desk.path(".git/waypost")).unwrap();
    assert!(!left.into_iter().any(|entry| entry.unwrap().file_name().to_str().unwrap().starts_with("import-")));
}

#[test]
fn hostile_databases_are_refused_cleanly_and_bad_rows_are_listed() {
    let desk = Desk::new();
    let refuse = |name: &str, kind: Kind| {
        refusal(kind, try_taking(&desk, Program::Langgraph, &desk.sandbox.path(name), &[]));
    };
    desk.sandbox.write("text.db", "no database");
    refuse("text.db", Kind::Invalid);
    refuse("nothing.db", Kind::NotFound);
    desk.sandbox.dir("folder.db");
    refuse("folder.db", Kind::Invalid);
    database(&desk, "other.db", "CREATE TABLE other (x)");
    refuse("other.db", Kind::Invalid);
    database(&desk, "columns.db", "CREATE TABLE checkpoints (thread_id, checkpoint_id)");
    refuse("columns.db", Kind::Invalid);
    let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS thread_id, i AS checkpoint_ns, i AS checkpoint_id, i AS parent_checkpoint_id, i AS type, i AS checkpoint, i AS metadata FROM n";
    database(&desk, "view.db", &format!("CREATE VIEW checkpoints AS {endless}"));
    refuse("view.db", Kind::Invalid);
    let whole = std::fs::read(database(&desk, "whole.db", LANGGRAPH)).unwrap();
    desk.sandbox.write("cut.db", &whole[..whole.len() / 2]);
    refuse("cut.db", Kind::Damaged);
    let mut garbled = whole;
    garbled[100..4096].fill(0xff);
    desk.sandbox.write("garbled.db", garbled);
    refuse("garbled.db", Kind::Damaged);

    let rows = "CREATE TABLE checkpoints (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata);
        INSERT INTO checkpoints VALUES
            ('t' || char(27) || '[2J', '', '1', NULL, 'msgpack', X'C1', X'7B7D'),
            ('t' || char(27) || '[2J', '', '2', NULL, 'pickle', X'80', X'C1'),
            ('t' || char(27) || '[2J', 'sub', '3', NULL, 'json', '{\"ts\": \"2026-01-01T00:00:00Z\", \"a\": \"\\u0000\"}', '{\"step\": 1}'),
            (NULL, '', NULL, NULL, NULL, NULL, NULL),
            ('" .to_owned() + &"long".repeat(100) + "', '', '9', NULL, 'msgpack', zeroblob(100), NULL)";
    let outcome = take(&desk, Program::Langgraph, &database(&desk, "bad.db", &rows));
    let checkpoints: usize = outcome.added.iter().map(|one| one.checkpoints).sum();
    assert_eq!((outcome.added.len(), checkpoints, outcome.notes.len()), (2, 4, 5), "{:?}", outcome.notes);
}
