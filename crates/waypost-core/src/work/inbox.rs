//! Sending messages.

use serde_json::json;

use crate::context::OpContext;
use crate::error::{Error, Result};
use crate::id::{AgentId, MessageId, TaskId, WorkflowId};
use crate::model::{Agent, Message, MessageKind, MessageState, Role, Urgency, kind};
use crate::seeded::seeded_bug;
use crate::time::Timestamp;

/// Maximum size of a message.
const MAX_MESSAGE_BYTES: usize = 256 * 1024;
/// Maximum number of unacknowledged messages in an inbox. People can write to a full one.
pub(crate) const MAX_UNREAD: u64 = 10_000;

/// A message to send, without its sender and recipient.
pub(crate) struct Draft {
    pub(crate) kind: MessageKind,
    pub(crate) priority: Urgency,
    pub(crate) subject: String,
    pub(crate) body: String,
    pub(crate) reply_to: Option<Message>,
    pub(crate) workflow_id: Option<WorkflowId>,
    pub(crate) task_id: Option<TaskId>,
    pub(crate) expires_at: Option<Timestamp>,
}

/// Puts a message into an inbox.
pub(crate) fn send(cx: &mut OpContext<'_>, sender: &Agent, recipient: &AgentId, draft: &Draft) -> Result<Message> {
    let size = draft.body.len() + draft.subject.len();
    if size > MAX_MESSAGE_BYTES {
        return Err(Error::invalid(format!("a message of {size} bytes is too long"))
            .hint("put it into a file, and name the file"));
    }
    let id = MessageId::generate(cx.entropy);
    let thread = draft.reply_to.as_ref().map_or_else(|| id.clone(), |answered| answered.thread.clone());
    let message = Message {
        number: cx.tx.message_last()? + 1,
        sender: sender.id.clone(),
        recipient: recipient.clone(),
        thread,
        reply_to: draft.reply_to.as_ref().map(|answered| answered.id.clone()),
        kind: draft.kind,
        priority: draft.priority,
        subject: draft.subject.clone(),
        body: draft.body.clone(),
        workflow_id: draft.workflow_id.clone(),
        task_id: draft.task_id.clone(),
        expires_at: draft.expires_at,
        state: MessageState::Queued,
        worktree_id: cx.caller.worktree.id.clone(),
        created_at: cx.now,
        updated_at: cx.now,
        id,
    };
    cx.tx.message_put(&message)?;
    if seeded_bug("deliver_message_twice") {
        let (id, number) = (MessageId::generate(cx.entropy), message.number + 1);
        cx.tx.message_put(&Message { id, number, ..message.clone() })?;
    }
    let data = json!({
        "sender": message.sender,
        "recipient": message.recipient,
        "thread": message.thread,
        "type": message.kind,
        "priority": message.priority,
        "subject": message.subject,
    });
    cx.event(kind::MESSAGE_SENT, message.id.as_str(), data)?;
    Ok(message)
}

/// Returns whether an inbox takes no more messages of agents.
pub(crate) fn is_full(cx: &mut OpContext<'_>, sender: &Agent, recipient: &AgentId) -> Result<bool> {
    Ok(sender.role != Role::Human && cx.tx.message_count(recipient, cx.now)? >= MAX_UNREAD)
}

/// Advances messages to a state. A message that is further already keeps its state.
pub(crate) fn advance(
    cx: &mut OpContext<'_>,
    messages: &mut [Message],
    state: MessageState,
    event: &'static str,
) -> Result<()> {
    for message in messages.iter_mut().filter(|message| message.state < state) {
        let before = message.state;
        message.state = state;
        message.updated_at = cx.now;
        cx.tx.message_put(message)?;
        cx.event(event, message.id.as_str(), json!({ "changed": { "state": [before, state] } }))?;
    }
    Ok(())
}

/// Finds a message of the caller's own inbox.
pub(crate) fn own(cx: &mut OpContext<'_>, reader: &Agent, id: &MessageId) -> Result<Message> {
    match cx.tx.message_get(id)? {
        Some(message) if message.recipient == reader.id => Ok(message),
        Some(_) => Err(Error::refused(format!("message {id} is not in the inbox of {}", reader.name))),
        None => Err(Error::not_found(format!("no message {id}")).hint("way msg inbox")),
    }
}
