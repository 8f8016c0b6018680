//! Shows a task with its latest checkpoints and its history.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::context::OpContext;
use crate::error::Result;
use crate::model::{Checkpoint, Event, EventQuery};
use crate::op::{Access, Effect, JobAccess, Operation, StoreOperation};
use crate::work::find;
use crate::work::view::{self, TaskView};

/// Shows a task with its latest checkpoints and its history.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ShowTask {
    /// The task: its id, its name, or `workflow/name`.
    pub task: String,
    /// The workflow of the task, if the task's name alone is ambiguous.
    #[serde(default)]
    pub workflow: Option<String>,
}

/// The answer to [`ShowTask`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskPage {
    /// The task.
    #[serde(flatten)]
    pub task: TaskView,
    /// The most recent checkpoints, latest first.
    pub checkpoints: Vec<Checkpoint>,
    /// The most recent events, latest first.
    pub events: Vec<Event>,
}

impl Operation for ShowTask {
    const NAME: &'static str = "show_task";
    const SUMMARY: &'static str = "Show a task";
    const EFFECT: Effect = Effect::Read;
    const ACCESS: Access = Access::AGENTS.with_jobs(JobAccess::OwnTask);
    type Answer = TaskPage;
}

impl StoreOperation for ShowTask {
    fn run(self, cx: &mut OpContext<'_>) -> Result<TaskPage> {
        let task = find::task(cx, &self.task, self.workflow.as_deref())?;
        let checkpoints = cx.tx.checkpoint_list(&task.id, None, 5)?;
        let query = EventQuery { subject: Some(task.id.to_string()), limit: 10, ..EventQuery::default() };
        let events = cx.tx.event_list(&query)?;
        Ok(TaskPage { task: view::task(cx, task)?, checkpoints, events })
    }
}
