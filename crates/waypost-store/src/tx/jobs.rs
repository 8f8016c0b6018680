//! The rows of jobs with their output, machines and workspaces.

use waypost_core::Result;
use waypost_core::id::{JobId, WorkflowId, WorkspaceId};
use waypost_core::model::{Job, JobQuery, LogPiece, Machine, Workspace, WorkspaceQuery};
use waypost_core::store::JobTx;
use waypost_core::time::Timestamp;

use super::SqlTx;
use crate::cell::{cells, json, one_parsed};
use crate::sql;

impl JobTx for SqlTx<'_> {
    fn job_put(&mut self, job: &Job) -> Result<()> {
        self.put(job)
    }

    fn job_get(&mut self, id: &JobId) -> Result<Option<Job>> {
        self.one(sql::JOB_GET, cells![id.as_str()])
    }

    fn job_list(&mut self, query: &JobQuery) -> Result<Vec<Job>> {
        self.listed(sql::job_list(query))
    }

    fn job_list_in_workflows(&mut self, workflows: &[WorkflowId]) -> Result<Vec<Job>> {
        self.all_in(sql::JOB_LIST_IN_WORKFLOWS, &workflows)
    }

    fn job_list_removable(&mut self, before: Timestamp, limit: u32) -> Result<Vec<Job>> {
        self.all(sql::JOB_LIST_REMOVABLE, cells![limit, before])
    }

    fn job_remove(&mut self, ids: &[JobId]) -> Result<()> {
        self.run(sql::JOB_REMOVE, &[json(&ids)?])
    }

    fn log_put(&mut self, piece: &LogPiece) -> Result<()> {
        self.put(piece)
    }

    fn log_list(&mut self, job: &JobId, after: u64, limit: u32) -> Result<Vec<LogPiece>> {
        self.all(sql::LOG_LIST, cells![job.as_str(), after, limit])
    }

    fn log_last(&mut self, job: &JobId) -> Result<Option<LogPiece>> {
        self.one(sql::LOG_LAST, cells![job.as_str()])
    }

    fn log_trim(&mut self, job: &JobId, before: u64) -> Result<()> {
        self.run(sql::LOG_TRIM, cells![job.as_str(), before])
    }

    fn machine_put(&mut self, machine: &Machine) -> Result<()> {
        self.put(machine)
    }

    fn machine_get(&mut self, name: &str) -> Result<Option<Machine>> {
        self.one(sql::MACHINE_GET, cells![name])
    }

    fn machine_list(&mut self) -> Result<Vec<Machine>> {
        self.all(sql::MACHINE_LIST, &[])
    }

    fn workspace_put(&mut self, workspace: &Workspace) -> Result<()> {
        self.put(workspace)
    }

    fn workspace_get(&mut self, id: &WorkspaceId) -> Result<Option<Workspace>> {
        self.one(sql::WORKSPACE_GET, cells![id.as_str()])
    }

    fn workspace_list(&mut self, query: &WorkspaceQuery) -> Result<Vec<Workspace>> {
        self.listed(sql::workspace_list(query))
    }

    fn workspace_list_by_job(&mut self, jobs: &[JobId]) -> Result<Vec<WorkspaceId>> {
        self.read(sql::WORKSPACE_LIST_BY_JOB, &[json(&jobs)?], one_parsed)
    }

    fn workspace_list_removable(&mut self, before: Timestamp, limit: u32) -> Result<Vec<WorkspaceId>> {
        self.read(sql::WORKSPACE_LIST_REMOVABLE, cells![limit, before], one_parsed)
    }

    fn workspace_remove(&mut self, ids: &[WorkspaceId]) -> Result<()> {
        self.run(sql::WORKSPACE_REMOVE, &[json(&ids)?])
    }
}
