//! Lists and shows jobs.

use std::process::ExitCode;

use waypost_core::Result;
use waypost_core::model::{JobStatus, WorkspaceStatus};
use waypost_core::op::{JobView, ListJobs, ShowJob};
use waypost_core::time::Timestamp;

use super::OneArgs;
use crate::CommandContext;
use crate::places::{PlaceColumns, describe_worktree};
use crate::spans::format_duration;
use crate::ui::{BAD, BOLD, Cell, DIM, GOOD, Style, WARN, cell, header, prose, styled};
use crate::work::parse_enum;
use waypost::app::session::Session;

/// List jobs
#[derive(clap::Args)]
pub(super) struct ListArgs {
    /// Only jobs with this status
    #[arg(long, value_parser = parse_enum::<JobStatus>)]
    status: Option<JobStatus>,
    /// Only jobs of this task
    #[arg(long)]
    task: Option<String>,
    /// Only jobs that have not ended
    #[arg(long)]
    live: bool,
    /// Maximum number of jobs
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: u32,
}

pub(super) fn list(cx: &mut CommandContext, session: &mut Session, args: &ListArgs) -> Result<ExitCode> {
    let operation = ListJobs {
        status: args.status,
        live: args.live,
        task: args.task.clone(),
        worktree_id: cx.worktree_filter(session)?,
        repository: cx.repository_filter(session)?,
        limit: Some(args.limit),
        after: None,
    };
    let jobs = session.call(operation)?.jobs;
    let now = session.now()?;
    cx.ui.answer(&jobs, |text| {
        if !jobs.is_empty() {
            let places = PlaceColumns::of(session, &jobs);
            text.table(&table_of(&jobs, now, places));
        }
    })?;
    if jobs.is_empty() {
        let is_filtered = args.status.is_some() || args.live || args.task.is_some() || cx.has_place_filter();
        let none = if is_filtered { "no matching jobs" } else { "no jobs yet" };
        cx.ui.note(&format!("{none}; to start one: way job start -- COMMAND"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the table of jobs.
fn table_of(jobs: &[JobView], now: Timestamp, places: PlaceColumns) -> Vec<Vec<Cell>> {
    let titles = header(["ID", "STATUS", "TYPE", "TASK", "AGENT", "AGE"]);
    let titles = titles.into_iter().chain(places.titles()).chain([styled(DIM, "COMMAND")]).collect();
    let rows = jobs.iter().map(|view| {
        let job = &view.job;
        let dash = || "-".to_owned();
        let status = match gone(view) {
            Some(_) => format!("{}, workspace gone", job.status),
            None => job.status.to_string(),
        };
        let cells = [
            cell(&job.id),
            styled(style(job.status), status),
            cell(&job.kind),
            cell(view.task.clone().unwrap_or_else(dash)),
            cell(view.agent.clone().unwrap_or_else(dash)),
            styled(DIM, job.created_at.ago(now)),
        ];
        cells.into_iter().chain(places.cells(view)).chain([prose(job.command.join(" "))]).collect()
    });
    std::iter::once(titles).chain(rows).collect()
}

/// Describes why the directory of a job's workspace is gone, if it is.
fn gone(view: &JobView) -> Option<&'static str> {
    match view.workspace_status? {
        WorkspaceStatus::Creating | WorkspaceStatus::Active | WorkspaceStatus::Kept => None,
        WorkspaceStatus::Snapshotted => Some("removed, its work is saved in a snapshot"),
        WorkspaceStatus::Removed => Some("removed"),
        WorkspaceStatus::Lost => Some("lost, its directory is missing"),
    }
}

fn style(status: JobStatus) -> Style {
    match status {
        JobStatus::Running | JobStatus::Completed => GOOD,
        JobStatus::Failed => BAD,
        JobStatus::Pending | JobStatus::Cancelled | JobStatus::Interrupted => WARN,
    }
}

/// Adds a note in parentheses.
fn with_note(text: String, note: Option<&str>) -> String {
    match note {
        Some(note) => format!("{text} ({note})"),
        None => text,
    }
}

pub(super) fn show(cx: &mut CommandContext, session: &mut Session, args: &OneArgs) -> Result<ExitCode> {
    let view = session.call(ShowJob { job: args.job.clone() })?;
    let now = session.now()?;
    cx.ui.answer(&view, |text| {
        let job = &view.job;
        let field = |label: &str, value: Cell| vec![styled(BOLD, label), value];
        let mut rows = vec![
            field("job", cell(&job.id)),
            field("status", styled(style(job.status), job.status)),
            field("type", cell(&job.kind)),
            field("command", cell(job.command.join(" "))),
            field("repository", cell(&view.repository)),
            field("created", cell(job.created_at.ago(now))),
        ];
        let path = |path: &Option<std::path::PathBuf>| path.as_ref().map(|path| path.display().to_string());
        let ran = job.started_at.map(|started| format_duration(job.finished_at.unwrap_or(now).since(started)));
        let further = [
            ("description", Some(job.description.clone()).filter(|text| !text.is_empty())),
            ("task", view.task.clone()),
            ("agent", view.agent.clone()),
            ("machine", job.machine.clone()),
            ("ran for", ran),
            ("exit code", job.exit_code.map(|code| code.to_string())),
            ("error", job.error.clone()),
            ("worktree", describe_worktree(&view)),
            ("workspace", job.workspace_id.as_ref().map(|id| with_note(id.to_string(), gone(&view)))),
            ("started from", job.started_from.clone()),
            ("result", job.result.clone()),
            ("directory", path(&job.workspace_dir).map(|path| with_note(path, gone(&view).map(|_| "gone")))),
            ("context", path(&job.context_dir)),
            ("log", path(&job.log)),
            ("tokens", job.tokens.map(|tokens| tokens.to_string())),
            ("cost", job.cost.map(|cost| cost.to_string())),
            ("retry of", job.retry_of.as_ref().map(ToString::to_string)),
            ("output", job.output.as_ref().and_then(|output| output.lines().last().map(str::to_owned))),
        ];
        rows.extend(further.into_iter().filter_map(|(label, value)| Some(field(label, cell(value?)))));
        rows.extend(job.warnings.iter().map(|warning| field("warning", styled(WARN, warning))));
        for phase in &job.phases {
            let detail = phase.detail.as_ref().map_or_else(String::new, |detail| format!(": {detail}"));
            rows.push(field("phase", cell(format!("{}{detail}, {}", phase.name, phase.at.ago(now)))));
        }
        text.table(&rows);
    })?;
    Ok(ExitCode::SUCCESS)
}
