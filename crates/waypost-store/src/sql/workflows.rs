//! Workflows, their repositories, and templates.

use waypost_core::id::{RepositoryId, WorkflowId, WorktreeId};
use waypost_core::model::{Template, Workflow, WorkflowQuery};

use super::Query;
use crate::cell::cells;

table! {
    struct Workflow as workflow;
    /// Replaces in place.
    pub(crate) const WORKFLOW_PUT: upsert into workflows;
    key {
        id: parsed,
    }
    columns {
        name: text,
        source: parsed,
        source_ref: maybe_text,
        source_content: maybe_text,
        status: parsed,
        summary: maybe_text,
        max_parallel: maybe_number,
        base: maybe_text,
        config: json,
        reason: maybe_text,
        worktree_id: parsed,
        reach: parsed,
        created_at: timestamp,
        updated_at: timestamp,
        started_at: maybe_timestamp,
        finished_at: maybe_timestamp,
    }
}

table! {
    struct Template as template;
    /// Inserts only.
    pub(crate) const TEMPLATE_PUT: insert into templates;
    key {
        id: parsed,
    }
    columns {
        name: text,
        version: number,
        description: text,
        body: json,
        variables: json,
        worktree_id: parsed,
        created_at: timestamp,
    }
}

/// Does nothing if the row exists.
pub(crate) const WORKFLOW_REPOSITORY_PUT: &str = "
    INSERT INTO workflow_repositories
        (workflow_id, repository_id)
    VALUES (?1, ?2)
    ON CONFLICT (workflow_id, repository_id) DO NOTHING";
/// By primary key.
pub(crate) const WORKFLOW_REPOSITORY_REMOVE: &str =
    "DELETE FROM workflow_repositories WHERE workflow_id = ?1 AND repository_id = ?2";
/// By primary key.
pub(crate) const WORKFLOW_GET: &str = select!(workflow, "workflows WHERE id = ?1");
/// A scan of the list, and each workflow by primary key.
pub(crate) const WORKFLOW_LIST_BY_ID: &str =
    select!(workflow, "workflows WHERE id IN (SELECT value FROM json_each(?1)) ORDER BY id");
/// Backwards along `workflows_by_time`; the statuses are one text, each between commas.
pub(crate) const WORKFLOW_LIST: &str = select!(
    workflow,
    "workflows
    WHERE (?2 = '' OR ?2 LIKE '%,' || status || ',%') AND (?3 = '' OR worktree_id = ?3) AND (?4 = '' OR name = ?4)
        AND (?5 = '' OR EXISTS (SELECT 1 FROM workflow_repositories
            WHERE workflow_id = workflows.id AND repository_id = ?5))
        AND (created_at, id) < (?6, ?7)
    ORDER BY created_at DESC, id DESC LIMIT ?1"
);
/// Along `workflows_by_end`. A scan of notices and live jobs, which are few.
pub(crate) const WORKFLOW_LIST_REMOVABLE: &str = concat!(
    "SELECT ",
    workflow!(),
    " FROM workflows WHERE finished_at < ?2 AND status IN ('completed', 'failed', 'cancelled')
        AND NOT EXISTS (SELECT 1 FROM notices JOIN tasks ON tasks.id = notices.task_id
            WHERE tasks.workflow_id = workflows.id)
        AND NOT EXISTS (SELECT 1 FROM tasks JOIN leases ON leases.subject = tasks.id
            WHERE tasks.workflow_id = workflows.id AND leases.holder IS NOT NULL)
        AND NOT EXISTS (SELECT 1 FROM tasks JOIN dependencies ON dependencies.depends_on = tasks.id
            JOIN tasks AS other ON other.id = dependencies.task_id
            WHERE tasks.workflow_id = workflows.id AND other.workflow_id <> workflows.id)
        AND NOT EXISTS (SELECT 1 FROM messages WHERE messages.workflow_id = workflows.id AND messages.state = 'queued'
            AND (messages.expires_at IS NULL OR messages.expires_at >= ?2))
        AND NOT EXISTS (SELECT 1 FROM tasks JOIN jobs ON jobs.task_id = tasks.id
            WHERE tasks.workflow_id = workflows.id AND NOT ",
    job_is_over!(),
    ") ORDER BY finished_at, id LIMIT ?1"
);
/// By primary key.
pub(crate) const WORKFLOW_REPOSITORY_LIST: &str =
    "SELECT repository_id FROM workflow_repositories WHERE workflow_id = ?1 ORDER BY repository_id";
/// A scan of the list, and each workflow by primary key.
pub(crate) const WORKFLOW_REPOSITORY_LIST_IN: &str = "
    SELECT workflow_id, repository_id FROM workflow_repositories
    WHERE workflow_id IN (SELECT value FROM json_each(?1)) ORDER BY workflow_id, repository_id";

/// A scan: there are few templates.
pub(crate) const TEMPLATE_LIST: &str = select!(
    template,
    "templates WHERE (?1 = '' OR name = ?1)
        AND NOT EXISTS (SELECT 1 FROM templates AS later
            WHERE later.name = templates.name AND later.version > templates.version)
    ORDER BY name"
);

/// Returns the statement for a list of workflows.
pub(crate) fn workflow_list(query: &WorkflowQuery) -> Query {
    let WorkflowQuery { statuses, worktree_id, repository_id, name, after, limit } = query;
    let (created_at, id) = super::position(after.as_ref(), WorkflowId::as_str);
    let list = super::between_commas(statuses.iter().map(|status| status.as_str()));
    let worktree_id = worktree_id.as_ref().map_or("", WorktreeId::as_str);
    let repository_id = repository_id.as_ref().map_or("", RepositoryId::as_str);
    let parameters = cells![*limit, list, worktree_id, name.as_deref().unwrap_or(""), repository_id, created_at, id];
    (WORKFLOW_LIST, parameters.to_vec())
}
