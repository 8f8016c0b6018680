//! What agents tell each other.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::text_enum::text_enum;
use crate::id::{AgentId, MessageId, TaskId, WorkflowId, WorktreeId};
use crate::time::Timestamp;

text_enum! {
    /// What a message is for.
    MessageKind: "a type of message" {
        /// Here is work for you.
        TaskAssignment = "task_assignment",
        /// This is how it goes.
        StatusUpdate = "status_update",
        /// I need to know something.
        Query = "query",
        /// This is what you wanted to know.
        Response = "response",
        /// To everybody it may concern.
        Broadcast = "broadcast",
    }
}

text_enum! {
    /// How soon a message should be read.
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
    /// How far a message got.
    MessageState: "a state of messages" {
        /// It waits in the inbox.
        Queued = "queued",
        /// The inbox was shown with it.
        Presented = "presented",
        /// It was opened.
        Read = "read",
        /// Its recipient is done with it.
        Acted = "acted",
    }
}

/// A persistent item in an agent's inbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Message {
    /// Its id.
    pub id: MessageId,
    /// Its place in the order of all messages.
    pub number: u64,
    /// Who sent it.
    pub sender: AgentId,
    /// Whose inbox it is in.
    pub recipient: AgentId,
    /// The first message of the conversation.
    pub thread: MessageId,
    /// The message it answers.
    pub reply_to: Option<MessageId>,
    /// What it is for.
    #[serde(rename = "type")]
    pub kind: MessageKind,
    /// How soon it should be read.
    pub priority: Urgency,
    /// One line.
    pub subject: String,
    /// All of it.
    pub body: String,
    /// The workflow it is about.
    pub workflow_id: Option<WorkflowId>,
    /// The task it is about.
    pub task_id: Option<TaskId>,
    /// When it is of no use any more.
    pub expires_at: Option<Timestamp>,
    /// How far it got.
    pub state: MessageState,
    /// The worktree it was sent from.
    pub worktree_id: WorktreeId,
    /// When it was sent.
    pub created_at: Timestamp,
    /// When it got to its state.
    pub updated_at: Timestamp,
}
