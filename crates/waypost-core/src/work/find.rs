//! Resolves references that callers type: an id, the beginning of an id, or a name.

use std::str::FromStr;

use crate::context::OpContext;
use crate::error::{Error, Result};
use crate::id::{AgentId, TaskId, WorkflowId};
use crate::model::{Agent, Task, Workflow, WorkflowQuery};
use crate::nearest;
use crate::work::transfer;

/// Maximum number of records that a lookup by name reads.
const MAX_NAMED: u32 = 100;

/// Finds a workflow by id, or by name: live workflows before finished ones, then those of this worktree.
pub(crate) fn workflow(cx: &mut OpContext<'_>, reference: &str) -> Result<Workflow> {
    if let Ok(id) = WorkflowId::from_str(reference) {
        return cx.tx.workflow_get(&id)?.ok_or_else(|| Error::not_found(format!("no workflow {reference}")));
    }
    let query = WorkflowQuery { name: Some(reference.to_owned()), limit: MAX_NAMED, ..WorkflowQuery::default() };
    let mut named = cx.tx.workflow_list(&query)?;
    // The sort is stable: among equals the newest stays first.
    let here = &cx.caller.worktree.id;
    named.sort_by_key(|workflow| (workflow.status.is_final(), workflow.worktree_id != *here));
    let rank = |workflow: &Workflow| (workflow.status.is_final(), workflow.worktree_id != *here);
    match named.as_slice() {
        [] => {
            let all = cx.tx.workflow_list(&WorkflowQuery { limit: MAX_NAMED, ..WorkflowQuery::default() })?;
            let error = Error::not_found(format!("no workflow {reference:?}"));
            Err(match nearest::nearest(reference, all.iter().map(|workflow| workflow.name.as_str())) {
                Some(near) => error.hint(format!("did you mean {near}?")),
                None => error.hint("way workflow list"),
            })
        }
        // Several match in other worktrees, and nothing prefers one of them.
        [first, second, ..] if rank(first) == rank(second) && first.worktree_id != *here => {
            let ids: Vec<_> = named.iter().map(|workflow| workflow.id.to_string()).collect();
            Err(Error::ambiguous(format!("{} workflows are called {reference:?}", named.len()))
                .hint(format!("say which: {}", ids.join(", "))))
        }
        [first, ..] => Ok(first.clone()),
    }
}

/// Finds a workflow in order to change it. Refuses a workflow that was moved to another store.
pub(crate) fn workflow_to_change(cx: &mut OpContext<'_>, reference: &str) -> Result<Workflow> {
    let workflow = workflow(cx, reference)?;
    transfer::check_here(&workflow)?;
    Ok(workflow)
}

/// Finds a task in order to change or claim it. Refuses a task whose workflow was moved to another store.
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
    let mut named = cx.tx.task_list_named(reference, MAX_NAMED)?;
    if named.len() > 1 {
        let mut ranked = Vec::new();
        for task in named {
            let workflow = cx.tx.workflow_get(&task.workflow_id)?;
            let is_finished = workflow.is_none_or(|workflow| workflow.status.is_final());
            ranked.push(((is_finished, task.worktree_id != cx.caller.worktree.id), task));
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

/// Finds the only id that begins with `reference`, which may lack the type prefix. Returns its index.
pub(crate) fn by_id_prefix(what: &str, prefix: &str, reference: &str, ids: &[&str]) -> Result<usize> {
    let start = reference.strip_prefix(prefix).unwrap_or(reference);
    let begins = |id: &&str| !start.is_empty() && id.strip_prefix(prefix).is_some_and(|id| id.starts_with(start));
    let found: Vec<_> = ids.iter().enumerate().filter(|(_, id)| begins(id)).collect();
    match found.as_slice() {
        [(index, _)] => Ok(*index),
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

/// Returns the workflow of a task.
pub(crate) fn workflow_of(cx: &mut OpContext<'_>, task: &Task) -> Result<Workflow> {
    cx.tx.workflow_get(&task.workflow_id)?.ok_or_else(|| lost_workflow_error(task))
}

/// Returns the error for a task whose workflow does not exist.
pub(crate) fn lost_workflow_error(task: &Task) -> Error {
    Error::damaged(format!("the workflow of task {} does not exist", task.id))
}
