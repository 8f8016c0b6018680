//! Chooses what a job starts from, and finds the work that finished tasks left.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::find;
use crate::context::OpContext;
use crate::error::{Error, Result};
use crate::id::{JobId, RepositoryId, TaskId, WorkspaceId};
use crate::model::{DependencyKind, Job, JobQuery, Task, TaskStatus};

/// Start from the work of the tasks that a task depends on.
pub const PLAN: &str = "plan";
/// Start from the head of the worktree.
pub const HEAD: &str = "head";

/// Maximum number of jobs of one task that are read, the newest first.
const MAX_JOBS: u32 = 100;

/// What the workspace of a job starts from. Without a revision and without results: the head of the worktree.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JobBase {
    /// The revision that was named.
    pub revision: Option<String>,
    /// What named the revision or the head: `job`, `task` or `workflow`.
    pub chosen_by: Option<String>,
    /// The work of finished tasks to start from, in plan order.
    pub results: Vec<TaskWork>,
    /// The names of tasks that it depends on and that left no work, in plan order.
    pub without_work: Vec<String>,
    /// Whether a person has answered a question about the task.
    pub is_answered: bool,
    /// Workspaces of earlier jobs of the task whose command never started: a person may have resolved a conflict there.
    pub prepared: Vec<WorkspaceId>,
}

/// The work that a finished task left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskWork {
    /// The task.
    pub task_id: TaskId,
    /// Its name.
    pub task: String,
    /// The job that finished it.
    pub job: JobId,
    /// Whether the job still runs, and may add work.
    pub is_live: bool,
    /// The machine it ran on.
    pub machine: Option<String>,
    /// The workspace it worked in.
    pub workspace: Option<WorkspaceId>,
    /// The commit it left; none if none was recorded.
    pub commit: Option<String>,
}

/// Refuses a text that names neither `plan`, `head` nor a revision.
pub(crate) fn check_word(base: &str) -> Result<()> {
    if base.trim() != base || base.is_empty() || base.starts_with('-') || base.chars().any(char::is_control) {
        return Err(Error::invalid(format!("{base:?} cannot be a base"))
            .hint("plan (the work of the tasks it depends on), head, or a revision such as main or refs/heads/plan"));
    }
    Ok(())
}

/// Chooses what a job starts from. `given` is what the job itself names.
pub(crate) fn choose(cx: &mut OpContext<'_>, job: &Job, given: Option<&str>) -> Result<JobBase> {
    let task = job.task_id.as_ref().map(|id| cx.tx.task_get(id)).transpose()?.flatten();
    let workflow = task.as_ref().map(|task| find::workflow_of(cx, task)).transpose()?;
    let words = [
        ("job", given),
        ("task", task.as_ref().and_then(|task| task.base.as_deref())),
        ("workflow", workflow.as_ref().and_then(|workflow| workflow.base.as_deref())),
    ];
    let word = words.into_iter().find_map(|(by, word)| Some((by, word?)));
    let mut base = JobBase { chosen_by: word.map(|(by, _)| by.to_owned()), ..JobBase::default() };
    match (word.map(|(_, word)| word), &task) {
        (Some(HEAD), _) | (Some(PLAN) | None, None) => {}
        (Some(PLAN) | None, Some(task)) => find_results(cx, task, &job.repository_id, &mut base)?,
        (Some(revision), _) => base.revision = Some(revision.to_owned()),
    }
    if let Some(task) = task.filter(|_| !base.results.is_empty()) {
        base.is_answered = task.answer.is_some();
        let earlier = jobs_of(cx, &task.id)?.into_iter().filter(|earlier| earlier.id != job.id);
        let earlier = earlier.filter(|earlier| earlier.started_at.is_none() && earlier.status.is_final());
        base.prepared = earlier.filter_map(|earlier| earlier.workspace_id).collect();
    }
    Ok(base)
}

/// Finds the work of the tasks that a task depends on. A task without work of its own, such as a skipped one, stands for
/// the tasks that it depends on itself.
fn find_results(cx: &mut OpContext<'_>, task: &Task, repository: &RepositoryId, base: &mut JobBase) -> Result<()> {
    let mut seen = BTreeSet::from([task.id.clone()]);
    let mut left = vec![(task.id.clone(), true)];
    let (mut found, mut without_work) = (Vec::new(), Vec::new());
    while let Some((id, is_direct)) = left.pop() {
        for dependency in cx.tx.dependency_list_of(&id)? {
            if dependency.kind != DependencyKind::Blocks || !seen.insert(dependency.depends_on.clone()) {
                continue;
            }
            let Some(other) = cx.tx.task_get(&dependency.depends_on)? else { continue };
            if let Some(work) = work_of(cx, &other, repository)? {
                found.push((other.sequence, work));
                continue;
            }
            if is_direct {
                without_work.push((other.sequence, other.name.clone()));
            }
            left.push((other.id, false));
        }
    }
    found.sort_by_key(|(sequence, _)| *sequence);
    without_work.sort();
    base.results = found.into_iter().map(|(_, work)| work).collect();
    base.without_work = without_work.into_iter().map(|(_, name)| name).collect();
    Ok(())
}

/// Returns the work of the job that completed a task, if it worked in this repository.
fn work_of(cx: &mut OpContext<'_>, task: &Task, repository: &RepositoryId) -> Result<Option<TaskWork>> {
    if task.status != TaskStatus::Completed {
        return Ok(None);
    }
    // A task that was completed again without a job has a newer epoch.
    let Some(epoch) = cx.tx.lease_get(task.id.as_str())?.map(|lease| lease.epoch) else { return Ok(None) };
    let jobs = jobs_of(cx, &task.id)?.into_iter();
    let mut jobs = jobs.filter(|job| job.epoch == Some(epoch) && job.repository_id == *repository);
    let Some(job) = jobs.find(|job| job.result.is_some() || job.workspace_id.is_some()) else { return Ok(None) };
    Ok(Some(TaskWork {
        task_id: task.id.clone(),
        task: task.name.clone(),
        is_live: !job.status.is_final(),
        job: job.id,
        machine: job.machine,
        workspace: job.workspace_id,
        commit: job.result,
    }))
}

fn jobs_of(cx: &mut OpContext<'_>, task: &TaskId) -> Result<Vec<Job>> {
    cx.tx.job_list(&JobQuery { task_id: Some(task.clone()), limit: MAX_JOBS, ..JobQuery::default() })
}

/// Returns what the workspace of the job that works on a task started from.
pub(crate) fn started_from(cx: &mut OpContext<'_>, task: &Task) -> Result<Option<String>> {
    if task.workspace_id.is_none() {
        return Ok(None);
    }
    let newest = cx.tx.job_list(&newest_job(task))?.pop();
    Ok(newest.filter(|job| !job.status.is_final()).and_then(|job| job.started_from))
}

/// Finds the newest job of a task.
pub(crate) fn newest_job(task: &Task) -> JobQuery {
    JobQuery { task_id: Some(task.id.clone()), limit: 1, ..JobQuery::default() }
}
