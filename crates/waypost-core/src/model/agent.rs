//! Agents: workers, coordinators and people.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::text_enum::text_enum;
use crate::id::{AgentId, WorkspaceId, WorktreeId};
use crate::time::Timestamp;

text_enum! {
    /// The role of an agent.
    Role: "a role of agents" {
        /// Assigns and monitors work.
        Coordinator = "coordinator",
        /// Does the work.
        Worker = "worker",
        /// A person.
        Human = "human",
    }
}

text_enum! {
    /// Whether an agent is alive and holds work.
    AgentStatus: "a status of agents" {
        /// Its heartbeat is recent, and it holds no lease.
        Online = "online",
        /// Its heartbeat is recent, and it holds a lease.
        Busy = "busy",
        /// Its heartbeat timed out, or it signed off.
        Offline = "offline",
    }
}

/// Identifies a process. The pid alone is not enough, because the system reuses it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessIdentity {
    /// The id of the machine's boot.
    pub boot_id: String,
    /// The process id.
    pub pid: u32,
    /// Its start time, in clock ticks after the boot.
    pub start_time: u64,
}

/// A registered worker, coordinator or person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Agent {
    /// Its id.
    pub id: AgentId,
    /// Its name, unique in the store.
    pub name: String,
    /// The program it runs in, for example `claude-code`.
    pub runtime: Option<String>,
    /// Its role.
    pub role: Role,
    /// Whether it is alive and holds work.
    pub status: AgentStatus,
    /// The capabilities it registered.
    pub capabilities: Vec<String>,
    /// The workspace it works in.
    pub workspace_id: Option<WorkspaceId>,
    /// Further data of its own.
    pub metadata: Value,
    /// Its process, if it is one.
    pub process: Option<ProcessIdentity>,
    /// Heartbeat timeout in milliseconds.
    pub timeout_ms: u64,
    /// Maximum number of leases it may hold at once.
    pub max_claims: Option<u32>,
    /// The worktree it registered from.
    pub worktree_id: WorktreeId,
    /// When it registered.
    pub registered_at: Timestamp,
    /// The time of its last heartbeat.
    pub last_heartbeat: Timestamp,
    /// When its heartbeat times out.
    pub silent_at: Option<Timestamp>,
    /// When it retired.
    pub retired_at: Option<Timestamp>,
}
