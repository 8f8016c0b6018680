//! Whoever works: a program, a coordinator of programs, or a person.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::text_enum::text_enum;
use crate::id::{AgentId, WorkspaceId, WorktreeId};
use crate::time::Timestamp;

text_enum! {
    /// What an agent is there for.
    Role: "a role of agents" {
        /// Hands out work and watches it.
        Coordinator = "coordinator",
        /// Does the work.
        Worker = "worker",
        /// A person.
        Human = "human",
    }
}

text_enum! {
    /// Whether an agent can be counted on.
    AgentStatus: "a status of agents" {
        /// It was heard of lately, and holds nothing.
        Online = "online",
        /// It was heard of lately, and holds a lease.
        Busy = "busy",
        /// It was silent for too long, or said goodbye.
        Offline = "offline",
    }
}

/// Which process an agent is. A number alone may be another process by now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessIdentity {
    /// The run of the machine.
    pub boot_id: String,
    /// The number.
    pub pid: u32,
    /// When it began, in clock ticks after the machine's start.
    pub start_time: u64,
}

/// A registered worker, coordinator or person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Agent {
    /// Its id.
    pub id: AgentId,
    /// What others call it; unique.
    pub name: String,
    /// What it runs on, for example `claude-code`.
    pub runtime: Option<String>,
    /// What it is there for.
    pub role: Role,
    /// Whether it can be counted on.
    pub status: AgentStatus,
    /// What it can do.
    pub capabilities: Vec<String>,
    /// The workspace it is in.
    pub workspace_id: Option<WorkspaceId>,
    /// Whatever else is worth knowing.
    pub metadata: Value,
    /// Which process it is, where it is one.
    pub process: Option<ProcessIdentity>,
    /// How long it may be silent, in milliseconds.
    pub timeout_ms: u64,
    /// How many leases it may hold at once.
    pub max_claims: Option<u32>,
    /// The worktree it was first heard from.
    pub worktree_id: WorktreeId,
    /// When it was first heard of.
    pub registered_at: Timestamp,
    /// When it was last heard of.
    pub last_heartbeat: Timestamp,
    /// When it will have been silent for too long.
    pub silent_at: Option<Timestamp>,
    /// When it left for good.
    pub retired_at: Option<Timestamp>,
}
