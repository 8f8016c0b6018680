//! Workflows from one store to another: frozen here, taken in there, ended here if that is wanted.

use serde::Serialize;
use waypost_core::id::WorkflowId;
use waypost_core::model::{Workflow, WorkflowQuery, WorkflowStatus};
use waypost_core::op::{
    DumpWorkflow, FreezeWorkflow, ListLeases, ListWorkflows, RetireWorkflow, ShowWorkflow, TakeWorkflow,
};
use waypost_core::work::transfer::{WorkflowDump, mark};
use waypost_core::{Error, Kind, Result, path_text};

use crate::place::Location;
use crate::session::Session;

/// What to move, and how.
#[derive(Clone, Debug, Default)]
pub struct Move {
    /// Only these, by id or name; everything that is live if there are none.
    pub workflows: Vec<String>,
    /// Take tasks away from whoever works on them.
    pub force: bool,
    /// End in the source what is in the destination.
    pub delete_source: bool,
}

/// What became of a workflow, or would.
#[derive(Clone, Debug, Serialize)]
pub struct Moved {
    /// Its id.
    pub id: WorkflowId,
    /// What it is called.
    pub name: String,
    /// How many tasks it has.
    pub tasks: usize,
    /// How many checkpoints they have.
    pub checkpoints: usize,
    /// Why it is not moved, if so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The result of moving.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Outcome {
    /// What was moved, or would be.
    pub moved: Vec<Moved>,
    /// What is in the destination already.
    pub there: Vec<Moved>,
    /// What cannot be moved, and why.
    pub refused: Vec<Moved>,
    /// How many were ended in the source.
    pub ended: usize,
}

/// Returns what a store is called in the history of others: by its real path, or its URL without a password.
pub fn name(session: &Session) -> String {
    match &session.choice.location {
        Location::Sqlite(path) => path_text::to_text(&std::fs::canonicalize(path).unwrap_or_else(|_| path.clone())),
        other => other.to_string(),
    }
}

/// Says what moving would do. Without a destination, everything can be moved.
pub fn rehearse(source: &mut Session, mut destination: Option<&mut Session>, request: &Move) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let from = name(source);
    let to = destination.as_deref().map(name);
    let held = held(source)?;
    for workflow in chosen(source, &request.workflows)? {
        let dump = source.read(DumpWorkflow { workflow: workflow.id.clone() })?;
        let holders: Vec<_> = held.iter().filter(|(id, _)| *id == workflow.id).map(|(_, who)| who.as_str()).collect();
        let moved = moved(&dump, None);
        if let Some(mark) = mark(&workflow).filter(|mark| to.as_ref() != Some(&mark.to)) {
            outcome.refused.push(Moved { reason: Some(format!("it was moved to {}", mark.to)), ..moved });
            continue;
        }
        let answer = match destination.as_deref_mut() {
            Some(destination) => {
                let into = name(destination);
                destination
                    .write(TakeWorkflow { dump, from: from.clone(), into, rehearse: true })
                    .map(|taken| taken.is_new)
            }
            None => Ok(true),
        };
        match answer {
            Ok(false) => outcome.there.push(moved),
            Ok(true) if !holders.is_empty() && !request.force => {
                let reason = format!("{} works on it", holders.join(", "));
                outcome.refused.push(Moved { reason: Some(reason), ..moved });
            }
            Ok(true) => outcome.moved.push(moved),
            Err(error) if matches!(error.kind(), Kind::Refused | Kind::Conflict) => {
                outcome.refused.push(Moved { reason: Some(error.full_message()), ..moved });
            }
            Err(error) => return Err(error),
        }
    }
    Ok(outcome)
}

/// Moves workflows. What was moved before an error stays moved, and doing it again goes on.
pub fn run(source: &mut Session, destination: &mut Session, request: &Move) -> Result<Outcome> {
    let (from, to) = (name(source), name(destination));
    let mut outcome = rehearse(source, Some(destination), request)?;
    for moved in &outcome.moved {
        let freeze = FreezeWorkflow { workflow: moved.id.clone(), to: to.clone(), force: request.force };
        let dump = source.write(freeze)?;
        let taken = destination.write(TakeWorkflow { dump, from: from.clone(), into: to.clone(), rehearse: false })?;
        if !taken.is_new {
            return Err(Error::conflict(format!("somebody else moved workflow {} at the same time", moved.name))
                .hint("look at both stores: way workflow list"));
        }
    }
    if request.delete_source {
        for done in outcome.moved.iter().chain(&outcome.there) {
            let page = source.read(ShowWorkflow { workflow: done.id.to_string() })?;
            let workflow = page.workflow.workflow;
            // One that is in both stores without a mark was copied by other means: it is not ours to end.
            if mark(&workflow).is_some_and(|mark| mark.to == to) && !workflow.status.is_final() {
                source.write(RetireWorkflow { workflow: done.id.clone() })?;
                outcome.ended += 1;
            }
        }
    }
    Ok(outcome)
}

/// The workflows that are meant: live ones, oldest first.
fn chosen(source: &mut Session, named: &[String]) -> Result<Vec<Workflow>> {
    if named.is_empty() {
        let query = WorkflowQuery {
            statuses: WorkflowStatus::ALL.iter().copied().filter(|status| !status.is_final()).collect(),
            limit: u32::MAX,
            ..WorkflowQuery::default()
        };
        let live = source.read(ListWorkflows { query })?.workflows;
        let mut live: Vec<Workflow> = live.into_iter().map(|seen| seen.workflow).collect();
        live.sort_by(|one, other| (one.created_at, &one.name).cmp(&(other.created_at, &other.name)));
        return Ok(live);
    }
    let mut chosen: Vec<Workflow> = Vec::new();
    for reference in named {
        let workflow = source.read(ShowWorkflow { workflow: reference.clone() })?.workflow.workflow;
        if workflow.status.is_final() && mark(&workflow).is_none() {
            return Err(Error::conflict(format!("workflow {} is {}", workflow.name, workflow.status))
                .hint("only what is live is moved"));
        }
        if !workflow.status.is_final() && !chosen.iter().any(|known| known.id == workflow.id) {
            chosen.push(workflow);
        }
    }
    Ok(chosen)
}

/// Who works on what, by workflow.
fn held(source: &mut Session) -> Result<Vec<(WorkflowId, String)>> {
    let mut held = Vec::new();
    for seen in source.read(ListLeases {})?.leases {
        if seen.lease.subject.starts_with("tk_") {
            let operation = waypost_core::op::ShowTask { task: seen.lease.subject.clone(), workflow: None };
            let task = source.read(operation)?.task.task;
            held.push((task.workflow_id, seen.holder_name));
        }
    }
    Ok(held)
}

fn moved(dump: &WorkflowDump, reason: Option<String>) -> Moved {
    Moved {
        id: dump.workflow.id.clone(),
        name: dump.workflow.name.clone(),
        tasks: dump.tasks.len(),
        checkpoints: dump.checkpoints.len(),
        reason,
    }
}
