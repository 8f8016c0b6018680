//! Messages between agents.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::text_enum::text_enum;
use crate::id::{AgentId, MessageId, TaskId, WorkflowId, WorktreeId};
use crate::time::Timestamp;

text_enum! {
    /// The type of a message.
    MessageKind: "a type of message" {
        /// Assigns work.
        TaskAssignment = "task_assignment",
        /// Reports progress.
        StatusUpdate = "status_update",
        /// Asks a question.
        Query = "query",
        /// Answers a question.
        Response = "response",
        /// Goes to all matching agents.
        Broadcast = "broadcast",
    }
}

text_enum! {
    /// How soon the recipient should read a message.
    Urgency: "a priority of messages" {
        /// At any time.
        Low = "low",
        /// In its turn.
        Normal = "normal",
        /// Before others.
        High = "high",
        /// Now.
        Urgent = "urgent",
    }
}

text_enum! {
    /// The delivery state of a message.
    MessageState: "a state of messages" {
        /// In the inbox, not listed yet.
        Queued = "queued",
        /// Listed with the inbox.
        Presented = "presented",
        /// Opened.
        Read = "read",
        /// Acknowledged by its recipient.
        Acted = "acted",
    }
}

/// A persistent item in an agent's inbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Message {
    /// Its id.
    pub id: MessageId,
    /// Its number in the order of all messages.
    pub number: u64,
    /// The agent that sent it.
    pub sender: AgentId,
    /// The agent whose inbox it is in.
    pub recipient: AgentId,
    /// The first message of the conversation.
    pub thread: MessageId,
    /// The message it replies to.
    pub reply_to: Option<MessageId>,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: MessageKind,
    /// How soon the recipient should read it.
    pub priority: Urgency,
    /// The subject line.
    pub subject: String,
    /// The text.
    pub body: String,
    /// The workflow it is about.
    pub workflow_id: Option<WorkflowId>,
    /// The task it is about.
    pub task_id: Option<TaskId>,
    /// When it expires.
    pub expires_at: Option<Timestamp>,
    /// Its delivery state.
    pub state: MessageState,
    /// The worktree it was sent from.
    pub worktree_id: WorktreeId,
    /// When it was sent.
    pub created_at: Timestamp,
    /// When its state last changed.
    pub updated_at: Timestamp,
}
