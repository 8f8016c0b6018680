//! The rows of messages, notices and deferred changes.

use waypost_core::Result;
use waypost_core::id::{AgentId, MessageId, TaskId, WorkflowId};
use waypost_core::model::{DeferredChanges, Message, Notice};
use waypost_core::store::MessageTx;
use waypost_core::time::Timestamp;

use super::SqlTx;
use crate::cell::{Row, cells, json};
use crate::sql;

impl MessageTx for SqlTx<'_> {
    fn message_put(&mut self, message: &Message) -> Result<()> {
        self.put(message)
    }

    fn message_get(&mut self, id: &MessageId) -> Result<Option<Message>> {
        self.one(sql::MESSAGE_GET, cells![id.as_str()])
    }

    fn message_last(&mut self) -> Result<u64> {
        self.number(sql::MESSAGE_LAST, &[])
    }

    fn message_list(&mut self, recipient: &AgentId, now: Timestamp, after: u64, limit: u32) -> Result<Vec<Message>> {
        self.all(sql::MESSAGE_LIST, cells![limit, recipient.as_str(), now, after])
    }

    fn message_count(&mut self, recipient: &AgentId, now: Timestamp) -> Result<u64> {
        self.number(sql::MESSAGE_COUNT, cells![recipient.as_str(), now])
    }

    fn message_count_by_recipient(&mut self, now: Timestamp) -> Result<Vec<(AgentId, u64)>> {
        let count = |row: &mut Row<'_>| Ok((row.parsed()?, row.number()?));
        let mut counts = self.read(sql::MESSAGE_COUNT_BY_RECIPIENT, cells![now], count)?;
        counts.sort_unstable();
        Ok(counts)
    }

    fn message_list_about(&mut self, workflow: &WorkflowId) -> Result<Vec<Message>> {
        self.all(sql::MESSAGE_LIST_ABOUT, cells![workflow.as_str()])
    }

    fn message_detach(&mut self, task: &TaskId) -> Result<()> {
        self.run(sql::MESSAGE_DETACH, cells![task.as_str()])
    }

    fn message_list_thread(&mut self, thread: &MessageId) -> Result<Vec<Message>> {
        self.all(sql::MESSAGE_LIST_THREAD, cells![thread.as_str()])
    }

    fn message_list_handled(&mut self, before: Timestamp, limit: u32) -> Result<Vec<(MessageId, Timestamp)>> {
        let message = |row: &mut Row<'_>| Ok((row.parsed()?, row.timestamp()?));
        self.read(sql::MESSAGE_LIST_HANDLED, cells![limit, before], message)
    }

    fn message_remove(&mut self, ids: &[MessageId]) -> Result<()> {
        self.run(sql::MESSAGE_REMOVE, &[json(&ids)?])
    }

    fn notice_put(&mut self, notice: &Notice) -> Result<()> {
        self.put(notice)
    }

    fn notice_list(&mut self) -> Result<Vec<Notice>> {
        self.all(sql::NOTICE_LIST, &[])
    }

    fn notice_remove(&mut self, issue: &str) -> Result<()> {
        self.run(sql::NOTICE_REMOVE, cells![issue])
    }

    fn deferred_put(&mut self, deferred: &DeferredChanges) -> Result<()> {
        self.put(deferred)
    }

    fn deferred_list(&mut self) -> Result<Vec<DeferredChanges>> {
        self.all(sql::DEFERRED_LIST, &[])
    }

    fn deferred_remove(&mut self, key: &str) -> Result<()> {
        self.run(sql::DEFERRED_REMOVE, cells![key])
    }
}
