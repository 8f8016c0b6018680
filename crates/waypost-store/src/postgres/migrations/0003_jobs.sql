CREATE TABLE jobs (
    id TEXT COLLATE "C" PRIMARY KEY,
    kind TEXT COLLATE "C" NOT NULL,
    description TEXT COLLATE "C" NOT NULL,
    input TEXT COLLATE "C" NOT NULL CHECK (input::json IS NOT NULL),
    status TEXT COLLATE "C" NOT NULL CHECK (status IN ('pending', 'running', 'completed', 'failed', 'cancelled', 'interrupted')),
    command TEXT COLLATE "C" NOT NULL CHECK (command::json IS NOT NULL),
    settings TEXT COLLATE "C" NOT NULL CHECK (settings::json IS NOT NULL),
    repository_id TEXT COLLATE "C" NOT NULL REFERENCES repositories (id),
    task_id TEXT COLLATE "C",
    epoch BIGINT,
    agent_id TEXT COLLATE "C" REFERENCES agents (id),
    workspace_id TEXT COLLATE "C",
    work_dir TEXT COLLATE "C" NOT NULL,
    workspace_dir TEXT COLLATE "C",
    context_dir TEXT COLLATE "C",
    log TEXT COLLATE "C",
    machine TEXT COLLATE "C",
    supervisor TEXT COLLATE "C" CHECK (supervisor IS NULL OR supervisor::json IS NOT NULL),
    process TEXT COLLATE "C" CHECK (process IS NULL OR process::json IS NOT NULL),
    token_hash TEXT COLLATE "C",
    phases TEXT COLLATE "C" NOT NULL CHECK (phases::json IS NOT NULL),
    output TEXT COLLATE "C",
    exit_code BIGINT,
    error TEXT COLLATE "C" CHECK (status NOT IN ('failed', 'interrupted') OR error IS NOT NULL),
    warnings TEXT COLLATE "C" NOT NULL CHECK (warnings::json IS NOT NULL),
    tokens BIGINT,
    cost DOUBLE PRECISION,
    retry_of TEXT COLLATE "C",
    cancelled_at BIGINT,
    worktree_id TEXT COLLATE "C" NOT NULL REFERENCES worktrees (id),
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    started_at BIGINT,
    finished_at BIGINT CHECK ((finished_at IS NULL) = (status IN ('pending', 'running')))
);
CREATE INDEX jobs_by_time ON jobs (created_at, id);
CREATE INDEX jobs_live ON jobs (created_at, id) WHERE finished_at IS NULL;
CREATE INDEX jobs_by_task ON jobs (task_id, created_at, id) WHERE task_id IS NOT NULL;
CREATE INDEX jobs_by_token ON jobs (token_hash) WHERE token_hash IS NOT NULL;

CREATE TABLE workspaces (
    id TEXT COLLATE "C" PRIMARY KEY,
    repository_id TEXT COLLATE "C" NOT NULL REFERENCES repositories (id),
    job_id TEXT COLLATE "C",
    machine TEXT COLLATE "C" NOT NULL,
    path TEXT COLLATE "C" NOT NULL,
    strategy TEXT COLLATE "C" NOT NULL CHECK (strategy IN ('clone', 'overlay', 'worktree', 'jj', 'copy', 'in-place')),
    branch TEXT COLLATE "C",
    base TEXT COLLATE "C",
    status TEXT COLLATE "C" NOT NULL CHECK (status IN ('creating', 'active', 'kept', 'snapshotted', 'removed', 'lost')),
    size BIGINT,
    identity TEXT COLLATE "C" CHECK (identity IS NULL OR identity::json IS NOT NULL),
    is_pinned BIGINT NOT NULL CHECK (is_pinned IN (0, 1)),
    snapshot TEXT COLLATE "C",
    merge_commit TEXT COLLATE "C",
    pr_url TEXT COLLATE "C",
    note TEXT COLLATE "C",
    plan TEXT COLLATE "C" NOT NULL CHECK (plan::json IS NOT NULL),
    worktree_id TEXT COLLATE "C" NOT NULL REFERENCES worktrees (id),
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    removed_at BIGINT CHECK ((removed_at IS NULL) = (status NOT IN ('snapshotted', 'removed')))
);
CREATE INDEX workspaces_by_time ON workspaces (created_at, id);
CREATE INDEX workspaces_live ON workspaces (created_at, id) WHERE removed_at IS NULL;
CREATE INDEX workspaces_by_job ON workspaces (job_id, created_at, id) WHERE job_id IS NOT NULL;
