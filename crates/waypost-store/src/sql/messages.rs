//! Messages, notices about issues, and deferred changes of issues.

use waypost_core::model::{DeferredChanges, Message, Notice};

table! {
    struct Message as message;
    /// Replaces in place.
    pub(crate) const MESSAGE_PUT: upsert into messages;
    key {
        id: parsed,
    }
    columns {
        number: number,
        sender: parsed,
        recipient: parsed,
        thread: parsed,
        reply_to: maybe_parsed,
        kind: parsed,
        priority: parsed,
        subject: text,
        body: text,
        workflow_id: maybe_parsed,
        task_id: maybe_parsed,
        expires_at: maybe_timestamp,
        state: parsed,
        worktree_id: parsed,
        created_at: timestamp,
        updated_at: timestamp,
    }
}

table! {
    struct Notice as notice;
    /// Replaces in place.
    pub(crate) const NOTICE_PUT: upsert into notices;
    key {
        issue: text,
    }
    columns {
        news: parsed,
        reason: text,
        actor: text,
        task_id: maybe_parsed,
        worktree_id: parsed,
        created_at: timestamp,
    }
}

table! {
    struct DeferredChanges as deferred;
    /// Replaces in place.
    pub(crate) const DEFERRED_PUT: upsert into deferred_changes;
    key {
        key: text,
    }
    columns {
        number: number,
        actor: text,
        changes: json,
        worktree_id: parsed,
        created_at: timestamp,
    }
}

/// By primary key.
pub(crate) const MESSAGE_GET: &str = select!(message, "messages WHERE id = ?1");
/// The last entry of the unique index.
pub(crate) const MESSAGE_LAST: &str = "SELECT coalesce(max(number), 0) FROM messages";
/// Along `messages_waiting`.
pub(crate) const MESSAGE_LIST: &str = select!(
    message,
    "messages WHERE recipient = ?2 AND state <> 'acted' AND (expires_at IS NULL OR expires_at > ?3) AND number > ?4
    ORDER BY number LIMIT ?1"
);
/// Along `messages_waiting`.
pub(crate) const MESSAGE_COUNT: &str = "
    SELECT count(*) FROM messages
    WHERE recipient = ?1 AND state <> 'acted' AND (expires_at IS NULL OR expires_at > ?2)";
/// Along `messages_waiting`.
pub(crate) const MESSAGE_COUNT_BY_RECIPIENT: &str = "
    SELECT recipient, count(*) FROM messages
    WHERE state <> 'acted' AND (expires_at IS NULL OR expires_at > ?1) GROUP BY recipient";
/// A scan: used only when a workflow moves to another store.
pub(crate) const MESSAGE_LIST_ABOUT: &str = select!(message, "messages WHERE workflow_id = ?1 ORDER BY number");
/// Along `messages_by_task`.
pub(crate) const MESSAGE_DETACH: &str = "UPDATE messages SET task_id = NULL WHERE task_id = ?1";
/// Along `messages_by_thread`.
pub(crate) const MESSAGE_LIST_THREAD: &str = select!(message, "messages WHERE thread = ?1 ORDER BY number");

/// A scan: a notice stays only until it is delivered.
pub(crate) const NOTICE_LIST: &str = select!(notice, "notices ORDER BY created_at, issue");
/// By primary key.
pub(crate) const NOTICE_REMOVE: &str = "DELETE FROM notices WHERE issue = ?1";

/// A scan: deferred changes stay only until they are delivered.
pub(crate) const DEFERRED_LIST: &str = select!(deferred, "deferred_changes ORDER BY number, key");
/// By primary key.
pub(crate) const DEFERRED_REMOVE: &str = "DELETE FROM deferred_changes WHERE key = ?1";
