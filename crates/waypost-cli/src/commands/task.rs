//! `way task`

use std::process::ExitCode;

use waypost_core::model::{CheckpointKind, TaskStatus};
use waypost_core::op::{
    Alive, AnswerQuestion, AskQuestion, AssignTask, CheckpointTask, ClaimTask, Claimed, FailTask, FinishTask,
    Heartbeat, ListTasks, NextTasks, PauseTask, ReleaseTask, ReopenTask, ShowTask, SkipTask, TaskList, TaskPage,
};
use waypost_core::time::Timestamp;
use waypost_core::{Error, Kind, Result};

use super::{checkpoint, context};
use crate::CommandContext;
use crate::issues::text_or_stdin;
use crate::ui::{BOLD, DIM, Text, cell, styled};
use crate::work::{
    EpochArg, TaskArg, WorkflowArg, format_duration, format_time_until, humanize, json_or_text, parse_duration,
    parse_enum, task_line, task_table, wait_for, write_lines,
};
use waypost::claims::{self, CLOSED, NoticeOutcome};
use waypost::session::Session;

/// Claim tasks, note how far they got, and finish them
///
/// Whoever claims a task holds a lease on it, with an epoch. Every later write comes under that lease: checkpoints,
/// and how it ended. Any of them renews it, and so does a heartbeat. A lease that ends, ends the attempt; whoever held
/// it gets exit code 5 from then on and must stop.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way task claim --agent alice                 the most urgent one, with all one has to know
  way task claim release/test --agent alice --ttl 30m
  way task checkpoint test --agent alice --epoch 1 --type progress --summary 'half of the suite is green'
  way task done test --agent alice --epoch 1 --outcome 'all green' --evidence 'cargo test: 412 passed'
  way task fail test --agent alice --epoch 1 --error 'the database is down'
  way task claim --agent alice --wait --timeout 1h   until there is something to do

A task is named by its id, by its name, or by workflow/name. WAYPOST_AGENT can say who you are instead of --agent.")]
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
    Context(context::Args),
    Wait(WaitArgs),
}

/// List tasks: of one workflow in the order of its plan, or of all that are live
#[derive(clap::Args)]
struct ListArgs {
    #[command(flatten)]
    within: WorkflowArg,
    /// Only those with this status
    #[arg(long, value_name = "STATUS", value_parser = parse_enum::<TaskStatus>)]
    status: Vec<TaskStatus>,
    /// Only those that could be claimed now
    #[arg(long)]
    claimable: bool,
    /// At most this many; 0 for all
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: u32,
}

/// List what you could claim, the most urgent first
#[derive(clap::Args)]
struct NextArgs {
    #[command(flatten)]
    within: WorkflowArg,
    /// At most this many
    #[arg(long, value_name = "N", default_value_t = 10)]
    limit: u32,
}

/// Show a task with its latest checkpoints and its history
#[derive(clap::Args)]
struct ShowArgs {
    #[command(flatten)]
    task: TaskArg,
}

/// Take a task to work on, and get all you have to know
///
/// Without a name, it is the most urgent one that you may have; exit code 6 says that there is none. A task that others
/// hold, that waits for others, that is assigned to somebody else or needs what you did not register is refused with
/// exit code 4, and so is whatever would be too many at once. Claiming what you hold renews the lease.
#[derive(clap::Args)]
struct ClaimArgs {
    /// The task: an id, a name, or workflow/name
    #[arg(value_name = "TASK")]
    task: Option<String>,
    #[command(flatten)]
    within: WorkflowArg,
    /// How long the lease lasts after each sign of life [default: 10m]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    ttl: Option<u64>,
    /// How many tokens the context may have, four bytes each [default: 8000]
    #[arg(long, value_name = "N")]
    budget: Option<u32>,
    /// Wait until it can be claimed
    #[arg(long)]
    wait: bool,
    /// How long to wait at most, for example 10m; for ever if nobody says
    #[arg(long, value_name = "TIME", value_parser = parse_duration, requires = "wait")]
    timeout: Option<u64>,
}

/// Note how far a task got, so that another agent could go on from there
#[derive(clap::Args)]
struct CheckpointArgs {
    #[command(flatten)]
    task: TaskArg,
    #[command(flatten)]
    epoch: EpochArg,
    /// What it is about: plan, replan, progress, decision, error, recovery or complete
    #[arg(long = "type", value_name = "TYPE", value_parser = parse_enum::<CheckpointKind>, default_value = "progress")]
    kind: CheckpointKind,
    /// One line; - for standard input
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    summary: String,
    /// Everything else: words or JSON, @FILE, or - for standard input
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    detail: Option<String>,
    /// A file that was changed
    #[arg(long, value_name = "PATH")]
    file: Vec<String>,
    /// Tokens used so far
    #[arg(long, value_name = "N")]
    tokens: Option<u64>,
    /// Money spent so far
    #[arg(long, value_name = "X")]
    cost: Option<f64>,
    /// Do it once: the same key gives the same answer, also after a crash
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
}

/// Say that you are alive, and renew your leases
#[derive(clap::Args)]
struct HeartbeatArgs {
    /// Only this task's lease: an id, a name, or workflow/name
    #[arg(value_name = "TASK")]
    task: Option<String>,
    #[command(flatten)]
    within: WorkflowArg,
    #[command(flatten)]
    epoch: EpochArg,
}

/// Complete a task that you hold
///
/// If it has an issue, the issue is closed with the outcome as the reason.
#[derive(clap::Args)]
struct DoneArgs {
    #[command(flatten)]
    task: TaskArg,
    #[command(flatten)]
    epoch: EpochArg,
    /// What came out; - for standard input
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    outcome: String,
    /// What shows that it did, for example a command and what it printed
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    evidence: Option<String>,
    /// Do it once: the same key gives the same answer, also after a crash
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
}

/// End an attempt that did not succeed; the next one follows while attempts remain
#[derive(clap::Args)]
struct FailArgs {
    #[command(flatten)]
    task: TaskArg,
    #[command(flatten)]
    epoch: EpochArg,
    /// What went wrong; - for standard input
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    error: String,
    /// No further attempt can succeed
    #[arg(long)]
    hopeless: bool,
    /// Do it once: the same key gives the same answer, also after a crash
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
}

/// Give a task back; no attempt is counted
#[derive(clap::Args)]
struct ReleaseArgs {
    #[command(flatten)]
    task: TaskArg,
    #[command(flatten)]
    epoch: EpochArg,
    /// Take it from whoever holds it: for coordinators and people
    #[arg(long)]
    force: bool,
    /// Why
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    reason: Option<String>,
}

/// Set a task aside, until somebody claims it by name
#[derive(clap::Args)]
struct PauseArgs {
    #[command(flatten)]
    task: TaskArg,
    #[command(flatten)]
    epoch: EpochArg,
    /// Why
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    reason: Option<String>,
}

/// Mark a task as not needed; those that wait for it may go on
#[derive(clap::Args)]
struct SkipArgs {
    #[command(flatten)]
    task: TaskArg,
    /// Why
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    reason: Option<String>,
}

/// Let a task that is over be done once more
#[derive(clap::Args)]
struct ReopenArgs {
    #[command(flatten)]
    task: TaskArg,
    /// Why
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    reason: Option<String>,
}

/// Ask a person something that a task needs to know; it waits, and you are free
#[derive(clap::Args)]
struct AskArgs {
    #[command(flatten)]
    task: TaskArg,
    #[command(flatten)]
    epoch: EpochArg,
    /// What to know; - for standard input
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    question: String,
}

/// Answer what a task asked; it can be claimed again
#[derive(clap::Args)]
struct AnswerArgs {
    #[command(flatten)]
    task: TaskArg,
    /// The answer; - for standard input
    #[arg(value_name = "TEXT")]
    text: String,
}

/// Say who alone may claim a task, or that everybody may
#[derive(clap::Args)]
struct AssignArgs {
    #[command(flatten)]
    task: TaskArg,
    /// The agent: a name or an id
    #[arg(value_name = "AGENT", required_unless_present = "nobody", conflicts_with = "nobody")]
    assignee: Option<String>,
    /// Let everybody claim it
    #[arg(long)]
    nobody: bool,
}

/// Wait until a task is over, or asks a person something
///
/// Ends with 0 when it is completed or skipped, with 4 when it is dead, called off or asks something, and with 6 when
/// time was up first.
#[derive(clap::Args)]
struct WaitArgs {
    #[command(flatten)]
    task: TaskArg,
    /// How long to wait at most, for example 10m; for ever if nobody says
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    timeout: Option<u64>,
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    match &args.command {
        Command::List(args) => list(cx, args)?,
        Command::Next(args) => {
            let operation = NextTasks { workflow: args.within.workflow.clone(), limit: args.limit.max(1) };
            let list = cx.work()?.read(operation)?;
            answer_list(cx, &list, args.within.workflow.is_none())?;
        }
        Command::Show(args) => show(cx, args)?,
        Command::Claim(args) => claim(cx, args)?,
        Command::Checkpoint(args) => note(cx, args)?,
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
            let task = cx.work()?.write(operation)?;
            cx.answer_task("Released", &task)?;
        }
        Command::Pause(args) => {
            let operation = PauseTask {
                task: args.task.task.clone(),
                workflow: args.task.within.workflow.clone(),
                epoch: args.epoch.of(cx, Some(&args.task.task)),
                reason: args.reason.clone(),
            };
            let task = cx.work()?.write(operation)?;
            cx.answer_task("Set aside", &task)?;
            cx.ui.note(&format!("to go on with it: way task claim {}", task.task.id));
        }
        Command::Skip(SkipArgs { task, reason }) => {
            let (task, workflow) = (task.task.clone(), task.within.workflow.clone());
            let task = cx.work()?.write(SkipTask { task, workflow, reason: reason.clone() })?;
            cx.answer_task("Skipped", &task)?;
        }
        Command::Reopen(ReopenArgs { task, reason }) => {
            let (task, workflow) = (task.task.clone(), task.within.workflow.clone());
            let task = cx.work()?.write(ReopenTask { task, workflow, reason: reason.clone() })?;
            cx.answer_task("Reopened", &task)?;
        }
        Command::Ask(args) => {
            let operation = AskQuestion {
                task: args.task.task.clone(),
                workflow: args.task.within.workflow.clone(),
                epoch: args.epoch.of(cx, Some(&args.task.task)),
                question: text_or_stdin(&args.question)?,
            };
            let task = cx.work()?.write(operation)?;
            cx.answer_task("Asked", &task)?;
        }
        Command::Answer(AnswerArgs { task, text }) => {
            let (task, workflow) = (task.task.clone(), task.within.workflow.clone());
            let task = cx.work()?.write(AnswerQuestion { task, workflow, answer: text_or_stdin(text)? })?;
            cx.answer_task("Answered", &task)?;
        }
        Command::Assign(AssignArgs { task, assignee, .. }) => {
            let (task, workflow) = (task.task.clone(), task.within.workflow.clone());
            let task = cx.work()?.write(AssignTask { task, workflow, agent: assignee.clone() })?;
            cx.ui.answer(&task, |text| {
                let to = task.assigned_to.as_deref().map_or("to nobody".to_owned(), |agent| format!("to {agent}"));
                text.line(task_line(&format!("Assigned {to}:"), &task));
            })?;
        }
        Command::Context(args) => return context::run(cx, args),
        Command::Wait(args) => wait(cx, args)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn list(cx: &mut CommandContext, args: &ListArgs) -> Result<()> {
    let mut session = cx.work()?;
    let operation = ListTasks {
        workflow: args.within.workflow.clone(),
        statuses: args.status.clone(),
        claimable: args.claimable,
        worktree_id: cx.worktree_filter(&mut session)?,
        limit: if args.limit == 0 { u32::MAX } else { args.limit },
    };
    let list = session.read(operation)?;
    if list.more > 0 && cx.ui.json {
        cx.ui.warn(&format!("there are {} more: --limit 0 lists all", list.more));
    }
    answer_list(cx, &list, args.within.workflow.is_none())?;
    if list.more > 0 {
        cx.ui.note(&format!("there are {} more: --limit 0 lists all", list.more));
    }
    if list.tasks.is_empty() {
        cx.ui.note("there are no such tasks");
    }
    Ok(())
}

fn answer_list(cx: &CommandContext, list: &TaskList, of_several: bool) -> Result<()> {
    cx.ui.answer(&list.tasks, |text| {
        if !list.tasks.is_empty() {
            text.table(&task_table(&list.tasks, of_several));
        }
    })
}

fn show(cx: &mut CommandContext, args: &ShowArgs) -> Result<()> {
    let mut session = cx.work()?;
    let operation = ShowTask { task: args.task.task.clone(), workflow: args.task.within.workflow.clone() };
    let page = session.read(operation)?;
    let now = session.now()?;
    cx.ui.answer(&page, |text| write_page(text, &page, now))
}

fn write_page(text: &mut Text, page: &TaskPage, now: Timestamp) {
    let (view, task) = (&page.task, &page.task.task);
    text.table(&[vec![styled(BOLD, &task.name), styled(DIM, &task.id)]]);
    let names = |names: &[String]| Some(names.join(", ")).filter(|names| !names.is_empty());
    let json = |value: &serde_json::Value| match value {
        serde_json::Value::Object(fields) if fields.is_empty() => None,
        serde_json::Value::String(text) => Some(text.clone()),
        value => Some(value.to_string()),
    };
    let held = view.holder.as_ref().zip(view.epoch).zip(view.expires_at);
    let spans = |span: Option<u64>| span.map(format_duration);
    let facts = [
        ("status", Some(humanize(task.status.as_str()))),
        ("workflow", Some(format!("{} ({})", view.workflow, task.workflow_id))),
        ("priority", Some(format!("P{}", task.priority))),
        (
            "holder",
            held.map(|((who, epoch), end)| format!("{who}, epoch {epoch}, ends {}", format_time_until(end, now))),
        ),
        ("only for", view.assigned_to.clone()),
        ("needs", names(&view.depends_on)),
        ("waits for", names(&view.blocked_by)),
        ("context from", names(&task.context_from)),
        ("able to", names(&task.capabilities)),
        ("files", names(&task.files)),
        ("issue", task.issue.clone()),
        ("group", task.parallel_group.clone()),
        ("attempts", Some(format!("{} failed of {}", task.attempts, task.max_attempts))),
        (
            "next attempt",
            (task.status == TaskStatus::Failed).then_some(task.due_at).flatten().map(|due| format_time_until(due, now)),
        ),
        ("may take", spans(task.run_timeout_ms)),
        ("may be silent", spans(task.stall_timeout_ms)),
        ("may wait", spans(task.queue_timeout_ms)),
        ("evidence", task.needs_evidence.then(|| task.evidence.clone().unwrap_or_else(|| "needed".to_owned()))),
        ("changed", Some(task.updated_at.ago(now))),
    ];
    let rows: Vec<_> =
        facts.into_iter().filter_map(|(name, value)| Some(vec![styled(DIM, name), cell(value?)])).collect();
    text.table(&rows);
    let bodies = [
        ("Description", Some(task.description.clone())),
        ("Done when", Some(task.acceptance.join("\n"))),
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
        text.table(&checkpoint::table(&page.checkpoints, now));
    }
    text.gap();
    text.heading("History");
    let rows: Vec<_> = page
        .events
        .iter()
        .map(|event| {
            vec![cell(&event.kind), styled(DIM, format!("by {}", event.actor)), styled(DIM, event.time.ago(now))]
        })
        .collect();
    text.table(&rows);
}

fn claim(cx: &mut CommandContext, args: &ClaimArgs) -> Result<()> {
    let mut session = cx.work()?;
    // The task may stand for an issue, which is nobody else's then.
    claims::set_mark(&session.place)?;
    let operation = ClaimTask {
        task: args.task.clone(),
        workflow: args.within.workflow.clone(),
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
            (None, None) => return Err(Error::internal("nothing was claimed, for no reason")),
        }
    } else {
        claim_what_is_there(&mut session, &operation)?
    };
    if let Some(warning) = claims::complete_claim(&session.place, claimed.task.task.issue.as_deref())? {
        cx.ui.warn(&warning);
    }
    cx.ui.answer(&claimed, |text| {
        let lease = &claimed.lease;
        text.line(format!(
            "Claimed {}  {}/{}  epoch {}, until {}",
            claimed.task.task.id, claimed.task.workflow, claimed.task.task.name, lease.epoch, lease.expires_at
        ));
        text.gap();
        write_lines(text, &claimed.context.text);
    })
}

/// Claims, or returns why that was refused, if it may be possible later.
fn try_claim(session: &mut Session, operation: &ClaimTask) -> Result<Result<Claimed>> {
    let error = match claim_what_is_there(session, operation) {
        Ok(claimed) => return Ok(Ok(claimed)),
        Err(error) => error,
    };
    match (error.kind(), &operation.task) {
        (Kind::NothingToDo, None) => Ok(Err(error)),
        (Kind::Conflict, Some(task)) => {
            let page = session.read(ShowTask { task: task.clone(), workflow: operation.workflow.clone() })?;
            if page.task.task.status.is_final() { Err(error) } else { Ok(Err(error)) }
        }
        _ => Err(error),
    }
}

/// Claims, if there is anything: many may ask in vain, and none of them holds up those who write.
fn claim_what_is_there(session: &mut Session, operation: &ClaimTask) -> Result<Claimed> {
    if operation.task.is_none() {
        session.read(NextTasks { workflow: operation.workflow.clone(), limit: 1 })?;
    }
    session.write(operation.clone())
}

fn note(cx: &mut CommandContext, args: &CheckpointArgs) -> Result<()> {
    let operation = CheckpointTask {
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
    let noted = cx.work()?.write_once(args.key.as_deref(), operation)?;
    cx.ui.answer(&noted, |text| {
        let (checkpoint, lease) = (&noted.checkpoint, &noted.lease);
        text.line(format!(
            "Noted {}  number {}, lease until {}{}",
            checkpoint.id,
            checkpoint.sequence,
            lease.expires_at,
            unread(noted.unread)
        ));
    })
}

/// How many messages wait, in words.
fn unread(count: u64) -> String {
    match count {
        0 => String::new(),
        1 => ", 1 unread message".to_owned(),
        count => format!(", {count} unread messages"),
    }
}

fn heartbeat(cx: &mut CommandContext, args: &HeartbeatArgs) -> Result<()> {
    let operation = Heartbeat {
        task: args.task.clone(),
        workflow: args.within.workflow.clone(),
        epoch: args.epoch.of(cx, args.task.as_deref()),
    };
    let alive = cx.work()?.write(operation)?;
    cx.ui.answer(&alive, |text| write_alive(text, &alive))
}

fn write_alive(text: &mut Text, alive: &Alive) {
    if alive.is_cancelled {
        text.line("The task was called off: stop working on it");
    }
    let next = format_duration(alive.next_ms);
    text.line(format!("{} held{}, next sign of life within {next}", alive.leases.len(), unread(alive.unread)));
    let row = |lease: &waypost_core::model::Lease| {
        vec![cell(format!("  {}", lease.subject)), cell(format!("epoch {}", lease.epoch)), cell(lease.expires_at)]
    };
    text.table(&alive.leases.iter().map(row).collect::<Vec<_>>());
}

fn done(cx: &mut CommandContext, args: &DoneArgs) -> Result<()> {
    let mut session = cx.work()?;
    claims::set_mark(&session.place)?;
    let operation = FinishTask {
        task: args.task.task.clone(),
        workflow: args.task.within.workflow.clone(),
        epoch: args.epoch.of(cx, Some(&args.task.task)),
        outcome: text_or_stdin(&args.outcome)?,
        evidence: args.evidence.clone(),
    };
    let task = session.write_once(args.key.as_deref(), operation)?;
    // It is done whatever becomes of its issue.
    let mut closed = None;
    match (claims::deliver_notices(&mut session), &task.task.issue) {
        (Ok(told), Some(issue)) => {
            for NoticeOutcome { result, .. } in told.into_iter().filter(|told| told.notice.issue == *issue) {
                match result {
                    Ok(done) if done == CLOSED => closed = Some(issue),
                    Ok(why) => cx.ui.warn(&format!("issue {issue} was not closed: {why}")),
                    Err(error) => cx.ui.warn(&format!("issue {issue} was not closed yet: {}", error.full_message())),
                }
            }
        }
        (Err(error), Some(issue)) => {
            cx.ui.warn(&format!("issue {issue} was not closed yet: {}", error.full_message()));
        }
        (_, None) => {}
    }
    cx.ui.answer(&task, |text| {
        text.line(task_line("Finished", &task));
        if let Some(issue) = closed {
            text.line(format!("Closed {issue}"));
        }
    })
}

fn fail(cx: &mut CommandContext, args: &FailArgs) -> Result<()> {
    let mut session = cx.work()?;
    let operation = FailTask {
        task: args.task.task.clone(),
        workflow: args.task.within.workflow.clone(),
        epoch: args.epoch.of(cx, Some(&args.task.task)),
        error: text_or_stdin(&args.error)?,
        hopeless: args.hopeless,
    };
    let task = session.write_once(args.key.as_deref(), operation)?;
    let now = session.now()?;
    cx.ui.answer(&task, |text| {
        let (attempts, most) = (task.task.attempts, task.task.max_attempts);
        let next = match (task.task.status, task.task.due_at) {
            (TaskStatus::Dead, _) => ", none is left".to_owned(),
            (TaskStatus::Failed, Some(due)) => format!(", next {}", format_time_until(due, now)),
            _ => String::new(),
        };
        text.line(format!("{}, {attempts} of {most} attempts{next}", task_line("Failed", &task)));
    })
}

fn wait(cx: &mut CommandContext, args: &WaitArgs) -> Result<()> {
    let mut session = cx.work()?;
    let operation = ShowTask { task: args.task.task.clone(), workflow: args.task.within.workflow.clone() };
    // By its id from here on: a name may come to mean another.
    let task = session.read(operation)?.task.task.id.to_string();
    let mut status = TaskStatus::Pending;
    let over = wait_for(&mut session, args.timeout, |session| {
        let seen = session.read(ShowTask { task: task.clone(), workflow: None })?.task;
        status = seen.task.status;
        let is_over = seen.task.status.is_final() || seen.task.status == TaskStatus::WaitingInput;
        Ok(is_over.then_some(seen))
    })?;
    let Some(over) = over else {
        let waited = format_duration(args.timeout.unwrap_or_default());
        let message = format!("task {task} is not over after {waited}: {}", humanize(status.as_str()));
        return Err(Error::new(Kind::NothingToDo, message));
    };
    let (name, status) = (&over.task.name, over.task.status);
    if status.satisfies() {
        return cx.answer_task("Ended", &over);
    }
    let asks = |question: &String| {
        Error::conflict(format!("task {name} asks a person"))
            .because(question)
            .hint(format!("way task answer {} TEXT", over.task.id))
    };
    Err(match (status, &over.task.question) {
        (TaskStatus::WaitingInput, Some(question)) => asks(question),
        _ => over.task.error.iter().fold(
            Error::conflict(format!("task {name} is {status}")).hint(format!("way task show {}", over.task.id)),
            Error::because,
        ),
    })
}
