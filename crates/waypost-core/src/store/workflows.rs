//! The rows of workflows and templates.

use crate::error::Result;
use crate::id::{RepositoryId, WorkflowId};
use crate::model::{Template, Workflow, WorkflowQuery};
use crate::time::Timestamp;

/// The part of a transaction that is about workflows and templates.
pub trait WorkflowTx {
    /// Inserts a workflow, or replaces the one with its id.
    fn workflow_put(&mut self, workflow: &Workflow) -> Result<()>;
    /// Returns a workflow.
    fn workflow_get(&mut self, id: &WorkflowId) -> Result<Option<Workflow>>;
    /// Returns the workflows with these ids, by id.
    fn workflow_list_by_id(&mut self, ids: &[WorkflowId]) -> Result<Vec<Workflow>>;
    /// Returns workflows, newest first.
    fn workflow_list(&mut self, query: &WorkflowQuery) -> Result<Vec<Workflow>>;
    /// Adds a repository to a workflow.
    fn workflow_repository_put(&mut self, workflow: &WorkflowId, repository: &RepositoryId) -> Result<()>;
    /// Removes a repository from a workflow.
    fn workflow_repository_remove(&mut self, workflow: &WorkflowId, repository: &RepositoryId) -> Result<()>;
    /// Returns the repositories of a workflow, by id.
    fn workflow_repository_list(&mut self, workflow: &WorkflowId) -> Result<Vec<RepositoryId>>;
    /// Returns the repositories of several workflows, by workflow id and repository id.
    fn workflow_repository_list_in(&mut self, workflows: &[WorkflowId]) -> Result<Vec<(WorkflowId, RepositoryId)>>;
    /// Returns workflows that ended before a moment and that nothing live refers to, the earliest first: no notice, held
    /// lease, queued message or task of another workflow, and none of its jobs is kept by [`JobTx::job_list_removable`](super::JobTx::job_list_removable).
    fn workflow_list_removable(&mut self, before: Timestamp, limit: u32) -> Result<Vec<Workflow>>;
    /// Deletes workflows with their tasks, dependencies, checkpoints and leases. Messages about them stay, without the
    /// reference.
    fn workflow_remove(&mut self, ids: &[WorkflowId]) -> Result<()>;

    /// Inserts a template.
    fn template_put(&mut self, template: &Template) -> Result<()>;
    /// Returns the latest version of each template, by name; of one name, or of all.
    fn template_list(&mut self, name: Option<&str>) -> Result<Vec<Template>>;
}
