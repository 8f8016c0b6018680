//! Reads the tables of an AgentDB (`agentdb.duckdb`) from the JSON files that DuckDB exports.
//!
//! The phases that a worktree recorded become a workflow, with the phases that remain; each record becomes a checkpoint.
//! Records of other objects become one workflow with a task for each object.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use waypost_core::id::{AgentId, CheckpointId, TaskId, WorkflowId};
use waypost_core::model::{Agent, Checkpoint, Dependency, DependencyKind, TaskStatus, WorkflowStatus};
use waypost_core::work::transfer::WorkflowDump;

use super::{ImportContext, Imported, Seeded, field_json, field_text, field_time, free_name, name_of};

/// The names of the tables that are read.
pub const TABLES: &[&str] = &["agent_synchronizations", "sync_executions", "workflow_records", "sync_audit_trail"];

/// The phases of a workflow, in order, of both versions.
const PHASES: &[&[&str]] = &[
    &[
        "phase_1_specify",
        "phase_2_plan",
        "phase_3_tasks",
        "phase_4_implement",
        "phase_5_integrate",
        "phase_6_release",
        "phase_7_backmerge",
    ],
    &["phase_v7x1_1_worktree", "phase_v7x1_2_integrate", "phase_v7x1_3_release", "phase_v7x1_4_backmerge"],
];

/// The patterns that record the result of a quality gate.
const GATE_PASSED: &str = "quality_gate_passed";
const GATE_FAILED: &str = "quality_gate_failed";

/// Converts exported tables: rows by the name of their table.
pub fn read(tables: &BTreeMap<String, Vec<Value>>, context: &ImportContext) -> Imported {
    let mut imported = Imported::default();
    let rows = |table: &str| tables.get(table).into_iter().flatten();
    let mut executions: BTreeMap<String, Vec<&Value>> = BTreeMap::new();
    for row in rows("sync_executions") {
        executions.entry(field_text(row, "sync_id").unwrap_or_default()).or_default().push(row);
    }
    // Rules of the synchronization engine are in the table of its records.
    let (rules, records): (Vec<&Value>, Vec<&Value>) =
        rows("agent_synchronizations").partition(|row| field_text(row, "trigger_agent_id").is_some());
    let mut worktrees: BTreeMap<String, Vec<&Value>> = BTreeMap::new();
    for row in records {
        worktrees.entry(field_text(row, "worktree_path").unwrap_or_default()).or_default().push(row);
    }
    for (worktree, rows) in worktrees {
        let dump = phases(context, &worktree, rows, &mut executions);
        imported.workflows.push(dump);
    }
    let objects: Vec<&Value> = rows("workflow_records").collect();
    if !objects.is_empty() {
        imported.workflows.push(records_of_objects(context, &objects));
    }
    for (count, what, problem) in [
        (rules.len(), "synchronization rules", "Waypost has no rules between agents"),
        (rows("sync_audit_trail").count(), "audit entries", "way events is the history here"),
    ] {
        if count > 0 {
            imported.note(format!("{count} {what}"), problem);
        }
    }
    imported
}

fn author(context: &ImportContext) -> Agent {
    super::agent(context, AgentId::generate(&mut Seeded::of(&["agentdb"])), "agentdb")
}

/// Sorts rows by time and id, and returns the first and the last time.
fn sort(rows: &mut [&Value], time: &str, id: &str) {
    rows.sort_by_key(|row| (field_time(row, time), field_text(row, id)));
}

fn set_times(dump: &mut WorkflowDump, context: &ImportContext) {
    let times = || dump.checkpoints.iter().map(|checkpoint| checkpoint.created_at);
    let (first, last) = (times().min().unwrap_or(context.now), times().max().unwrap_or(context.now));
    (dump.workflow.created_at, dump.workflow.updated_at) = (first, last);
    dump.workflow.started_at = Some(first);
    dump.workflow.finished_at = dump.workflow.status.is_final().then_some(last);
    for task in &mut dump.tasks {
        let own = || dump.checkpoints.iter().filter(|one| one.task_id == task.id).map(|one| one.created_at);
        let (begun, ended) = (own().min(), own().max());
        (task.created_at, task.queued_at, task.updated_at) = (first, first, ended.unwrap_or(first));
        (task.started_at, task.finished_at) = (begun, ended.filter(|_| task.status.is_final()));
    }
}

/// Converts the records of a worktree; without a path, those of the main worktree.
fn phases(
    context: &ImportContext,
    worktree: &str,
    mut rows: Vec<&Value>,
    executions: &mut BTreeMap<String, Vec<&Value>>,
) -> WorkflowDump {
    sort(&mut rows, "created_at", "sync_id");
    let oldest = rows.first().and_then(|row| field_text(row, "sync_id")).unwrap_or_default();
    let seed = |parts: &[&str]| Seeded::of(&[&["agentdb", worktree, &oldest], parts].concat());
    let name = worktree.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let mut dump = super::empty(context, WorkflowId::generate(&mut seed(&["worktree"])), name_of(name, "main"));
    dump.workflow.source_ref = Some(format!("agentdb {}", if worktree.is_empty() { "main" } else { worktree }));
    let author = author(context);
    let mut by_pattern: BTreeMap<String, Vec<&Value>> = BTreeMap::new();
    let mut order: Vec<String> = Vec::new();
    for row in rows {
        let pattern = field_text(row, "pattern").unwrap_or_else(|| "unnamed".to_owned());
        let pattern =
            if [GATE_PASSED, GATE_FAILED].contains(&pattern.as_str()) { "quality_gate".to_owned() } else { pattern };
        if !order.contains(&pattern) {
            order.push(pattern.clone());
        }
        by_pattern.entry(pattern).or_default().push(row);
    }
    let list = PHASES.iter().find(|list| order.iter().any(|pattern| list.contains(&pattern.as_str())));
    let reached = list.and_then(|list| list.iter().rposition(|phase| by_pattern.contains_key(*phase)));
    let remaining = list.zip(reached).map(|(list, reached)| &list[reached + 1..]).unwrap_or_default();
    order.extend(remaining.iter().map(|phase| (*phase).to_owned()));
    let mut names = BTreeSet::new();
    for (sequence, pattern) in (1..).zip(&order) {
        let id = TaskId::generate(&mut seed(&["task", pattern]));
        let mut task =
            super::task(context, &dump.workflow, id, free_name(&mut names, &name_of(pattern, "phase")), sequence);
        let records = by_pattern.remove(pattern).unwrap_or_default();
        for (number, row) in (1..).zip(&records) {
            let sync_id = field_text(row, "sync_id").unwrap_or_default();
            let own = executions.remove(&sync_id).unwrap_or_default();
            let id = CheckpointId::generate(&mut seed(&["checkpoint", &sync_id, &number.to_string()]));
            let checkpoint = super::checkpoint(context, id, &task, number, &author);
            dump.checkpoints.push(Checkpoint {
                summary: summary(row),
                detail: detail(row, &own),
                created_at: field_time(row, "created_at").unwrap_or(context.now),
                ..checkpoint
            });
            (task.status, task.error) = standing(row, &own);
        }
        match task.status {
            TaskStatus::Completed => task.outcome = records.last().map(|row| summary(row)),
            TaskStatus::Dead => task.attempts = task.max_attempts,
            _ => {}
        }
        // The phases that remain follow each other.
        if records.is_empty()
            && let Some(before) = dump.tasks.last()
        {
            let (task_id, depends_on) = (task.id.clone(), before.id.clone());
            dump.dependencies.push(Dependency { task_id, depends_on, kind: DependencyKind::Blocks });
        }
        dump.tasks.push(task);
    }
    let is_done = dump.tasks.iter().all(|task| task.status.satisfies());
    (dump.workflow.status, dump.workflow.reason) = match (is_done, list.zip(reached)) {
        (true, _) => (WorkflowStatus::Completed, None),
        (false, Some((list, reached))) => {
            (WorkflowStatus::Paused, Some(format!("the last recorded phase is {}", list[reached])))
        }
        (false, None) => (WorkflowStatus::Paused, None),
    };
    set_times(&mut dump, context);
    dump.agents.push(author);
    dump
}

fn summary(row: &Value) -> String {
    let text = |key: &str| field_text(row, key).unwrap_or_default();
    let places = match (field_text(row, "source_location"), field_text(row, "target_location")) {
        (Some(source), Some(target)) => format!(", {source} to {target}"),
        _ => String::new(),
    };
    name_of(&format!("{} {}: {}{places}", text("sync_type"), text("pattern"), text("status")), "a record")
}

fn detail(row: &Value, executions: &[&Value]) -> Value {
    let mut detail = super::cleaned(row.clone());
    if let Some(fields) = detail.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
        fields.insert("metadata".to_owned(), field_json(row, "metadata"));
        if !executions.is_empty() {
            fields.insert("executions".to_owned(), json!(executions));
        }
    }
    detail
}

/// Returns the status of a task after a record, and its error.
fn standing(row: &Value, executions: &[&Value]) -> (TaskStatus, Option<String>) {
    if field_text(row, "pattern").as_deref() == Some(GATE_FAILED) {
        return (TaskStatus::Pending, Some("the quality gate failed".to_owned()));
    }
    match field_text(row, "status").as_deref() {
        Some("completed") => (TaskStatus::Completed, None),
        Some(status @ ("failed" | "rolled_back")) => {
            let told = executions.iter().rev().find_map(|row| field_text(row, "error_message"));
            let told = told.or_else(|| field_text(&field_json(row, "metadata"), "error"));
            (TaskStatus::Dead, Some(told.unwrap_or_else(|| status.replace('_', " "))))
        }
        _ => (TaskStatus::Pending, None),
    }
}

/// Converts the records of objects, whose states begin with a number or, for failures, with an E.
fn records_of_objects(context: &ImportContext, rows: &[&Value]) -> WorkflowDump {
    let mut rows = rows.to_vec();
    sort(&mut rows, "record_datetimestamp", "record_id");
    let oldest = rows.first().and_then(|row| field_text(row, "record_id")).unwrap_or_default();
    let seed = |parts: &[&str]| Seeded::of(&[&["agentdb", "records", &oldest], parts].concat());
    let mut dump = super::empty(context, WorkflowId::generate(&mut seed(&[])), "agentdb records".to_owned());
    dump.workflow.source_ref = Some("agentdb workflow_records".to_owned());
    let author = author(context);
    let mut objects: Vec<(String, Vec<&Value>)> = Vec::new();
    for row in rows {
        let name = field_text(row, "object_id").unwrap_or_else(|| "unnamed".to_owned());
        match objects.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => known.push(row),
            None => objects.push((name, vec![row])),
        }
    }
    let mut names = BTreeSet::new();
    for (sequence, (object, records)) in (1..).zip(objects) {
        let id = TaskId::generate(&mut seed(&["task", &object]));
        let name = free_name(&mut names, &name_of(&object, "object"));
        let mut task = super::task(context, &dump.workflow, id, name, sequence);
        for (number, row) in (1..).zip(&records) {
            let record_id = field_text(row, "record_id").unwrap_or_default();
            let id = CheckpointId::generate(&mut seed(&["checkpoint", &object, &record_id, &number.to_string()]));
            let checkpoint = super::checkpoint(context, id, &task, number, &author);
            let (kind, state) = (field_text(row, "object_type"), field_text(row, "object_state"));
            dump.checkpoints.push(Checkpoint {
                summary: name_of(&format!("{} {}", kind.unwrap_or_default(), state.unwrap_or_default()), "a record"),
                detail: json!({ "object_metadata": field_json(row, "object_metadata") }),
                created_at: field_time(row, "record_datetimestamp").unwrap_or(context.now),
                ..checkpoint
            });
        }
        if let Some(last) = records.last() {
            let metadata = field_json(last, "object_metadata");
            task.description = field_text(&metadata, "description").unwrap_or_default();
            if let Value::Array(files) = &metadata["files"] {
                task.files = files.iter().filter_map(|file| file.as_str().map(str::to_owned)).collect();
            }
            let state = field_text(last, "object_state").unwrap_or_default();
            task.status = state_of(&state, field_text(last, "object_type").as_deref());
            match task.status {
                TaskStatus::Completed => task.outcome = Some(state),
                TaskStatus::Dead => (task.attempts, task.error) = (task.max_attempts, Some(state)),
                _ => {}
            }
        }
        dump.tasks.push(task);
    }
    let is_done = dump.tasks.iter().all(|task| task.status.satisfies());
    dump.workflow.status = if is_done { WorkflowStatus::Completed } else { WorkflowStatus::Paused };
    set_times(&mut dump, context);
    dump.agents.push(author);
    dump
}

fn state_of(state: &str, kind: Option<&str>) -> TaskStatus {
    let ends = ["done", "complete", "completed", "merged", "passed", "saved", "closed", "archived", "released"];
    let word = state.split_once('_').map_or(state, |(_, word)| word);
    match () {
        () if state.starts_with("E02") || word == "cancelled" => TaskStatus::Skipped,
        () if state.starts_with('E') => TaskStatus::Dead,
        // A checkpoint is a note, not work.
        () if state.starts_with("99") || ends.contains(&word) || kind == Some("checkpoint") => TaskStatus::Completed,
        () => TaskStatus::Pending,
    }
}

#[cfg(test)]
mod tests {
    use crate::workflows::tests::{context, statuses};

    use super::*;

    /// A row of `agent_synchronizations`, as DuckDB exports it.
    fn sync(id: &str, worktree: Option<&str>, pattern: &str, status: &str, minute: u32) -> Value {
        json!({
            "sync_id": id, "agent_id": "claude-code", "worktree_path": worktree, "sync_type": "workflow_transition",
            "source_location": "planning/x", "target_location": "specs/x", "pattern": pattern, "status": status,
            "created_at": format!("2025-11-30 10:{minute:02}:00"), "completed_at": null, "created_by": "claude-code",
            "metadata": { "error": "no spec" }, "trigger_agent_id": null,
        })
    }

    fn tables(name: &str, rows: Vec<Value>) -> BTreeMap<String, Vec<Value>> {
        [(name.to_owned(), rows)].into()
    }

    #[test]
    fn the_phases_of_each_worktree_become_a_workflow_with_those_that_remain() {
        let rows = vec![
            sync("s2", None, "phase_2_plan", "completed", 2),
            sync("s1", None, "phase_1_specify", "completed", 1),
            sync("s3", Some("/w/feature-a"), "phase_v7x1_1_worktree", "completed", 3),
            sync("s4", Some("/w/feature-a"), "phase_v7x1_4_backmerge", "completed", 4),
            sync("s5", Some("/w/feature-b"), "phase_4_implement", "failed", 5),
        ];
        let imported = read(&tables("agent_synchronizations", rows), &context());
        assert_eq!(
            statuses(&imported),
            [
                ("main", WorkflowStatus::Paused),
                ("feature-a", WorkflowStatus::Completed),
                ("feature-b", WorkflowStatus::Paused)
            ]
        );
        assert_eq!(imported.notes, []);
        let main = &imported.workflows[0];
        let tasks: Vec<_> = main.tasks.iter().map(|task| (task.name.as_str(), task.status)).collect();
        assert_eq!(
            tasks[..3],
            [
                ("phase_1_specify", TaskStatus::Completed),
                ("phase_2_plan", TaskStatus::Completed),
                ("phase_3_tasks", TaskStatus::Pending)
            ]
        );
        assert_eq!(tasks.len(), 7, "the remaining phases can be done here");
        let edge = main.dependencies.iter().find(|edge| edge.task_id == main.tasks[3].id).unwrap();
        assert_eq!(edge.depends_on, main.tasks[2].id);
        assert_eq!(main.workflow.reason.as_deref(), Some("the last recorded phase is phase_2_plan"));
        let failed = &imported.workflows[2].tasks[0];
        assert_eq!((failed.status, failed.error.as_deref()), (TaskStatus::Dead, Some("no spec")));
    }

    #[test]
    fn records_of_objects_become_one_workflow_with_a_task_for_each() {
        let row = |id: &str, object: &str, state: &str, hour: u32| {
            json!({
                "record_id": id, "record_datetimestamp": format!("2025-11-30 {hour}:00:00.5"), "object_id": object,
                "object_type": "task", "object_state": state, "object_metadata": { "description": "Write it" },
            })
        };
        let rows = vec![
            row("r-1", "task_T1", "20_in-progress", 10),
            row("r-2", "task_T1", "99_done", 11),
            row("r-3", "task_T2", "00_pending", 11),
        ];
        let imported = read(&tables("workflow_records", rows), &context());
        assert_eq!(statuses(&imported), [("agentdb records", WorkflowStatus::Paused)]);
        let states: Vec<_> = imported.workflows[0].tasks.iter().map(|task| task.status).collect();
        assert_eq!(states, [TaskStatus::Completed, TaskStatus::Pending]);
    }

    #[test]
    fn rules_between_agents_are_reported() {
        let mut rule = sync("s6", None, "rule", "pending", 6);
        rule["trigger_agent_id"] = "a".into();
        let imported = read(&tables("agent_synchronizations", vec![rule]), &context());
        assert_eq!(statuses(&imported), []);
        let note = crate::Note::new("1 synchronization rules", "Waypost has no rules between agents");
        assert_eq!(imported.notes, [note]);
    }
}
