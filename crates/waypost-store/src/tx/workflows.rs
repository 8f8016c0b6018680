//! The rows of workflows and templates.

use waypost_core::Result;
use waypost_core::id::{RepositoryId, WorkflowId};
use waypost_core::model::{Template, Workflow, WorkflowQuery};
use waypost_core::store::WorkflowTx;
use waypost_core::time::Timestamp;

use super::SqlTx;
use crate::cell::{Row, cells, json, one_parsed};
use crate::sql;

impl WorkflowTx for SqlTx<'_> {
    fn workflow_put(&mut self, workflow: &Workflow) -> Result<()> {
        self.put(workflow)
    }

    fn workflow_get(&mut self, id: &WorkflowId) -> Result<Option<Workflow>> {
        self.one(sql::WORKFLOW_GET, cells![id.as_str()])
    }

    fn workflow_list_by_id(&mut self, ids: &[WorkflowId]) -> Result<Vec<Workflow>> {
        self.all_in(sql::WORKFLOW_LIST_BY_ID, &ids)
    }

    fn workflow_list(&mut self, query: &WorkflowQuery) -> Result<Vec<Workflow>> {
        self.listed(sql::workflow_list(query))
    }

    fn workflow_repository_put(&mut self, workflow: &WorkflowId, repository: &RepositoryId) -> Result<()> {
        self.run(sql::WORKFLOW_REPOSITORY_PUT, cells![workflow.as_str(), repository.as_str()])
    }

    fn workflow_repository_remove(&mut self, workflow: &WorkflowId, repository: &RepositoryId) -> Result<()> {
        self.run(sql::WORKFLOW_REPOSITORY_REMOVE, cells![workflow.as_str(), repository.as_str()])
    }

    fn workflow_repository_list(&mut self, workflow: &WorkflowId) -> Result<Vec<RepositoryId>> {
        self.read(sql::WORKFLOW_REPOSITORY_LIST, cells![workflow.as_str()], one_parsed)
    }

    fn workflow_repository_list_in(&mut self, workflows: &[WorkflowId]) -> Result<Vec<(WorkflowId, RepositoryId)>> {
        let pair = |row: &mut Row<'_>| Ok((row.parsed()?, row.parsed()?));
        self.read(sql::WORKFLOW_REPOSITORY_LIST_IN, &[json(&workflows)?], pair)
    }

    fn workflow_list_removable(&mut self, before: Timestamp, limit: u32) -> Result<Vec<Workflow>> {
        self.all(sql::WORKFLOW_LIST_REMOVABLE, cells![limit, before])
    }

    fn workflow_remove(&mut self, ids: &[WorkflowId]) -> Result<()> {
        let ids = json(&ids)?;
        for statement in [
            sql::MESSAGE_DETACH_OF_WORKFLOWS,
            sql::MESSAGE_DETACH_OF_TASKS,
            sql::DEPENDENCY_REMOVE_OF_WORKFLOWS,
            sql::CHECKPOINT_REMOVE_OF_WORKFLOWS,
            sql::LEASE_REMOVE_OF_WORKFLOWS,
            sql::TASK_REMOVE_OF_WORKFLOWS,
            sql::WORKFLOW_REPOSITORY_REMOVE_OF_WORKFLOWS,
            sql::WORKFLOW_REMOVE,
        ] {
            self.run(statement, std::slice::from_ref(&ids))?;
        }
        Ok(())
    }

    fn template_put(&mut self, template: &Template) -> Result<()> {
        self.put(template)
    }

    fn template_list(&mut self, name: Option<&str>) -> Result<Vec<Template>> {
        self.all(sql::TEMPLATE_LIST, cells![name.unwrap_or("")])
    }
}
