//! Releases a claimed task. The attempt is not counted.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::context::OpContext;
use crate::error::{Error, Result};
use crate::model::{TaskStatus, kind};
use crate::op::{Access, Effect, JobAccess, Operation, StoreOperation};
use crate::work::view::{self, TaskView};
use crate::work::{agents, find, jobs, lease};

/// Releases a claimed task. The attempt is not counted.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct ReleaseTask {
    /// The task: its id, its name, or `workflow/name`.
    pub task: String,
    /// The workflow of the task, if the task's name alone is ambiguous.
    #[serde(default)]
    pub workflow: Option<String>,
    /// The epoch of the caller's lease.
    #[serde(default)]
    pub epoch: Option<u64>,
    /// End the lease of another agent. Only coordinators and people may do this.
    #[serde(default)]
    pub force: bool,
    /// The reason.
    #[serde(default)]
    pub reason: Option<String>,
}

impl Operation for ReleaseTask {
    const NAME: &'static str = "release_task";
    const SUMMARY: &'static str = "Release a claimed task";
    const EFFECT: Effect = Effect::Write;
    const ACCESS: Access = Access::AGENTS.with_jobs(JobAccess::OwnTask);
    type Answer = TaskView;
}

impl StoreOperation for ReleaseTask {
    const CANCELS_JOBS: bool = true;
    const USES_RESERVE: bool = true;

    fn run(self, cx: &mut OpContext<'_>) -> Result<TaskView> {
        let mut agent = agents::find_or_register_caller(cx)?;
        let task = find::task(cx, &self.task, self.workflow.as_deref())?;
        if self.force {
            agents::require_coordinator(&agent, "releasing a task of another agent")?;
            if task.status != TaskStatus::InProgress {
                return Err(Error::conflict(format!("task {} is {} and not held by an agent", task.name, task.status)));
            }
        } else {
            lease::require(cx, &task, &agent, self.epoch)?;
        }
        let reason = self.reason.unwrap_or_default();
        let task = jobs::withdraw(cx, &task, TaskStatus::Pending, kind::TASK_RELEASED, &reason)?;
        agents::touch(cx, &mut agent)?;
        view::task(cx, task)
    }
}
