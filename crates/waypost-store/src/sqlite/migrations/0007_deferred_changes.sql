-- Changes of issues that a caller made without reaching their ledger.
CREATE TABLE deferred_changes (
    key TEXT PRIMARY KEY,
    number INTEGER NOT NULL,
    actor TEXT NOT NULL,
    changes TEXT NOT NULL CHECK (json_valid(changes)),
    worktree_id TEXT NOT NULL REFERENCES worktrees (id),
    created_at INTEGER NOT NULL
) STRICT;
