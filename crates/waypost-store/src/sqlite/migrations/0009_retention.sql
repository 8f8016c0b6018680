-- What is left of workflows, jobs, messages and events that were removed because of their age.
CREATE TABLE summaries (
    subject TEXT PRIMARY KEY,
    kind TEXT NOT NULL CHECK (kind IN ('workflow', 'job', 'messages', 'events')),
    name TEXT NOT NULL,
    status TEXT,
    detail TEXT NOT NULL CHECK (json_valid(detail)),
    worktree_id TEXT NOT NULL REFERENCES worktrees (id),
    created_at INTEGER NOT NULL,
    finished_at INTEGER NOT NULL,
    removed_at INTEGER NOT NULL
) STRICT;
CREATE INDEX summaries_by_time ON summaries (removed_at, subject);

-- A message or workflow is deleted only if no message refers to it.
CREATE INDEX messages_by_workflow ON messages (workflow_id) WHERE workflow_id IS NOT NULL;
CREATE INDEX messages_by_reply ON messages (reply_to) WHERE reply_to IS NOT NULL;

-- Each transaction removes the earliest of these, and does not look at the others again.
CREATE INDEX workflows_by_end ON workflows (finished_at, id) WHERE finished_at IS NOT NULL;
CREATE INDEX jobs_by_end ON jobs (finished_at, id) WHERE finished_at IS NOT NULL;
CREATE INDEX workspaces_by_end ON workspaces (removed_at, id) WHERE removed_at IS NOT NULL;

-- Events since this moment are never deleted. Only the transaction that deletes older ones sets it, and resets it.
ALTER TABLE store_state ADD COLUMN events_kept_since INTEGER NOT NULL DEFAULT -9223372036854775808;
DROP TRIGGER events_are_never_deleted;
CREATE TRIGGER events_are_kept BEFORE DELETE ON events WHEN OLD.time >= (SELECT events_kept_since FROM store_state)
BEGIN SELECT RAISE(ABORT, 'events are never deleted'); END;
