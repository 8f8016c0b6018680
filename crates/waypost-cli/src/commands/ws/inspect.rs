//! Lists, shows and measures workspaces.

use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::json;
use waypost_core::model::WorkspaceStatus;
use waypost_core::op::{ListWorkspaces, WorkspaceView};
use waypost_core::time::Timestamp;
use waypost_core::words::count;
use waypost_core::{Error, Result, path_text};

use crate::CommandContext;
use crate::places::{PlaceColumns, describe_worktree};
use crate::ui::{BAD, BOLD, Cell, DIM, GOOD, Style, WARN, cell, cell_keeping_end, header, number, styled};
use waypost::app::session::Session;
use waypost::machine::bytes;
use waypost::ops::ShowDiff;
use waypost::work::workspaces::{self, Examined, UserWorkspaces};

/// List workspaces
#[derive(clap::Args)]
pub(super) struct ListArgs {
    /// Include removed workspaces, and your workspaces of other stores and of deleted repositories
    #[arg(long)]
    all: bool,
    /// Include workspaces of other machines
    #[arg(long)]
    everywhere: bool,
}

impl ListArgs {
    /// Returns whether it lists all workspaces of the user.
    pub(super) fn is_of_user(&self) -> bool {
        self.all
    }
}

/// Show the changes in a workspace since the commit it started from, committed or not
#[derive(clap::Args)]
pub(super) struct DiffArgs {
    /// Workspace: an id or its prefix, or a job
    workspace: String,
    /// Maximum size in bytes [default: 262144]
    #[arg(long, value_name = "BYTES")]
    max_bytes: Option<u64>,
}

/// Show the workspace and the job of a path
#[derive(clap::Args)]
pub(super) struct WhoseArgs {
    /// Path in a workspace
    path: PathBuf,
}

#[derive(clap::Args)]
pub(super) struct DuArgs {
    /// Workspace to measure [default: all]
    workspace: Option<String>,
    /// Include your workspaces of other stores and of deleted repositories
    #[arg(long, conflicts_with = "workspace")]
    all: bool,
}

impl DuArgs {
    /// Returns whether it may measure workspaces that the store does not have.
    pub(super) fn is_of_user(&self) -> bool {
        self.all || self.workspace.is_some()
    }
}

pub(super) fn diff(cx: &mut CommandContext, session: &mut Session, args: &DiffArgs) -> Result<ExitCode> {
    let operation = ShowDiff { workspace: args.workspace.clone(), max_bytes: args.max_bytes };
    let is_asked = workspaces::is_at_server(session, &args.workspace)?;
    let found = if is_asked { session.ask(&operation)? } else { session.call_app(operation)? };
    cx.ui.answer(&found, |text| {
        found.diff.lines().for_each(|line| text.line(line));
        if found.is_cut {
            text.line("The diff is longer: --max-bytes shows more of it.");
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn list(cx: &mut CommandContext, session: &mut Session, args: &ListArgs) -> Result<ExitCode> {
    let all = in_store(cx, session, args)?;
    let now = session.now()?;
    cx.ui.answer(&all, |text| {
        if !all.is_empty() {
            let places = PlaceColumns::of(session, &all);
            text.table(&table_of(&all, now, places));
            text.line(total_of(&all));
        }
    })?;
    if all.is_empty() {
        cx.ui.note("no workspaces; to run a job in one: way job start -- COMMAND");
    }
    Ok(ExitCode::SUCCESS)
}

/// Lists the workspaces that the caller's store has.
fn in_store(cx: &mut CommandContext, session: &mut Session, args: &ListArgs) -> Result<Vec<WorkspaceView>> {
    let machine = if args.everywhere { None } else { Some(workspaces::machine(session)?) };
    let operation = ListWorkspaces {
        machine,
        all: args.all,
        worktree_id: cx.worktree_filter(session)?,
        repository: cx.repository_filter(session)?,
        limit: Some(u32::MAX),
        after: None,
    };
    Ok(session.call(operation)?.workspaces)
}

/// Lists all workspaces of the user: those that the caller's store has, and those that only the register knows.
pub(super) fn list_all(
    cx: &mut CommandContext,
    workspaces: &mut UserWorkspaces<'_>,
    args: &ListArgs,
) -> Result<ExitCode> {
    let own = workspaces.session().map(|session| in_store(cx, session, args)).transpose()?.unwrap_or_default();
    // A filter names a worktree or a repository of the caller's store.
    let others = if cx.has_place_filter() { Vec::new() } else { workspaces.elsewhere(false)? };
    let now = workspaces.now()?;
    let mut places = workspaces.session().map_or_else(PlaceColumns::default, |session| PlaceColumns::of(session, &own));
    if !others.is_empty() {
        places = places.with_repository();
    }
    let data: Vec<_> = own.iter().map(|view| json!(view)).chain(others.iter().map(|one| json!(one))).collect();
    let all: Vec<_> = own.into_iter().chain(others.iter().map(|one| one.view.clone())).collect();
    cx.ui.answer(&data, |text| {
        if !all.is_empty() {
            text.table(&table_of(&all, now, places));
            text.line(total_of(&all));
        }
        for one in &others {
            if let Some(why) = &one.unrecorded {
                text.line(format!("{}: {why}", one.view.workspace.id));
            }
        }
    })?;
    if all.is_empty() {
        cx.ui.note("no workspaces; to run a job in one: way job start -- COMMAND");
    }
    Ok(ExitCode::SUCCESS)
}

fn total_of(all: &[WorkspaceView]) -> String {
    let total: u64 = all.iter().filter_map(|seen| seen.workspace.size).sum();
    format!("{}, {} as last measured", count(all.len(), "workspace"), bytes::humanize(total))
}

fn table_of(all: &[WorkspaceView], now: Timestamp, places: PlaceColumns) -> Vec<Vec<Cell>> {
    // Most workspaces belong to jobs without a task, and a path needs the space.
    let has_task = all.iter().any(|seen| seen.task.is_some());
    let titles = header(["ID", "STATUS", "JOB"]).into_iter();
    let titles = titles.chain(has_task.then(|| styled(DIM, "TASK"))).chain(header(["STRATEGY", "SIZE", "USED"]));
    let titles = titles.into_iter().chain(places.titles()).chain([styled(DIM, "PATH")]).collect();
    let rows = all.iter().map(|seen| {
        let workspace = &seen.workspace;
        let status = match (workspaces::is_pooled(workspace), workspace.is_pinned) {
            (true, _) => "pool".to_owned(),
            (false, true) => format!("{}, pinned", workspace.status),
            (false, false) => workspace.status.to_string(),
        };
        let dash = || "-".to_owned();
        let first = [
            cell(&workspace.id),
            styled(style(workspace.status), status),
            cell(workspace.job_id.as_ref().map_or_else(dash, ToString::to_string)),
        ];
        let task = has_task.then(|| cell(seen.task.clone().unwrap_or_else(dash)));
        let cells = [
            cell(workspace.strategy),
            number(workspace.size.map_or_else(dash, bytes::humanize)),
            styled(DIM, workspace.updated_at.ago(now)),
        ];
        let path = cell_keeping_end(workspace.path.display());
        first.into_iter().chain(task).chain(cells).chain(places.cells(seen)).chain([path]).collect()
    });
    std::iter::once(titles).chain(rows).collect()
}

fn style(status: WorkspaceStatus) -> Style {
    match status {
        WorkspaceStatus::Active => GOOD,
        WorkspaceStatus::Creating => WARN,
        WorkspaceStatus::Lost => BAD,
        WorkspaceStatus::Kept => Style::new(),
        WorkspaceStatus::Snapshotted | WorkspaceStatus::Removed => DIM,
    }
}

pub(super) fn show(cx: &mut CommandContext, workspaces: &mut UserWorkspaces<'_>, reference: &str) -> Result<ExitCode> {
    let found = workspaces.find(reference)?;
    let seen = &found.view;
    let examined = match seen.workspace.status {
        WorkspaceStatus::Kept => match workspaces::examine(&seen.workspace) {
            // The reason is shown: nothing else is left to ask.
            Err(error) if found.is_orphaned() => Some(Examined::unreadable(&error)),
            examined => Some(examined?),
        },
        _ => None,
    };
    let data = json!({ "workspace": found, "findings": examined });
    let now = workspaces.now()?;
    cx.ui.answer(&data, |text| {
        let workspace = &seen.workspace;
        let field = |label: &str, value: Cell| vec![styled(BOLD, label), value];
        let mut rows = vec![
            field("workspace", cell(&workspace.id)),
            field("status", styled(style(workspace.status), workspace.status)),
            field("repository", cell(&seen.repository)),
            field("path", cell(workspace.path.display())),
            field("strategy", cell(workspace.strategy)),
            field("used", cell(workspace.updated_at.ago(now))),
            field("machine", cell(&workspace.machine)),
        ];
        let job = seen.workspace.job_id.as_ref().map(ToString::to_string);
        let known = seen.job_status.map_or_else(String::new, |status| format!(", {status}"));
        let further = [
            ("job", job.map(|job| format!("{job}{known}"))),
            ("task", seen.task.clone()),
            ("worktree", describe_worktree(seen)),
            ("branch", workspace.branch.clone()),
            ("base", workspace.base.clone()),
            ("size", workspace.size.map(bytes::humanize)),
            ("snapshot", workspace.snapshot.clone()),
            ("pull request", workspace.pr_url.clone()),
            ("merged as", workspace.merge_commit.clone()),
            ("note", workspace.note.clone()),
            ("pinned", workspace.is_pinned.then(|| "yes".to_owned())),
            ("store", found.store.clone()),
            ("unrecorded", found.unrecorded.clone()),
        ];
        rows.extend(further.into_iter().filter_map(|(label, value)| Some(field(label, cell(value?)))));
        for objection in examined.iter().flat_map(|examined| &examined.objections) {
            rows.push(field("has", styled(WARN, objection)));
        }
        text.table(&rows);
    })?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn whose(
    cx: &mut CommandContext,
    workspaces: &mut UserWorkspaces<'_>,
    args: &WhoseArgs,
) -> Result<ExitCode> {
    let Some(found) = workspaces.containing(&args.path)? else {
        return Err(Error::not_found(format!("{} is not in a known workspace", args.path.display())));
    };
    cx.ui.answer(&found, |text| {
        let (seen, workspace) = (&found.view, &found.view.workspace);
        let job = workspace.job_id.as_ref().map_or_else(|| "no job".to_owned(), |job| format!("job {job}"));
        let task = seen.task.as_ref().map_or_else(String::new, |task| format!(", task {task}"));
        text.line(format!("{} of {job}{task}, {}", workspace.id, workspace.status));
    })?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn du(cx: &mut CommandContext, workspaces: &mut UserWorkspaces<'_>, args: &DuArgs) -> Result<ExitCode> {
    let mut all = match &args.workspace {
        Some(one) => vec![workspaces.find(one)?],
        None => workspaces.of_caller()?,
    };
    if args.all {
        all.extend(workspaces.elsewhere(false)?);
    }
    let busy = cx.ui.busy("Measuring workspaces");
    let mut measured = Vec::new();
    for one in all.into_iter().filter(|one| one.view.workspace.status.is_live()) {
        let size = workspaces.measure(&one)?;
        measured.push((one.view.workspace, size));
    }
    drop(busy);
    measured.sort_by_key(|(_, size)| std::cmp::Reverse(*size));
    let total: u64 = measured.iter().map(|(_, size)| size).sum();
    let each: Vec<_> = measured
        .iter()
        .map(|(workspace, size)| json!({ "id": workspace.id, "path": path_text::to_text(&workspace.path), "bytes": size }))
        .collect();
    cx.ui.answer(&json!({ "workspaces": each, "bytes": total }), |text| {
        let row = |size: u64, name: Cell, path: Cell| vec![number(bytes::humanize(size)), name, path];
        let rows = measured
            .iter()
            .map(|(workspace, size)| row(*size, cell(&workspace.id), cell_keeping_end(workspace.path.display())));
        text.list(header(["SIZE", "ID", "PATH"]), rows.chain([row(total, styled(BOLD, "total"), cell(""))]));
    })?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn pool(cx: &mut CommandContext, session: &Session) -> Result<ExitCode> {
    let slots = workspaces::pool(session)?;
    cx.ui.answer(&slots, |text| {
        let rows = slots.iter().map(|slot| {
            let state = slot.living.first().map_or_else(
                || styled(GOOD, "ready"),
                |process| styled(WARN, format!("in use by process {}", process.id)),
            );
            let base = slot.plan.base.as_deref().unwrap_or("-");
            vec![cell(&slot.plan.name), state, styled(DIM, base), cell_keeping_end(slot.plan.workspace.display())]
        });
        text.list(header(["NAME", "STATE", "BASE", "PATH"]), rows);
    })?;
    if slots.is_empty() {
        cx.ui.note("the pool is empty; to fill it: way ws warm N");
    }
    Ok(ExitCode::SUCCESS)
}
