//! The rows of tasks, their dependencies and their checkpoints.

use std::collections::BTreeMap;

use waypost_core::error::{Error, Result};
use waypost_core::id::{TaskId, WorkflowId};
use waypost_core::model::{
    CandidateQuery, Candidates, Checkpoint, Dependency, DependencyKind, PlanPart, Progress, Reach, Task, TaskPlace,
    TaskStatus, WorkflowStatus,
};
use waypost_core::store::TaskTx;
use waypost_core::time::Timestamp;

use super::{MemoryTx, Rows, size, unknown};

impl TaskTx for MemoryTx<'_> {
    fn task_put(&mut self, task: &Task) -> Result<()> {
        self.need_worktree(&task.worktree_id)?;
        if !self.rows.workflows.contains_key(&task.workflow_id) {
            return Err(unknown("workflow", &task.workflow_id));
        }
        let is_twin =
            |other: &&Task| other.workflow_id == task.workflow_id && other.name == task.name && other.id != task.id;
        if self.rows.tasks.values().find(is_twin).is_some() {
            return Err(Error::internal(format!("there is a task {} already", task.name)));
        }
        if let Some(id) = task.repository_id.as_ref().filter(|id| !self.rows.repositories.contains_key(*id)) {
            return Err(unknown("repository", id));
        }
        task.assignee.as_ref().map_or(Ok(()), |agent| self.need_agent(agent))?;
        self.rows.tasks.insert(task.id.clone(), task.clone());
        Ok(())
    }

    fn task_advance(&mut self, id: &TaskId, progress: &Progress<'_>) -> Result<()> {
        let Some(task) = self.rows.tasks.get(id) else { return Ok(()) };
        let Progress { status, attempts, outcome, evidence, error, question, answer, .. } = *progress;
        let Progress { updated_at, queued_at, started_at, finished_at, due_at, .. } = *progress;
        let [outcome, evidence, error, question, answer] =
            [outcome, evidence, error, question, answer].map(|text| text.map(str::to_owned));
        let times = Task { updated_at, queued_at, started_at, finished_at, due_at, ..task.clone() };
        self.task_put(&Task { status, attempts, outcome, evidence, error, question, answer, ..times })
    }

    fn task_get(&mut self, id: &TaskId) -> Result<Option<Task>> {
        Ok(self.rows.tasks.get(id).cloned())
    }

    fn task_list_by_id(&mut self, ids: &[TaskId]) -> Result<Vec<Task>> {
        Ok(self.rows.tasks.values().filter(|task| ids.contains(&task.id)).cloned().collect())
    }

    fn task_remove(&mut self, id: &TaskId) -> Result<()> {
        let is_referenced = self.rows.dependencies.keys().any(|(task, on)| task == id || on == id)
            || self.rows.checkpoints.values().any(|checkpoint| checkpoint.task_id == *id)
            || self.rows.messages.values().any(|message| message.task_id.as_ref() == Some(id))
            || self.rows.notices.values().any(|notice| notice.task_id.as_ref() == Some(id));
        if is_referenced {
            return Err(Error::internal(format!("a row refers to task {id}")));
        }
        self.rows.tasks.remove(id);
        Ok(())
    }

    fn task_list(&mut self, workflow: &WorkflowId) -> Result<Vec<Task>> {
        let mut tasks: Vec<_> =
            self.rows.tasks.values().filter(|task| task.workflow_id == *workflow).cloned().collect();
        tasks.sort_by(|a, b| (a.sequence, &a.id).cmp(&(b.sequence, &b.id)));
        Ok(tasks)
    }

    fn task_list_part(&mut self, part: &PlanPart) -> Result<Vec<Task>> {
        let PlanPart { workflow_id, statuses, after, limit } = part;
        let mut tasks = self.task_list(workflow_id)?;
        tasks.retain(|task| {
            after.as_ref().is_none_or(|after| (task.sequence, task.id.clone()) > *after)
                && (statuses.is_empty() || statuses.contains(&task.status))
        });
        tasks.truncate(usize::try_from(*limit).unwrap_or(usize::MAX));
        Ok(tasks)
    }

    fn task_count_part(&mut self, part: &PlanPart) -> Result<u64> {
        Ok(self.task_list_part(&PlanPart { limit: u32::MAX, ..part.clone() })?.len() as u64)
    }

    fn task_list_in_workflows(&mut self, workflows: &[WorkflowId]) -> Result<Vec<Task>> {
        let tasks = self.rows.tasks.values().filter(|task| workflows.contains(&task.workflow_id));
        let mut tasks: Vec<_> = tasks.cloned().collect();
        tasks.sort_by(|a, b| (&a.workflow_id, a.sequence, &a.id).cmp(&(&b.workflow_id, b.sequence, &b.id)));
        Ok(tasks)
    }

    fn task_list_names(&mut self, workflow: &WorkflowId, limit: u32) -> Result<Vec<(TaskId, String, TaskStatus)>> {
        let tasks = self.task_list(workflow)?.into_iter().take(size(limit));
        Ok(tasks.map(|task| (task.id, task.name, task.status)).collect())
    }

    fn task_list_named(&mut self, name: &str, limit: u32) -> Result<Vec<Task>> {
        let mut tasks: Vec<_> = self.rows.tasks.values().filter(|task| task.name == name).cloned().collect();
        tasks.sort_by(|a, b| (b.created_at, &b.id).cmp(&(a.created_at, &a.id)));
        tasks.truncate(size(limit));
        Ok(tasks)
    }

    fn task_list_in(&mut self, status: TaskStatus, place: &TaskPlace, limit: u32) -> Result<Vec<Task>> {
        let Rows { tasks, worktrees, .. } = &self.rows;
        let is_there = |task: &&Task| {
            let repository = task.repository_id.as_ref().unwrap_or(&worktrees[&task.worktree_id].repository_id);
            task.status == status
                && place.worktree_id.as_ref().is_none_or(|wanted| *wanted == task.worktree_id)
                && (place.repositories.is_empty() || place.repositories.contains(repository))
        };
        let mut tasks: Vec<_> = tasks.values().filter(is_there).cloned().collect();
        tasks.sort_by(|a, b| (b.updated_at, &b.id).cmp(&(a.updated_at, &a.id)));
        tasks.truncate(size(limit));
        Ok(tasks)
    }

    fn task_list_claimable(&mut self, query: &CandidateQuery) -> Result<Vec<Task>> {
        let Rows { workflows, tasks, dependencies, worktrees, .. } = &self.rows;
        let is_considered = |task: &Task| match &query.of {
            Candidates::All => true,
            Candidates::OfWorkflow(id) => *id == task.workflow_id,
            Candidates::OfWorktree(id) => *id == task.worktree_id,
            Candidates::SharedWith(id) => {
                *id != task.worktree_id && workflows[&task.workflow_id].reach == Reach::Repository
            }
        };
        let is_of_repositories = |task: &Task| {
            let repository = task.repository_id.as_ref().unwrap_or(&worktrees[&task.worktree_id].repository_id);
            query.repositories.is_empty() || query.repositories.contains(repository)
        };
        let is_blocked = |task: &Task| {
            dependencies.iter().any(|((waiting, on), kind)| {
                *waiting == task.id && *kind == DependencyKind::Blocks && !tasks[on].status.satisfies()
            })
        };
        let mut claimable: Vec<_> = tasks
            .values()
            .filter(|task| {
                task.status == TaskStatus::Pending
                    && workflows[&task.workflow_id].status == WorkflowStatus::InProgress
                    && is_considered(task)
                    && is_of_repositories(task)
                    && !is_blocked(task)
            })
            .cloned()
            .collect();
        claimable.sort_by(|a, b| {
            (a.priority, a.queued_at, a.sequence, &a.id).cmp(&(b.priority, b.queued_at, b.sequence, &b.id))
        });
        Ok(claimable.into_iter().skip(size(query.skip)).take(size(query.limit)).collect())
    }

    fn task_list_due(&mut self, now: Timestamp, limit: u32) -> Result<Vec<Task>> {
        let is_due = |task: &&Task| task.due_at.is_some_and(|due| due <= now);
        let mut due: Vec<_> = self.rows.tasks.values().filter(is_due).cloned().collect();
        due.sort_by(|a, b| (a.due_at, &a.id).cmp(&(b.due_at, &b.id)));
        due.truncate(size(limit));
        Ok(due)
    }

    fn task_count(&mut self, workflow: &WorkflowId) -> Result<Vec<(TaskStatus, u64)>> {
        let mut counts = BTreeMap::new();
        for task in self.rows.tasks.values().filter(|task| task.workflow_id == *workflow) {
            *counts.entry(task.status).or_default() += 1;
        }
        Ok(counts.into_iter().collect())
    }

    fn task_count_in_workflows(&mut self, workflows: &[WorkflowId]) -> Result<Vec<(WorkflowId, TaskStatus, u64)>> {
        let mut counts = BTreeMap::new();
        for task in self.rows.tasks.values().filter(|task| workflows.contains(&task.workflow_id)) {
            *counts.entry((task.workflow_id.clone(), task.status)).or_default() += 1;
        }
        Ok(counts.into_iter().map(|((workflow, status), count)| (workflow, status, count)).collect())
    }

    fn task_list_statuses(&mut self, workflow: &WorkflowId) -> Result<Vec<TaskStatus>> {
        Ok(self.task_count(workflow)?.into_iter().map(|(status, _)| status).collect())
    }

    fn dependency_put(&mut self, dependency: &Dependency) -> Result<()> {
        self.need_task(&dependency.task_id)?;
        self.need_task(&dependency.depends_on)?;
        let key = (dependency.task_id.clone(), dependency.depends_on.clone());
        self.rows.dependencies.insert(key, dependency.kind);
        Ok(())
    }

    fn dependency_remove(&mut self, task: &TaskId, depends_on: &TaskId) -> Result<()> {
        self.rows.dependencies.remove(&(task.clone(), depends_on.clone()));
        Ok(())
    }

    fn dependency_list(&mut self, workflow: &WorkflowId) -> Result<Vec<Dependency>> {
        let tasks = &self.rows.tasks;
        Ok(self.dependencies(|task| tasks[task].workflow_id == *workflow))
    }

    fn dependency_list_in_workflows(&mut self, workflows: &[WorkflowId]) -> Result<Vec<Dependency>> {
        let tasks = &self.rows.tasks;
        Ok(self.dependencies(|task| workflows.contains(&tasks[task].workflow_id)))
    }

    fn dependency_list_of(&mut self, task: &TaskId) -> Result<Vec<Dependency>> {
        Ok(self.dependencies(|of| of == task))
    }

    fn dependency_list_by_task(&mut self, tasks: &[TaskId]) -> Result<Vec<Dependency>> {
        Ok(self.dependencies(|of| tasks.contains(of)))
    }

    fn checkpoint_put(&mut self, checkpoint: &Checkpoint) -> Result<()> {
        self.need_worktree(&checkpoint.worktree_id)?;
        self.need_task(&checkpoint.task_id)?;
        self.need_agent(&checkpoint.agent_id)?;
        let is_twin = |other: &Checkpoint| {
            other.id == checkpoint.id || (other.task_id == checkpoint.task_id && other.sequence == checkpoint.sequence)
        };
        if self.rows.checkpoints.values().any(is_twin) {
            return Err(Error::internal(format!("there is a checkpoint {} already", checkpoint.sequence)));
        }
        self.rows.checkpoints.insert(checkpoint.id.clone(), checkpoint.clone());
        Ok(())
    }

    fn checkpoint_list(&mut self, task: &TaskId, before: Option<u32>, limit: u32) -> Result<Vec<Checkpoint>> {
        let matches = |checkpoint: &&Checkpoint| {
            checkpoint.task_id == *task && before.is_none_or(|before| checkpoint.sequence < before)
        };
        let mut checkpoints: Vec<_> = self.rows.checkpoints.values().filter(matches).cloned().collect();
        checkpoints.sort_by_key(|checkpoint| std::cmp::Reverse(checkpoint.sequence));
        checkpoints.truncate(size(limit));
        Ok(checkpoints)
    }

    fn checkpoint_last(&mut self, task: &TaskId) -> Result<u32> {
        Ok(self.checkpoint_list(task, None, 1)?.first().map_or(0, |last| last.sequence))
    }
}
