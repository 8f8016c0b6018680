CREATE TABLE workflows (
    id TEXT COLLATE "C" PRIMARY KEY,
    name TEXT COLLATE "C" NOT NULL,
    source TEXT COLLATE "C" NOT NULL CHECK (source IN ('prompt', 'issue', 'template', 'github', 'custom')),
    source_ref TEXT COLLATE "C",
    source_content TEXT COLLATE "C",
    status TEXT COLLATE "C" NOT NULL CHECK (status IN ('planning', 'ready', 'in_progress', 'paused', 'awaiting_merge', 'completed', 'failed', 'cancelled')),
    summary TEXT COLLATE "C",
    max_parallel BIGINT CHECK (max_parallel > 0),
    config TEXT COLLATE "C" NOT NULL CHECK (config::json IS NOT NULL),
    reason TEXT COLLATE "C",
    worktree_id TEXT COLLATE "C" NOT NULL REFERENCES worktrees (id),
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    started_at BIGINT,
    finished_at BIGINT
);
CREATE INDEX workflows_by_time ON workflows (created_at, id);
CREATE INDEX workflows_by_name ON workflows (name);
CREATE INDEX workflows_running ON workflows (id) WHERE status = 'in_progress';

CREATE TABLE workflow_repositories (
    workflow_id TEXT COLLATE "C" NOT NULL REFERENCES workflows (id),
    repository_id TEXT COLLATE "C" NOT NULL REFERENCES repositories (id),
    PRIMARY KEY (workflow_id, repository_id)
);

CREATE TABLE agents (
    id TEXT COLLATE "C" PRIMARY KEY,
    name TEXT COLLATE "C" NOT NULL UNIQUE,
    runtime TEXT COLLATE "C",
    role TEXT COLLATE "C" NOT NULL CHECK (role IN ('coordinator', 'worker', 'human')),
    status TEXT COLLATE "C" NOT NULL CHECK (status IN ('online', 'busy', 'offline')),
    capabilities TEXT COLLATE "C" NOT NULL CHECK (capabilities::json IS NOT NULL),
    workspace_id TEXT COLLATE "C",
    metadata TEXT COLLATE "C" NOT NULL CHECK (metadata::json IS NOT NULL),
    process TEXT COLLATE "C" CHECK (process IS NULL OR process::json IS NOT NULL),
    timeout_ms BIGINT NOT NULL,
    max_claims BIGINT,
    worktree_id TEXT COLLATE "C" NOT NULL REFERENCES worktrees (id),
    registered_at BIGINT NOT NULL,
    last_heartbeat BIGINT NOT NULL,
    silent_at BIGINT,
    retired_at BIGINT
);
CREATE INDEX agents_by_silence ON agents (silent_at) WHERE status <> 'offline';

CREATE TABLE tasks (
    id TEXT COLLATE "C" PRIMARY KEY,
    workflow_id TEXT COLLATE "C" NOT NULL REFERENCES workflows (id),
    name TEXT COLLATE "C" NOT NULL,
    description TEXT COLLATE "C" NOT NULL,
    status TEXT COLLATE "C" NOT NULL CHECK (status IN ('pending', 'in_progress', 'paused', 'waiting_input', 'completed', 'failed', 'dead', 'skipped', 'cancelled')),
    sequence BIGINT NOT NULL,
    parallel_group TEXT COLLATE "C",
    priority BIGINT NOT NULL CHECK (priority BETWEEN 0 AND 4),
    plan TEXT COLLATE "C" NOT NULL CHECK (plan::json IS NOT NULL),
    acceptance TEXT COLLATE "C" NOT NULL CHECK (acceptance::json IS NOT NULL),
    context TEXT COLLATE "C" NOT NULL CHECK (context::json IS NOT NULL),
    context_from TEXT COLLATE "C" NOT NULL CHECK (context_from::json IS NOT NULL),
    capabilities TEXT COLLATE "C" NOT NULL CHECK (capabilities::json IS NOT NULL),
    files TEXT COLLATE "C" NOT NULL CHECK (files::json IS NOT NULL),
    repository_id TEXT COLLATE "C" REFERENCES repositories (id),
    workspace_id TEXT COLLATE "C",
    issue TEXT COLLATE "C",
    assignee TEXT COLLATE "C" REFERENCES agents (id),
    attempts BIGINT NOT NULL,
    max_attempts BIGINT NOT NULL CHECK (attempts <= max_attempts),
    backoff_ms BIGINT NOT NULL,
    queue_timeout_ms BIGINT,
    run_timeout_ms BIGINT,
    stall_timeout_ms BIGINT,
    needs_evidence BIGINT NOT NULL CHECK (needs_evidence IN (0, 1)),
    outcome TEXT COLLATE "C" CHECK (status <> 'completed' OR outcome IS NOT NULL),
    evidence TEXT COLLATE "C" CHECK (status <> 'completed' OR needs_evidence = 0 OR evidence IS NOT NULL),
    error TEXT COLLATE "C" CHECK (status NOT IN ('failed', 'dead') OR error IS NOT NULL),
    question TEXT COLLATE "C",
    answer TEXT COLLATE "C",
    worktree_id TEXT COLLATE "C" NOT NULL REFERENCES worktrees (id),
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    queued_at BIGINT NOT NULL,
    started_at BIGINT,
    finished_at BIGINT,
    due_at BIGINT
);
CREATE UNIQUE INDEX tasks_by_name ON tasks (workflow_id, name);
CREATE INDEX tasks_by_plan ON tasks (workflow_id, sequence, id);
CREATE INDEX tasks_named ON tasks (name, created_at);
CREATE INDEX tasks_by_status ON tasks (status, updated_at, id);
-- The status comes first although it is always the same: SQLite would else look along tasks_by_status and sort.
CREATE INDEX tasks_pending ON tasks (status, priority, queued_at, sequence, id) WHERE status = 'pending';
CREATE INDEX tasks_pending_of_workflow ON tasks (workflow_id, priority, queued_at, sequence, id) WHERE status = 'pending';
CREATE INDEX tasks_by_state_of_workflow ON tasks (workflow_id, status);
CREATE INDEX tasks_due ON tasks (due_at, id) WHERE due_at IS NOT NULL;

CREATE TABLE dependencies (
    task_id TEXT COLLATE "C" NOT NULL REFERENCES tasks (id),
    depends_on TEXT COLLATE "C" NOT NULL REFERENCES tasks (id) CHECK (depends_on <> task_id),
    kind TEXT COLLATE "C" NOT NULL CHECK (kind IN ('blocks', 'informs')),
    PRIMARY KEY (task_id, depends_on)
);
CREATE INDEX dependencies_by_blocker ON dependencies (depends_on);

CREATE TABLE checkpoints (
    id TEXT COLLATE "C" PRIMARY KEY,
    task_id TEXT COLLATE "C" NOT NULL REFERENCES tasks (id),
    sequence BIGINT NOT NULL,
    kind TEXT COLLATE "C" NOT NULL CHECK (kind IN ('plan', 'replan', 'progress', 'decision', 'error', 'recovery', 'complete')),
    summary TEXT COLLATE "C" NOT NULL,
    detail TEXT COLLATE "C" NOT NULL CHECK (detail::json IS NOT NULL),
    files TEXT COLLATE "C" NOT NULL CHECK (files::json IS NOT NULL),
    tokens BIGINT,
    cost DOUBLE PRECISION,
    agent_id TEXT COLLATE "C" NOT NULL REFERENCES agents (id),
    epoch BIGINT NOT NULL,
    worktree_id TEXT COLLATE "C" NOT NULL REFERENCES worktrees (id),
    created_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX checkpoints_by_task ON checkpoints (task_id, sequence);

CREATE TABLE leases (
    subject TEXT COLLATE "C" PRIMARY KEY,
    holder TEXT COLLATE "C" REFERENCES agents (id),
    epoch BIGINT NOT NULL CHECK (epoch > 0),
    granted_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    ttl_ms BIGINT NOT NULL,
    run_until BIGINT,
    stall_at BIGINT,
    deadline BIGINT NOT NULL,
    worktree_id TEXT COLLATE "C" NOT NULL REFERENCES worktrees (id)
);
CREATE INDEX leases_by_holder ON leases (holder, subject) WHERE holder IS NOT NULL;
CREATE INDEX leases_due ON leases (deadline, subject) WHERE holder IS NOT NULL;

CREATE TABLE messages (
    id TEXT COLLATE "C" PRIMARY KEY,
    number BIGINT NOT NULL UNIQUE,
    sender TEXT COLLATE "C" NOT NULL REFERENCES agents (id),
    recipient TEXT COLLATE "C" NOT NULL REFERENCES agents (id),
    thread TEXT COLLATE "C" NOT NULL,
    reply_to TEXT COLLATE "C" REFERENCES messages (id),
    kind TEXT COLLATE "C" NOT NULL CHECK (kind IN ('task_assignment', 'status_update', 'query', 'response', 'broadcast')),
    priority TEXT COLLATE "C" NOT NULL CHECK (priority IN ('low', 'normal', 'high', 'urgent')),
    subject TEXT COLLATE "C" NOT NULL,
    body TEXT COLLATE "C" NOT NULL,
    workflow_id TEXT COLLATE "C" REFERENCES workflows (id),
    task_id TEXT COLLATE "C" REFERENCES tasks (id),
    expires_at BIGINT,
    state TEXT COLLATE "C" NOT NULL CHECK (state IN ('queued', 'presented', 'read', 'acted')),
    worktree_id TEXT COLLATE "C" NOT NULL REFERENCES worktrees (id),
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE INDEX messages_waiting ON messages (recipient, number) WHERE state <> 'acted';
CREATE INDEX messages_by_thread ON messages (thread, number);
CREATE INDEX messages_by_task ON messages (task_id) WHERE task_id IS NOT NULL;

CREATE TABLE templates (
    id TEXT COLLATE "C" PRIMARY KEY,
    name TEXT COLLATE "C" NOT NULL,
    version BIGINT NOT NULL,
    description TEXT COLLATE "C" NOT NULL,
    body TEXT COLLATE "C" NOT NULL CHECK (body::json IS NOT NULL),
    variables TEXT COLLATE "C" NOT NULL CHECK (variables::json IS NOT NULL),
    worktree_id TEXT COLLATE "C" NOT NULL REFERENCES worktrees (id),
    created_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX templates_by_name ON templates (name, version);

CREATE TABLE answers (
    key TEXT COLLATE "C" PRIMARY KEY,
    operation TEXT COLLATE "C" NOT NULL,
    request TEXT COLLATE "C" NOT NULL,
    answer TEXT COLLATE "C" NOT NULL CHECK (answer::json IS NOT NULL),
    worktree_id TEXT COLLATE "C" NOT NULL REFERENCES worktrees (id),
    created_at BIGINT NOT NULL
);
CREATE INDEX answers_by_time ON answers (created_at);

CREATE TABLE notices (
    issue TEXT COLLATE "C" PRIMARY KEY,
    news TEXT COLLATE "C" NOT NULL CHECK (news IN ('finished', 'abandoned')),
    reason TEXT COLLATE "C" NOT NULL,
    actor TEXT COLLATE "C" NOT NULL,
    task_id TEXT COLLATE "C" REFERENCES tasks (id),
    worktree_id TEXT COLLATE "C" NOT NULL REFERENCES worktrees (id),
    created_at BIGINT NOT NULL
);
