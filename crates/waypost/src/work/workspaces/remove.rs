//! Examines a workspace, saves its work on request, and removes it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use waypost_core::model::{Strategy, Workspace, WorkspaceStatus};
use waypost_core::{Error, Kind, Result};
use waypost_workspace::workspaces::{self as tools, Findings, Plan, Work};
use waypost_workspace::worktrees::{self, Saved};
use waypost_workspace::{Environment, detect, worktree_id};

use super::places::root_of;
use super::records::{REMOVAL_FAILED, REMOVING, Records, change, plan_of};
use super::snapshots::{save_files, snapshot};
use crate::machine::place::Place;

/// The work that removing a workspace would lose.
#[derive(Clone, Debug, Serialize)]
pub struct Examined {
    /// The findings in its files.
    pub findings: Findings,
    /// The reasons not to remove it.
    pub objections: Vec<String>,
}

impl Examined {
    /// Describes a workspace that cannot be read: it may contain any work.
    pub fn unreadable(error: &Error) -> Examined {
        let findings = Findings { other: vec![error.full_message()], ..Findings::default() };
        Examined { objections: findings.at_risk(), findings }
    }
}

/// Looks for reasons not to remove a workspace.
pub fn examine(workspace: &Workspace) -> Result<Examined> {
    let plan = plan_of(workspace)?;
    let mut objections = Vec::new();
    match workspace.status {
        WorkspaceStatus::Active => objections.push("a job runs in it".to_owned()),
        WorkspaceStatus::Creating => objections.push("it is being created".to_owned()),
        _ => {}
    }
    if workspace.is_pinned {
        objections.push("it is pinned".to_owned());
    }
    // A running job may change the files while they are examined.
    if !objections.is_empty() || workspace.status == WorkspaceStatus::Lost {
        return Ok(Examined { findings: Findings::default(), objections });
    }
    let findings = tools::examine(&plan)?;
    objections.extend(findings.at_risk());
    objections
        .extend(findings.living.first().map(|process| format!("process {} ({}) runs in it", process.id, process.name)));
    Ok(Examined { findings, objections })
}

/// How to treat work that exists nowhere else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Force {
    /// Refuse to remove the workspace.
    No,
    /// Save it first.
    Save,
    /// Discard it.
    Discard,
}

/// A removed workspace.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RemovedWorkspace {
    /// The workspace.
    pub workspace: Workspace,
    /// The name of the snapshot of its work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saved_as: Option<String>,
    /// The command that restores it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restored_by: Option<String>,
    /// The freed bytes, as last measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub freed: Option<u64>,
}

/// Removes a workspace. Without force it refuses to lose work.
pub fn remove(records: &mut dyn Records, workspace: &Workspace, force: Force) -> Result<RemovedWorkspace> {
    let plan = plan_of(workspace)?;
    // Until the record says that it is gone: a process that reads it meanwhile would take the removal for interrupted.
    let _files = tools::lock_files(&plan)?;
    let gone = |status| Error::conflict(format!("workspace {} is {status} already", workspace.id));
    match workspace.status {
        WorkspaceStatus::Removed | WorkspaceStatus::Snapshotted => return Err(gone(workspace.status)),
        WorkspaceStatus::Lost => {
            // A failed removal may have left files in the trash; else only its row is left.
            if let Some(identity) = workspace.identity.filter(|_| plan.trash().symlink_metadata().is_ok()) {
                tools::remove(&plan, identity, Work::MayGo)?;
            }
            return mark_removed(records, workspace);
        }
        _ => {}
    }
    let (examined, is_readable) = inspect(workspace, &plan, force)?;
    let is_in_use = is_in_use(workspace);
    let refused = || {
        let objections = examined.objections.join(", ");
        let error = Error::refused(format!("workspace {} stays: {objections}", workspace.id));
        match (workspace.is_pinned, workspace.status) {
            (true, _) => error.hint(format!("way ws unpin {}", workspace.id)),
            (_, WorkspaceStatus::Active) => error.hint("way job cancel, or wait until the job has ended"),
            _ => {
                let error = error.hint("way ws rm --force saves it first; --discard deletes it");
                examined
                    .findings
                    .in_the_way
                    .iter()
                    .fold(error, |error, (what, how)| error.hint(format!("{what}: {how}")))
            }
        }
    };
    if is_in_use || !examined.findings.living.is_empty() || (force == Force::No && !examined.objections.is_empty()) {
        return Err(refused());
    }
    let identity = workspace
        .identity
        .ok_or_else(|| Error::refused(format!("the directory of workspace {} cannot be identified", workspace.id)))?;
    let is_at_risk = !examined.findings.at_risk().is_empty();
    let saved = if force == Force::Save && is_at_risk {
        Some(save(records, workspace, &examined.findings, is_readable)?)
    } else {
        None
    };
    let (saved_as, restored_by) = saved.map(|saved| (saved.name, saved.restored_by)).unzip();
    let worktree = detect(&plan.workspace, &Environment::default()).ok().flatten();
    let worktree = worktree.and_then(|found| worktree_id(&found.worktree_private_dir).ok().flatten());
    change(records, &workspace.id, |change| {
        change.note = Some(REMOVING.to_owned());
        change.snapshot.clone_from(&saved_as);
    })?;
    if force != Force::Discard {
        keep_context(records.place(), workspace)?;
    }
    let work = if force == Force::No { Work::MustBeSafe } else { Work::MayGo };
    if let Err(error) = tools::remove(&plan, identity, work) {
        change(records, &workspace.id, |change| {
            change.note = Some(format!("{REMOVAL_FAILED}: {}", error.full_message()));
        })?;
        return Err(error);
    }
    let status = if saved_as.is_some() { WorkspaceStatus::Snapshotted } else { WorkspaceStatus::Removed };
    let workspace = change(records, &workspace.id, |change| {
        change.status = Some(status);
        change.note = Some(String::new());
    })
    .map_err(|error| error.hint("the workspace is removed, and the next command records that"))?;
    // A command that ran in it registered it as a worktree.
    if let Some(id) = worktree {
        records.remove_worktree(id, &plan.workspace).map_err(|error| error.hint("the workspace is removed"))?;
    }
    let freed = workspace.size;
    Ok(RemovedWorkspace { workspace, saved_as, restored_by, freed })
}

/// Returns whether a workspace must not be removed, whatever is saved of it.
fn is_in_use(workspace: &Workspace) -> bool {
    workspace.is_pinned || !matches!(workspace.status, WorkspaceStatus::Kept)
}

/// Looks for reasons not to remove a workspace. Returns also whether its files can be read.
fn inspect(workspace: &Workspace, plan: &Plan, force: Force) -> Result<(Examined, bool)> {
    match examine(workspace) {
        Ok(examined) => Ok((examined, true)),
        // An unreadable workspace may contain any work: save or discard all of it.
        Err(error) if force != Force::No => {
            let mut examined = Examined::unreadable(&error);
            examined.findings.living = tools::processes_in(&plan.home())?;
            Ok((examined, false))
        }
        // Its repository is gone, so only the workspace may have the work.
        Err(error) if error.kind() == Kind::NotFound => {
            Err(Error::refused(format!("workspace {} stays: {}", workspace.id, error.full_message()))
                .hint("way ws rm --force saves its files first; --discard deletes them"))
        }
        Err(error) => Err(error),
    }
}

/// Returns the reasons why a workspace cannot be saved and removed, and the work that would be saved.
pub(super) fn examine_to_save(workspace: &Workspace) -> Result<(Vec<String>, Vec<String>)> {
    let plan = plan_of(workspace)?;
    if workspace.status == WorkspaceStatus::Lost {
        return Ok((Vec::new(), Vec::new()));
    }
    let (examined, is_readable) = inspect(workspace, &plan, Force::Save)?;
    if is_in_use(workspace) || !examined.findings.living.is_empty() {
        return Ok((examined.objections, Vec::new()));
    }
    let mut objections = examined.findings.unsaved();
    if !is_readable && plan.strategy == Strategy::Overlay {
        objections.extend(examined.findings.other.iter().cloned());
    }
    Ok((objections, examined.findings.at_risk()))
}

/// Saves all work of a workspace before its removal. Refuses if some of it cannot be saved.
fn save(records: &mut dyn Records, workspace: &Workspace, findings: &Findings, is_readable: bool) -> Result<Saved> {
    let plan = plan_of(workspace)?;
    let cannot = |what: &str| {
        Error::refused(format!("cannot save workspace {}: {what}", workspace.id))
            .hint("copy what you need, then: way ws rm --discard")
    };
    if let Some(first) = findings.unsaved().first() {
        return Err(cannot(first));
    }
    // Git worktrees and jj workspaces are saved in the repository that they belong to.
    let is_native = plan.strategy == Strategy::Jj || (plan.strategy == Strategy::Worktree && plan.git_dir.is_some());
    match (is_readable, is_native) {
        (true, false) => {
            let saved = snapshot(records, workspace)?;
            Ok(Saved { restored_by: records.way_to_restore(&saved), name: saved.id.to_string() })
        }
        (true, true) => {
            let checkout = plan.checkout.as_deref().or(plan.source.as_deref());
            let checkout = checkout.map(|path| detect(path, &Environment::default())).transpose()?.flatten();
            let checkout = checkout.ok_or_else(|| cannot("its source repository is missing"))?;
            if findings.abandoned > 0 {
                tools::keep_abandoned(&plan)?;
            }
            worktrees::save(&checkout, &plan.workspace, plan.name.as_str(), records.time()?)
        }
        // The files of an unreadable overlay are not in its directory.
        (false, _) if plan.strategy == Strategy::Overlay => Err(cannot(&findings.other.join(", "))),
        (false, _) => {
            let saved = save_files(records, workspace)?;
            Ok(Saved { restored_by: records.way_to_restore(&saved), name: saved.id.to_string() })
        }
    }
}

/// Copies the context and the notes of a job to its records, which outlive its workspace.
pub(super) fn keep_context(place: &Place, workspace: &Workspace) -> Result<()> {
    let context = plan_of(workspace)?.context();
    let is_empty = context.read_dir().map_or(true, |mut entries| entries.next().is_none());
    if is_empty {
        return Ok(());
    }
    let owner = workspace.job_id.as_ref().map_or_else(|| workspace.id.to_string(), ToString::to_string);
    let records = root_of(place)?.join("jobs").join(owner);
    tools::replace_copy(&context, &records.join("context"))
}

fn mark_removed(records: &mut dyn Records, workspace: &Workspace) -> Result<RemovedWorkspace> {
    let workspace = change(records, &workspace.id, |change| change.status = Some(WorkspaceStatus::Removed))?;
    Ok(RemovedWorkspace { workspace, saved_as: None, restored_by: None, freed: None })
}
