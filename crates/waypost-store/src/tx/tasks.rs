//! The rows of tasks, their dependencies and their checkpoints.

use waypost_core::Result;
use waypost_core::id::{TaskId, WorkflowId};
use waypost_core::model::{CandidateQuery, Checkpoint, Dependency, PlanPart, Progress, Task, TaskPlace, TaskStatus};
use waypost_core::store::TaskTx;
use waypost_core::time::Timestamp;

use super::SqlTx;
use crate::cell::{Row, cells, json, one_number, one_parsed};
use crate::sql;

impl TaskTx for SqlTx<'_> {
    fn task_put(&mut self, task: &Task) -> Result<()> {
        self.put(task)
    }

    fn task_advance(&mut self, id: &TaskId, progress: &Progress<'_>) -> Result<()> {
        self.update(id.as_str(), progress)
    }

    fn task_get(&mut self, id: &TaskId) -> Result<Option<Task>> {
        self.one(sql::TASK_GET, cells![id.as_str()])
    }

    fn task_list_by_id(&mut self, ids: &[TaskId]) -> Result<Vec<Task>> {
        self.all_in(sql::TASK_LIST_BY_ID, &ids)
    }

    fn task_remove(&mut self, id: &TaskId) -> Result<()> {
        self.run(sql::TASK_REMOVE, cells![id.as_str()])
    }

    fn task_list(&mut self, workflow: &WorkflowId) -> Result<Vec<Task>> {
        self.all(sql::TASK_LIST, cells![workflow.as_str()])
    }

    fn task_list_part(&mut self, part: &PlanPart) -> Result<Vec<Task>> {
        self.all(sql::TASK_LIST_PART, &sql::plan_part(part))
    }

    fn task_count_part(&mut self, part: &PlanPart) -> Result<u64> {
        let [of_part @ .., _] = sql::plan_part(part);
        self.number(sql::TASK_COUNT_PART, &of_part)
    }

    fn task_list_in_workflows(&mut self, workflows: &[WorkflowId]) -> Result<Vec<Task>> {
        self.all_in(sql::TASK_LIST_IN_WORKFLOWS, &workflows)
    }

    fn task_list_names(&mut self, workflow: &WorkflowId, limit: u32) -> Result<Vec<(TaskId, String, TaskStatus)>> {
        let name = |row: &mut Row<'_>| Ok((row.parsed()?, row.text()?, row.parsed()?));
        self.read(sql::TASK_LIST_NAMES, cells![limit, workflow.as_str()], name)
    }

    fn task_list_named(&mut self, name: &str, limit: u32) -> Result<Vec<Task>> {
        self.all(sql::TASK_LIST_NAMED, cells![limit, name])
    }

    fn task_list_in(&mut self, status: TaskStatus, place: &TaskPlace, limit: u32) -> Result<Vec<Task>> {
        self.listed(sql::task_list_in(status, place, limit))
    }

    fn task_list_claimable(&mut self, query: &CandidateQuery) -> Result<Vec<Task>> {
        self.listed(sql::task_list_claimable(query))
    }

    fn task_list_due(&mut self, now: Timestamp, limit: u32) -> Result<Vec<Task>> {
        self.all(sql::TASK_LIST_DUE, cells![limit, now])
    }

    fn task_count(&mut self, workflow: &WorkflowId) -> Result<Vec<(TaskStatus, u64)>> {
        let count = |row: &mut Row<'_>| Ok((row.parsed()?, row.number()?));
        let mut counts = self.read(sql::TASK_COUNT, cells![workflow.as_str()], count)?;
        counts.sort_unstable();
        Ok(counts)
    }

    fn task_count_in_workflows(&mut self, workflows: &[WorkflowId]) -> Result<Vec<(WorkflowId, TaskStatus, u64)>> {
        let count = |row: &mut Row<'_>| Ok((row.parsed()?, row.parsed()?, row.number()?));
        let mut counts = self.read(sql::TASK_COUNT_IN_WORKFLOWS, &[json(&workflows)?], count)?;
        counts.sort_unstable();
        Ok(counts)
    }

    fn task_list_statuses(&mut self, workflow: &WorkflowId) -> Result<Vec<TaskStatus>> {
        let mut statuses = self.read(sql::TASK_LIST_STATUSES, cells![workflow.as_str()], one_parsed)?;
        statuses.sort_unstable();
        Ok(statuses)
    }

    fn dependency_put(&mut self, dependency: &Dependency) -> Result<()> {
        self.put(dependency)
    }

    fn dependency_remove(&mut self, task: &TaskId, depends_on: &TaskId) -> Result<()> {
        self.run(sql::DEPENDENCY_REMOVE, cells![task.as_str(), depends_on.as_str()])
    }

    fn dependency_list(&mut self, workflow: &WorkflowId) -> Result<Vec<Dependency>> {
        self.all(sql::DEPENDENCY_LIST, cells![workflow.as_str()])
    }

    fn dependency_list_in_workflows(&mut self, workflows: &[WorkflowId]) -> Result<Vec<Dependency>> {
        self.all_in(sql::DEPENDENCY_LIST_IN_WORKFLOWS, &workflows)
    }

    fn dependency_list_of(&mut self, task: &TaskId) -> Result<Vec<Dependency>> {
        self.all(sql::DEPENDENCY_LIST_OF, cells![task.as_str()])
    }

    fn dependency_list_by_task(&mut self, tasks: &[TaskId]) -> Result<Vec<Dependency>> {
        self.all_in(sql::DEPENDENCY_LIST_BY_TASK, &tasks)
    }

    fn checkpoint_put(&mut self, checkpoint: &Checkpoint) -> Result<()> {
        self.put(checkpoint)
    }

    fn checkpoint_list(&mut self, task: &TaskId, before: Option<u32>, limit: u32) -> Result<Vec<Checkpoint>> {
        let before = before.map_or(i64::MAX.cast_unsigned(), u64::from);
        self.all(sql::CHECKPOINT_LIST, cells![limit, task.as_str(), before])
    }

    fn checkpoint_last(&mut self, task: &TaskId) -> Result<u32> {
        Ok(self.first(sql::CHECKPOINT_LAST, cells![task.as_str()], one_number)?.unwrap_or_default())
    }
}
