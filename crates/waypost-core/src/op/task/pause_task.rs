//! Pauses a claimed task until an agent claims it by name.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::context::OpContext;
use crate::error::Result;
use crate::model::{TaskStatus, kind};
use crate::op::{Access, Effect, JobAccess, Operation, StoreOperation};
use crate::work::view::{self, TaskView};
use crate::work::{agents, find, jobs, lease};

/// Pauses a claimed task until an agent claims it by name.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct PauseTask {
    /// The task: its id, its name, or `workflow/name`.
    pub task: String,
    /// The workflow of the task, if the task's name alone is ambiguous.
    #[serde(default)]
    pub workflow: Option<String>,
    /// The epoch of the caller's lease.
    #[serde(default)]
    pub epoch: Option<u64>,
    /// The reason.
    #[serde(default)]
    pub reason: Option<String>,
}

impl Operation for PauseTask {
    const NAME: &'static str = "pause_task";
    const SUMMARY: &'static str = "Pause a claimed task";
    const EFFECT: Effect = Effect::Write;
    const ACCESS: Access = Access::AGENTS.with_jobs(JobAccess::OwnTask);
    type Answer = TaskView;
}

impl StoreOperation for PauseTask {
    const CANCELS_JOBS: bool = true;

    fn run(self, cx: &mut OpContext<'_>) -> Result<TaskView> {
        let mut agent = agents::find_or_register_caller(cx)?;
        let task = find::task(cx, &self.task, self.workflow.as_deref())?;
        lease::require(cx, &task, &agent, self.epoch)?;
        let reason = self.reason.unwrap_or_default();
        let task = jobs::withdraw(cx, &task, TaskStatus::Paused, kind::TASK_PAUSED, &reason)?;
        agents::touch(cx, &mut agent)?;
        view::task(cx, task)
    }
}
