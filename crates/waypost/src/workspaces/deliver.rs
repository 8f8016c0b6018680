//! Pushes the work of a workspace to the real remote, and detects when it is merged.

use serde::Serialize;
use waypost_core::model::Workspace;
use waypost_core::{Error, Result};
use waypost_workspace::workspaces::{self as tools, Merged};

use super::places::network_options;
use super::records::{change, plan_of};
use crate::session::Session;

/// A push of the work of a workspace.
#[derive(Clone, Debug, Serialize)]
pub struct Delivered {
    /// The workspace.
    pub workspace: Workspace,
    /// The pushed commit.
    pub commit: String,
    /// The remote branch.
    pub branch: String,
    /// The URL of the remote, without secrets.
    pub remote: Option<String>,
    /// Whether there were changes to commit first.
    pub committed: bool,
}

/// Commits changes if there is a message, and pushes the branch to the real remote.
pub fn deliver(
    session: &mut Session,
    workspace: &Workspace,
    branch: Option<&str>,
    message: Option<&str>,
) -> Result<Delivered> {
    let plan = plan_of(workspace)?;
    let network = network_options(session);
    let mut committed = false;
    if let Some(message) = message {
        committed = tools::commit(&plan, message)?.is_some();
    }
    let findings = tools::examine(&plan)?;
    if let Some(first) = findings.changed.first().or(findings.untracked.first()) {
        return Err(Error::refused(format!("{} is not committed in workspace {}", first, workspace.id))
            .hint("commit it there, or use --commit MESSAGE"));
    }
    let branch = branch.map(str::to_owned).or_else(|| workspace.branch.clone());
    let branch = branch.ok_or_else(|| Error::invalid("there is no branch to push to").hint("--branch NAME"))?;
    let commit = tools::push(&plan, &branch, network, None)?;
    Ok(Delivered { workspace: workspace.clone(), commit, branch, remote: plan.origin, committed })
}

/// Opens a pull request for a pushed branch. Returns its URL.
pub fn open_pull_request(workspace: &Workspace, branch: &str) -> Result<String> {
    tools::open_pull_request(&plan_of(workspace)?, branch)
}

/// Stores the URL of the pull request of a workspace.
pub fn note_pull_request(session: &mut Session, workspace: &Workspace, url: &str) -> Result<Workspace> {
    change(session, &workspace.id, |change| change.pr_url = Some(url.to_owned()))
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
