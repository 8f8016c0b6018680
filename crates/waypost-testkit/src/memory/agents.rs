//! The rows of agents and leases.

use waypost_core::error::{Error, Result};
use waypost_core::id::{AgentId, TaskId, WorkflowId};
use waypost_core::model::{Agent, AgentStatus, Lease};
use waypost_core::store::AgentTx;
use waypost_core::time::Timestamp;

use super::{MemoryTx, size};

impl AgentTx for MemoryTx<'_> {
    fn agent_put(&mut self, agent: &Agent) -> Result<()> {
        self.need_worktree(&agent.worktree_id)?;
        if self.rows.agents.values().any(|other| other.name == agent.name && other.id != agent.id) {
            return Err(Error::internal(format!("there is an agent {} already", agent.name)));
        }
        self.rows.agents.insert(agent.id.clone(), agent.clone());
        Ok(())
    }

    fn agent_touch(&mut self, agent: &Agent) -> Result<()> {
        if let Some(known) = self.rows.agents.get_mut(&agent.id) {
            (known.last_heartbeat, known.silent_at) = (agent.last_heartbeat, agent.silent_at);
        }
        Ok(())
    }

    fn agent_get(&mut self, id: &AgentId) -> Result<Option<Agent>> {
        Ok(self.rows.agents.get(id).cloned())
    }

    fn agent_named(&mut self, name: &str) -> Result<Option<Agent>> {
        Ok(self.rows.agents.values().find(|agent| agent.name == name).cloned())
    }

    fn agent_list(&mut self) -> Result<Vec<Agent>> {
        let mut agents: Vec<_> = self.rows.agents.values().cloned().collect();
        agents.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(agents)
    }

    fn agent_list_silent(&mut self, now: Timestamp, limit: u32) -> Result<Vec<Agent>> {
        let is_silent = |agent: &&Agent| {
            agent.status != AgentStatus::Offline && agent.silent_at.is_some_and(|silent_at| silent_at <= now)
        };
        let mut silent: Vec<_> = self.rows.agents.values().filter(is_silent).cloned().collect();
        silent.sort_by(|a, b| (a.silent_at, &a.id).cmp(&(b.silent_at, &b.id)));
        silent.truncate(size(limit));
        Ok(silent)
    }

    fn lease_put(&mut self, lease: &Lease) -> Result<()> {
        self.need_worktree(&lease.worktree_id)?;
        lease.holder.as_ref().map_or(Ok(()), |holder| self.need_agent(holder))?;
        self.rows.leases.insert(lease.subject.clone(), lease.clone());
        Ok(())
    }

    fn lease_renew(&mut self, lease: &Lease) -> Result<()> {
        if let Some(known) = self.rows.leases.get_mut(&lease.subject) {
            let Lease { expires_at, ttl_ms, run_until, stall_at, .. } = *lease;
            (known.expires_at, known.ttl_ms) = (expires_at, ttl_ms);
            (known.run_until, known.stall_at) = (run_until, stall_at);
        }
        Ok(())
    }

    fn lease_get(&mut self, subject: &str) -> Result<Option<Lease>> {
        Ok(self.rows.leases.get(subject).cloned())
    }

    fn lease_list(&mut self, holder: Option<&AgentId>) -> Result<Vec<Lease>> {
        let matches = |lease: &&Lease| match holder {
            Some(holder) => lease.holder.as_ref() == Some(holder),
            None => lease.holder.is_some(),
        };
        Ok(self.rows.leases.values().filter(matches).cloned().collect())
    }

    fn lease_list_in_workflows(&mut self, workflows: &[WorkflowId]) -> Result<Vec<Lease>> {
        let tasks = &self.rows.tasks;
        let matches = |lease: &&Lease| {
            let task = lease.subject.parse::<TaskId>().ok().and_then(|id| tasks.get(&id));
            task.is_some_and(|task| workflows.contains(&task.workflow_id))
        };
        Ok(self.rows.leases.values().filter(matches).cloned().collect())
    }

    fn lease_list_by_task(&mut self, tasks: &[TaskId]) -> Result<Vec<Lease>> {
        let matches = |lease: &&Lease| tasks.iter().any(|task| task.as_str() == lease.subject);
        Ok(self.rows.leases.values().filter(matches).cloned().collect())
    }

    fn lease_list_due(&mut self, now: Timestamp, limit: u32) -> Result<Vec<Lease>> {
        let is_due = |lease: &&Lease| lease.holder.is_some() && lease.deadline() <= now;
        let mut due: Vec<_> = self.rows.leases.values().filter(is_due).cloned().collect();
        due.sort_by(|a, b| (a.deadline(), &a.subject).cmp(&(b.deadline(), &b.subject)));
        due.truncate(size(limit));
        Ok(due)
    }

    fn lease_max_epoch(&mut self) -> Result<u64> {
        Ok(self.rows.leases.values().map(|lease| lease.epoch).max().unwrap_or_default())
    }

    fn epoch_floor(&mut self) -> Result<u64> {
        Ok(self.rows.epoch_floor)
    }

    fn epoch_floor_put(&mut self, epoch: u64) -> Result<()> {
        self.rows.epoch_floor = epoch;
        Ok(())
    }
}
