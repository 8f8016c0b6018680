//! Saving what is in workspaces, and getting it back.

use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::json;
use waypost_core::{Result, path_text};
use waypost_workspace::workspaces::{Name, Snapshot};

use crate::CommandContext;
use crate::ui::{DIM, cell, styled};
use waypost::session::Session;
use waypost::workspaces::{self, WorkspaceRequest};

/// Get back what was saved: in a new workspace, or in one that is there
#[derive(clap::Args)]
pub(super) struct RestoreArgs {
    /// What it was saved as
    snapshot: String,
    /// Restore into this workspace; what is in it is saved first
    #[arg(long, value_name = "WORKSPACE")]
    into: Option<String>,
}

/// Write what was saved into one file, which git can clone and fetch from
#[derive(clap::Args)]
pub(super) struct ExportArgs {
    /// What it was saved as
    snapshot: String,
    /// The file to write
    file: PathBuf,
}

pub(super) fn snapshot(cx: &mut CommandContext, session: &mut Session, reference: &str) -> Result<ExitCode> {
    let workspace = workspaces::find(session, reference)?.workspace;
    let saved = workspaces::snapshot(session, &workspace)?;
    for path in &saved.left_out {
        cx.ui.warn(&format!("{path} was left out: it is another repository, or no file"));
    }
    cx.ui.answer(&saved, |text| {
        text.line(format!("Saved workspace {} as {}", workspace.id, saved.id));
    })?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn snapshots(cx: &mut CommandContext, session: &Session) -> Result<ExitCode> {
    let all = workspaces::snapshots(session)?;
    cx.ui.answer(&all, |text| {
        let place = |one: &Snapshot| match (&one.commit, &one.path) {
            (Some(commit), _) => commit.clone(),
            (None, Some(path)) => path.display().to_string(),
            (None, None) => String::new(),
        };
        let rows: Vec<_> = all
            .iter()
            .map(|one| {
                vec![cell(&one.id), cell(one.strategy), styled(DIM, place(one)), styled(DIM, one.refs.join(" "))]
            })
            .collect();
        text.table(&rows);
    })?;
    if all.is_empty() {
        cx.ui.note("nothing was saved");
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn restore(cx: &mut CommandContext, session: &mut Session, args: &RestoreArgs) -> Result<ExitCode> {
    let name = Name::try_from(args.snapshot.clone())?;
    let workspace = if let Some(into) = &args.into {
        workspaces::find(session, into)?.workspace
    } else {
        let saved = workspaces::find_snapshot(session, &name)?;
        // The commit may be nowhere but in the snapshot, so it starts from what is here.
        let wanted = WorkspaceRequest { strategy: Some(saved.strategy), ..WorkspaceRequest::default() };
        workspaces::create(session, &wanted, &mut |step| cx.ui.note(step))?.workspace
    };
    let restored = workspaces::restore(&workspace, &name, args.into.is_none())?;
    cx.ui.answer(&json!({ "workspace": workspace, "restored": restored }), |text| {
        text.line(format!("Restored {name} in workspace {} at {}", workspace.id, workspace.path.display()));
        if let Some(before) = &restored.before {
            text.line(format!("What was there before is saved as {}", before.id));
        }
        for name in &restored.left_alone {
            text.line(format!("There is {name} already, so it was left alone"));
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn export(cx: &mut CommandContext, session: &Session, args: &ExportArgs) -> Result<ExitCode> {
    let name = Name::try_from(args.snapshot.clone())?;
    workspaces::export(session, &name, &args.file)?;
    cx.ui.answer(&json!({ "snapshot": name, "file": path_text::to_text(&args.file) }), |text| {
        text.line(format!("Wrote {name} to {}", args.file.display()));
    })?;
    Ok(ExitCode::SUCCESS)
}
