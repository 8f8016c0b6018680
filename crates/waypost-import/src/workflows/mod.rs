//! Converts database tables of other programs to workflows.
//!
//! This module opens no file. Rows that cannot be imported are reported and do not prevent importing the others. Ids of
//! the other program are kept if they have our form; else they are derived from its names, so that a second import adds
//! nothing.

pub mod agentdb;
pub mod caw;
pub mod langgraph;
mod msgpack;
pub mod pedrocli;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};
use waypost_core::id::{AgentId, CheckpointId, Entropy, TaskId, WorkflowId};
use waypost_core::ledger::issue::parse_time;
use waypost_core::model::{
    Agent, AgentStatus, Checkpoint, CheckpointKind, Reach, Repository, Role, Source, Task, Variable, Workflow,
    WorkflowStatus, Worktree,
};
use waypost_core::tables::{Datum, Row};
use waypost_core::time::Timestamp;
use waypost_core::work::DEFAULT_AGENT_TIMEOUT_MS;
use waypost_core::work::transfer::WorkflowDump;
use waypost_core::{Error, Result};

use crate::Note;

/// The longest name of a workflow or a task.
const MAX_NAME_BYTES: usize = 200;

/// The destination and the time of an import.
#[derive(Clone, Debug)]
pub struct ImportContext {
    /// The repository of the imported workflows.
    pub repository: Repository,
    /// The worktree of the imported workflows.
    pub worktree: Worktree,
    /// The repositories that the source refers to, by their ids there, as they are known here.
    pub repositories: BTreeMap<String, Repository>,
    /// Whether the store keeps workflows of several repositories.
    pub is_shared: bool,
    /// The current time.
    pub now: Timestamp,
}

/// The result of reading.
#[derive(Clone, Debug, Default)]
pub struct Imported {
    /// The workflows.
    pub workflows: Vec<WorkflowDump>,
    /// The templates.
    pub templates: Vec<ImportedTemplate>,
    /// Values of configuration keys.
    pub settings: Vec<(&'static str, String)>,
    /// The rows that could not be imported.
    pub notes: Vec<Note>,
}

/// A template of another program.
#[derive(Clone, Debug, PartialEq)]
pub struct ImportedTemplate {
    /// Its name.
    pub name: String,
    /// Its purpose.
    pub description: Option<String>,
    /// The plan.
    pub body: Value,
    /// Its variables.
    pub variables: Vec<Variable>,
}

impl Imported {
    fn note(&mut self, item: impl Into<String>, problem: impl Into<String>) {
        self.notes.push(Note::new(item, problem));
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

/// Returns the JSON in a column; other text becomes a JSON string.
fn json_of(row: &Row, column: &str) -> Value {
    let Some(text) = text(row, column) else { return json!({}) };
    serde_json::from_str(&text).map_or_else(|_| Value::String(text), cleaned)
}

/// Replaces NUL characters, which not every database accepts in text.
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

/// Makes a valid name of a text: one line of up to [`MAX_NAME_BYTES`].
fn name_of(text: &str, default: &str) -> String {
    let line: String = text.chars().map(|char| if char.is_control() { ' ' } else { char }).collect();
    let mut name = line.trim().to_owned();
    while name.len() > MAX_NAME_BYTES {
        name.pop();
    }
    let name = name.trim_end();
    if name.is_empty() { default.to_owned() } else { name.to_owned() }
}

/// Entropy that is the same for the same names, so that ids are too.
struct Seeded(u128);

impl Seeded {
    fn of(parts: &[&str]) -> Seeded {
        let mut hash: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
        for byte in parts.iter().flat_map(|part| part.bytes().chain([0])) {
            hash = (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
        }
        // Spread the difference of names that differ only at their ends.
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

/// Creates an agent that represents another program.
fn agent(context: &ImportContext, id: AgentId, name: &str) -> Agent {
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
        worktree_id: context.worktree.id.clone(),
        registered_at: context.now,
        last_heartbeat: context.now,
        silent_at: None,
        retired_at: None,
    }
}

/// Creates a workflow without tasks.
fn empty(context: &ImportContext, id: WorkflowId, name: String) -> WorkflowDump {
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
            base: None,
            config: json!({}),
            reason: None,
            worktree_id: context.worktree.id.clone(),
            reach: Reach::default(),
            created_at: context.now,
            updated_at: context.now,
            started_at: None,
            finished_at: None,
        },
        concerns: vec![context.repository.id.clone()],
        tasks: Vec::new(),
        dependencies: Vec::new(),
        checkpoints: Vec::new(),
        leases: Vec::new(),
        messages: Vec::new(),
        templates: Vec::new(),
        events: Vec::new(),
        agents: Vec::new(),
        repositories: vec![context.repository.clone()],
        worktrees: vec![context.worktree.clone()],
    }
}

/// Creates a task that is not started.
fn task(context: &ImportContext, workflow: &Workflow, id: TaskId, name: String, sequence: u32) -> Task {
    let fresh = Task::new(id, workflow, name, sequence, workflow.created_at);
    Task { repository_id: Some(context.repository.id.clone()), updated_at: workflow.updated_at, ..fresh }
}

/// Creates a checkpoint of a task without a summary.
fn checkpoint(context: &ImportContext, id: CheckpointId, task: &Task, sequence: u32, author: &Agent) -> Checkpoint {
    Checkpoint {
        id,
        task_id: task.id.clone(),
        sequence,
        kind: CheckpointKind::Progress,
        summary: String::new(),
        detail: json!({}),
        files: Vec::new(),
        tokens: None,
        cost: None,
        agent_id: author.id.clone(),
        epoch: 0,
        worktree_id: context.worktree.id.clone(),
        created_at: task.created_at,
    }
}

/// Returns the text in a field of a JSON row; none if it is empty.
fn field_text(row: &Value, key: &str) -> Option<String> {
    let text = match &row[key] {
        Value::String(text) => clean(text),
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    Some(text).filter(|text| !text.trim().is_empty())
}

/// Returns the time in a field of a JSON row.
fn field_time(row: &Value, key: &str) -> Option<Timestamp> {
    parse_time(field_text(row, key)?.trim())
}

/// Returns the JSON in a field of a row, which may be a text that contains it.
fn field_json(row: &Value, key: &str) -> Value {
    match &row[key] {
        Value::String(text) => serde_json::from_str(text).map_or_else(|_| Value::String(clean(text)), cleaned),
        other => cleaned(other.clone()),
    }
}

/// Reads rows from JSON: a list, an object, an object with a list of jobs, or one object per line.
pub fn read_rows(bytes: &[u8]) -> Result<Vec<Value>> {
    let text = std::str::from_utf8(bytes).map_err(|error| Error::invalid("not UTF-8").because(error))?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text).trim();
    let rows = match serde_json::from_str(text) {
        Ok(Value::Array(rows)) => rows,
        Ok(Value::Object(fields)) => match fields.get("jobs") {
            Some(Value::Array(jobs)) => jobs.clone(),
            _ => vec![Value::Object(fields)],
        },
        Ok(_) => return Err(Error::invalid("not a list of records")),
        Err(_) => text
            .lines()
            .filter(|line| !line.trim().is_empty())
            .map(serde_json::from_str)
            .collect::<Result<_, _>>()
            .map_err(|error| Error::invalid("neither JSON nor lines of JSON").because(error))?,
    };
    match rows.iter().position(|row| !row.is_object()) {
        Some(place) => Err(Error::invalid(format!("item {} is not an object", place + 1))),
        None => Ok(rows),
    }
}

/// Converts a row of a database to a JSON object.
pub fn to_json(row: &Row) -> Value {
    let field = |datum: &Datum| match datum {
        Datum::Null => Value::Null,
        Datum::Int(number) => Value::from(*number),
        Datum::Real(number) => Value::from(*number),
        Datum::Text(text) => Value::from(text.as_str()),
        Datum::Blob(bytes) => Value::from(String::from_utf8_lossy(bytes)),
    };
    row.iter().map(|(column, datum)| (column.clone(), field(datum))).collect::<Map<_, _>>().into()
}

/// Returns a name that no other task of a workflow has.
fn free_name(taken: &mut BTreeSet<String>, name: &str) -> String {
    let mut free = name.to_owned();
    let mut number = 1;
    while !taken.insert(free.clone()) {
        number += 1;
        free = format!("{name} {number}");
    }
    free
}

#[cfg(test)]
mod tests {
    use waypost_core::id::{RepositoryId, WorktreeId};
    use waypost_core::model::Vcs;

    use super::*;

    /// A repository with one worktree, at the beginning of 2026.
    pub(super) fn context() -> ImportContext {
        let now = parse_time("2026-01-01T00:00:00Z").unwrap();
        let repository = Repository {
            id: RepositoryId::generate(&mut Seeded::of(&["repository"])),
            name: "repo".to_owned(),
            path: "/repo".into(),
            vcs: Vcs::Git,
            remote_url: None,
            default_branch: None,
        };
        let worktree = Worktree {
            id: WorktreeId::generate(&mut Seeded::of(&["worktree"])),
            repository_id: repository.id.clone(),
            name: "main".to_owned(),
            path: "/repo".into(),
            branch: None,
            first_seen: now,
            last_seen: now,
            removed_at: None,
        };
        ImportContext { repository, worktree, repositories: BTreeMap::new(), is_shared: false, now }
    }

    /// The names of workflows, with their statuses.
    pub(super) fn statuses(imported: &Imported) -> Vec<(&str, WorkflowStatus)> {
        imported.workflows.iter().map(|dump| (dump.workflow.name.as_str(), dump.workflow.status)).collect()
    }

    #[test]
    fn ids_of_the_same_names_are_the_same() {
        let id = |names: &[&str]| WorkflowId::generate(&mut Seeded::of(names));
        assert_eq!(id(&["a", "b"]), id(&["a", "b"]));
        assert_ne!(id(&["a", "b"]), id(&["ab"]));
        assert_ne!(id(&["job-1"]), id(&["job-2"]));
    }
}
