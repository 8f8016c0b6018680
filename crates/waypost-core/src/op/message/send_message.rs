//! Sends a message to an agent.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::context::OpContext;
use crate::error::{Error, Result};
use crate::id::MessageId;
use crate::model::{Message, MessageKind, Urgency};
use crate::op::{Access, Effect, JobAccess, Operation, StoreOperation};
use crate::work::inbox::{self, Draft};
use crate::work::{agents, find};

/// Sends a message to an agent.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct SendMessage {
    /// The recipient: id or name [default: the sender of the message in `reply_to`].
    #[serde(default)]
    pub to: Option<String>,
    /// The message to reply to.
    #[serde(default)]
    pub reply_to: Option<MessageId>,
    /// The kind of message.
    #[serde(default)]
    pub kind: Option<MessageKind>,
    /// The priority.
    #[serde(default)]
    pub priority: Option<Urgency>,
    /// The subject, one line [default: the beginning of the body].
    #[serde(default)]
    pub subject: Option<String>,
    /// The full text.
    pub body: String,
    /// The workflow that the message is about.
    #[serde(default)]
    pub workflow: Option<String>,
    /// The task that the message is about.
    #[serde(default)]
    pub task: Option<String>,
    /// The time after which the message expires, in milliseconds.
    #[serde(default)]
    pub ttl_ms: Option<u64>,
}

impl Operation for SendMessage {
    const NAME: &'static str = "send_message";
    const SUMMARY: &'static str = "Send a message";
    const EFFECT: Effect = Effect::Write;
    const ACCESS: Access = Access::AGENTS.with_jobs(JobAccess::All);
    type Answer = Message;
}

impl StoreOperation for SendMessage {
    fn run(self, cx: &mut OpContext<'_>) -> Result<Message> {
        let sender = agents::caller(cx)?;
        let answered = match &self.reply_to {
            None => None,
            Some(id) => match cx.tx.message_get(id)? {
                Some(message) if message.recipient == sender.id || message.sender == sender.id => Some(message),
                Some(_) => {
                    return Err(Error::refused(format!(
                        "message {id} was neither sent by nor addressed to {}",
                        sender.name
                    )));
                }
                None => return Err(Error::not_found(format!("no message {id}"))),
            },
        };
        let recipient = match (&self.to, &answered) {
            (Some(to), _) => find::agent(cx, to)?,
            (None, Some(answered)) if answered.sender == sender.id => find::agent(cx, answered.recipient.as_str())?,
            (None, Some(answered)) => find::agent(cx, answered.sender.as_str())?,
            (None, None) => return Err(Error::invalid("a message needs a recipient").hint("way msg send AGENT TEXT")),
        };
        if recipient.retired_at.is_some() {
            return Err(Error::conflict(format!("agent {} has retired and reads no messages", recipient.name))
                .hint("way agent list"));
        }
        if inbox::is_full(cx, &sender, &recipient.id)? {
            let (name, max) = (&recipient.name, inbox::MAX_UNREAD);
            return Err(Error::conflict(format!("the inbox of {name} is full: it has {max} unacknowledged messages"))
                .hint(format!("way --agent {name} msg ack acknowledges messages; people can still write")));
        }
        let kind = match (self.kind, &answered) {
            (Some(kind), _) => kind,
            (None, Some(answered)) if answered.kind == MessageKind::Query => MessageKind::Response,
            (None, _) => MessageKind::StatusUpdate,
        };
        let subject = self.subject.or_else(|| answered.as_ref().map(|answered| answered.subject.clone()));
        let draft =
            draft(cx, kind, self.priority, subject, self.body, self.workflow, self.task, self.ttl_ms, answered)?;
        inbox::send(cx, &sender, &recipient.id, &draft)
    }
}

/// Builds a draft from the arguments.
#[expect(clippy::too_many_arguments, reason = "they are the fields of two operations")]
pub(crate) fn draft(
    cx: &mut OpContext<'_>,
    kind: MessageKind,
    priority: Option<Urgency>,
    subject: Option<String>,
    body: String,
    workflow: Option<String>,
    task: Option<String>,
    ttl_ms: Option<u64>,
    reply_to: Option<Message>,
) -> Result<Draft> {
    if body.trim().is_empty() && subject.as_ref().is_none_or(|subject| subject.trim().is_empty()) {
        return Err(Error::invalid("a message needs a subject or a body"));
    }
    let task = task.map(|task| find::task(cx, &task, workflow.as_deref())).transpose()?;
    let workflow = workflow.map(|workflow| find::workflow(cx, &workflow)).transpose()?;
    let subject = subject.unwrap_or_else(|| body.lines().next().unwrap_or_default().chars().take(80).collect());
    Ok(Draft {
        kind,
        priority: priority.unwrap_or(Urgency::Normal),
        subject,
        body,
        reply_to,
        workflow_id: workflow.map(|workflow| workflow.id).or(task.as_ref().map(|task| task.workflow_id.clone())),
        task_id: task.map(|task| task.id),
        expires_at: ttl_ms.map(|ttl| cx.now.plus(ttl)),
    })
}
