//! Agents and leases.

use waypost_core::model::{Agent, Lease};

table! {
    struct Agent as agent;
    /// Replaces in place.
    pub(crate) const AGENT_PUT: upsert into agents;
    key {
        id: parsed,
    }
    columns {
        name: text,
        runtime: maybe_text,
        role: parsed,
        status: parsed,
        capabilities: json,
        workspace_id: maybe_parsed,
        metadata: json,
        process: maybe_json,
        timeout_ms: number,
        max_claims: maybe_number,
        worktree_id: parsed,
        registered_at: timestamp,
        last_heartbeat: timestamp,
        silent_at: maybe_timestamp,
        retired_at: maybe_timestamp,
    }
}

update! {
    /// By primary key. The indexes of other columns are not touched.
    pub(crate) const AGENT_TOUCH: agents by id from Agent;
    columns {
        last_heartbeat: timestamp,
        silent_at: maybe_timestamp,
    }
}

table! {
    struct Lease as lease;
    /// Replaces in place.
    pub(crate) const LEASE_PUT: upsert into leases;
    key {
        subject: text,
    }
    columns {
        holder: maybe_parsed,
        epoch: number,
        granted_at: timestamp,
        expires_at: timestamp,
        ttl_ms: number,
        run_until: maybe_timestamp,
        stall_at: maybe_timestamp,
        worktree_id: parsed,
    }
    computed {
        deadline: Lease::deadline,
    }
}

update! {
    /// By primary key. The indexes of other columns are not touched.
    pub(crate) const LEASE_RENEW: leases by subject from Lease;
    columns {
        expires_at: timestamp,
        ttl_ms: number,
        run_until: maybe_timestamp,
        stall_at: maybe_timestamp,
    }
    computed {
        deadline: Lease::deadline,
    }
}

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
/// Along `leases_by_holder`, then sorted: to sort by the subject alone, SQLite would read all leases, including released ones.
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
/// A scan: used only after a failover.
pub(crate) const LEASE_MAX_EPOCH: &str = "SELECT coalesce(max(epoch), 0) FROM leases";
/// Along `leases_due`.
pub(crate) const LEASE_LIST_DUE: &str =
    select!(lease, "leases WHERE holder IS NOT NULL AND deadline <= ?2 ORDER BY deadline, subject LIMIT ?1");
