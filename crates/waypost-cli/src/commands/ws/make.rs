//! Creates workspaces without a job, and fills the pool.

use std::process::ExitCode;

use serde_json::json;
use waypost_core::model::Strategy;
use waypost_core::words::count;
use waypost_core::{Error, Result};

use crate::CommandContext;
use waypost::app::session::Session;
use waypost::work::workspaces::{self, WorkspaceRequest};

/// Create a workspace without a job
#[derive(clap::Args)]
pub(super) struct NewArgs {
    /// Kind of workspace: clone, overlay, worktree, jj or copy [default: configured, else chosen for the repository]
    #[arg(long, value_parser = strategy)]
    strategy: Option<Strategy>,
    /// Commit to start from [default: the current one]
    #[arg(long, value_name = "REVISION")]
    base: Option<String>,
    /// Branch to work on [default: waypost/ and the id]
    #[arg(long)]
    branch: Option<String>,
    /// Take the uncommitted changes of the checkout along, including untracked files
    #[arg(long, conflicts_with_all = ["base", "remote"])]
    include_changes: bool,
    /// URL to clone instead of the current repository
    #[arg(long, value_name = "URL")]
    remote: Option<String>,
}

/// Bring a workspace up to date with the repository it comes from
///
/// Fast-forwards it, and merges nothing. Fails, and changes nothing, if the workspace has commits of its own, or changes that
/// the update would overwrite.
#[derive(clap::Args)]
pub(super) struct UpdateArgs {
    /// Workspace: an id or its prefix, a job, or a path in the workspace
    workspace: String,
    /// Revision of the repository to update to [default: the head of the checkout that the workspace was requested from]
    #[arg(long, value_name = "REVISION")]
    base: Option<String>,
}

/// Create workspaces in advance, so that jobs start faster
#[derive(clap::Args)]
pub(super) struct WarmArgs {
    /// Number of workspaces in the pool [default: workspaces.pool]
    number: Option<usize>,
}

/// Trust the current setup command of this repository
#[derive(clap::Args)]
pub(super) struct TrustArgs {
    /// Revoke the trust
    #[arg(long)]
    remove: bool,
}

pub(super) fn new(cx: &mut CommandContext, session: &mut Session, args: &NewArgs) -> Result<ExitCode> {
    let request = WorkspaceRequest {
        strategy: args.strategy,
        base: args.base.as_deref(),
        branch: args.branch.as_deref(),
        remote: args.remote.as_deref(),
        include_changes: args.include_changes,
        ..WorkspaceRequest::default()
    };
    let busy = cx.ui.busy("Creating the workspace");
    let created = workspaces::create(session, &request, &mut |step| cx.ui.note(step))?;
    drop(busy);
    for note in &created.notes {
        cx.ui.warn(note);
    }
    let workspace = &created.workspace;
    cx.ui.answer(workspace, |text| {
        text.line(format!("Created workspace {} at {}", workspace.id, workspace.path.display()));
    })?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn update(cx: &mut CommandContext, session: &mut Session, args: &UpdateArgs) -> Result<ExitCode> {
    let workspace = workspaces::find(session, &args.workspace)?.workspace;
    let before = workspaces::update(&workspace, args.base.as_deref())?;
    cx.ui.answer(&json!({ "workspace": workspace.id, "before": before }), |text| {
        let commits = count(before.behind, "commit");
        text.line(match before.behind {
            0 => format!("Workspace {} is up to date", workspace.id),
            _ => format!("Updated workspace {} by {commits}", workspace.id),
        });
    })?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn warm(cx: &mut CommandContext, session: &mut Session, args: &WarmArgs) -> Result<ExitCode> {
    let configured = session.place.config.text("workspaces.pool").and_then(|text| text.parse().ok());
    let number = args.number.or(configured).unwrap_or_default();
    if number == 0 {
        return Err(Error::invalid("no number of workspaces given")
            .hint("use way ws warm N, or way config set workspaces.pool N"));
    }
    let busy = cx.ui.busy("Filling the pool");
    let slots = workspaces::warm(session, number, &mut |step| cx.ui.note(step))?;
    drop(busy);
    cx.ui.answer(&slots, |text| {
        text.line(format!("{} in the pool", count(slots.len(), "workspace")));
    })?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn enter(cx: &mut CommandContext, session: &mut Session, reference: &str) -> Result<ExitCode> {
    let workspace = workspaces::find(session, reference)?.workspace;
    if !workspace.status.is_live() {
        return Err(Error::conflict(format!("workspace {} is {}", workspace.id, workspace.status)));
    }
    workspaces::enter(&workspace)?;
    cx.ui.answer(&workspace, |text| text.line(workspace.path.display()))?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn trust(cx: &mut CommandContext, session: &mut Session, args: &TrustArgs) -> Result<ExitCode> {
    let repository = session.place.require_checkout()?.repository_path().to_owned();
    let trust = workspaces::trust(session)?;
    if args.remove {
        trust.remove(&repository)?;
        cx.ui.answer(&json!({ "trusted": null }), |text| text.line("Revoked the trust in this repository"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let Some(command) = session.place.config.text("workspaces.setup") else {
        return Err(
            Error::not_found("this repository has no setup command").hint("way config set workspaces.setup COMMAND")
        );
    };
    let files = trust.add(&repository, &command, &repository)?;
    cx.ui.answer(&json!({ "trusted": command, "files": files }), |text| {
        text.line(format!("Trusted: {command}"));
        if !files.is_empty() {
            let names = files.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            text.line(format!("With the current content of {names}, but not of what these run in turn"));
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Parses a strategy. The error does not list in-place, which creates no workspace; creation refuses it.
fn strategy(text: &str) -> Result<Strategy, String> {
    let offered = Strategy::ALL.iter().filter(|strategy| **strategy != Strategy::InPlace);
    let offered: Vec<_> = offered.map(|strategy| strategy.as_str()).collect();
    text.parse().map_err(|_| format!("unknown strategy; use one of: {}", offered.join(", ")))
}
