//! Fills stores of any size with SQL that both databases understand.

use std::path::Path;

use postgres::{Client, NoTls};
use rusqlite::Connection;

use crate::Result;

pub(crate) const REPOSITORY: &str = "rp_bench0000000";
pub(crate) const WORKTREE: &str = "wt_bench0000000";

/// The number before that of the first claimable task.
pub(crate) const BEFORE: u32 = 3_000_000;
/// The number of tasks of a workflow.
const TASKS_PER_WORKFLOW: u32 = 100;

/// Fills a store with tasks: some are claimable, the others are completed.
pub(crate) fn fill(store: &str, tasks: u32, pending: u32) -> Result {
    let (first, last) = (BEFORE + 1 - (tasks - pending), BEFORE + pending);
    let sql = statements(first, last);
    if is_url(store) {
        let (mut client, schema) = connect(store)?;
        client.batch_execute(&format!("SET search_path TO {schema}; BEGIN; {sql} COMMIT; ANALYZE;"))?;
    } else {
        Connection::open(Path::new(store))?
            .execute_batch(&format!("PRAGMA cache_size = -200000; BEGIN IMMEDIATE; {sql} COMMIT;"))?;
    }
    Ok(())
}

/// Returns whether a store has more than this many claimable tasks from an earlier run. Removes it otherwise.
pub(crate) fn has_claimable(store: &str, wanted: u32) -> Result<bool> {
    if is_url(store) || !Path::new(store).is_file() {
        return Ok(false);
    }
    let count = "SELECT count(*) FROM (SELECT 1 FROM tasks WHERE status = 'pending' LIMIT 100000)";
    let pending: u32 = Connection::open(store)?.query_row(count, [], |row| row.get(0))?;
    if pending <= wanted {
        for suffix in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(format!("{store}{suffix}"));
        }
    }
    Ok(pending > wanted)
}

pub(crate) fn is_url(store: &str) -> bool {
    store.starts_with("postgres://")
}

/// Connects to the database directly. Returns the schema, too.
pub(crate) fn connect(url: &str) -> Result<(Client, String)> {
    let (server, schema) = url.rsplit_once("?schema=").ok_or("the URL names no schema")?;
    Ok((Client::connect(server, NoTls)?, schema.to_owned()))
}

/// The time of all rows.
const TIME: &str = "1700000000000";

fn statements(first: u32, last: u32) -> String {
    let numbers = |first: u32, last: u32| {
        format!("WITH RECURSIVE numbers (n) AS (SELECT {first} UNION ALL SELECT n + 1 FROM numbers WHERE n < {last})")
    };
    let (all, workflows) = (numbers(first, last), numbers(first / TASKS_PER_WORKFLOW, last / TASKS_PER_WORKFLOW));
    let pending = numbers(BEFORE + 1, last);
    let is_done = format!("n <= {BEFORE}");
    let description = "Find out what is slow, make it fast, and show that it is. ".repeat(4);
    format!(
        "INSERT INTO workflows (id, name, source, status, config, worktree_id, created_at, updated_at)
        {workflows}
        SELECT 'wf_0000' || (5000000 + n) || '0', 'workflow ' || n, 'prompt',
            CASE WHEN n < {BEFORE} / {TASKS_PER_WORKFLOW} THEN 'completed' ELSE 'in_progress' END, '{{}}', '{WORKTREE}', {TIME}, {TIME}
        FROM numbers;
        INSERT INTO tasks (id, workflow_id, name, description, status, sequence, priority, plan, acceptance, context,
            context_from, capabilities, files, attempts, max_attempts, backoff_ms, needs_evidence, outcome, worktree_id,
            created_at, updated_at, queued_at, finished_at)
        {all}
        SELECT 'tk_00000' || n, 'wf_0000' || (5000000 + n / {TASKS_PER_WORKFLOW}) || '0', 'task ' || n, '{description}',
            CASE WHEN {is_done} THEN 'completed' ELSE 'pending' END, n % {TASKS_PER_WORKFLOW}, 2, '{{}}', '[]', '{{}}', '[]', '[]',
            '[]', 0, 3, 1000, 0, CASE WHEN {is_done} THEN 'done' END, '{WORKTREE}', {TIME}, {TIME}, {TIME} + n,
            CASE WHEN {is_done} THEN {TIME} END
        FROM numbers;
        INSERT INTO dependencies (task_id, depends_on, kind)
        {pending}
        SELECT 'tk_00000' || n, 'tk_00000' || (n - {BEFORE} + {first} - 1), 'blocks' FROM numbers
        WHERE n - {BEFORE} + {first} - 1 <= {BEFORE};
        INSERT INTO leases (subject, epoch, granted_at, expires_at, ttl_ms, deadline, worktree_id)
        {all}
        SELECT 'tk_00000' || n, 1, {TIME}, {TIME}, 600000, {TIME}, '{WORKTREE}' FROM numbers WHERE {is_done};
        INSERT INTO events (sequence, time, actor, worktree_id, kind, subject, data)
        {all}
        SELECT (SELECT max(sequence) FROM events) + n - {first} + 1, {TIME}, 'bench', '{WORKTREE}', 'task.planned',
            'tk_00000' || n, '{{}}'
        FROM numbers;"
    )
}
