//! Fails the current attempt on a task. The task is retried while attempts remain.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::context::OpContext;
use crate::error::{Error, Result};
use crate::op::{Access, Effect, JobAccess, Operation, StoreOperation};
use crate::work::attempt::{self, End};
use crate::work::view::{self, TaskView};
use crate::work::{agents, find, lease};

/// Fails the current attempt on a task. The task is retried while attempts remain.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct FailTask {
    /// The task: its id, its name, or `workflow/name`.
    pub task: String,
    /// The workflow of the task, if the task's name alone is ambiguous.
    #[serde(default)]
    pub workflow: Option<String>,
    /// The epoch of the caller's lease.
    #[serde(default)]
    pub epoch: Option<u64>,
    /// The error.
    pub error: String,
    /// Do not retry: no further attempt can succeed.
    #[serde(default)]
    pub hopeless: bool,
}

impl Operation for FailTask {
    const NAME: &'static str = "fail_task";
    const SUMMARY: &'static str = "Fail the current attempt on a task";
    const EFFECT: Effect = Effect::Write;
    const ACCESS: Access = Access::AGENTS.with_jobs(JobAccess::OwnTask);
    type Answer = TaskView;
}

impl StoreOperation for FailTask {
    const USES_RESERVE: bool = true;

    fn run(self, cx: &mut OpContext<'_>) -> Result<TaskView> {
        let mut agent = agents::find_or_register_caller(cx)?;
        let task = find::task(cx, &self.task, self.workflow.as_deref())?;
        let held = lease::require(cx, &task, &agent, self.epoch)?;
        if self.error.trim().is_empty() {
            return Err(Error::invalid(format!("failing task {} needs an error", task.name)).hint("--error TEXT"));
        }
        let end = if self.hopeless { End::Hopeless } else { End::Failed };
        let task = attempt::fail(cx, &task, Some(held), end, &self.error)?;
        agents::touch(cx, &mut agent)?;
        view::task(cx, task)
    }
}
