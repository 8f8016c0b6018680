//! Functions that the commands about workflows and tasks share.

use std::str::FromStr;
use std::time::{Duration, Instant};

use serde_json::Value;
use waypost_core::id::WorktreeId;
use waypost_core::model::{EventQuery, TaskStatus, WorkflowStatus};
use waypost_core::op::ListEvents;
use waypost_core::work::attention::GroupKind;
use waypost_core::work::context::Context;
use waypost_core::work::view::{TaskView, WorkflowView};
use waypost_core::{Error, Result};

use super::issues::{file_or_stdin, text_or_stdin};
use super::places::PlaceColumns;
pub(crate) use super::spans::{format_deadline, format_duration, parse_duration};
use super::ui::{BAD, BOLD, Cell, DIM, GOOD, PLAIN, Style, Text, WARN, cell, header, styled};
use super::{CommandContext, in_one_line};
use waypost::app::session::Session;
use waypost::machine::{WAYPOST_EPOCH, WAYPOST_TASK};
use waypost::work::{UnknownRepository, find_repository, find_worktree, survey_worktrees};

/// Interval between polls without a write: attempts become due and leases expire without any write.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The argument that names a task.
#[derive(clap::Args)]
pub(crate) struct TaskArg {
    /// Task: an id, a name, or workflow/name
    #[arg(value_name = "TASK")]
    pub(crate) task: String,
    #[command(flatten)]
    pub(crate) within: WorkflowArg,
}

/// The option that names the workflow of a task.
#[derive(clap::Args)]
pub(crate) struct WorkflowArg {
    /// Workflow of the task, if its name is ambiguous
    #[arg(long, value_name = "WORKFLOW")]
    pub(crate) workflow: Option<String>,
}

/// The options that say which worktrees take the tasks of a new workflow.
#[derive(clap::Args)]
pub(crate) struct ReachArgs {
    /// Let every worktree take its tasks [default: in the main worktree]
    #[arg(long)]
    pub(crate) shared: bool,
    /// Keep its tasks to this worktree [default: in a linked worktree]
    #[arg(long, conflicts_with = "shared")]
    pub(crate) only_here: bool,
}

/// The lease under which the caller writes.
#[derive(clap::Args)]
pub(crate) struct EpochArg {
    /// Epoch of your lease, as printed by claim [default: the lease you hold; in a job, the job's lease]
    #[arg(long, value_name = "N")]
    epoch: Option<u64>,
}

impl EpochArg {
    /// Returns the epoch. In a job it defaults to the job's own: a job that lost its lease must not write under its
    /// agent's next one.
    pub(crate) fn of(&self, cx: &CommandContext, task: Option<&str>) -> Option<u64> {
        let is_own = task.is_some() && task.map(str::to_owned) == cx.variables.text(WAYPOST_TASK);
        self.epoch.or_else(|| cx.variables.text(WAYPOST_EPOCH).filter(|_| is_own)?.parse().ok())
    }
}

/// Parses a value of an enumeration.
pub(crate) fn parse_enum<T: FromStr<Err = Error>>(text: &str) -> Result<T, String> {
    text.parse().map_err(in_one_line)
}

/// Reads JSON or plain text from the argument, a file (`@FILE`) or standard input (`-`).
pub(crate) fn json_or_text(what: &str, given: &str) -> Result<Value> {
    let text = match given.strip_prefix('@') {
        Some(file) => file_or_stdin(std::path::Path::new(file))?,
        None => text_or_stdin(given)?,
    };
    match serde_json::from_str(&text) {
        Ok(value) => Ok(value),
        Err(error) if text.trim_start().starts_with(['{', '[', '"']) => {
            Err(Error::invalid(format!("{what} is not JSON")).because(error))
        }
        Err(_) => Ok(Value::String(text.trim_end().to_owned())),
    }
}

impl CommandContext {
    /// Returns the worktree named by `--worktree`.
    pub(crate) fn worktree_filter(&self, session: &mut Session) -> Result<Option<WorktreeId>> {
        let Some(name) = &self.global.worktree else { return Ok(None) };
        let all = survey_worktrees(session)?;
        let one = find_worktree(&all, name, &session.place.cwd)?;
        match (&one.id, one.last_seen) {
            (Some(id), Some(_)) => Ok(Some(id.clone())),
            _ => Err(Error::not_found(format!("worktree {} has never used this store", one.name))),
        }
    }

    /// Returns the repository named by `--repo`, as operations of the store take it.
    pub(crate) fn repository_filter(&self, session: &mut Session) -> Result<Option<String>> {
        self.global.repo.as_deref().map(|name| find_repository(session, name, UnknownRepository::Keep)).transpose()
    }

    /// Returns whether `--worktree` or `--repo` restricts a list.
    pub(crate) fn has_place_filter(&self) -> bool {
        self.global.worktree.is_some() || self.global.repo.is_some()
    }

    /// Prints a changed task.
    pub(crate) fn answer_task(&self, verb: &str, task: &TaskView) -> Result<()> {
        self.ui.answer(task, |text| text.line(task_line(verb, task)))
    }

    /// Prints a changed workflow.
    pub(crate) fn answer_workflow(&self, verb: &str, workflow: &WorkflowView) -> Result<()> {
        self.ui.answer(workflow, |text| text.line(workflow_line(verb, workflow)))
    }

    /// Prints a packed context: as text only its text, as JSON all of its fields.
    pub(crate) fn answer_context(&self, context: &Context) -> Result<()> {
        self.ui.answer(context, |text| write_lines(text, &context.text))
    }
}

/// Polls until `poll` returns a value: immediately, after each write to the store, and at intervals. Returns None after
/// the timeout.
pub(crate) fn wait_for<T>(
    session: &mut Session,
    timeout: Option<u64>,
    mut poll: impl FnMut(&mut Session) -> Result<Option<T>>,
) -> Result<Option<T>> {
    let end = timeout.and_then(|millis| Instant::now().checked_add(Duration::from_millis(millis)));
    loop {
        // Read before polling, so that a write during the poll ends the wait immediately.
        let last = session.call(ListEvents { query: EventQuery { limit: 1, ..EventQuery::default() } })?.last;
        if let Some(found) = poll(session)? {
            return Ok(Some(found));
        }
        let left = end.map_or(POLL_INTERVAL, |end| end.saturating_duration_since(Instant::now()));
        if left.is_zero() {
            return Ok(None);
        }
        session.wait(last, left.min(POLL_INTERVAL))?;
    }
}

/// Describes a changed task in one line.
pub(crate) fn task_line(verb: &str, task: &TaskView) -> String {
    format!("{verb} {}  {}/{}  {}", task.task.id, task.workflow, task.task.name, humanize(task.task.status.as_str()))
}

/// Describes a changed workflow in one line.
pub(crate) fn workflow_line(verb: &str, view: &WorkflowView) -> String {
    let workflow = &view.workflow;
    format!("{verb} {}  {}  {}", workflow.id, workflow.name, progress(view))
}

/// Describes the progress of a workflow.
pub(crate) fn progress(view: &WorkflowView) -> String {
    match view.total {
        0 => format!("{}, no tasks", humanize(view.workflow.status.as_str())),
        total => format!("{}, {} of {total} done", humanize(view.workflow.status.as_str()), view.done),
    }
}

/// Returns an identifier as words: `in_progress` becomes `in progress`.
pub(crate) fn humanize(word: &str) -> String {
    word.replace('_', " ")
}

/// Writes a text of several lines.
pub(crate) fn write_lines(text: &mut Text, lines: &str) {
    for line in lines.lines() {
        text.line(line);
    }
}

/// Returns a table of tasks. If they belong to several workflows, each name includes its workflow.
pub(crate) fn task_table(tasks: &[TaskView], of_several: bool, places: PlaceColumns) -> Vec<Vec<Cell>> {
    let titles = header(["ID", "TASK", "STATUS", "PRIO", "HOLDER", "WAITS FOR"]);
    let titles = titles.into_iter().chain(places.titles()).chain([styled(DIM, "ABOUT")]).collect();
    let or_dash = |text: Option<&str>| text.map_or_else(|| styled(DIM, "-"), cell);
    let rows = tasks.iter().map(|view| {
        let task = &view.task;
        let name = if of_several { format!("{}/{}", view.workflow, task.name) } else { task.name.clone() };
        let waits = shortened_list(&view.blocked_by, 3);
        let cells = [
            styled(DIM, &task.id),
            styled(if view.is_claimable { BOLD } else { PLAIN }, name),
            styled(task_style(task.status), humanize(task.status.as_str())),
            styled(if task.priority <= 1 { WARN } else { PLAIN }, format!("P{}", task.priority)),
            or_dash(view.holder.as_deref()),
            or_dash(waits.as_deref()).cuttable(),
        ];
        cells.into_iter().chain(places.cells(view)).chain([styled(DIM, about(view)).cuttable()]).collect()
    });
    std::iter::once(titles).chain(rows).collect()
}

/// Returns the remark on a task in a list: its question or error if it needs attention, else its description.
fn about(view: &TaskView) -> String {
    let task = &view.task;
    let text = match (task.status, &task.question, &task.error, &view.assigned_to) {
        (TaskStatus::WaitingInput, Some(question), ..) => format!("asks: {question}"),
        (TaskStatus::Dead | TaskStatus::Failed, _, Some(error), _) => format!("error: {error}"),
        (TaskStatus::Pending, _, _, Some(agent)) => format!("for {agent}: {}", task.description),
        _ => task.description.clone(),
    };
    first_line(&text)
}

/// Returns the first line of a text.
pub(crate) fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().trim().to_owned()
}

/// Returns the first names and the number of the others. None if there are none.
pub(crate) fn shortened_list(names: &[String], max: usize) -> Option<String> {
    if names.is_empty() {
        return None;
    }
    let first = names.iter().take(max).map(String::as_str).collect::<Vec<_>>().join(", ");
    Some(if names.len() > max { format!("{first} and {} more", names.len() - max) } else { first })
}

/// Returns the style of a task's status.
pub(crate) fn task_style(status: TaskStatus) -> Style {
    match status {
        TaskStatus::InProgress => GOOD,
        TaskStatus::Paused | TaskStatus::WaitingInput | TaskStatus::Failed => WARN,
        TaskStatus::Dead => BAD,
        TaskStatus::Completed | TaskStatus::Skipped | TaskStatus::Cancelled => DIM,
        TaskStatus::Pending => PLAIN,
    }
}

/// Returns the style of a workflow's status.
pub(crate) fn workflow_style(status: WorkflowStatus) -> Style {
    match status {
        WorkflowStatus::InProgress => GOOD,
        WorkflowStatus::Paused | WorkflowStatus::AwaitingMerge => WARN,
        WorkflowStatus::Failed => BAD,
        WorkflowStatus::Completed | WorkflowStatus::Cancelled => DIM,
        WorkflowStatus::Planning | WorkflowStatus::Ready => PLAIN,
    }
}

/// Returns the title of a group of the status.
pub(crate) fn group_title(group: GroupKind) -> &'static str {
    match group {
        GroupKind::NeedsYou => "Needs you",
        GroupKind::Stuck => "Stuck",
        GroupKind::Working => "Working",
        GroupKind::Queued => "Queued",
        GroupKind::Done => "Done",
    }
}

/// Returns the words that follow the number of rows of a group.
pub(crate) fn group_words(group: GroupKind, total: u64) -> &'static str {
    match group {
        GroupKind::NeedsYou if total == 1 => "needs you",
        GroupKind::NeedsYou => "need you",
        GroupKind::Stuck => "stuck",
        GroupKind::Working => "working",
        GroupKind::Queued => "queued",
        GroupKind::Done => "done",
    }
}
