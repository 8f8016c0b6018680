//! Reads the jobs of PedroCLI, and the settings in `.pedrocli.json`.
//!
//! A job becomes a workflow with one task; its phases, its conversation and its output become checkpoints. The names of
//! the fields are those of its database table, or of the files in which older versions kept jobs.

use serde_json::{Value, json};
use waypost_core::id::{AgentId, CheckpointId, TaskId, WorkflowId};
use waypost_core::model::{Checkpoint, Source, Task, TaskStatus, WorkflowStatus};
use waypost_core::time::Timestamp;
use waypost_core::words::count;

use super::{ImportContext, Imported, Seeded, field_json, field_text, field_time, name_of};

/// The table, with its required columns, in databases of SQLite, which older versions used.
pub const TABLES: &[(&str, &[&str])] = &[("jobs", &["id", "job_type", "status"])];

/// The larger part of a longer conversation is not imported.
const MAX_CONVERSATION_BYTES: usize = 1024 * 1024;
/// The longest time that a job may run here.
const MAX_MINUTES: u64 = 24 * 60;

/// Tells whether a JSON value is the settings file.
pub fn is_settings(value: &Value) -> bool {
    value["model"].is_object() || value["http_bridge"].is_object() || value["project"].is_object()
}

/// Tells whether a JSON value is a job.
pub fn is_job(value: &Value) -> bool {
    value["id"].is_string()
        && value["status"].is_string()
        && (value["job_type"].is_string() || value["type"].is_string())
}

/// Converts jobs.
pub fn read(jobs: &[Value], context: &ImportContext) -> Imported {
    let mut imported = Imported::default();
    let mut sorted: Vec<&Value> = jobs.iter().collect();
    sorted.sort_by_key(|job| (field_time(job, "created_at"), field_text(job, "id")));
    for job in sorted {
        match field_text(job, "id") {
            Some(id) => workflow(&mut imported, context, &id, job),
            None => imported.note("a job", "no id"),
        }
    }
    imported
}

fn workflow(imported: &mut Imported, context: &ImportContext, id: &str, job: &Value) {
    // The field of the database, or of a file.
    let either = |column: &str, field: &str| {
        if job[column].is_null() { field_json(job, field) } else { field_json(job, column) }
    };
    let kind = field_text(job, "job_type").or_else(|| field_text(job, "type")).unwrap_or_else(|| "job".to_owned());
    let input = either("input_payload", "input");
    let description = field_text(job, "description").or_else(|| field_text(&input, "description")).unwrap_or_default();
    let title = description.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let fallback = format!("{kind} {id}");
    let seed = |parts: &[&str]| Seeded::of(&[&["pedrocli", id], parts].concat());
    let mut dump = super::empty(context, WorkflowId::generate(&mut seed(&["job"])), name_of(title, &fallback));
    let created_at = field_time(job, "created_at").unwrap_or(context.now);
    let ended_at = field_time(job, "completed_at");
    let updated_at = field_time(job, "updated_at").or(ended_at).unwrap_or(created_at).max(created_at);
    let workflow = &mut dump.workflow;
    (workflow.created_at, workflow.updated_at) = (created_at, updated_at);
    workflow.source = Source::Prompt;
    workflow.source_ref = Some(format!("pedrocli job {id}"));
    workflow.source_content = Some(description.clone()).filter(|text| !text.is_empty());
    let mut rest = serde_json::Map::new();
    for key in
        ["model_used", "hardware_target", "workflow_type", "current_phase", "work_dir", "workspace_dir", "context_dir"]
    {
        if let Some(text) = field_text(job, key) {
            rest.insert(key.to_owned(), Value::from(text));
        }
    }
    workflow.config = json!({ "pedrocli": rest });

    let mut task = super::task(context, workflow, TaskId::generate(&mut seed(&["task"])), name_of(&kind, "job"), 1);
    task.description = description;
    task.plan = Some(field_json(job, "plan")).filter(|plan| !plan.is_null()).unwrap_or_else(|| json!({}));
    task.acceptance = criteria(&input["criteria"]);
    task.context = if input.is_object() { input } else { json!({}) };
    task.started_at = field_time(job, "started_at");
    let error = field_text(job, "error_message").or_else(|| field_text(job, "error"));
    let output = either("output_payload", "output");
    let status = field_text(job, "status").unwrap_or_default();
    let phase = field_text(job, "current_phase").map(|phase| format!(" in phase {phase}")).unwrap_or_default();
    (workflow.status, workflow.reason) = set_status(&mut task, &status, error, &output, &phase);
    if !["pending", "running", "completed", "failed", "cancelled"].contains(&status.as_str()) {
        imported.note(id, format!("unknown status {status:?}: imported as paused"));
    }
    workflow.started_at = task.started_at.or_else(|| workflow.status.is_final().then_some(created_at));
    workflow.finished_at = workflow.status.is_final().then_some(ended_at.unwrap_or(updated_at));
    task.finished_at = workflow.finished_at.filter(|_| task.status.is_final());

    let author = super::agent(context, AgentId::generate(&mut Seeded::of(&["pedrocli"])), "pedrocli");
    let entries = phases(&field_json(job, "phase_results"))
        .into_iter()
        .chain(conversation(imported, id, &field_json(job, "conversation_history")))
        .chain((!is_empty(&output)).then(|| ("output".to_owned(), json!({ "output": output }), None)));
    for (number, (summary, detail, moment)) in (1..).zip(entries) {
        let checkpoint_id = CheckpointId::generate(&mut seed(&["checkpoint", &number.to_string()]));
        let checkpoint = super::checkpoint(context, checkpoint_id, &task, number, &author);
        let created_at = moment.unwrap_or(updated_at);
        dump.checkpoints.push(Checkpoint { summary, detail, created_at, ..checkpoint });
    }
    dump.tasks.push(task);
    dump.agents.push(author);
    imported.workflows.push(dump);
}

/// Sets the status of a task, and returns that of its workflow with the reason.
fn set_status(
    task: &mut Task,
    status: &str,
    error: Option<String>,
    output: &Value,
    phase: &str,
) -> (WorkflowStatus, Option<String>) {
    match status {
        "completed" => {
            task.status = TaskStatus::Completed;
            let told = ["summary", "message", "result", "pr_url"].iter().find_map(|key| field_text(output, key));
            task.outcome = Some(told.unwrap_or_else(|| "completed in PedroCLI".to_owned()));
            (WorkflowStatus::Completed, None)
        }
        "failed" => {
            let error = error.unwrap_or_else(|| format!("failed in PedroCLI{phase}"));
            (task.status, task.attempts) = (TaskStatus::Dead, task.max_attempts);
            task.error = Some(error.clone());
            (WorkflowStatus::Failed, Some(error))
        }
        "cancelled" => {
            task.status = TaskStatus::Cancelled;
            task.error = error;
            (WorkflowStatus::Cancelled, Some("cancelled in PedroCLI".to_owned()))
        }
        "running" => {
            task.error = error;
            (WorkflowStatus::Paused, Some(format!("it was running in PedroCLI{phase}")))
        }
        _ => {
            task.error = error;
            (WorkflowStatus::Paused, Some(format!("it was {status} in PedroCLI{phase}")))
        }
    }
}

type Entry = (String, Value, Option<Timestamp>);

/// Returns the results of the phases, in the order in which they began.
fn phases(results: &Value) -> Vec<Entry> {
    let named = results.as_object().into_iter().flatten().map(|(name, result)| (name.clone(), result));
    let listed = results.as_array().into_iter().flatten();
    let listed = listed.map(|result| (field_text(result, "phase_name").unwrap_or_default(), result));
    let mut all: Vec<(String, &Value)> = named.chain(listed).collect();
    all.sort_by_key(|(name, result)| (field_time(result, "started_at"), name.clone()));
    let entry = |(name, result): (String, &Value)| {
        let end = match (result["success"].as_bool(), field_text(result, "error")) {
            (_, Some(error)) => format!(" failed: {error}"),
            (Some(false), None) => " failed".to_owned(),
            _ => field_text(result, "output").map(|output| format!(": {output}")).unwrap_or_default(),
        };
        let moment = field_time(result, "completed_at").or_else(|| field_time(result, "started_at"));
        (name_of(&format!("phase {name}{end}"), "a phase"), result.clone(), moment)
    };
    all.into_iter().map(entry).collect()
}

/// Returns the conversation as one entry. Of a long one, only the end is kept.
fn conversation(imported: &mut Imported, job: &str, history: &Value) -> Option<Entry> {
    let all = history.as_array().filter(|all| !all.is_empty())?;
    let mut bytes = 0;
    let fits = |entry: &&Value| {
        bytes += entry.to_string().len();
        bytes <= MAX_CONVERSATION_BYTES
    };
    let mut kept: Vec<&Value> = all.iter().rev().take_while(fits).collect();
    kept.reverse();
    if kept.len() < all.len() {
        let left_out = count(all.len() - kept.len(), "entry");
        let problem = format!("its conversation is long; left out at its beginning: {left_out}");
        imported.note(job, problem);
    }
    let summary = format!("conversation with {}", count(all.len(), "entry"));
    Some((summary, json!({ "conversation": kept }), field_time(all.last()?, "timestamp")))
}

fn criteria(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect(),
        Value::Array(items) => items.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect(),
        _ => Vec::new(),
    }
}

fn is_empty(value: &Value) -> bool {
    value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty)
}

/// Converts the settings that Waypost has too. Paths stay as they are written.
pub fn settings(value: &Value) -> Imported {
    let mut imported = Imported::default();
    let bridge = &value["http_bridge"];
    if let Some(path) = field_text(bridge, "workspace_path") {
        imported.settings.push(("workspaces.path", path));
    }
    if let Some(cleanup) = bridge["cleanup_on_complete"].as_bool() {
        imported.settings.push(("workspaces.cleanup_on_complete", cleanup.to_string()));
    }
    match value["limits"]["max_task_duration_minutes"].as_u64() {
        None | Some(0) => {}
        Some(minutes) if minutes <= MAX_MINUTES => imported.settings.push(("jobs.timeout", format!("{minutes}m"))),
        Some(minutes) => {
            imported.note("limits.max_task_duration_minutes", format!("{minutes} minutes are more than a day"));
        }
    }
    let others: Vec<&str> = value
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, _)| key.as_str())
        .filter(|key| !["http_bridge", "limits", "database", "repo_storage"].contains(key))
        .collect();
    if !others.is_empty() {
        imported.note(others.join(", "), "Waypost has no such settings");
    }
    imported
}

#[cfg(test)]
mod tests {
    use crate::workflows::tests::{context, statuses};

    use super::*;

    #[test]
    fn settings_of_workspaces_and_limits_are_converted() {
        let imported = settings(&json!({
            "model": { "type": "ollama" },
            "limits": { "max_task_duration_minutes": 60 },
            "http_bridge": { "workspace_path": "~/.pedrocli/worktrees", "cleanup_on_complete": true },
        }));
        assert_eq!(
            imported.settings,
            [
                ("workspaces.path", "~/.pedrocli/worktrees".to_owned()),
                ("workspaces.cleanup_on_complete", "true".to_owned()),
                ("jobs.timeout", "60m".to_owned()),
            ]
        );
        assert_eq!(imported.notes, [crate::Note::new("model", "Waypost has no such settings")]);
        let imported = settings(&json!({ "limits": { "max_task_duration_minutes": 9_999 }, "http_bridge": null }));
        assert_eq!((imported.settings.len(), imported.notes.len()), (0, 1));
    }

    /// Jobs of PedroCLI as its table has them.
    const JOBS: &str = r#"[
 {"id":"ca1487e1-4ca9-4a6c-86ac-cd325ec13e4a","job_type":"builder","status":"completed","description":"Add a metric\nfor jobs","input_payload":{"issue":"34","criteria":["It counts"]},"output_payload":{"summary":"PR opened"},"model_used":"qwen","created_at":"2026-01-19T10:00:00","started_at":"2026-01-19T10:00:01","completed_at":"2026-01-19T11:00:00","updated_at":"2026-01-19T11:00:00","workspace_dir":"/w/1","workflow_type":"builder_phased","current_phase":"deliver",
  "phase_results":{"plan":{"phase_name":"plan","success":true,"output":"three steps","started_at":"2026-01-19T10:10:00Z","completed_at":"2026-01-19T10:20:00Z"},"analyze":{"phase_name":"analyze","success":true,"output":"read the code","started_at":"2026-01-19T10:00:01Z","completed_at":"2026-01-19T10:10:00Z"}},
  "plan":{"steps":["a"]},"conversation_history":"[{\"role\":\"user\",\"content\":\"go\",\"timestamp\":\"2026-01-19T10:00:02Z\"}]"},
 {"id":"c821fb7a-fe11-4855-b996-e470bb5f24bc","job_type":"debugger","status":"failed","description":"Find the crash","error_message":"no tests found","created_at":"2026-01-19T12:00:00","updated_at":"2026-01-19T12:30:00"},
 {"id":"c821fb7a-0000-4855-b996-e470bb5f24bc","job_type":"reviewer","status":"running","description":"Review","current_phase":"validate","created_at":"2026-01-19T13:00:00","updated_at":"2026-01-19T13:30:00"},
 {"id":"c821fb7a-1111-4855-b996-e470bb5f24bc","job_type":"triager","status":"cancelled","created_at":"2026-01-19T14:00:00","updated_at":"2026-01-19T14:30:00"}
]"#;

    fn jobs() -> Vec<Value> {
        serde_json::from_str(JOBS).unwrap()
    }

    #[test]
    fn a_job_becomes_a_workflow_with_one_task_that_ended_as_it_did() {
        let imported = read(&jobs(), &context());
        assert_eq!(
            statuses(&imported),
            [
                ("Add a metric", WorkflowStatus::Completed),
                ("Find the crash", WorkflowStatus::Failed),
                ("Review", WorkflowStatus::Paused),
                ("triager c821fb7a-1111-4855-b996-e470bb5f24bc", WorkflowStatus::Cancelled)
            ]
        );
        assert_eq!(imported.notes, []);
        let [built, crash, review, _] = imported.workflows.as_slice() else { panic!("{imported:?}") };
        let task = &built.tasks[0];
        assert_eq!((task.name.as_str(), task.outcome.as_deref()), ("builder", Some("PR opened")));
        assert_eq!((task.acceptance.as_slice(), &task.context["issue"]), (&["It counts".to_owned()][..], &"34".into()));
        let task = &crash.tasks[0];
        assert_eq!((task.status, task.error.as_deref()), (TaskStatus::Dead, Some("no tests found")));
        assert_eq!(review.workflow.reason.as_deref(), Some("it was running in PedroCLI in phase validate"));
    }

    #[test]
    fn phases_conversation_and_output_become_checkpoints_in_the_order_of_time() {
        let imported = read(&jobs(), &context());
        let summaries: Vec<&str> =
            imported.workflows[0].checkpoints.iter().map(|checkpoint| checkpoint.summary.as_str()).collect();
        assert_eq!(
            summaries,
            ["phase analyze: read the code", "phase plan: three steps", "conversation with 1 entry", "output"]
        );
    }

    #[test]
    fn files_of_older_versions_have_other_names_of_fields() {
        let old = json!({
            "id": "job-1", "type": "build", "status": "failed", "input": { "description": "Old" }, "error": "boom",
            "created_at": "2025-12-01T00:00:00.5-07:00", "work_dir": "/x", "context_dir": "/y",
        });
        assert!(is_job(&old) && !is_settings(&old));
        let imported = read(&[old], &context());
        assert_eq!(statuses(&imported), [("Old", WorkflowStatus::Failed)]);
        let dump = &imported.workflows[0];
        assert_eq!((dump.workflow.reason.as_deref(), dump.tasks[0].error.as_deref()), (Some("boom"), Some("boom")));
        assert_eq!(dump.workflow.created_at.to_string(), "2025-12-01T07:00:00.500Z");
    }

    #[test]
    fn a_job_is_the_same_workflow_in_every_import() {
        let ids = || -> Vec<String> {
            read(&jobs(), &context()).workflows.iter().map(|dump| dump.workflow.id.to_string()).collect()
        };
        assert_eq!(ids(), ids());
        assert_eq!(ids().into_iter().collect::<std::collections::BTreeSet<_>>().len(), 4);
    }
}
