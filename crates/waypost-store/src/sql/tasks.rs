//! Tasks, their dependencies and their checkpoints.

use waypost_core::id::{RepositoryId, WorktreeId};
use waypost_core::model::{
    CandidateQuery, Candidates, Checkpoint, Dependency, PlanPart, Progress, Task, TaskPlace, TaskStatus,
};

use super::Query;
use crate::cell::{Cell, cells};

table! {
    struct Task as task;
    /// Replaces in place.
    pub(crate) const TASK_PUT: upsert into tasks;
    key {
        id: parsed,
    }
    columns {
        workflow_id: parsed,
        name: text,
        description: text,
        status: parsed,
        sequence: number,
        parallel_group: maybe_text,
        priority: number,
        plan: json,
        acceptance: json,
        context: json,
        context_from: json,
        capabilities: json,
        files: json,
        repository_id: maybe_parsed,
        base: maybe_text,
        workspace_id: maybe_parsed,
        issue: maybe_text,
        assignee: maybe_parsed,
        attempts: number,
        max_attempts: number,
        backoff_ms: number,
        queue_timeout_ms: maybe_number,
        run_timeout_ms: maybe_number,
        stall_timeout_ms: maybe_number,
        needs_evidence: flag,
        outcome: maybe_text,
        evidence: maybe_text,
        error: maybe_text,
        question: maybe_text,
        answer: maybe_text,
        worktree_id: parsed,
        created_at: timestamp,
        updated_at: timestamp,
        queued_at: timestamp,
        started_at: maybe_timestamp,
        finished_at: maybe_timestamp,
        due_at: maybe_timestamp,
    }
}

update! {
    /// By primary key. The indexes of other columns are not touched.
    pub(crate) const TASK_ADVANCE: tasks by id from Progress<'_>;
    columns {
        status: parsed,
        attempts: number,
        outcome: maybe_text,
        evidence: maybe_text,
        error: maybe_text,
        question: maybe_text,
        answer: maybe_text,
        updated_at: timestamp,
        queued_at: timestamp,
        started_at: maybe_timestamp,
        finished_at: maybe_timestamp,
        due_at: maybe_timestamp,
    }
}

table! {
    struct Dependency as dependency;
    /// Replaces in place.
    pub(crate) const DEPENDENCY_PUT: upsert into dependencies;
    key {
        task_id: parsed,
        depends_on: parsed,
    }
    columns {
        kind: parsed,
    }
}

table! {
    struct Checkpoint as checkpoint;
    /// Inserts only.
    pub(crate) const CHECKPOINT_PUT: insert into checkpoints;
    key {
        id: parsed,
    }
    columns {
        task_id: parsed,
        sequence: number,
        kind: parsed,
        summary: text,
        detail: json,
        files: json,
        tokens: maybe_number,
        cost: maybe_real,
        agent_id: parsed,
        epoch: number,
        worktree_id: parsed,
        created_at: timestamp,
    }
}

/// By primary key.
pub(crate) const TASK_GET: &str = select!(task, "tasks WHERE id = ?1");
/// A scan of the list, and each task by primary key.
pub(crate) const TASK_LIST_BY_ID: &str =
    select!(task, "tasks WHERE id IN (SELECT value FROM json_each(?1)) ORDER BY id");
/// By primary key. A scan of the tables that may refer to it: removal is rare.
pub(crate) const TASK_REMOVE: &str = "DELETE FROM tasks WHERE id = ?1";
/// Along `tasks_by_plan`.
pub(crate) const TASK_LIST: &str = select!(task, "tasks WHERE workflow_id = ?1 ORDER BY sequence, id");
/// Along `tasks_by_plan`.
pub(crate) const TASK_LIST_PART: &str = select!(
    task,
    "tasks WHERE workflow_id = ?1 AND (sequence, id) > (?2, ?3) AND (?4 = '' OR ?4 LIKE '%,' || status || ',%')
    ORDER BY sequence, id LIMIT ?5"
);
/// Along `tasks_by_plan`.
pub(crate) const TASK_COUNT_PART: &str = "SELECT count(*) FROM tasks
    WHERE workflow_id = ?1 AND (sequence, id) > (?2, ?3) AND (?4 = '' OR ?4 LIKE '%,' || status || ',%')";
/// A scan of the list, and each workflow along `tasks_by_plan`.
pub(crate) const TASK_LIST_IN_WORKFLOWS: &str =
    select!(task, "tasks WHERE workflow_id IN (SELECT value FROM json_each(?1)) ORDER BY workflow_id, sequence, id");
/// Along `tasks_by_plan`.
pub(crate) const TASK_LIST_NAMES: &str =
    "SELECT id, name, status FROM tasks WHERE workflow_id = ?2 ORDER BY sequence, id LIMIT ?1";
/// Backwards along `tasks_named`.
pub(crate) const TASK_LIST_NAMED: &str =
    select!(task, "tasks WHERE name = ?2 ORDER BY created_at DESC, id DESC LIMIT ?1");
/// Backwards along `tasks_by_status`. The repositories are one text, each between commas.
pub(crate) const TASK_LIST_IN: &str = select!(
    task,
    "tasks WHERE status = ?2
        AND (?4 = '' OR worktree_id = ?4)
        AND (?3 = '' OR ?3 LIKE '%,' || COALESCE(repository_id, (SELECT worktrees.repository_id FROM worktrees
            WHERE worktrees.id = tasks.worktree_id)) || ',%')
    ORDER BY updated_at DESC, id DESC LIMIT ?1"
);
/// Along `tasks_pending`, until enough tasks without open blockers are found. A subquery reads the status of each task's
/// workflow by id: with a join, the planner may assume that few workflows run and start with those. The repositories are
/// one text, each between commas. A worktree leaves out its own tasks, and those that belong to others.
pub(crate) const TASK_LIST_CLAIMABLE: &str = select!(
    task,
    "tasks WHERE status = 'pending'
        AND (?4 = '' OR (worktree_id <> ?4
            AND (SELECT workflows.reach FROM workflows WHERE workflows.id = tasks.workflow_id) = 'repository'))
        AND (?3 = '' OR ?3 LIKE '%,' || COALESCE(repository_id, (SELECT worktrees.repository_id FROM worktrees
            WHERE worktrees.id = tasks.worktree_id)) || ',%')
        AND (SELECT workflows.status FROM workflows WHERE workflows.id = tasks.workflow_id) = 'in_progress'
        AND NOT EXISTS (SELECT 1 FROM dependencies JOIN tasks AS blocker ON blocker.id = dependencies.depends_on
            WHERE dependencies.task_id = tasks.id AND dependencies.kind = 'blocks'
                AND blocker.status NOT IN ('completed', 'skipped'))
    ORDER BY priority, queued_at, sequence, id LIMIT ?1 OFFSET ?2"
);
/// Along `tasks_pending_of_workflow`, as `TASK_LIST_CLAIMABLE`.
pub(crate) const TASK_LIST_CLAIMABLE_OF_WORKFLOW: &str = select!(
    task,
    "tasks WHERE status = 'pending' AND workflow_id = ?4
        AND (?3 = '' OR ?3 LIKE '%,' || COALESCE(repository_id, (SELECT worktrees.repository_id FROM worktrees
            WHERE worktrees.id = tasks.worktree_id)) || ',%')
        AND (SELECT workflows.status FROM workflows WHERE workflows.id = tasks.workflow_id) = 'in_progress'
        AND NOT EXISTS (SELECT 1 FROM dependencies JOIN tasks AS blocker ON blocker.id = dependencies.depends_on
            WHERE dependencies.task_id = tasks.id AND dependencies.kind = 'blocks'
                AND blocker.status NOT IN ('completed', 'skipped'))
    ORDER BY priority, queued_at, sequence, id LIMIT ?1 OFFSET ?2"
);
/// Along `tasks_pending_of_worktree`, as `TASK_LIST_CLAIMABLE`.
pub(crate) const TASK_LIST_CLAIMABLE_OF_WORKTREE: &str = select!(
    task,
    "tasks WHERE status = 'pending' AND worktree_id = ?4
        AND (?3 = '' OR ?3 LIKE '%,' || COALESCE(repository_id, (SELECT worktrees.repository_id FROM worktrees
            WHERE worktrees.id = tasks.worktree_id)) || ',%')
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
/// Along `tasks_by_state_of_workflow`, one lookup for each status.
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
/// Backwards along `checkpoints_by_task`.
pub(crate) const CHECKPOINT_LAST: &str =
    "SELECT sequence FROM checkpoints WHERE task_id = ?1 ORDER BY sequence DESC LIMIT 1";

/// Returns the parameters of the statements for a part of the tasks of a workflow. The limit is the last one.
pub(crate) fn plan_part(part: &PlanPart) -> [Cell; 5] {
    let PlanPart { workflow_id, statuses, after, limit } = part;
    let statuses = super::between_commas(statuses.iter().map(|status| status.as_str()));
    let (sequence, id) = after.as_ref().map_or((-1, ""), |(sequence, id)| (i64::from(*sequence), id.as_str()));
    [workflow_id.as_str().into(), sequence.into(), id.into(), statuses.into(), (*limit).into()]
}

/// Returns the statement for the tasks with a status.
pub(crate) fn task_list_in(status: TaskStatus, place: &TaskPlace, limit: u32) -> Query {
    let TaskPlace { worktree_id, repositories } = place;
    let repositories = super::between_commas(repositories.iter().map(RepositoryId::as_str));
    let worktree_id = worktree_id.as_ref().map_or("", WorktreeId::as_str);
    (TASK_LIST_IN, cells![limit, status.as_str(), repositories, worktree_id].to_vec())
}

/// Returns the statement for a list of claimable tasks.
pub(crate) fn task_list_claimable(query: &CandidateQuery) -> Query {
    let CandidateQuery { of, repositories, skip, limit } = query;
    let (statement, id) = match of {
        Candidates::All => (TASK_LIST_CLAIMABLE, ""),
        Candidates::SharedWith(id) => (TASK_LIST_CLAIMABLE, id.as_str()),
        Candidates::OfWorkflow(id) => (TASK_LIST_CLAIMABLE_OF_WORKFLOW, id.as_str()),
        Candidates::OfWorktree(id) => (TASK_LIST_CLAIMABLE_OF_WORKTREE, id.as_str()),
    };
    let repositories = super::between_commas(repositories.iter().map(RepositoryId::as_str));
    (statement, cells![*limit, *skip, repositories, id].to_vec())
}
