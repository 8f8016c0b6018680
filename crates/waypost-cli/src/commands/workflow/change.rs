//! Changes workflows: their plan, their tasks and their repositories.

use std::path::PathBuf;

use waypost_core::op::{
    AddTask, AddWorkflowRepository, ListRepositories, RemoveTask, RemoveWorkflowRepository, ReplanWorkflow,
    ShowWorkflow,
};
use waypost_core::work::plan::PlannedTask;
use waypost_core::{Result, path_text};

use super::create::resolve_repositories;
use crate::CommandContext;
use crate::issues::text_or_stdin;
use crate::ui::{BOLD, DIM, cell, cell_keeping_end, header, styled};
use crate::work::{TaskArg, json_or_text, parse_duration, shortened_list, workflow_line};
use waypost::work::{UnknownRepository, find_repository, read_plan};

/// Replace the plan of the tasks that have not started
///
/// Tasks that have started stay unchanged, with their dependencies. All other tasks are changed, added and removed to
/// match the new plan.
#[derive(clap::Args)]
pub(super) struct ReplanArgs {
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
pub(super) struct AddTaskArgs {
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
pub(super) struct RemoveTaskArgs {
    #[command(flatten)]
    task: TaskArg,
}

/// List the repositories of a workflow, add one, or remove one in which no task works
#[derive(clap::Args)]
pub(super) struct ReposArgs {
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

pub(super) fn replan(cx: &mut CommandContext, args: &ReplanArgs) -> Result<()> {
    let mut session = cx.session()?;
    let mut plan = read_plan(&args.plan)?;
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

pub(super) fn add_task(cx: &mut CommandContext, args: &AddTaskArgs) -> Result<()> {
    let value = |what: &str, given: Option<&str>| {
        given.map(|given| json_or_text(what, given)).transpose().map(Option::unwrap_or_default)
    };
    let mut session = cx.session()?;
    let repository = args.repo_of.as_deref();
    let repository =
        repository.map(|name| find_repository(&mut session, name, UnknownRepository::Register)).transpose()?;
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

pub(super) fn remove_task(cx: &mut CommandContext, RemoveTaskArgs { task }: &RemoveTaskArgs) -> Result<()> {
    let operation = RemoveTask { task: task.task.clone(), workflow: task.within.workflow.clone() };
    let removed = cx.session()?.call(operation)?;
    cx.ui.answer(&removed, |text| {
        text.line(format!("Removed {}  {}/{}", removed.task.id, removed.workflow, removed.task.name));
    })
}

pub(super) fn repos(cx: &mut CommandContext, args: &ReposArgs) -> Result<()> {
    let mut session = cx.session()?;
    let workflow = args.workflow.clone();
    let ids = match (&args.add, &args.remove) {
        (Some(reference), _) => {
            let repository = find_repository(&mut session, reference, UnknownRepository::Register)?;
            session.call(AddWorkflowRepository { workflow, repository })?.repositories
        }
        (None, Some(reference)) => {
            let repository = find_repository(&mut session, reference, UnknownRepository::Keep)?;
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
