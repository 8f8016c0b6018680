CREATE TABLE repositories (
    id TEXT COLLATE "C" PRIMARY KEY,
    name TEXT COLLATE "C" NOT NULL,
    path TEXT COLLATE "C" NOT NULL,
    vcs TEXT COLLATE "C" NOT NULL CHECK (vcs IN ('git', 'jj', 'hg', 'sl', 'none')),
    remote_url TEXT COLLATE "C",
    default_branch TEXT COLLATE "C"
);

CREATE TABLE worktrees (
    id TEXT COLLATE "C" PRIMARY KEY,
    repository_id TEXT COLLATE "C" NOT NULL REFERENCES repositories (id),
    name TEXT COLLATE "C" NOT NULL,
    path TEXT COLLATE "C" NOT NULL,
    branch TEXT COLLATE "C",
    first_seen BIGINT NOT NULL,
    last_seen BIGINT NOT NULL,
    removed_at BIGINT
);

CREATE TABLE events (
    sequence BIGINT PRIMARY KEY,
    time BIGINT NOT NULL,
    actor TEXT COLLATE "C" NOT NULL,
    worktree_id TEXT COLLATE "C" NOT NULL REFERENCES worktrees (id),
    kind TEXT COLLATE "C" NOT NULL,
    subject TEXT COLLATE "C" NOT NULL,
    data TEXT COLLATE "C" NOT NULL CHECK (data::json IS NOT NULL)
);
CREATE INDEX events_by_worktree ON events (worktree_id, sequence);
CREATE INDEX events_by_subject ON events (subject, sequence);

-- History is append-only.
CREATE FUNCTION events_are_kept() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'events are never changed or deleted'; END $$;
CREATE TRIGGER events_are_kept BEFORE UPDATE OR DELETE OR TRUNCATE ON events
FOR EACH STATEMENT EXECUTE FUNCTION events_are_kept();
