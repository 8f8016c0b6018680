//! `way msg`

use std::process::ExitCode;
use std::time::{Duration, Instant};

use waypost_core::id::{MessageId, TaskId, WorkflowId};
use waypost_core::model::{EventQuery, Message, MessageKind, MessageState, Urgency};
use waypost_core::op::{
    AckMessage, BroadcastMessage, Heartbeat, Inbox, ListEvents, ListInbox, MessageView, ReadMessage, SendMessage,
    ShowAgent, ShowThread,
};
use waypost_core::time::Timestamp;
use waypost_core::{Error, Kind, Result};

use super::agent::role;
use crate::issues::text_or_stdin;
use crate::spans::parse_duration;
use crate::ui::{BAD, BOLD, Cell, DIM, PLAIN, Style, Text, WARN, cell, styled};
use crate::{CommandContext, in_one_line};
use waypost::session::Session;

/// Write to other agents, and read what they wrote
///
/// A message stays in its inbox until it is acknowledged, whoever is offline meanwhile. Who sends and who reads is who
/// --agent names; without it, you.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way --agent lead msg send builder 'Please rebase first' --task build --priority high
  way --agent builder msg inbox --wait --timeout 5m
  way --agent builder msg send --reply-to msg_0a1b2c3d4e5f 'Done'
  way --agent builder msg ack msg_0a1b2c3d4e5f
  git log -5 | way msg broadcast - --role worker --subject 'What is new'")]
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

/// What all messages have.
#[derive(clap::Args)]
struct Envelope {
    /// One line [default: the beginning of the text]
    #[arg(long)]
    subject: Option<String>,
    /// task_assignment, status_update, query, response or broadcast
    #[arg(long = "type", value_name = "TYPE", value_parser = |text: &str| text.parse::<MessageKind>().map_err(in_one_line))]
    kind: Option<MessageKind>,
    /// low, normal, high or urgent
    #[arg(long, value_parser = |text: &str| text.parse::<Urgency>().map_err(in_one_line))]
    priority: Option<Urgency>,
    /// The task it is about
    #[arg(long)]
    task: Option<String>,
    /// The workflow it is about
    #[arg(long)]
    workflow: Option<String>,
    /// How long it is of use; after that it is not shown any more
    #[arg(long, value_name = "SPAN", value_parser = parse_duration)]
    ttl: Option<u64>,
    /// Send it once, however often this is run with the same key
    #[arg(long)]
    key: Option<String>,
}

/// Send a message to an agent
#[derive(clap::Args)]
#[command(
    override_usage = "way msg send [OPTIONS] <AGENT> <TEXT|->\n       way msg send [OPTIONS] --reply-to <MSG> [AGENT] <TEXT|->"
)]
struct SendArgs {
    /// Whose inbox it goes to; may be left out in an answer
    #[arg(value_name = "AGENT")]
    first: String,
    /// What it says; - for standard input
    #[arg(value_name = "TEXT|-")]
    second: Option<String>,
    /// The message it answers
    #[arg(long, value_name = "MSG")]
    reply_to: Option<MessageId>,
    #[command(flatten)]
    envelope: Envelope,
}

/// Send a message to all agents it may concern
#[derive(clap::Args)]
struct BroadcastArgs {
    /// What it says; - for standard input
    #[arg(value_name = "TEXT|-")]
    body: String,
    /// Only to coordinators, workers or humans
    #[arg(long, value_name = "ROLE")]
    role: Option<String>,
    /// Only to those that run on this
    #[arg(long)]
    runtime: Option<String>,
    /// Only to those that hold a task of this workflow
    #[arg(long, value_name = "WORKFLOW")]
    working_on: Option<String>,
    #[command(flatten)]
    envelope: Envelope,
}

/// Show what waits in the inbox of the caller, in the order in which it was sent
///
/// A message is shown until it is acknowledged, so that nothing is lost if its reader dies.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way --agent builder msg inbox
  way --agent builder msg inbox --wait --timeout 10m    exits with 6 if nothing came")]
struct InboxArgs {
    /// Only look: what is shown does not count as seen
    #[arg(long)]
    peek: bool,
    /// At most this many
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// Wait until something is there; what the caller holds is renewed meanwhile
    #[arg(long)]
    wait: bool,
    /// How long to wait at most
    #[arg(long, value_name = "SPAN", value_parser = parse_duration, requires = "wait")]
    timeout: Option<u64>,
}

/// Show a message of the caller's inbox in full
#[derive(clap::Args)]
struct ReadArgs {
    /// Its id
    #[arg(value_name = "MSG")]
    message: MessageId,
}

/// Say that messages are dealt with: they are not shown again
#[derive(clap::Args)]
struct AckArgs {
    /// Their ids
    #[arg(value_name = "MSG", required = true)]
    messages: Vec<MessageId>,
}

/// Show the conversation that a message is a part of
#[derive(clap::Args)]
struct ThreadArgs {
    /// Any message of it
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
            return Err(Error::invalid("a message needs a recipient and a text").hint("way msg send AGENT TEXT"));
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
    let message = cx.session()?.write_once(key.as_deref(), operation)?;
    cx.ui.answer(&message, |text| text.line(format!("Sent {}", message.id)))?;
    Ok(ExitCode::SUCCESS)
}

fn broadcast(cx: &mut CommandContext, args: &BroadcastArgs) -> Result<ExitCode> {
    let Envelope { subject, kind, priority, task, workflow, ttl, key } = &args.envelope;
    let operation = BroadcastMessage {
        role: role(args.role.as_deref())?,
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
    let messages: Vec<Message> = cx.session()?.write_once(key.as_deref(), operation)?.messages;
    cx.ui.answer(&messages, |text| match messages.len() {
        1 => text.line("Sent to 1 agent"),
        many => text.line(format!("Sent to {many} agents")),
    })?;
    Ok(ExitCode::SUCCESS)
}

fn inbox(cx: &mut CommandContext, args: &InboxArgs) -> Result<ExitCode> {
    let mut session = cx.session()?;
    let operation = ListInbox { limit: args.limit, peek: args.peek };
    let inbox = if args.wait {
        wait(&mut session, operation, args.timeout.map(Duration::from_millis))?
    } else {
        session.write(operation)?
    };
    let now = session.now()?;
    cx.ui.answer(&inbox.messages, |text| {
        for (number, letter) in inbox.messages.iter().enumerate() {
            if number > 0 {
                text.gap();
            }
            show(text, letter, now, Some(LINES));
        }
    })?;
    let left = inbox.unread.saturating_sub(inbox.messages.len() as u64);
    if inbox.messages.is_empty() {
        cx.ui.note("the inbox is empty");
    } else if left > 0 {
        cx.ui.note(&format!("{left} more wait: acknowledge these, or raise --limit"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Waits for the inbox to have something in it, with signs of life in the name of whoever waits.
fn wait(session: &mut Session, operation: ListInbox, at_most: Option<Duration>) -> Result<Inbox> {
    let reader = session.place.agent().unwrap_or_else(|| session.place.actor());
    let sign_of_life = Heartbeat { task: None, workflow: None, epoch: None };
    let start = Instant::now();
    loop {
        let patience = Duration::from_millis(session.write(sign_of_life.clone())?.next_ms);
        let heard = Instant::now();
        while heard.elapsed() < patience {
            let last = session.read(ListEvents { query: EventQuery::default() })?.last;
            // Looked at after the last event is known: what comes between the two ends the wait at once.
            if session.read(ShowAgent { agent: reader.clone() })?.unread > 0 {
                return session.write(operation);
            }
            let left = at_most.map(|at_most| at_most.saturating_sub(start.elapsed()));
            if left.is_some_and(|left| left.is_zero()) {
                return Err(Error::new(Kind::NothingToDo, "no message came"));
            }
            session.wait(last, patience.saturating_sub(heard.elapsed()).min(left.unwrap_or(Duration::MAX)))?;
        }
    }
}

fn read(cx: &mut CommandContext, args: &ReadArgs) -> Result<ExitCode> {
    let mut session = cx.session()?;
    let letter = session.write(ReadMessage { message: args.message.clone() })?;
    let now = session.now()?;
    cx.ui.answer(&letter, |text| show(text, &letter, now, None))?;
    Ok(ExitCode::SUCCESS)
}

fn ack(cx: &mut CommandContext, args: &AckArgs) -> Result<ExitCode> {
    let acked = cx.session()?.write(AckMessage { messages: args.messages.clone() })?;
    cx.ui.answer(&acked, |text| {
        let what = if acked.messages.len() == 1 {
            "1 message".to_owned()
        } else {
            format!("{} messages", acked.messages.len())
        };
        text.line(format!("Acknowledged {what}; {} left", acked.unread));
    })?;
    Ok(ExitCode::SUCCESS)
}

fn thread(cx: &mut CommandContext, args: &ThreadArgs) -> Result<ExitCode> {
    let mut session = cx.session()?;
    let letters = session.read(ShowThread { message: args.message.clone() })?.messages;
    let now = session.now()?;
    cx.ui.answer(&letters, |text| {
        for (number, letter) in letters.iter().enumerate() {
            if number > 0 {
                text.gap();
            }
            show(text, letter, now, None);
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

/// How many lines of a message a list shows.
const LINES: usize = 8;

/// Shows a message: one line about it, and what it says.
fn show(text: &mut Text, letter: &MessageView, now: Timestamp, lines: Option<usize>) {
    let Message { id, kind, priority, subject, body, created_at, expires_at, state, task_id, workflow_id, .. } =
        &letter.message;
    let mut head: Vec<Cell> =
        vec![styled(BOLD, id), cell(format!("{} to {}", letter.from, letter.to)), styled(DIM, kind)];
    head.extend((*priority != Urgency::Normal).then(|| styled(urgency(*priority), priority)));
    head.extend((*state > MessageState::Presented).then(|| styled(DIM, state)));
    head.push(styled(DIM, created_at.ago(now)));
    head.extend(expires_at.map(|moment| styled(DIM, format!("of use until {moment}"))));
    let about = task_id.as_ref().map(TaskId::as_str).or(workflow_id.as_ref().map(WorkflowId::as_str));
    head.extend(about.map(|about| styled(DIM, format!("about {about}"))));
    text.table(&[head]);
    let is_short = body.lines().next() == Some(subject.as_str()) || body.is_empty();
    if !is_short || body.is_empty() {
        text.table(&[vec![styled(BOLD, format!("  {subject}"))]]);
    }
    let shown = lines.unwrap_or(usize::MAX);
    for line in body.lines().take(shown) {
        text.line(format!("  {line}"));
    }
    let left = body.lines().count().saturating_sub(shown);
    if left > 0 {
        text.line(format!("  and {left} more lines: way msg read {id}"));
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
