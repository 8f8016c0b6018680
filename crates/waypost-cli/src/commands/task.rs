//! `way task`

use std::process::ExitCode;

use waypost_core::model::{CheckpointKind, TaskStatus};
use waypost_core::op::{
    AddCheckpoint, Alive, AnswerQuestion, AskQuestion, AssignTask, ClaimTask, Claimed, FailTask, FinishTask, Heartbeat,
    ListNextTasks, ListTasks, MAX_COUNTED_TASKS, PauseTask, ReleaseTask, ReopenTask, ShowTask, SkipTask, TaskList,
    TaskPage, UpdateTask,
};
use waypost_core::time::Timestamp;
use waypost_core::words::count;
use waypost_core::{Error, Kind, Result};

use super::{checkpoint, context};
use crate::CommandContext;
use crate::issues::{parse_priority, text_or_stdin};
use crate::places::{PlaceColumns, describe_repositories, describe_worktree};
use crate::ui::{BOLD, DIM, Text, cell, header, number, styled};
use crate::work::{
    EpochArg, TaskArg, WorkflowArg, format_deadline, format_duration, humanize, json_or_text, parse_duration,
    parse_enum, task_line, task_table, wait_for, write_lines,
};
use waypost::app::session::Session;

/// Claim tasks, record their progress, and finish them
///
/// The agent that claims a task holds a lease with an epoch. Checkpoints, the outcome and all other writes to the task
/// need this lease. Every write and every heartbeat renews it. When the lease expires, the attempt ends; further writes
/// of the agent fail with exit code 5, and the agent must stop working on the task.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way task claim --agent alice                 the most urgent task, with its context
  way task claim release/test --agent alice --ttl 30m
  way task checkpoint test --agent alice --epoch 1 --type progress --summary 'half of the tests pass'
  way task done test --agent alice --epoch 1 --outcome 'all green' --evidence 'cargo test: 412 passed'
  way task fail test --agent alice --epoch 1 --error 'the database is down'
  way task claim --agent alice --wait --timeout 1h   waits until a task is ready

A task is named by its id, by its name, or by workflow/name. WAYPOST_AGENT replaces --agent.")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    #[command(visible_alias = "ls")]
    List(ListArgs),
    Next(NextArgs),
    Show(ShowArgs),
    Claim(ClaimArgs),
    Checkpoint(CheckpointArgs),
    Heartbeat(HeartbeatArgs),
    Done(DoneArgs),
    Fail(FailArgs),
    Release(ReleaseArgs),
    Pause(PauseArgs),
    Skip(SkipArgs),
    Reopen(ReopenArgs),
    Ask(AskArgs),
    Answer(AnswerArgs),
    Assign(AssignArgs),
    Update(UpdateArgs),
    Context(context::Args),
    Wait(WaitArgs),
}

/// List the tasks of one workflow in plan order, or of all live workflows
#[derive(clap::Args)]
struct ListArgs {
    #[command(flatten)]
    within: WorkflowArg,
    /// Only tasks with this status; may be given repeatedly
    #[arg(long, value_name = "STATUS", value_parser = parse_enum::<TaskStatus>)]
    status: Vec<TaskStatus>,
    /// Only tasks that can be claimed now
    #[arg(long)]
    claimable: bool,
    /// Only tasks that a claim without a name takes in this worktree, now or later
    #[arg(long)]
    here: bool,
    /// Maximum number of tasks; 0 for no limit
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: u32,
}

/// List the tasks that you can claim: those of this worktree first, each part in order of urgency
#[derive(clap::Args)]
struct NextArgs {
    #[command(flatten)]
    within: WorkflowArg,
    /// Maximum number of tasks
    #[arg(long, value_name = "N", default_value_t = 10)]
    limit: u32,
}

/// Show a task, its latest checkpoints and its history
#[derive(clap::Args)]
struct ShowArgs {
    #[command(flatten)]
    task: TaskArg,
}

/// Claim a task, and print its context
///
/// Without a name, claims the most urgent task available to you; exits with 6 if there is none. Tasks planned in this
/// worktree come first, then those that other worktrees share: work planned in the main worktree is open to every
/// worktree, work planned in a linked worktree belongs to it. --worktree takes the tasks of another worktree. In a store
/// that repositories share, only tasks of this repository are taken, or of the one that --repo names; --repo all takes
/// any.
///
/// Exits with 4 if another agent holds the task, if it is blocked or assigned to another agent, if it needs capabilities
/// that you did not register, or if you have reached a limit on claims. Claiming a task that you hold renews its lease.
#[derive(clap::Args)]
struct ClaimArgs {
    /// Task: an id, a name, or workflow/name
    #[arg(value_name = "TASK")]
    task: Option<String>,
    #[command(flatten)]
    within: WorkflowArg,
    /// Time until the lease expires, counted from each renewal [default: lease.ttl or lease.ttl_human; else 10m for agents,
    /// unlimited for people]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    ttl: Option<u64>,
    /// Maximum number of tokens in the context, at four bytes each [default: 8000]
    #[arg(long, value_name = "N")]
    budget: Option<u32>,
    /// Wait until the task, or any task, can be claimed
    #[arg(long)]
    wait: bool,
    /// Maximum time to wait, e.g. 10m [default: no limit]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, requires = "wait")]
    timeout: Option<u64>,
}

/// Record the progress of a task, so that another agent can continue from there
#[derive(clap::Args)]
struct CheckpointArgs {
    #[command(flatten)]
    task: TaskArg,
    #[command(flatten)]
    epoch: EpochArg,
    /// Type: plan, replan, progress, decision, error, recovery or complete
    #[arg(long = "type", value_name = "TYPE", value_parser = parse_enum::<CheckpointKind>, default_value = "progress")]
    kind: CheckpointKind,
    /// Summary line; - for standard input
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    summary: String,
    /// Details: text or JSON, @FILE, or - for standard input
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    detail: Option<String>,
    /// Changed file; may be given repeatedly
    #[arg(long, value_name = "PATH")]
    file: Vec<String>,
    /// Tokens used so far
    #[arg(long, value_name = "N")]
    tokens: Option<u64>,
    /// Cost so far
    #[arg(long, value_name = "X")]
    cost: Option<f64>,
    /// Idempotency key: a repeated command with the same key returns the first result
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
}

/// Send a heartbeat, and renew your leases
#[derive(clap::Args)]
struct HeartbeatArgs {
    /// Task whose lease to renew: an id, a name, or workflow/name [default: all leases]
    #[arg(value_name = "TASK")]
    task: Option<String>,
    #[command(flatten)]
    within: WorkflowArg,
    #[command(flatten)]
    epoch: EpochArg,
}

/// Complete a task that you hold
///
/// If the task has an issue, closes the issue with the outcome as the reason.
#[derive(clap::Args)]
struct DoneArgs {
    #[command(flatten)]
    task: TaskArg,
    #[command(flatten)]
    epoch: EpochArg,
    /// Outcome of the task; - for standard input
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    outcome: String,
    /// Evidence for the outcome, e.g. a command and its output
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    evidence: Option<String>,
    /// Idempotency key: a repeated command with the same key returns the first result
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
}

/// Fail the current attempt; the task is retried while attempts remain
#[derive(clap::Args)]
struct FailArgs {
    #[command(flatten)]
    task: TaskArg,
    #[command(flatten)]
    epoch: EpochArg,
    /// Error message; - for standard input
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    error: String,
    /// Do not retry the task
    #[arg(long)]
    hopeless: bool,
    /// Idempotency key: a repeated command with the same key returns the first result
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
}

/// Release a task without counting an attempt
#[derive(clap::Args)]
struct ReleaseArgs {
    #[command(flatten)]
    task: TaskArg,
    #[command(flatten)]
    epoch: EpochArg,
    /// Release a task that another agent holds; only for coordinators and people
    #[arg(long)]
    force: bool,
    /// Reason
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    reason: Option<String>,
}

/// Pause a task until an agent claims it by name
#[derive(clap::Args)]
struct PauseArgs {
    #[command(flatten)]
    task: TaskArg,
    #[command(flatten)]
    epoch: EpochArg,
    /// Reason
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    reason: Option<String>,
}

/// Skip a task, and unblock the tasks that wait for it
#[derive(clap::Args)]
struct SkipArgs {
    #[command(flatten)]
    task: TaskArg,
    /// Reason
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    reason: Option<String>,
}

/// Reopen a finished task
#[derive(clap::Args)]
struct ReopenArgs {
    #[command(flatten)]
    task: TaskArg,
    /// Reason
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    reason: Option<String>,
}

/// Ask a person a question about a task, and release the task until it is answered
#[derive(clap::Args)]
struct AskArgs {
    #[command(flatten)]
    task: TaskArg,
    #[command(flatten)]
    epoch: EpochArg,
    /// Question; - for standard input
    #[arg(value_name = "TEXT", required_unless_present = "question")]
    text: Option<String>,
    /// Question, as an option
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, conflicts_with = "text")]
    question: Option<String>,
}

/// Answer the question of a task, and make it claimable again
#[derive(clap::Args)]
struct AnswerArgs {
    #[command(flatten)]
    task: TaskArg,
    /// Answer; - for standard input
    #[arg(value_name = "TEXT")]
    text: String,
}

/// Assign a task to one agent, or unassign it
#[derive(clap::Args)]
struct AssignArgs {
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
struct UpdateArgs {
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

/// Wait until a task ends or asks a question
///
/// Exits with 0 if the task is completed or skipped, with 4 if it is dead, cancelled or asks a question, and with 6 on
/// timeout.
#[derive(clap::Args)]
struct WaitArgs {
    #[command(flatten)]
    task: TaskArg,
    /// Maximum time to wait, e.g. 10m [default: no limit]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    timeout: Option<u64>,
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    match &args.command {
        Command::List(args) => list(cx, args)?,
        Command::Next(args) => {
            let mut session = cx.session()?;
            let operation = ListNextTasks {
                workflow: args.within.workflow.clone(),
                worktree_id: cx.worktree_filter(&mut session)?,
                repository: cx.repository_filter(&mut session)?,
                limit: args.limit.max(1),
                after: None,
            };
            let list = session.call(operation)?;
            answer_list(cx, &session, &list, args.within.workflow.is_none())?;
        }
        Command::Show(args) => show(cx, args)?,
        Command::Claim(args) => claim(cx, args)?,
        Command::Checkpoint(args) => checkpoint(cx, args)?,
        Command::Heartbeat(args) => heartbeat(cx, args)?,
        Command::Done(args) => done(cx, args)?,
        Command::Fail(args) => fail(cx, args)?,
        Command::Release(args) => {
            let operation = ReleaseTask {
                task: args.task.task.clone(),
                workflow: args.task.within.workflow.clone(),
                epoch: args.epoch.of(cx, Some(&args.task.task)),
                force: args.force,
                reason: args.reason.clone(),
            };
            let task = cx.session()?.call(operation)?;
            cx.answer_task("Released", &task)?;
        }
        Command::Pause(args) => {
            let operation = PauseTask {
                task: args.task.task.clone(),
                workflow: args.task.within.workflow.clone(),
                epoch: args.epoch.of(cx, Some(&args.task.task)),
                reason: args.reason.clone(),
            };
            let task = cx.session()?.call(operation)?;
            cx.answer_task("Paused", &task)?;
            cx.ui.note(&format!("to continue the task: way task claim {}", task.task.id));
        }
        Command::Skip(SkipArgs { task, reason }) => {
            let (task, workflow) = (task.task.clone(), task.within.workflow.clone());
            let task = cx.session()?.call(SkipTask { task, workflow, reason: reason.clone() })?;
            cx.answer_task("Skipped", &task)?;
        }
        Command::Reopen(ReopenArgs { task, reason }) => {
            let (task, workflow) = (task.task.clone(), task.within.workflow.clone());
            let task = cx.session()?.call(ReopenTask { task, workflow, reason: reason.clone() })?;
            cx.answer_task("Reopened", &task)?;
        }
        Command::Ask(args) => {
            let operation = AskQuestion {
                task: args.task.task.clone(),
                workflow: args.task.within.workflow.clone(),
                epoch: args.epoch.of(cx, Some(&args.task.task)),
                question: text_or_stdin(args.text.as_ref().or(args.question.as_ref()).map_or("", String::as_str))?,
            };
            let task = cx.session()?.call(operation)?;
            cx.answer_task("Asked", &task)?;
        }
        Command::Answer(AnswerArgs { task, text }) => {
            let (task, workflow) = (task.task.clone(), task.within.workflow.clone());
            let task = cx.session()?.call(AnswerQuestion { task, workflow, answer: text_or_stdin(text)? })?;
            cx.answer_task("Answered", &task)?;
        }
        Command::Assign(AssignArgs { task, assignee, .. }) => {
            let (task, workflow) = (task.task.clone(), task.within.workflow.clone());
            let task = cx.session()?.call(AssignTask { task, workflow, agent: assignee.clone() })?;
            cx.ui.answer(&task, |text| {
                let verb = match task.assigned_to.as_deref() {
                    Some(agent) => format!("Assigned to {agent}:"),
                    None => "Unassigned".to_owned(),
                };
                text.line(task_line(&verb, &task));
            })?;
        }
        Command::Update(args) => {
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
            cx.answer_task("Updated", &task)?;
        }
        Command::Context(args) => return context::run(cx, args),
        Command::Wait(args) => wait(cx, args)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn list(cx: &mut CommandContext, args: &ListArgs) -> Result<()> {
    let mut session = cx.session()?;
    let operation = ListTasks {
        workflow: args.within.workflow.clone(),
        statuses: args.status.clone(),
        claimable: args.claimable,
        worktree_id: cx.worktree_filter(&mut session)?,
        repository: cx.repository_filter(&mut session)?,
        here: args.here,
        limit: if args.limit == 0 { u32::MAX } else { args.limit },
        after: None,
    };
    let list = session.call(operation)?;
    let more = match list.more {
        MAX_COUNTED_TASKS => format!("at least {}; to list all: --limit 0", count(list.more, "more task")),
        more => format!("{}; to list all: --limit 0", count(more, "more task")),
    };
    if list.more > 0 && cx.ui.json {
        cx.ui.warn(&more);
    }
    answer_list(cx, &session, &list, args.within.workflow.is_none())?;
    if list.more > 0 {
        cx.ui.note(&more);
    }
    if list.tasks.is_empty() {
        let is_filtered = args.within.workflow.is_some() || !args.status.is_empty() || args.claimable || args.here;
        cx.ui.note(if is_filtered || cx.has_place_filter() {
            "no matching tasks; way task list shows those of all live workflows"
        } else {
            "no tasks yet; to plan some: way workflow create NAME --plan FILE --start"
        });
    }
    Ok(())
}

fn answer_list(cx: &CommandContext, session: &Session, list: &TaskList, of_several: bool) -> Result<()> {
    cx.ui.answer(&list.tasks, |text| {
        if !list.tasks.is_empty() {
            text.table(&task_table(&list.tasks, of_several, PlaceColumns::of(session, &list.tasks)));
        }
    })
}

fn show(cx: &mut CommandContext, args: &ShowArgs) -> Result<()> {
    let mut session = cx.session()?;
    let operation = ShowTask {
        task: args.task.task.clone(),
        workflow: args.task.within.workflow.clone(),
        repository: cx.repository_filter(&mut session)?,
    };
    let page = session.call(operation)?;
    let now = session.now()?;
    cx.ui.answer(&page, |text| write_page(text, &session, &page, now))
}

fn write_page(text: &mut Text, session: &Session, page: &TaskPage, now: Timestamp) {
    let (view, task) = (&page.task, &page.task.task);
    text.table(&[vec![styled(BOLD, &task.name), styled(DIM, &task.id)]]);
    let names = |names: &[String]| Some(names.join(", ")).filter(|names| !names.is_empty());
    let json = |value: &serde_json::Value| match value {
        serde_json::Value::Object(fields) if fields.is_empty() => None,
        serde_json::Value::String(text) => Some(text.clone()),
        value => Some(value.to_string()),
    };
    let held = view.holder.as_ref().zip(view.epoch);
    let duration = |millis: Option<u64>| millis.map(format_duration);
    let facts = [
        ("status", Some(humanize(task.status.as_str()))),
        ("workflow", Some(format!("{} ({})", view.workflow, task.workflow_id))),
        ("repository", describe_repositories(session, view)),
        ("worktree", describe_worktree(view)),
        ("priority", Some(format!("P{}", task.priority))),
        (
            "holder",
            held.map(|(holder, epoch)| {
                let end = view.expires_at.unwrap_or(Timestamp::NEVER);
                format!("{holder}, epoch {epoch}, expires {}", format_deadline(end, now))
            }),
        ),
        ("assigned to", view.assigned_to.clone()),
        ("needs", names(&view.depends_on)),
        ("waits for", names(&view.blocked_by)),
        ("context from", names(&task.context_from)),
        ("capabilities", names(&task.capabilities)),
        ("files", names(&task.files)),
        ("base", task.base.clone()),
        ("issue", task.issue.clone()),
        ("group", task.parallel_group.clone()),
        ("attempts", Some(format!("{} failed of {}", task.attempts, task.max_attempts))),
        (
            "next attempt",
            (task.status == TaskStatus::Failed).then_some(task.due_at).flatten().map(|due| format_deadline(due, now)),
        ),
        ("timeout", duration(task.run_timeout_ms)),
        ("stall timeout", duration(task.stall_timeout_ms)),
        ("queue timeout", duration(task.queue_timeout_ms)),
        ("evidence", task.needs_evidence.then(|| task.evidence.clone().unwrap_or_else(|| "required".to_owned()))),
        ("updated", Some(task.updated_at.ago(now))),
    ];
    let rows: Vec<_> =
        facts.into_iter().filter_map(|(name, value)| Some(vec![styled(DIM, name), cell(value?)])).collect();
    text.table(&rows);
    let bodies = [
        ("Description", Some(task.description.clone())),
        ("Acceptance", Some(task.acceptance.join("\n"))),
        ("Plan", json(&task.plan)),
        ("Context", json(&task.context)),
        ("Outcome", task.outcome.clone()),
        ("Evidence", task.evidence.clone().filter(|_| !task.needs_evidence)),
        ("Error", task.error.clone()),
        ("Question", task.question.clone()),
        ("Answer", task.answer.clone()),
    ];
    for (title, body) in
        bodies.into_iter().filter_map(|(title, body)| Some((title, body.filter(|body| !body.is_empty())?)))
    {
        text.gap();
        text.heading(title);
        for line in body.lines() {
            text.line(format!("  {line}"));
        }
    }
    if !page.checkpoints.is_empty() {
        text.gap();
        text.heading("Checkpoints");
        checkpoint::write(text, &page.checkpoints, now, PlaceColumns::of(session, &page.checkpoints));
    }
    text.gap();
    text.heading("History");
    let rows = page
        .events
        .iter()
        .map(|event| vec![cell(&event.kind), styled(DIM, &event.actor), styled(DIM, event.time.ago(now))]);
    text.list(header(["EVENT", "BY", "AGE"]), rows);
}

fn claim(cx: &mut CommandContext, args: &ClaimArgs) -> Result<()> {
    let mut session = cx.session()?;
    let operation = ClaimTask {
        task: args.task.clone(),
        workflow: args.within.workflow.clone(),
        worktree_id: cx.worktree_filter(&mut session)?,
        repository: cx.repository_filter(&mut session)?,
        ttl_ms: args.ttl,
        budget: args.budget,
    };
    let claimed = if args.wait {
        let mut refused = None;
        let found = wait_for(&mut session, args.timeout, |session| match try_claim(session, &operation)? {
            Ok(claimed) => Ok(Some(claimed)),
            Err(error) => {
                refused = Some(error);
                Ok(None)
            }
        })?;
        match (found, refused) {
            (Some(claimed), _) => claimed,
            (None, Some(error)) => {
                let waited = format_duration(args.timeout.unwrap_or_default());
                return Err(error.within(format!("after {waited}")));
            }
            (None, None) => return Err(Error::internal("the claim was refused without an error")),
        }
    } else {
        session.call(operation)?
    };
    cx.ui.answer(&claimed, |text| {
        let lease = &claimed.lease;
        text.line(format!(
            "Claimed {}  {}/{}  epoch {}, until {}",
            claimed.task.task.id,
            claimed.task.workflow,
            claimed.task.task.name,
            lease.epoch,
            lease.end()
        ));
        text.gap();
        write_lines(text, &claimed.context.text);
    })
}

/// Claims a task. The inner error says why the claim was refused, if a later one may succeed.
fn try_claim(session: &mut Session, operation: &ClaimTask) -> Result<Result<Claimed>> {
    let error = match session.call(operation.clone()) {
        Ok(claimed) => return Ok(Ok(claimed)),
        Err(error) => error,
    };
    match (error.kind(), &operation.task) {
        (Kind::NothingToDo, None) => Ok(Err(error)),
        (Kind::Conflict, Some(task)) => {
            let ClaimTask { workflow, repository, .. } = operation.clone();
            let page = session.call(ShowTask { task: task.clone(), workflow, repository })?;
            if page.task.task.status.is_final() { Err(error) } else { Ok(Err(error)) }
        }
        _ => Err(error),
    }
}

fn checkpoint(cx: &mut CommandContext, args: &CheckpointArgs) -> Result<()> {
    let operation = AddCheckpoint {
        task: args.task.task.clone(),
        workflow: args.task.within.workflow.clone(),
        epoch: args.epoch.of(cx, Some(&args.task.task)),
        kind: args.kind,
        summary: text_or_stdin(&args.summary)?,
        detail: match &args.detail {
            Some(detail) => json_or_text("--detail", detail)?,
            None => serde_json::Value::Null,
        },
        files: args.file.clone(),
        tokens: args.tokens,
        cost: args.cost,
    };
    let recorded = cx.session()?.call_once(args.key.as_deref(), operation)?;
    cx.ui.answer(&recorded, |text| {
        let (checkpoint, lease) = (&recorded.checkpoint, &recorded.lease);
        text.line(format!(
            "Recorded checkpoint {}  number {}, lease until {}{}",
            checkpoint.id,
            checkpoint.sequence,
            lease.end(),
            unread(recorded.unread)
        ));
    })
}

/// Describes the number of unread messages.
fn unread(messages: u64) -> String {
    if messages == 0 { String::new() } else { format!(", {}", count(messages, "unread message")) }
}

fn heartbeat(cx: &mut CommandContext, args: &HeartbeatArgs) -> Result<()> {
    let operation = Heartbeat {
        task: args.task.clone(),
        workflow: args.within.workflow.clone(),
        epoch: args.epoch.of(cx, args.task.as_deref()),
    };
    let alive = cx.session()?.call(operation)?;
    cx.ui.answer(&alive, |text| write_alive(text, &alive))
}

fn write_alive(text: &mut Text, alive: &Alive) {
    if alive.is_cancelled {
        text.line("The task was cancelled: stop working on it");
    }
    let next = format_duration(alive.next_ms);
    text.line(format!("{} held{}, next heartbeat within {next}", alive.leases.len(), unread(alive.unread)));
    let row = |lease: &waypost_core::model::Lease| vec![cell(&lease.subject), number(lease.epoch), cell(lease.end())];
    text.list(header(["HOLDS", "EPOCH", "UNTIL"]), alive.leases.iter().map(row));
}

fn done(cx: &mut CommandContext, args: &DoneArgs) -> Result<()> {
    let mut session = cx.session()?;
    let operation = FinishTask {
        task: args.task.task.clone(),
        workflow: args.task.within.workflow.clone(),
        epoch: args.epoch.of(cx, Some(&args.task.task)),
        outcome: text_or_stdin(&args.outcome)?,
        evidence: args.evidence.clone(),
    };
    let finished = session.call_once(args.key.as_deref(), operation)?;
    cx.ui.answer(&finished, |text| {
        text.line(task_line("Finished", &finished.task));
        if let Some(issue) = &finished.closed_issue {
            text.line(format!("Closed {issue}"));
        }
    })
}

fn fail(cx: &mut CommandContext, args: &FailArgs) -> Result<()> {
    let mut session = cx.session()?;
    let operation = FailTask {
        task: args.task.task.clone(),
        workflow: args.task.within.workflow.clone(),
        epoch: args.epoch.of(cx, Some(&args.task.task)),
        error: text_or_stdin(&args.error)?,
        hopeless: args.hopeless,
    };
    let task = session.call_once(args.key.as_deref(), operation)?;
    let now = session.now()?;
    cx.ui.answer(&task, |text| {
        let (attempts, max_attempts) = (task.task.attempts, task.task.max_attempts);
        let next = match (task.task.status, task.task.due_at) {
            (TaskStatus::Dead, _) => ", no retry".to_owned(),
            (TaskStatus::Failed, Some(due)) => format!(", retry {}", format_deadline(due, now)),
            _ => String::new(),
        };
        text.line(format!("{}, {attempts} of {}{next}", task_line("Failed", &task), count(max_attempts, "attempt")));
    })
}

fn wait(cx: &mut CommandContext, args: &WaitArgs) -> Result<()> {
    let mut session = cx.session()?;
    let (task, workflow) = (args.task.task.clone(), args.task.within.workflow.clone());
    let operation = ShowTask { task, workflow, repository: cx.repository_filter(&mut session)? };
    // Use the id from here on: another task may get the name.
    let task = session.call(operation)?.task.task.id.to_string();
    let mut status = TaskStatus::Pending;
    let ended = wait_for(&mut session, args.timeout, |session| {
        let seen = session.call(ShowTask { task: task.clone(), workflow: None, repository: None })?.task;
        status = seen.task.status;
        let has_ended = seen.task.status.is_final() || seen.task.status == TaskStatus::WaitingInput;
        Ok(has_ended.then_some(seen))
    })?;
    let Some(ended) = ended else {
        let waited = format_duration(args.timeout.unwrap_or_default());
        let message = format!("task {task} has not ended after {waited}: {}", humanize(status.as_str()));
        return Err(Error::new(Kind::NothingToDo, message));
    };
    let (name, status) = (&ended.task.name, ended.task.status);
    if status.satisfies() {
        return cx.answer_task("Ended", &ended);
    }
    let question_error = |question: &String| {
        Error::conflict(format!("task {name} asks a question"))
            .because(question)
            .hint(format!("way task answer {} TEXT", ended.task.id))
    };
    Err(match (status, &ended.task.question) {
        (TaskStatus::WaitingInput, Some(question)) => question_error(question),
        _ => ended.task.error.iter().fold(
            Error::conflict(format!("task {name} is {status}")).hint(format!("way task show {}", ended.task.id)),
            Error::because,
        ),
    })
}
