//! Workflows of other programs, made of the tables that those keep in a database.
//!
//! Nothing here opens a file. What cannot be carried is reported and keeps nothing else back. Ids are those of the other
//! program where they have our form; else they are made of its names, so that importing twice is importing once.

pub mod caw;
pub mod langgraph;
mod msgpack;

use serde::Serialize;
use serde_json::{Map, Value, json};
use waypost_core::id::{AgentId, Entropy, TaskId, WorkflowId};
use waypost_core::model::{
    Agent, AgentStatus, Repository, Role, Source, Task, TaskStatus, Workflow, WorkflowStatus, Worktree,
};
use waypost_core::tables::{Datum, Row};
use waypost_core::time::Timestamp;
use waypost_core::work::DEFAULT_AGENT_TIMEOUT_MS;
use waypost_core::work::transfer::WorkflowDump;

/// From where workflows are taken in, and when.
#[derive(Clone, Debug)]
pub struct ImportContext {
    /// The repository that they concern from now on.
    pub repository: Repository,
    /// The worktree that they belong to from now on.
    pub worktree: Worktree,
    /// The present.
    pub now: Timestamp,
}

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Imported {
    /// The workflows.
    pub workflows: Vec<WorkflowDump>,
    /// What could not be carried.
    pub notes: Vec<Note>,
}

/// Something that could not be carried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Note {
    /// What it is called there.
    pub item: String,
    /// What is missing of it, and why.
    pub problem: String,
}

impl Imported {
    fn note(&mut self, item: impl Into<String>, problem: impl Into<String>) {
        self.notes.push(Note { item: item.into(), problem: problem.into() });
    }
}

/// Returns the text in a column.
fn text(row: &Row, column: &str) -> Option<String> {
    match row.get(column)? {
        Datum::Text(text) => Some(clean(text)),
        Datum::Blob(bytes) => String::from_utf8(bytes.clone()).ok().map(|text| clean(&text)),
        Datum::Int(number) => Some(number.to_string()),
        Datum::Real(_) | Datum::Null => None,
    }
}

/// Returns the number in a column.
fn number(row: &Row, column: &str) -> Option<i64> {
    match row.get(column)? {
        Datum::Int(number) => Some(*number),
        Datum::Text(text) => text.parse().ok(),
        _ => None,
    }
}

/// Returns the JSON in a column; what is not JSON is text.
fn json_of(row: &Row, column: &str) -> Value {
    let Some(text) = text(row, column) else { return json!({}) };
    serde_json::from_str(&text).map_or_else(|_| Value::String(text), cleaned)
}

/// No database keeps the NUL character in text.
fn clean(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

fn cleaned(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(clean(&text)),
        Value::Array(items) => Value::Array(items.into_iter().map(cleaned).collect()),
        Value::Object(fields) => {
            Value::Object(fields.into_iter().map(|(key, value)| (clean(&key), cleaned(value))).collect::<Map<_, _>>())
        }
        other => other,
    }
}

/// Returns what can be a name: one line of up to 200 bytes.
fn name_of(text: &str, else_named: &str) -> String {
    let line: String = text.chars().map(|char| if char.is_control() { ' ' } else { char }).collect();
    let mut name = line.trim().to_owned();
    while name.len() > 200 {
        name.pop();
    }
    let name = name.trim_end();
    if name.is_empty() { else_named.to_owned() } else { name.to_owned() }
}

/// A source of ids that is the same for the same names.
struct Seeded(u128);

impl Seeded {
    fn of(parts: &[&str]) -> Seeded {
        let mut hash: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
        for byte in parts.iter().flat_map(|part| part.bytes().chain([0])) {
            hash = (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
        }
        // Names that differ at their ends must differ all over.
        for _ in 0..3 {
            hash = (hash ^ (hash >> 61)).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        }
        Seeded(hash)
    }
}

impl Entropy for Seeded {
    fn fill(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            self.0 = self.0.wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b) ^ 0x5bd1_e995;
            *byte = self.0.to_be_bytes()[0];
        }
    }
}

/// An agent that stands for another program.
fn agent(desk: &ImportContext, id: AgentId, name: &str) -> Agent {
    Agent {
        id,
        name: name.to_owned(),
        runtime: None,
        role: Role::Worker,
        status: AgentStatus::Offline,
        capabilities: Vec::new(),
        workspace_id: None,
        metadata: json!({}),
        process: None,
        timeout_ms: DEFAULT_AGENT_TIMEOUT_MS,
        max_claims: None,
        worktree_id: desk.worktree.id.clone(),
        registered_at: desk.now,
        last_heartbeat: desk.now,
        silent_at: None,
        retired_at: None,
    }
}

/// A workflow with nothing in it yet.
fn empty(desk: &ImportContext, id: WorkflowId, name: String) -> WorkflowDump {
    WorkflowDump {
        workflow: Workflow {
            id,
            name,
            source: Source::Custom,
            source_ref: None,
            source_content: None,
            status: WorkflowStatus::Paused,
            summary: None,
            max_parallel: None,
            config: json!({}),
            reason: None,
            worktree_id: desk.worktree.id.clone(),
            created_at: desk.now,
            updated_at: desk.now,
            started_at: None,
            finished_at: None,
        },
        concerns: vec![desk.repository.id.clone()],
        tasks: Vec::new(),
        dependencies: Vec::new(),
        checkpoints: Vec::new(),
        leases: Vec::new(),
        messages: Vec::new(),
        templates: Vec::new(),
        events: Vec::new(),
        agents: Vec::new(),
        repositories: vec![desk.repository.clone()],
        worktrees: vec![desk.worktree.clone()],
    }
}

/// A task that nobody has begun.
fn task(desk: &ImportContext, workflow: &Workflow, id: TaskId, name: String, sequence: u32) -> Task {
    Task {
        id,
        workflow_id: workflow.id.clone(),
        name,
        description: String::new(),
        status: TaskStatus::Pending,
        sequence,
        parallel_group: None,
        priority: 2,
        plan: json!({}),
        acceptance: Vec::new(),
        context: json!({}),
        context_from: Vec::new(),
        capabilities: Vec::new(),
        files: Vec::new(),
        repository_id: Some(desk.repository.id.clone()),
        workspace_id: None,
        issue: None,
        assignee: None,
        attempts: 0,
        max_attempts: 3,
        backoff_ms: 0,
        queue_timeout_ms: None,
        run_timeout_ms: None,
        stall_timeout_ms: None,
        needs_evidence: false,
        outcome: None,
        evidence: None,
        error: None,
        question: None,
        answer: None,
        worktree_id: desk.worktree.id.clone(),
        created_at: workflow.created_at,
        updated_at: workflow.updated_at,
        queued_at: workflow.created_at,
        started_at: None,
        finished_at: None,
        due_at: None,
    }
}
