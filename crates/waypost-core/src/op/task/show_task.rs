//! Shows a task with its latest checkpoints and its history.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::context::OpContext;
use crate::error::Result;
use crate::model::{Event, EventQuery};
use crate::op::{CheckpointView, Effect, Operation, StoreOperation};
use crate::tree;
use crate::work::find;
use crate::work::view::{self, TaskView};

/// Shows a task with its latest checkpoints and its history.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct ShowTask {
    /// The task: its id, its name, or `workflow/name`.
    pub task: String,
    /// The workflow of the task, if the task's name alone is ambiguous.
    #[serde(default)]
    pub workflow: Option<String>,
    /// Only a task of this repository: its id, name or path.
    #[serde(default)]
    pub repository: Option<String>,
}

/// The answer to [`ShowTask`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskPage {
    /// The task.
    #[serde(flatten, deserialize_with = "tree::flattened")]
    pub task: TaskView,
    /// The most recent checkpoints, latest first.
    pub checkpoints: Vec<CheckpointView>,
    /// The most recent events, latest first.
    pub events: Vec<Event>,
}

impl Operation for ShowTask {
    const NAME: &'static str = "show_task";
    const SUMMARY: &'static str = "Show a task";
    const EFFECT: Effect = Effect::Read;
    type Answer = TaskPage;
}

impl StoreOperation for ShowTask {
    fn run(self, cx: &mut OpContext<'_>) -> Result<TaskPage> {
        let repositories = find::chosen_repositories(cx, self.repository.as_deref())?;
        let task = find::task_in(cx, &self.task, self.workflow.as_deref(), &repositories)?;
        let checkpoints = cx.tx.checkpoint_list(&task.id, None, 5)?;
        let checkpoints = CheckpointView::all(cx, checkpoints)?;
        let query = EventQuery { subject: Some(task.id.to_string()), limit: 10, ..EventQuery::default() };
        let events = cx.tx.event_list(&query)?;
        Ok(TaskPage { task: view::task(cx, task)?, checkpoints, events })
    }
}
