//! Jobs, their output, machines and workspaces.

use waypost_core::id::{JobId, RepositoryId, WorkspaceId, WorktreeId};
use waypost_core::model::{Job, JobQuery, JobStatus, LogPiece, Machine, Workspace, WorkspaceQuery};

use super::Query;
use crate::cell::cells;

table! {
    struct Job as job;
    /// Replaces in place.
    pub(crate) const JOB_PUT: upsert into jobs;
    key {
        id: parsed,
    }
    columns {
        kind: text,
        description: text,
        input: json,
        status: parsed,
        command: json,
        settings: json,
        repository_id: parsed,
        task_id: maybe_parsed,
        epoch: maybe_number,
        agent_id: maybe_parsed,
        workspace_id: maybe_parsed,
        started_from: maybe_text,
        result: maybe_text,
        work_dir: path,
        workspace_dir: maybe_path,
        context_dir: maybe_path,
        log: maybe_path,
        machine: maybe_text,
        supervisor: maybe_json,
        process: maybe_json,
        token_hash: maybe_text,
        phases: json,
        output: maybe_text,
        exit_code: maybe_number,
        error: maybe_text,
        warnings: json,
        tokens: maybe_number,
        cost: maybe_real,
        retry_of: maybe_parsed,
        cancelled_at: maybe_timestamp,
        worktree_id: parsed,
        created_at: timestamp,
        updated_at: timestamp,
        started_at: maybe_timestamp,
        finished_at: maybe_timestamp,
    }
}

table! {
    struct LogPiece as log_piece;
    /// Replaces in place.
    pub(crate) const LOG_PUT: upsert into job_logs;
    key {
        job_id: parsed,
        first_byte: number,
    }
    columns {
        text: text,
    }
    computed {
        next_byte: LogPiece::next_byte,
    }
}

table! {
    struct Machine as machine;
    /// Replaces in place.
    pub(crate) const MACHINE_PUT: upsert into machines;
    key {
        name: text,
    }
    columns {
        first_seen: timestamp,
        last_seen: timestamp,
        worker_seen: maybe_timestamp,
    }
}

table! {
    struct Workspace as workspace;
    /// Replaces in place.
    pub(crate) const WORKSPACE_PUT: upsert into workspaces;
    key {
        id: parsed,
    }
    columns {
        repository_id: parsed,
        job_id: maybe_parsed,
        machine: text,
        path: path,
        strategy: parsed,
        branch: maybe_text,
        base: maybe_text,
        status: parsed,
        size: maybe_number,
        identity: maybe_json,
        is_pinned: flag,
        snapshot: maybe_text,
        merge_commit: maybe_text,
        pr_url: maybe_text,
        note: maybe_text,
        plan: json,
        worktree_id: parsed,
        created_at: timestamp,
        updated_at: timestamp,
        removed_at: maybe_timestamp,
    }
}

/// By primary key.
pub(crate) const JOB_GET: &str = select!(job, "jobs WHERE id = ?1");
/// Along `jobs_by_time`. The repositories are one text, each between commas.
pub(crate) const JOB_LIST: &str = select!(
    job,
    "jobs WHERE (?2 = '' OR status = ?2)
        AND (?3 = '' OR worktree_id = ?3 OR EXISTS (SELECT 1 FROM tasks WHERE tasks.id = jobs.task_id AND tasks.worktree_id = ?3))
        AND (?4 = '' OR ?4 LIKE '%,' || repository_id || ',%') AND (created_at, id) < (?5, ?6)
    ORDER BY created_at DESC, id DESC LIMIT ?1"
);
/// Along `jobs_live`.
pub(crate) const JOB_LIST_LIVE: &str = select!(
    job,
    "jobs WHERE finished_at IS NULL AND (?2 = '' OR status = ?2)
        AND (?3 = '' OR worktree_id = ?3 OR EXISTS (SELECT 1 FROM tasks WHERE tasks.id = jobs.task_id AND tasks.worktree_id = ?3))
        AND (?4 = '' OR ?4 LIKE '%,' || repository_id || ',%') AND (created_at, id) < (?5, ?6)
    ORDER BY created_at DESC, id DESC LIMIT ?1"
);
/// Along `jobs_by_task`.
pub(crate) const JOB_LIST_OF_TASK: &str = select!(
    job,
    "jobs WHERE task_id = ?8 AND (?2 = '' OR status = ?2) AND (?7 = '' OR finished_at IS NULL)
        AND (?3 = '' OR worktree_id = ?3 OR EXISTS (SELECT 1 FROM tasks WHERE tasks.id = jobs.task_id AND tasks.worktree_id = ?3))
        AND (?4 = '' OR ?4 LIKE '%,' || repository_id || ',%') AND (created_at, id) < (?5, ?6)
    ORDER BY created_at DESC, id DESC LIMIT ?1"
);
/// A scan of the list, and the jobs along `jobs_by_task`.
pub(crate) const JOB_LIST_IN_WORKFLOWS: &str = select!(
    job,
    "jobs WHERE task_id IN (SELECT id FROM tasks WHERE workflow_id IN (SELECT value FROM json_each(?1))) ORDER BY id"
);
/// Along `jobs_by_end`. A scan of live jobs, which are few.
pub(crate) const JOB_LIST_REMOVABLE: &str = concat!(
    "SELECT ",
    job!(),
    " FROM jobs WHERE NOT EXISTS (SELECT 1 FROM tasks WHERE tasks.id = jobs.task_id) AND ",
    job_is_over!(),
    " ORDER BY finished_at, id LIMIT ?1"
);

/// Along the primary key. A job has few pieces.
pub(crate) const LOG_LIST: &str =
    select!(log_piece, "job_logs WHERE job_id = ?1 AND next_byte > ?2 ORDER BY first_byte LIMIT ?3");
/// Along the primary key: the last row.
pub(crate) const LOG_LAST: &str = select!(log_piece, "job_logs WHERE job_id = ?1 ORDER BY first_byte DESC LIMIT 1");
/// Along the primary key. A job has few pieces.
pub(crate) const LOG_TRIM: &str = "DELETE FROM job_logs WHERE job_id = ?1 AND next_byte <= ?2";

/// By primary key.
pub(crate) const MACHINE_GET: &str = select!(machine, "machines WHERE name = ?1");
/// Along the primary key.
pub(crate) const MACHINE_LIST: &str = select!(machine, "machines ORDER BY name");

/// By primary key.
pub(crate) const WORKSPACE_GET: &str = select!(workspace, "workspaces WHERE id = ?1");
/// Along `workspaces_by_time`.
pub(crate) const WORKSPACE_LIST: &str = select!(
    workspace,
    "workspaces WHERE (?2 = '' OR machine = ?2)
        AND (?3 = '' OR worktree_id = ?3 OR EXISTS (SELECT 1 FROM jobs JOIN tasks ON tasks.id = jobs.task_id
            WHERE jobs.id = workspaces.job_id AND tasks.worktree_id = ?3))
        AND (?4 = '' OR ?4 LIKE '%,' || repository_id || ',%') AND (created_at, id) < (?5, ?6)
    ORDER BY created_at DESC, id DESC LIMIT ?1"
);
/// Along `workspaces_live`.
pub(crate) const WORKSPACE_LIST_LIVE: &str = select!(
    workspace,
    "workspaces WHERE removed_at IS NULL AND (?2 = '' OR machine = ?2)
        AND (?3 = '' OR worktree_id = ?3 OR EXISTS (SELECT 1 FROM jobs JOIN tasks ON tasks.id = jobs.task_id
            WHERE jobs.id = workspaces.job_id AND tasks.worktree_id = ?3))
        AND (?4 = '' OR ?4 LIKE '%,' || repository_id || ',%') AND (created_at, id) < (?5, ?6)
    ORDER BY created_at DESC, id DESC LIMIT ?1"
);
/// Along `workspaces_by_job`.
pub(crate) const WORKSPACE_LIST_OF_JOB: &str = select!(
    workspace,
    "workspaces WHERE job_id = ?8 AND (?2 = '' OR machine = ?2) AND (?7 = 'all' OR removed_at IS NULL)
        AND (?3 = '' OR worktree_id = ?3 OR EXISTS (SELECT 1 FROM jobs JOIN tasks ON tasks.id = jobs.task_id
            WHERE jobs.id = workspaces.job_id AND tasks.worktree_id = ?3))
        AND (?4 = '' OR ?4 LIKE '%,' || repository_id || ',%') AND (created_at, id) < (?5, ?6)
    ORDER BY created_at DESC, id DESC LIMIT ?1"
);

/// Returns the statement for a list of jobs: one for each index.
pub(crate) fn job_list(query: &JobQuery) -> Query {
    let JobQuery { task_id, status, is_live, worktree_id, repositories, after, limit } = query;
    let (created_at, id) = super::position(after.as_ref(), JobId::as_str);
    let status = status.map_or("", JobStatus::as_str);
    let worktree = worktree_id.as_ref().map_or("", WorktreeId::as_str);
    let repositories = super::between_commas(repositories.iter().map(RepositoryId::as_str));
    match task_id {
        Some(task) => {
            let live = if *is_live { "live" } else { "" };
            (
                JOB_LIST_OF_TASK,
                cells![*limit, status, worktree, repositories, created_at, id, live, task.as_str()].to_vec(),
            )
        }
        None if *is_live => (JOB_LIST_LIVE, cells![*limit, status, worktree, repositories, created_at, id].to_vec()),
        None => (JOB_LIST, cells![*limit, status, worktree, repositories, created_at, id].to_vec()),
    }
}

/// Returns the statement for a list of workspaces: one for each index.
pub(crate) fn workspace_list(query: &WorkspaceQuery) -> Query {
    let WorkspaceQuery { machine, job_id, worktree_id, repositories, all, after, limit } = query;
    let (created_at, id) = super::position(after.as_ref(), WorkspaceId::as_str);
    let machine = machine.as_deref().unwrap_or("");
    let worktree = worktree_id.as_ref().map_or("", WorktreeId::as_str);
    let repositories = super::between_commas(repositories.iter().map(RepositoryId::as_str));
    match job_id {
        Some(job) => {
            let all = if *all { "all" } else { "" };
            (
                WORKSPACE_LIST_OF_JOB,
                cells![*limit, machine, worktree, repositories, created_at, id, all, job.as_str()].to_vec(),
            )
        }
        None if *all => (WORKSPACE_LIST, cells![*limit, machine, worktree, repositories, created_at, id].to_vec()),
        None => (WORKSPACE_LIST_LIVE, cells![*limit, machine, worktree, repositories, created_at, id].to_vec()),
    }
}
