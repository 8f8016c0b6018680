//! Jobs: how they end, and how that changes their task.

use std::path::PathBuf;

use serde_json::json;

use super::attempt::{self, End};
use super::{agents, changes, described, find, lease};
use crate::context::OpContext;
use crate::error::{Error, Result};
use crate::id::{JobId, WorkspaceId};
use crate::model::{
    Agent, Job, JobQuery, JobStatus, Lease, Phase, Task, TaskStatus, Workspace, WorkspaceQuery, WorkspaceStatus, kind,
};
use crate::seeded::seeded_bug;

/// Maximum number of records that a lookup by the beginning of an id reads.
const MAX_LISTED: u32 = 1000;
/// Maximum number of phases in a job's record. The history keeps all of them.
const MAX_PHASES: usize = 200;

/// How the run of a job's command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The command exited, or reached a limit.
    Ended,
    /// The supervisor received a signal to stop. This counts no attempt.
    Stopped,
    /// The supervisor is gone.
    Abandoned,
}

/// Ends a job and the attempt on its task.
///
/// A command that exits with 0 but did not finish its task makes the job fail.
pub(crate) fn finish(cx: &mut OpContext<'_>, job: &Job, ending: Ending, error: Option<String>) -> Result<Job> {
    let mut after = job.clone();
    let held = held(cx, job)?;
    let (status, error) = if job.cancelled_at.is_some() {
        (JobStatus::Cancelled, error)
    } else {
        match (ending, error) {
            (Ending::Stopped, error) => {
                (JobStatus::Interrupted, error.or_else(|| Some("its supervisor was told to stop".into())))
            }
            (Ending::Abandoned, error) => {
                (JobStatus::Interrupted, error.or_else(|| Some("its supervisor is gone".into())))
            }
            (Ending::Ended, Some(error)) => (JobStatus::Failed, Some(error)),
            (Ending::Ended, None) => match unfinished(cx, job, held.is_some())? {
                Some(error) => (JobStatus::Failed, Some(error)),
                None => (JobStatus::Completed, None),
            },
        }
    };
    after.move_to(status, cx.now)?;
    after.error.clone_from(&error);
    push_phase(&mut after, status.as_str(), error.clone(), cx);
    put(cx, kind::JOB_FINISHED, job, &after)?;
    let agent = job.agent_id.as_ref().filter(|_| ending != Ending::Abandoned);
    let agent = agent.map(|id| cx.tx.agent_get(id)).transpose()?.flatten();
    if let Some((task, lease)) = held {
        let why = error.unwrap_or_default();
        match (status, ending) {
            (JobStatus::Cancelled, _) => {
                withdraw(cx, &task, TaskStatus::Paused, kind::TASK_PAUSED, "its job was cancelled")?;
            }
            // An attempt whose command never started is not counted: the task is not the reason.
            _ if job.started_at.is_none() => {
                withdraw(cx, &task, TaskStatus::Pending, kind::TASK_RELEASED, &why)?;
            }
            (JobStatus::Interrupted, Ending::Stopped) => {
                withdraw(cx, &task, TaskStatus::Pending, kind::TASK_RELEASED, &why)?;
            }
            (JobStatus::Interrupted, _) => {
                attempt::fail(cx, &task, Some(lease), End::Expired, &why)?;
            }
            _ => {
                attempt::fail(cx, &task, Some(lease), End::Failed, &why)?;
            }
        }
    }
    if let Some(mut agent) = agent {
        agents::touch(cx, &mut agent)?;
    }
    Ok(after)
}

/// Ends the lease on a task and moves it to a status, without counting an attempt. Cancels the jobs of the task: what they
/// do has no effect any more. A job whose own agent gives the task up may have work left, unless the task is cancelled.
pub(crate) fn withdraw(
    cx: &mut OpContext<'_>,
    task: &Task,
    status: TaskStatus,
    kind: &'static str,
    why: &str,
) -> Result<Task> {
    let lease = cx.tx.lease_get(task.id.as_str())?;
    let was_leased = lease.is_some();
    if let Some(held) = lease.filter(|lease| lease.holder.is_some()) {
        lease::end(cx, held)?;
    }
    let mut after = task.clone();
    after.move_to(status, cx.now)?;
    cx.change_task(kind, task, &after, if why.is_empty() { json!({}) } else { json!({ "reason": why }) })?;
    if was_leased {
        let query =
            JobQuery { task_id: Some(task.id.clone()), is_live: true, limit: MAX_LISTED, ..JobQuery::default() };
        for job in cx.tx.job_list(&query)?.into_iter().filter(|job| job.cancelled_at.is_none()) {
            let agent = job.agent_id.as_ref().map(|id| lease::name(cx, id)).transpose()?;
            if status == TaskStatus::Cancelled || agent.as_deref() != Some(cx.caller.name()) {
                let withdrawn = if status == TaskStatus::Pending { "released" } else { status.as_str() };
                cancel(cx, &job, Some(format!("task {} was {withdrawn}", task.name)))?;
            }
        }
    }
    Ok(after)
}

/// Cancels a live job. Its supervisor ends its command.
pub(crate) fn cancel(cx: &mut OpContext<'_>, before: &Job, reason: Option<String>) -> Result<Job> {
    let mut after = before.clone();
    after.cancelled_at = after.cancelled_at.or(Some(cx.now));
    push_phase(&mut after, "cancelling", reason.clone(), cx);
    put(cx, kind::JOB_CANCELLED, before, &after)?;
    // A job without a supervisor has no process that would end it later.
    if after.supervisor.is_none() { finish(cx, &after, Ending::Ended, reason) } else { Ok(after) }
}

/// Refuses a further job on a task of an agent while one of its jobs holds the lease: the first of them to end would end
/// the lease of the other.
pub(crate) fn check_no_live_job(cx: &mut OpContext<'_>, task: &Task, agent: &Agent) -> Result<()> {
    let lease = cx.tx.lease_get(task.id.as_str())?.filter(|lease| lease.holder.as_ref() == Some(&agent.id));
    let Some(lease) = lease else { return Ok(()) };
    let query = JobQuery { task_id: Some(task.id.clone()), is_live: true, limit: MAX_LISTED, ..JobQuery::default() };
    let holds = |job: &Job| job.epoch == Some(lease.epoch) && job.agent_id.as_ref() == Some(&agent.id);
    let Some(live) = cx.tx.job_list(&query)?.into_iter().find(holds) else { return Ok(()) };
    Err(Error::conflict(format!("task {} already has job {}, which is {}", task.name, live.id, live.status))
        .hint(format!("wait until it ends, or cancel it: way job cancel {}", live.id)))
}

/// Returns a job's task and its lease, if the job's agent still holds that lease with the same epoch.
fn held(cx: &mut OpContext<'_>, job: &Job) -> Result<Option<(Task, Lease)>> {
    let (Some(task), Some(epoch)) = (&job.task_id, job.epoch) else { return Ok(None) };
    let lease = cx.tx.lease_get(task.as_str())?;
    let is_own = |lease: &Lease| lease.holder.is_some() && lease.holder == job.agent_id;
    let lease = lease.filter(|lease| (lease.epoch == epoch || seeded_bug("job_without_fence")) && is_own(lease));
    let Some(lease) = lease else { return Ok(None) };
    Ok(cx.tx.task_get(task)?.map(|task| (task, lease)))
}

/// Returns the reason why a job fails although its command exited with 0, if there is one.
fn unfinished(cx: &mut OpContext<'_>, job: &Job, is_held: bool) -> Result<Option<String>> {
    let Some(id) = &job.task_id else { return Ok(None) };
    let Some(task) = cx.tx.task_get(id)? else { return Ok(None) };
    if is_held {
        return Ok(Some(format!("its command ended without finishing task {}", task.name)));
    }
    let epoch = cx.tx.lease_get(id.as_str())?.map(|lease| lease.epoch);
    if epoch != job.epoch {
        return Ok(Some(format!("the lease on task {} was lost, and another agent claimed it", task.name)));
    }
    Ok(match task.status {
        TaskStatus::Completed | TaskStatus::Skipped | TaskStatus::WaitingInput | TaskStatus::Paused => None,
        TaskStatus::Cancelled => Some(format!("task {} was cancelled", task.name)),
        _ => Some(task.error.unwrap_or_else(|| format!("task {} was released", task.name))),
    })
}

/// Stores a changed job, with an event that lists the changes.
pub(crate) fn put(cx: &mut OpContext<'_>, kind: &'static str, before: &Job, after: &Job) -> Result<()> {
    cx.tx.job_put(after)?;
    let mut data = changes(before, after);
    // The event carries only the new phases.
    if let Some(fields) = data.as_object_mut() {
        fields.remove("phases");
        fields.remove("updated_at");
    }
    let new: Vec<_> = after.phases.iter().skip(before.phases.len()).collect();
    let task = after.task_id.as_ref();
    cx.event(kind, after.id.as_str(), described(data, json!({ "phases": new, "task": task })))?;
    Ok(())
}

/// Appends a phase to a job. Beyond the maximum it drops the oldest after the first.
pub(crate) fn push_phase(job: &mut Job, name: &str, detail: Option<String>, cx: &OpContext<'_>) {
    if job.phases.len() >= MAX_PHASES {
        job.phases.remove(1);
    }
    job.phases.push(Phase { name: name.to_owned(), detail, at: cx.now });
    job.updated_at = cx.now;
}

/// Finds a job by its id or the beginning of its id.
pub(crate) fn find_job(cx: &mut OpContext<'_>, reference: &str) -> Result<Job> {
    if let Ok(id) = reference.parse::<JobId>() {
        return match cx.tx.job_get(&id)? {
            Some(job) => Ok(job),
            None => Err(find::absent_error(cx, "job", reference)?),
        };
    }
    let jobs = cx.tx.job_list(&JobQuery { limit: MAX_LISTED, ..JobQuery::default() })?;
    let ids: Vec<_> = jobs.iter().map(|job| job.id.as_str()).collect();
    let index = find::by_id_prefix("job", JobId::PREFIX, reference, &ids)?;
    Ok(jobs.into_iter().nth(index).expect("the index is in range"))
}

/// Finds a workspace by its id, the beginning of its id, or its job.
pub(crate) fn find_workspace(cx: &mut OpContext<'_>, reference: &str) -> Result<Workspace> {
    if let Ok(id) = reference.parse::<WorkspaceId>() {
        return cx.tx.workspace_get(&id)?.ok_or_else(|| Error::not_found(format!("no workspace {reference}")));
    }
    if reference.starts_with(JobId::PREFIX) {
        let job = find_job(cx, reference)?;
        let query = WorkspaceQuery { job_id: Some(job.id.clone()), all: true, limit: 1, ..WorkspaceQuery::default() };
        let found = match &job.workspace_id {
            Some(id) => cx.tx.workspace_get(id)?,
            None => cx.tx.workspace_list(&query)?.pop(),
        };
        return found.ok_or_else(|| Error::not_found(format!("job {} has no workspace", job.id)));
    }
    let all = cx.tx.workspace_list(&WorkspaceQuery { all: true, limit: MAX_LISTED, ..WorkspaceQuery::default() })?;
    let ids: Vec<_> = all.iter().map(|workspace| workspace.id.as_str()).collect();
    let index = find::by_id_prefix("workspace", WorkspaceId::PREFIX, reference, &ids)?;
    Ok(all.into_iter().nth(index).expect("the index is in range"))
}

/// Records the workspace that a job works in, on the job and on its task.
pub(crate) fn enter_workspace(
    cx: &mut OpContext<'_>,
    job: &Job,
    workspace: &Workspace,
    context: Option<PathBuf>,
    started_from: Option<String>,
) -> Result<()> {
    let mut after = job.clone();
    after.workspace_id = Some(workspace.id.clone());
    after.workspace_dir = Some(workspace.path.clone());
    after.context_dir = context;
    after.started_from = started_from;
    after.updated_at = cx.now;
    put(cx, kind::JOB_NOTED, job, &after)?;
    if let Some(mut task) = job.task_id.as_ref().map(|id| cx.tx.task_get(id)).transpose()?.flatten() {
        task.workspace_id = Some(workspace.id.clone());
        cx.tx.task_put(&task)?;
    }
    Ok(())
}

/// Marks the workspace of a job that ended as kept, if it is active.
pub(crate) fn leave_workspace(cx: &mut OpContext<'_>, job: &Job) -> Result<()> {
    let Some(id) = &job.workspace_id else { return Ok(()) };
    let Some(before) = cx.tx.workspace_get(id)?.filter(|workspace| workspace.status == WorkspaceStatus::Active) else {
        return Ok(());
    };
    let mut after = before.clone();
    after.move_to(WorkspaceStatus::Kept, cx.now)?;
    change_workspace(cx, &before, &after)
}

/// Stores a changed workspace, with an event that lists the changes.
pub(crate) fn change_workspace(cx: &mut OpContext<'_>, before: &Workspace, after: &Workspace) -> Result<()> {
    cx.tx.workspace_put(after)?;
    let data = described(changes(before, after), json!({ "job": after.job_id }));
    cx.event(kind::WORKSPACE_CHANGED, after.id.as_str(), data)?;
    Ok(())
}
