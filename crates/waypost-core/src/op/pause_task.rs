//! Sets a claimed task aside, until somebody claims it by name.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Effect, Operation};
use crate::context::OpContext;
use crate::error::Result;
use crate::model::{TaskStatus, kind};
use crate::work::view::{self, TaskView};
use crate::work::{agents, attempt, find, lease};

/// Sets a claimed task aside, until somebody claims it by name.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PauseTask {
    /// Which one: its id, its name, or `workflow/name`.
    pub task: String,
    /// The workflow it is in, if its name alone does not say.
    #[serde(default)]
    pub workflow: Option<String>,
    /// The epoch of the caller's lease.
    #[serde(default)]
    pub epoch: Option<u64>,
    /// Why.
    #[serde(default)]
    pub reason: Option<String>,
}

impl Operation for PauseTask {
    const NAME: &'static str = "pause_task";
    const SUMMARY: &'static str = "Set a claimed task aside";
    const EFFECT: Effect = Effect::Write;
    type Answer = TaskView;

    fn run(self, cx: &mut OpContext<'_>) -> Result<TaskView> {
        let mut agent = agents::find_or_register_caller(cx)?;
        let task = find::task(cx, &self.task, self.workflow.as_deref())?;
        lease::require(cx, &task, &agent, self.epoch)?;
        let reason = self.reason.unwrap_or_default();
        let task = attempt::withdraw(cx, &task, TaskStatus::Paused, kind::TASK_PAUSED, &reason)?;
        agents::touch(cx, &mut agent)?;
        view::task(cx, task)
    }
}
