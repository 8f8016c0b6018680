CREATE TABLE jobs (
    id TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    description TEXT NOT NULL,
    input TEXT NOT NULL CHECK (json_valid(input)),
    status TEXT NOT NULL CHECK (status IN ('pending', 'running', 'completed', 'failed', 'cancelled', 'interrupted')),
    command TEXT NOT NULL CHECK (json_valid(command)),
    settings TEXT NOT NULL CHECK (json_valid(settings)),
    repository_id TEXT NOT NULL REFERENCES repositories (id),
    task_id TEXT,
    epoch INTEGER,
    agent_id TEXT REFERENCES agents (id),
    workspace_id TEXT,
    work_dir TEXT NOT NULL,
    workspace_dir TEXT,
    context_dir TEXT,
    log TEXT,
    machine TEXT,
    supervisor TEXT CHECK (json_valid(supervisor)),
    process TEXT CHECK (json_valid(process)),
    token_hash TEXT,
    phases TEXT NOT NULL CHECK (json_valid(phases)),
    output TEXT,
    exit_code INTEGER,
    error TEXT CHECK (status NOT IN ('failed', 'interrupted') OR error IS NOT NULL),
    warnings TEXT NOT NULL CHECK (json_valid(warnings)),
    tokens INTEGER,
    cost REAL,
    retry_of TEXT,
    cancelled_at INTEGER,
    worktree_id TEXT NOT NULL REFERENCES worktrees (id),
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    started_at INTEGER,
    finished_at INTEGER CHECK ((finished_at IS NULL) = (status IN ('pending', 'running')))
) STRICT;
CREATE INDEX jobs_by_time ON jobs (created_at, id);
CREATE INDEX jobs_live ON jobs (created_at, id) WHERE finished_at IS NULL;
CREATE INDEX jobs_by_task ON jobs (task_id, created_at, id) WHERE task_id IS NOT NULL;
CREATE INDEX jobs_by_token ON jobs (token_hash) WHERE token_hash IS NOT NULL;

CREATE TABLE workspaces (
    id TEXT PRIMARY KEY,
    repository_id TEXT NOT NULL REFERENCES repositories (id),
    job_id TEXT,
    machine TEXT NOT NULL,
    path TEXT NOT NULL,
    strategy TEXT NOT NULL CHECK (strategy IN ('clone', 'overlay', 'worktree', 'jj', 'copy', 'in-place')),
    branch TEXT,
    base TEXT,
    status TEXT NOT NULL CHECK (status IN ('creating', 'active', 'kept', 'snapshotted', 'removed', 'lost')),
    size INTEGER,
    identity TEXT CHECK (json_valid(identity)),
    is_pinned INTEGER NOT NULL CHECK (is_pinned IN (0, 1)),
    snapshot TEXT,
    merge_commit TEXT,
    pr_url TEXT,
    note TEXT,
    plan TEXT NOT NULL CHECK (json_valid(plan)),
    worktree_id TEXT NOT NULL REFERENCES worktrees (id),
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    removed_at INTEGER CHECK ((removed_at IS NULL) = (status NOT IN ('snapshotted', 'removed')))
) STRICT;
CREATE INDEX workspaces_by_time ON workspaces (created_at, id);
CREATE INDEX workspaces_live ON workspaces (created_at, id) WHERE removed_at IS NULL;
CREATE INDEX workspaces_by_job ON workspaces (job_id, created_at, id) WHERE job_id IS NOT NULL;
