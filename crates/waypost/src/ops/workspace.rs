//! Operations on the files of workspaces: they run on the machine that has them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use waypost_core::context::Authority;
use waypost_core::model::{Workspace, WorkspaceStatus};
use waypost_core::op::{Access, Effect, JobAccess, Operation, ShowWorkspace};
use waypost_core::{Error, Result};

use crate::app::operation::{AppContext, AppEntry, AppOperation};
use crate::app::session::Session;
use crate::work::workspaces::{self, DeliveredWork, Force, RemovedWorkspace};

/// All operations on workspaces outside the store.
pub(crate) static TABLE: &[AppEntry] = &[
    AppEntry::of::<DeliverWorkspace>(),
    AppEntry::of::<ExplainWorkspace>(),
    AppEntry::of::<RemoveWorkspace>(),
    AppEntry::of::<ShowDiff>(),
    AppEntry::of::<SnapshotWorkspace>(),
];

/// Default size of a diff.
const DEFAULT_DIFF_BYTES: u64 = 256 * 1024;
/// Maximum size of a diff.
const MAX_DIFF_BYTES: u64 = 4 << 20;

/// Pushes the branch of a workspace to the remote of its repository. Without a remote, brings it into the source
/// repository. Refuses if there are uncommitted changes and no message to commit them with.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
pub struct DeliverWorkspace {
    /// The workspace: its id, a prefix of it, or its job.
    pub workspace: String,
    /// Branch to create [default: the workspace's branch].
    #[serde(default)]
    pub branch: Option<String>,
    /// Message with which to commit all uncommitted changes first.
    #[serde(default)]
    pub commit: Option<String>,
    /// Whether to bring the branch into the source repository even if there is a remote.
    #[serde(default)]
    pub local: bool,
}

/// Examines the files of a workspace: the work that only it has, and why it would not be removed.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
pub struct ExplainWorkspace {
    /// The workspace: its id, a prefix of it, or its job.
    workspace: String,
}

/// The state of the files of a workspace.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
pub struct ExplainedWorkspace {
    /// The workspace.
    workspace: Workspace,
    /// The reasons not to remove it; none if it can be removed.
    objections: Vec<String>,
    /// The number of tracked files with uncommitted changes; none if the files were not examined, because a job uses them.
    changed: Option<usize>,
    /// The number of files that are neither tracked nor ignored.
    untracked: Option<usize>,
    /// The number of commits that neither a remote nor the base has.
    ahead: Option<usize>,
}

/// Removes a workspace. Refuses if a job is running in it, if it is pinned, or if it has uncommitted files or commits that
/// are on no remote.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
pub struct RemoveWorkspace {
    /// The workspace: its id, a prefix of it, or its job.
    pub workspace: String,
    /// Whether to save work that would be lost, and remove the workspace then.
    #[serde(default)]
    pub force: bool,
    /// Whether to remove the workspace without saving the work in it.
    #[serde(default)]
    pub discard: bool,
}

/// Shows the changes in a workspace since the commit that it started from: those that are committed, and those that are not.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
pub struct ShowDiff {
    /// The workspace: its id, a prefix of it, or its job.
    pub workspace: String,
    /// Maximum size of the diff, in bytes [default: 262144].
    #[serde(default)]
    pub max_bytes: Option<u64>,
}

/// The changes in a workspace.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
pub struct WorkspaceDiff {
    /// The workspace.
    pub workspace: String,
    /// The commit that it started from.
    pub base: String,
    /// The changes in the format of git; bytes that are not UTF-8 are replaced.
    pub diff: String,
    /// Whether the diff is longer than the limit.
    pub is_cut: bool,
}

/// Saves all files and commits of a workspace as a snapshot.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
pub struct SnapshotWorkspace {
    /// The workspace: its id, a prefix of it, or its job.
    pub workspace: String,
}

/// A snapshot of a workspace.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
pub struct SavedWorkspace {
    /// The name of the snapshot.
    pub id: String,
    /// The commit that holds it; none for a copy of files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// Files that are not in it: other repositories, and files that are not regular.
    pub left_out: Vec<String>,
}

impl Operation for DeliverWorkspace {
    const NAME: &'static str = "deliver_workspace";
    const SUMMARY: &'static str = "Deliver the work of a workspace as a branch";
    const EFFECT: Effect = Effect::Write;
    type Answer = DeliveredWork;
}

impl AppOperation for DeliverWorkspace {
    fn run(self, cx: &mut AppContext<'_>) -> Result<DeliveredWork> {
        let session = cx.session()?;
        let workspace = local_workspace(session, &self.workspace)?;
        let (branch, message) = (self.branch.as_deref(), self.commit.as_deref());
        workspaces::deliver(session, &workspace, branch, message, self.local)
    }
}

impl Operation for ExplainWorkspace {
    const NAME: &'static str = "explain_workspace";
    const SUMMARY: &'static str = "Show which work only a workspace has, and why it stays";
    const EFFECT: Effect = Effect::Read;
    type Answer = ExplainedWorkspace;
}

impl AppOperation for ExplainWorkspace {
    fn run(self, cx: &mut AppContext<'_>) -> Result<ExplainedWorkspace> {
        let session = cx.session()?;
        let workspace = session.call(ShowWorkspace { workspace: self.workspace })?.workspace;
        let machine = workspaces::machine(session)?;
        let unexamined = |workspace, objections| ExplainedWorkspace {
            workspace,
            objections,
            changed: None,
            untracked: None,
            ahead: None,
        };
        if workspace.machine != machine {
            let objection = format!("its files are on the machine {}", workspace.machine);
            return Ok(unexamined(workspace, vec![objection]));
        }
        match workspaces::examine(&workspace) {
            Err(error) => Ok(unexamined(workspace, vec![error.full_message()])),
            Ok(examined) if workspace.status != WorkspaceStatus::Kept || workspace.is_pinned => {
                Ok(unexamined(workspace, examined.objections))
            }
            Ok(examined) => Ok(ExplainedWorkspace {
                workspace,
                objections: examined.objections,
                changed: Some(examined.findings.changed.len()),
                untracked: Some(examined.findings.untracked.len()),
                ahead: Some(examined.findings.unpushed),
            }),
        }
    }
}

impl Operation for RemoveWorkspace {
    const NAME: &'static str = "remove_workspace";
    const SUMMARY: &'static str = "Remove a workspace that has no unsaved work";
    const EFFECT: Effect = Effect::Write;
    type Answer = RemovedWorkspace;
}

impl AppOperation for RemoveWorkspace {
    fn run(self, cx: &mut AppContext<'_>) -> Result<RemovedWorkspace> {
        let force = match (self.force, self.discard) {
            (true, true) => return Err(Error::invalid("force and discard exclude each other")),
            (true, false) => Force::Save,
            (false, true) => Force::Discard,
            (false, false) => Force::No,
        };
        let session = cx.session()?;
        let workspace = local_workspace(session, &self.workspace)?;
        workspaces::remove(session, &workspace, force)
    }
}

impl Operation for ShowDiff {
    const NAME: &'static str = "show_diff";
    const SUMMARY: &'static str = "Show the changes in a workspace";
    const EFFECT: Effect = Effect::Read;
    // As with logs: files may show more than their authors intended.
    const ACCESS: Access = Access::AGENTS.with_jobs(JobAccess::None);
    type Answer = WorkspaceDiff;
}

impl AppOperation for ShowDiff {
    /// The session of a short operation has the rights of the caller.
    const IS_SHORT: bool = true;

    fn run(self, cx: &mut AppContext<'_>) -> Result<WorkspaceDiff> {
        let session = cx.session()?;
        if session.caller().authority != Authority::User {
            return Err(Error::refused("the changes in a workspace are for admins"));
        }
        let workspace = local_workspace(session, &self.workspace)?;
        let max_bytes = self.max_bytes.unwrap_or(DEFAULT_DIFF_BYTES).min(MAX_DIFF_BYTES);
        let found = workspaces::diff(&workspace, max_bytes)?;
        Ok(WorkspaceDiff {
            workspace: workspace.id.to_string(),
            base: found.base,
            diff: found.text,
            is_cut: found.is_cut,
        })
    }
}

impl Operation for SnapshotWorkspace {
    const NAME: &'static str = "snapshot_workspace";
    const SUMMARY: &'static str = "Save the files and commits of a workspace";
    const EFFECT: Effect = Effect::Write;
    type Answer = SavedWorkspace;
}

impl AppOperation for SnapshotWorkspace {
    fn run(self, cx: &mut AppContext<'_>) -> Result<SavedWorkspace> {
        let session = cx.session()?;
        let workspace = local_workspace(session, &self.workspace)?;
        let saved = workspaces::snapshot(session, &workspace)?;
        Ok(SavedWorkspace { id: saved.id.to_string(), commit: saved.commit, left_out: saved.left_out })
    }
}

/// Finds a workspace, and refuses one on another machine: its files are not here.
fn local_workspace(session: &mut Session, reference: &str) -> Result<Workspace> {
    workspaces::recover_interrupted(session)?;
    let workspace = session.call(ShowWorkspace { workspace: reference.to_owned() })?.workspace;
    workspaces::require_here(session, &workspace).map(|()| workspace)
}
