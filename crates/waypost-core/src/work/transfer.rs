//! Workflows on their way from one store to another.
//!
//! Nobody may work on one thing in two stores. So a workflow is marked where it is before it is written where it goes:
//! a crash between the two leaves it in no store where it could be claimed, and moving it again goes on.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::context::OpContext;
use crate::error::{Error, Result};
use crate::id::{AgentId, RepositoryId, TaskId, WorkflowId, WorktreeId};
use crate::model::{
    Agent, Checkpoint, Dependency, Event, EventQuery, Lease, Message, Repository, Source, Task, Template, Workflow,
    WorkflowStatus, Worktree, kind,
};
use crate::time::Timestamp;

/// Where the mark stands in the settings of a workflow.
const MARK: &str = "waypost.moved";
/// How many events are read at once.
const PAGE: u32 = 1_000;

/// Everything that belongs to a workflow, and everything that this refers to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorkflowDump {
    /// The workflow.
    pub workflow: Workflow,
    /// The repositories that it concerns.
    pub concerns: Vec<RepositoryId>,
    /// Its tasks, in the order of the plan.
    pub tasks: Vec<Task>,
    /// What they wait for.
    pub dependencies: Vec<Dependency>,
    /// Their checkpoints, oldest first.
    pub checkpoints: Vec<Checkpoint>,
    /// Their leases: nobody may hold one, but epochs must go on.
    pub leases: Vec<Lease>,
    /// Messages about it, in order.
    pub messages: Vec<Message>,
    /// The template it was made from.
    pub templates: Vec<Template>,
    /// What happened to it, its tasks and the messages, oldest first.
    pub events: Vec<Event>,
    /// Agents that are named.
    pub agents: Vec<Agent>,
    /// Repositories that are named.
    pub repositories: Vec<Repository>,
    /// Worktrees that are named.
    pub worktrees: Vec<Worktree>,
}

/// That a workflow went to another store, and how it was before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mark {
    /// The store it went to.
    pub to: String,
    /// When.
    pub at: Timestamp,
    status: WorkflowStatus,
    config: Value,
    reason: Option<String>,
    /// When something would have happened to its tasks by itself.
    due: BTreeMap<TaskId, Timestamp>,
}

/// Returns the mark of a workflow that went to another store.
pub fn mark(workflow: &Workflow) -> Option<Mark> {
    serde_json::from_value(workflow.config.get(MARK)?.clone()).ok()
}

/// Refuses to change what is in another store now.
pub(crate) fn check_here(workflow: &Workflow) -> Result<()> {
    match mark(workflow) {
        None => Ok(()),
        Some(mark) => Err(Error::conflict(format!("workflow {} was moved to {}", workflow.name, mark.to))
            .hint(format!("go on with it there: way --db {} workflow show {}", mark.to, workflow.id))),
    }
}

/// Marks a workflow, so that nothing happens to it here any more, and returns it as it is now.
pub(crate) fn freeze(cx: &mut OpContext<'_>, workflow: &Workflow, to: &str) -> Result<Workflow> {
    let mut due = BTreeMap::new();
    for task in cx.tx.task_list(&workflow.id)? {
        if let Some(moment) = task.due_at {
            due.insert(task.id.clone(), moment);
            cx.tx.task_put(&Task { due_at: None, ..task })?;
        }
    }
    let mark = Mark {
        to: to.to_owned(),
        at: cx.now,
        status: workflow.status,
        config: workflow.config.clone(),
        reason: workflow.reason.clone(),
        due,
    };
    let status = match workflow.status {
        WorkflowStatus::InProgress => WorkflowStatus::Paused,
        other => other,
    };
    let reason = Some(format!("moved to {to}"));
    let config = json!({ MARK: mark });
    let frozen = Workflow { status, reason, config, updated_at: cx.now, ..workflow.clone() };
    cx.tx.workflow_put(&frozen)?;
    Ok(frozen)
}

/// Collects everything that belongs to a workflow. One that is marked is shown as it was before.
pub(crate) fn dump(cx: &mut OpContext<'_>, workflow: &Workflow) -> Result<WorkflowDump> {
    let mut workflow = workflow.clone();
    let mut tasks = cx.tx.task_list(&workflow.id)?;
    if let Some(mark) = mark(&workflow) {
        for task in &mut tasks {
            task.due_at = task.due_at.or(mark.due.get(&task.id).copied());
        }
        (workflow.status, workflow.config, workflow.reason) = (mark.status, mark.config, mark.reason);
    }
    let mut dump = WorkflowDump {
        concerns: cx.tx.workflow_repository_list(&workflow.id)?,
        dependencies: cx.tx.dependency_list(&workflow.id)?,
        checkpoints: Vec::new(),
        leases: Vec::new(),
        messages: cx.tx.message_list_about(&workflow.id)?,
        templates: Vec::new(),
        events: Vec::new(),
        agents: Vec::new(),
        repositories: Vec::new(),
        worktrees: Vec::new(),
        workflow,
        tasks,
    };
    for task in &dump.tasks {
        let mut checkpoints = cx.tx.checkpoint_list(&task.id, None, u32::MAX)?;
        checkpoints.reverse();
        dump.checkpoints.extend(checkpoints);
        dump.leases.extend(cx.tx.lease_get(task.id.as_str())?);
    }
    if dump.workflow.source == Source::Template
        && let Some((name, _)) = dump.workflow.source_ref.as_deref().and_then(|from| from.rsplit_once(" version "))
    {
        dump.templates = cx.tx.template_list(Some(name))?;
    }
    let subjects: Vec<String> = std::iter::once(dump.workflow.id.to_string())
        .chain(dump.tasks.iter().map(|task| task.id.to_string()))
        .chain(dump.messages.iter().map(|message| message.id.to_string()))
        .collect();
    for subject in subjects {
        dump.events.extend(history(cx, &subject)?);
    }
    dump.events.sort_by_key(|event| event.sequence);
    refer(cx, &mut dump)?;
    Ok(dump)
}

/// Returns all that happened to something here, oldest first.
pub(crate) fn history(cx: &mut OpContext<'_>, subject: &str) -> Result<Vec<Event>> {
    let mut events: Vec<Event> = Vec::new();
    loop {
        let since = Some(events.last().map_or(0, |event| event.sequence));
        let query = EventQuery { since, subject: Some(subject.to_owned()), limit: PAGE, ..EventQuery::default() };
        let page = cx.tx.event_list(&query)?;
        let is_last = page.len() < PAGE as usize;
        events.extend(page);
        if is_last {
            return Ok(events);
        }
    }
}

/// Returns how often a workflow has come into a store, by its history. Of two copies, the one that came more often is
/// the later one.
pub(crate) fn import_count(workflow: &WorkflowId, history: &[Event]) -> usize {
    history.iter().filter(|event| event.kind == kind::WORKFLOW_IMPORTED && event.subject == workflow.as_str()).count()
}

/// Adds what the parts of a dump refer to.
fn refer(cx: &mut OpContext<'_>, dump: &mut WorkflowDump) -> Result<()> {
    let agents: BTreeSet<AgentId> = (dump.tasks.iter().filter_map(|task| task.assignee.clone()))
        .chain(dump.checkpoints.iter().map(|checkpoint| checkpoint.agent_id.clone()))
        .chain(dump.messages.iter().flat_map(|message| [message.sender.clone(), message.recipient.clone()]))
        .collect();
    for id in agents {
        dump.agents.extend(cx.tx.agent_get(&id)?);
    }
    let worktrees: BTreeSet<WorktreeId> = std::iter::once(dump.workflow.worktree_id.clone())
        .chain(dump.tasks.iter().map(|task| task.worktree_id.clone()))
        .chain(dump.checkpoints.iter().map(|checkpoint| checkpoint.worktree_id.clone()))
        .chain(dump.leases.iter().map(|lease| lease.worktree_id.clone()))
        .chain(dump.messages.iter().map(|message| message.worktree_id.clone()))
        .chain(dump.templates.iter().map(|template| template.worktree_id.clone()))
        .chain(dump.events.iter().map(|event| event.worktree_id.clone()))
        .chain(dump.agents.iter().map(|agent| agent.worktree_id.clone()))
        .collect();
    for id in worktrees {
        dump.worktrees.extend(cx.tx.worktree_get(&id)?);
    }
    let repositories: BTreeSet<RepositoryId> = (dump.concerns.iter().cloned())
        .chain(dump.tasks.iter().filter_map(|task| task.repository_id.clone()))
        .chain(dump.worktrees.iter().map(|worktree| worktree.repository_id.clone()))
        .collect();
    for id in repositories {
        dump.repositories.extend(cx.tx.repository_get(&id)?);
    }
    Ok(())
}
