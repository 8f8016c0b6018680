//! Removal of old records, and their summaries.

use waypost_core::model::Summary;

table! {
    struct Summary as summary;
    /// Replaces in place.
    pub(crate) const SUMMARY_PUT: upsert into summaries;
    key {
        subject: text,
    }
    columns {
        kind: parsed,
        name: text,
        status: maybe_text,
        detail: json,
        worktree_id: parsed,
        created_at: timestamp,
        finished_at: timestamp,
        removed_at: timestamp,
    }
}

/// A job that ended before `?2`, as have its workspaces, and that no live job retries. Never NULL.
macro_rules! job_is_over {
    () => {
        "(jobs.finished_at IS NOT NULL AND jobs.finished_at < ?2
            AND NOT EXISTS (SELECT 1 FROM workspaces WHERE workspaces.job_id = jobs.id
                AND (workspaces.removed_at IS NULL OR workspaces.removed_at >= ?2))
            AND NOT EXISTS (SELECT 1 FROM jobs AS later WHERE later.retry_of = jobs.id AND later.finished_at IS NULL))"
    };
}

/// An event before `?2` that is about no record that is kept, if the records with the ids in the list `?1` did not exist.
macro_rules! event_is_removable {
    () => {
        "time < ?2
            AND NOT EXISTS (SELECT 1 FROM workflows WHERE workflows.id = events.subject
                AND workflows.id NOT IN (SELECT value FROM json_each(?1)))
            AND NOT EXISTS (SELECT 1 FROM tasks WHERE tasks.id = events.subject
                AND tasks.workflow_id NOT IN (SELECT value FROM json_each(?1)))
            AND NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.id = events.subject
                AND jobs.id NOT IN (SELECT value FROM json_each(?1)))
            AND NOT EXISTS (SELECT 1 FROM workspaces WHERE workspaces.id = events.subject
                AND workspaces.id NOT IN (SELECT value FROM json_each(?1)))
            AND NOT EXISTS (SELECT 1 FROM messages WHERE messages.id = events.subject
                AND messages.id NOT IN (SELECT value FROM json_each(?1)))
            AND NOT EXISTS (SELECT 1 FROM leases WHERE leases.subject = events.subject AND leases.holder IS NOT NULL)"
    };
}

/// A scan: removal is rare.
pub(crate) const MESSAGE_LIST_HANDLED: &str = "
    SELECT id, created_at FROM messages WHERE thread IN (SELECT thread FROM messages GROUP BY thread
        HAVING sum(CASE WHEN updated_at < ?2 AND (state = 'acted' OR (expires_at IS NOT NULL AND expires_at < ?2))
            THEN 0 ELSE 1 END) = 0
        ORDER BY thread LIMIT ?1)
    ORDER BY thread, number";
/// A scan of the list, each message by primary key, and answers to it along `messages_by_reply`.
pub(crate) const MESSAGE_REMOVE: &str = "DELETE FROM messages WHERE id IN (SELECT value FROM json_each(?1))";
/// A scan of the list, and the messages along `messages_by_workflow`.
pub(crate) const MESSAGE_DETACH_OF_WORKFLOWS: &str =
    "UPDATE messages SET workflow_id = NULL WHERE workflow_id IN (SELECT value FROM json_each(?1))";
/// A scan of the list, the tasks along `tasks_by_plan`, and the messages along `messages_by_task`.
pub(crate) const MESSAGE_DETACH_OF_TASKS: &str = "UPDATE messages SET task_id = NULL
    WHERE task_id IN (SELECT id FROM tasks WHERE workflow_id IN (SELECT value FROM json_each(?1)))";
/// A scan of the list, and the rest by primary key.
pub(crate) const DEPENDENCY_REMOVE_OF_WORKFLOWS: &str = "DELETE FROM dependencies
    WHERE task_id IN (SELECT id FROM tasks WHERE workflow_id IN (SELECT value FROM json_each(?1)))";
/// A scan of the list, and the checkpoints along `checkpoints_by_task`.
pub(crate) const CHECKPOINT_REMOVE_OF_WORKFLOWS: &str = "DELETE FROM checkpoints
    WHERE task_id IN (SELECT id FROM tasks WHERE workflow_id IN (SELECT value FROM json_each(?1)))";
/// A scan of the list, and the rest by primary key.
pub(crate) const LEASE_REMOVE_OF_WORKFLOWS: &str = "DELETE FROM leases
    WHERE subject IN (SELECT id FROM tasks WHERE workflow_id IN (SELECT value FROM json_each(?1)))";
/// A scan of the list and of the notices, which are few.
pub(crate) const TASK_REMOVE_OF_WORKFLOWS: &str =
    "DELETE FROM tasks WHERE workflow_id IN (SELECT value FROM json_each(?1))";
/// A scan of the list, and the rest by primary key.
pub(crate) const WORKFLOW_REPOSITORY_REMOVE_OF_WORKFLOWS: &str =
    "DELETE FROM workflow_repositories WHERE workflow_id IN (SELECT value FROM json_each(?1))";
/// A scan of the list, each workflow by primary key, and the messages about it along `messages_by_workflow`.
pub(crate) const WORKFLOW_REMOVE: &str = "DELETE FROM workflows WHERE id IN (SELECT value FROM json_each(?1))";

/// A scan of the list, and each job by primary key.
pub(crate) const JOB_REMOVE: &str = "DELETE FROM jobs WHERE id IN (SELECT value FROM json_each(?1))";
/// A scan of the list, and the workspaces along `workspaces_by_job`.
pub(crate) const WORKSPACE_LIST_BY_JOB: &str =
    "SELECT id FROM workspaces WHERE job_id IN (SELECT value FROM json_each(?1)) ORDER BY id";
/// Along `workspaces_by_end`.
pub(crate) const WORKSPACE_LIST_REMOVABLE: &str = "
    SELECT id FROM workspaces
    WHERE removed_at < ?2 AND NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.id = workspaces.job_id)
    ORDER BY removed_at, id LIMIT ?1";
/// A scan of the list, and each workspace by primary key.
pub(crate) const WORKSPACE_REMOVE: &str = "DELETE FROM workspaces WHERE id IN (SELECT value FROM json_each(?1))";

/// A scan: removal is rare.
pub(crate) const EVENT_LIST_REMOVABLE: &str =
    concat!("SELECT sequence, time, kind FROM events WHERE ", event_is_removable!(), " ORDER BY sequence LIMIT ?3");
/// A scan: removal is rare.
pub(crate) const EVENT_COUNT_REMOVABLE: &str = concat!("SELECT count(*) FROM events WHERE ", event_is_removable!());
/// A scan: there is one row.
pub(crate) const EVENTS_KEPT_PUT: &str = "UPDATE store_state SET events_kept_since = ?1";
/// A scan of the list, each event by primary key, and the last row.
pub(crate) const EVENT_REMOVE: &str = "DELETE FROM events
    WHERE sequence IN (SELECT CAST(value AS BIGINT) FROM json_each(?1)) AND sequence < (SELECT max(sequence) FROM events)";

/// By primary key.
pub(crate) const SUMMARY_GET: &str = select!(summary, "summaries WHERE subject = ?1");
/// A scan of the list, and each summary by primary key.
pub(crate) const SUMMARY_LIST_BY_SUBJECT: &str =
    select!(summary, "summaries WHERE subject IN (SELECT value FROM json_each(?1)) ORDER BY subject");
/// Backwards along `summaries_by_time`.
pub(crate) const SUMMARY_LIST: &str = select!(summary, "summaries ORDER BY removed_at DESC, subject DESC LIMIT ?1");
