//! Making workspaces by hand, and having them ready.

use std::process::ExitCode;

use serde_json::json;
use waypost_core::model::Strategy;
use waypost_core::{Error, Result};

use super::count;
use crate::CommandContext;
use waypost::session::Session;
use waypost::workspaces::{self, WorkspaceRequest};

/// Make a workspace by hand, without a job
#[derive(clap::Args)]
pub(super) struct NewArgs {
    /// clone, overlay, worktree, jj or copy [default: as configured, else as suits the repository]
    #[arg(long, value_parser = strategy)]
    strategy: Option<Strategy>,
    #[command(flatten)]
    start: StartingPoint,
    /// Clone this address, and not the repository we are in
    #[arg(long, value_name = "URL")]
    remote: Option<String>,
}

/// Where work in a workspace starts.
#[derive(clap::Args)]
pub(crate) struct StartingPoint {
    /// The commit to start from [default: the current one]
    #[arg(long, value_name = "REVISION")]
    pub(crate) base: Option<String>,
    /// The branch to work on [default: waypost/ and its id]
    #[arg(long)]
    pub(crate) branch: Option<String>,
}

/// Have workspaces ready before a job needs one
#[derive(clap::Args)]
pub(super) struct WarmArgs {
    /// How many [default: workspaces.pool]
    number: Option<usize>,
}

/// Trust the set-up command of this repository, as it is now
#[derive(clap::Args)]
pub(super) struct TrustArgs {
    /// Trust nothing of this repository any more
    #[arg(long)]
    remove: bool,
}

pub(super) fn new(cx: &mut CommandContext, session: &mut Session, args: &NewArgs) -> Result<ExitCode> {
    let wanted = WorkspaceRequest {
        job: None,
        strategy: args.strategy,
        base: args.start.base.as_deref(),
        branch: args.start.branch.as_deref(),
        remote: args.remote.as_deref(),
    };
    let created = workspaces::create(session, &wanted, &mut |step| cx.ui.note(step))?;
    for note in &created.notes {
        cx.ui.warn(note);
    }
    let workspace = &created.workspace;
    cx.ui.answer(workspace, |text| {
        text.line(format!("Made workspace {} at {}", workspace.id, workspace.path.display()));
    })?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn warm(cx: &mut CommandContext, session: &mut Session, args: &WarmArgs) -> Result<ExitCode> {
    let configured = session.place.config.text("workspaces.pool").and_then(|text| text.parse().ok());
    let number = args.number.or(configured).unwrap_or_default();
    if number == 0 {
        return Err(Error::invalid("nobody says how many workspaces to have ready")
            .hint("way ws warm N, or way config set workspaces.pool N"));
    }
    let slots = workspaces::warm(session, number, &mut |step| cx.ui.note(step))?;
    cx.ui.answer(&slots, |text| {
        let verb = if slots.len() == 1 { "waits" } else { "wait" };
        text.line(format!("{} {verb} for a job", count(slots.len(), "workspace")));
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
        cx.ui
            .answer(&json!({ "trusted": null }), |text| text.line("Nothing of this repository is trusted any more"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let Some(command) = session.place.config.text("workspaces.setup") else {
        return Err(Error::not_found("this repository has no set-up command").hint("way config set workspaces.setup"));
    };
    trust.add(&repository, &command)?;
    cx.ui.answer(&json!({ "trusted": command }), |text| text.line(format!("Trusted: {command}")))?;
    Ok(ExitCode::SUCCESS)
}

/// Reads how a workspace is made. In-place, which makes none, is not offered; why it is refused is said later.
fn strategy(text: &str) -> Result<Strategy, String> {
    let making = Strategy::ALL.iter().filter(|strategy| **strategy != Strategy::InPlace);
    let making: Vec<_> = making.map(|strategy| strategy.as_str()).collect();
    text.parse().map_err(|_| format!("it is not a strategy of workspaces; one of: {}", making.join(", ")))
}
