//! `way msg`

use std::process::ExitCode;
use std::time::{Duration, Instant};

use waypost_core::id::{MessageId, TaskId, WorkflowId};
use waypost_core::model::{EventQuery, Message, MessageKind, MessageState, Urgency};
use waypost_core::op::{
    AckMessage, BroadcastMessage, Inbox, ListEvents, ListInbox, MessageView, ReadMessage, SendMessage, ShowAgent,
    ShowThread,
};
use waypost_core::time::Timestamp;
use waypost_core::words::count;
use waypost_core::{Error, Kind, Result};

use super::agent::parse_role;
use crate::issues::text_or_stdin;
use crate::spans::parse_duration;
use crate::ui::{BAD, BOLD, Cell, DIM, PLAIN, Style, Text, WARN, cell, styled};
use crate::{CommandContext, in_one_line};
use waypost::app::session::Session;

/// Time between two heartbeats of a reader that is a job and has finished its task.
const HEARTBEAT_INTERVAL: Duration = Duration::from_mins(1);

/// Send messages to other agents, and read yours
///
/// A message stays in the inbox until its recipient acknowledges it, even if sender or recipient are offline. The
/// option --agent names the sender or reader; by default it is you.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way --agent lead msg send builder 'Please rebase first' --task build --priority high
  way --agent builder msg inbox --wait --timeout 5m
  way --agent builder msg send --reply-to msg_0a1b2c3d4e5f 'Done'
  way --agent builder msg ack msg_0a1b2c3d4e5f
  git log -5 | way msg broadcast - --role worker --subject 'Recent changes'")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Send(SendArgs),
    Broadcast(BroadcastArgs),
    Inbox(InboxArgs),
    Read(ReadArgs),
    Ack(AckArgs),
    Thread(ThreadArgs),
}

/// The options that all messages have in common.
#[derive(clap::Args)]
struct Envelope {
    /// Subject line [default: the beginning of the text]
    #[arg(long)]
    subject: Option<String>,
    /// Type: task_assignment, status_update, query, response or broadcast
    #[arg(long = "type", value_name = "TYPE", value_parser = |text: &str| text.parse::<MessageKind>().map_err(in_one_line))]
    kind: Option<MessageKind>,
    /// Priority: low, normal, high or urgent
    #[arg(long, value_parser = |text: &str| text.parse::<Urgency>().map_err(in_one_line))]
    priority: Option<Urgency>,
    /// Task that the message is about
    #[arg(long)]
    task: Option<String>,
    /// Workflow that the message is about
    #[arg(long)]
    workflow: Option<String>,
    /// Time after which the message expires, e.g. 1h [default: never]
    #[arg(long, value_name = "SPAN", value_parser = parse_duration)]
    ttl: Option<u64>,
    /// Idempotency key: a repeated command with the same key sends the message only once
    #[arg(long)]
    key: Option<String>,
}

/// Send a message to an agent
#[derive(clap::Args)]
#[command(
    override_usage = "way msg send [OPTIONS] <AGENT> <TEXT|->\n       way msg send [OPTIONS] --reply-to <MSG> [AGENT] <TEXT|->"
)]
struct SendArgs {
    /// Recipient; optional with --reply-to
    #[arg(value_name = "AGENT")]
    first: String,
    /// Text of the message; - for standard input
    #[arg(value_name = "TEXT|-")]
    second: Option<String>,
    /// Message to reply to
    #[arg(long, value_name = "MSG")]
    reply_to: Option<MessageId>,
    #[command(flatten)]
    envelope: Envelope,
}

/// Send a message to all agents, or to those that match a filter
#[derive(clap::Args)]
struct BroadcastArgs {
    /// Text of the message; - for standard input
    #[arg(value_name = "TEXT|-")]
    body: String,
    /// Only agents with this role: coordinator, worker or human
    #[arg(long, value_name = "ROLE")]
    role: Option<String>,
    /// Only agents with this runtime
    #[arg(long)]
    runtime: Option<String>,
    /// Only agents that hold a task of this workflow
    #[arg(long, value_name = "WORKFLOW")]
    working_on: Option<String>,
    #[command(flatten)]
    envelope: Envelope,
}

/// Show the caller's unacknowledged messages, oldest first
///
/// The inbox shows a message until it is acknowledged, so that no message is lost if its reader crashes.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way --agent builder msg inbox
  way --agent builder msg inbox --wait --timeout 10m    exits with 6 if no message arrives")]
struct InboxArgs {
    /// Show messages without marking them as presented
    #[arg(long)]
    peek: bool,
    /// Maximum number of messages
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// Wait until a message arrives, and renew the caller's leases meanwhile
    #[arg(long)]
    wait: bool,
    /// Maximum time to wait, e.g. 10m [default: no limit]
    #[arg(long, value_name = "SPAN", value_parser = parse_duration, requires = "wait")]
    timeout: Option<u64>,
}

/// Show a message of the caller's inbox in full
#[derive(clap::Args)]
struct ReadArgs {
    /// Id of the message
    #[arg(value_name = "MSG")]
    message: MessageId,
}

/// Acknowledge messages, and remove them from the inbox
#[derive(clap::Args)]
struct AckArgs {
    /// Ids of the messages
    #[arg(value_name = "MSG", required = true)]
    messages: Vec<MessageId>,
}

/// Show the conversation that contains a message
#[derive(clap::Args)]
struct ThreadArgs {
    /// Any message of the conversation
    #[arg(value_name = "MSG")]
    message: MessageId,
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    match &args.command {
        Command::Send(args) => send(cx, args),
        Command::Broadcast(args) => broadcast(cx, args),
        Command::Inbox(args) => inbox(cx, args),
        Command::Read(args) => read(cx, args),
        Command::Ack(args) => ack(cx, args),
        Command::Thread(args) => thread(cx, args),
    }
}

fn send(cx: &mut CommandContext, args: &SendArgs) -> Result<ExitCode> {
    let (to, body) = match (&args.second, &args.reply_to) {
        (Some(body), _) => (Some(args.first.clone()), body),
        (None, Some(_)) => (None, &args.first),
        (None, None) => {
            return Err(
                Error::invalid("no recipient given").hint("use way msg send AGENT TEXT, or reply with --reply-to MSG")
            );
        }
    };
    let body = text_or_stdin(body)?;
    let Envelope { subject, kind, priority, task, workflow, ttl, key } = &args.envelope;
    let operation = SendMessage {
        to,
        reply_to: args.reply_to.clone(),
        kind: *kind,
        priority: *priority,
        subject: subject.clone(),
        body,
        workflow: workflow.clone(),
        task: task.clone(),
        ttl_ms: *ttl,
    };
    let message = cx.session()?.call_once(key.as_deref(), operation)?;
    cx.ui.answer(&message, |text| text.line(format!("Sent {}", message.id)))?;
    Ok(ExitCode::SUCCESS)
}

fn broadcast(cx: &mut CommandContext, args: &BroadcastArgs) -> Result<ExitCode> {
    let Envelope { subject, kind, priority, task, workflow, ttl, key } = &args.envelope;
    let operation = BroadcastMessage {
        role: parse_role(args.role.as_deref())?,
        runtime: args.runtime.clone(),
        working_on: args.working_on.clone(),
        kind: *kind,
        priority: *priority,
        subject: subject.clone(),
        body: text_or_stdin(&args.body)?,
        workflow: workflow.clone(),
        task: task.clone(),
        ttl_ms: *ttl,
    };
    let messages: Vec<Message> = cx.session()?.call_once(key.as_deref(), operation)?.messages;
    cx.ui.answer(&messages, |text| text.line(format!("Sent to {}", count(messages.len(), "agent"))))?;
    Ok(ExitCode::SUCCESS)
}

fn inbox(cx: &mut CommandContext, args: &InboxArgs) -> Result<ExitCode> {
    let mut session = cx.session()?;
    let operation = ListInbox { limit: args.limit, peek: args.peek, after: None };
    let inbox = if args.wait {
        wait(&mut session, operation, args.timeout.map(Duration::from_millis))?
    } else {
        session.call(operation)?
    };
    let now = session.now()?;
    cx.ui.answer(&inbox.messages, |text| {
        for (number, message) in inbox.messages.iter().enumerate() {
            if number > 0 {
                text.gap();
            }
            show(text, message, now, Some(MAX_INBOX_LINES));
        }
    })?;
    let left = inbox.unread.saturating_sub(inbox.messages.len() as u64);
    if inbox.messages.is_empty() {
        cx.ui.note("the inbox is empty; to wait for a message: way msg inbox --wait");
    } else if left > 0 {
        cx.ui.note(&format!("{left} more unread: acknowledge these, or raise --limit"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Waits until the inbox has a message. Meanwhile sends heartbeats for the reader, so that it stays online.
fn wait(session: &mut Session, operation: ListInbox, timeout: Option<Duration>) -> Result<Inbox> {
    let reader = session.place.agent().unwrap_or_else(|| session.place.actor());
    let start = Instant::now();
    loop {
        let heartbeat_interval =
            session.heartbeat()?.map_or(HEARTBEAT_INTERVAL, |alive| Duration::from_millis(alive.next_ms));
        let sent_at = Instant::now();
        while sent_at.elapsed() < heartbeat_interval {
            let last = session.call(ListEvents { query: EventQuery { limit: 1, ..EventQuery::default() } })?.last;
            // Check the inbox after reading the last event: a message that arrives in between ends the wait at once.
            if session.call(ShowAgent { agent: reader.clone() })?.unread > 0 {
                return session.call(operation);
            }
            let left = timeout.map(|timeout| timeout.saturating_sub(start.elapsed()));
            if left.is_some_and(|left| left.is_zero()) {
                return Err(Error::new(Kind::NothingToDo, "no message arrived"));
            }
            session
                .wait(last, heartbeat_interval.saturating_sub(sent_at.elapsed()).min(left.unwrap_or(Duration::MAX)))?;
        }
    }
}

fn read(cx: &mut CommandContext, args: &ReadArgs) -> Result<ExitCode> {
    let mut session = cx.session()?;
    let message = session.call(ReadMessage { message: args.message.clone() })?;
    let now = session.now()?;
    cx.ui.answer(&message, |text| show(text, &message, now, None))?;
    Ok(ExitCode::SUCCESS)
}

fn ack(cx: &mut CommandContext, args: &AckArgs) -> Result<ExitCode> {
    let acked = cx.session()?.call(AckMessage { messages: args.messages.clone() })?;
    cx.ui.answer(&acked, |text| {
        let messages = count(acked.messages.len(), "message");
        text.line(format!("Acknowledged {messages}; {} unread", acked.unread));
    })?;
    Ok(ExitCode::SUCCESS)
}

fn thread(cx: &mut CommandContext, args: &ThreadArgs) -> Result<ExitCode> {
    let mut session = cx.session()?;
    let messages = session.call(ShowThread { message: args.message.clone(), after: None, limit: u32::MAX })?.messages;
    let now = session.now()?;
    cx.ui.answer(&messages, |text| {
        for (number, message) in messages.iter().enumerate() {
            if number > 0 {
                text.gap();
            }
            show(text, message, now, None);
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Maximum number of lines per message in the inbox.
const MAX_INBOX_LINES: usize = 8;

/// Writes a message: a header line, the subject and the body.
fn show(text: &mut Text, view: &MessageView, now: Timestamp, max_lines: Option<usize>) {
    let Message { id, kind, priority, subject, body, created_at, expires_at, state, task_id, workflow_id, .. } =
        &view.message;
    let mut head: Vec<Cell> = vec![styled(BOLD, id), cell(format!("{} to {}", view.from, view.to)), styled(DIM, kind)];
    head.extend((*priority != Urgency::Normal).then(|| styled(urgency(*priority), priority)));
    head.extend((*state > MessageState::Presented).then(|| styled(DIM, state)));
    head.push(styled(DIM, created_at.ago(now)));
    head.extend(expires_at.map(|moment| styled(DIM, format!("expires {moment}"))));
    let about = task_id.as_ref().map(TaskId::as_str).or(workflow_id.as_ref().map(WorkflowId::as_str));
    head.extend(about.map(|about| styled(DIM, format!("about {about}"))));
    text.table(&[head]);
    let is_short = body.lines().next() == Some(subject.as_str()) || body.is_empty();
    if !is_short || body.is_empty() {
        text.table(&[vec![styled(BOLD, format!("  {subject}"))]]);
    }
    let max_lines = max_lines.unwrap_or(usize::MAX);
    for line in body.lines().take(max_lines) {
        text.line(format!("  {line}"));
    }
    let left = body.lines().count().saturating_sub(max_lines);
    if left > 0 {
        text.line(format!("  and {}: way msg read {id}", count(left, "more line")));
    }
}

fn urgency(priority: Urgency) -> Style {
    match priority {
        Urgency::Low => DIM,
        Urgency::Normal => PLAIN,
        Urgency::High => WARN,
        Urgency::Urgent => BAD,
    }
}
