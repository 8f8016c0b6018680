//! Imports a workflow from another store.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::add_workflow::check_several;
use crate::context::{Caller, OpContext};
use crate::error::{Error, Kind, Result};
use crate::id::{AgentId, CheckpointId, TaskId};
use crate::model::{Agent, AgentStatus, Checkpoint, Event, Lease, Message, NewEvent, Task, WorkflowQuery, kind};
use crate::op::{Audience, Effect, Operation, StoreOperation};
use crate::work::transfer::{self, WorkflowDump};

/// Imports a workflow from another store, with its ids, epochs and history. Repeating it changes nothing.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TakeWorkflow {
    /// All data of the workflow.
    pub dump: WorkflowDump,
    /// The source store.
    pub from: String,
    /// The name of this store in the `moved` records of other stores.
    pub into: String,
    /// Only check whether the import is possible.
    // Its name on the wire: servers and clients of other versions know it.
    #[serde(default, rename = "rehearse")]
    pub dry_run: bool,
}

/// The answer to [`TakeWorkflow`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Taken {
    /// Whether the workflow is new in this store.
    pub is_new: bool,
}

impl Operation for TakeWorkflow {
    const NAME: &'static str = "take_workflow";
    const SUMMARY: &'static str = "Import a workflow from another store";
    const EFFECT: Effect = Effect::Write;
    const AUDIENCE: Audience = Audience::Internal;
    // A workflow moves with its whole history.
    const IS_LIMITED: bool = false;
    type Answer = Taken;
}

impl StoreOperation for TakeWorkflow {
    fn run(self, cx: &mut OpContext<'_>) -> Result<Taken> {
        self.import(cx).map_err(|error| match error.kind() {
            // The data comes from outside, so an inconsistency in it is an invalid argument and not an internal error.
            Kind::Internal => Error::invalid("the data of the workflow is inconsistent").because(error.full_message()),
            _ => error,
        })
    }
}

impl TakeWorkflow {
    /// Checks that an empty store, which may not exist yet, would accept the workflow.
    pub fn check_empty_destination(&self, caller: &Caller) -> Result<Taken> {
        check_several(caller, &self.dump.concerns)?;
        Ok(Taken { is_new: true })
    }

    fn import(self, cx: &mut OpContext<'_>) -> Result<Taken> {
        let TakeWorkflow { mut dump, from, into, dry_run } = self;
        let id = dump.workflow.id.clone();
        let known = cx.tx.workflow_get(&id)?;
        if let Some(known) = &known {
            // A workflow that was moved away comes back only from a store that has had it later.
            let moves = transfer::import_count(&id, &transfer::history(cx, id.as_str())?);
            if transfer::mark(known).is_none() || transfer::import_count(&id, &dump.events) < moves {
                return Ok(Taken { is_new: false });
            }
        }
        check_several(cx.caller, &dump.concerns)?;
        check_name(cx, &dump)?;
        if dry_run {
            return Ok(Taken { is_new: true });
        }
        for repository in &dump.repositories {
            if cx.tx.repository_get(&repository.id)?.is_none() {
                cx.tx.repository_put(repository)?;
            }
        }
        for worktree in &dump.worktrees {
            if cx.tx.worktree_get(&worktree.id)?.is_none() {
                cx.tx.worktree_put(worktree)?;
            }
        }
        map_agents(cx, &mut dump)?;
        cx.tx.workflow_put(&dump.workflow)?;
        for repository in &dump.concerns {
            cx.tx.workflow_repository_put(&id, repository)?;
        }
        store_tasks(cx, &dump)?;
        for lease in &dump.leases {
            let epoch = cx.tx.lease_get(&lease.subject)?.map_or(0, |known| known.epoch).max(lease.epoch);
            let free = Lease { holder: None, run_until: None, stall_at: None, epoch, ..lease.clone() };
            cx.tx.lease_put(&free)?;
        }
        store_checkpoints(cx, &dump.checkpoints)?;
        store_messages(cx, &dump.messages)?;
        for template in &dump.templates {
            if cx.tx.template_list(Some(&template.name))?.is_empty() {
                cx.tx.template_put(template)?;
            }
        }
        let mut known_events = BTreeSet::new();
        if known.is_some() {
            let subjects: BTreeSet<&str> = dump.events.iter().map(|event| event.subject.as_str()).collect();
            for subject in subjects {
                known_events.extend(transfer::history(cx, subject)?.iter().map(|event| origin(event, &into)));
            }
        }
        for event in dump.events.iter().filter(|event| !known_events.contains(&origin(event, &from))) {
            replay(cx, event, &from)?;
        }
        let data = json!({
            "name": dump.workflow.name,
            "from": from,
            "tasks": dump.tasks.len(),
            "checkpoints": dump.checkpoints.len(),
        });
        cx.event(kind::WORKFLOW_IMPORTED, id.as_str(), data)?;
        Ok(Taken { is_new: true })
    }
}

/// Refuses the name of a live workflow of the same worktree in this store.
fn check_name(cx: &mut OpContext<'_>, dump: &WorkflowDump) -> Result<()> {
    let query = WorkflowQuery {
        name: Some(dump.workflow.name.clone()),
        worktree_id: Some(dump.workflow.worktree_id.clone()),
        limit: 100,
        ..WorkflowQuery::default()
    };
    let is_rival = |other: &crate::model::Workflow| other.id != dump.workflow.id && !other.status.is_final();
    match cx.tx.workflow_list(&query)?.into_iter().find(is_rival) {
        Some(rival) if !dump.workflow.status.is_final() => {
            Err(Error::conflict(format!("the same worktree already has a workflow {} in this store", rival.name))
                .hint(format!("end one of them first: way workflow cancel {}", rival.id)))
        }
        _ => Ok(()),
    }
}

/// Adds unknown agents, and replaces the ids of agents whose name is known here: names identify agents.
fn map_agents(cx: &mut OpContext<'_>, dump: &mut WorkflowDump) -> Result<()> {
    let mut ids: BTreeMap<AgentId, AgentId> = BTreeMap::new();
    for agent in &dump.agents {
        if let Some(known) = cx.tx.agent_named(&agent.name)? {
            ids.insert(agent.id.clone(), known.id);
        } else if cx.tx.agent_get(&agent.id)?.is_none() {
            // The agent counts as offline until it calls this store.
            let absent = Agent { status: AgentStatus::Offline, silent_at: None, ..agent.clone() };
            cx.tx.agent_put(&absent)?;
        }
    }
    let here = |id: &mut AgentId| {
        if let Some(known) = ids.get(id) {
            *id = known.clone();
        }
    };
    dump.tasks.iter_mut().filter_map(|task| task.assignee.as_mut()).for_each(here);
    dump.checkpoints.iter_mut().map(|checkpoint| &mut checkpoint.agent_id).for_each(here);
    for message in &mut dump.messages {
        here(&mut message.sender);
        here(&mut message.recipient);
    }
    Ok(())
}

/// Replaces the tasks and dependencies of the workflow.
fn store_tasks(cx: &mut OpContext<'_>, dump: &WorkflowDump) -> Result<()> {
    for old in cx.tx.dependency_list(&dump.workflow.id)? {
        cx.tx.dependency_remove(&old.task_id, &old.depends_on)?;
    }
    let ids: BTreeSet<&TaskId> = dump.tasks.iter().map(|task| &task.id).collect();
    let old: Vec<Task> = cx.tx.task_list(&dump.workflow.id)?;
    for gone in old.iter().filter(|task| !ids.contains(&task.id)) {
        // Only tasks that were never started can be removed from a plan, so only messages refer to them.
        cx.tx.message_detach(&gone.id)?;
        cx.tx.task_remove(&gone.id)?;
    }
    for task in &dump.tasks {
        cx.tx.task_put(task)?;
    }
    for dependency in &dump.dependencies {
        cx.tx.dependency_put(dependency)?;
    }
    Ok(())
}

fn store_checkpoints(cx: &mut OpContext<'_>, checkpoints: &[Checkpoint]) -> Result<()> {
    let mut known: BTreeMap<&TaskId, BTreeSet<CheckpointId>> = BTreeMap::new();
    for checkpoint in checkpoints {
        if !known.contains_key(&checkpoint.task_id) {
            let there = cx.tx.checkpoint_list(&checkpoint.task_id, None, u32::MAX)?;
            known.insert(&checkpoint.task_id, there.into_iter().map(|checkpoint| checkpoint.id).collect());
        }
        if !known[&checkpoint.task_id].contains(&checkpoint.id) {
            cx.tx.checkpoint_put(checkpoint)?;
        }
    }
    Ok(())
}

/// Stores messages in the inboxes of this store, in order. A message acknowledged elsewhere stays acknowledged.
fn store_messages(cx: &mut OpContext<'_>, messages: &[Message]) -> Result<()> {
    for message in messages {
        let mut message = message.clone();
        match cx.tx.message_get(&message.id)? {
            Some(known) => message.number = known.number,
            None => message.number = cx.tx.message_last()? + 1,
        }
        if let Some(answered) = &message.reply_to
            && cx.tx.message_get(answered)?.is_none()
        {
            message.reply_to = None;
        }
        cx.tx.message_put(&message)?;
    }
    Ok(())
}

/// Returns the store in which an event happened, and its sequence there.
fn origin(event: &Event, store: &str) -> (String, u64) {
    let moved = &event.data["moved"];
    match (moved["from"].as_str(), moved["sequence"].as_u64()) {
        (Some(from), Some(sequence)) => (from.to_owned(), sequence),
        _ => (store.to_owned(), event.sequence),
    }
}

/// Appends an event of another store, with its original time and sequence.
fn replay(cx: &mut OpContext<'_>, event: &Event, from: &str) -> Result<()> {
    let Some(kind) = kind::ALL.iter().find(|kind| **kind == event.kind) else { return Ok(()) };
    let mut data = if event.data.is_object() { event.data.clone() } else { json!({ "data": event.data }) };
    if data.get("moved").is_none() {
        data["moved"] = json!({ "from": from, "sequence": event.sequence, "time": event.time });
    }
    cx.tx.event_append(&NewEvent {
        time: cx.now,
        actor: event.actor.clone(),
        worktree_id: event.worktree_id.clone(),
        kind,
        subject: event.subject.clone(),
        data,
    })?;
    Ok(())
}
