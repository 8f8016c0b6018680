//! The rows of jobs with their output, machines and workspaces.

use waypost_core::error::{Error, Result};
use waypost_core::id::{JobId, WorkflowId, WorkspaceId, WorktreeId};
use waypost_core::model::{Job, JobQuery, LogPiece, Machine, Workspace, WorkspaceQuery};
use waypost_core::store::JobTx;
use waypost_core::time::Timestamp;

use super::{MemoryTx, is_older, size};

impl JobTx for MemoryTx<'_> {
    fn job_put(&mut self, job: &Job) -> Result<()> {
        self.need_worktree(&job.worktree_id)?;
        self.need_repository(&job.repository_id)?;
        job.agent_id.as_ref().map_or(Ok(()), |agent| self.need_agent(agent))?;
        self.rows.jobs.insert(job.id.clone(), job.clone());
        Ok(())
    }

    fn job_get(&mut self, id: &JobId) -> Result<Option<Job>> {
        Ok(self.rows.jobs.get(id).cloned())
    }

    fn job_list(&mut self, query: &JobQuery) -> Result<Vec<Job>> {
        let matches = |job: &&Job| {
            query.worktree_id.as_ref().is_none_or(|id| job.worktree_id == *id || self.is_work_of(job, id))
                && (query.repositories.is_empty() || query.repositories.contains(&job.repository_id))
                && query.task_id.as_ref().is_none_or(|task| job.task_id.as_ref() == Some(task))
                && query.status.is_none_or(|status| job.status == status)
                && !(query.is_live && job.status.is_final())
                && is_older(query.after.as_ref(), job.created_at, &job.id)
        };
        let mut jobs: Vec<_> = self.rows.jobs.values().filter(matches).cloned().collect();
        jobs.sort_by(|a, b| (b.created_at, &b.id).cmp(&(a.created_at, &a.id)));
        jobs.truncate(query.limit as usize);
        Ok(jobs)
    }

    fn job_list_in_workflows(&mut self, workflows: &[WorkflowId]) -> Result<Vec<Job>> {
        let is_of = |job: &&Job| self.workflow_of(job).is_some_and(|workflow| workflows.contains(workflow));
        Ok(self.rows.jobs.values().filter(is_of).cloned().collect())
    }

    fn job_list_removable(&mut self, before: Timestamp, limit: u32) -> Result<Vec<Job>> {
        let is_removable = |job: &&Job| self.workflow_of(job).is_none() && self.is_over(job, before);
        let mut jobs: Vec<_> = self.rows.jobs.values().filter(is_removable).cloned().collect();
        jobs.sort_by(|a, b| (a.finished_at, &a.id).cmp(&(b.finished_at, &b.id)));
        jobs.truncate(size(limit));
        Ok(jobs)
    }

    fn job_remove(&mut self, ids: &[JobId]) -> Result<()> {
        self.rows.jobs.retain(|id, _| !ids.contains(id));
        self.rows.logs.retain(|(id, _), _| !ids.contains(id));
        Ok(())
    }

    fn log_put(&mut self, piece: &LogPiece) -> Result<()> {
        if !self.rows.jobs.contains_key(&piece.job_id) {
            return Err(Error::internal(format!("there is no job {}", piece.job_id)));
        }
        self.rows.logs.insert((piece.job_id.clone(), piece.first_byte), piece.clone());
        Ok(())
    }

    fn log_list(&mut self, job: &JobId, after: u64, limit: u32) -> Result<Vec<LogPiece>> {
        let of_job = self.rows.logs.values().filter(|piece| piece.job_id == *job && piece.next_byte() > after);
        Ok(of_job.take(limit as usize).cloned().collect())
    }

    fn log_last(&mut self, job: &JobId) -> Result<Option<LogPiece>> {
        Ok(self.rows.logs.values().rfind(|piece| piece.job_id == *job).cloned())
    }

    fn log_trim(&mut self, job: &JobId, before: u64) -> Result<()> {
        self.rows.logs.retain(|_, piece| piece.job_id != *job || piece.next_byte() > before);
        Ok(())
    }

    fn machine_put(&mut self, machine: &Machine) -> Result<()> {
        self.rows.machines.insert(machine.name.clone(), machine.clone());
        Ok(())
    }

    fn machine_get(&mut self, name: &str) -> Result<Option<Machine>> {
        Ok(self.rows.machines.get(name).cloned())
    }

    fn machine_list(&mut self) -> Result<Vec<Machine>> {
        Ok(self.rows.machines.values().cloned().collect())
    }

    fn workspace_put(&mut self, workspace: &Workspace) -> Result<()> {
        self.need_worktree(&workspace.worktree_id)?;
        self.need_repository(&workspace.repository_id)?;
        self.rows.workspaces.insert(workspace.id.clone(), workspace.clone());
        Ok(())
    }

    fn workspace_get(&mut self, id: &WorkspaceId) -> Result<Option<Workspace>> {
        Ok(self.rows.workspaces.get(id).cloned())
    }

    fn workspace_list(&mut self, query: &WorkspaceQuery) -> Result<Vec<Workspace>> {
        let is_work_of = |workspace: &Workspace, id: &WorktreeId| {
            let job = workspace.job_id.as_ref().and_then(|job| self.rows.jobs.get(job));
            workspace.worktree_id == *id || job.is_some_and(|job| self.is_work_of(job, id))
        };
        let matches = |workspace: &&Workspace| {
            query.worktree_id.as_ref().is_none_or(|id| is_work_of(workspace, id))
                && (query.repositories.is_empty() || query.repositories.contains(&workspace.repository_id))
                && query.machine.as_ref().is_none_or(|machine| workspace.machine == *machine)
                && query.job_id.as_ref().is_none_or(|job| workspace.job_id.as_ref() == Some(job))
                && (query.all || workspace.removed_at.is_none())
                && is_older(query.after.as_ref(), workspace.created_at, &workspace.id)
        };
        let mut workspaces: Vec<_> = self.rows.workspaces.values().filter(matches).cloned().collect();
        workspaces.sort_by(|a, b| (b.created_at, &b.id).cmp(&(a.created_at, &a.id)));
        workspaces.truncate(query.limit as usize);
        Ok(workspaces)
    }

    fn workspace_list_by_job(&mut self, jobs: &[JobId]) -> Result<Vec<WorkspaceId>> {
        let is_of = |workspace: &&Workspace| workspace.job_id.as_ref().is_some_and(|job| jobs.contains(job));
        Ok(self.rows.workspaces.values().filter(is_of).map(|workspace| workspace.id.clone()).collect())
    }

    fn workspace_list_removable(&mut self, before: Timestamp, limit: u32) -> Result<Vec<WorkspaceId>> {
        let is_removable = |workspace: &&Workspace| {
            workspace.removed_at.is_some_and(|removed_at| removed_at < before)
                && !workspace.job_id.as_ref().is_some_and(|job| self.rows.jobs.contains_key(job))
        };
        let mut workspaces: Vec<_> = self.rows.workspaces.values().filter(is_removable).collect();
        workspaces.sort_by(|a, b| (a.removed_at, &a.id).cmp(&(b.removed_at, &b.id)));
        Ok(workspaces.into_iter().take(size(limit)).map(|workspace| workspace.id.clone()).collect())
    }

    fn workspace_remove(&mut self, ids: &[WorkspaceId]) -> Result<()> {
        self.rows.workspaces.retain(|id, _| !ids.contains(id));
        Ok(())
    }
}
