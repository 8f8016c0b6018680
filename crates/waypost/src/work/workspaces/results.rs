//! The work that jobs leave for later tasks, and when it is no longer needed.

use std::collections::BTreeMap;
use std::path::PathBuf;

use waypost_core::id::{WorkflowId, WorkspaceId};
use waypost_core::model::{WorkflowStatus, Workspace, WorkspaceStatus};
use waypost_core::op::{ListSummaries, ShowWorkflow, ShowWorkspace};
use waypost_core::{Error, Kind, Result, words};
use waypost_workspace::workspaces as tools;

use super::places::{known_machine, mirror};
use super::records::plan_of;
use crate::app::session::Session;

/// The work that a job left for the tasks that depend on its task.
pub struct KeptResult {
    /// The commit that the workspace is on. None if it has no commits.
    pub commit: Option<String>,
    /// What the job left uncommitted, and what became of it.
    pub note: Option<String>,
}

/// Keeps the work of a task that is finished, for the tasks that depend on it. What its job left uncommitted is work too: it is
/// committed first, so that it gets lost neither on the way to later tasks nor when the workspace is delivered. While the job
/// still runs, its files are half written, and the workspace is its own: then only what it has committed itself is kept.
pub fn keep_result(workspace: &Workspace, workflow: &WorkflowId, task: &str, is_live: bool) -> Result<KeptResult> {
    let plan = plan_of(workspace)?;
    let uncommitted = if is_live { 0 } else { tools::count_uncommitted(&plan)? };
    let files = words::count(uncommitted, "file");
    let note = if uncommitted == 0 {
        None
    } else {
        Some(match commit_rest(&plan, task) {
            Ok(()) => format!("committed {files} that the job had left uncommitted"),
            Err(error) => format!(
                "the job left {files} uncommitted, which later tasks do not get: {}; it is in {}",
                error.full_message(),
                workspace.path.display()
            ),
        })
    };
    Ok(KeptResult { commit: tools::keep_result(&plan, workflow.as_str())?, note })
}

fn commit_rest(plan: &tools::Plan, task: &str) -> Result<()> {
    if let Some((what, end)) = tools::examine(plan)?.operation_under_way() {
        return Err(Error::refused(what).hint(end));
    }
    tools::commit(plan, &format!("{task}: what its job left uncommitted")).map(drop)
}

/// Returns the repositories on this machine that may have the commits of a workspace.
pub fn sources_of(workspace: &Workspace) -> Result<Vec<PathBuf>> {
    let plan = plan_of(workspace)?;
    let own = plan.strategy.borrows().then(|| plan.workspace.join(".git"));
    Ok(plan.mirror.into_iter().chain(plan.git_dir).chain(own).collect())
}

/// Returns a workspace whose files are on this machine.
pub fn local(session: &mut Session, id: &WorkspaceId) -> Result<Option<Workspace>> {
    let found = match session.read(ShowWorkspace { workspace: id.to_string() }) {
        Err(error) if error.kind() == Kind::NotFound => return Ok(None),
        found => found?.workspace,
    };
    let is_here = known_machine(session).as_ref() == Some(&found.machine);
    Ok(Some(found).filter(|_| is_here))
}

/// Returns whether the files of a workspace exist.
pub fn has_files(workspace: &Workspace) -> bool {
    matches!(workspace.status, WorkspaceStatus::Active | WorkspaceStatus::Kept) && workspace.path.is_dir()
}

/// Returns the commit on which a person resolved a conflict in a workspace.
pub fn resolved_conflict(workspace: &Workspace) -> Result<Option<String>> {
    if has_files(workspace) { tools::resolved(&plan_of(workspace)?) } else { Ok(None) }
}

/// Counts the files of a workspace that are not committed.
pub fn count_uncommitted(workspace: &Workspace) -> Result<usize> {
    if has_files(workspace) { tools::count_uncommitted(&plan_of(workspace)?) } else { Ok(0) }
}

/// Whether a workflow still needs the results of its jobs.
#[derive(Clone, Copy)]
enum Need {
    Ended,
    /// It ended, but its work may not be merged yet.
    UntilMerged,
    Lasting,
}

/// Releases the results of workflows that are cancelled or merged. Those of workflows that this store does not know stay.
/// Returns how many were released.
pub fn release_results(session: &mut Session) -> Result<usize> {
    let Some(git_dir) = session.place.require_checkout()?.git_dir.clone() else { return Ok(0) };
    let mirror = mirror(session)?;
    let mut known: BTreeMap<String, Need> = BTreeMap::new();
    let mut is_over = |workflow: &str, commit: &str| {
        let need = match known.get(workflow) {
            Some(need) => *need,
            None => need_of(session, workflow)?,
        };
        known.insert(workflow.to_owned(), need);
        match need {
            Need::Ended => Ok(true),
            Need::Lasting => Ok(false),
            Need::UntilMerged => tools::is_in_branches(&git_dir, commit),
        }
    };
    let mut released = tools::release_results(&git_dir, &mut is_over)?;
    if let Some(mirror) = mirror {
        released += tools::release_results(&mirror, &mut is_over)?;
    }
    Ok(released)
}

fn need_of(session: &mut Session, workflow: &str) -> Result<Need> {
    let (status, awaits_merge) = match session.read(ShowWorkflow { workflow: workflow.to_owned() }) {
        Err(error) if error.kind() == Kind::NotFound => match removed(session, workflow)? {
            Some(found) => found,
            None => return Ok(Need::Lasting),
        },
        found => {
            let found = found?.workflow.workflow;
            (found.status, found.awaits_merge())
        }
    };
    Ok(match status {
        WorkflowStatus::Cancelled => Need::Ended,
        WorkflowStatus::Completed if awaits_merge => Need::Ended,
        WorkflowStatus::Completed | WorkflowStatus::Failed => Need::UntilMerged,
        _ => Need::Lasting,
    })
}

/// Returns the last status of a workflow that was removed because of its age, and whether its merge completed it.
fn removed(session: &mut Session, workflow: &str) -> Result<Option<(WorkflowStatus, bool)>> {
    let summaries = session.read(ListSummaries { subjects: vec![workflow.to_owned()], limit: 1 })?.summaries;
    let Some(summary) = summaries.into_iter().next() else { return Ok(None) };
    let status = summary.status.map(|status| status.parse()).transpose()?;
    Ok(status.map(|status| (status, summary.detail["awaits_merge"] == true)))
}
