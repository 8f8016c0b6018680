//! What the workspace of a job starts from. The store has the rule, this machine has the commits.

use std::time::{Duration, Instant};

use waypost_core::Result;
use waypost_core::model::{EventQuery, Job};
use waypost_core::op::{ChooseBase, ListEvents, ShowTask};
use waypost_core::work::base::TaskWork;
use waypost_workspace::workspaces::{self as tools, Conflict};

use crate::app::session::Session;
use crate::work::workspaces::{self, StartingWork};

/// Maximum time to wait for the end of a job that has finished its task, so that its last commits are included.
const END_TIMEOUT: Duration = Duration::from_mins(1);
/// Longest time between two checks of such a job.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// What the workspace of a job starts from.
pub(super) struct Base {
    /// The revision that was named. None: the work of finished tasks, or the head.
    pub(super) revision: Option<String>,
    /// The work of finished tasks.
    pub(super) from: StartingWork,
}

/// Chooses what a job starts from. `given` is the base that its settings name. Waits for the end of jobs whose work it
/// needs, as long as `may_wait` says so.
pub(super) fn choose(
    session: &mut Session,
    job: &Job,
    given: Option<&str>,
    may_wait: &mut dyn FnMut(&mut Session) -> Result<bool>,
) -> Result<Base> {
    let until = Instant::now() + END_TIMEOUT;
    let chosen = loop {
        let last = session.read(ListEvents { query: EventQuery { limit: 1, ..EventQuery::default() } })?.last;
        let chosen = session.call(ChooseBase { job: job.id.to_string(), base: given.map(str::to_owned) })?;
        let is_complete = !chosen.results.iter().any(|work| work.is_live);
        if is_complete || Instant::now() >= until || !may_wait(session)? {
            break chosen;
        }
        session.wait(last, POLL_INTERVAL)?;
    };
    let mut from =
        StartingWork { chosen_by: chosen.chosen_by, may_leave_conflict: chosen.is_answered, ..StartingWork::default() };
    let mut without_work = chosen.without_work;
    for id in &chosen.prepared {
        let Some(workspace) = workspaces::local(session, id)? else { continue };
        if let Some(commit) = workspaces::resolved_conflict(&workspace)? {
            let task = format!("{} (conflict resolved in {})", job_task(session, job)?, workspace.id);
            from.work.push(tools::TaskWork { task, commit, branch: None });
            from.sources.extend(workspaces::sources_of(&workspace)?);
            break;
        }
    }
    for work in &chosen.results {
        match commit_of(session, work, &mut from)? {
            Some(found) => from.work.push(found),
            None => without_work.push(work.task.clone()),
        }
    }
    if !without_work.is_empty() {
        from.notes.push(format!("without a branch of their own: {}", without_work.join(", ")));
    }
    Ok(Base { revision: chosen.revision, from })
}

/// Returns the name of the task of a job.
fn job_task(session: &mut Session, job: &Job) -> Result<String> {
    let Some(task) = &job.task_id else { return Ok(String::new()) };
    Ok(session.read(ShowTask { task: task.to_string(), ..ShowTask::default() })?.task.task.name)
}

/// Finds the commit of a finished task. If none was recorded, it is the one that the workspace of its job is on.
fn commit_of(session: &mut Session, work: &TaskWork, from: &mut StartingWork) -> Result<Option<tools::TaskWork>> {
    let workspace = match &work.workspace {
        Some(id) => workspaces::local(session, id)?,
        None => None,
    };
    let mut commit = work.commit.clone();
    if let Some(workspace) = &workspace {
        if commit.is_none() && workspaces::has_files(workspace) {
            let task = session.read(ShowTask { task: work.task_id.to_string(), ..ShowTask::default() })?.task.task;
            let kept = workspaces::keep_result(workspace, &task.workflow_id, &task.name, work.is_live)?;
            commit = kept.commit;
            from.notes.extend(kept.note.map(|note| format!("task {}: {note}", work.task)));
        }
        from.sources.extend(workspaces::sources_of(workspace)?);
        let uncommitted = workspaces::count_uncommitted(workspace).unwrap_or_default();
        if uncommitted > 0 {
            let files = waypost_core::words::count(uncommitted, "file");
            from.notes.push(format!("task {} left {files} uncommitted, not included here", work.task));
        }
    }
    if work.is_live {
        from.notes.push(format!("the job of task {} still runs, and may commit more", work.task));
    }
    let branch = workspace.and_then(|workspace| workspace.branch);
    Ok(commit.map(|commit| tools::TaskWork { task: work.task.clone(), commit, branch }))
}

/// Returns the question to a person about work that conflicts.
pub(super) fn conflict_question(conflict: &Conflict, dir: &std::path::Path, task: &str) -> String {
    format!(
        "The work of task {} conflicts with that of {} in {}.\n\n{}\n\nEither resolve it in {} and commit there, then: \
         way task answer {task} resolved\nOr answer how to resolve it: the next agent gets the conflict with your \
         answer.",
        conflict.task,
        conflict.merged.join(", "),
        conflict.files.join(", "),
        conflict.shown.trim(),
        dir.display(),
    )
}

/// Returns the question to a person about work that this machine cannot reach.
pub(super) fn missing_question(work: &tools::TaskWork, task: &str, machine: &str) -> String {
    format!(
        "The commit {} of task {} is not on {machine}, and no remote has it. Deliver it from the machine that has it \
         (way job deliver), or run a worker there, then: way task answer {task} delivered",
        work.commit, work.task,
    )
}
