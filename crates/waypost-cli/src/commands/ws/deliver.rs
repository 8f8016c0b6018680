//! Delivers the work of workspaces, and checks whether it is merged.

use std::process::ExitCode;

use serde_json::json;
use waypost_core::Result;
use waypost_core::model::Workspace;
use waypost_core::op::{CompleteMerge, WorkspaceView};
use waypost_workspace::workspaces::Merged;

use crate::CommandContext;
use crate::ui::{DIM, GOOD, WARN, cell, styled};
use waypost::jobs;
use waypost::session::Session;
use waypost::workspaces;

/// Push the work of a workspace to the repository's remote
#[derive(clap::Args)]
pub(super) struct PushArgs {
    /// Workspace: an id or its prefix, a job, or a path in the workspace
    workspace: String,
    #[command(flatten)]
    how: DeliveryArgs,
}

/// The options for delivering work.
#[derive(clap::Args)]
pub(crate) struct DeliveryArgs {
    /// Branch to push to [default: the workspace's branch]
    #[arg(long)]
    branch: Option<String>,
    /// Commit all uncommitted changes first, with this message
    #[arg(long, value_name = "MESSAGE")]
    commit: Option<String>,
    /// Open a pull request with gh, if it is installed
    #[arg(long)]
    pr: bool,
}

/// Check whether the work of workspaces is merged into the default branch
#[derive(clap::Args)]
pub(super) struct MergedArgs {
    /// Workspace to check [default: all]
    workspace: Option<String>,
}

pub(super) fn push(cx: &mut CommandContext, session: &mut Session, args: &PushArgs) -> Result<ExitCode> {
    let workspace = workspaces::find(session, &args.workspace)?.workspace;
    deliver(cx, session, &workspace, &args.how)
}

/// Commits and pushes; opens a pull request if the user asked for one.
pub(crate) fn deliver(
    cx: &mut CommandContext,
    session: &mut Session,
    workspace: &Workspace,
    how: &DeliveryArgs,
) -> Result<ExitCode> {
    let delivered = workspaces::deliver(session, workspace, how.branch.as_deref(), how.commit.as_deref())?;
    let mut url = None;
    if how.pr {
        match workspaces::open_pull_request(workspace, &delivered.branch) {
            Ok(found) => {
                workspaces::note_pull_request(session, workspace, &found)?;
                url = Some(found);
            }
            Err(error) => cx.ui.warn(&format!("cannot open a pull request: {}", error.full_message())),
        }
    }
    let compare = delivered.remote.as_deref().and_then(|remote| compare_url(remote, &delivered.branch));
    let data = json!({ "delivered": delivered, "pull_request": url, "compare": compare });
    cx.ui.answer(&data, |text| {
        let short = &delivered.commit[..delivered.commit.len().min(12)];
        text.line(format!("Pushed {short} to {}", delivered.branch));
        match (&url, &compare) {
            (Some(url), _) => text.line(format!("Pull request: {url}")),
            (None, Some(compare)) => text.line(format!("To open a pull request: {compare}")),
            (None, None) => {}
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the address for opening a pull request, for remotes on GitHub.
fn compare_url(remote: &str, branch: &str) -> Option<String> {
    let path = remote
        .strip_prefix("git@github.com:")
        .or_else(|| remote.strip_prefix("ssh://git@github.com/"))
        .or_else(|| remote.split_once("github.com/").map(|(_, path)| path))?;
    Some(format!(
        "https://github.com/{}/compare/{branch}?expand=1",
        path.trim_end_matches('/').trim_end_matches(".git")
    ))
}

pub(super) fn merged(cx: &mut CommandContext, session: &mut Session, args: &MergedArgs) -> Result<ExitCode> {
    let workspaces = match &args.workspace {
        Some(one) => vec![workspaces::find(session, one)?],
        None => workspaces::list(session)?,
    };
    let mut found = Vec::new();
    for seen in
        workspaces.into_iter().filter(|seen| seen.workspace.strategy.borrows() && seen.workspace.status.is_live())
    {
        if workspaces::is_pooled(&seen.workspace) {
            continue;
        }
        let merged = workspaces::update_merged(session, &seen.workspace)?;
        let mut workflow = None;
        if matches!(merged, Merged::Whole | Merged::Squashed) {
            workflow = complete_workflow(session, &seen)?;
        }
        found.push((seen, merged, workflow));
    }
    let data: Vec<_> = found
        .iter()
        .map(|(seen, merged, workflow)| json!({ "workspace": seen.workspace.id, "merged": merged, "workflow": workflow }))
        .collect();
    cx.ui.answer(&data, |text| {
        let rows: Vec<_> = found
            .iter()
            .map(|(seen, merged, workflow)| {
                let word = match merged {
                    Merged::Whole => styled(GOOD, "merged"),
                    Merged::Squashed => styled(GOOD, "merged as other commits"),
                    Merged::No => styled(WARN, "not merged"),
                    Merged::Nothing => styled(DIM, "nothing to merge"),
                };
                let done = workflow.as_ref().map_or_else(String::new, |name| format!("workflow {name} is completed"));
                vec![cell(&seen.workspace.id), word, cell(done)]
            })
            .collect();
        text.table(&rows);
    })?;
    if found.is_empty() {
        cx.ui.note("no workspaces with work to merge");
    }
    Ok(ExitCode::SUCCESS)
}

/// Completes the workflow that awaits the merge of a workspace. Returns its name.
fn complete_workflow(session: &mut Session, seen: &WorkspaceView) -> Result<Option<String>> {
    let Some(job) = &seen.workspace.job_id else { return Ok(None) };
    let Some(task) = jobs::show(session, job.as_str())?.job.task_id else { return Ok(None) };
    let page = session.call(waypost_core::op::ShowTask { task: task.to_string(), workflow: None })?;
    let workflow = page.task.task.workflow_id.to_string();
    match session.call(CompleteMerge { workflow, merged: true }) {
        Ok(done) => Ok(Some(done.workflow.name)),
        // The workflow does not await a merge, or still has unfinished tasks.
        Err(error) if error.kind() == waypost_core::Kind::Conflict => Ok(None),
        Err(error) => Err(error),
    }
}
