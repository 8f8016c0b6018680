//! The rows of agents and leases.

use waypost_core::Result;
use waypost_core::id::{AgentId, TaskId, WorkflowId};
use waypost_core::model::{Agent, Lease};
use waypost_core::store::AgentTx;
use waypost_core::time::Timestamp;

use super::SqlTx;
use crate::cell::cells;
use crate::sql;

impl AgentTx for SqlTx<'_> {
    fn agent_put(&mut self, agent: &Agent) -> Result<()> {
        self.put(agent)
    }

    fn agent_touch(&mut self, agent: &Agent) -> Result<()> {
        self.update(agent.id.as_str(), agent)
    }

    fn agent_get(&mut self, id: &AgentId) -> Result<Option<Agent>> {
        self.one(sql::AGENT_GET, cells![id.as_str()])
    }

    fn agent_named(&mut self, name: &str) -> Result<Option<Agent>> {
        self.one(sql::AGENT_NAMED, cells![name])
    }

    fn agent_list(&mut self) -> Result<Vec<Agent>> {
        self.all(sql::AGENT_LIST, &[])
    }

    fn agent_list_silent(&mut self, now: Timestamp, limit: u32) -> Result<Vec<Agent>> {
        self.all(sql::AGENT_LIST_SILENT, cells![limit, now])
    }

    fn lease_put(&mut self, lease: &Lease) -> Result<()> {
        self.put(lease)
    }

    fn lease_renew(&mut self, lease: &Lease) -> Result<()> {
        self.update(&lease.subject, lease)
    }

    fn lease_get(&mut self, subject: &str) -> Result<Option<Lease>> {
        self.one(sql::LEASE_GET, cells![subject])
    }

    fn lease_list(&mut self, holder: Option<&AgentId>) -> Result<Vec<Lease>> {
        match holder {
            None => self.all(sql::LEASE_LIST, &[]),
            Some(holder) => self.all(sql::LEASE_LIST_OF_HOLDER, cells![holder.as_str()]),
        }
    }

    fn lease_list_in_workflows(&mut self, workflows: &[WorkflowId]) -> Result<Vec<Lease>> {
        self.all_in(sql::LEASE_LIST_IN_WORKFLOWS, &workflows)
    }

    fn lease_list_by_task(&mut self, tasks: &[TaskId]) -> Result<Vec<Lease>> {
        self.all_in(sql::LEASE_LIST_BY_TASK, &tasks)
    }

    fn lease_list_due(&mut self, now: Timestamp, limit: u32) -> Result<Vec<Lease>> {
        self.all(sql::LEASE_LIST_DUE, cells![limit, now])
    }

    fn lease_max_epoch(&mut self) -> Result<u64> {
        self.number(sql::LEASE_MAX_EPOCH, &[])
    }

    fn epoch_floor(&mut self) -> Result<u64> {
        Ok(self.state()?.epoch_floor)
    }

    fn epoch_floor_put(&mut self, epoch: u64) -> Result<()> {
        self.run(sql::EPOCH_FLOOR_PUT, cells![epoch])?;
        self.state()?.epoch_floor = epoch;
        Ok(())
    }
}
