//! Delivers the work of workspaces, and checks whether it is merged.

use std::process::ExitCode;

use serde_json::json;
use waypost_core::Result;
use waypost_core::op::{RecordMerge, WorkspaceView};
use waypost_workspace::workspaces::Merged;

use crate::CommandContext;
use crate::ui::{BAD, DIM, GOOD, WARN, cell, header, styled};
use waypost::app::session::Session;
use waypost::ops::DeliverWorkspace;
use waypost::work::jobs;
use waypost::work::workspaces;

/// Push the work of a workspace to the repository's remote
///
/// Without a remote, brings the branch into the source repository, as way ws land does.
#[derive(clap::Args)]
pub(super) struct PushArgs {
    /// Workspace: an id or its prefix, a job, or a path in the workspace
    workspace: String,
    #[command(flatten)]
    how: DeliveryArgs,
}

/// Bring the work of a workspace into the source repository, as a branch
///
/// Creates the branch there or fast-forwards it; merge it as you like. The checkout does not change. Once the branch is
/// merged, way ws gc may remove the workspace.
#[derive(clap::Args)]
pub(super) struct LandArgs {
    /// Workspace: an id or its prefix, a job, or a path in the workspace
    workspace: String,
    /// Branch to create [default: the workspace's branch]
    #[arg(long)]
    branch: Option<String>,
    /// Commit all uncommitted changes first, with this message
    #[arg(long, value_name = "MESSAGE")]
    commit: Option<String>,
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
    /// Bring the branch into the source repository, even if there is a remote
    #[arg(long, conflicts_with = "pr")]
    local: bool,
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
    deliver(cx, session, &args.workspace, &args.how)
}

pub(super) fn land(cx: &mut CommandContext, session: &mut Session, args: &LandArgs) -> Result<ExitCode> {
    let how = DeliveryArgs { branch: args.branch.clone(), commit: args.commit.clone(), local: true, pr: false };
    deliver(cx, session, &args.workspace, &how)
}

/// Commits and delivers; opens a pull request if the user asked for one.
pub(crate) fn deliver(
    cx: &mut CommandContext,
    session: &mut Session,
    reference: &str,
    how: &DeliveryArgs,
) -> Result<ExitCode> {
    let is_asked = workspaces::is_at_server(session, reference)?;
    let delivered = if is_asked {
        session.ask(&DeliverWorkspace {
            workspace: reference.to_owned(),
            branch: how.branch.clone(),
            commit: how.commit.clone(),
            local: how.local,
        })?
    } else {
        let workspace = workspaces::find(session, reference)?.workspace;
        workspaces::deliver(session, &workspace, how.branch.as_deref(), how.commit.as_deref(), how.local)?
    };
    let mut url = None;
    if how.pr && delivered.landed_in.is_some() {
        cx.ui.warn("there is no remote, so there is no pull request");
    } else if how.pr && is_asked {
        cx.ui.warn("the server opens no pull request");
    } else if how.pr {
        match workspaces::open_pull_request(&delivered.workspace, &delivered.branch) {
            Ok(found) => {
                workspaces::note_pull_request(session, &delivered.workspace, &found)?;
                url = Some(found);
            }
            Err(error) => cx.ui.warn(&format!("cannot open a pull request: {}", error.full_message())),
        }
    }
    let compare = delivered.remote.as_deref().and_then(|remote| compare_url(remote, &delivered.branch));
    let data = json!({ "delivered": delivered, "pull_request": url, "compare": compare });
    cx.ui.answer(&data, |text| {
        let short = &delivered.commit[..delivered.commit.len().min(12)];
        if let Some(source) = &delivered.landed_in {
            text.line(format!("Brought {short} into {} as branch {}", source, delivered.branch));
            text.line(format!("To merge it: git merge {}", delivered.branch));
        } else {
            text.line(format!("Pushed {short} to {}", delivered.branch));
        }
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
    for seen in workspaces.into_iter().filter(|seen| workspaces::is_mergeable(&seen.workspace)) {
        // A workspace that cannot be read says nothing about the others.
        let checked = match check_merged(session, &seen) {
            Err(error) if args.workspace.is_none() => {
                cx.ui.warn(&format!("workspace {}: {}", seen.workspace.id, error.full_message()));
                Err(error.full_message())
            }
            checked => Ok(checked?),
        };
        found.push((seen, checked));
    }
    if let Err(error) = workspaces::release_results(session) {
        log::debug!("cannot release the results of workflows: {}", error.full_message());
    }
    let data: Vec<_> = found
        .iter()
        .map(|(seen, checked)| {
            let (merged, workflow) =
                checked.as_ref().map_or((None, None), |(merged, name)| (Some(merged), name.clone()));
            let error = checked.as_ref().err();
            json!({ "workspace": seen.workspace.id, "merged": merged, "workflow": workflow, "error": error })
        })
        .collect();
    cx.ui.answer(&data, |text| {
        let rows = found.iter().map(|(seen, checked)| {
            let word = match checked.as_ref().map(|(merged, _)| merged) {
                Ok(Merged::Whole) => styled(GOOD, "merged"),
                Ok(Merged::Squashed) => styled(GOOD, "merged as other commits"),
                Ok(Merged::No) => styled(WARN, "not merged"),
                Ok(Merged::Nothing) => styled(DIM, "nothing to merge"),
                Err(_) => styled(BAD, "unknown"),
            };
            let workflow = checked.as_ref().ok().and_then(|(_, workflow)| workflow.as_ref());
            let done = workflow.map_or_else(String::new, |name| format!("{name} is completed"));
            vec![cell(&seen.workspace.id), word, cell(done)]
        });
        text.list(header(["ID", "STATE", "WORKFLOW"]), rows);
    })?;
    if found.is_empty() {
        cx.ui.note("no workspaces with work to merge; a job delivers its work: way job deliver JOB");
    }
    Ok(ExitCode::SUCCESS)
}

/// Checks whether the work of a workspace is merged. Returns the name of a workflow that is completed by that.
fn check_merged(session: &mut Session, seen: &WorkspaceView) -> Result<(Merged, Option<String>)> {
    let merged = workspaces::update_merged(session, &seen.workspace)?;
    let is_merged = matches!(merged, Merged::Whole | Merged::Squashed);
    Ok((merged, if is_merged { complete_workflow(session, seen)? } else { None }))
}

/// Completes the workflow that awaits the merge of a workspace. Returns its name.
fn complete_workflow(session: &mut Session, seen: &WorkspaceView) -> Result<Option<String>> {
    let Some(job) = &seen.workspace.job_id else { return Ok(None) };
    let Some(task) = jobs::show(session, job.as_str())?.job.task_id else { return Ok(None) };
    let page =
        session.call(waypost_core::op::ShowTask { task: task.to_string(), ..waypost_core::op::ShowTask::default() })?;
    let workflow = page.task.task.workflow_id.to_string();
    match session.call(RecordMerge { workflow, merged: true }) {
        Ok(done) => Ok(Some(done.workflow.name)),
        // The workflow does not await a merge, or still has unfinished tasks.
        Err(error) if error.kind() == waypost_core::Kind::Conflict => Ok(None),
        Err(error) => Err(error),
    }
}
