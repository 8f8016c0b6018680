CREATE TABLE repositories (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    path TEXT NOT NULL,
    vcs TEXT NOT NULL CHECK (vcs IN ('git', 'jj', 'hg', 'sl', 'none')),
    remote_url TEXT,
    default_branch TEXT
) STRICT;

CREATE TABLE worktrees (
    id TEXT PRIMARY KEY,
    repository_id TEXT NOT NULL REFERENCES repositories (id),
    name TEXT NOT NULL,
    path TEXT NOT NULL,
    branch TEXT,
    first_seen INTEGER NOT NULL,
    last_seen INTEGER NOT NULL,
    removed_at INTEGER
) STRICT;

-- AUTOINCREMENT: a sequence is never used again, and a rolled back one leaves no gap.
CREATE TABLE events (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    time INTEGER NOT NULL,
    actor TEXT NOT NULL,
    worktree_id TEXT NOT NULL REFERENCES worktrees (id),
    kind TEXT NOT NULL,
    subject TEXT NOT NULL,
    data TEXT NOT NULL CHECK (json_valid(data))
) STRICT;

CREATE INDEX events_by_worktree ON events (worktree_id, sequence);

-- History is append-only.
CREATE TRIGGER events_are_never_changed BEFORE UPDATE ON events
BEGIN SELECT RAISE(ABORT, 'events are never changed'); END;
CREATE TRIGGER events_are_never_deleted BEFORE DELETE ON events
BEGIN SELECT RAISE(ABORT, 'events are never deleted'); END;
