//! Reads the database of LangGraph's `SqliteSaver`: threads and their checkpoints.
//!
//! A thread becomes a workflow, each of its namespaces a task, each checkpoint a checkpoint. `standing.rs` finds out how a
//! thread ended. A thread that has not ended becomes a paused workflow, until a user resumes it.

mod standing;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};
use waypost_core::id::{AgentId, CheckpointId, TaskId, WorkflowId};
use waypost_core::model::{Checkpoint, Task, TaskStatus, WorkflowStatus};
use waypost_core::nearest::nearest;
use waypost_core::tables::{Datum, Row, Tables};
use waypost_core::time::Timestamp;
use waypost_core::words::count;
use waypost_core::work::transfer::WorkflowDump;
use waypost_core::{Error, Result};

use super::{ImportContext, Imported, Seeded, msgpack, name_of, text};
use standing::Standing;

/// The tables, with their required columns.
pub const TABLES: &[(&str, &[&str])] = &[
    (
        "checkpoints",
        &["thread_id", "checkpoint_ns", "checkpoint_id", "parent_checkpoint_id", "type", "checkpoint", "metadata"],
    ),
    ("writes", &["thread_id", "checkpoint_ns", "checkpoint_id", "task_id", "idx", "channel", "type", "value"]),
];

/// The state of a larger checkpoint is not imported.
const MAX_STATE_BYTES: usize = 1024 * 1024;

/// Converts threads to workflows: the named ones, or all if `chosen` is empty.
pub fn read(tables: &Tables, context: &ImportContext, chosen: &[String]) -> Result<Imported> {
    let mut imported = Imported::default();
    let mut threads: BTreeMap<String, BTreeMap<String, Vec<&Row>>> = BTreeMap::new();
    for row in tables.get("checkpoints").into_iter().flatten() {
        match (text(row, "thread_id"), text(row, "checkpoint_id")) {
            (Some(thread), Some(_)) => {
                let namespace = text(row, "checkpoint_ns").unwrap_or_default();
                threads.entry(thread).or_default().entry(namespace).or_default().push(row);
            }
            _ => imported.note("a checkpoint", "no thread or no id"),
        }
    }
    let mut writes: BTreeMap<[String; 3], Vec<&Row>> = BTreeMap::new();
    for row in tables.get("writes").into_iter().flatten() {
        let key = ["thread_id", "checkpoint_ns", "checkpoint_id"].map(|column| text(row, column).unwrap_or_default());
        writes.entry(key).or_default().push(row);
    }
    if let Some(unknown) = chosen.iter().find(|name| !threads.contains_key(*name)) {
        let error = Error::not_found(format!("there is no thread {unknown:?} in the database"));
        return Err(match nearest(unknown, threads.keys().map(String::as_str)) {
            Some(near) => error.hint(format!("did you mean {near}?")),
            None => error.hint("--dry-run without --thread lists all threads"),
        });
    }
    let is_chosen = |thread: &String| chosen.is_empty() || chosen.contains(thread);
    for (thread, namespaces) in threads.into_iter().filter(|(thread, _)| is_chosen(thread)) {
        workflow(&mut imported, context, &thread, namespaces, &mut writes);
    }
    for ([thread, ..], rows) in writes.into_iter().filter(|([thread, ..], _)| is_chosen(thread)) {
        imported.note(format!("thread {thread}"), format!("{} to a missing checkpoint", count(rows.len(), "write")));
    }
    Ok(imported)
}

fn workflow(
    imported: &mut Imported,
    context: &ImportContext,
    thread: &str,
    namespaces: BTreeMap<String, Vec<&Row>>,
    writes: &mut BTreeMap<[String; 3], Vec<&Row>>,
) {
    // Two databases may use one name for different threads, so the id also depends on the oldest checkpoint.
    let oldest = namespaces.values().flatten().filter_map(|row| text(row, "checkpoint_id")).min().unwrap_or_default();
    let seed = |parts: &[&str]| Seeded::of(&[&["langgraph", thread, &oldest], parts].concat());
    let id = WorkflowId::generate(&mut seed(&["thread"]));
    let mut dump = super::empty(context, id, name_of(thread, "thread"));
    dump.workflow.source_ref = Some(format!("langgraph thread {thread}"));
    let author = super::agent(context, AgentId::generate(&mut Seeded::of(&["langgraph"])), "langgraph");
    let (mut first, mut last) = (context.now, Timestamp::from_millis(0));
    let mut names = BTreeSet::new();
    let mut standings = Vec::new();
    for (sequence, (namespace, mut rows)) in (1..).zip(namespaces) {
        rows.sort_by_key(|row| text(row, "checkpoint_id"));
        let mut name = if namespace.is_empty() { "main".to_owned() } else { name_of(&namespace, "namespace") };
        while !names.insert(name.clone()) {
            name = name_of(&format!("{sequence} {name}"), "namespace");
        }
        let task_id = TaskId::generate(&mut seed(&["task", &namespace]));
        let mut task = super::task(context, &dump.workflow, task_id, name, sequence);
        task.description = match namespace.as_str() {
            "" => format!("Thread {thread} of LangGraph, with {}", count(rows.len(), "checkpoint")),
            namespace => format!("Namespace {namespace} of thread {thread} of LangGraph"),
        };
        let mut newest = Standing::Unknown;
        for (number, row) in (1..).zip(rows) {
            let checkpoint_id = text(row, "checkpoint_id").unwrap_or_default();
            let item = format!("{thread} {checkpoint_id}");
            let own = writes.remove(&[thread.to_owned(), namespace.clone(), checkpoint_id.clone()]).unwrap_or_default();
            let Decoded { detail, summary, created_at, standing } = decoded(imported, &item, row, &own);
            newest = standing;
            let created_at = created_at.unwrap_or(context.now);
            (first, last) = (first.min(created_at), last.max(created_at));
            let id = CheckpointId::generate(&mut seed(&[&namespace, &checkpoint_id]));
            let checkpoint = super::checkpoint(context, id, &task, number, &author);
            dump.checkpoints.push(Checkpoint { summary, detail, created_at, ..checkpoint });
        }
        standings.push(newest);
        dump.tasks.push(task);
    }
    let last = last.max(first);
    (dump.workflow.created_at, dump.workflow.updated_at) = (first, last);
    dump.workflow.started_at = Some(first);
    set_statuses(&mut dump, &standings, last);
    dump.agents.push(author);
    imported.workflows.push(dump);
}

/// Sets the status of the workflow and its tasks. The thread's own namespace, which is the first, decides: the others
/// are parts of it.
fn set_statuses(dump: &mut WorkflowDump, standings: &[Standing], last: Timestamp) {
    let whole = standings.first().unwrap_or(&Standing::Unknown);
    for (number, (task, standing)) in dump.tasks.iter_mut().zip(standings).enumerate() {
        (task.created_at, task.queued_at, task.updated_at) = (dump.workflow.created_at, dump.workflow.created_at, last);
        set_task_status(task, standing, number == 0);
        if task.status.is_final() {
            (task.started_at, task.finished_at) = (Some(dump.workflow.created_at), Some(last));
        }
    }
    let workflow = &mut dump.workflow;
    (workflow.status, workflow.reason) = match whole {
        Standing::Finished => (WorkflowStatus::Completed, None),
        Standing::Failed(error) => (WorkflowStatus::Failed, Some(error.clone())),
        Standing::Asks(_) => (WorkflowStatus::Paused, Some("the thread waits for an answer".to_owned())),
        Standing::Stopped(next) => {
            (WorkflowStatus::Paused, Some(format!("the thread stopped before {}", next.join(", "))))
        }
        Standing::Unknown => (
            WorkflowStatus::Paused,
            Some("a thread of LangGraph; its checkpoints do not tell whether it has ended".to_owned()),
        ),
    };
    workflow.finished_at = workflow.status.is_final().then_some(last);
}

fn set_task_status(task: &mut Task, standing: &Standing, is_whole: bool) {
    match standing {
        Standing::Finished => {
            task.status = TaskStatus::Completed;
            task.outcome = Some("finished in LangGraph".to_owned());
        }
        Standing::Failed(error) => {
            (task.status, task.attempts) = (TaskStatus::Dead, task.max_attempts);
            task.error = Some(error.clone());
        }
        // LangGraph continues a part together with the whole.
        _ if !is_whole => {
            task.status = TaskStatus::Skipped;
            task.outcome = Some("continues with the thread".to_owned());
        }
        Standing::Asks(question) => {
            task.status = TaskStatus::WaitingInput;
            task.question = Some(question.clone());
        }
        Standing::Stopped(_) | Standing::Unknown => {}
    }
}

/// A checkpoint's row and writes.
struct Decoded {
    detail: Value,
    summary: String,
    created_at: Option<Timestamp>,
    /// How the thread stood after it.
    standing: Standing,
}

fn decoded(imported: &mut Imported, item: &str, row: &Row, writes: &[&Row]) -> Decoded {
    let mut state = payload(imported, item, row, "checkpoint").unwrap_or(Value::Null);
    let metadata = match row.get("metadata") {
        Some(Datum::Blob(bytes)) => serde_json::from_slice(bytes).ok().or_else(|| msgpack::read(bytes).ok()),
        Some(Datum::Text(text)) => serde_json::from_str(text).ok(),
        _ => Some(Value::Null),
    };
    let metadata = super::cleaned(metadata.unwrap_or_else(|| {
        imported.note(item, "unreadable metadata");
        Value::Null
    }));
    let created_at = state["ts"].as_str().and_then(|ts| ts.parse::<jiff::Timestamp>().ok());
    let created_at = created_at.map(|moment| Timestamp::from_millis(moment.as_millisecond()));
    let mut pending: Vec<Value> = Vec::new();
    for write in writes {
        let value = payload(imported, item, write, "value").unwrap_or(Value::Null);
        pending.push(json!({ "task": text(write, "task_id"), "channel": text(write, "channel"), "value": value }));
    }
    let standing = standing::of(&state, &pending);
    let step = metadata["step"].as_i64().map_or_else(|| "a step".to_owned(), |step| format!("step {step}"));
    let source = metadata["source"].as_str().map_or_else(String::new, |source| format!(", {source}"));
    let channels: Vec<String> =
        pending.iter().filter_map(|write| write["channel"].as_str().map(str::to_owned)).collect();
    let wrote = if channels.is_empty() { String::new() } else { format!(", then wrote {}", channels.join(", ")) };
    let summary = name_of(&format!("{step}{source}{wrote}"), "a step");
    let mut writes = Value::Array(pending);
    if state.to_string().len() + writes.to_string().len() > MAX_STATE_BYTES {
        imported.note(
            item,
            format!("its state has more than {MAX_STATE_BYTES} bytes: only the names of its channels are kept"),
        );
        let names: Vec<String> =
            state["channel_values"].as_object().into_iter().flat_map(Map::keys).take(1_000).cloned().collect();
        (state, writes) = (json!({ "channels": names }), Value::Null);
    }
    let detail = json!({
        "checkpoint_id": text(row, "checkpoint_id"),
        "parent_checkpoint_id": text(row, "parent_checkpoint_id"),
        "metadata": metadata,
        "state": state,
        "writes": writes,
    });
    Decoded { detail, summary, created_at, standing }
}

/// Decodes a column according to the row's `type`.
fn payload(imported: &mut Imported, item: &str, row: &Row, column: &str) -> Option<Value> {
    let bytes = match row.get(column) {
        Some(Datum::Blob(bytes)) => bytes.clone(),
        Some(Datum::Text(text)) => text.clone().into_bytes(),
        _ => return None,
    };
    let result = match text(row, "type").as_deref() {
        Some("msgpack") => msgpack::read(&bytes),
        Some("json") | None => serde_json::from_slice(&bytes).map(super::cleaned).map_err(|error| error.to_string()),
        Some("null") => Ok(Value::Null),
        Some("bytes" | "bytearray") => Ok(json!({ "base64": msgpack::base64(&bytes) })),
        Some(other) => Err(format!("unsupported type {other}")),
    };
    result.map_err(|error| imported.note(item, format!("unreadable {column}: {error}"))).ok()
}
