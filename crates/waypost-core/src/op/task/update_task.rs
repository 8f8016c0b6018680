//! Changes fields of a task that has not ended.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::context::OpContext;
use crate::error::{Error, Result};
use crate::model::kind;
use crate::op::{Access, Effect, Operation, StoreOperation};
use crate::words;
use crate::work::find;
use crate::work::view::{self, TaskView};

/// Changes fields of a task that has not ended. Its name stays: plans, contexts and messages refer to it.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct UpdateTask {
    /// The task: its id, its name, or `workflow/name`.
    pub task: String,
    /// The workflow of the task, if the task's name alone is ambiguous.
    #[serde(default)]
    pub workflow: Option<String>,
    /// The work to do.
    #[serde(default)]
    pub description: Option<String>,
    /// Conditions under which it is done, in the place of those it has.
    #[serde(default)]
    pub acceptance: Option<Vec<String>>,
    /// 0 is the most urgent, 4 the least.
    #[serde(default)]
    #[schemars(range(max = 4))]
    pub priority: Option<u32>,
    /// Maximum number of attempts.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub max_attempts: Option<u32>,
    /// Maximum duration of one attempt, in milliseconds, from the next attempt on; 0 removes it.
    #[serde(default)]
    pub timeout_ms: Option<u64>,
}

impl Operation for UpdateTask {
    const NAME: &'static str = "update_task";
    const SUMMARY: &'static str = "Change fields of a task";
    const EFFECT: Effect = Effect::Write;
    const ACCESS: Access = Access::OWN_WORK;
    type Answer = TaskView;
}

impl StoreOperation for UpdateTask {
    fn run(self, cx: &mut OpContext<'_>) -> Result<TaskView> {
        let task = find::task_to_change(cx, &self.task, self.workflow.as_deref())?;
        if task.status.is_final() {
            return Err(Error::conflict(format!("task {} is {}", task.name, task.status))
                .hint(format!("way task reopen {}", task.id)));
        }
        let mut after = task.clone();
        if let Some(description) = self.description {
            after.description = description;
        }
        if let Some(acceptance) = self.acceptance {
            after.acceptance = acceptance;
        }
        if let Some(priority) = self.priority {
            if priority > 4 {
                return Err(Error::invalid("a priority is a number from 0 to 4"));
            }
            after.priority = priority;
        }
        if let Some(max_attempts) = self.max_attempts {
            // A task with as many failed attempts would be dead already.
            if max_attempts <= task.attempts {
                let times = words::times(task.attempts);
                return Err(Error::invalid(format!("task {} has already failed {times}", task.name))
                    .hint(format!("max_attempts must be at least {}", task.attempts + 1)));
            }
            after.max_attempts = max_attempts;
        }
        if let Some(timeout) = self.timeout_ms {
            after.run_timeout_ms = Some(timeout).filter(|timeout| *timeout > 0);
        }
        if after == task {
            return Err(Error::invalid("nothing to change")
                .hint("give a description, acceptance, priority, max_attempts or timeout"));
        }
        after.updated_at = cx.now;
        cx.change_task(kind::TASK_CHANGED, &task, &after, json!({}))?;
        view::task(cx, after)
    }
}
