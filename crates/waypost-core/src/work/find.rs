//! Resolves references that callers type: an id, the beginning of an id, or a name.

use std::str::FromStr;

use crate::context::OpContext;
use crate::error::{Error, Result};
use crate::id::{AgentId, RepositoryId, TaskId, WorkflowId, WorktreeId};
use crate::model::{Agent, Repository, Summary, Task, Workflow, WorkflowQuery};
use crate::nearest;
use crate::path_text;
use crate::work::transfer;

/// The name that stands for all repositories of a store.
pub(crate) const ALL_REPOSITORIES: &str = "all";
/// Maximum number of records that a lookup by name reads.
const MAX_NAMED: u32 = 100;

/// Finds a workflow by id, or by name: live workflows before finished ones, then those of this repository and worktree.
pub(crate) fn workflow(cx: &mut OpContext<'_>, reference: &str) -> Result<Workflow> {
    if let Ok(id) = WorkflowId::from_str(reference) {
        return match cx.tx.workflow_get(&id)? {
            Some(workflow) => Ok(workflow),
            None => Err(absent_error(cx, "workflow", reference)?),
        };
    }
    let query = WorkflowQuery { name: Some(reference.to_owned()), limit: MAX_NAMED, ..WorkflowQuery::default() };
    // A query with an empty name is one for all names.
    let found = if reference.is_empty() { Vec::new() } else { cx.tx.workflow_list(&query)? };
    let mut named = Vec::new();
    for workflow in found {
        named.push(((workflow.status.is_final(), distance(cx, &workflow.worktree_id, None)?), workflow));
    }
    // The sort is stable: among equals the newest stays first.
    named.sort_by_key(|(rank, _)| *rank);
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
        [(first, _), (second, _), ..] if first == second && first.1 > Distance::Here => {
            let ids: Vec<_> = named.iter().map(|(_, workflow)| workflow.id.to_string()).collect();
            Err(Error::ambiguous(format!("{} workflows are called {reference:?}", named.len()))
                .hint(format!("say which: {}", ids.join(", "))))
        }
        [(_, first), ..] => Ok(first.clone()),
    }
}

/// Returns the error for a workflow or job that does not exist. It says so if the record was removed because of its age.
pub(crate) fn absent_error(cx: &mut OpContext<'_>, what: &str, id: &str) -> Result<Error> {
    Ok(match cx.tx.summary_get(id)? {
        Some(Summary { name, status, removed_at, .. }) => {
            let status = status.unwrap_or_default();
            Error::not_found(format!("{what} {id} ({name}, {status}) was removed from the store at {removed_at}"))
                .hint("way db gc --summaries")
        }
        None => Error::not_found(format!("no {what} {id}")),
    })
}

/// How far a record is from the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Distance {
    /// Of the caller's worktree.
    Here,
    /// Of another worktree of the caller's repository.
    Repository,
    /// Of another repository.
    Elsewhere,
}

/// Returns how far a record of a worktree is from the caller. A task may name another repository than that of its worktree.
fn distance(cx: &mut OpContext<'_>, id: &WorktreeId, repository: Option<&RepositoryId>) -> Result<Distance> {
    let own = &cx.caller.repository.id;
    if *id == cx.caller.worktree.id && repository.is_none_or(|id| id == own) {
        return Ok(Distance::Here);
    }
    let is_own = match repository {
        Some(id) => id == own,
        None => cx.tx.worktree_get(id)?.is_none_or(|worktree| worktree.repository_id == *own),
    };
    Ok(if is_own { Distance::Repository } else { Distance::Elsewhere })
}

/// Refuses a worktree that the store does not know.
pub(crate) fn check_worktree(cx: &mut OpContext<'_>, id: Option<&WorktreeId>) -> Result<()> {
    match id {
        Some(id) if cx.tx.worktree_get(id)?.is_none() => Err(Error::not_found(format!("no worktree {id}"))),
        _ => Ok(()),
    }
}

/// Finds a repository by id, name or path.
pub(crate) fn repository(cx: &mut OpContext<'_>, reference: &str) -> Result<RepositoryId> {
    let own = cx.caller.repository.id.clone();
    match repositories(cx, reference)?.as_slice() {
        [one] => Ok(one.clone()),
        clones if clones.contains(&own) => Ok(own),
        _ => Err(Error::ambiguous(format!("several repositories are called {reference:?}")).hint("name it by its id")),
    }
}

/// Returns the repositories that a filter names; none for all.
pub(crate) fn chosen_repositories(cx: &mut OpContext<'_>, reference: Option<&str>) -> Result<Vec<RepositoryId>> {
    match reference {
        None | Some(ALL_REPOSITORIES) => Ok(Vec::new()),
        Some(reference) => repositories(cx, reference),
    }
}

/// Finds a repository by id, name or path. If several with this name are clones of one remote repository, finds all of
/// them.
pub(crate) fn repositories(cx: &mut OpContext<'_>, reference: &str) -> Result<Vec<RepositoryId>> {
    let known = cx.tx.repository_list()?;
    let is_meant = |known: &&Repository| {
        known.id.as_str() == reference || known.name == reference || path_text::to_text(&known.path) == reference
    };
    let found: Vec<_> = known.iter().filter(is_meant).collect();
    let is_clone = |other: &&Repository| other.remote_url.is_some() && other.remote_url == found[0].remote_url;
    match found.as_slice() {
        [] => Err(Error::not_found(format!("no repository {reference:?} in this store"))
            .hint("way repo list; to add one, run way in it or run way repo add PATH")),
        [one] => Ok(vec![one.id.clone()]),
        several if several.iter().all(is_clone) => Ok(several.iter().map(|one| one.id.clone()).collect()),
        _ => Err(Error::ambiguous(format!("several repositories are called {reference:?}")).hint("name it by its id")),
    }
}

/// Finds a workflow in order to change it. Refuses a workflow that was moved to another store.
pub(crate) fn workflow_to_change(cx: &mut OpContext<'_>, reference: &str) -> Result<Workflow> {
    let workflow = workflow(cx, reference)?;
    transfer::check_here(&workflow)?;
    Ok(workflow)
}

/// Finds a task in order to change it. Refuses a task whose workflow was moved to another store.
pub(crate) fn task_to_change(cx: &mut OpContext<'_>, reference: &str, within: Option<&str>) -> Result<Task> {
    task_to_claim(cx, reference, within, &[])
}

/// Finds a task of these repositories, or of all if there are none, in order to claim it. Refuses a task whose workflow was
/// moved to another store.
pub(crate) fn task_to_claim(
    cx: &mut OpContext<'_>,
    reference: &str,
    within: Option<&str>,
    repositories: &[RepositoryId],
) -> Result<Task> {
    let task = task_in(cx, reference, within, repositories)?;
    transfer::check_here(&workflow_of(cx, &task)?)?;
    Ok(task)
}

/// Finds a task by id, by `workflow/name`, or by its name in one workflow or in all live ones.
pub(crate) fn task(cx: &mut OpContext<'_>, reference: &str, within: Option<&str>) -> Result<Task> {
    task_in(cx, reference, within, &[])
}

/// Finds a task of these repositories, or of all if there are none.
pub(crate) fn task_in(
    cx: &mut OpContext<'_>,
    reference: &str,
    within: Option<&str>,
    repositories: &[RepositoryId],
) -> Result<Task> {
    if let Ok(id) = TaskId::from_str(reference) {
        return cx.tx.task_get(&id)?.ok_or_else(|| Error::not_found(format!("no task {reference}")));
    }
    if let Some(within) = within {
        let workflow = workflow(cx, within)?;
        return task_of(cx, &workflow, reference);
    }
    let mut named = Vec::new();
    for task in cx.tx.task_list_named(reference, MAX_NAMED)? {
        if repositories.is_empty() || repository_of(cx, &task)?.is_some_and(|id| repositories.contains(&id)) {
            named.push(task);
        }
    }
    if named.len() > 1 {
        let mut ranked = Vec::new();
        for task in named {
            let workflow = cx.tx.workflow_get(&task.workflow_id)?;
            let is_finished = workflow.is_none_or(|workflow| workflow.status.is_final());
            ranked.push(((is_finished, distance(cx, &task.worktree_id, task.repository_id.as_ref())?), task));
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

/// Returns the repository of a task: its own, or else that of the worktree in which its workflow was created.
pub(crate) fn repository_of(cx: &mut OpContext<'_>, task: &Task) -> Result<Option<RepositoryId>> {
    match &task.repository_id {
        Some(id) => Ok(Some(id.clone())),
        None => Ok(cx.tx.worktree_get(&task.worktree_id)?.map(|worktree| worktree.repository_id)),
    }
}

/// Returns the workflow of a task.
pub(crate) fn workflow_of(cx: &mut OpContext<'_>, task: &Task) -> Result<Workflow> {
    cx.tx.workflow_get(&task.workflow_id)?.ok_or_else(|| lost_workflow_error(task))
}

/// Returns the error for a task whose workflow does not exist.
pub(crate) fn lost_workflow_error(task: &Task) -> Error {
    Error::damaged(format!("the workflow of task {} does not exist", task.id))
}
