//! The rows of workflows and templates.

use std::collections::{BTreeMap, BTreeSet};

use waypost_core::error::{Error, Result};
use waypost_core::id::{RepositoryId, TaskId, WorkflowId};
use waypost_core::model::{Template, Workflow, WorkflowQuery};
use waypost_core::store::{TaskTx, WorkflowTx};
use waypost_core::time::Timestamp;

use super::{MemoryTx, is_older, size, unknown};

impl WorkflowTx for MemoryTx<'_> {
    fn workflow_put(&mut self, workflow: &Workflow) -> Result<()> {
        self.need_worktree(&workflow.worktree_id)?;
        self.rows.workflows.insert(workflow.id.clone(), workflow.clone());
        Ok(())
    }

    fn workflow_get(&mut self, id: &WorkflowId) -> Result<Option<Workflow>> {
        Ok(self.rows.workflows.get(id).cloned())
    }

    fn workflow_list_by_id(&mut self, ids: &[WorkflowId]) -> Result<Vec<Workflow>> {
        Ok(self.rows.workflows.values().filter(|workflow| ids.contains(&workflow.id)).cloned().collect())
    }

    fn workflow_list(&mut self, query: &WorkflowQuery) -> Result<Vec<Workflow>> {
        let links = &self.rows.workflow_repositories;
        let matches = |workflow: &&Workflow| {
            (query.statuses.is_empty() || query.statuses.contains(&workflow.status))
                && query.worktree_id.as_ref().is_none_or(|id| *id == workflow.worktree_id)
                && query.repository_id.as_ref().is_none_or(|id| links.contains(&(workflow.id.clone(), id.clone())))
                && query.name.as_ref().is_none_or(|name| *name == workflow.name)
                && is_older(query.after.as_ref(), workflow.created_at, &workflow.id)
        };
        let mut workflows: Vec<_> = self.rows.workflows.values().filter(matches).cloned().collect();
        workflows.sort_by(|a, b| (b.created_at, &b.id).cmp(&(a.created_at, &a.id)));
        workflows.truncate(size(query.limit));
        Ok(workflows)
    }

    fn workflow_repository_put(&mut self, workflow: &WorkflowId, repository: &RepositoryId) -> Result<()> {
        if !self.rows.workflows.contains_key(workflow) || !self.rows.repositories.contains_key(repository) {
            return Err(unknown("workflow or repository", workflow));
        }
        self.rows.workflow_repositories.insert((workflow.clone(), repository.clone()));
        Ok(())
    }

    fn workflow_repository_remove(&mut self, workflow: &WorkflowId, repository: &RepositoryId) -> Result<()> {
        self.rows.workflow_repositories.remove(&(workflow.clone(), repository.clone()));
        Ok(())
    }

    fn workflow_repository_list(&mut self, workflow: &WorkflowId) -> Result<Vec<RepositoryId>> {
        let links = self.rows.workflow_repositories.iter();
        Ok(links.filter(|(of, _)| of == workflow).map(|(_, repository)| repository.clone()).collect())
    }

    fn workflow_repository_list_in(&mut self, workflows: &[WorkflowId]) -> Result<Vec<(WorkflowId, RepositoryId)>> {
        let links = self.rows.workflow_repositories.iter();
        Ok(links.filter(|(of, _)| workflows.contains(of)).cloned().collect())
    }

    fn workflow_list_removable(&mut self, before: Timestamp, limit: u32) -> Result<Vec<Workflow>> {
        let is_removable = |workflow: &&Workflow| {
            workflow.status.is_final()
                && workflow.finished_at.is_some_and(|finished_at| finished_at < before)
                && !self.is_in_use(&workflow.id, before)
        };
        let mut workflows: Vec<_> = self.rows.workflows.values().filter(is_removable).cloned().collect();
        workflows.sort_by(|a, b| (a.finished_at, &a.id).cmp(&(b.finished_at, &b.id)));
        workflows.truncate(size(limit));
        Ok(workflows)
    }

    fn workflow_remove(&mut self, ids: &[WorkflowId]) -> Result<()> {
        let tasks: BTreeSet<TaskId> = self.task_list_in_workflows(ids)?.into_iter().map(|task| task.id).collect();
        for message in self.rows.messages.values_mut() {
            message.workflow_id = message.workflow_id.take().filter(|id| !ids.contains(id));
            message.task_id = message.task_id.take().filter(|id| !tasks.contains(id));
        }
        self.rows.dependencies.retain(|(task, _), _| !tasks.contains(task));
        self.rows.checkpoints.retain(|_, checkpoint| !tasks.contains(&checkpoint.task_id));
        self.rows.leases.retain(|subject, _| !tasks.iter().any(|task| task.as_str() == subject));
        for task in &tasks {
            self.task_remove(task)?;
        }
        self.rows.workflow_repositories.retain(|(workflow, _)| !ids.contains(workflow));
        self.rows.workflows.retain(|id, _| !ids.contains(id));
        Ok(())
    }

    fn template_put(&mut self, template: &Template) -> Result<()> {
        self.need_worktree(&template.worktree_id)?;
        let is_twin = |other: &Template| {
            other.id == template.id || (other.name == template.name && other.version == template.version)
        };
        if self.rows.templates.values().any(is_twin) {
            return Err(Error::internal(format!("there is a template {} {} already", template.name, template.version)));
        }
        self.rows.templates.insert(template.id.clone(), template.clone());
        Ok(())
    }

    fn template_list(&mut self, name: Option<&str>) -> Result<Vec<Template>> {
        let mut latest: BTreeMap<&str, &Template> = BTreeMap::new();
        for template in self.rows.templates.values().filter(|template| name.is_none_or(|name| template.name == name)) {
            let known = latest.entry(&template.name).or_insert(template);
            if known.version < template.version {
                *known = template;
            }
        }
        Ok(latest.into_values().cloned().collect())
    }
}
