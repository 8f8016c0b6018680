//! What people mean: an id, the beginning of one, or a name.

use std::str::FromStr;

use crate::context::OpContext;
use crate::error::{Error, Result};
use crate::id::{AgentId, TaskId, WorkflowId};
use crate::model::{Agent, Task, Workflow, WorkflowQuery};
use crate::nearest;
use crate::work::transfer;

/// How many of one name are looked at.
const MANY: u32 = 100;

/// Finds a workflow by id, or by name: one of this worktree before others, a live one before those that are over.
pub(crate) fn workflow(cx: &mut OpContext<'_>, reference: &str) -> Result<Workflow> {
    if let Ok(id) = WorkflowId::from_str(reference) {
        return cx.tx.workflow_get(&id)?.ok_or_else(|| Error::not_found(format!("no workflow {reference}")));
    }
    let query = WorkflowQuery { name: Some(reference.to_owned()), limit: MANY, ..WorkflowQuery::default() };
    let mut named = cx.tx.workflow_list(&query)?;
    // Stable, so of equals the newest stays first.
    let here = &cx.caller.worktree.id;
    named.sort_by_key(|workflow| (workflow.status.is_final(), workflow.worktree_id != *here));
    let rank = |workflow: &Workflow| (workflow.status.is_final(), workflow.worktree_id != *here);
    match named.as_slice() {
        [] => {
            let all = cx.tx.workflow_list(&WorkflowQuery { limit: MANY, ..WorkflowQuery::default() })?;
            let error = Error::not_found(format!("no workflow {reference:?}"));
            Err(match nearest::nearest(reference, all.iter().map(|workflow| workflow.name.as_str())) {
                Some(near) => error.hint(format!("did you mean {near}?")),
                None => error.hint("way workflow list"),
            })
        }
        // Several elsewhere: nothing says which one is meant.
        [first, second, ..] if rank(first) == rank(second) && first.worktree_id != *here => {
            let ids: Vec<_> = named.iter().map(|workflow| workflow.id.to_string()).collect();
            Err(Error::ambiguous(format!("{} workflows are called {reference:?}", named.len()))
                .hint(format!("say which: {}", ids.join(", "))))
        }
        [first, ..] => Ok(first.clone()),
    }
}

/// Finds a workflow that is about to be changed. One that went to another store is changed there.
pub(crate) fn workflow_to_change(cx: &mut OpContext<'_>, reference: &str) -> Result<Workflow> {
    let workflow = workflow(cx, reference)?;
    transfer::check_here(&workflow)?;
    Ok(workflow)
}

/// Finds a task that is about to be changed, or claimed.
pub(crate) fn task_to_change(cx: &mut OpContext<'_>, reference: &str, within: Option<&str>) -> Result<Task> {
    let task = task(cx, reference, within)?;
    transfer::check_here(&workflow_of(cx, &task)?)?;
    Ok(task)
}

/// Finds a task by id, by `workflow/name`, or by its name in one workflow or in all live ones.
pub(crate) fn task(cx: &mut OpContext<'_>, reference: &str, within: Option<&str>) -> Result<Task> {
    if let Ok(id) = TaskId::from_str(reference) {
        return cx.tx.task_get(&id)?.ok_or_else(|| Error::not_found(format!("no task {reference}")));
    }
    if let Some(within) = within {
        let workflow = workflow(cx, within)?;
        return task_of(cx, &workflow, reference);
    }
    let mut named = cx.tx.task_list_named(reference, MANY)?;
    if named.len() > 1 {
        let mut ranked = Vec::new();
        for task in named {
            let workflow = cx.tx.workflow_get(&task.workflow_id)?;
            let is_over = workflow.is_none_or(|workflow| workflow.status.is_final());
            ranked.push(((is_over, task.worktree_id != cx.caller.worktree.id), task));
        }
        ranked.sort_by_key(|(rank, _)| *rank);
        let best = ranked[0].0;
        named = ranked.into_iter().filter(|(rank, _)| *rank == best).map(|(_, task)| task).collect();
    }
    match named.as_slice() {
        [task] => Ok(task.clone()),
        [] => {
            if let Some((before, after)) = reference.split_once('/')
                && let Ok(workflow) = workflow(cx, before)
            {
                return task_of(cx, &workflow, after);
            }
            Err(Error::not_found(format!("no task {reference:?}")).hint("way task list"))
        }
        several => {
            let ids: Vec<_> = several.iter().map(|task| task.id.to_string()).collect();
            Err(Error::ambiguous(format!("{} tasks are called {reference:?}", several.len()))
                .hint(format!("say which, or add --workflow: {}", ids.join(", "))))
        }
    }
}

fn task_of(cx: &mut OpContext<'_>, workflow: &Workflow, name: &str) -> Result<Task> {
    let tasks = cx.tx.task_list(&workflow.id)?;
    if let Some(task) = tasks.iter().find(|task| task.name == name) {
        return Ok(task.clone());
    }
    let error = Error::not_found(format!("workflow {} has no task {name:?}", workflow.name));
    Err(match nearest::nearest(name, tasks.iter().map(|task| task.name.as_str())) {
        Some(near) => error.hint(format!("did you mean {near}?")),
        None => error.hint(format!("way task list --workflow {}", workflow.name)),
    })
}

/// Finds the one id that begins so, with or without its prefix. Returns its place.
pub(crate) fn by_id_prefix(what: &str, prefix: &str, reference: &str, ids: &[&str]) -> Result<usize> {
    let beginning = reference.strip_prefix(prefix).unwrap_or(reference);
    let begins =
        |id: &&str| !beginning.is_empty() && id.strip_prefix(prefix).is_some_and(|id| id.starts_with(beginning));
    let found: Vec<_> = ids.iter().enumerate().filter(|(_, id)| begins(id)).collect();
    match found.as_slice() {
        [(at, _)] => Ok(*at),
        [] => Err(Error::not_found(format!("no {what} {reference:?}"))),
        several => {
            let ids: Vec<_> = several.iter().map(|(_, id)| **id).collect();
            Err(Error::ambiguous(format!("{} {what}s begin with {reference:?}", several.len()))
                .hint(format!("say which: {}", ids.join(", "))))
        }
    }
}

/// Finds an agent by id or name.
pub(crate) fn agent(cx: &mut OpContext<'_>, reference: &str) -> Result<Agent> {
    let found = match AgentId::from_str(reference) {
        Ok(id) => cx.tx.agent_get(&id)?,
        Err(_) => cx.tx.agent_named(reference)?,
    };
    if let Some(agent) = found {
        return Ok(agent);
    }
    let agents = cx.tx.agent_list()?;
    let error = Error::not_found(format!("no agent {reference:?}"));
    Err(match nearest::nearest(reference, agents.iter().map(|agent| agent.name.as_str())) {
        Some(near) => error.hint(format!("did you mean {near}?")),
        None => error.hint("way agent list"),
    })
}

/// Returns the workflow a task is a part of.
pub(crate) fn workflow_of(cx: &mut OpContext<'_>, task: &Task) -> Result<Workflow> {
    cx.tx.workflow_get(&task.workflow_id)?.ok_or_else(|| lost_workflow_error(task))
}

/// Returns the error of a task whose workflow is not there.
pub(crate) fn lost_workflow_error(task: &Task) -> Error {
    Error::damaged(format!("task {} is a part of a workflow that is not there", task.id))
}
