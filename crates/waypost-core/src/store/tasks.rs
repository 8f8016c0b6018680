//! The rows of tasks, their dependencies and their checkpoints.

use crate::error::Result;
use crate::id::{TaskId, WorkflowId};
use crate::model::{CandidateQuery, Checkpoint, Dependency, PlanPart, Progress, Task, TaskPlace, TaskStatus};
use crate::time::Timestamp;

/// The part of a transaction that is about tasks, their dependencies and their checkpoints.
pub trait TaskTx {
    /// Inserts a task, or replaces the one with its id.
    fn task_put(&mut self, task: &Task) -> Result<()>;
    /// Replaces the progress of a task, which is much less to write than the whole task.
    fn task_advance(&mut self, id: &TaskId, progress: &Progress<'_>) -> Result<()>;
    /// Returns a task.
    fn task_get(&mut self, id: &TaskId) -> Result<Option<Task>>;
    /// Returns the tasks with these ids, by id.
    fn task_list_by_id(&mut self, ids: &[TaskId]) -> Result<Vec<Task>>;
    /// Deletes a task that has no dependencies and no checkpoints.
    fn task_remove(&mut self, id: &TaskId) -> Result<()>;
    /// Returns the tasks of a workflow, in plan order.
    fn task_list(&mut self, workflow: &WorkflowId) -> Result<Vec<Task>>;
    /// Returns a part of the tasks of a workflow, in plan order. The time taken does not depend on the tasks after it.
    fn task_list_part(&mut self, part: &PlanPart) -> Result<Vec<Task>>;
    /// Returns the number of tasks of such a part, regardless of its limit.
    fn task_count_part(&mut self, part: &PlanPart) -> Result<u64>;
    /// Returns the tasks of several workflows, by workflow id and then in plan order.
    fn task_list_in_workflows(&mut self, workflows: &[WorkflowId]) -> Result<Vec<Task>>;
    /// Returns the id, name and status of the first tasks of a workflow, in plan order.
    fn task_list_names(&mut self, workflow: &WorkflowId, limit: u32) -> Result<Vec<(TaskId, String, TaskStatus)>>;
    /// Returns the tasks with a name in all workflows, newest first.
    fn task_list_named(&mut self, name: &str, limit: u32) -> Result<Vec<Task>>;
    /// Returns the tasks with a status in all workflows, of a place, last changed first.
    fn task_list_in(&mut self, status: TaskStatus, place: &TaskPlace, limit: u32) -> Result<Vec<Task>>;
    /// Returns claimable tasks: pending, not blocked, in a running workflow. Ordered by priority, then queue time, then
    /// plan order.
    fn task_list_claimable(&mut self, query: &CandidateQuery) -> Result<Vec<Task>>;
    /// Returns the tasks with a due transition at a moment, the earliest first.
    fn task_list_due(&mut self, now: Timestamp, limit: u32) -> Result<Vec<Task>>;
    /// Returns the number of tasks of a workflow by status.
    fn task_count(&mut self, workflow: &WorkflowId) -> Result<Vec<(TaskStatus, u64)>>;
    /// Returns the number of tasks of several workflows, by workflow id and status.
    fn task_count_in_workflows(&mut self, workflows: &[WorkflowId]) -> Result<Vec<(WorkflowId, TaskStatus, u64)>>;
    /// Returns the distinct statuses of a workflow's tasks. The time taken does not depend on the number of tasks.
    fn task_list_statuses(&mut self, workflow: &WorkflowId) -> Result<Vec<TaskStatus>>;

    /// Inserts a dependency, or replaces the one between the same tasks.
    fn dependency_put(&mut self, dependency: &Dependency) -> Result<()>;
    /// Deletes a dependency.
    fn dependency_remove(&mut self, task: &TaskId, depends_on: &TaskId) -> Result<()>;
    /// Returns all dependencies of a workflow's tasks, by id.
    fn dependency_list(&mut self, workflow: &WorkflowId) -> Result<Vec<Dependency>>;
    /// Returns all dependencies of the tasks of several workflows, by id.
    fn dependency_list_in_workflows(&mut self, workflows: &[WorkflowId]) -> Result<Vec<Dependency>>;
    /// Returns the dependencies of a task, by id.
    fn dependency_list_of(&mut self, task: &TaskId) -> Result<Vec<Dependency>>;
    /// Returns the dependencies of these tasks, by id.
    fn dependency_list_by_task(&mut self, tasks: &[TaskId]) -> Result<Vec<Dependency>>;

    /// Inserts a checkpoint.
    fn checkpoint_put(&mut self, checkpoint: &Checkpoint) -> Result<()>;
    /// Returns the checkpoints of a task before a sequence, the latest first.
    fn checkpoint_list(&mut self, task: &TaskId, before: Option<u32>, limit: u32) -> Result<Vec<Checkpoint>>;
    /// Returns the sequence of the latest checkpoint of a task; 0 if there is none.
    fn checkpoint_last(&mut self, task: &TaskId) -> Result<u32>;
}
