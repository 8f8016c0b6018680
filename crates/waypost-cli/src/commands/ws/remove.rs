//! Removes workspaces, and pins them against removal.

use std::process::ExitCode;

use serde_json::json;
use waypost_core::Result;
use waypost_core::model::WorkspaceStatus;
use waypost_core::words::count;

use super::parse_bytes;
use crate::CommandContext;
use crate::spans::parse_duration;
use crate::ui::{DIM, GOOD, WARN, cell, cell_keeping_end, header, prose, styled};
use waypost::ops::RemoveWorkspace;
use waypost::work::workspaces::{self, Examined, Force, Reach, Rules, UserWorkspaces};

/// Remove a workspace
///
/// Refuses if a job is running in the workspace, if it is pinned, or if it has uncommitted files or commits that are on
/// no remote.
#[derive(clap::Args)]
pub(super) struct RmArgs {
    /// Workspace: an id or its prefix, a job, or a path in the workspace
    #[arg(required = true)]
    workspace: Vec<String>,
    /// Save the content of the workspace first
    #[arg(long, conflicts_with = "discard")]
    force: bool,
    /// Remove the workspace without saving the work in it
    #[arg(long)]
    discard: bool,
    /// Show the workspaces that would be removed, without removing them
    #[arg(long)]
    dry_run: bool,
}

/// Remove workspaces by age, number or size
///
/// Without options the configuration applies: workspaces.keep_for, workspaces.keep_count, workspaces.total. Keeps
/// workspaces that are in use, are pinned, or have work that exists nowhere else. Also repacks the mirrors that
/// workspaces borrow objects from. With --all, the work of a workspace whose store is gone is saved before it is removed:
/// way ws snapshots --all lists it.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way ws gc --dry-run
  way ws gc --older-than 3d
  way ws gc --all                    from anywhere, also for deleted repositories
  way ws gc --keep 20 --max-bytes 10GB")]
pub(super) struct GcArgs {
    /// Remove workspaces that have been idle for this long, e.g. 7d
    #[arg(long, value_name = "SPAN", value_parser = parse_duration)]
    older_than: Option<u64>,
    /// Remove the oldest workspaces until this many are left
    #[arg(long, value_name = "N")]
    keep: Option<usize>,
    /// Remove the oldest workspaces until their total size is at most this
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    max_bytes: Option<u64>,
    /// Include your workspaces of other stores and of deleted repositories; the work of those is saved first
    #[arg(long)]
    all: bool,
    /// Show the workspaces that would be removed, without removing them
    #[arg(long)]
    dry_run: bool,
}

impl GcArgs {
    /// Returns whether it collects all workspaces of the user.
    pub(super) fn is_of_user(&self) -> bool {
        self.all
    }
}

pub(super) fn pin(
    cx: &mut CommandContext,
    workspaces: &mut UserWorkspaces<'_>,
    reference: &str,
    pinned: bool,
) -> Result<ExitCode> {
    let found = workspaces.find(reference)?;
    let workspace =
        workspaces.with_records(&found, |records| workspaces::pin(records, &found.view.workspace, pinned))?;
    cx.ui.answer(&workspace, |text| {
        text.line(format!("{} workspace {}", if pinned { "Pinned" } else { "Unpinned" }, workspace.id));
    })?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn rm(cx: &mut CommandContext, workspaces: &mut UserWorkspaces<'_>, args: &RmArgs) -> Result<ExitCode> {
    let force = match (args.force, args.discard) {
        (_, true) => Force::Discard,
        (true, false) => Force::Save,
        (false, false) => Force::No,
    };
    let (mut targets, mut asked) = (Vec::new(), Vec::new());
    for reference in &args.workspace {
        if !args.dry_run
            && let Some(session) = workspaces.session()
            && workspaces::is_at_server(session, reference)?
        {
            asked.push(reference);
        } else {
            targets.push(workspaces.find(reference)?);
        }
    }
    if args.dry_run {
        let mut verdicts = Vec::new();
        for target in &targets {
            let workspace = &target.view.workspace;
            let examined = match workspaces::examine(workspace) {
                Err(error) if force != Force::No => Examined::unreadable(&error),
                examined => examined?,
            };
            let is_free = !workspace.is_pinned
                && workspace.status == WorkspaceStatus::Kept
                && examined.findings.living.is_empty();
            let goes = match force {
                _ if examined.objections.is_empty() => true,
                Force::No => false,
                Force::Save => is_free && examined.findings.unsaved().is_empty(),
                Force::Discard => is_free,
            };
            verdicts.push(json!({ "workspace": workspace.id, "goes": goes, "objections": examined.objections }));
        }
        cx.ui.answer(&verdicts, |text| {
            for (target, verdict) in targets.iter().zip(&verdicts) {
                let workspace = &target.view.workspace;
                let objections: Vec<_> =
                    verdict["objections"].as_array().into_iter().flatten().filter_map(|one| one.as_str()).collect();
                text.line(match (verdict["goes"] == true, objections.is_empty()) {
                    (true, true) => format!("Would remove workspace {}", workspace.id),
                    (true, false) => {
                        format!("Would remove workspace {}, which has {}", workspace.id, objections.join(", "))
                    }
                    _ => format!("Would keep workspace {}: {}", workspace.id, objections.join(", ")),
                });
            }
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut removed = Vec::new();
    let busy = cx.ui.busy("Removing workspaces");
    for target in &targets {
        let workspace = &target.view.workspace;
        removed.push(workspaces.with_records(target, |records| workspaces::remove(records, workspace, force))?);
    }
    for reference in asked {
        let Some(session) = workspaces.session() else { break };
        removed.push(session.ask(&RemoveWorkspace {
            workspace: reference.clone(),
            force: args.force,
            discard: args.discard,
        })?);
    }
    drop(busy);
    cx.ui.answer(&removed, |text| {
        for one in &removed {
            text.line(format!("Removed workspace {} at {}", one.workspace.id, one.workspace.path.display()));
            if let (Some(saved), Some(restored)) = (&one.saved_as, &one.restored_by) {
                text.line(format!("Its work is saved as {saved}. To restore it: {restored}"));
            }
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn gc(cx: &mut CommandContext, workspaces: &mut UserWorkspaces<'_>, args: &GcArgs) -> Result<ExitCode> {
    let given = Rules { older_than: args.older_than, keep: args.keep, max_bytes: args.max_bytes };
    let has_rule = given.older_than.is_some() || given.keep.is_some() || given.max_bytes.is_some();
    let rules = if has_rule { given } else { workspaces::default_rules(workspaces.place())? };
    let now = workspaces.now()?;
    let reach = if args.all { Reach::User } else { Reach::Store };
    let busy = cx.ui.busy(if args.dry_run { "Examining workspaces" } else { "Removing workspaces" });
    let verdicts = workspaces::judge(workspaces, reach, &rules, now)?;
    let mut failed = Vec::new();
    let mut freed = 0;
    if !args.dry_run {
        for removed in workspaces::collect(workspaces, &verdicts)? {
            match removed {
                Ok(removed) => freed += removed.freed.unwrap_or_default(),
                Err(error) => failed.push(error.full_message()),
            }
        }
    }
    let packed = if args.dry_run { Vec::new() } else { workspaces::upkeep(workspaces)? };
    drop(busy);
    for failure in &failed {
        cx.ui.warn(failure);
    }
    let going = verdicts.iter().filter(|verdict| verdict.goes).count();
    let data = json!({ "dry_run": args.dry_run, "verdicts": verdicts, "freed": freed, "packed": packed });
    cx.ui.answer(&data, |text| {
        let rows = verdicts.iter().map(|verdict| {
            let action = match (verdict.goes, args.dry_run) {
                (true, true) => styled(WARN, "would remove"),
                (true, false) => styled(GOOD, "removed"),
                (false, true) => styled(DIM, "would keep"),
                (false, false) => styled(DIM, "kept"),
            };
            let path = cell_keeping_end(verdict.workspace.path.display());
            vec![cell(&verdict.workspace.id), action, prose(&verdict.why), path]
        });
        text.list(header(["ID", "ACTION", "REASON", "PATH"]), rows);
        let verb = if args.dry_run { "Would remove" } else { "Removed" };
        text.line(format!("{verb} {}", count(going - failed.len().min(going), "workspace")));
        for one in &packed {
            text.line(format!(
                "Packed {}: {} instead of {}",
                one.mirror.display(),
                count(one.after, "pack"),
                one.before
            ));
        }
    })?;
    Ok(ExitCode::SUCCESS)
}
