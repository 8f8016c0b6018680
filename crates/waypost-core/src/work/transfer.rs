//! Moves workflows from one store to another.
//!
//! Agents must not work on one workflow in two stores. So the source marks a workflow as moved before the destination
//! writes it: after a crash between the two it is claimable in neither store, and repeating the move completes it.

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
use crate::tree;

/// The key of the mark in the settings of a workflow.
const MARK_KEY: &str = "waypost.moved";
/// Number of events in one page.
const PAGE_SIZE: u32 = 1_000;

/// A workflow with everything that belongs to it, and every record that these refer to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorkflowDump {
    /// The workflow.
    pub workflow: Workflow,
    /// The repositories that it spans.
    pub concerns: Vec<RepositoryId>,
    /// Its tasks, in plan order.
    pub tasks: Vec<Task>,
    /// Their dependencies.
    pub dependencies: Vec<Dependency>,
    /// Their checkpoints, oldest first.
    pub checkpoints: Vec<Checkpoint>,
    /// Their leases. No agent may hold one, but their epochs must never go back.
    pub leases: Vec<Lease>,
    /// Messages about it, in order.
    pub messages: Vec<Message>,
    /// The template it was created from.
    pub templates: Vec<Template>,
    /// The events of the workflow, its tasks and the messages, oldest first.
    pub events: Vec<Event>,
    /// The agents that these records refer to.
    pub agents: Vec<Agent>,
    /// The repositories that these records refer to.
    pub repositories: Vec<Repository>,
    /// The worktrees that these records refer to.
    pub worktrees: Vec<Worktree>,
}

/// Marks a workflow as moved to another store, and keeps the fields that the mark replaced.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mark {
    /// The destination store.
    pub to: String,
    /// When it was moved.
    pub at: Timestamp,
    status: WorkflowStatus,
    config: Value,
    reason: Option<String>,
    /// The deadlines of its tasks.
    due: BTreeMap<TaskId, Timestamp>,
}

/// Returns the mark of a workflow that was moved to another store.
pub fn mark(workflow: &Workflow) -> Option<Mark> {
    tree::decode(workflow.config.get(MARK_KEY)?).ok()
}

/// Refuses to change a workflow that was moved to another store.
pub(crate) fn check_here(workflow: &Workflow) -> Result<()> {
    match mark(workflow) {
        None => Ok(()),
        Some(mark) => Err(Error::conflict(format!("workflow {} was moved to {}", workflow.name, mark.to))
            .hint(format!("continue there: way --db {} workflow show {}", mark.to, workflow.id))),
    }
}

/// Marks a workflow as moved, so that this store does not change it any more, and returns the marked workflow.
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
    let config = json!({ MARK_KEY: mark });
    let frozen = Workflow { status, reason, config, updated_at: cx.now, ..workflow.clone() };
    cx.tx.workflow_put(&frozen)?;
    Ok(frozen)
}

/// Collects everything that belongs to a workflow. The dump of a marked workflow has the fields from before the mark.
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
    add_references(cx, &mut dump)?;
    Ok(dump)
}

/// Returns all events of a subject, oldest first.
pub(crate) fn history(cx: &mut OpContext<'_>, subject: &str) -> Result<Vec<Event>> {
    let mut events: Vec<Event> = Vec::new();
    loop {
        let since = Some(events.last().map_or(0, |event| event.sequence));
        let query = EventQuery { since, subject: Some(subject.to_owned()), limit: PAGE_SIZE, ..EventQuery::default() };
        let page = cx.tx.event_list(&query)?;
        let is_last = page.len() < PAGE_SIZE as usize;
        events.extend(page);
        if is_last {
            return Ok(events);
        }
    }
}

/// Returns how often a workflow was imported into a store, by its history. Of two copies, the one with more imports is
/// the later one.
pub(crate) fn import_count(workflow: &WorkflowId, history: &[Event]) -> usize {
    history.iter().filter(|event| event.kind == kind::WORKFLOW_IMPORTED && event.subject == workflow.as_str()).count()
}

/// Adds the agents, worktrees and repositories that a dump refers to.
fn add_references(cx: &mut OpContext<'_>, dump: &mut WorkflowDump) -> Result<()> {
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
