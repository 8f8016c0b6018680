//! The rows of jobs with their output, machines and workspaces.

use crate::error::Result;
use crate::id::{JobId, WorkflowId, WorkspaceId};
use crate::model::{Job, JobQuery, LogPiece, Machine, Workspace, WorkspaceQuery};
use crate::time::Timestamp;

/// The part of a transaction that is about jobs with their output, machines and workspaces.
pub trait JobTx {
    /// Inserts a job, or replaces the one with its id.
    fn job_put(&mut self, job: &Job) -> Result<()>;
    /// Returns a job.
    fn job_get(&mut self, id: &JobId) -> Result<Option<Job>>;
    /// Returns jobs, newest first.
    fn job_list(&mut self, query: &JobQuery) -> Result<Vec<Job>>;
    /// Returns the jobs of the tasks of several workflows, by id.
    fn job_list_in_workflows(&mut self, workflows: &[WorkflowId]) -> Result<Vec<Job>>;
    /// Returns jobs of no existing task that may be removed, the earliest first: they ended before a moment, their
    /// workspaces were removed before it, and no live job retries them.
    fn job_list_removable(&mut self, before: Timestamp, limit: u32) -> Result<Vec<Job>>;
    /// Deletes jobs.
    fn job_remove(&mut self, ids: &[JobId]) -> Result<()>;

    /// Inserts a piece of a job's output, or replaces the one with the same first byte.
    fn log_put(&mut self, piece: &LogPiece) -> Result<()>;
    /// Returns the pieces of a job's output that end after a position, in order.
    fn log_list(&mut self, job: &JobId, after: u64, limit: u32) -> Result<Vec<LogPiece>>;
    /// Returns the last piece of a job's output.
    fn log_last(&mut self, job: &JobId) -> Result<Option<LogPiece>>;
    /// Deletes the pieces of a job's output that end at or before a position.
    fn log_trim(&mut self, job: &JobId, before: u64) -> Result<()>;

    /// Inserts a machine, or replaces the one with its name.
    fn machine_put(&mut self, machine: &Machine) -> Result<()>;
    /// Returns a machine.
    fn machine_get(&mut self, name: &str) -> Result<Option<Machine>>;
    /// Returns all machines, by name.
    fn machine_list(&mut self) -> Result<Vec<Machine>>;

    /// Inserts a workspace, or replaces the one with its id.
    fn workspace_put(&mut self, workspace: &Workspace) -> Result<()>;
    /// Returns a workspace.
    fn workspace_get(&mut self, id: &WorkspaceId) -> Result<Option<Workspace>>;
    /// Returns workspaces, newest first.
    fn workspace_list(&mut self, query: &WorkspaceQuery) -> Result<Vec<Workspace>>;
    /// Returns the ids of the workspaces of several jobs.
    fn workspace_list_by_job(&mut self, jobs: &[JobId]) -> Result<Vec<WorkspaceId>>;
    /// Returns the ids of workspaces of no existing job that were removed before a moment, the earliest first.
    fn workspace_list_removable(&mut self, before: Timestamp, limit: u32) -> Result<Vec<WorkspaceId>>;
    /// Deletes the records of workspaces.
    fn workspace_remove(&mut self, ids: &[WorkspaceId]) -> Result<()>;
}
