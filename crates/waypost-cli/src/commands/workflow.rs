//! `way workflow`

use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::Value;
use waypost_core::model::{Reach, Source, WorkflowQuery, WorkflowStatus};
use waypost_core::op::{
    AddTask, AddWorkflow, AddWorkflowRepository, CancelWorkflow, ListRepositories, ListWorkflows, PauseWorkflow,
    PlanWorkflow, RecordMerge, RemoveTask, RemoveWorkflowRepository, ReplanWorkflow, ResumeWorkflow, ShowWorkflow,
    ShowWorkflowSummary, StartWorkflow, WorkflowSummary,
};
use waypost_core::time::Timestamp;
use waypost_core::words::count;
use waypost_core::work::plan::{Plan, PlannedTask};
use waypost_core::work::timeline::SpanKind;
use waypost_core::work::view::WorkflowView;
use waypost_core::{Error, Kind, Result, path_text};

use crate::CommandContext;
use crate::issues::text_or_stdin;
use crate::places::{PlaceColumns, describe_repositories, describe_worktree};
use crate::ui::{BOLD, Cell, DIM, Text, cell, cell_keeping_end, header, number, prose, styled};
use crate::work::{
    ReachArgs, TaskArg, first_line, format_duration, humanize, json_or_text, parse_duration, parse_enum, progress,
    shortened_list, task_table, wait_for, workflow_line, workflow_style,
};
use waypost::app::session::Session;
use waypost::issues::epics;
use waypost::work::plans;
use waypost::work::references::{self, Unknown};

/// Create workflows of tasks with dependencies, and follow them
///
/// A workflow is one execution of a plan. After its start, each task becomes claimable as soon as the tasks it needs
/// are done.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way workflow create release --plan plan.yaml --start
  way workflow create release --plan - <<'END'
  # Ship it
  build: Compile everything
  test: Run the tests
      needs: build
  END
  way workflow from-issue way-12 --start   the open issues of an epic
  way workflow summary release             shows the progress
  way workflow wait release --timeout 2h   waits until it ends

A plan is JSON, YAML, or the short form above. The extension of the file (.json, .yaml, .yml) decides, else the \
content: JSON starts with a bracket, YAML has a line that starts with `tasks:` or `- name:`. In JSON:
  {\"summary\": \"Ship it\", \"tasks\": [{\"name\": \"build\"}, {\"name\": \"test\", \"depends_on\": [\"build\"]}]}

A task has a name, and may have: description, depends_on (in the short form: needs), informed_by, context_from, \
parallel_group, priority, plan, acceptance, context, capabilities, files, repository, base, issue, max_attempts, \
backoff, timeout, queue_timeout, stall_timeout, needs_evidence. Durations are written 90s, 10m, 2h or 1d.

A job of a task starts from its base. By default that is `plan`: the branches of the jobs of the tasks it depends on, \
merged in plan order; without such tasks, the head of the workflow's worktree. `head` starts from that head in any \
case, and any other text names a revision. The plan as a whole may have a base, too.")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    #[command(visible_alias = "new")]
    Create(CreateArgs),
    Plan(PlanArgs),
    #[command(visible_alias = "ls")]
    List(ListArgs),
    /// Show a workflow and its tasks
    Show(NamedArgs),
    /// Summarize the progress of a workflow
    Summary(NamedArgs),
    /// Start a workflow, so that agents can claim its tasks
    Start(NamedArgs),
    /// Pause a workflow; agents finish claimed tasks, but claim no more
    Pause(NamedArgs),
    /// Resume a paused workflow
    Resume(NamedArgs),
    /// Record that the work of a workflow is merged
    ///
    /// A workflow with the setting "awaits_merge": true completes only after this, not with its last task.
    Merged(NamedArgs),
    Cancel(CancelArgs),
    Replan(ReplanArgs),
    AddTask(Box<AddTaskArgs>),
    RemoveTask(RemoveTaskArgs),
    Repos(ReposArgs),
    Wait(WaitArgs),
    FromIssue(FromIssueArgs),
}

/// Create a workflow, with or without a plan
#[derive(clap::Args)]
struct CreateArgs {
    /// Name of the workflow, unique among the live workflows of this worktree
    name: String,
    /// Plan: a file, or - for standard input
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
    /// Start the workflow at once
    #[arg(long, requires = "plan")]
    start: bool,
    /// Summary of the plan
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    summary: Option<String>,
    /// Source of the workflow: prompt, issue, template, github or custom
    #[arg(long, value_name = "SOURCE", value_parser = parse_enum::<Source>)]
    source: Option<Source>,
    /// Reference to the source, e.g. the id of an issue
    #[arg(long, value_name = "REF")]
    source_ref: Option<String>,
    /// Content of the source; - for standard input
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    source_content: Option<String>,
    /// Maximum number of tasks in progress at once
    #[arg(long, value_name = "N")]
    max_parallel: Option<u32>,
    /// What jobs of its tasks start from: plan (the work of the tasks a task depends on), head, or a revision [default:
    /// plan]
    #[arg(long, value_name = "BASE")]
    base: Option<String>,
    /// Repository of the workflow, by id, name or path; may be given repeatedly, in a shared store [default: this one]
    #[arg(long, value_name = "REPO")]
    repo_of: Vec<String>,
    #[command(flatten)]
    reach: ReachArgs,
    /// Settings for the program that drives the workflow; with "awaits_merge": true it completes only once it is merged
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    config_json: Option<String>,
    /// Idempotency key: a repeated command with the same key returns the first result
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
}

/// Set the plan of a workflow that has no tasks yet
#[derive(clap::Args)]
struct PlanArgs {
    /// Workflow: an id or a name
    #[arg(value_name = "WORKFLOW")]
    workflow: String,
    /// Plan: a file, or - for standard input
    #[arg(long, value_name = "FILE")]
    plan: PathBuf,
}

/// List workflows, newest first; by default those that have not ended
#[derive(clap::Args)]
struct ListArgs {
    /// Only workflows with this status; may be given repeatedly
    #[arg(long, value_name = "STATUS", value_parser = parse_enum::<WorkflowStatus>)]
    status: Vec<WorkflowStatus>,
    /// Include workflows that have ended
    #[arg(long, conflicts_with = "status")]
    all: bool,
    /// Maximum number of workflows; 0 for no limit
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: u32,
}

#[derive(clap::Args)]
struct NamedArgs {
    /// Workflow: an id or a name
    #[arg(value_name = "WORKFLOW")]
    workflow: String,
}

/// Cancel a workflow and all its unfinished tasks
#[derive(clap::Args)]
struct CancelArgs {
    /// Workflow: an id or a name
    #[arg(value_name = "WORKFLOW")]
    workflow: String,
    /// Reason
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    reason: Option<String>,
}

/// Replace the plan of the tasks that have not started
///
/// Tasks that have started stay unchanged, with their dependencies. All other tasks are changed, added and removed to
/// match the new plan.
#[derive(clap::Args)]
struct ReplanArgs {
    /// Workflow: an id or a name
    #[arg(value_name = "WORKFLOW")]
    workflow: String,
    /// New plan: a file, or - for standard input
    #[arg(long, value_name = "FILE")]
    plan: PathBuf,
    /// Reason for the new plan
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    reason: String,
}

/// Add a task to a workflow
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way workflow add-task release docs --description 'Write the notes' --needs build --before publish
  way workflow add-task release bench --capability gpu --timeout 1h --needs-evidence")]
struct AddTaskArgs {
    /// Workflow: an id or a name
    #[arg(value_name = "WORKFLOW")]
    workflow: String,
    /// Name of the task, unique in the workflow
    name: String,
    /// Description of the task; - for standard input
    #[arg(short, long, value_name = "TEXT", allow_hyphen_values = true)]
    description: Option<String>,
    /// Tasks that must be done before this one
    #[arg(long, value_name = "TASKS", value_delimiter = ',')]
    needs: Vec<String>,
    /// Tasks that must wait for this one
    #[arg(long, value_name = "TASKS", value_delimiter = ',')]
    before: Vec<String>,
    /// Tasks whose outcomes are useful, without waiting for them
    #[arg(long, value_name = "TASKS", value_delimiter = ',')]
    informed_by: Vec<String>,
    /// Tasks whose outcomes to include in the context
    #[arg(long, value_name = "TASKS", value_delimiter = ',')]
    context_from: Vec<String>,
    /// Group of tasks that should run at the same time
    #[arg(long, value_name = "NAME")]
    parallel_group: Option<String>,
    /// Priority, from 0 (most urgent) to 4 [default: 2]
    #[arg(short, long, value_name = "N")]
    priority: Option<u32>,
    /// Plan of the task: text or JSON, @FILE, or - for standard input
    #[arg(long, value_name = "TEXT|JSON", allow_hyphen_values = true)]
    how: Option<String>,
    /// Acceptance criterion; may be given repeatedly
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    acceptance: Vec<String>,
    /// Context of the task: text or JSON, @FILE, or - for standard input
    #[arg(long, value_name = "TEXT|JSON", allow_hyphen_values = true)]
    know: Option<String>,
    /// Capabilities that the agent needs
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    capability: Vec<String>,
    /// File that the task will probably change; may be given repeatedly
    #[arg(long, value_name = "PATH")]
    file: Vec<String>,
    /// Repository to work in, by id, name or path
    #[arg(long, value_name = "REPO")]
    repo_of: Option<String>,
    /// What its jobs start from: plan (the work of the tasks it depends on), head, or a revision [default: as the workflow
    /// says, else plan]
    #[arg(long, value_name = "BASE")]
    base: Option<String>,
    /// Issue to close when the task is done
    #[arg(long, value_name = "ISSUE")]
    issue: Option<String>,
    /// Maximum number of attempts [default: 3]
    #[arg(long, value_name = "N")]
    max_attempts: Option<u32>,
    /// Delay before the second attempt; doubles with each further one
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    backoff: Option<u64>,
    /// Maximum duration of one attempt
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    timeout: Option<u64>,
    /// Maximum time until the task is claimed
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    queue_timeout: Option<u64>,
    /// Maximum time between checkpoints of an attempt
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    stall_timeout: Option<u64>,
    /// Require evidence to complete the task
    #[arg(long)]
    needs_evidence: bool,
    /// Idempotency key: a repeated command with the same key returns the first result
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
}

/// Remove a task that has never started from its workflow
///
/// Tasks that depended on it now depend on its dependencies.
#[derive(clap::Args)]
struct RemoveTaskArgs {
    #[command(flatten)]
    task: TaskArg,
}

/// List the repositories of a workflow, add one, or remove one in which no task works
#[derive(clap::Args)]
struct ReposArgs {
    /// Workflow: an id or a name
    #[arg(value_name = "WORKFLOW")]
    workflow: String,
    /// Repository to add, by id, name or path
    #[arg(long, value_name = "REPO")]
    add: Option<String>,
    /// Repository to remove, by id, name or path
    #[arg(long, value_name = "REPO", conflicts_with = "add")]
    remove: Option<String>,
}

/// Wait until a workflow ends
///
/// Exits with 0 if the workflow is completed, with 4 if it failed or was cancelled, and with 6 on timeout.
#[derive(clap::Args)]
struct WaitArgs {
    /// Workflow: an id or a name
    #[arg(value_name = "WORKFLOW")]
    workflow: String,
    /// Maximum time to wait, e.g. 10m [default: no limit]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    timeout: Option<u64>,
}

/// Create a workflow from an issue; an epic becomes one task per open child
///
/// Includes the children of children. Each task has the id of its issue as its name, depends on the blockers of its
/// issue and of the issue's parents, and closes its issue when it is done. Skips closed, deferred and frozen issues. An
/// epic with open children is not a task itself and stays open. Warns about open issues outside the epic that block a
/// child.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way workflow from-issue way-12 --start
  way task claim --workflow way-12")]
struct FromIssueArgs {
    /// Issue: an id, or a unique prefix
    #[arg(value_name = "ISSUE")]
    issue: String,
    /// Name of the workflow [default: the issue's id]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Start the workflow at once
    #[arg(long)]
    start: bool,
    #[command(flatten)]
    reach: ReachArgs,
    /// Maximum number of tasks in progress at once
    #[arg(long, value_name = "N")]
    max_parallel: Option<u32>,
    /// What jobs of its tasks start from: plan (the work of the tasks a task depends on), head, or a revision [default:
    /// plan]
    #[arg(long, value_name = "BASE")]
    base: Option<String>,
    /// Idempotency key: a repeated command with the same key returns the first result
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    match &args.command {
        Command::Create(args) => create(cx, args)?,
        Command::Plan(args) => plan(cx, args)?,
        Command::List(args) => list(cx, args)?,
        Command::Show(args) => show(cx, args)?,
        Command::Summary(args) => summary(cx, args)?,
        Command::Start(args) => {
            let started = cx.session()?.call(StartWorkflow { workflow: args.workflow.clone() })?;
            cx.answer_workflow("Started", &started)?;
        }
        Command::Pause(args) => {
            let paused = cx.session()?.call(PauseWorkflow { workflow: args.workflow.clone() })?;
            cx.answer_workflow("Paused", &paused)?;
        }
        Command::Resume(args) => {
            let resumed = cx.session()?.call(ResumeWorkflow { workflow: args.workflow.clone() })?;
            cx.answer_workflow("Resumed", &resumed)?;
        }
        Command::Merged(args) => {
            let operation = RecordMerge { workflow: args.workflow.clone(), merged: true };
            let merged = cx.session()?.call(operation)?;
            cx.answer_workflow("Merged", &merged)?;
        }
        Command::Cancel(args) => {
            let operation = CancelWorkflow { workflow: args.workflow.clone(), reason: args.reason.clone() };
            let cancelled = cx.session()?.call(operation)?;
            cx.answer_workflow("Cancelled", &cancelled)?;
        }
        Command::Replan(args) => replan(cx, args)?,
        Command::AddTask(args) => add_task(cx, args)?,
        Command::RemoveTask(RemoveTaskArgs { task }) => {
            let operation = RemoveTask { task: task.task.clone(), workflow: task.within.workflow.clone() };
            let removed = cx.session()?.call(operation)?;
            cx.ui.answer(&removed, |text| {
                text.line(format!("Removed {}  {}/{}", removed.task.id, removed.workflow, removed.task.name));
            })?;
        }
        Command::Repos(args) => repos(cx, args)?,
        Command::Wait(args) => wait(cx, args)?,
        Command::FromIssue(args) => from_issue(cx, args)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn create(cx: &mut CommandContext, args: &CreateArgs) -> Result<()> {
    let config = match &args.config_json {
        None => Value::Null,
        Some(text) => {
            serde_json::from_str(text).map_err(|error| Error::invalid("--config-json is not JSON").because(error))?
        }
    };
    let mut session = cx.session_to_write()?;
    let mut plan = args.plan.as_deref().map(plans::read_file).transpose()?;
    resolve_repositories(&mut session, plan.as_mut())?;
    let mut repositories = Vec::new();
    for reference in &args.repo_of {
        repositories.push(references::repository(&mut session, reference, Unknown::Register)?);
    }
    let operation = AddWorkflow {
        name: args.name.clone(),
        source: args.source,
        source_ref: args.source_ref.clone(),
        source_content: args.source_content.as_deref().map(text_or_stdin).transpose()?,
        summary: args.summary.clone(),
        max_parallel: args.max_parallel,
        base: args.base.clone(),
        config,
        plan,
        start: args.start,
        repositories,
        shared: args.reach.shared,
        only_here: args.reach.only_here,
    };
    let created = session.call_once(args.key.as_deref(), operation)?;
    cx.answer_workflow("Created", &created)?;
    note_next_step(cx, &created);
    Ok(())
}

/// Resolves the repositories that the tasks of a plan name, so that they can be relative paths.
fn resolve_repositories(session: &mut Session, plan: Option<&mut Plan>) -> Result<()> {
    for task in plan.into_iter().flat_map(|plan| &mut plan.tasks) {
        if let Some(reference) = task.repository.as_mut().filter(|reference| reference.starts_with(['.', '~'])) {
            *reference = references::repository(session, reference, Unknown::Register)?;
        }
    }
    Ok(())
}

/// Notes the next step for a workflow whose tasks cannot be claimed yet.
fn note_next_step(cx: &CommandContext, view: &WorkflowView) {
    let name = &view.workflow.name;
    match view.workflow.status {
        WorkflowStatus::Planning => cx.ui.note(&format!("to add tasks: way workflow plan {name} --plan FILE")),
        WorkflowStatus::Ready => cx.ui.note(&format!("to make its tasks claimable: way workflow start {name}")),
        _ => {}
    }
}

fn plan(cx: &mut CommandContext, args: &PlanArgs) -> Result<()> {
    let mut session = cx.session()?;
    let mut plan = plans::read_file(&args.plan)?;
    resolve_repositories(&mut session, Some(&mut plan))?;
    let planned = session.call(PlanWorkflow { workflow: args.workflow.clone(), plan })?;
    cx.answer_workflow("Planned", &planned)?;
    note_next_step(cx, &planned);
    Ok(())
}

fn list(cx: &mut CommandContext, args: &ListArgs) -> Result<()> {
    let mut session = cx.session()?;
    let statuses = match (args.all, args.status.as_slice()) {
        (true, _) => Vec::new(),
        (false, []) => WorkflowStatus::ALL.iter().copied().filter(|status| !status.is_final()).collect(),
        (false, some) => some.to_vec(),
    };
    let query = WorkflowQuery {
        statuses,
        worktree_id: cx.worktree_filter(&mut session)?,
        repository_id: references::repository_id(&mut session, cx.global.repo.as_deref())?,
        // Reads one more than it shows, to detect that there are more.
        limit: if args.limit == 0 { u32::MAX >> 1 } else { args.limit.saturating_add(1) },
        ..WorkflowQuery::default()
    };
    let mut found = session.call(ListWorkflows { query })?.workflows;
    let has_more = args.limit > 0 && found.len() > args.limit as usize;
    if has_more {
        found.truncate(args.limit as usize);
    }
    let more = format!("more than {}; to list all: --limit 0", count(args.limit, "workflow"));
    if has_more && cx.ui.json {
        cx.ui.warn(&more);
    }
    let now = session.now()?;
    let places = PlaceColumns::of(&session, &found);
    cx.ui.answer(&found, |text| text.table(&workflow_table(&found, now, places)))?;
    if has_more {
        cx.ui.note(&more);
    }
    if found.is_empty() {
        cx.ui.note(if args.all {
            "no workflows yet; to create one: way workflow create NAME --plan FILE"
        } else {
            "no live workflows; to create one: way workflow create NAME --plan FILE; to list ended ones: --all"
        });
    }
    Ok(())
}

fn workflow_table(workflows: &[WorkflowView], now: Timestamp, places: PlaceColumns) -> Vec<Vec<Cell>> {
    if workflows.is_empty() {
        return Vec::new();
    }
    let titles = header(["ID", "NAME", "STATUS", "DONE", "UPDATED"]);
    let titles = titles.into_iter().chain(places.titles()).chain([styled(DIM, "ABOUT")]).collect();
    let rows = workflows.iter().map(|view| {
        let workflow = &view.workflow;
        let about = workflow.reason.as_ref().or(workflow.summary.as_ref());
        let cells = [
            styled(DIM, &workflow.id),
            styled(BOLD, &workflow.name),
            styled(workflow_style(workflow.status), humanize(workflow.status.as_str())),
            number(format!("{}/{}", view.done, view.total)),
            styled(DIM, workflow.updated_at.ago(now)),
        ];
        let about = styled(DIM, about.map(|text| first_line(text)).unwrap_or_default()).cuttable();
        cells.into_iter().chain(places.cells(view)).chain([about]).collect()
    });
    std::iter::once(titles).chain(rows).collect()
}

fn show(cx: &mut CommandContext, args: &NamedArgs) -> Result<()> {
    let mut session = cx.session()?;
    let page = session.call(ShowWorkflow { workflow: args.workflow.clone() })?;
    let now = session.now()?;
    cx.ui.answer(&page, |text| {
        write_facts(text, &session, &page.workflow, now);
        if !page.tasks.is_empty() {
            text.gap();
            // The facts have the worktree.
            text.table(&task_table(&page.tasks, false, PlaceColumns::of(&session, &page.tasks).without_worktree()));
        }
    })
}

fn write_facts(text: &mut Text, session: &Session, view: &WorkflowView, now: Timestamp) {
    let workflow = &view.workflow;
    text.table(&[vec![styled(BOLD, &workflow.name), styled(DIM, &workflow.id), cell(progress(view))]]);
    let source = match &workflow.source_ref {
        Some(reference) => Some(format!("{} {reference}", workflow.source)),
        None => (workflow.source != Source::Prompt).then(|| workflow.source.to_string()),
    };
    let moment = |moment: Option<Timestamp>| moment.map(|moment| format!("{moment}, {}", moment.ago(now)));
    let facts = [
        ("summary", workflow.summary.clone()),
        ("reason", workflow.reason.clone()),
        ("source", source),
        ("repository", describe_repositories(session, view)),
        ("worktree", describe_worktree(view)),
        ("taken by", Some(humanize_reach(workflow.reach).to_owned())),
        ("max parallel", workflow.max_parallel.map(|max| count(max, "task"))),
        ("base", workflow.base.clone()),
        ("created", moment(Some(workflow.created_at))),
        ("started", moment(workflow.started_at)),
        ("ended", moment(workflow.finished_at)),
    ];
    let rows: Vec<_> =
        facts.into_iter().filter_map(|(name, value)| Some(vec![styled(DIM, name), cell(value?)])).collect();
    text.table(&rows);
}

/// Describes which worktrees take the tasks of a workflow.
fn humanize_reach(reach: Reach) -> &'static str {
    match reach {
        Reach::Worktree => "its worktree only",
        Reach::Repository => "every worktree",
    }
}

fn summary(cx: &mut CommandContext, args: &NamedArgs) -> Result<()> {
    let mut session = cx.session()?;
    let summary = session.call(ShowWorkflowSummary { workflow: args.workflow.clone() })?;
    let now = session.now()?;
    cx.ui.answer(&summary, |text| write_summary(text, &summary, now))
}

fn write_summary(text: &mut Text, summary: &WorkflowSummary, now: Timestamp) {
    const WIDTH: usize = 20;
    let view = &summary.workflow;
    let full = usize::try_from(summary.percent).unwrap_or(0).min(100) * WIDTH / 100;
    let bar = format!("[{}{}]", "#".repeat(full), "-".repeat(WIDTH - full));
    text.table(&[vec![
        styled(BOLD, &view.workflow.name),
        styled(DIM, &view.workflow.id),
        cell(format!("{bar} {}%", summary.percent)),
        cell(progress(view)),
    ]]);
    let mut counts: Vec<_> =
        view.counts.iter().map(|(status, count)| format!("{count} {}", humanize(status.as_str()))).collect();
    for (count, label) in [(summary.claimable, "claimable"), (summary.blocked, "blocked")] {
        if count > 0 {
            counts.push(format!("{count} {label}"));
        }
    }
    let path = &summary.critical_path;
    let path_text = match path.len() {
        0 => None,
        1..=6 => Some(format!("{} left: {}", path.len(), path.join(" → "))),
        length => Some(format!("{length} left: {} → … → {}", path[..3].join(" → "), path[length - 2..].join(" → "))),
    };
    let oldest = summary.oldest.as_ref().map(|task| {
        let since = task.task.started_at.map_or(0, |started| now.since(started));
        let holder = task.holder.as_deref().unwrap_or("unknown agent");
        format!("{} by {holder} for {}", task.task.name, format_duration(since))
    });
    let mut rows = Vec::new();
    let facts = [
        ("tasks", Some(counts.join(", ")).filter(|counts| !counts.is_empty())),
        ("reason", view.workflow.reason.clone()),
        ("critical path", path_text),
        ("longest running", oldest),
        ("time", time_spent(summary, now)),
    ];
    rows.extend(facts.into_iter().filter_map(|(name, value)| Some(vec![styled(DIM, name), cell(value?)])));
    for task in &summary.questions {
        let question = first_line(task.task.question.as_deref().unwrap_or_default());
        rows.push(vec![styled(DIM, "question"), prose(format!("{}: {question}", task.task.name))]);
    }
    for task in &summary.failed {
        let error = first_line(task.task.error.as_deref().unwrap_or_default());
        let (status, attempts) = (task.task.status, task.task.attempts);
        rows.push(vec![
            styled(DIM, status.as_str()),
            prose(format!(
                "{} after {attempts} of {}: {error}",
                task.task.name,
                count(task.task.max_attempts, "attempt")
            )),
        ]);
    }
    text.table(&rows);
}

/// Returns the time that all tasks together spent on each kind of span; none if there was none.
fn time_spent(summary: &WorkflowSummary, now: Timestamp) -> Option<String> {
    let spans = || summary.timeline.iter().flat_map(|task| &task.spans);
    let parts = SpanKind::ALL.iter().filter_map(|kind| {
        let of_kind = spans().filter(|span| span.kind == *kind);
        let millis: u64 = of_kind.map(|span| span.until.unwrap_or(now).since(span.from)).sum();
        let what = if *kind == SpanKind::Waiting { "waiting for a person" } else { kind.as_str() };
        (millis > 0).then(|| format!("{} {what}", format_duration(millis)))
    });
    Some(parts.collect::<Vec<_>>().join(", ")).filter(|text| !text.is_empty())
}

fn replan(cx: &mut CommandContext, args: &ReplanArgs) -> Result<()> {
    let mut session = cx.session()?;
    let mut plan = plans::read_file(&args.plan)?;
    resolve_repositories(&mut session, Some(&mut plan))?;
    let operation = ReplanWorkflow { workflow: args.workflow.clone(), plan, reason: args.reason.clone() };
    let replanned = session.call(operation)?;
    cx.ui.answer(&replanned, |text| {
        text.line(workflow_line("Replanned", &replanned.workflow));
        let parts = [
            ("added", &replanned.added),
            ("changed", &replanned.changed),
            ("removed", &replanned.removed),
            ("kept", &replanned.kept),
        ];
        let rows: Vec<_> = parts
            .iter()
            .filter_map(|(name, tasks)| Some(vec![styled(DIM, name), cell(shortened_list(tasks, 10)?)]))
            .collect();
        text.table(&rows);
    })
}

fn add_task(cx: &mut CommandContext, args: &AddTaskArgs) -> Result<()> {
    let value = |what: &str, given: Option<&str>| {
        given.map(|given| json_or_text(what, given)).transpose().map(Option::unwrap_or_default)
    };
    let mut session = cx.session()?;
    let repository = args.repo_of.as_deref();
    let repository =
        repository.map(|name| references::repository(&mut session, name, Unknown::Register)).transpose()?;
    let task = PlannedTask {
        name: args.name.clone(),
        description: args.description.as_deref().map(text_or_stdin).transpose()?.unwrap_or_default(),
        depends_on: args.needs.clone(),
        informed_by: args.informed_by.clone(),
        context_from: args.context_from.clone(),
        parallel_group: args.parallel_group.clone(),
        priority: args.priority,
        plan: value("--how", args.how.as_deref())?,
        acceptance: args.acceptance.clone(),
        context: value("--know", args.know.as_deref())?,
        capabilities: args.capability.clone(),
        files: args.file.clone(),
        repository,
        base: args.base.clone(),
        issue: args.issue.clone(),
        max_attempts: args.max_attempts,
        backoff: args.backoff,
        timeout: args.timeout,
        queue_timeout: args.queue_timeout,
        stall_timeout: args.stall_timeout,
        needs_evidence: args.needs_evidence,
    };
    let operation = AddTask { workflow: args.workflow.clone(), task, before: args.before.clone() };
    let added = session.call_once(args.key.as_deref(), operation)?;
    cx.answer_task("Added", &added)
}

fn repos(cx: &mut CommandContext, args: &ReposArgs) -> Result<()> {
    let mut session = cx.session()?;
    let workflow = args.workflow.clone();
    let ids = match (&args.add, &args.remove) {
        (Some(reference), _) => {
            let repository = references::repository(&mut session, reference, Unknown::Register)?;
            session.call(AddWorkflowRepository { workflow, repository })?.repositories
        }
        (None, Some(reference)) => {
            let repository = references::repository(&mut session, reference, Unknown::Keep)?;
            session.call(RemoveWorkflowRepository { workflow, repository })?.repositories
        }
        (None, None) => session.call(ShowWorkflow { workflow: args.workflow.clone() })?.workflow.repositories,
    };
    let known = session.call(ListRepositories::all())?.repositories;
    let repositories: Vec<_> =
        known.into_iter().map(|seen| seen.repository).filter(|known| ids.contains(&known.id)).collect();
    cx.ui.answer(&repositories, |text| {
        let row = |one: &waypost_core::model::Repository| {
            vec![styled(DIM, &one.id), styled(BOLD, &one.name), cell_keeping_end(path_text::to_text(&one.path))]
        };
        text.list(header(["ID", "NAME", "PATH"]), repositories.iter().map(row));
    })
}

fn wait(cx: &mut CommandContext, args: &WaitArgs) -> Result<()> {
    let mut session = cx.session()?;
    // Use the id from here on: another workflow may get the name.
    let id = session.call(ShowWorkflow { workflow: args.workflow.clone() })?.workflow.workflow.id;
    let mut seen = None;
    let ended = wait_for(&mut session, args.timeout, |session| {
        let page = session.call(ShowWorkflow { workflow: id.to_string() })?;
        let has_ended = page.workflow.workflow.status.is_final();
        seen = Some(page.workflow);
        Ok(if has_ended { seen.take() } else { None })
    })?;
    match (ended, seen) {
        (Some(ended), _) if ended.workflow.status == WorkflowStatus::Completed => cx.answer_workflow("Ended", &ended),
        (Some(ended), _) => {
            let workflow = &ended.workflow;
            let error =
                Error::conflict(format!("workflow {} is {}", workflow.name, humanize(workflow.status.as_str())));
            let error = workflow.reason.iter().fold(error, Error::because);
            Err(error.hint(format!("way workflow summary {}", workflow.id)))
        }
        (None, seen) => {
            let progress = seen.as_ref().map(progress).unwrap_or_default();
            let waited = format_duration(args.timeout.unwrap_or_default());
            Err(Error::new(Kind::NothingToDo, format!("workflow {id} has not ended after {waited}: {progress}")))
        }
    }
}

fn from_issue(cx: &mut CommandContext, args: &FromIssueArgs) -> Result<()> {
    let ledger_cx = cx.open_ledgers()?;
    let epic =
        ledger_cx.with_index(|index| epics::plan(index, ledger_cx.ledger.terms(), &args.issue, ledger_cx.now))?;
    for warning in &epic.warnings {
        cx.ui.warn(warning);
    }
    let issue = &epic.issue;
    let operation = AddWorkflow {
        name: args.name.clone().unwrap_or_else(|| issue.id.clone()),
        source: Some(Source::Issue),
        source_ref: Some(issue.id.clone()),
        source_content: Some(issue.description.clone()).filter(|text| !text.is_empty()),
        summary: None,
        max_parallel: args.max_parallel,
        base: args.base.clone(),
        config: Value::Null,
        plan: Some(epic.plan),
        start: args.start,
        repositories: Vec::new(),
        shared: args.reach.shared,
        only_here: args.reach.only_here,
    };
    cx.uses_store = true;
    let created = ledger_cx.session.open()?.call_once(args.key.as_deref(), operation)?;
    cx.answer_workflow("Created", &created)?;
    note_next_step(cx, &created);
    Ok(())
}
