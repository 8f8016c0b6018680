//! The rows of messages, notices and deferred changes.

use std::collections::BTreeMap;

use waypost_core::error::{Error, Result};
use waypost_core::id::{AgentId, MessageId, TaskId, WorkflowId};
use waypost_core::model::{DeferredChanges, Message, Notice};
use waypost_core::store::MessageTx;
use waypost_core::time::Timestamp;

use super::{MemoryTx, is_handled, size, unknown};

impl MessageTx for MemoryTx<'_> {
    fn message_put(&mut self, message: &Message) -> Result<()> {
        self.need_worktree(&message.worktree_id)?;
        self.need_agent(&message.sender)?;
        self.need_agent(&message.recipient)?;
        message.task_id.as_ref().map_or(Ok(()), |task| self.need_task(task))?;
        if let Some(id) = message.workflow_id.as_ref().filter(|id| !self.rows.workflows.contains_key(*id)) {
            return Err(unknown("workflow", id));
        }
        if let Some(id) = message.reply_to.as_ref().filter(|id| !self.rows.messages.contains_key(*id)) {
            return Err(unknown("message", id));
        }
        if self.rows.messages.values().any(|other| other.number == message.number && other.id != message.id) {
            return Err(Error::internal(format!("there is a message number {} already", message.number)));
        }
        self.rows.messages.insert(message.id.clone(), message.clone());
        Ok(())
    }

    fn message_get(&mut self, id: &MessageId) -> Result<Option<Message>> {
        Ok(self.rows.messages.get(id).cloned())
    }

    fn message_last(&mut self) -> Result<u64> {
        Ok(self.rows.messages.values().map(|message| message.number).max().unwrap_or(0))
    }

    fn message_list(&mut self, recipient: &AgentId, now: Timestamp, after: u64, limit: u32) -> Result<Vec<Message>> {
        let mut inbox = self.inbox(recipient, now);
        inbox.retain(|message| message.number > after);
        inbox.truncate(size(limit));
        Ok(inbox)
    }

    fn message_count(&mut self, recipient: &AgentId, now: Timestamp) -> Result<u64> {
        Ok(self.inbox(recipient, now).len() as u64)
    }

    fn message_count_by_recipient(&mut self, now: Timestamp) -> Result<Vec<(AgentId, u64)>> {
        let counts = self.rows.agents.keys().map(|id| (id.clone(), self.inbox(id, now).len() as u64));
        Ok(counts.filter(|(_, count)| *count > 0).collect())
    }

    fn message_list_about(&mut self, workflow: &WorkflowId) -> Result<Vec<Message>> {
        let is_about = |message: &&Message| message.workflow_id.as_ref() == Some(workflow);
        let mut messages: Vec<_> = self.rows.messages.values().filter(is_about).cloned().collect();
        messages.sort_by_key(|message| message.number);
        Ok(messages)
    }

    fn message_detach(&mut self, task: &TaskId) -> Result<()> {
        for message in self.rows.messages.values_mut().filter(|message| message.task_id.as_ref() == Some(task)) {
            message.task_id = None;
        }
        Ok(())
    }

    fn message_list_thread(&mut self, thread: &MessageId) -> Result<Vec<Message>> {
        let mut messages: Vec<_> =
            self.rows.messages.values().filter(|message| message.thread == *thread).cloned().collect();
        messages.sort_by_key(|message| message.number);
        Ok(messages)
    }

    fn message_list_handled(&mut self, before: Timestamp, limit: u32) -> Result<Vec<(MessageId, Timestamp)>> {
        let mut threads: BTreeMap<&MessageId, Vec<&Message>> = BTreeMap::new();
        for message in self.rows.messages.values() {
            threads.entry(&message.thread).or_default().push(message);
        }
        threads.retain(|_, messages| messages.iter().all(|message| is_handled(message, before)));
        let mut handled = Vec::new();
        for (_, mut messages) in threads.into_iter().take(size(limit)) {
            messages.sort_by_key(|message| message.number);
            handled.extend(messages.into_iter().map(|message| (message.id.clone(), message.created_at)));
        }
        Ok(handled)
    }

    fn message_remove(&mut self, ids: &[MessageId]) -> Result<()> {
        self.rows.messages.retain(|id, _| !ids.contains(id));
        let answered = self.rows.messages.values().filter_map(|message| message.reply_to.as_ref());
        match answered.into_iter().find(|id| ids.contains(id)) {
            Some(id) => Err(Error::internal(format!("a row refers to message {id}"))),
            None => Ok(()),
        }
    }

    fn notice_put(&mut self, notice: &Notice) -> Result<()> {
        self.need_worktree(&notice.worktree_id)?;
        notice.task_id.as_ref().map_or(Ok(()), |task| self.need_task(task))?;
        self.rows.notices.insert(notice.issue.clone(), notice.clone());
        Ok(())
    }

    fn notice_list(&mut self) -> Result<Vec<Notice>> {
        let mut notices: Vec<_> = self.rows.notices.values().cloned().collect();
        notices.sort_by(|a, b| (a.created_at, &a.issue).cmp(&(b.created_at, &b.issue)));
        Ok(notices)
    }

    fn notice_remove(&mut self, issue: &str) -> Result<()> {
        self.rows.notices.remove(issue);
        Ok(())
    }

    fn deferred_put(&mut self, deferred: &DeferredChanges) -> Result<()> {
        self.need_worktree(&deferred.worktree_id)?;
        self.rows.deferred.insert(deferred.key.clone(), deferred.clone());
        Ok(())
    }

    fn deferred_list(&mut self) -> Result<Vec<DeferredChanges>> {
        let mut deferred: Vec<_> = self.rows.deferred.values().cloned().collect();
        deferred.sort_by(|a, b| (a.number, &a.key).cmp(&(b.number, &b.key)));
        Ok(deferred)
    }

    fn deferred_remove(&mut self, key: &str) -> Result<()> {
        self.rows.deferred.remove(key);
        Ok(())
    }
}
