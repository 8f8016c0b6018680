//! The statements, one constant each, in the SQL that all backends understand.
//!
//! Parameters are written `?1`; PostgreSQL gets them as `$1`. A list is one parameter, a JSON array, and is written
//! `json_each(?1)`; PostgreSQL gets its own function for that. Each says which index it goes along.

/// `SELECT` with all columns of a table, in the order in which `tx.rs` reads them.
macro_rules! select {
    ($row:ident, $rest:literal) => {
        concat!("SELECT ", columns!($row), " FROM ", $rest)
    };
}

/// A moment that moves by `?1`. One so far away that it means never stays.
macro_rules! shifted {
    ($column:literal) => {
        concat!("CASE WHEN ", $column, " < 4611686018427387904 THEN ", $column, " + ?1 ELSE ", $column, " END")
    };
}

/// A moment that moves by `?1`, but not beyond `?2`.
macro_rules! redated {
    ($column:literal) => {
        concat!("CASE WHEN ", $column, " > ?2 - ?1 THEN ?2 ELSE ", $column, " + ?1 END")
    };
}

/// The columns of each table.
macro_rules! columns {
    (repository) => {
        "id, name, path, vcs, remote_url, default_branch"
    };
    (worktree) => {
        "id, repository_id, name, path, branch, first_seen, last_seen, removed_at"
    };
    (event) => {
        "sequence, time, actor, worktree_id, kind, subject, data"
    };
    (workflow) => {
        "id, name, source, source_ref, source_content, status, summary, max_parallel, config, reason, \
         worktree_id, created_at, updated_at, started_at, finished_at"
    };
    (agent) => {
        "id, name, runtime, role, status, capabilities, workspace_id, metadata, process, timeout_ms, \
         max_claims, worktree_id, registered_at, last_heartbeat, silent_at, retired_at"
    };
    (task) => {
        "id, workflow_id, name, description, status, sequence, parallel_group, priority, plan, acceptance, \
         context, context_from, capabilities, files, repository_id, workspace_id, issue, assignee, attempts, \
         max_attempts, backoff_ms, queue_timeout_ms, run_timeout_ms, stall_timeout_ms, needs_evidence, \
         outcome, evidence, error, question, answer, worktree_id, created_at, updated_at, queued_at, \
         started_at, finished_at, due_at"
    };
    (dependency) => {
        "task_id, depends_on, kind"
    };
    (checkpoint) => {
        "id, task_id, sequence, kind, summary, detail, files, tokens, cost, agent_id, epoch, worktree_id, \
         created_at"
    };
    (lease) => {
        "subject, holder, epoch, granted_at, expires_at, ttl_ms, run_until, stall_at, worktree_id"
    };
    (message) => {
        "id, number, sender, recipient, thread, reply_to, kind, priority, subject, body, workflow_id, \
         task_id, expires_at, state, worktree_id, created_at, updated_at"
    };
    (template) => {
        "id, name, version, description, body, variables, worktree_id, created_at"
    };
    (answer) => {
        "key, operation, request, answer, worktree_id, created_at"
    };
    (job) => {
        "id, kind, description, input, status, command, settings, repository_id, task_id, epoch, agent_id, \
         workspace_id, work_dir, workspace_dir, context_dir, log, machine, supervisor, process, \
         token_hash, phases, output, exit_code, error, warnings, tokens, cost, retry_of, cancelled_at, \
         worktree_id, created_at, updated_at, started_at, finished_at"
    };
    (workspace) => {
        "id, repository_id, job_id, machine, path, strategy, branch, base, status, size, identity, \
         is_pinned, snapshot, merge_commit, pr_url, note, plan, worktree_id, created_at, updated_at, \
         removed_at"
    };
    (notice) => {
        "issue, news, reason, actor, task_id, worktree_id, created_at"
    };
}

/// Replaces in place: deleting the row first would take it from under those that refer to it.
pub(crate) const REPOSITORY_PUT: &str = "
    INSERT INTO repositories
        (id, name, path, vcs, remote_url, default_branch)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6)
    ON CONFLICT (id) DO UPDATE SET
        name = excluded.name, path = excluded.path, vcs = excluded.vcs, remote_url = excluded.remote_url,
        default_branch = excluded.default_branch";

/// Replaces in place.
pub(crate) const WORKTREE_PUT: &str = "
    INSERT INTO worktrees
        (id, repository_id, name, path, branch, first_seen, last_seen, removed_at)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
    ON CONFLICT (id) DO UPDATE SET
        repository_id = excluded.repository_id, name = excluded.name, path = excluded.path, branch =
        excluded.branch, first_seen = excluded.first_seen, last_seen = excluded.last_seen, removed_at =
        excluded.removed_at";

/// Replaces in place.
pub(crate) const WORKFLOW_PUT: &str = "
    INSERT INTO workflows
        (id, name, source, source_ref, source_content, status, summary, max_parallel, config, reason,
        worktree_id, created_at, updated_at, started_at, finished_at)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)
    ON CONFLICT (id) DO UPDATE SET
        name = excluded.name, source = excluded.source, source_ref = excluded.source_ref, source_content =
        excluded.source_content, status = excluded.status, summary = excluded.summary, max_parallel =
        excluded.max_parallel, config = excluded.config, reason = excluded.reason, worktree_id =
        excluded.worktree_id, created_at = excluded.created_at, updated_at = excluded.updated_at, started_at =
        excluded.started_at, finished_at = excluded.finished_at";

/// Replaces in place.
pub(crate) const WORKFLOW_REPOSITORY_PUT: &str = "
    INSERT INTO workflow_repositories
        (workflow_id, repository_id)
    VALUES (?1, ?2)
    ON CONFLICT (workflow_id, repository_id) DO NOTHING";

/// Replaces in place.
pub(crate) const AGENT_PUT: &str = "
    INSERT INTO agents
        (id, name, runtime, role, status, capabilities, workspace_id, metadata, process, timeout_ms, max_claims,
        worktree_id, registered_at, last_heartbeat, silent_at, retired_at)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)
    ON CONFLICT (id) DO UPDATE SET
        name = excluded.name, runtime = excluded.runtime, role = excluded.role, status = excluded.status,
        capabilities = excluded.capabilities, workspace_id = excluded.workspace_id, metadata =
        excluded.metadata, process = excluded.process, timeout_ms = excluded.timeout_ms, max_claims =
        excluded.max_claims, worktree_id = excluded.worktree_id, registered_at = excluded.registered_at,
        last_heartbeat = excluded.last_heartbeat, silent_at = excluded.silent_at, retired_at =
        excluded.retired_at";

/// By primary key. The indexes of what stays are left alone.
pub(crate) const AGENT_TOUCH: &str = "UPDATE agents SET status = ?2, last_heartbeat = ?3, silent_at = ?4 WHERE id = ?1";

/// Replaces in place.
pub(crate) const TASK_PUT: &str = "
    INSERT INTO tasks
        (id, workflow_id, name, description, status, sequence, parallel_group, priority, plan, acceptance,
        context, context_from, capabilities, files, repository_id, workspace_id, issue, assignee, attempts,
        max_attempts, backoff_ms, queue_timeout_ms, run_timeout_ms, stall_timeout_ms, needs_evidence, outcome,
        evidence, error, question, answer, worktree_id, created_at, updated_at, queued_at, started_at,
        finished_at, due_at)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22,
        ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30, ?31, ?32, ?33, ?34, ?35, ?36, ?37)
    ON CONFLICT (id) DO UPDATE SET
        workflow_id = excluded.workflow_id, name = excluded.name, description = excluded.description, status =
        excluded.status, sequence = excluded.sequence, parallel_group = excluded.parallel_group, priority =
        excluded.priority, plan = excluded.plan, acceptance = excluded.acceptance, context = excluded.context,
        context_from = excluded.context_from, capabilities = excluded.capabilities, files = excluded.files,
        repository_id = excluded.repository_id, workspace_id = excluded.workspace_id, issue = excluded.issue,
        assignee = excluded.assignee, attempts = excluded.attempts, max_attempts = excluded.max_attempts,
        backoff_ms = excluded.backoff_ms, queue_timeout_ms = excluded.queue_timeout_ms, run_timeout_ms =
        excluded.run_timeout_ms, stall_timeout_ms = excluded.stall_timeout_ms, needs_evidence =
        excluded.needs_evidence, outcome = excluded.outcome, evidence = excluded.evidence, error =
        excluded.error, question = excluded.question, answer = excluded.answer, worktree_id =
        excluded.worktree_id, created_at = excluded.created_at, updated_at = excluded.updated_at, queued_at =
        excluded.queued_at, started_at = excluded.started_at, finished_at = excluded.finished_at, due_at =
        excluded.due_at";

/// By primary key. The indexes of what stays are left alone.
pub(crate) const TASK_ADVANCE: &str = "
    UPDATE tasks SET
        status = ?2, attempts = ?3, outcome = ?4, evidence = ?5, error = ?6, question = ?7, answer = ?8,
        updated_at = ?9, queued_at = ?10, started_at = ?11, finished_at = ?12, due_at = ?13
    WHERE id = ?1";

/// Replaces in place.
pub(crate) const DEPENDENCY_PUT: &str = "
    INSERT INTO dependencies
        (task_id, depends_on, kind)
    VALUES (?1, ?2, ?3)
    ON CONFLICT (task_id, depends_on) DO UPDATE SET
        kind = excluded.kind";

/// Replaces in place.
pub(crate) const LEASE_PUT: &str = "
    INSERT INTO leases
        (subject, holder, epoch, granted_at, expires_at, ttl_ms, run_until, stall_at, deadline, worktree_id)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
    ON CONFLICT (subject) DO UPDATE SET
        holder = excluded.holder, epoch = excluded.epoch, granted_at = excluded.granted_at, expires_at =
        excluded.expires_at, ttl_ms = excluded.ttl_ms, run_until = excluded.run_until, stall_at =
        excluded.stall_at, deadline = excluded.deadline, worktree_id = excluded.worktree_id";

/// Replaces in place.
pub(crate) const MESSAGE_PUT: &str = "
    INSERT INTO messages
        (id, number, sender, recipient, thread, reply_to, kind, priority, subject, body, workflow_id, task_id,
        expires_at, state, worktree_id, created_at, updated_at)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)
    ON CONFLICT (id) DO UPDATE SET
        number = excluded.number, sender = excluded.sender, recipient = excluded.recipient, thread =
        excluded.thread, reply_to = excluded.reply_to, kind = excluded.kind, priority = excluded.priority,
        subject = excluded.subject, body = excluded.body, workflow_id = excluded.workflow_id, task_id =
        excluded.task_id, expires_at = excluded.expires_at, state = excluded.state, worktree_id =
        excluded.worktree_id, created_at = excluded.created_at, updated_at = excluded.updated_at";

/// Replaces in place.
pub(crate) const NOTICE_PUT: &str = "
    INSERT INTO notices
        (issue, news, reason, actor, task_id, worktree_id, created_at)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
    ON CONFLICT (issue) DO UPDATE SET
        news = excluded.news, reason = excluded.reason, actor = excluded.actor, task_id = excluded.task_id,
        worktree_id = excluded.worktree_id, created_at = excluded.created_at";

/// Replaces in place.
pub(crate) const JOB_PUT: &str = "
    INSERT INTO jobs
        (id, kind, description, input, status, command, settings, repository_id, task_id, epoch, agent_id,
        workspace_id, work_dir, workspace_dir, context_dir, log, machine, supervisor, process, token_hash,
        phases, output, exit_code, error, warnings, tokens, cost, retry_of, cancelled_at, worktree_id,
        created_at, updated_at, started_at, finished_at)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22,
        ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30, ?31, ?32, ?33, ?34)
    ON CONFLICT (id) DO UPDATE SET
        kind = excluded.kind, description = excluded.description, input = excluded.input,
        status = excluded.status, command = excluded.command, settings = excluded.settings,
        repository_id = excluded.repository_id, task_id = excluded.task_id, epoch = excluded.epoch,
        agent_id = excluded.agent_id, workspace_id = excluded.workspace_id, work_dir = excluded.work_dir,
        workspace_dir = excluded.workspace_dir, context_dir = excluded.context_dir, log = excluded.log,
        machine = excluded.machine, supervisor = excluded.supervisor, process = excluded.process,
        token_hash = excluded.token_hash, phases = excluded.phases, output = excluded.output,
        exit_code = excluded.exit_code, error = excluded.error, warnings = excluded.warnings,
        tokens = excluded.tokens, cost = excluded.cost, retry_of = excluded.retry_of,
        cancelled_at = excluded.cancelled_at, worktree_id = excluded.worktree_id,
        created_at = excluded.created_at, updated_at = excluded.updated_at, started_at = excluded.started_at,
        finished_at = excluded.finished_at";

/// Replaces in place.
pub(crate) const WORKSPACE_PUT: &str = "
    INSERT INTO workspaces
        (id, repository_id, job_id, machine, path, strategy, branch, base, status, size, identity, is_pinned,
        snapshot, merge_commit, pr_url, note, plan, worktree_id, created_at, updated_at, removed_at)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21)
    ON CONFLICT (id) DO UPDATE SET
        repository_id = excluded.repository_id, job_id = excluded.job_id, machine = excluded.machine,
        path = excluded.path, strategy = excluded.strategy, branch = excluded.branch, base = excluded.base,
        status = excluded.status, size = excluded.size, identity = excluded.identity,
        is_pinned = excluded.is_pinned, snapshot = excluded.snapshot, merge_commit = excluded.merge_commit,
        pr_url = excluded.pr_url, note = excluded.note, plan = excluded.plan,
        worktree_id = excluded.worktree_id, created_at = excluded.created_at,
        updated_at = excluded.updated_at, removed_at = excluded.removed_at";

/// Inserts only.
pub(crate) const CHECKPOINT_PUT: &str = "
    INSERT INTO checkpoints
        (id, task_id, sequence, kind, summary, detail, files, tokens, cost, agent_id, epoch, worktree_id,
        created_at)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)";

/// Inserts only.
pub(crate) const TEMPLATE_PUT: &str = "
    INSERT INTO templates
        (id, name, version, description, body, variables, worktree_id, created_at)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";

/// Inserts only.
pub(crate) const ANSWER_PUT: &str = "
    INSERT INTO answers
        (key, operation, request, answer, worktree_id, created_at)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6)";

/// By primary key.
pub(crate) const REPOSITORY_GET: &str = select!(repository, "repositories WHERE id = ?1");
/// A scan: a store knows few repositories.
pub(crate) const REPOSITORY_LIST: &str = select!(repository, "repositories ORDER BY name, id");
/// By primary key. A scan of those that may refer to it: it is rare.
pub(crate) const REPOSITORY_REMOVE: &str = "DELETE FROM repositories WHERE id = ?1";

/// By primary key.
pub(crate) const WORKTREE_GET: &str = select!(worktree, "worktrees WHERE id = ?1");
/// By primary key.
pub(crate) const WORKTREE_TOUCH: &str = "UPDATE worktrees SET last_seen = ?2 WHERE id = ?1";
/// A scan: a store knows few worktrees.
pub(crate) const WORKTREE_LIST: &str = select!(worktree, "worktrees ORDER BY first_seen, name, id");

/// Inserts only.
pub(crate) const EVENT_APPEND: &str = "
    INSERT INTO events (sequence, time, actor, worktree_id, kind, subject, data)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
/// The one row of `store_state`, with the last row of events by primary key.
pub(crate) const STATE_GET: &str = "
    SELECT last.sequence, last.time, boot, offset_ms, is_firm, doubt_wall, doubt_since, epoch_floor
    FROM store_state
        LEFT JOIN (SELECT sequence, time FROM events ORDER BY sequence DESC LIMIT 1) AS last ON 1 = 1";
/// A scan: there is one row.
pub(crate) const ANCHOR_PUT: &str =
    "UPDATE store_state SET boot = ?1, offset_ms = ?2, is_firm = ?3, doubt_wall = ?4, doubt_since = ?5";
/// A scan: there is one row.
pub(crate) const EPOCH_FLOOR_PUT: &str = "UPDATE store_state SET epoch_floor = ?1";
/// Along `leases_by_holder`.
pub(crate) const LEASE_SHIFT: &str = concat!(
    "UPDATE leases SET expires_at = ",
    shifted!("expires_at"),
    ", run_until = ",
    shifted!("run_until"),
    ", stall_at = ",
    shifted!("stall_at"),
    ", deadline = ",
    shifted!("deadline"),
    " WHERE holder IS NOT NULL"
);
/// A scan: time rarely jumps.
pub(crate) const TASK_SHIFT: &str =
    concat!("UPDATE tasks SET due_at = ", shifted!("due_at"), " WHERE due_at IS NOT NULL");
/// A scan: time rarely jumps.
pub(crate) const AGENT_SHIFT: &str =
    concat!("UPDATE agents SET silent_at = ", shifted!("silent_at"), " WHERE silent_at IS NOT NULL");
/// A scan: time rarely jumps.
pub(crate) const MESSAGE_SHIFT: &str = concat!(
    "UPDATE messages SET expires_at = ",
    shifted!("expires_at"),
    " WHERE expires_at IS NOT NULL AND state <> 'acted'"
);
/// A scan: time rarely jumps.
pub(crate) const TASK_REDATE: &str =
    concat!("UPDATE tasks SET queued_at = ", redated!("queued_at"), " WHERE status = 'pending'");
/// A scan: time rarely jumps.
pub(crate) const ANSWER_REDATE: &str = concat!("UPDATE answers SET created_at = ", redated!("created_at"));
/// Backwards along the primary key.
pub(crate) const EVENT_LIST: &str =
    select!(event, "events WHERE substr(kind, 1, length(?2)) = ?2 ORDER BY sequence DESC LIMIT ?1");
/// Backwards along `events_by_worktree`.
pub(crate) const EVENT_LIST_OF_WORKTREE: &str = select!(
    event,
    "events WHERE substr(kind, 1, length(?2)) = ?2 AND worktree_id = ?3 ORDER BY sequence DESC LIMIT ?1"
);
/// Backwards along `events_by_subject`.
pub(crate) const EVENT_LIST_OF_SUBJECT: &str = select!(
    event,
    "events WHERE substr(kind, 1, length(?2)) = ?2 AND subject = ?3 AND (?4 = '' OR worktree_id = ?4)
    ORDER BY sequence DESC LIMIT ?1"
);
/// Along the primary key.
pub(crate) const EVENT_LIST_SINCE: &str =
    select!(event, "events WHERE substr(kind, 1, length(?2)) = ?2 AND sequence > ?3 ORDER BY sequence LIMIT ?1");
/// Along `events_by_worktree`.
pub(crate) const EVENT_LIST_SINCE_OF_WORKTREE: &str = select!(
    event,
    "events WHERE substr(kind, 1, length(?2)) = ?2 AND sequence > ?3 AND worktree_id = ?4 ORDER BY sequence LIMIT ?1"
);
/// Along `events_by_subject`.
pub(crate) const EVENT_LIST_SINCE_OF_SUBJECT: &str = select!(
    event,
    "events WHERE substr(kind, 1, length(?2)) = ?2 AND sequence > ?3 AND subject = ?4
        AND (?5 = '' OR worktree_id = ?5)
    ORDER BY sequence LIMIT ?1"
);

/// Along `leases_due`, `tasks_due` and `agents_by_silence`; asked before everything, and mostly none.
pub(crate) const DUE_COUNT: &str = "
    SELECT (SELECT count(*) FROM leases WHERE holder IS NOT NULL AND deadline <= ?1)
        + (SELECT count(*) FROM tasks WHERE due_at IS NOT NULL AND due_at <= ?1)
        + (SELECT count(*) FROM agents WHERE status <> 'offline' AND silent_at <= ?1)";

/// By primary key.
pub(crate) const WORKFLOW_GET: &str = select!(workflow, "workflows WHERE id = ?1");
/// A scan of the list, and each workflow by primary key.
pub(crate) const WORKFLOW_LIST_BY_ID: &str =
    select!(workflow, "workflows WHERE id IN (SELECT value FROM json_each(?1)) ORDER BY id");
/// Backwards along `workflows_by_time`; statuses come as one text, each between commas.
pub(crate) const WORKFLOW_LIST: &str = select!(
    workflow,
    "workflows
    WHERE (?2 = '' OR ?2 LIKE '%,' || status || ',%') AND (?3 = '' OR worktree_id = ?3) AND (?4 = '' OR name = ?4)
        AND (?5 = '' OR EXISTS (SELECT 1 FROM workflow_repositories
            WHERE workflow_id = workflows.id AND repository_id = ?5))
    ORDER BY created_at DESC, id DESC LIMIT ?1"
);
/// By primary key.
pub(crate) const WORKFLOW_REPOSITORY_LIST: &str =
    "SELECT repository_id FROM workflow_repositories WHERE workflow_id = ?1 ORDER BY repository_id";
/// A scan of the list, and each workflow by primary key.
pub(crate) const WORKFLOW_REPOSITORY_LIST_IN: &str = "
    SELECT workflow_id, repository_id FROM workflow_repositories
    WHERE workflow_id IN (SELECT value FROM json_each(?1)) ORDER BY workflow_id, repository_id";

/// By primary key.
pub(crate) const TASK_GET: &str = select!(task, "tasks WHERE id = ?1");
/// A scan of the list, and each task by primary key.
pub(crate) const TASK_LIST_BY_ID: &str =
    select!(task, "tasks WHERE id IN (SELECT value FROM json_each(?1)) ORDER BY id");
/// By primary key. A scan of those that may refer to it: it is rare.
pub(crate) const TASK_REMOVE: &str = "DELETE FROM tasks WHERE id = ?1";
/// Along `tasks_by_plan`.
pub(crate) const TASK_LIST: &str = select!(task, "tasks WHERE workflow_id = ?1 ORDER BY sequence, id");
/// A scan of the list, and each workflow along `tasks_by_plan`.
pub(crate) const TASK_LIST_IN_WORKFLOWS: &str =
    select!(task, "tasks WHERE workflow_id IN (SELECT value FROM json_each(?1)) ORDER BY workflow_id, sequence, id");
/// Along `tasks_by_plan`.
pub(crate) const TASK_LIST_NAMES: &str =
    "SELECT id, name, status FROM tasks WHERE workflow_id = ?2 ORDER BY sequence, id LIMIT ?1";
/// Backwards along `tasks_named`.
pub(crate) const TASK_LIST_NAMED: &str =
    select!(task, "tasks WHERE name = ?2 ORDER BY created_at DESC, id DESC LIMIT ?1");
/// Backwards along `tasks_by_status`.
pub(crate) const TASK_LIST_IN: &str =
    select!(task, "tasks WHERE status = ?2 ORDER BY updated_at DESC, id DESC LIMIT ?1");
/// Along `tasks_pending`, until enough are found that wait for nothing. Each workflow is asked for by its id: whoever joins
/// them may take it that few run.
pub(crate) const TASK_LIST_CLAIMABLE: &str = select!(
    task,
    "tasks WHERE status = 'pending'
        AND (SELECT workflows.status FROM workflows WHERE workflows.id = tasks.workflow_id) = 'in_progress'
        AND NOT EXISTS (SELECT 1 FROM dependencies JOIN tasks AS blocker ON blocker.id = dependencies.depends_on
            WHERE dependencies.task_id = tasks.id AND dependencies.kind = 'blocks'
                AND blocker.status NOT IN ('completed', 'skipped'))
    ORDER BY priority, queued_at, sequence, id LIMIT ?1 OFFSET ?2"
);
/// Along `tasks_pending_of_workflow`, as `TASK_LIST_CLAIMABLE`.
pub(crate) const TASK_LIST_CLAIMABLE_OF_WORKFLOW: &str = select!(
    task,
    "tasks WHERE status = 'pending' AND workflow_id = ?3
        AND (SELECT workflows.status FROM workflows WHERE workflows.id = tasks.workflow_id) = 'in_progress'
        AND NOT EXISTS (SELECT 1 FROM dependencies JOIN tasks AS blocker ON blocker.id = dependencies.depends_on
            WHERE dependencies.task_id = tasks.id AND dependencies.kind = 'blocks'
                AND blocker.status NOT IN ('completed', 'skipped'))
    ORDER BY priority, queued_at, sequence, id LIMIT ?1 OFFSET ?2"
);
/// Along `tasks_due`.
pub(crate) const TASK_LIST_DUE: &str =
    select!(task, "tasks WHERE due_at IS NOT NULL AND due_at <= ?2 ORDER BY due_at, id LIMIT ?1");
/// Along `tasks_by_state_of_workflow`, without the rows.
pub(crate) const TASK_COUNT: &str = "SELECT status, count(*) FROM tasks WHERE workflow_id = ?1 GROUP BY status";
/// A scan of the list, and each workflow along `tasks_by_state_of_workflow`, without the rows.
pub(crate) const TASK_COUNT_IN_WORKFLOWS: &str = "
    SELECT workflow_id, status, count(*) FROM tasks WHERE workflow_id IN (SELECT value FROM json_each(?1))
    GROUP BY workflow_id, status";
/// Along `tasks_by_state_of_workflow`, one look for each status.
pub(crate) const TASK_LIST_STATUSES: &str = "
    SELECT column1
    FROM (VALUES ('pending'), ('in_progress'), ('paused'), ('waiting_input'), ('completed'), ('failed'), ('dead'),
        ('skipped'), ('cancelled')) AS words
    WHERE EXISTS (SELECT 1 FROM tasks WHERE workflow_id = ?1 AND status = column1)";

/// By primary key.
pub(crate) const DEPENDENCY_REMOVE: &str = "DELETE FROM dependencies WHERE task_id = ?1 AND depends_on = ?2";
/// Each task of the workflow by `tasks_by_plan`, its dependencies by primary key.
pub(crate) const DEPENDENCY_LIST: &str = select!(
    dependency,
    "dependencies WHERE task_id IN (SELECT id FROM tasks WHERE workflow_id = ?1) ORDER BY task_id, depends_on"
);
/// A scan of the list, each workflow's tasks by `tasks_by_plan`, and their dependencies by primary key.
pub(crate) const DEPENDENCY_LIST_IN_WORKFLOWS: &str = select!(
    dependency,
    "dependencies
    WHERE task_id IN (SELECT id FROM tasks WHERE workflow_id IN (SELECT value FROM json_each(?1)))
    ORDER BY task_id, depends_on"
);
/// By primary key.
pub(crate) const DEPENDENCY_LIST_OF: &str = select!(dependency, "dependencies WHERE task_id = ?1 ORDER BY depends_on");
/// A scan of the list, and the dependencies of each task by primary key.
pub(crate) const DEPENDENCY_LIST_BY_TASK: &str =
    select!(dependency, "dependencies WHERE task_id IN (SELECT value FROM json_each(?1)) ORDER BY task_id, depends_on");

/// Backwards along `checkpoints_by_task`.
pub(crate) const CHECKPOINT_LIST: &str =
    select!(checkpoint, "checkpoints WHERE task_id = ?2 AND sequence < ?3 ORDER BY sequence DESC LIMIT ?1");

/// By primary key.
pub(crate) const AGENT_GET: &str = select!(agent, "agents WHERE id = ?1");
/// By the unique name.
pub(crate) const AGENT_NAMED: &str = select!(agent, "agents WHERE name = ?1");
/// A scan: a store knows few agents.
pub(crate) const AGENT_LIST: &str = select!(agent, "agents ORDER BY name");
/// Along `agents_by_silence`.
pub(crate) const AGENT_LIST_SILENT: &str =
    select!(agent, "agents WHERE status <> 'offline' AND silent_at <= ?2 ORDER BY silent_at, id LIMIT ?1");

/// By primary key.
pub(crate) const LEASE_GET: &str = select!(lease, "leases WHERE subject = ?1");
/// Along `leases_by_holder`, then sorted: by the subject alone SQLite would go through all leases that ever were.
pub(crate) const LEASE_LIST: &str = select!(lease, "leases WHERE holder IS NOT NULL ORDER BY subject || ''");
/// Along `leases_by_holder`.
pub(crate) const LEASE_LIST_OF_HOLDER: &str = select!(lease, "leases WHERE holder = ?1 ORDER BY subject");
/// A scan of the list, each workflow's tasks by `tasks_by_plan`, and their leases by primary key.
pub(crate) const LEASE_LIST_IN_WORKFLOWS: &str = select!(
    lease,
    "leases
    WHERE subject IN (SELECT id FROM tasks WHERE workflow_id IN (SELECT value FROM json_each(?1)))
    ORDER BY subject"
);
/// A scan of the list, and each lease by primary key.
pub(crate) const LEASE_LIST_BY_TASK: &str =
    select!(lease, "leases WHERE subject IN (SELECT value FROM json_each(?1)) ORDER BY subject");
/// A scan: it is asked after a failover.
pub(crate) const LEASE_MAX_EPOCH: &str = "SELECT coalesce(max(epoch), 0) FROM leases";
/// Along `leases_due`.
pub(crate) const LEASE_LIST_DUE: &str =
    select!(lease, "leases WHERE holder IS NOT NULL AND deadline <= ?2 ORDER BY deadline, subject LIMIT ?1");

/// By primary key.
pub(crate) const MESSAGE_GET: &str = select!(message, "messages WHERE id = ?1");
/// The last entry of the unique index.
pub(crate) const MESSAGE_LAST: &str = "SELECT coalesce(max(number), 0) FROM messages";
/// Along `messages_waiting`.
pub(crate) const MESSAGE_LIST: &str = select!(
    message,
    "messages WHERE recipient = ?2 AND state <> 'acted' AND (expires_at IS NULL OR expires_at > ?3)
    ORDER BY number LIMIT ?1"
);
/// Along `messages_waiting`.
pub(crate) const MESSAGE_COUNT: &str = "
    SELECT count(*) FROM messages
    WHERE recipient = ?1 AND state <> 'acted' AND (expires_at IS NULL OR expires_at > ?2)";
/// Along `messages_waiting`.
pub(crate) const MESSAGE_COUNT_BY_RECIPIENT: &str = "
    SELECT recipient, count(*) FROM messages
    WHERE state <> 'acted' AND (expires_at IS NULL OR expires_at > ?1) GROUP BY recipient";
/// A scan: only whoever moves a workflow asks.
pub(crate) const MESSAGE_LIST_ABOUT: &str = select!(message, "messages WHERE workflow_id = ?1 ORDER BY number");
/// Along `messages_by_task`.
pub(crate) const MESSAGE_DETACH: &str = "UPDATE messages SET task_id = NULL WHERE task_id = ?1";
/// Along `messages_by_thread`.
pub(crate) const MESSAGE_LIST_THREAD: &str = select!(message, "messages WHERE thread = ?1 ORDER BY number");

/// A scan: there are few templates.
pub(crate) const TEMPLATE_LIST: &str = select!(
    template,
    "templates WHERE (?1 = '' OR name = ?1)
        AND NOT EXISTS (SELECT 1 FROM templates AS later
            WHERE later.name = templates.name AND later.version > templates.version)
    ORDER BY name"
);

/// By primary key.
pub(crate) const ANSWER_GET: &str = select!(answer, "answers WHERE key = ?1");
/// Along `answers_by_time`.
pub(crate) const ANSWER_FORGET: &str = "DELETE FROM answers WHERE created_at < ?1";

/// A scan: what is here is about to go.
pub(crate) const NOTICE_LIST: &str = select!(notice, "notices ORDER BY created_at, issue");
/// By primary key.
pub(crate) const NOTICE_REMOVE: &str = "DELETE FROM notices WHERE issue = ?1";

/// By primary key.
pub(crate) const JOB_GET: &str = select!(job, "jobs WHERE id = ?1");
/// Along `jobs_by_time`.
pub(crate) const JOB_LIST: &str =
    select!(job, "jobs WHERE ?2 = '' OR status = ?2 ORDER BY created_at DESC, id DESC LIMIT ?1");
/// Along `jobs_live`.
pub(crate) const JOB_LIST_LIVE: &str = select!(
    job,
    "jobs WHERE finished_at IS NULL AND (?2 = '' OR status = ?2) ORDER BY created_at DESC, id DESC LIMIT ?1"
);
/// Along `jobs_by_task`.
pub(crate) const JOB_LIST_OF_TASK: &str = select!(
    job,
    "jobs WHERE task_id = ?4 AND (?2 = '' OR status = ?2) AND (?3 = '' OR finished_at IS NULL)
    ORDER BY created_at DESC, id DESC LIMIT ?1"
);

/// By primary key.
pub(crate) const WORKSPACE_GET: &str = select!(workspace, "workspaces WHERE id = ?1");
/// Along `workspaces_by_time`.
pub(crate) const WORKSPACE_LIST: &str =
    select!(workspace, "workspaces WHERE ?2 = '' OR machine = ?2 ORDER BY created_at DESC, id DESC LIMIT ?1");
/// Along `workspaces_live`.
pub(crate) const WORKSPACE_LIST_LIVE: &str = select!(
    workspace,
    "workspaces WHERE removed_at IS NULL AND (?2 = '' OR machine = ?2) ORDER BY created_at DESC, id DESC LIMIT ?1"
);
/// Along `workspaces_by_job`.
pub(crate) const WORKSPACE_LIST_OF_JOB: &str = select!(
    workspace,
    "workspaces WHERE job_id = ?4 AND (?2 = '' OR machine = ?2) AND (?3 = 'all' OR removed_at IS NULL)
    ORDER BY created_at DESC, id DESC LIMIT ?1"
);
