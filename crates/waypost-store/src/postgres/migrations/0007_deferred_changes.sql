-- Changes of issues that a caller made without reaching their ledger.
CREATE TABLE deferred_changes (
    key TEXT COLLATE "C" PRIMARY KEY,
    number BIGINT NOT NULL,
    actor TEXT COLLATE "C" NOT NULL,
    changes TEXT COLLATE "C" NOT NULL,
    worktree_id TEXT COLLATE "C" NOT NULL REFERENCES worktrees (id),
    created_at BIGINT NOT NULL
);
