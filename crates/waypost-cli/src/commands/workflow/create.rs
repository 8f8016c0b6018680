//! Creates workflows, with a plan or from an issue, and plans them.

use std::path::PathBuf;

use serde_json::Value;
use waypost_core::model::{Source, WorkflowStatus};
use waypost_core::op::{AddWorkflow, PlanWorkflow};
use waypost_core::work::plan::Plan;
use waypost_core::work::view::WorkflowView;
use waypost_core::{Error, Result};

use crate::CommandContext;
use crate::issues::text_or_stdin;
use crate::work::{ReachArgs, parse_enum};
use waypost::app::session::Session;
use waypost::issues::plan_epic;
use waypost::work::{UnknownRepository, find_repository, read_plan};

/// Create a workflow, with or without a plan
#[derive(clap::Args)]
pub(super) struct CreateArgs {
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
pub(super) struct PlanArgs {
    /// Workflow: an id or a name
    #[arg(value_name = "WORKFLOW")]
    workflow: String,
    /// Plan: a file, or - for standard input
    #[arg(long, value_name = "FILE")]
    plan: PathBuf,
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
pub(super) struct FromIssueArgs {
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

pub(super) fn create(cx: &mut CommandContext, args: &CreateArgs) -> Result<()> {
    let config = match &args.config_json {
        None => Value::Null,
        Some(text) => {
            serde_json::from_str(text).map_err(|error| Error::invalid("--config-json is not JSON").because(error))?
        }
    };
    let mut session = cx.session_to_write()?;
    let mut plan = args.plan.as_deref().map(read_plan).transpose()?;
    resolve_repositories(&mut session, plan.as_mut())?;
    let mut repositories = Vec::new();
    for reference in &args.repo_of {
        repositories.push(find_repository(&mut session, reference, UnknownRepository::Register)?);
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
pub(super) fn resolve_repositories(session: &mut Session, plan: Option<&mut Plan>) -> Result<()> {
    for task in plan.into_iter().flat_map(|plan| &mut plan.tasks) {
        if let Some(reference) = task.repository.as_mut().filter(|reference| reference.starts_with(['.', '~'])) {
            *reference = find_repository(session, reference, UnknownRepository::Register)?;
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

pub(super) fn plan(cx: &mut CommandContext, args: &PlanArgs) -> Result<()> {
    let mut session = cx.session()?;
    let mut plan = read_plan(&args.plan)?;
    resolve_repositories(&mut session, Some(&mut plan))?;
    let planned = session.call(PlanWorkflow { workflow: args.workflow.clone(), plan })?;
    cx.answer_workflow("Planned", &planned)?;
    note_next_step(cx, &planned);
    Ok(())
}

pub(super) fn from_issue(cx: &mut CommandContext, args: &FromIssueArgs) -> Result<()> {
    let ledger_cx = cx.open_ledgers()?;
    let epic = ledger_cx.with_index(|index| plan_epic(index, ledger_cx.ledger.terms(), &args.issue, ledger_cx.now))?;
    for warning in &epic.warnings {
        cx.ui.warn(warning);
    }
    let issue = &epic.issue;
    let operation = AddWorkflow {
        name: args.name.clone().unwrap_or_else(|| issue.id.clone()),
        source: Some(Source::Issue),
        source_ref: Some(issue.id.clone()),
        source_content: Some(issue.description.clone()).filter(|text| !text.is_empty()),
        max_parallel: args.max_parallel,
        base: args.base.clone(),
        plan: Some(epic.plan),
        start: args.start,
        shared: args.reach.shared,
        only_here: args.reach.only_here,
        ..AddWorkflow::default()
    };
    cx.uses_store = true;
    let created = ledger_cx.session.open()?.call_once(args.key.as_deref(), operation)?;
    cx.answer_workflow("Created", &created)?;
    note_next_step(cx, &created);
    Ok(())
}
