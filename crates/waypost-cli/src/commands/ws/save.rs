//! Saves snapshots of workspaces, restores and exports them.

use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::json;
use waypost_core::{Result, path_text};
use waypost_workspace::workspaces::Name;

use crate::CommandContext;
use crate::ui::{DIM, cell, cell_keeping_end, header, number, styled};
use waypost::app::session::Session;
use waypost::machine::bytes;
use waypost::machine::place::Place;
use waypost::ops::SnapshotWorkspace;
use waypost::work::workspaces::{self, UserWorkspaces, WorkspaceRequest};

/// List everything that was saved of this repository, or delete some of it
///
/// Lists the snapshots of workspaces, which are kept in ~/.waypost/saved, and the work that way worktree rm --force saved in
/// the repository itself.
#[derive(clap::Args)]
pub(super) struct SnapshotsArgs {
    /// Snapshot to delete; may be given repeatedly
    #[arg(long, value_name = "SNAPSHOT")]
    remove: Vec<String>,
    /// List everything that was saved of your workspaces, whatever their repository
    #[arg(long, conflicts_with = "remove")]
    all: bool,
}

impl SnapshotsArgs {
    /// Returns whether it is about snapshots of any repository.
    pub(super) fn is_of_user(&self) -> bool {
        self.all || !self.remove.is_empty()
    }
}

/// Restore a snapshot, in a new workspace or an existing one
#[derive(clap::Args)]
pub(super) struct RestoreArgs {
    /// Name of the snapshot
    snapshot: String,
    /// Workspace to restore into; its content is saved first
    #[arg(long, value_name = "WORKSPACE")]
    into: Option<String>,
}

/// Export a snapshot to a file that git can clone and fetch from
#[derive(clap::Args)]
pub(super) struct ExportArgs {
    /// Name of the snapshot
    snapshot: String,
    /// File to write
    file: PathBuf,
}

pub(super) fn snapshot(
    cx: &mut CommandContext,
    workspaces: &mut UserWorkspaces<'_>,
    reference: &str,
) -> Result<ExitCode> {
    if let Some(session) = workspaces.session()
        && workspaces::is_at_server(session, reference)?
    {
        let saved = session.ask(&SnapshotWorkspace { workspace: reference.to_owned() })?;
        warn_of(cx, &saved.left_out);
        cx.ui.answer(&saved, |text| text.line(format!("Saved workspace {reference} as {}", saved.id)))?;
        return Ok(ExitCode::SUCCESS);
    }
    let found = workspaces.find(reference)?;
    let workspace = &found.view.workspace;
    let saved = workspaces.with_records(&found, |records| workspaces::snapshot(records, workspace))?;
    warn_of(cx, &saved.left_out);
    cx.ui.answer(&saved, |text| {
        text.line(format!("Saved workspace {} as {}", workspace.id, saved.id));
    })?;
    Ok(ExitCode::SUCCESS)
}

fn warn_of(cx: &mut CommandContext, left_out: &[String]) {
    for path in left_out {
        cx.ui.warn(&format!("{path} is not saved: it is another repository, or not a regular file"));
    }
}

pub(super) fn snapshots(
    cx: &mut CommandContext,
    workspaces: &mut UserWorkspaces<'_>,
    args: &SnapshotsArgs,
) -> Result<ExitCode> {
    let place = workspaces.place();
    if !args.remove.is_empty() {
        let names = args.remove.iter().map(|name| Name::try_from(name.clone())).collect::<Result<Vec<_>>>()?;
        // All or nothing, as far as the names are concerned.
        names.iter().try_for_each(|name| workspaces::find_snapshot(place, name).map(drop))?;
        let mut removed = Vec::new();
        for name in &names {
            removed.push(workspaces::remove_snapshot(place, name)?);
        }
        cx.ui.answer(&removed, |text| {
            for one in &removed {
                text.line(format!("Deleted snapshot {}", one.id));
            }
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    let all = if args.all { workspaces::all_snapshots(place)? } else { workspaces::snapshots(place)? };
    let now = workspaces.now()?;
    cx.ui.answer(&all, |text| {
        let titles = header(["ID", "SAVED", "SIZE", "ORIGIN", "KEPT IN", "REFS"]);
        let rows = all.iter().map(|one| {
            let saved = one.time.map_or_else(|| "-".to_owned(), |time| time.ago(now));
            vec![
                cell(&one.id),
                cell(saved),
                number(one.size.map_or_else(|| "-".to_owned(), bytes::humanize)),
                cell(one.origin.as_deref().unwrap_or("-")),
                cell_keeping_end(one.kept_in.as_ref().map(|path| path.display().to_string()).unwrap_or_default()),
                styled(DIM, one.refs.join(" ")).cuttable(),
            ]
        });
        text.list(titles, rows);
    })?;
    if all.is_empty() {
        cx.ui.note("no snapshots yet; to save a workspace: way ws snapshot WORKSPACE");
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn restore(cx: &mut CommandContext, session: &mut Session, args: &RestoreArgs) -> Result<ExitCode> {
    let name = Name::try_from(args.snapshot.clone())?;
    let workspace = if let Some(into) = &args.into {
        workspaces::find(session, into)?.workspace
    } else {
        let saved = workspaces::find_snapshot(&session.place, &name)?;
        // The snapshot's commit may exist only in the snapshot, so the new workspace starts from the current commit.
        let request = WorkspaceRequest { strategy: Some(saved.strategy), ..WorkspaceRequest::default() };
        let _busy = cx.ui.busy("Creating the workspace");
        workspaces::create(session, &request, &mut |step| cx.ui.note(step))?.workspace
    };
    let restored = workspaces::restore(&workspace, &name, args.into.is_none())?;
    cx.ui.answer(&json!({ "workspace": workspace, "restored": restored }), |text| {
        text.line(format!("Restored {name} in workspace {} at {}", workspace.id, workspace.path.display()));
        if let Some(before) = &restored.before {
            text.line(format!("The previous content is saved as {}", before.id));
        }
        for name in &restored.left_alone {
            text.line(format!("Kept the existing {name}"));
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn export(cx: &mut CommandContext, place: &Place, args: &ExportArgs) -> Result<ExitCode> {
    let name = Name::try_from(args.snapshot.clone())?;
    workspaces::export(place, &name, &args.file)?;
    cx.ui.answer(&json!({ "snapshot": name, "file": path_text::to_text(&args.file) }), |text| {
        text.line(format!("Wrote {name} to {}", args.file.display()));
    })?;
    Ok(ExitCode::SUCCESS)
}
