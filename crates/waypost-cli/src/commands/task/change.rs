//! What a coordinator or a person does with a task that it does not hold.

use waypost_core::Result;
use waypost_core::op::{AnswerQuestion, AssignTask, ReopenTask, SkipTask, UpdateTask};

use crate::CommandContext;
use crate::issues::{parse_priority, text_or_stdin};
use crate::work::{TaskArg, parse_duration, task_line};

/// Skip a task, and unblock the tasks that wait for it
#[derive(clap::Args)]
pub(super) struct SkipArgs {
    #[command(flatten)]
    task: TaskArg,
    /// Reason
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    reason: Option<String>,
}

/// Reopen a finished task
#[derive(clap::Args)]
pub(super) struct ReopenArgs {
    #[command(flatten)]
    task: TaskArg,
    /// Reason
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    reason: Option<String>,
}

/// Answer the question of a task, and make it claimable again
#[derive(clap::Args)]
pub(super) struct AnswerArgs {
    #[command(flatten)]
    task: TaskArg,
    /// Answer; - for standard input
    #[arg(value_name = "TEXT")]
    text: String,
}

/// Assign a task to one agent, or unassign it
#[derive(clap::Args)]
pub(super) struct AssignArgs {
    #[command(flatten)]
    task: TaskArg,
    /// Name or id of the agent
    #[arg(value_name = "AGENT", required_unless_present = "unassign", conflicts_with = "unassign")]
    assignee: Option<String>,
    /// Remove the assignment, so that any agent can claim the task
    #[arg(long, alias = "nobody")]
    unassign: bool,
}

/// Change fields of a task that has not ended
///
/// The name stays, because plans and contexts refer to it. A new timeout counts from the next attempt on.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way task update test --priority 0
  way task update release/test --timeout 2h --max-attempts 5")]
pub(super) struct UpdateArgs {
    #[command(flatten)]
    task: TaskArg,
    /// The work to do; - for standard input
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    description: Option<String>,
    /// Condition under which it is done, in the place of those it has; may be given repeatedly
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    acceptance: Vec<String>,
    /// Priority: 0 (highest) to 4, or a word
    #[arg(long, short, value_name = "0-4", value_parser = parse_priority)]
    priority: Option<u8>,
    /// Maximum number of attempts
    #[arg(long, value_name = "N")]
    max_attempts: Option<u32>,
    /// Maximum duration of one attempt, e.g. 30m; 0s for none
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    timeout: Option<u64>,
}

pub(super) fn skip(cx: &mut CommandContext, SkipArgs { task, reason }: &SkipArgs) -> Result<()> {
    let (task, workflow) = (task.task.clone(), task.within.workflow.clone());
    let task = cx.session()?.call(SkipTask { task, workflow, reason: reason.clone() })?;
    cx.answer_task("Skipped", &task)
}

pub(super) fn reopen(cx: &mut CommandContext, ReopenArgs { task, reason }: &ReopenArgs) -> Result<()> {
    let (task, workflow) = (task.task.clone(), task.within.workflow.clone());
    let task = cx.session()?.call(ReopenTask { task, workflow, reason: reason.clone() })?;
    cx.answer_task("Reopened", &task)
}

pub(super) fn answer(cx: &mut CommandContext, AnswerArgs { task, text }: &AnswerArgs) -> Result<()> {
    let (task, workflow) = (task.task.clone(), task.within.workflow.clone());
    let task = cx.session()?.call(AnswerQuestion { task, workflow, answer: text_or_stdin(text)? })?;
    cx.answer_task("Answered", &task)
}

pub(super) fn assign(cx: &mut CommandContext, AssignArgs { task, assignee, .. }: &AssignArgs) -> Result<()> {
    let (task, workflow) = (task.task.clone(), task.within.workflow.clone());
    let task = cx.session()?.call(AssignTask { task, workflow, agent: assignee.clone() })?;
    cx.ui.answer(&task, |text| {
        let verb = match task.assigned_to.as_deref() {
            Some(agent) => format!("Assigned to {agent}:"),
            None => "Unassigned".to_owned(),
        };
        text.line(task_line(&verb, &task));
    })
}

pub(super) fn update(cx: &mut CommandContext, args: &UpdateArgs) -> Result<()> {
    let operation = UpdateTask {
        task: args.task.task.clone(),
        workflow: args.task.within.workflow.clone(),
        description: args.description.as_deref().map(text_or_stdin).transpose()?,
        acceptance: Some(args.acceptance.clone()).filter(|acceptance| !acceptance.is_empty()),
        priority: args.priority.map(u32::from),
        max_attempts: args.max_attempts,
        timeout_ms: args.timeout,
    };
    let task = cx.session()?.call(operation)?;
    cx.answer_task("Updated", &task)
}
