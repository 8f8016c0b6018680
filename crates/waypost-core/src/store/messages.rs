//! The rows of messages, notices and deferred changes.

use crate::error::Result;
use crate::id::{AgentId, MessageId, TaskId, WorkflowId};
use crate::model::{DeferredChanges, Message, Notice};
use crate::time::Timestamp;

/// The part of a transaction that is about messages, notices and deferred changes.
pub trait MessageTx {
    /// Inserts a message, or replaces the one with its id.
    fn message_put(&mut self, message: &Message) -> Result<()>;
    /// Returns a message.
    fn message_get(&mut self, id: &MessageId) -> Result<Option<Message>>;
    /// Returns the number of the newest message, 0 if there is none.
    fn message_last(&mut self) -> Result<u64>;
    /// Returns the messages of an inbox with a higher number that are neither acknowledged nor expired at a moment, in order.
    fn message_list(&mut self, recipient: &AgentId, now: Timestamp, after: u64, limit: u32) -> Result<Vec<Message>>;
    /// Returns how many messages [`Self::message_list`] would return from the first one without a limit.
    fn message_count(&mut self, recipient: &AgentId, now: Timestamp) -> Result<u64>;
    /// Returns the [`Self::message_count`] of each agent, by id, without agents that have no messages.
    fn message_count_by_recipient(&mut self, now: Timestamp) -> Result<Vec<(AgentId, u64)>>;
    /// Returns the messages about a workflow, in order.
    fn message_list_about(&mut self, workflow: &WorkflowId) -> Result<Vec<Message>>;
    /// Removes the reference to a task from its messages, before the task is deleted.
    fn message_detach(&mut self, task: &TaskId) -> Result<()>;
    /// Returns the messages of a thread, in order.
    fn message_list_thread(&mut self, thread: &MessageId) -> Result<Vec<Message>>;
    /// Returns the ids of messages that were handled before a moment, with their times of creation, by thread: acknowledged
    /// or expired, and not changed since. A thread is returned as a whole or not at all; the limit counts threads.
    fn message_list_handled(&mut self, before: Timestamp, limit: u32) -> Result<Vec<(MessageId, Timestamp)>>;
    /// Deletes messages that no other message answers.
    fn message_remove(&mut self, ids: &[MessageId]) -> Result<()>;

    /// Inserts a notice, or replaces the one for the same issue.
    fn notice_put(&mut self, notice: &Notice) -> Result<()>;
    /// Returns all undelivered notices, the oldest first.
    fn notice_list(&mut self) -> Result<Vec<Notice>>;
    /// Deletes the delivered notice for an issue.
    fn notice_remove(&mut self, issue: &str) -> Result<()>;

    /// Inserts deferred changes, or replaces those with the same key.
    fn deferred_put(&mut self, deferred: &DeferredChanges) -> Result<()>;
    /// Returns all deferred changes in the order of delivery.
    fn deferred_list(&mut self) -> Result<Vec<DeferredChanges>>;
    /// Deletes deferred changes by their key.
    fn deferred_remove(&mut self, key: &str) -> Result<()>;
}
