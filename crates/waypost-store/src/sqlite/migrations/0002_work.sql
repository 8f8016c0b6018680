CREATE TABLE workflows (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    source TEXT NOT NULL CHECK (source IN ('prompt', 'issue', 'template', 'github', 'custom')),
    source_ref TEXT,
    source_content TEXT,
    status TEXT NOT NULL CHECK (status IN ('planning', 'ready', 'in_progress', 'paused', 'awaiting_merge', 'completed', 'failed', 'cancelled')),
    summary TEXT,
    max_parallel INTEGER CHECK (max_parallel > 0),
    config TEXT NOT NULL CHECK (json_valid(config)),
    reason TEXT,
    worktree_id TEXT NOT NULL REFERENCES worktrees (id),
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    started_at INTEGER,
    finished_at INTEGER
) STRICT;
CREATE INDEX workflows_by_time ON workflows (created_at, id);
CREATE INDEX workflows_by_name ON workflows (name);
CREATE INDEX workflows_running ON workflows (id) WHERE status = 'in_progress';

CREATE TABLE workflow_repositories (
    workflow_id TEXT NOT NULL REFERENCES workflows (id),
    repository_id TEXT NOT NULL REFERENCES repositories (id),
    PRIMARY KEY (workflow_id, repository_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE agents (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    runtime TEXT,
    role TEXT NOT NULL CHECK (role IN ('coordinator', 'worker', 'human')),
    status TEXT NOT NULL CHECK (status IN ('online', 'busy', 'offline')),
    capabilities TEXT NOT NULL CHECK (json_valid(capabilities)),
    workspace_id TEXT,
    metadata TEXT NOT NULL CHECK (json_valid(metadata)),
    process TEXT CHECK (json_valid(process)),
    timeout_ms INTEGER NOT NULL,
    max_claims INTEGER,
    worktree_id TEXT NOT NULL REFERENCES worktrees (id),
    registered_at INTEGER NOT NULL,
    last_heartbeat INTEGER NOT NULL,
    silent_at INTEGER,
    retired_at INTEGER
) STRICT;
CREATE INDEX agents_by_silence ON agents (silent_at) WHERE status <> 'offline';

CREATE TABLE tasks (
    id TEXT PRIMARY KEY,
    workflow_id TEXT NOT NULL REFERENCES workflows (id),
    name TEXT NOT NULL,
    description TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('pending', 'in_progress', 'paused', 'waiting_input', 'completed', 'failed', 'dead', 'skipped', 'cancelled')),
    sequence INTEGER NOT NULL,
    parallel_group TEXT,
    priority INTEGER NOT NULL CHECK (priority BETWEEN 0 AND 4),
    plan TEXT NOT NULL CHECK (json_valid(plan)),
    acceptance TEXT NOT NULL CHECK (json_valid(acceptance)),
    context TEXT NOT NULL CHECK (json_valid(context)),
    context_from TEXT NOT NULL CHECK (json_valid(context_from)),
    capabilities TEXT NOT NULL CHECK (json_valid(capabilities)),
    files TEXT NOT NULL CHECK (json_valid(files)),
    repository_id TEXT REFERENCES repositories (id),
    workspace_id TEXT,
    issue TEXT,
    assignee TEXT REFERENCES agents (id),
    attempts INTEGER NOT NULL,
    max_attempts INTEGER NOT NULL CHECK (attempts <= max_attempts),
    backoff_ms INTEGER NOT NULL,
    queue_timeout_ms INTEGER,
    run_timeout_ms INTEGER,
    stall_timeout_ms INTEGER,
    needs_evidence INTEGER NOT NULL CHECK (needs_evidence IN (0, 1)),
    outcome TEXT CHECK (status <> 'completed' OR outcome IS NOT NULL),
    evidence TEXT CHECK (status <> 'completed' OR needs_evidence = 0 OR evidence IS NOT NULL),
    error TEXT CHECK (status NOT IN ('failed', 'dead') OR error IS NOT NULL),
    question TEXT,
    answer TEXT,
    worktree_id TEXT NOT NULL REFERENCES worktrees (id),
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    queued_at INTEGER NOT NULL,
    started_at INTEGER,
    finished_at INTEGER,
    due_at INTEGER
) STRICT;
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
    task_id TEXT NOT NULL REFERENCES tasks (id),
    depends_on TEXT NOT NULL REFERENCES tasks (id) CHECK (depends_on <> task_id),
    kind TEXT NOT NULL CHECK (kind IN ('blocks', 'informs')),
    PRIMARY KEY (task_id, depends_on)
) STRICT, WITHOUT ROWID;
CREATE INDEX dependencies_by_blocker ON dependencies (depends_on);

CREATE TABLE checkpoints (
    id TEXT PRIMARY KEY,
    task_id TEXT NOT NULL REFERENCES tasks (id),
    sequence INTEGER NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('plan', 'replan', 'progress', 'decision', 'error', 'recovery', 'complete')),
    summary TEXT NOT NULL,
    detail TEXT NOT NULL CHECK (json_valid(detail)),
    files TEXT NOT NULL CHECK (json_valid(files)),
    tokens INTEGER,
    cost REAL,
    agent_id TEXT NOT NULL REFERENCES agents (id),
    epoch INTEGER NOT NULL,
    worktree_id TEXT NOT NULL REFERENCES worktrees (id),
    created_at INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX checkpoints_by_task ON checkpoints (task_id, sequence);

CREATE TABLE leases (
    subject TEXT PRIMARY KEY,
    holder TEXT REFERENCES agents (id),
    epoch INTEGER NOT NULL CHECK (epoch > 0),
    granted_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    ttl_ms INTEGER NOT NULL,
    run_until INTEGER,
    stall_at INTEGER,
    deadline INTEGER NOT NULL,
    worktree_id TEXT NOT NULL REFERENCES worktrees (id)
) STRICT;
CREATE INDEX leases_by_holder ON leases (holder, subject) WHERE holder IS NOT NULL;
CREATE INDEX leases_due ON leases (deadline, subject) WHERE holder IS NOT NULL;

CREATE TABLE messages (
    id TEXT PRIMARY KEY,
    number INTEGER NOT NULL UNIQUE,
    sender TEXT NOT NULL REFERENCES agents (id),
    recipient TEXT NOT NULL REFERENCES agents (id),
    thread TEXT NOT NULL,
    reply_to TEXT REFERENCES messages (id),
    kind TEXT NOT NULL CHECK (kind IN ('task_assignment', 'status_update', 'query', 'response', 'broadcast')),
    priority TEXT NOT NULL CHECK (priority IN ('low', 'normal', 'high', 'urgent')),
    subject TEXT NOT NULL,
    body TEXT NOT NULL,
    workflow_id TEXT REFERENCES workflows (id),
    task_id TEXT REFERENCES tasks (id),
    expires_at INTEGER,
    state TEXT NOT NULL CHECK (state IN ('queued', 'presented', 'read', 'acted')),
    worktree_id TEXT NOT NULL REFERENCES worktrees (id),
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;
CREATE INDEX messages_waiting ON messages (recipient, number) WHERE state <> 'acted';
CREATE INDEX messages_by_thread ON messages (thread, number);
CREATE INDEX messages_by_task ON messages (task_id) WHERE task_id IS NOT NULL;

CREATE TABLE templates (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    version INTEGER NOT NULL,
    description TEXT NOT NULL,
    body TEXT NOT NULL CHECK (json_valid(body)),
    variables TEXT NOT NULL CHECK (json_valid(variables)),
    worktree_id TEXT NOT NULL REFERENCES worktrees (id),
    created_at INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX templates_by_name ON templates (name, version);

CREATE TABLE answers (
    key TEXT PRIMARY KEY,
    operation TEXT NOT NULL,
    request TEXT NOT NULL,
    answer TEXT NOT NULL CHECK (json_valid(answer)),
    worktree_id TEXT NOT NULL REFERENCES worktrees (id),
    created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX answers_by_time ON answers (created_at);

CREATE TABLE notices (
    issue TEXT PRIMARY KEY,
    news TEXT NOT NULL CHECK (news IN ('finished', 'abandoned')),
    reason TEXT NOT NULL,
    actor TEXT NOT NULL,
    task_id TEXT REFERENCES tasks (id),
    worktree_id TEXT NOT NULL REFERENCES worktrees (id),
    created_at INTEGER NOT NULL
) STRICT;

CREATE INDEX events_by_subject ON events (subject, sequence);
