//! Moves workflows between stores: freezes them in the source, adds them to the destination, and optionally ends them in
//! the source.

use std::path::{Path, PathBuf};

use serde::Serialize;
use waypost_core::id::WorkflowId;
use waypost_core::model::{Workflow, WorkflowQuery, WorkflowStatus};
use waypost_core::op::{
    DumpWorkflow, FreezeWorkflow, ListLeases, ListWorkflows, RetireWorkflow, ShowWorkflow, TakeWorkflow,
};
use waypost_core::work::transfer::{WorkflowDump, mark};
use waypost_core::{Error, Kind, Result, path_text};

use crate::app::session::Session;
use crate::machine::place::Location;

/// A request to move workflows.
#[derive(Clone, Debug, Default)]
pub struct Move {
    /// The workflows by id or name; if empty, all live ones.
    pub workflows: Vec<String>,
    /// Move workflows although agents hold their tasks.
    pub force: bool,
    /// End moved workflows in the source.
    pub delete_source: bool,
}

/// A workflow in an [`Outcome`].
#[derive(Clone, Debug, Serialize)]
pub struct Moved {
    /// Its id.
    pub id: WorkflowId,
    /// Its name.
    pub name: String,
    /// Its status.
    pub status: WorkflowStatus,
    /// Number of its tasks.
    pub tasks: usize,
    /// Number of its checkpoints.
    pub checkpoints: usize,
    /// Why it is not moved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Moved {
    pub(crate) fn of(dump: &WorkflowDump) -> Moved {
        Moved {
            id: dump.workflow.id.clone(),
            name: dump.workflow.name.clone(),
            status: dump.workflow.status,
            tasks: dump.tasks.len(),
            checkpoints: dump.checkpoints.len(),
            reason: None,
        }
    }
}

/// The outcome of a move or its dry run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Outcome {
    /// Moved workflows.
    pub moved: Vec<Moved>,
    /// Workflows that the destination has already.
    pub there: Vec<Moved>,
    /// Workflows that cannot be moved.
    pub refused: Vec<Moved>,
    /// Number of workflows ended in the source.
    pub ended: usize,
}

/// Returns a store's name for the history of other stores: its real path, or its URL without a password.
pub fn name(session: &Session) -> String {
    match &session.choice.location {
        Location::Sqlite(path) => path_text::to_text(&real_path(path)),
        other => other.to_string(),
    }
}

/// Returns the real path of a file that may not exist.
fn real_path(path: &Path) -> PathBuf {
    path.ancestors()
        .find_map(|existing| Some(std::fs::canonicalize(existing).ok()?.join(path.strip_prefix(existing).ok()?)))
        .map_or_else(|| path.to_owned(), |real| real.components().collect())
}

/// Reports the outcome of a move without making it. A destination that does not exist is not created.
pub fn dry_run(source: &mut Session, destination: &mut Session, request: &Move) -> Result<Outcome> {
    let mut outcome = plan(source, destination, request)?;
    if request.delete_source {
        // The move marks each workflow that it moves.
        outcome.ended = outcome.moved.len();
        for done in &outcome.there {
            outcome.ended += usize::from(is_to_be_ended(source, done, &name(destination))?);
        }
    }
    Ok(outcome)
}

/// Returns whether a workflow in the source was moved to the destination and is not ended yet. A workflow that is in both
/// stores without a mark was copied by other means, so it is not ended.
fn is_to_be_ended(source: &mut Session, done: &Moved, to: &str) -> Result<bool> {
    let workflow = source.read(ShowWorkflow { workflow: done.id.to_string() })?.workflow.workflow;
    Ok(mark(&workflow).is_some_and(|mark| mark.to == to) && !workflow.status.is_final())
}

/// Decides what happens to each workflow.
fn plan(source: &mut Session, destination: &mut Session, request: &Move) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let (from, to) = (name(source), name(destination));
    let held = held(source)?;
    for workflow in chosen(source, &request.workflows)? {
        let dump = source.read(DumpWorkflow { workflow: workflow.id.clone() })?;
        let holders: Vec<_> =
            held.iter().filter(|(id, _)| *id == workflow.id).map(|(_, holder)| holder.as_str()).collect();
        let moved = Moved::of(&dump);
        if let Some(mark) = mark(&workflow).filter(|mark| to != mark.to) {
            outcome.refused.push(Moved { reason: Some(format!("it was moved to {}", mark.to)), ..moved });
            continue;
        }
        let take = TakeWorkflow { dump, from: from.clone(), into: to.clone(), dry_run: true };
        let answer = if destination.is_absent() {
            take.check_empty_destination(destination.caller())
        } else {
            destination.write(take)
        };
        match answer.map(|taken| taken.is_new) {
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

/// Moves workflows. After an error the workflows moved so far stay moved, and a repeated call continues.
pub fn run(source: &mut Session, destination: &mut Session, request: &Move) -> Result<Outcome> {
    let (from, to) = (name(source), name(destination));
    let mut outcome = plan(source, destination, request)?;
    for moved in &outcome.moved {
        let freeze = FreezeWorkflow { workflow: moved.id.clone(), to: to.clone(), force: request.force };
        let dump = source.write(freeze)?;
        let taken = destination.write(TakeWorkflow { dump, from: from.clone(), into: to.clone(), dry_run: false })?;
        if !taken.is_new {
            return Err(Error::conflict(format!("another command moved workflow {} at the same time", moved.name))
                .hint("check both stores: way workflow list"));
        }
    }
    if request.delete_source {
        for done in outcome.moved.iter().chain(&outcome.there) {
            if is_to_be_ended(source, done, &to)? {
                source.write(RetireWorkflow { workflow: done.id.clone() })?;
                outcome.ended += 1;
            }
        }
    }
    Ok(outcome)
}

/// Returns the requested live workflows; all of them, oldest first, if none is named.
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
                .hint("only live workflows are moved"));
        }
        if !workflow.status.is_final() && !chosen.iter().any(|other| other.id == workflow.id) {
            chosen.push(workflow);
        }
    }
    Ok(chosen)
}

/// Returns the workflows with held tasks, and the holder of each task.
fn held(source: &mut Session) -> Result<Vec<(WorkflowId, String)>> {
    let mut held = Vec::new();
    for seen in source.read(ListLeases {})?.leases {
        if seen.lease.subject.starts_with("tk_") {
            let operation = waypost_core::op::ShowTask {
                task: seen.lease.subject.clone(),
                ..waypost_core::op::ShowTask::default()
            };
            let task = source.read(operation)?.task.task;
            held.push((task.workflow_id, seen.holder_name));
        }
    }
    Ok(held)
}
