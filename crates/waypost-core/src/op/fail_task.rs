//! Ends an attempt that did not succeed. The next one follows while attempts remain.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Effect, Operation};
use crate::context::OpContext;
use crate::error::{Error, Result};
use crate::work::attempt::{self, End};
use crate::work::view::{self, TaskView};
use crate::work::{agents, find, lease};

/// Ends an attempt that did not succeed. The next one follows while attempts remain.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct FailTask {
    /// Which one: its id, its name, or `workflow/name`.
    pub task: String,
    /// The workflow it is in, if its name alone does not say.
    #[serde(default)]
    pub workflow: Option<String>,
    /// The epoch of the caller's lease.
    #[serde(default)]
    pub epoch: Option<u64>,
    /// What went wrong.
    pub error: String,
    /// No further attempt can succeed.
    #[serde(default)]
    pub hopeless: bool,
}

impl Operation for FailTask {
    const NAME: &'static str = "fail_task";
    const SUMMARY: &'static str = "End an attempt that did not succeed";
    const EFFECT: Effect = Effect::Write;
    const USES_RESERVE: bool = true;
    type Answer = TaskView;

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
