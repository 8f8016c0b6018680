-- What is left of workflows, jobs, messages and events that were removed because of their age.
CREATE TABLE summaries (
    subject TEXT COLLATE "C" PRIMARY KEY,
    kind TEXT COLLATE "C" NOT NULL CHECK (kind IN ('workflow', 'job', 'messages', 'events')),
    name TEXT COLLATE "C" NOT NULL,
    status TEXT COLLATE "C",
    detail TEXT COLLATE "C" NOT NULL CHECK (detail::json IS NOT NULL),
    worktree_id TEXT COLLATE "C" NOT NULL REFERENCES worktrees (id),
    created_at BIGINT NOT NULL,
    finished_at BIGINT NOT NULL,
    removed_at BIGINT NOT NULL
);
CREATE INDEX summaries_by_time ON summaries (removed_at, subject);

-- A message or workflow is deleted only if no message refers to it.
CREATE INDEX messages_by_workflow ON messages (workflow_id) WHERE workflow_id IS NOT NULL;
CREATE INDEX messages_by_reply ON messages (reply_to) WHERE reply_to IS NOT NULL;

-- Each transaction removes the earliest of these, and does not look at the others again.
CREATE INDEX workflows_by_end ON workflows (finished_at, id) WHERE finished_at IS NOT NULL;
CREATE INDEX jobs_by_end ON jobs (finished_at, id) WHERE finished_at IS NOT NULL;
CREATE INDEX workspaces_by_end ON workspaces (removed_at, id) WHERE removed_at IS NOT NULL;

-- Events since this moment are never deleted. Only the transaction that deletes older ones sets it, and resets it.
ALTER TABLE store_state ADD COLUMN events_kept_since BIGINT NOT NULL DEFAULT -9223372036854775808;
DROP TRIGGER events_are_kept ON events;
CREATE TRIGGER events_are_kept BEFORE UPDATE OR TRUNCATE ON events
FOR EACH STATEMENT EXECUTE FUNCTION events_are_kept();
CREATE FUNCTION only_old_events_are_deleted() RETURNS trigger LANGUAGE plpgsql AS
$$ DECLARE is_wrong BOOLEAN; BEGIN
    EXECUTE format('SELECT EXISTS (SELECT 1 FROM deleted WHERE time >= (SELECT events_kept_since FROM %I.store_state))',
        TG_TABLE_SCHEMA) INTO is_wrong;
    IF is_wrong THEN RAISE EXCEPTION 'events are never changed or deleted'; END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER only_old_events_are_deleted AFTER DELETE ON events REFERENCING OLD TABLE AS deleted
FOR EACH STATEMENT EXECUTE FUNCTION only_old_events_are_deleted();
