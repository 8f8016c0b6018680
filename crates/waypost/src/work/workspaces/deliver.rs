//! Delivers the work of a workspace, to the real remote or into the source repository, and detects when it is merged.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use waypost_core::model::{Strategy, Workspace};
use waypost_core::{Error, Result, path_text};
use waypost_workspace::workspaces::{self as tools, Merged};

use super::places::network_options;
use super::records::{change, is_pooled, plan_of};
use crate::app::session::Session;

/// The delivered work of a workspace.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DeliveredWork {
    /// The workspace.
    pub workspace: Workspace,
    /// The delivered commit.
    pub commit: String,
    /// The branch that has it, in the remote or in the source repository.
    pub branch: String,
    /// The URL of the remote, without secrets; none if the branch is in the source repository.
    pub remote: Option<String>,
    /// The source repository, if the branch is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub landed_in: Option<String>,
    /// Whether there were changes to commit first.
    pub committed: bool,
}

/// Commits changes if there is a message, and pushes the branch to the real remote. Without a remote, or if `local` says so,
/// it brings the branch into the source repository.
pub fn deliver(
    session: &mut Session,
    workspace: &Workspace,
    branch: Option<&str>,
    message: Option<&str>,
    local: bool,
) -> Result<DeliveredWork> {
    let plan = plan_of(workspace)?;
    let network = network_options(session);
    if let Some((what, end)) = tools::examine(&plan)?.operation_under_way() {
        return Err(Error::refused(format!("{what} in workspace {}", workspace.id)).hint(end));
    }
    let mut committed = false;
    if let Some(message) = message {
        committed = tools::commit(&plan, message)?.is_some();
    }
    let findings = tools::examine(&plan)?;
    let mut first = findings.changed.first().or(findings.untracked.first()).map(String::as_str);
    if first.is_none() && tools::count_uncommitted(&plan)? > 0 {
        first = Some("a file");
    }
    if let Some(first) = first {
        return Err(Error::refused(format!("{first} is not committed in workspace {}", workspace.id))
            .hint("commit it there, or use --commit MESSAGE"));
    }
    let branch = branch.map(str::to_owned).or_else(|| workspace.branch.clone());
    let branch = branch.ok_or_else(|| Error::invalid("there is no branch to push to").hint("--branch NAME"))?;
    let workspace = workspace.clone();
    if local || (!tools::has_remote(&plan) && plan.git_dir.is_some()) {
        let commit = tools::land(&plan, &branch)?;
        let landed_in = plan.source.as_deref().map(path_text::to_text);
        return Ok(DeliveredWork { workspace, commit, branch, remote: None, landed_in, committed });
    }
    let commit = tools::push(&plan, &branch, network, None)?;
    Ok(DeliveredWork { workspace, commit, branch, remote: plan.origin, landed_in: None, committed })
}

/// Opens a pull request for a pushed branch. Returns its URL.
pub fn open_pull_request(workspace: &Workspace, branch: &str) -> Result<String> {
    tools::open_pull_request(&plan_of(workspace)?, branch)
}

/// Stores the URL of the pull request of a workspace.
pub fn note_pull_request(session: &mut Session, workspace: &Workspace, url: &str) -> Result<Workspace> {
    change(session, &workspace.id, |change| change.pr_url = Some(url.to_owned()))
}

/// Returns whether the work of a workspace can be merged: whether it has git commits of its own.
pub fn is_mergeable(workspace: &Workspace) -> bool {
    let has_git = || plan_of(workspace).is_ok_and(|plan| plan.git_dir.is_some());
    let has_commits = workspace.strategy.borrows() || (workspace.strategy == Strategy::Worktree && has_git());
    has_commits && workspace.status.is_live() && !is_pooled(workspace)
}

/// Returns whether the work of a workspace is merged, and stores the merged commit.
pub fn update_merged(session: &mut Session, workspace: &Workspace) -> Result<Merged> {
    let plan = plan_of(workspace)?;
    let merged = tools::merged(&plan, network_options(session), None)?;
    if matches!(merged, Merged::Whole | Merged::Squashed) && workspace.merge_commit.is_none() {
        let commit = tools::head(&plan)?;
        change(session, &workspace.id, |change| change.merge_commit = Some(commit))?;
    }
    Ok(merged)
}
