//! The rows of agents and leases.

use crate::error::Result;
use crate::id::{AgentId, TaskId, WorkflowId};
use crate::model::{Agent, Lease};
use crate::time::Timestamp;

/// The part of a transaction that is about agents and leases.
pub trait AgentTx {
    /// Inserts an agent, or replaces the one with its id.
    fn agent_put(&mut self, agent: &Agent) -> Result<()>;
    /// Replaces the times of an agent that a heartbeat changes: the last heartbeat, and when the agent is silent.
    fn agent_touch(&mut self, agent: &Agent) -> Result<()>;
    /// Returns an agent.
    fn agent_get(&mut self, id: &AgentId) -> Result<Option<Agent>>;
    /// Returns the agent with a name.
    fn agent_named(&mut self, name: &str) -> Result<Option<Agent>>;
    /// Returns all agents, by name.
    fn agent_list(&mut self) -> Result<Vec<Agent>>;
    /// Returns the agents whose heartbeat timed out at a moment, the earliest first.
    fn agent_list_silent(&mut self, now: Timestamp, limit: u32) -> Result<Vec<Agent>>;

    /// Inserts a lease, or replaces the one on the same subject.
    fn lease_put(&mut self, lease: &Lease) -> Result<()>;
    /// Replaces the fields of a lease that a renewal changes: when it ends, its duration, and the deadlines of its task.
    fn lease_renew(&mut self, lease: &Lease) -> Result<()>;
    /// Returns the lease on a subject, held or not.
    fn lease_get(&mut self, subject: &str) -> Result<Option<Lease>>;
    /// Returns the held leases of one agent or of all, by subject.
    fn lease_list(&mut self, holder: Option<&AgentId>) -> Result<Vec<Lease>>;
    /// Returns the leases on the tasks of several workflows, held or not, by subject.
    fn lease_list_in_workflows(&mut self, workflows: &[WorkflowId]) -> Result<Vec<Lease>>;
    /// Returns the leases on these tasks, held or not, by subject.
    fn lease_list_by_task(&mut self, tasks: &[TaskId]) -> Result<Vec<Lease>>;
    /// Returns the held leases whose deadline has passed at a moment, the earliest first.
    fn lease_list_due(&mut self, now: Timestamp, limit: u32) -> Result<Vec<Lease>>;
    /// Returns the highest epoch of all leases, held or not, 0 if there is none.
    fn lease_max_epoch(&mut self) -> Result<u64>;

    /// Returns the epoch that every new lease must exceed.
    fn epoch_floor(&mut self) -> Result<u64>;
    /// Replaces the epoch that every new lease must exceed.
    fn epoch_floor_put(&mut self, epoch: u64) -> Result<()>;
}
