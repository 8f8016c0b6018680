//! Reads the database of LangGraph's `SqliteSaver`: threads and their checkpoints.
//!
//! A thread becomes a workflow, each of its namespaces a task, each checkpoint a checkpoint. The database does not tell
//! whether a thread has ended, so its workflow is paused until a user resumes it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};
use waypost_core::id::{AgentId, CheckpointId, TaskId, WorkflowId};
use waypost_core::model::{Checkpoint, CheckpointKind};
use waypost_core::tables::{Datum, Row, Tables};
use waypost_core::time::Timestamp;

use super::{ImportContext, Imported, Seeded, msgpack, name_of, text};

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

/// Converts threads to workflows.
pub fn read(tables: &Tables, context: &ImportContext) -> Imported {
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
    for (thread, namespaces) in threads {
        workflow(&mut imported, context, &thread, namespaces, &mut writes);
    }
    for ([thread, ..], rows) in writes {
        imported.note(format!("thread {thread}"), format!("{} writes to a missing checkpoint", rows.len()));
    }
    imported
}

fn workflow(
    imported: &mut Imported,
    context: &ImportContext,
    thread: &str,
    namespaces: BTreeMap<String, Vec<&Row>>,
    writes: &mut BTreeMap<[String; 3], Vec<&Row>>,
) {
    let id = WorkflowId::generate(&mut Seeded::of(&["langgraph", "thread", thread]));
    let mut dump = super::empty(context, id, name_of(thread, "thread"));
    dump.workflow.source_ref = Some(format!("langgraph thread {thread}"));
    dump.workflow.reason = Some("a thread of LangGraph, as it was when it was imported".to_owned());
    let author = super::agent(context, AgentId::generate(&mut Seeded::of(&["langgraph"])), "langgraph");
    let (mut first, mut last) = (context.now, Timestamp::from_millis(0));
    let mut names = BTreeSet::new();
    for (sequence, (namespace, mut rows)) in (1..).zip(namespaces) {
        rows.sort_by_key(|row| text(row, "checkpoint_id"));
        let mut name = if namespace.is_empty() { "main".to_owned() } else { name_of(&namespace, "namespace") };
        while !names.insert(name.clone()) {
            name = name_of(&format!("{sequence} {name}"), "namespace");
        }
        let task_id = TaskId::generate(&mut Seeded::of(&["langgraph", "task", thread, &namespace]));
        let mut task = super::task(context, &dump.workflow, task_id.clone(), name, sequence);
        task.description = match namespace.as_str() {
            "" => format!("Thread {thread} of LangGraph, with {} checkpoints", rows.len()),
            namespace => format!("Namespace {namespace} of thread {thread} of LangGraph"),
        };
        for (number, row) in (1..).zip(rows) {
            let checkpoint_id = text(row, "checkpoint_id").unwrap_or_default();
            let item = format!("{thread} {checkpoint_id}");
            let own = writes.remove(&[thread.to_owned(), namespace.clone(), checkpoint_id.clone()]).unwrap_or_default();
            let (detail, summary, created_at) = decoded(imported, &item, row, &own);
            let created_at = created_at.unwrap_or(context.now);
            (first, last) = (first.min(created_at), last.max(created_at));
            dump.checkpoints.push(Checkpoint {
                id: CheckpointId::generate(&mut Seeded::of(&["langgraph", thread, &namespace, &checkpoint_id])),
                task_id: task_id.clone(),
                sequence: number,
                kind: CheckpointKind::Progress,
                summary,
                detail,
                files: Vec::new(),
                tokens: None,
                cost: None,
                agent_id: author.id.clone(),
                epoch: 0,
                worktree_id: context.worktree.id.clone(),
                created_at,
            });
        }
        dump.tasks.push(task);
    }
    (dump.workflow.created_at, dump.workflow.updated_at) = (first, last.max(first));
    dump.workflow.started_at = Some(first);
    dump.agents.push(author);
    imported.workflows.push(dump);
}

/// Returns the detail of a checkpoint, its summary and its creation time.
fn decoded(imported: &mut Imported, item: &str, row: &Row, writes: &[&Row]) -> (Value, String, Option<Timestamp>) {
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
    (detail, summary, created_at)
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
