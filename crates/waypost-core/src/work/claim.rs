//! Decides which agent may claim which task.

use std::collections::BTreeMap;

use serde_json::json;

use super::places::Places;
use super::{agents, find, lease, view};
use crate::context::{Authority, OpContext};
use crate::error::{Error, Kind, Result};
use crate::id::{RepositoryId, WorkflowId, WorktreeId};
use crate::model::{
    Agent, CandidateQuery, Candidates, DependencyKind, Lease, Reach, Task, TaskStatus, Workflow, WorkflowQuery,
    WorkflowStatus, kind,
};
use crate::seeded::seeded_bug;
use crate::words;

/// Maximum number of candidates in one page. The first candidate usually fits, so pages start small and grow.
const MAX_PAGE: u32 = 50;

/// Returns why an agent cannot claim a task that is not blocked, if there is a reason.
fn objection(cx: &mut OpContext<'_>, task: &Task, agent: &Agent) -> Result<Option<String>> {
    if let Some(assignee) = task.assignee.clone().filter(|assignee| *assignee != agent.id) {
        return Ok(Some(format!("is assigned to {}", lease::name(cx, &assignee)?)));
    }
    let missing: Vec<_> = task
        .capabilities
        .iter()
        .filter(|capability| !agent.capabilities.contains(capability) && !seeded_bug("ignore_capability"))
        .map(String::as_str)
        .collect();
    if !missing.is_empty() {
        return Ok(Some(format!("needs {}, which {} did not register", missing.join(", "), agent.name)));
    }
    if let Some(issue) = &task.issue {
        let held = match lease::of_another(cx, issue, agent)? {
            None => lease::of_another_on_task(cx, issue, agent)?,
            held => held,
        };
        if let Some(held) = held {
            return Ok(Some(format!("belongs to issue {issue}, which {} holds", lease::holder_name(cx, &held)?)));
        }
    }
    Ok(None)
}

/// Returns why no further task of a workflow can be claimed: it has reached its limit of parallel tasks.
fn parallel_limit(cx: &mut OpContext<'_>, workflow: &Workflow) -> Result<Option<String>> {
    let Some(max) = workflow.max_parallel else { return Ok(None) };
    let counts = cx.tx.task_count(&workflow.id)?.into_iter();
    let running: u64 = counts.filter(|(status, _)| *status == TaskStatus::InProgress).map(|(_, count)| count).sum();
    let is_full = running >= u64::from(max) && !seeded_bug("ignore_max_parallel");
    Ok(is_full.then(|| format!("would exceed the limit of {max} parallel tasks in {}", workflow.name)))
}

/// Maximum number of leases that an agent may hold with a token. People set others with `way agent register`.
const MAX_CLAIMS: u32 = 1_000;

/// Refuses an agent that holds its maximum number of leases.
pub(crate) fn check_cap(cx: &mut OpContext<'_>, agent: &Agent) -> Result<()> {
    let by_token = (cx.caller.authority == Authority::Agent).then_some(MAX_CLAIMS);
    let Some(max) = agent.max_claims.or(by_token) else { return Ok(()) };
    let held = cx.tx.lease_list(Some(&agent.id))?.len();
    if held < usize::try_from(max).unwrap_or(usize::MAX) {
        return Ok(());
    }
    Err(Error::conflict(format!("{} already holds {}, its maximum", agent.name, words::count(held, "lease")))
        .hint("finish or release one first"))
}

/// Claims a task, or renews the lease if the agent holds it already.
pub(crate) fn task(
    cx: &mut OpContext<'_>,
    task: &Task,
    agent: &mut Agent,
    ttl_ms: Option<u64>,
) -> Result<(Task, Lease)> {
    let known = cx.tx.lease_get(task.id.as_str())?.filter(|lease| lease.holder.is_some());
    match known {
        Some(mut held) if held.holder.as_ref() == Some(&agent.id) => {
            lease::renew_for(cx, &mut held, ttl_ms)?;
            agents::touch(cx, agent)?;
            let data = json!({ "agent": agent.id, "epoch": held.epoch, "expires_at": held.expires_at.unless_never(), "renewed": true });
            cx.event(kind::TASK_CLAIMED, task.id.as_str(), data)?;
            return Ok((task.clone(), held));
        }
        Some(held) => {
            let holder = lease::holder_name(cx, &held)?;
            return Err(Error::conflict(format!("task {} is held by {holder} until {}", task.name, held.end()))
                .hint("way task claim without a name takes what is free"));
        }
        None => {}
    }
    let workflow = find::workflow_of(cx, task)?;
    if workflow.status != WorkflowStatus::InProgress {
        return Err(Error::conflict(format!(
            "task {} cannot be claimed: its workflow {} is {}",
            task.name, workflow.name, workflow.status
        ))
        .hint(match workflow.status {
            WorkflowStatus::Ready => format!("way workflow start {}", workflow.id),
            WorkflowStatus::Paused => format!("way workflow resume {}", workflow.id),
            _ => format!("way workflow show {}", workflow.id),
        }));
    }
    if !matches!(task.status, TaskStatus::Pending | TaskStatus::Paused) {
        return Err(Error::conflict(format!("task {} is {} and cannot be claimed", task.name, task.status))
            .hint(format!("way task show {}", task.id)));
    }
    let blockers = blockers(cx, task)?;
    if !blockers.is_empty() {
        let names: Vec<_> = blockers.iter().map(|blocker| format!("{} ({})", blocker.name, blocker.status)).collect();
        return Err(Error::conflict(format!("task {} waits for {}", task.name, names.join(", "))));
    }
    let objection = match objection(cx, task, agent)? {
        Some(objection) => Some(objection),
        None => parallel_limit(cx, &workflow)?,
    };
    if let Some(objection) = objection {
        return Err(Error::conflict(format!("task {} {objection}", task.name)));
    }
    check_cap(cx, agent)?;
    take(cx, task, agent, ttl_ms)
}

/// Claims the first task that the agent may claim.
pub(crate) fn next(
    cx: &mut OpContext<'_>,
    scope: &Scope,
    agent: &mut Agent,
    ttl_ms: Option<u64>,
) -> Result<(Task, Lease)> {
    check_cap(cx, agent)?;
    match candidates(cx, scope, agent, 1)?.pop() {
        Some(task) => take(cx, &task, agent, ttl_ms),
        None => Err(nothing_to_claim_error(cx, scope)?),
    }
}

/// The tasks that a claim without a name may take.
///
/// Without a choice these are the tasks planned in the caller's worktree, then those that other worktrees share. In a
/// store that repositories share, they are limited to the caller's repository.
#[derive(Clone, Debug)]
pub(crate) struct Scope {
    /// Only tasks of this workflow, wherever it was planned.
    workflow: Option<Workflow>,
    /// Only tasks planned in this worktree, shared or not.
    worktree_id: Option<WorktreeId>,
    /// Only tasks of these repositories; of all if empty.
    repositories: Vec<RepositoryId>,
}

impl Scope {
    /// Returns the scope that the caller chose.
    pub(crate) fn of(
        cx: &mut OpContext<'_>,
        workflow: Option<&str>,
        worktree_id: Option<&WorktreeId>,
        repository: Option<&str>,
    ) -> Result<Scope> {
        let workflow = workflow.map(|reference| find::workflow(cx, reference)).transpose()?;
        find::check_worktree(cx, worktree_id)?;
        let repositories = match repository {
            None if worktree_id.is_none() => own_repositories(cx)?,
            chosen => find::chosen_repositories(cx, chosen)?,
        };
        Ok(Scope { workflow, worktree_id: worktree_id.cloned(), repositories })
    }

    /// Returns the scope of a caller that chose nothing.
    pub(crate) fn of_caller(cx: &mut OpContext<'_>) -> Result<Scope> {
        Scope::of(cx, None, None, None)
    }

    /// Returns the tasks to consider, in the order in which claims take them.
    fn candidates(&self, here: &WorktreeId) -> Vec<Candidates> {
        match (&self.workflow, &self.worktree_id) {
            // The tasks of a workflow have its worktree.
            (Some(workflow), Some(worktree)) if workflow.worktree_id != *worktree => Vec::new(),
            (Some(workflow), _) => vec![Candidates::OfWorkflow(workflow.id.clone())],
            (None, Some(worktree)) => vec![Candidates::OfWorktree(worktree.clone())],
            (None, None) => vec![Candidates::OfWorktree(here.clone()), Candidates::SharedWith(here.clone())],
        }
    }

    /// Returns whether claims take the tasks of the caller's worktree before those of others.
    pub(crate) fn prefers_own_worktree(&self) -> bool {
        self.workflow.is_none() && self.worktree_id.is_none()
    }

    /// Returns whether a task is in the scope. The search for candidates applies the same rule.
    pub(crate) fn includes(
        &self,
        here: &WorktreeId,
        task: &Task,
        reach: Reach,
        repository: Option<&RepositoryId>,
    ) -> bool {
        let is_considered = self.candidates(here).iter().any(|candidates| match candidates {
            Candidates::All => true,
            Candidates::OfWorkflow(id) => *id == task.workflow_id,
            Candidates::OfWorktree(id) => *id == task.worktree_id,
            Candidates::SharedWith(_) => reach == Reach::Repository,
        });
        is_considered && self.includes_repository(repository)
    }

    /// Returns whether the tasks of every repository are in the scope.
    pub(crate) fn includes_all_repositories(&self) -> bool {
        self.repositories.is_empty()
    }

    /// Returns whether the tasks of a repository are in the scope.
    pub(crate) fn includes_repository(&self, repository: Option<&RepositoryId>) -> bool {
        self.repositories.is_empty() || repository.is_some_and(|id| self.repositories.contains(id))
    }
}

/// Returns the repositories whose tasks a caller takes that names none; none for all. Clones of one remote repository
/// count as the same one.
fn own_repositories(cx: &mut OpContext<'_>) -> Result<Vec<RepositoryId>> {
    let own = &cx.caller.repository;
    if !cx.caller.is_limited_to_repository() {
        return Ok(Vec::new());
    }
    if own.remote_url.is_none() {
        return Ok(vec![own.id.clone()]);
    }
    // A caller that only reads may be unknown to the store.
    let clones = cx.tx.repository_list()?.into_iter().filter(|other| other.id != own.id && cx.caller.is_of(other));
    Ok(std::iter::once(own.id.clone()).chain(clones.map(|other| other.id)).collect())
}

/// Returns the tasks that the agent may claim: those of the caller's worktree first, each part in order of urgency.
pub(crate) fn candidates(cx: &mut OpContext<'_>, scope: &Scope, agent: &Agent, limit: usize) -> Result<Vec<Task>> {
    let mut found = Vec::new();
    let mut is_full = BTreeMap::new();
    let first_page = u32::try_from(limit).unwrap_or(MAX_PAGE).clamp(1, MAX_PAGE);
    for of in scope.candidates(&cx.caller.worktree.id) {
        // Not asked in advance: the tasks of other worktrees are searched behind all of this one's.
        if found.len() < limit {
            let query = CandidateQuery { of, repositories: scope.repositories.clone(), skip: 0, limit: first_page };
            add_candidates(cx, query, agent, limit, &mut is_full, &mut found)?;
        }
    }
    Ok(found)
}

/// Adds the tasks of one query that the agent may claim, the most urgent first.
fn add_candidates(
    cx: &mut OpContext<'_>,
    mut query: CandidateQuery,
    agent: &Agent,
    limit: usize,
    is_full: &mut BTreeMap<WorkflowId, bool>,
    found: &mut Vec<Task>,
) -> Result<()> {
    loop {
        let page = cx.tx.task_list_claimable(&query)?;
        let is_last = page.len() < query.limit as usize;
        if let Some(first) = page.first() {
            cx.tx.prefetch(&mut |tx| {
                tx.workflow_get(&first.workflow_id)?;
                if let Some(issue) = &first.issue {
                    tx.lease_get(issue)?;
                }
                tx.lease_get(first.id.as_str()).map(drop)
            })?;
        }
        for task in page {
            if !is_full.contains_key(&task.workflow_id) {
                let workflow = find::workflow_of(cx, &task)?;
                is_full.insert(task.workflow_id.clone(), parallel_limit(cx, &workflow)?.is_some());
            }
            if !is_full[&task.workflow_id] && objection(cx, &task, agent)?.is_none() {
                found.push(task);
                if found.len() >= limit {
                    return Ok(());
                }
            }
        }
        if is_last {
            return Ok(());
        }
        query.skip += query.limit;
        query.limit = (query.limit * 4).min(MAX_PAGE);
    }
}

/// Returns the error that explains why no task can be claimed.
pub(crate) fn nothing_to_claim_error(cx: &mut OpContext<'_>, scope: &Scope) -> Result<Error> {
    let workflow = scope.workflow.as_ref();
    let within = workflow.map_or_else(String::new, |workflow| format!(" in {}", workflow.name));
    let error = Error::new(Kind::NothingToDo, format!("no task can be claimed now{within}"));
    let workflows = match workflow {
        Some(workflow) => vec![workflow.clone()],
        None => cx.tx.workflow_list(&WorkflowQuery {
            statuses: vec![WorkflowStatus::InProgress, WorkflowStatus::Ready, WorkflowStatus::Paused],
            limit: 20,
            ..WorkflowQuery::default()
        })?,
    };
    let mut counts: BTreeMap<TaskStatus, u64> = BTreeMap::new();
    for workflow in workflows.iter().filter(|workflow| workflow.status == WorkflowStatus::InProgress) {
        for (status, count) in cx.tx.task_count(&workflow.id)? {
            *counts.entry(status).or_default() += count;
        }
    }
    let reasons: Vec<_> = counts
        .iter()
        .filter(|(status, _)| !status.is_final() || **status == TaskStatus::Dead)
        .map(|(status, count)| match status {
            TaskStatus::Pending => format!("{count} waiting for other tasks, or not for this agent"),
            TaskStatus::Failed => format!("{count} waiting for their next attempt"),
            status => format!("{count} {status}"),
        })
        .collect();
    let error = if reasons.is_empty() { error } else { error.hint(reasons.join("; ")) };
    let error = out_of_scope(cx, scope)?.into_iter().fold(error, Error::hint);
    Ok(match workflows.iter().find(|workflow| workflow.status != WorkflowStatus::InProgress) {
        Some(workflow) if workflow.status == WorkflowStatus::Ready => {
            error.hint(format!("workflow {} is not started: way workflow start {}", workflow.name, workflow.id))
        }
        Some(workflow) => error.hint(format!("workflow {} is {}", workflow.name, workflow.status)),
        None => error,
    })
}

/// Says which tasks could be claimed with another scope, and how.
fn out_of_scope(cx: &mut OpContext<'_>, scope: &Scope) -> Result<Vec<String>> {
    let of = scope.workflow.as_ref().map_or(Candidates::All, |workflow| Candidates::OfWorkflow(workflow.id.clone()));
    let query = CandidateQuery { of, repositories: Vec::new(), skip: 0, limit: MAX_PAGE };
    let here = cx.caller.worktree.id.clone();
    let (mut by_repository, mut by_worktree) = (BTreeMap::<_, u32>::new(), BTreeMap::<_, u32>::new());
    let tasks = cx.tx.task_list_claimable(&query)?;
    if tasks.is_empty() {
        return Ok(Vec::new());
    }
    let (workflows, places) = (view::workflows_of(cx, &tasks)?, Places::all(cx)?);
    for task in tasks {
        let repository = places.repository_of(&task);
        let reach = workflows.get(&task.workflow_id).map(|workflow| workflow.reach).unwrap_or_default();
        if scope.includes(&here, &task, reach, repository.as_ref()) {
            continue;
        }
        match repository.filter(|id| !scope.repositories.is_empty() && !scope.repositories.contains(id)) {
            Some(other) => *by_repository.entry(other).or_default() += 1,
            None => *by_worktree.entry(task.worktree_id).or_default() += 1,
        }
    }
    let counted = |count: u32| if count == 1 { "1 task is".to_owned() } else { format!("{count} tasks are") };
    let mut hints = Vec::new();
    for (id, count) in by_worktree {
        let name = places.worktree(&id).map_or_else(|| id.to_string(), |worktree| worktree.name);
        hints.push(format!("{} of worktree {name}: --worktree {name}", counted(count)));
    }
    for (id, count) in by_repository {
        let name = places.repository(&id);
        hints.push(format!("{} of repository {name}: --repo {name}, or --repo all", counted(count)));
    }
    Ok(hints)
}

fn take(cx: &mut OpContext<'_>, task: &Task, agent: &mut Agent, ttl_ms: Option<u64>) -> Result<(Task, Lease)> {
    let mut lease = lease::grant(cx, task.id.as_str(), agent, ttl_ms, lease::DEFAULT_TASK_TTL_MS)?;
    lease.run_until = task.run_timeout_ms.map(|timeout| cx.now.plus(timeout));
    lease.stall_at = task.stall_timeout_ms.map(|timeout| cx.now.plus(timeout));
    if lease.run_until.is_some() || lease.stall_at.is_some() {
        cx.tx.lease_put(&lease)?;
    }
    let mut after = task.clone();
    after.move_to(TaskStatus::InProgress, cx.now)?;
    after.started_at = Some(cx.now);
    let data = json!({ "agent": agent.id, "epoch": lease.epoch, "expires_at": lease.expires_at.unless_never() });
    cx.change_task(kind::TASK_CLAIMED, task, &after, data)?;
    agents::touch(cx, agent)?;
    Ok((after, lease))
}

/// Returns the unfinished tasks that block a task, in plan order.
pub(crate) fn blockers(cx: &mut OpContext<'_>, task: &Task) -> Result<Vec<Task>> {
    let mut blockers = Vec::new();
    for dependency in cx.tx.dependency_list_of(&task.id)? {
        if dependency.kind == DependencyKind::Blocks
            && let Some(blocker) = cx.tx.task_get(&dependency.depends_on)?
            && !blocker.status.satisfies()
            && !seeded_bug("ignore_dependency")
        {
            blockers.push(blocker);
        }
    }
    blockers.sort_by_key(|blocker| blocker.sequence);
    Ok(blockers)
}
