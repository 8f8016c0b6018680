//! Reads the database of caw: workflows, tasks, dependencies, checkpoints, agents, messages, repositories and templates.
//!
//! Its ids have our form and are kept. Rows that Waypost has no place for, or that belong to no workflow, are reported.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use waypost_core::id::{AgentId, CheckpointId, MessageId, RepositoryId, TaskId, WorkflowId};
use waypost_core::model::{
    Agent, Checkpoint, CheckpointKind, Dependency, DependencyKind, Message, MessageKind, MessageState, Repository,
    Source, Task, TaskStatus, Urgency, Variable, WorkflowStatus,
};
use waypost_core::tables::{Row, Tables};
use waypost_core::time::Timestamp;
use waypost_core::words::count;
use waypost_core::work::transfer::WorkflowDump;

use super::{ImportContext, Imported, ImportedTemplate, Seeded, json_of, name_of, number, text};

/// The tables, with their required columns.
pub const TABLES: &[(&str, &[&str])] = &[
    ("workflows", &["id", "name", "status"]),
    ("tasks", &["id", "workflow_id", "name", "status"]),
    ("task_dependencies", &["task_id", "depends_on_id"]),
    ("checkpoints", &["id", "task_id", "sequence", "summary"]),
    ("agents", &["id", "name"]),
    ("messages", &["id", "recipient_id", "body"]),
    ("repositories", &["id", "path"]),
    ("workflow_repositories", &["workflow_id", "repository_id"]),
    ("workspaces", &["id"]),
    ("workflow_templates", &["id", "name"]),
    ("sessions", &["id"]),
    ("memories", &["id"]),
];

/// A repository of caw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignRepository {
    /// Its id there.
    pub id: String,
    /// Its path there.
    pub path: String,
    /// Its name.
    pub name: String,
    /// Whether a workflow or a task belongs to it.
    pub is_used: bool,
}

impl ForeignRepository {
    /// Returns its id there, if it has our form, or one that is derived from it.
    pub fn own_id(&self) -> RepositoryId {
        let derived = || RepositoryId::generate(&mut Seeded::of(&["caw", "repository", &self.id]));
        self.id.parse().unwrap_or_else(|_| derived())
    }
}

/// Returns the repositories of caw, in the order of their paths.
pub fn repositories(tables: &Tables) -> Vec<ForeignRepository> {
    let users = rows(tables, "workflow_repositories").chain(rows(tables, "tasks"));
    let used: BTreeSet<String> = users.filter_map(|row| text(row, "repository_id")).collect();
    let mut all: Vec<ForeignRepository> = rows(tables, "repositories")
        .filter_map(|row| {
            let (id, path) = (text(row, "id")?, text(row, "path")?);
            let name = text(row, "name").unwrap_or_else(|| path.rsplit('/').next().unwrap_or_default().to_owned());
            Some(ForeignRepository { is_used: used.contains(&id), name: name_of(&name, "repository"), id, path })
        })
        .collect();
    all.sort_by(|a, b| (&a.path, &a.id).cmp(&(&b.path, &b.id)));
    all
}

/// Converts the workflows of caw.
pub fn read(tables: &Tables, context: &ImportContext) -> Imported {
    let mut imported = Imported::default();
    let author = super::agent(context, AgentId::generate(&mut Seeded::of(&["caw"])), "caw");
    let agents = agents(tables, context, &author);
    let mut owners: BTreeMap<TaskId, usize> = BTreeMap::new();
    let mut left_out: BTreeSet<String> = BTreeSet::new();
    for row in rows(tables, "workflows") {
        let Some(mut dump) = workflow(&mut imported, context, row) else { continue };
        match destination(tables, context, dump.workflow.id.as_str()) {
            Ok(repositories) => {
                dump.concerns = repositories.iter().map(|repository| repository.id.clone()).collect();
                let others = repositories.into_iter().filter(|one| one.id != context.repository.id);
                dump.repositories.extend(others.cloned());
                imported.workflows.push(dump);
            }
            Err(problem) => {
                left_out.insert(dump.workflow.id.to_string());
                imported.note(row_name(row), problem);
            }
        }
    }
    let places: BTreeMap<WorkflowId, usize> =
        imported.workflows.iter().enumerate().map(|(place, dump)| (dump.workflow.id.clone(), place)).collect();
    let mut sorted: Vec<&Row> = rows(tables, "tasks").collect();
    sorted.sort_by_key(|row| (number(row, "sequence"), text(row, "id")));
    for row in sorted {
        if text(row, "workflow_id").is_some_and(|id| left_out.contains(&id)) {
            left_out.extend(text(row, "id"));
            continue;
        }
        let place = text(row, "workflow_id").and_then(|id| places.get(&id.parse().ok()?).copied());
        match (place, text(row, "id").and_then(|id| id.parse::<TaskId>().ok())) {
            (Some(place), Some(id)) => {
                owners.insert(id.clone(), place);
                task(&mut imported, context, place, id, row);
            }
            _ => imported.note(row_name(row), "belongs to no workflow, or has no id"),
        }
    }
    context_from(&mut imported, tables);
    dependencies(&mut imported, tables, &owners, &left_out);
    checkpoints(&mut imported, tables, context, &owners, &left_out, &author);
    messages(&mut imported, tables, context, &places, &agents, &author);
    for dump in &mut imported.workflows {
        derive_statuses(dump, context);
        let named: BTreeSet<&AgentId> = (dump.checkpoints.iter().map(|checkpoint| &checkpoint.agent_id))
            .chain(dump.messages.iter().flat_map(|message| [&message.sender, &message.recipient]))
            .collect();
        dump.agents = agents.values().chain([&author]).filter(|agent| named.contains(&agent.id)).cloned().collect();
    }
    for row in rows(tables, "workflow_templates") {
        let name = text(row, "name").unwrap_or_default();
        let body = json_of(row, "template");
        let made = template(&name, text(row, "description"), &body, &mut imported);
        imported.templates.extend(made);
    }
    for (table, record, reason) in [
        ("workspaces", "workspace", "directories of another program are not imported"),
        ("sessions", "session", "sessions are not imported"),
        ("memories", "memory", "Waypost has no memories"),
    ] {
        let number = rows(tables, table).count();
        if number > 0 {
            imported.note(count(number, record), reason);
        }
    }
    imported
}

/// Returns the repositories that a workflow belongs to here, or why it cannot be imported into this store.
fn destination<'a>(
    tables: &Tables,
    context: &'a ImportContext,
    workflow: &str,
) -> Result<Vec<&'a Repository>, &'static str> {
    let of_workflow = |row: &&Row| text(row, "workflow_id").as_deref() == Some(workflow);
    let linked = rows(tables, "workflow_repositories").chain(rows(tables, "tasks")).filter(of_workflow);
    let mut found: Vec<&Repository> = Vec::new();
    for id in linked.filter_map(|row| text(row, "repository_id")) {
        let Some(repository) = context.repositories.get(&id) else { continue };
        if !found.iter().any(|known| known.id == repository.id) {
            found.push(repository);
        }
    }
    if found.is_empty() {
        return Ok(vec![&context.repository]);
    }
    let is_own = |repository: &&Repository| repository.id == context.repository.id;
    if context.is_shared || found.iter().all(is_own) {
        return Ok(found);
    }
    Err(if found.iter().any(is_own) {
        "it spans several repositories: import it into a shared store with way --global import caw"
    } else {
        "it belongs to another repository: run way import there, or way --global import caw"
    })
}

/// Converts a template, of the database or of a file.
pub fn template(
    name: &str,
    description: Option<String>,
    definition: &Value,
    imported: &mut Imported,
) -> Option<ImportedTemplate> {
    let name = name_of(name, "template");
    let Some(tasks) = definition["tasks"].as_array() else {
        imported.note(format!("template {name}"), "it has no tasks");
        return None;
    };
    let mut planned = Vec::new();
    for task in tasks {
        let mut plan = serde_json::Map::new();
        let mut context = serde_json::Map::new();
        for (key, value) in task.as_object().into_iter().flatten() {
            match key.as_str() {
                _ if value.is_null() => {}
                "name" | "description" | "parallel_group" | "depends_on" | "context_from" => {
                    plan.insert(key.clone(), value.clone());
                }
                "files_likely_affected" => {
                    plan.insert("files".to_owned(), value.clone());
                }
                _ => {
                    context.insert(key.clone(), value.clone());
                }
            }
        }
        if !context.is_empty() {
            plan.insert("context".to_owned(), Value::Object(context));
        }
        planned.push(Value::Object(plan));
    }
    let body = json!({ "tasks": planned });
    let used = waypost_core::work::template::names(&body);
    let mut variables = Vec::new();
    for declared in definition["variables"].as_array().into_iter().flatten() {
        let Some(variable) = declared.as_str().or_else(|| declared["name"].as_str()) else { continue };
        if !used.iter().any(|known| known == variable) {
            imported.note(format!("template {name}"), format!("no task uses its variable {variable}"));
            continue;
        }
        let is_optional = declared["required"].as_bool() == Some(false);
        variables.push(Variable {
            name: variable.to_owned(),
            description: declared["description"].as_str().map(str::to_owned),
            default: declared["default"].as_str().map(str::to_owned).or_else(|| is_optional.then(String::new)),
        });
    }
    Some(ImportedTemplate { name, description, body, variables })
}

fn rows<'a>(tables: &'a Tables, table: &str) -> impl Iterator<Item = &'a Row> {
    tables.get(table).into_iter().flatten()
}

/// Returns the name of a row for a report.
fn row_name(row: &Row) -> String {
    let id = text(row, "id").unwrap_or_else(|| "a row".to_owned());
    text(row, "name").map_or(id.clone(), |name| format!("{name} {id}"))
}

fn moment(row: &Row, column: &str, context: &ImportContext) -> Timestamp {
    number(row, column).map_or(context.now, Timestamp::from_millis)
}

fn agents(tables: &Tables, context: &ImportContext, author: &Agent) -> BTreeMap<String, Agent> {
    let mut agents = BTreeMap::new();
    let mut names: BTreeSet<String> = BTreeSet::from([author.name.clone()]);
    for row in rows(tables, "agents") {
        let Some(id) = text(row, "id") else { continue };
        let known = id.parse().unwrap_or_else(|_| AgentId::generate(&mut Seeded::of(&["caw", "agent", &id])));
        let mut name = name_of(&text(row, "name").unwrap_or_default(), "agent");
        while !names.insert(name.clone()) {
            // caw registers a new agent of the same name each time.
            name = name_of(&format!("{name} {id}"), "agent");
        }
        let mut agent = super::agent(context, known, &name);
        agent.runtime = text(row, "runtime");
        agent.role = text(row, "role").and_then(|role| role.parse().ok()).unwrap_or(agent.role);
        if let Value::Array(capabilities) = json_of(row, "capabilities") {
            agent.capabilities = capabilities.iter().filter_map(|one| one.as_str().map(str::to_owned)).collect();
        }
        agents.insert(id, agent);
    }
    agents
}

fn workflow(imported: &mut Imported, context: &ImportContext, row: &Row) -> Option<WorkflowDump> {
    let Some(id) = text(row, "id").and_then(|id| id.parse::<WorkflowId>().ok()) else {
        imported.note(row_name(row), "no workflow id");
        return None;
    };
    let mut dump = super::empty(context, id, name_of(&text(row, "name").unwrap_or_default(), "workflow"));
    let workflow = &mut dump.workflow;
    workflow.source = match text(row, "source_type").as_deref() {
        Some("prompt") => Source::Prompt,
        Some("github_issue") => Source::Github,
        Some("template") => Source::Template,
        _ => Source::Custom,
    };
    (workflow.source_ref, workflow.source_content) = (text(row, "source_ref"), text(row, "source_content"));
    workflow.summary = text(row, "plan_summary");
    workflow.max_parallel =
        number(row, "max_parallel_tasks").and_then(|most| u32::try_from(most).ok()).filter(|most| *most > 0);
    workflow.config = json!({ "caw": json_of(row, "config") });
    (workflow.created_at, workflow.updated_at) =
        (moment(row, "created_at", context), moment(row, "updated_at", context));
    workflow.status = match text(row, "status").as_deref() {
        Some("abandoned") => WorkflowStatus::Cancelled,
        Some(status) => status.parse().unwrap_or_else(|_| {
            imported.note(row_name(row), format!("unknown status {status:?}: imported as paused"));
            WorkflowStatus::Paused
        }),
        None => WorkflowStatus::Paused,
    };
    Some(dump)
}

fn task(imported: &mut Imported, context: &ImportContext, place: usize, id: TaskId, row: &Row) {
    let dump = &imported.workflows[place];
    let mut name = name_of(&text(row, "name").unwrap_or_default(), "task");
    let original = name.clone();
    while dump.tasks.iter().any(|task| task.name == name) {
        name = name_of(&format!("{name} {id}"), "task");
    }
    let sequence = u32::try_from(dump.tasks.len() + 1).unwrap_or(u32::MAX);
    let mut task: Task = super::task(context, &dump.workflow, id, name.clone(), sequence);
    task.description = text(row, "description").unwrap_or_default();
    task.parallel_group = text(row, "parallel_group");
    task.repository_id = task_repository(context, &dump.concerns, text(row, "repository_id").as_deref());
    (task.plan, task.context) = (json_of(row, "plan"), json_of(row, "context"));
    if let Value::Array(files) = &task.context["files_likely_affected"] {
        task.files = files.iter().filter_map(|file| file.as_str().map(str::to_owned)).collect();
    }
    (task.created_at, task.updated_at) = (moment(row, "created_at", context), moment(row, "updated_at", context));
    task.queued_at = task.created_at;
    let (outcome, detail) = (text(row, "outcome"), text(row, "outcome_detail"));
    let status = text(row, "status").unwrap_or_default();
    match status.as_str() {
        "completed" => {
            task.status = TaskStatus::Completed;
            task.outcome = Some(outcome.clone().unwrap_or_else(|| "completed in caw".to_owned()));
        }
        "skipped" => task.status = TaskStatus::Skipped,
        "paused" => task.status = TaskStatus::Paused,
        "failed" => {
            task.status = TaskStatus::Dead;
            task.attempts = task.max_attempts;
            task.error = detail.clone().or(outcome.clone()).or(Some("failed in caw".to_owned()));
        }
        "pending" | "blocked" => {}
        "planning" | "in_progress" => {
            imported.note(row_name(row), "an agent works on it in caw: imported as pending");
        }
        other => imported.note(row_name(row), format!("unknown status {other:?}: imported as pending")),
    }
    task.finished_at = task.status.is_final().then_some(task.updated_at);
    task.outcome = task.outcome.or(outcome);
    if name != original {
        imported.note(original, format!("another task of its workflow has the same name: imported as {name}"));
    }
    imported.workflows[place].tasks.push(task);
}

/// Returns the repository of a task. A task of a workflow over several repositories has only the one it names.
fn task_repository(context: &ImportContext, concerns: &[RepositoryId], named: Option<&str>) -> Option<RepositoryId> {
    let named = named.and_then(|id| context.repositories.get(id)).map(|repository| repository.id.clone());
    match concerns {
        [one] => Some(named.unwrap_or_else(|| one.clone())),
        _ => named,
    }
}

/// Sets `context_from`: caw has ids where Waypost has names.
fn context_from(imported: &mut Imported, tables: &Tables) {
    let mut sources: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for row in rows(tables, "tasks") {
        if let (Some(id), Value::Array(ids)) = (text(row, "id"), json_of(row, "context_from")) {
            sources.insert(id, ids.iter().filter_map(|id| id.as_str().map(str::to_owned)).collect());
        }
    }
    for dump in &mut imported.workflows {
        let names: BTreeMap<String, String> =
            dump.tasks.iter().map(|task| (task.id.to_string(), task.name.clone())).collect();
        for task in &mut dump.tasks {
            let ids = sources.remove(task.id.as_str()).unwrap_or_default();
            task.context_from = ids.iter().filter_map(|id| names.get(id).cloned()).collect();
        }
    }
}

/// caw accepts cycles, in which no task could ever run. One edge of each cycle is left out.
fn dependencies(
    imported: &mut Imported,
    tables: &Tables,
    owners: &BTreeMap<TaskId, usize>,
    left_out: &BTreeSet<String>,
) {
    let mut on: BTreeMap<TaskId, Vec<TaskId>> = BTreeMap::new();
    for row in rows(tables, "task_dependencies") {
        let id = |column| text(row, column).and_then(|id| id.parse::<TaskId>().ok());
        let (Some(task), Some(depends_on)) = (id("task_id"), id("depends_on_id")) else { continue };
        if left_out.contains(task.as_str()) && left_out.contains(depends_on.as_str()) {
            continue;
        }
        let item = format!("{task} after {depends_on}");
        let place = owners.get(&task).filter(|place| owners.get(&depends_on) == Some(place));
        let Some(place) = place else {
            imported.note(item, "not tasks of one workflow");
            continue;
        };
        let kind = match text(row, "dependency_type").as_deref() {
            Some("informs") => DependencyKind::Informs,
            _ => DependencyKind::Blocks,
        };
        if task == depends_on || (kind == DependencyKind::Blocks && reaches(&on, &depends_on, &task)) {
            imported.note(item, "closes a cycle");
            continue;
        }
        if kind == DependencyKind::Blocks {
            on.entry(task.clone()).or_default().push(depends_on.clone());
        }
        imported.workflows[*place].dependencies.push(Dependency { task_id: task, depends_on, kind });
    }
}

fn reaches(on: &BTreeMap<TaskId, Vec<TaskId>>, from: &TaskId, to: &TaskId) -> bool {
    let (mut queue, mut seen) = (vec![from], BTreeSet::new());
    while let Some(task) = queue.pop() {
        if task == to {
            return true;
        }
        if seen.insert(task) {
            queue.extend(on.get(task).into_iter().flatten());
        }
    }
    false
}

fn checkpoints(
    imported: &mut Imported,
    tables: &Tables,
    context: &ImportContext,
    owners: &BTreeMap<TaskId, usize>,
    left_out: &BTreeSet<String>,
    author: &Agent,
) {
    let is_left_out = |row: &&Row| text(row, "task_id").is_some_and(|id| left_out.contains(&id));
    let mut sorted: Vec<&Row> = rows(tables, "checkpoints").filter(|row| !is_left_out(row)).collect();
    sorted
        .sort_by_key(|row| (text(row, "task_id"), number(row, "sequence"), number(row, "created_at"), text(row, "id")));
    let mut counts: BTreeMap<TaskId, u32> = BTreeMap::new();
    for row in sorted {
        let task = text(row, "task_id").and_then(|id| id.parse::<TaskId>().ok());
        let Some((task, place)) = task.and_then(|task| owners.get(&task).map(|place| (task, *place))) else {
            imported.note(row_name(row), "a checkpoint without a task");
            continue;
        };
        let id = text(row, "id").unwrap_or_default();
        let name = text(row, "checkpoint_type").unwrap_or_default();
        let kind = name.parse().unwrap_or_else(|_| {
            imported.note(id.clone(), format!("unknown checkpoint type {name:?}: imported as progress"));
            CheckpointKind::Progress
        });
        // Where caw was raced, two have one number.
        let sequence = counts.entry(task.clone()).or_default();
        *sequence += 1;
        let files = match json_of(row, "files_changed") {
            Value::Array(files) => files.iter().filter_map(|file| file.as_str().map(str::to_owned)).collect(),
            _ => Vec::new(),
        };
        imported.workflows[place].checkpoints.push(Checkpoint {
            id: id.parse().unwrap_or_else(|_| CheckpointId::generate(&mut Seeded::of(&["caw", "checkpoint", &id]))),
            task_id: task,
            sequence: *sequence,
            kind,
            summary: text(row, "summary").unwrap_or_default(),
            detail: json_of(row, "detail"),
            files,
            tokens: None,
            cost: None,
            agent_id: author.id.clone(),
            epoch: 0,
            worktree_id: context.worktree.id.clone(),
            created_at: moment(row, "created_at", context),
        });
    }
}

fn messages(
    imported: &mut Imported,
    tables: &Tables,
    context: &ImportContext,
    places: &BTreeMap<WorkflowId, usize>,
    agents: &BTreeMap<String, Agent>,
    author: &Agent,
) {
    let mut sorted: Vec<&Row> = rows(tables, "messages").collect();
    sorted.sort_by_key(|row| (number(row, "created_at"), text(row, "id")));
    let mut left_out = 0;
    let mut threads: BTreeMap<String, MessageId> = BTreeMap::new();
    for row in sorted {
        let workflow = text(row, "workflow_id").and_then(|id| id.parse::<WorkflowId>().ok());
        let place = workflow.as_ref().and_then(|id| places.get(id).copied());
        let recipient = text(row, "recipient_id").and_then(|id| agents.get(&id));
        let id = text(row, "id").and_then(|id| id.parse::<MessageId>().ok());
        let (Some(place), Some(recipient), Some(id)) = (place, recipient, id) else {
            left_out += 1;
            continue;
        };
        let sender = text(row, "sender_id").and_then(|id| agents.get(&id)).unwrap_or(author);
        let body = text(row, "body").unwrap_or_default();
        let thread = text(row, "thread_id").unwrap_or_else(|| id.to_string());
        let dump = &mut imported.workflows[place];
        let task_id = text(row, "task_id").and_then(|id| id.parse::<TaskId>().ok());
        let task_id = task_id.filter(|id| dump.tasks.iter().any(|task| task.id == *id));
        let earlier: BTreeSet<&MessageId> = dump.messages.iter().map(|message| &message.id).collect();
        let reply_to = text(row, "reply_to_id").and_then(|id| id.parse().ok()).filter(|id| earlier.contains(id));
        let state = match text(row, "status").as_deref() {
            Some("read") => MessageState::Read,
            Some("archived") => MessageState::Acted,
            _ => MessageState::Queued,
        };
        dump.messages.push(Message {
            number: 0,
            sender: sender.id.clone(),
            recipient: recipient.id.clone(),
            thread: threads.entry(thread).or_insert_with(|| id.clone()).clone(),
            reply_to,
            kind: text(row, "message_type").and_then(|kind| kind.parse().ok()).unwrap_or(MessageKind::StatusUpdate),
            priority: text(row, "priority").and_then(|one| one.parse().ok()).unwrap_or(Urgency::Normal),
            subject: text(row, "subject").unwrap_or_else(|| name_of(body.lines().next().unwrap_or_default(), "")),
            body,
            workflow_id: workflow,
            task_id,
            expires_at: number(row, "expires_at").map(Timestamp::from_millis),
            state,
            worktree_id: context.worktree.id.clone(),
            created_at: moment(row, "created_at", context),
            updated_at: moment(row, "created_at", context),
            id,
        });
    }
    if left_out > 0 {
        imported.note(count(left_out, "message"), "without a known workflow or recipient");
    }
}

/// Derives the status of a workflow from its tasks, which caw does not do.
fn derive_statuses(dump: &mut WorkflowDump, context: &ImportContext) {
    let is_done = dump.tasks.iter().all(|task| task.status.satisfies());
    let workflow = &mut dump.workflow;
    workflow.status = match workflow.status {
        WorkflowStatus::Completed if !is_done => WorkflowStatus::Paused,
        WorkflowStatus::Ready | WorkflowStatus::InProgress if dump.tasks.is_empty() => WorkflowStatus::Planning,
        // No agent here works on it until a user resumes it.
        WorkflowStatus::InProgress => WorkflowStatus::Paused,
        other => other,
    };
    if !matches!(workflow.status, WorkflowStatus::Planning | WorkflowStatus::Ready) {
        workflow.started_at = Some(workflow.created_at);
    }
    workflow.finished_at = workflow.status.is_final().then_some(workflow.updated_at);
    if workflow.status == WorkflowStatus::Cancelled {
        for task in dump.tasks.iter_mut().filter(|task| !task.status.is_final()) {
            task.status = TaskStatus::Cancelled;
            task.finished_at = Some(workflow.updated_at.min(context.now));
        }
    }
}
